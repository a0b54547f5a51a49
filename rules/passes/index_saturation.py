"""Simplifies the integer expressions within expressions and statements of loops: all in one e-graph, first to normal forms, then with short
forms to extract.

A walk finds the expressions and puts their smallest forms in place; what is smaller, the rules say
(`passat.rules.library.index_arithmetic`).
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.expr import Expr, Tuple
from passat.ir.infer import infer_type
from passat.ir.op import Op
from passat.ir.tir.equality import difference
from passat.ir.tir.expr import Cast, Const, FloatImm, IntImm, PrimExpr, Var, cast
from passat.ir.tir.functor import children, map_children, rewrite
from passat.ir.tir.node import Node
from passat.ir.types import Type
from passat.rules.cost import EPSILON
from passat.rules.engine.directions import Directions, Stage
from passat.rules.engine.eager import Eager
from passat.rules.engine.graph import Graph
from passat.rules.engine.limits import Limits
from passat.rules.engine.rebuild import rebuild
from passat.rules.engine.saturate import Saturator
from passat.rules.extraction.extract import extract
from passat.rules.library.arithmetic import Arithmetic
from passat.rules.library.factoring import Factoring
from passat.rules.library.index_arithmetic import IndexCasts, IndexExtrema, IndexQuotients, IndexSums
from passat.rules.library.index_forms import IndexRemainders, IndexShortForms, IndexSolved
from passat.rules.library.index_logic import IndexComparisons, IndexLogic, IndexSelections
from passat.rules.library.masks import Masks
from passat.rules.passes.index_expressions import Reader, Writer, is_index
from passat.rules.rule import EXPLORING, Rule


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
            smallest = IndexGraph([*exprs, *extra], forms=True).smallest()
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


_OF_ALL_TYPES: Final = (
    Arithmetic.involution_twice,
    Arithmetic.same_operands,
    Arithmetic.where_same,
    Masks.not_negated,
    Arithmetic.unit,
)
NORMAL_FORMS: Final = (_OF_ALL_TYPES, IndexSums, IndexQuotients, IndexExtrema, IndexCasts, IndexComparisons, IndexLogic, IndexSelections)
SHORT_FORMS: Final = (IndexRemainders, IndexShortForms, IndexSolved, (Masks.negated_equality, Factoring.products))
LIMITS: Final = Limits(nodes=20_000, matches=200_000, rounds=10, memory=2048.0)
"""Limits of one saturation."""


_COSTS: Final = {"floor_divide": 2.0, "floor_mod": 2.0, "divide": 2.0, "fmod": 2.0, "less_equal": 0.999, "logical_not": 1.002}


@dataclass(frozen=True)
class IndexCost:
    """The cost of an index expression: a call costs 1, a division 2; the bounds of a variable are free."""

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """The cost of a call."""
        if op.name in ("clip", "cast"):
            return EPSILON
        return _COSTS.get(op.name, 1.0)


@functools.cache
def _stage(sets: Sequence[Iterable[Rule]], rounds: int | None = None) -> Stage:
    """A stage of exploring rules: an e-class keeps all its nodes, since other rules look for them."""
    return Stage(tuple([Directions(rule.of_kind(EXPLORING)) for rules in sets for rule in rules]), rounds=rounds)


class IndexGraph:
    """The saturated e-graph of some expressions. With `forms`, it has the short forms of expressions as well."""

    def __init__(self, exprs: Sequence[Expr], *, forms: bool = False, limits: Limits = LIMITS) -> None:
        self.graph = Graph(Eager(()))
        root = self.graph.load(infer_type(Tuple(exprs)))
        self.nodes = self.graph.operands[root]
        stages = [_stage(NORMAL_FORMS), *([_stage((*SHORT_FORMS, IndexSums), 2)] if forms else [])]
        self._saturator = Saturator(self.graph, stages, limits)
        self._saturator.run()

    def same(self, i: int, j: int) -> bool:
        """True if two of the expressions are in one e-class."""
        return self.graph.find(self.nodes[i]) == self.graph.find(self.nodes[j])

    def smallest(self) -> list[Expr]:
        """The smallest forms of all expressions together."""
        found = extract(self.graph, self.nodes, self._saturator.initial, IndexCost())
        return [rebuild(self.graph, found.choice, root) for root in self.nodes]
