"""Partial evaluation: computes the known parts of a program, including calls, branches, data structures and references, and keeps the
rest."""

from passat.ir.partial_evaluation.evaluator import MOST_INLINED, PartialEvaluator
from passat.ir.partial_evaluation.values import Fold

__all__ = ["MOST_INLINED", "Fold", "PartialEvaluator"]
