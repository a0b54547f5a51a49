"""`tvm.parser`: programs from texts."""

from passat.ir.text import ParseError, fromtext, parse, parse_expr

__all__ = ["ParseError", "fromtext", "parse", "parse_expr"]
