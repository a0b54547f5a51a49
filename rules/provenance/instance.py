"""A rule with a substitution put in: is its left side there, do its conditions hold, and what is its right side?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any as AnyValue
from typing import Protocol

import numpy as np

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.evaluate import Value
from passat.ir.op import KnownValue, Op, get_op
from passat.ir.shape import Any
from passat.ir.tensor import Tensor
from passat.ir.types import IncompleteType, TensorType, TupleType, Type
from passat.rules.conditions import Refuse, Term
from passat.rules.multi_root import MultiRule, PJoined
from passat.rules.pattern import (
    AttrHole,
    Computed,
    Pattern,
    PCall,
    PConst,
    PGet,
    PLiteral,
    PNumber,
    PTuple,
    PVar,
    is_undeclared,
    named_patterns,
    pattern_parts,
    subterms,
)
from passat.rules.provenance.plain import CertificateError, attrs_of
from passat.rules.rule import Rule


class Facts(Protocol):
    """What is known of classes."""

    def find(self, cls: int) -> int:
        """The class that a class is part of now."""

    def type(self, cls: int) -> Type:
        """The type of a class."""

    def constant(self, cls: int) -> Value | None:
        """The value of a class that is constant."""

    def known(self, cls: int) -> KnownValue | None:
        """What is known of the elements of a class."""

    def lookup(self, what: tuple[AnyValue, ...], operands: Sequence[int]) -> int | None:
        """The class of a node, where it is there: ("call", op, attrs, tag), ("tuple",) or ("field", index)."""

    def build(self, what: tuple[AnyValue, ...], operands: Sequence[int]) -> int:
        """The class of a node, which is made where it is not there."""

    def scalar(self, tensor: Tensor) -> int:
        """The class of a constant."""


class _Known(Term):
    """A term of a class."""

    __slots__ = ("_cls", "_facts")

    def __init__(self, facts: Facts, cls: int) -> None:
        value = facts.constant(cls)
        super().__init__(facts.type(cls), value if isinstance(value, Tensor) else None)
        self._facts = facts
        self._cls = cls

    @property
    def known_value(self) -> KnownValue | None:
        """What is known of the elements."""
        return self._facts.known(self._cls)


class Instance:
    """The left side of a rule where a match says that it is. Raises CertificateError or Refuse where it is not, or may not be rewritten."""

    def __init__(self, facts: Facts, rule: Rule, match: Mapping[str, AnyValue], term: Callable[[int], int]) -> None:
        self.facts = facts
        self.rule = rule
        self.attrs: dict[str, AnyValue] = {}
        self._holes = {name: term(number) for name, number in match["holes"].items()}
        self._placed: dict[tuple[AnyValue, ...], int] = {}
        patterns = [node for node in subterms(rule.lhs) if isinstance(node, PCall)]
        if len(patterns) != len(match["calls"]):
            raise CertificateError(f"the left side applies {len(patterns)} operators, the match has attributes of {len(match['calls'])}")
        self._calls = {id(node): call for node, call in zip(patterns, match["calls"], strict=True)}
        self.root = self._place(rule.lhs)
        if self.root != facts.find(term(match["at"])):
            raise CertificateError("the left side is somewhere else than the match says")
        for condition in rule.conditions:
            answer = condition.function(*map(self.value, condition.args))
            if reason := condition.refusal(answer, rule.name):
                raise CertificateError(f"the condition {condition!r} refuses: {reason}")

    # ---- the left side

    def _place(self, node: Pattern) -> int:
        """The class of a part of the left side."""
        facts = self.facts
        if isinstance(node, (PVar, PConst, PLiteral)):
            if repr(node) not in self._holes:
                raise CertificateError(f"the match does not say what {node!r} is")
            found = self._holes[repr(node)]
            value = None if isinstance(node, PVar) else facts.constant(found)
            if not isinstance(node, PVar) and not isinstance(value, Tensor):
                raise CertificateError(f"{node!r} is no constant there")
            if isinstance(node, PLiteral) and isinstance(value, Tensor):
                element = value.uniform()
                if element is None or element != node.value:
                    raise CertificateError(f"the constant is {'not uniform' if element is None else element}, not {node!r}")
        else:
            operands = [self._place(part) for part in pattern_parts(node)]
            what = self._head(node)
            place = facts.lookup(what, operands)
            if place is None:
                raise CertificateError(f"the left side is not there: nothing is {node!r} with {_shown(self.attrs)}")
            found = place
        if facts.find(self._placed.setdefault(node.key, found)) != facts.find(found):
            raise CertificateError(f"{node!r} is two things")
        return facts.find(found)

    def _head(self, node: Pattern) -> tuple[AnyValue, ...]:
        if isinstance(node, PTuple):
            return ("tuple",)
        if isinstance(node, PGet):
            return ("field", node.index)
        assert isinstance(node, PCall)
        attrs = attrs_of(self._calls[id(node)]["attrs"])
        for name, wanted in node.attrs.items():
            if name != "attrs" and name not in attrs:
                raise CertificateError(f"{node.op.name} has no attribute {name!r} in the match")
            given = attrs if name == "attrs" else attrs[name]
            if isinstance(wanted, AttrHole):
                if self.attrs.setdefault(wanted.name, given) != given:
                    raise CertificateError(f"the attribute {wanted} has two values: {self.attrs[wanted.name]!r} and {given!r}")
            elif given != (tuple(wanted) if isinstance(wanted, list) else wanted):
                raise CertificateError(f"{name} is {given!r}, not {wanted!r}")
        return ("call", node.op, attrs, self._calls[id(node)].get("tag"))

    # ---- values

    def value(self, argument: AnyValue) -> AnyValue:
        """What a condition or a computed attribute gets for an argument."""
        if isinstance(argument, AttrHole):
            return self.attrs[argument.name]
        if isinstance(argument, Computed):
            return argument.function(*map(self.value, argument.args))
        if isinstance(argument, Pattern):
            return self._term(argument)
        return tuple(map(self.value, argument)) if isinstance(argument, (tuple, list)) else argument

    def _term(self, node: Pattern) -> Term:
        if node.key in self._placed:
            return _Known(self.facts, self._placed[node.key])
        types = [self._term(part).type_ for part in pattern_parts(node)]
        if isinstance(node, PCall):
            return Term(node.op.infer(types, self._given(node)))
        if isinstance(node, PTuple):
            return Term(TupleType(types))
        if isinstance(node, PGet) and isinstance(types[0], TupleType) and node.index < len(types[0].fields):
            return Term(types[0].fields[node.index])
        raise Refuse(f"{node!r} has no type here")

    def _given(self, call: PCall) -> Attrs:
        """The attributes of a call on the right side: those of `attrs=` that the operator has, those that are given, and defaults."""
        whole = self.value(call.attrs["attrs"]) if "attrs" in call.attrs else {}
        if len(call.attrs) == 1 and isinstance(whole, Attrs) and whole and whole.keys() == call.op.attr_params.keys():
            return whole
        kept = {name: value for name, value in whole.items() if name in call.op.attr_params}
        own = {name: self.value(value) for name, value in call.attrs.items() if name != "attrs"}
        return call.op.bind_attrs({**kept, **own}) if own or kept or call.op.attr_params else EMPTY_ATTRS

    # ---- the right side

    def right(self, made: dict[tuple[AnyValue, ...], int] | None = None, others: "Sequence[Instance]" = ()) -> int:
        """The class of the right side; of a rule with several roots, what is computed for all of them, which are `others`."""
        known = {key: self._placed[key] for key in self._reused()} if made is None else made
        return self._build(self.rule.rhs, known, others)

    def _reused(self) -> Iterator[tuple[AnyValue, ...]]:
        """The parts of the left side that stand for themselves on the right: the root and, where the rule is reducing, its parts; holes;
        and what conditions and computed values name. Others are made anew, with the attributes that the right side says."""
        rule = self.rule
        named = {node.key for node in named_patterns(rule)}
        named |= {rule.lhs.key, *(part.key for part in pattern_parts(rule.lhs) if rule.reducing)}
        for node in subterms(rule.lhs):
            if isinstance(node, (PVar, PConst, PLiteral)) or node.key in named or is_undeclared(node):
                yield node.key

    def _build(self, node: Pattern, made: dict[tuple[AnyValue, ...], int], others: "Sequence[Instance]") -> int:
        facts = self.facts
        if node.key not in made:
            if isinstance(node, (PLiteral, PNumber)):
                made[node.key] = facts.scalar(scalar(self.value(node.value), facts.type(self.root)))
            elif isinstance(node, PJoined):
                fields = [each._placed[node.of.key] for each in others]
                axis = _tensor(facts.type(fields[0])).axis(node.axis)
                made[node.key] = build_call(facts, "concatenate", [facts.build(("tuple",), fields)], {"axis": axis})
            elif isinstance(node, (PVar, PConst)):
                made[node.key] = self._placed[node.key]
            else:
                operands = [self._build(part, made, others) for part in pattern_parts(node)]
                what: tuple[AnyValue, ...] = ("tuple",) if isinstance(node, PTuple) else ("field", getattr(node, "index", 0))
                if isinstance(node, PCall):
                    what = ("call", node.op, self._given(node), None)
                made[node.key] = facts.build(what, operands)
        return facts.find(made[node.key])


def parts_of_group(rule: MultiRule, group: Sequence[Instance]) -> list[int]:
    """What takes the place of each root of a rule with several roots. Raises CertificateError where they do not belong together."""
    first, facts = group[0], group[0].facts
    for each in group[1:]:
        if any(facts.find(each._placed[hole.key]) != facts.find(first._placed[hole.key]) for hole in rule.left.shared):
            raise CertificateError("the matches do not share what the rule says")
        if each.attrs != first.attrs:
            raise CertificateError("the matches have different attributes")
    whole = first.right({}, group)
    axis = _tensor(facts.type(whole)).axis(rule.right.axis)
    sizes = [_tensor(facts.type(each.root)).shape[axis] for each in group]
    if not all(isinstance(size, int) for size in sizes):
        raise Refuse(f"the size of axis {axis} is not known")
    places = tuple(accumulate(sizes[:-1]))
    cut = build_call(facts, "split", [whole], {"indices_or_sections": places, "axis": axis})
    return [facts.build(("field", place), [cut]) for place in range(len(group))]


def build_call(facts: Facts, name: str, operands: Sequence[int], attrs: Mapping[str, AnyValue]) -> int:
    """The class of a call of an operator with its other attributes at their defaults."""
    op: Op = get_op(name)
    return facts.build(("call", op, op.bind_attrs(attrs), None), operands)


def scalar(value: float, type_: Type) -> Tensor:
    """A number of a right side as a scalar of the left side's element type. Refuses where that has no such number."""
    dtype = _tensor(type_).dtype
    with np.errstate(all="ignore"):
        try:
            found = np.asarray(value, to_numpy(dtype))
        except (OverflowError, ValueError, TypeError):
            raise Refuse(f"{dtype} has no {value}") from None
    if (dtype in FLOATS and np.isfinite(value) and not np.isfinite(found)) or (dtype not in FLOATS and found.item() != value):
        raise Refuse(f"{dtype} has no {value}")
    return Tensor.dense(found)


def same_type(a: Type, b: Type) -> bool:
    """Whether two sides may be one value: dimensions are equal, or one of them is not known."""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        dims = list(zip(a.shape, b.shape, strict=False))
        return a.dtype == b.dtype and a.ndim == b.ndim and all(m == n or isinstance(m, Any) or isinstance(n, Any) for m, n in dims)
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return len(a.fields) == len(b.fields) and all(map(same_type, a.fields, b.fields))
    return a == b or isinstance(a, IncompleteType) or isinstance(b, IncompleteType)


def _tensor(type_: Type) -> TensorType:
    if not isinstance(type_, TensorType):
        raise Refuse(f"{type_!r} is not the type of a tensor")
    return type_


def _shown(attrs: Mapping[str, AnyValue]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in attrs.items()) or "these operands"
