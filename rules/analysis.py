"""E-class analyses: facts about the values of e-classes, which guards query. The interface follows egg: `make`, `merge` and `modify`.

`make` derives the fact of a call from the facts of its operands; `merge` combines two facts of one e-class. Rules take the place of egg's
`modify`, which adds what follows from a fact to the e-class: a rule whose guard reads the fact (`Term.fact`), `.eager()` if it is to run
when a node is added. Such a rule has a name, is listed, counted and checked, and can be disabled.

Facts are computed on demand, once per e-class. After a union, the requested facts are recomputed, and matches that a guard rejected are
retried where a fact changed. Types, constants and known sizes are stored in the graph itself (`passat.rules.engine.graph`), since loading a
program needs them. Nothing else is computed for nodes that no rule asks about.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any as AnyValue
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.evaluate import Value
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type

Fact = TypeVar("Fact")


class Made(NamedTuple):
    """A call in an e-class, as passed to `make`: operator, attributes, types; equal numbers in `operands` denote equal values."""

    op: Op
    attrs: Attrs
    type: Type
    types: Sequence[Type]
    operands: Sequence[int]


class Analysis(ABC, Generic[Fact]):
    """An analysis of the tensors that e-classes stand for. A fact is any value except None, which means unknown. It holds for all inputs.
    The fact of a tuple is the tuple of the facts of its fields."""

    def known(self, type_: TensorType, constant: Tensor | None) -> Fact | None:
        """The fact of a tensor that follows from its type, or from its elements if it is a constant."""
        return None

    def reads(self, op: Op) -> bool:
        """True if `make` handles calls of the operator; other calls and their operands are not visited."""
        return True

    @abstractmethod
    def make(self, call: Made, facts: Sequence[AnyValue]) -> Fact | tuple[Fact | None, ...] | None:
        """The fact of a call, from the facts of its operands."""

    @abstractmethod
    def merge(self, one: Fact, other: Fact) -> Fact:
        """The fact of an e-class that has both facts; `one` belongs to the older node. Inexact rules unite tensors that are nearly equal.
        If rounding may invalidate a fact, `merge` returns that of the older node."""


class ENode(NamedTuple):
    """An e-node: its operator, or None and the field that it projects (-1 for a tuple), and the e-classes of its operands."""

    op: Op | None
    attrs: Attrs
    field: int
    operands: Sequence[int]


OPAQUE: Final = ENode(None, EMPTY_ATTRS, -2, ())
"""A node of which only the type is known."""


class Classes(Protocol):
    """The e-classes that facts are computed for."""

    def find(self, cls: int) -> int:
        """The canonical e-class of an e-class."""

    def type(self, cls: int) -> Type:
        """The type of an e-class."""

    def constant(self, cls: int) -> Value | None:
        """The value of a constant e-class."""

    def e_nodes(self, cls: int) -> Iterable[ENode]:
        """The e-nodes of an e-class, oldest first."""


Memo = MutableMapping[int, AnyValue]
"""The facts of e-classes."""


def fact_of(analysis: Analysis[Fact], classes: Classes, cls: int, memo: Memo) -> AnyValue:
    """The fact of an e-class, computed together with the facts that it depends on. Cycles contribute nothing: each e-class is visited
    once."""
    nodes: dict[int, list[ENode]] = {}
    stack = [classes.find(cls)]
    while stack:
        top = stack[-1]
        if top in memo:
            stack.pop()
            continue
        missing: list[int] = []
        if top not in nodes:
            nodes[top] = [] if classes.constant(top) is not None else _read(analysis, classes.e_nodes(top))
            parts = dict.fromkeys(classes.find(part) for node in nodes[top] for part in node.operands)
            missing = [part for part in parts if part not in memo and part not in nodes]
        if missing:
            stack += missing
            continue
        stack.pop()
        memo[top] = _of_class(analysis, classes, top, nodes[top], memo)
    return memo[classes.find(cls)]


def fact_of_node(analysis: Analysis[Fact], classes: Classes, node: ENode, type_: Type, memo: Memo) -> AnyValue:
    """The fact of a node that need not be in the graph yet."""
    for part in node.operands:
        fact_of(analysis, classes, part, memo)
    return _of_node(analysis, classes, _read(analysis, [node])[0], type_, memo)


def _read(analysis: Analysis[Fact], nodes: Iterable[ENode]) -> list[ENode]:
    return [node if node.op is None or analysis.reads(node.op) else OPAQUE for node in nodes]


def _of_class(analysis: Analysis[Fact], classes: Classes, cls: int, nodes: Sequence[ENode], memo: Memo) -> AnyValue:
    type_, constant = classes.type(cls), classes.constant(cls)
    if constant is not None:
        return _known(analysis, type_, constant)
    usable = [node for node in nodes if all(classes.find(part) in memo for part in node.operands)]
    facts = [_of_node(analysis, classes, node, type_, memo) for node in usable or (OPAQUE,)]
    return functools.reduce(lambda one, other: _merged(analysis, one, other, type_), facts)


def _of_node(analysis: Analysis[Fact], classes: Classes, node: ENode, type_: Type, memo: Memo) -> AnyValue:
    operands = [classes.find(part) for part in node.operands]
    facts = [memo[part] for part in operands]
    found = None
    if node.op is not None:
        found = analysis.make(Made(node.op, node.attrs, type_, [classes.type(part) for part in operands], operands), facts)
    elif node.field == -1:
        return tuple(facts)
    elif node.field >= 0 and facts[0] is not None:
        found = facts[0][node.field]
    return found if found is not None else _known(analysis, type_, None)


def _known(analysis: Analysis[Fact], type_: Type, constant: Value | None) -> AnyValue:
    if isinstance(type_, TupleType):
        parts = constant if isinstance(constant, tuple) else (None,) * len(type_.fields)
        return tuple([_known(analysis, field, part) for field, part in zip(type_.fields, parts, strict=True)])
    return analysis.known(type_, constant if isinstance(constant, Tensor) else None) if isinstance(type_, TensorType) else None


def _merged(analysis: Analysis[Fact], one: AnyValue, other: AnyValue, type_: Type) -> AnyValue:
    if one is None or other is None:
        return other if one is None else one
    if isinstance(type_, TupleType):
        return tuple([_merged(analysis, *parts) for parts in zip(one, other, type_.fields, strict=True)])
    return analysis.merge(one, other)
