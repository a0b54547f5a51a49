"""Finds all non-overlapping matches of a dataflow pattern in a program, starting from the results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from passat.ir.dataflow.matcher import Dataflow, Matcher
from passat.ir.dataflow.pattern import (
    CallPattern,
    DFPattern,
    DominatorPattern,
    FunctionPattern,
    TuplePattern,
    embeds,
    pattern_order,
)
from passat.ir.expr import Call, Constant, Expr, Function, If, Let, Match, Tuple, TupleGetItem
from passat.ir.op import Op
from passat.ir.traverse import post_order

PARTITIONED: Final = "PartitionedFromPattern"
"""The attribute of functions that partitioning extracted. They are not searched."""


@dataclass(frozen=True)
class Group:
    """A match of a pattern.

    `found` is the expression that each subpattern matched, `inputs` are the expressions that leaf patterns matched, in pattern order, and
    `inner` are the other expressions of the match, operands first.
    """

    root: Expr
    found: Mapping[DFPattern, Sequence[Expr]]
    inputs: Sequence[Expr]
    inner: Sequence[Expr]

    @property
    def name(self) -> str:
        """The names of the inner operators, concatenated in TVM's format."""
        return "".join(map(partition_name, self.inner))


def groups(pattern: DFPattern, program: Expr) -> dict[int, Group]:
    """Returns the matches by id of their roots.

    Skips matches that overlap an earlier one, and matches with an inner expression that is also used outside the match.
    """
    dataflow = Dataflow(program)
    matcher = Matcher(dataflow)
    order = pattern_order(pattern)
    made: set[int] = {id(node) for node in dataflow.order if isinstance(node, Function) and PARTITIONED in (node.attrs or {})}
    closed = {id(inner) for node in dataflow.order if id(node) in made for inner in post_order(node)}
    taken: set[int] = set()
    result: dict[int, Group] = {}
    for node in reversed(dataflow.order):
        if id(node) in taken or id(node) in closed or not matcher.match(pattern, node):
            continue
        group = _group(order, matcher.found, node)
        inner = [part for part in group.inner if not isinstance(part, (Op, Function, Constant))]
        if taken.isdisjoint(map(id, inner)) and _is_closed(dataflow, group, inner):
            taken.update(map(id, inner))
            result[id(node)] = group
    return result


def _group(order: Sequence[DFPattern], found: Mapping[DFPattern, Sequence[Expr]], root: Expr) -> Group:
    named: set[int] = set()
    """Expressions inside the match that a leaf pattern also matched."""
    for pattern in order:
        if isinstance(pattern, DominatorPattern):
            named.update(id(node) for side in (pattern.parent, pattern.path) for node in found.get(side, ()))
        elif isinstance(pattern, FunctionPattern):
            functions = [node for node in found.get(pattern, ()) if isinstance(node, Function)]
            named.update(id(inner) for function in functions for inner in post_order(function.body))
    inputs: dict[int, Expr] = {}
    for pattern in order:
        for node in _let_in(pattern, found.get(pattern, ())):
            if isinstance(node, (Op, Function)) or (isinstance(node, Constant) and embeds(pattern, found)):
                continue
            if id(node) not in named:
                inputs.setdefault(id(node), node)
    inner = [node for node in post_order(root, into=lambda node: id(node) not in inputs) if id(node) not in inputs]
    return Group(root, {pattern: tuple(nodes) for pattern, nodes in found.items()}, list(inputs.values()), inner)


def _let_in(pattern: DFPattern, found: Sequence[Expr]) -> Sequence[Expr]:
    """The expressions that a leaf pattern matched without describing them."""
    if isinstance(pattern, TuplePattern) and pattern.fields is None:
        return [field for node in found if isinstance(node, Tuple) for field in node.fields]
    if isinstance(pattern, CallPattern) and pattern.args is None:
        return [arg for node in found if isinstance(node, Call) for arg in node.args]
    return () if pattern.parts or isinstance(pattern, (TuplePattern, CallPattern)) else found


def _is_closed(dataflow: Dataflow, group: Group, inner: Sequence[Expr]) -> bool:
    there = set(map(id, group.inner))
    return all(
        id(reader) in there or dataflow.dominates(group.root, reader)
        for node in inner
        if node is not group.root
        for reader in dataflow.readers[id(node)]
    )


def partition_name(node: Expr) -> str:
    """The name of a node in `PartitionedFromPattern`."""
    if isinstance(node, Call):
        return f"{node.op.name}_" if isinstance(node.op, Op) else "Call_"
    if isinstance(node, TupleGetItem):
        return f"TupleGetItem{node.index}_"
    return _NAMES.get(type(node), "")


_NAMES: Final[dict[type[Expr], str]] = {Tuple: "Tuple_", Function: "Function", Let: "Let_", If: "If_", Match: "Match_"}
