"""`tvm.parser`: programs from texts."""

from passat.ir.text import ParseError, fromtext, parse, parse_expr

SEMVER = '#[version = "0.0.5"]\n'
"""The line with which a text of a module begins."""

__all__ = ["SEMVER", "ParseError", "fromtext", "parse", "parse_expr"]
