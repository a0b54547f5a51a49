"""Sealed functions, which passes treat as a single operation."""

from passat.ir.expr import Expr, Function


def is_sealed(expr: Expr) -> bool:
    """Whether an expression is a function that represents a single operation: a fused call (`Primitive`), a match of a pattern table
    (`Composite`), or a region for another compiler (`Compiler`).

    >>> from passat.ir.text import parse_expr
    >>> [is_sealed(parse_expr(f"fn (%x: int8{attrs}) {{ %x }}")) for attrs in ("", ", Primitive=1", ", Primitive=0", ', Composite="a"')]
    [False, True, False, True]
    """
    if not isinstance(expr, Function):
        return False
    attrs = expr.attrs
    return bool(attrs) and (bool(attrs.get("Primitive")) or "Composite" in attrs or "Compiler" in attrs)
