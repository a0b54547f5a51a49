"""E-class analyses: facts about the values of e-classes, which guards query. The interface follows `make` and `merge` of egg.

`make` derives the fact of a call from the facts of its operands; `merge` combines two facts of one e-class. Passat has no `modify`, which
in egg adds the consequences of a fact to the e-class. Write a rule instead, whose guard reads the fact (`Term.fact`); an eager rule
(`.eager()`) runs when a node is added. Such a rule has a name, is listed, counted and checked, and can be disabled.

Facts are computed on demand, once per e-class. After a union, the facts that may have changed are recomputed, and matches that a guard
rejected are retried where a fact changed. Types, constants and known sizes are stored in the graph itself
(`passat.rules.engine.graph`), since loading a program needs them. Nothing else is computed for nodes that no
rule asks about.
"""

import functools
import heapq
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any as AnyValue
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.evaluate import Value
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type

Fact = TypeVar("Fact")

_VISITS: Final = 4
"""Maximum number of times that an update recomputes one fact. Only cycles reach it, since facts in a cycle could improve forever."""


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

    names_classes: bool = False
    """True if facts name e-classes. The facts that depend on an e-class are then recomputed when it is united with another."""

    def __init_subclass__(cls) -> None:
        if "modify" in vars(cls):
            raise TypeError(
                f"{cls.__name__} has a method modify, which nothing calls: write a rule whose guard asks for the fact (docs/analyses.md)"
            )

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

    def keeps_oldest(self, type_: TensorType) -> bool:
        """True if all tensors of a type have a fact, and `merge` returns that of the older node: the newer nodes are not visited then."""
        return False


class ENode(NamedTuple):
    """An e-node: its operator, or None and the field that it projects (-1 for a tuple), and the e-classes of its operands."""

    op: Op | None
    attrs: Attrs
    field: int
    operands: Sequence[int]


OPAQUE: Final = ENode(None, EMPTY_ATTRS, -2, ())
"""Replaces a node that an analysis does not read: only its type matters."""


class Classes(Protocol):
    """The e-classes that facts are computed for."""

    def find(self, cls: int) -> int:
        """The canonical e-class of an e-class."""

    def type_of(self, cls: int) -> Type:
        """The type of an e-class."""

    def constant(self, cls: int) -> Value | None:
        """The value of a constant e-class."""

    def e_nodes(self, cls: int) -> Iterable[ENode]:
        """The e-nodes of an e-class, oldest first, with canonical operands."""

    def oldest(self, cls: int) -> ENode:
        """The first of these."""


class Facts(Generic[Fact]):
    """The facts of one analysis about the e-classes that were asked about, and about those that they depend on."""

    def __init__(self, analysis: Analysis[Fact], classes: Classes) -> None:
        self._analysis = analysis
        self._classes = classes
        self._known: dict[int, AnyValue] = {}
        self._users: dict[int, list[int]] = {}
        """The e-classes whose facts depend on an e-class."""
        self._reads = functools.cache(analysis.reads)

    def of(self, cls: int) -> AnyValue:
        """The fact of an e-class, computed together with the facts that it depends on. Cycles contribute nothing: each e-class is visited
        once."""
        classes, known = self._classes, self._known
        cls = classes.find(cls)
        if cls in known:
            return known[cls]
        nodes: dict[int, list[ENode]] = {}
        stack = [cls]
        while stack:
            top = stack[-1]
            if top in known:
                stack.pop()
                continue
            missing: list[int] = []
            if top not in nodes:
                nodes[top] = self._nodes(top)
                missing = [part for part in self._parts(top, nodes[top]) if part not in known and part not in nodes]
            if missing:
                stack += missing
                continue
            stack.pop()
            known[top] = self._of_class(top, nodes[top])
        return known[cls]

    def of_node(self, node: ENode, type_: Type) -> AnyValue:
        """The fact of a node that need not be in the graph yet."""
        for part in node.operands:
            self.of(part)
        return self._of_node(self._read(node), type_)

    def update(self, unions: Iterable[tuple[int, int]], constants: Iterable[int]) -> set[int]:
        """Brings the facts up to date after unions, given as pairs (kept e-class, removed e-class), and after e-classes became constant.
        Returns the e-classes whose facts changed.

        A fact is recomputed if its e-class changed, or a fact that it depends on. Operands mostly have smaller numbers than their users.
        Visiting e-classes in the order of their numbers therefore visits most of them once.
        """
        find, known, learned = self._classes.find, self._known, set()
        due: list[int] = []
        visits = Counter[int]()
        for kept, gone in unions:
            users, renewed = self._users.pop(gone, []), self._analysis.names_classes
            settled = kept in known and self._keeps_oldest(kept)
            if gone in known:
                before = known.pop(gone)
                if known.setdefault(kept, before) != before:
                    learned.add(find(kept))
                    renewed = True
            if renewed:
                due += map(find, users)
            if users:
                self._users.setdefault(kept, []).extend(users)
            if not settled:
                due.append(find(kept))
        due += map(find, constants)
        heapq.heapify(due)
        while due:
            cls = heapq.heappop(due)
            if cls not in known or (due and due[0] == cls) or visits[cls] == _VISITS:
                continue
            visits[cls] += 1
            nodes = self._nodes(cls)
            for part in self._parts(cls, nodes):
                if part != cls:
                    self.of(part)
            fact = self._of_class(cls, nodes)
            if fact != known[cls]:
                known[cls] = fact
                learned.add(cls)
                for user in {find(user) for user in self._users.get(cls, ())} - {cls}:
                    heapq.heappush(due, user)
        return {find(cls) for cls in learned}

    def _nodes(self, cls: int) -> list[ENode]:
        """The e-nodes that the fact of an e-class is derived from, with canonical operands."""
        if self._classes.constant(cls) is not None:
            return []
        if self._keeps_oldest(cls):
            return [self._read(self._classes.oldest(cls))]
        return [self._read(node) for node in self._classes.e_nodes(cls)]

    def _keeps_oldest(self, cls: int) -> bool:
        type_ = self._classes.type_of(cls)
        return isinstance(type_, TensorType) and self._analysis.keeps_oldest(type_)

    def _parts(self, cls: int, nodes: Iterable[ENode]) -> Iterable[int]:
        """The e-classes of the operands of e-nodes; records the e-class as a user of each."""
        parts = dict.fromkeys([part for node in nodes for part in node.operands])
        for part in parts:
            users = self._users.get(part)
            if users is None:
                self._users[part] = [cls]
            elif users[-1] != cls:
                users.append(cls)
        return parts

    def _read(self, node: ENode) -> ENode:
        return node if node.op is None or self._reads(node.op) else OPAQUE

    def _of_class(self, cls: int, nodes: Sequence[ENode]) -> AnyValue:
        classes, known = self._classes, self._known
        type_, constant = classes.type_of(cls), classes.constant(cls)
        if constant is not None:
            return _known(self._analysis, type_, constant)
        facts = [self._of_node(node, type_) for node in nodes if all(map(known.__contains__, node.operands))]
        if len(facts) < 2:
            return facts[0] if facts else self._of_node(OPAQUE, type_)
        return functools.reduce(lambda one, other: _merged(self._analysis, one, other, type_), facts)

    def _of_node(self, node: ENode, type_: Type) -> AnyValue:
        classes, operands = self._classes, node.operands
        facts = [self._known[part] for part in operands]
        found = None
        if node.op is not None:
            made = Made(node.op, node.attrs, type_, [classes.type_of(part) for part in operands], operands)
            try:
                found = self._analysis.make(made, facts)
            except Exception as error:
                raise _failed(self._analysis, f"make, for {node.op.name},", error) from error
            if isinstance(type_, TupleType) and found is not None and not (isinstance(found, tuple) and len(found) == len(type_.fields)):
                said = f"returned {found!r}: the fact of a tuple of {len(type_.fields)} is a tuple of as many facts"
                raise _failed(self._analysis, f"make, for {node.op.name},", said)
        elif node.field == -1:
            return tuple(facts)
        elif node.field >= 0 and facts[0] is not None:
            found = facts[0][node.field]
        return found if found is not None else _known(self._analysis, type_, None)


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
    try:
        return analysis.merge(one, other)
    except Exception as error:
        raise _failed(analysis, "merge", error) from error


def _failed(analysis: Analysis[Fact], method: str, why: Exception | str) -> Exception:
    """The error for a method of an analysis that raises, or returns what is no fact; a rejection is kept."""
    from passat.rules.guards import Reject  # imports this module
    from passat.rules.pattern import RuleError  # imports this module

    if isinstance(why, (Reject, RuleError)):
        return why
    said = why if isinstance(why, str) else f"raises {type(why).__name__}: {why}"
    return RuleError(f"the analysis {type(analysis).__name__}: {method} {said}")
