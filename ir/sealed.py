"""Functions that passes leave as they are: what is in them is one operation to everybody around."""

from passat.ir.expr import Expr, Function


def is_sealed(expr: Expr) -> bool:
    """Whether an expression is a function that stands for one operation: fused calls (`Primitive`), what a pattern of a table matched
    (`Composite`), or what another compiler gets (`Compiler`).

    >>> from passat.ir.text import parse_expr
    >>> [is_sealed(parse_expr(f"fn (%x: int8{attrs}) {{ %x }}")) for attrs in ("", ", Primitive=1", ", Primitive=0", ', Composite="a"')]
    [False, True, False, True]
    """
    if not isinstance(expr, Function):
        return False
    attrs = expr.attrs
    return bool(attrs) and (bool(attrs.get("Primitive")) or "Composite" in attrs or "Compiler" in attrs)
