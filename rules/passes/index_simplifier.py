"""Simplifies the integer expressions within expressions and statements of loops, all in one e-graph.

A walk, not rules: it finds the expressions and puts their smallest forms in place; what is smaller, the rules say
(`passat.rules.library.index_arithmetic`).
"""

from collections.abc import Iterable, Sequence
from typing import Any as AnyValue

from passat.ir.expr import Expr
from passat.ir.tir.equality import difference
from passat.ir.tir.expr import Cast, Const, FloatImm, IntImm, PrimExpr, Var, cast
from passat.ir.tir.functor import children, map_children, rewrite
from passat.ir.tir.node import Node
from passat.rules.passes.index_expressions import Reader, Writer, is_index
from passat.rules.passes.index_saturation import LIMITS, IndexGraph


def is_simplified(node: object) -> bool:
    """True for the expressions that rules simplify: integers of 32 and 64 bits, and truth values."""
    return isinstance(node, PrimExpr) and (is_index(node.dtype) or node.dtype == "bool")


def _folded(node: AnyValue) -> PrimExpr | None:
    """The value of a conversion of a constant."""
    if not isinstance(node, Cast) or not isinstance(node.value, (IntImm, FloatImm)):
        return None
    return cast(node.dtype, node.value)


class Simplified:
    """The smallest forms of the integer expressions in some nodes, and of further expressions."""

    def __init__(self, roots: Iterable[Node], reader: Reader, extra: Sequence[Expr] = ()) -> None:
        self._reader = reader
        self._small: dict[int, tuple[PrimExpr, Expr]] = {}
        self._placed: dict[int, PrimExpr] = {}
        found = self._collect(roots)
        exprs = [reader.read(node) for node in found]
        self.extra: Sequence[Expr] = ()
        if exprs or extra:
            smallest = IndexGraph([*exprs, *extra], forms=True, limits=LIMITS).all_smallest()
            self._small = {id(node): (node, expr) for node, expr in zip(found, smallest, strict=False)}
            self.extra = smallest[len(exprs) :]
        self._writer = Writer(reader.leaves, self._inside)

    def _collect(self, roots: Iterable[Node]) -> list[PrimExpr]:
        """The largest integer expressions, including those within the reads and calls that they contain."""
        found: dict[int, PrimExpr] = {}
        seen: set[int] = set()
        stack = list(roots)
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, PrimExpr) and is_simplified(node) and not isinstance(node, (Const, Var)):
                found[id(node)] = node
                known = len(self._reader.leaves)
                self._reader.read(node)
                for leaf in list(self._reader.leaves.values())[known:]:
                    stack += children(leaf)
            else:
                stack += children(node)
        return list(found.values())

    def place(self, node: AnyValue) -> AnyValue:
        """A node with its integer expressions replaced by their smallest forms."""
        return rewrite(node, after=_folded, before=self._replaced)

    def _replaced(self, node: AnyValue) -> PrimExpr | None:
        if id(node) not in self._small:
            return None
        if id(node) not in self._placed:
            original, expr = self._small[id(node)]
            made = self._writer.write(expr, original.dtype)
            self._placed[id(node)] = original if difference(original, made) is None else made
        return self._placed[id(node)]

    def _inside(self, leaf: PrimExpr) -> PrimExpr:
        """A read or call with what is within it replaced."""
        return map_children(leaf, self.place)
