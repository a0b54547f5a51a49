"""E-class analyses: facts about the values of e-classes, which guards ask for. The interface is egg's: `make`, `merge`, and `modify`.

`make` says what is known of a call from what is known of its operands, `merge` what is known of a class of which two facts are known. What
egg's `modify` does, putting into a class what follows from its fact, rules do here: one whose guard asks for the fact (`Term.fact`), which
is `.eager()` where it is to run when a node is added. Such a rule has a name, is listed, counted, checked and can be switched off.

Facts are worked out where a guard asks for one, each class once; where classes are made one, what was asked for is worked out again, and
matches that a guard refused are looked at again where a fact has changed. The types, constants and known sizes of a class stand in the
graph itself (`passat.rules.engine.graph`), since loading a program needs them: nothing else is computed of nodes that no rule asks about.
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
    """A call in an e-class, as `make` sees it: operator, attributes, types; `operands` are equal numbers where operands are one value."""

    op: Op
    attrs: Attrs
    type: Type
    types: Sequence[Type]
    operands: Sequence[int]


class Analysis(ABC, Generic[Fact]):
    """What is known of the tensors that e-classes stand for. A fact is any value but None, which stands for nothing; it holds of the
    tensor whatever the inputs are. Of a tuple the fact is the tuple of the facts of its fields."""

    def known(self, type_: TensorType, constant: Tensor | None) -> Fact | None:
        """What is known of a tensor by its type, and by its elements where it is a constant."""
        return None

    def reads(self, op: Op) -> bool:
        """Whether `make` has anything to say of calls of an operator; of others nothing is asked, nor of their operands."""
        return True

    @abstractmethod
    def make(self, call: Made, facts: Sequence[AnyValue]) -> Fact | tuple[Fact | None, ...] | None:
        """What is known of a call, from the facts of its operands."""

    @abstractmethod
    def merge(self, one: Fact, other: Fact) -> Fact:
        """What is known of a class of which both facts are, the one of an older node. Rules that round make classes of tensors that are
        nearly equal: a fact that rounding may break is one of the older node alone, and `merge` returns that."""


class ENode(NamedTuple):
    """A node of a class: the operator that is applied, or None and the field that is taken, -1 for a tuple; the classes of its operands."""

    op: Op | None
    attrs: Attrs
    field: int
    operands: Sequence[int]


OPAQUE: Final = ENode(None, EMPTY_ATTRS, -2, ())
"""A node of which nothing is known but its type."""


class Classes(Protocol):
    """Classes that facts are asked of."""

    def find(self, cls: int) -> int:
        """The class that a class is part of now."""

    def type(self, cls: int) -> Type:
        """The type of a class."""

    def constant(self, cls: int) -> Value | None:
        """The value of a class that is constant."""

    def e_nodes(self, cls: int) -> Iterable[ENode]:
        """The nodes of a class, the oldest first."""


Memo = MutableMapping[int, AnyValue]
"""Facts of classes."""


def fact_of(analysis: Analysis[Fact], classes: Classes, cls: int, memo: Memo) -> AnyValue:
    """The fact of a class, and of what it takes to know it. What a class is made of by way of itself says nothing more of it: each class
    is looked at once, whatever cycles there are."""
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
    """The fact of a node that may not be there yet."""
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
