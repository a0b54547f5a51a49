"""Explains why a rule did not fire on a program: what it matched, what rejected it, what it would have cost, and its near misses."""

from passat.rules.why_not.answer import Answer, Finding, Kind, set_text
from passat.rules.why_not.ask import Inquiry, WhyNotError, why_not, why_not_set

__all__ = ["Answer", "Finding", "Inquiry", "Kind", "WhyNotError", "set_text", "why_not", "why_not_set"]
