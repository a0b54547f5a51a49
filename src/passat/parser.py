"""`tvm.parser`: parses programs."""

from passat.ir.text import ParseError, fromtext, parse, parse_expr

SEMVER = '#[version = "0.0.5"]\n'
"""The first line of a module's text."""

__all__ = ["SEMVER", "ParseError", "fromtext", "parse", "parse_expr"]
