"""Sealed functions, which passes treat as a single operation."""

from collections.abc import Callable, Sequence

from passat.ir.expr import Expr, Function
from passat.ir.traverse import children, post_order


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


def nodes_in(function: Expr, parts_of: Callable[[Expr], Sequence[Expr]] = children) -> list[Expr]:
    """The nodes of a function, parts first, as `post_order` lists them, without the contents of the sealed functions in it."""
    return post_order(function, into=lambda node: node is function or not is_sealed(node), parts_of=parts_of)
