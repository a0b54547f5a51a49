"""Relay's text format 0.0.5: `astext` prints it, `parse` and `parse_expr` read it."""

from passat.ir.text.lexer import ParseError
from passat.ir.text.parser import fromtext, parse, parse_expr
from passat.ir.text.printer import astext, pretty_print

__all__ = ["ParseError", "astext", "fromtext", "parse", "parse_expr", "pretty_print"]
