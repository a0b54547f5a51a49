"""Substitutions: values of guards and attributes, numbers, and types of sides for a given binding of a rule's holes. Shared by the engine,
which finds matches, and the certificate checker, which proves them; each fills the holes in its own way."""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from typing import Any as AnyValue

import ml_dtypes
import numpy as np

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.counting import counted
from passat.ir.dtypes import FLOATS, INTEGERS, to_numpy
from passat.ir.evaluate import Value
from passat.ir.onnx.opaque import OpaqueOp
from passat.ir.onnx_mapping import DEFAULT_OPSET
from passat.ir.op import KnownValue, Op, get_op
from passat.ir.shape import Any, SymDim
from passat.ir.tensor import Tensor
from passat.ir.types import IncompleteType, TensorType, TupleType, Type, TypeQueryError, leaves
from passat.rules.analysis import Analysis, Fact
from passat.rules.guards import Applied, Check, Guard, Reject, Term, Tree
from passat.rules.multi_pattern import MultiRule, PJoined
from passat.rules.pattern import (
    AttrHole,
    Computed,
    Pattern,
    PCall,
    PConst,
    PExpression,
    PGet,
    PLiteral,
    PNumber,
    PTuple,
    PValue,
    PVar,
    RuleError,
    as_declared,
    is_undeclared,
)
from passat.rules.subterms import named_patterns, pattern_parts, subterms
from passat.rules.symbolic import Symbolic

if TYPE_CHECKING:
    from passat.rules.rule import Rule


class Environment(NamedTuple):
    """The settings that guards may query besides the match: the maximum bytes that one folded constant may add (`rules.max_growth`), the
    opset of the model, and the opset to write, if any."""

    max_growth: int = 1 << 20
    opset: int = DEFAULT_OPSET
    written: int | None = None


class CallTerm(Term):
    """The left side of an eager rule, as its guards see it: the operator, the attributes, and the operands' values (None for
    non-constants), besides the type and the known elements. `evaluate` computes the value; it raises EvaluateError."""

    __slots__ = ("_fact", "attrs", "environment", "evaluate", "op", "values")

    def __init__(
        self,
        op: Op,
        values: Sequence[Value | None],
        attrs: Attrs,
        type_: Type,
        known: KnownValue | None,
        environment: Environment,
        evaluate: Callable[[], Value],
        fact: Callable[[Analysis[AnyValue]], AnyValue],
    ) -> None:
        super().__init__(type_, known=known)
        self.op = op
        self.values = values
        self.attrs = attrs
        self.environment = environment
        self.evaluate = evaluate
        self._fact = fact

    def fact(self, analysis: Analysis[Fact]) -> Fact | None:
        """The fact that an analysis has for the result."""
        found: Fact | None = self._fact(analysis)
        return found


class Maker(Protocol):
    """Creates the nodes of a right side. E-classes are numbers."""

    def add_call(self, op: Op, operands: Sequence[int], attrs: Attrs) -> int:
        """The e-class of a call."""

    def add_tuple(self, operands: Sequence[int]) -> int:
        """The e-class of a tuple."""

    def add_field(self, operand: int, index: int) -> int:
        """The e-class of a field of a tuple."""

    def add_value(self, value: Value) -> int:
        """The e-class of a constant, or of a tuple of constants."""

    def type_of(self, cls: int) -> Type:
        """The type of an e-class."""


def rejection_by(call: Guard | Computed, error: Reject | TypeQueryError) -> Reject:
    """The rejection by a guard or computed value whose function raised an error, or by the one in it that rejected first."""
    if isinstance(error, TypeQueryError):
        return Reject(str(error), by=call)
    if error.by is None:
        error.by = call
    return error


class Substitution:
    """The bindings of a rule's holes. `attrs` are the values of attribute holes."""

    __slots__ = ("attrs",)

    def __init__(self) -> None:
        self.attrs: dict[str, AnyValue] = {}

    def bound(self, pattern: Pattern) -> Term | None:
        """The e-class bound to a part of the left side; None for any other pattern."""
        raise NotImplementedError

    def place(self, pattern: Pattern) -> int:
        """The e-class bound to a hole."""
        raise NotImplementedError

    def ask(self, call: Guard | Computed) -> AnyValue:
        """The result of the function of a guard or computed value."""
        values = list(map(self.value, call.args))
        try:
            with np.errstate(all="ignore"):
                return call.function(*values)
        except (Reject, TypeQueryError) as error:
            raise rejection_by(call, error) from None

    def value(self, argument: AnyValue) -> AnyValue:
        """The argument that a guard or computed value gets."""
        if isinstance(argument, AttrHole):
            return self.attrs[argument.name]
        if isinstance(argument, Computed):
            return self.ask(argument)
        if isinstance(argument, Pattern):
            return self.term(argument)
        if isinstance(argument, (tuple, list)):
            return tuple(map(self.value, argument))
        return argument

    def term(self, pattern: Pattern) -> Term:
        """A pattern as guards see it: its bound e-class, or what the right side would create. Rejects patterns without a type."""
        found = self.bound(pattern)
        if found is not None:
            return found
        types = [self.term(part).type_ for part in pattern_parts(pattern)]
        if isinstance(pattern, PCall):
            return Term(pattern.op.infer(types, self.call_attrs(pattern)))
        if isinstance(pattern, PTuple):
            return Term(TupleType(types))
        if isinstance(pattern, PGet) and isinstance(types[0], TupleType) and pattern.index < len(types[0].fields):
            return Term(types[0].fields[pattern.index])
        raise Reject(f"the type of {pattern!r} is unknown here")

    def call_attrs(self, call: PCall) -> Attrs:
        """The attributes of a call on the right side: those of `attrs=` that the operator has, those given, and defaults."""
        given = call.attrs
        if not given:
            return call.op.bind_attrs({}) if call.op.attr_params else EMPTY_ATTRS
        whole = self.value(given["attrs"]) if "attrs" in given else {}
        if len(given) == 1 and isinstance(whole, Attrs) and (isinstance(call.op, OpaqueOp) or whole.keys() == call.op.attr_params.keys()):
            return whole
        kept = {name: value for name, value in whole.items() if name in call.op.attr_params}
        named = {name: self._attribute(call.op, name, value) for name, value in given.items() if name != "attrs"}
        return call.op.bind_attrs({**kept, **named})

    def _attribute(self, op: Op, name: str, value: AnyValue) -> AnyValue:
        """The value of an attribute of the right side. Rejects sizes that are not known, and values of other types than the operator
        declares."""
        found = self.value(value)
        if not isinstance(value, (Symbolic, tuple, list)):
            return found  # checked when the rule was made
        if isinstance(value, AttrHole):
            parameter = op.attr_params.get(name)
            if parameter is None or not isinstance(parameter.annotation, type) or _has_sizes(found):
                return found  # nearly always of the right type, and checking types such as `int | None` takes time
        by = value if isinstance(value, Computed) else None
        if _has_sizes(found):
            raise Reject(f"{name} is {found!r}, with a size that is not known", by=by)
        try:
            return as_declared(op, name, found)
        except TypeError as error:
            raise Reject(f"{name} of {op.name}: {error}", by=by) from None

    @property
    def where(self) -> str:
        """The rule, at the beginning of errors."""
        return ""

    def constant(self, node: PValue) -> Value:
        """The constant, or tuple of constants, that the function of a `value(...)` returns. Raises RuleError for anything else."""
        found: Value = self.value(node.value)
        if not all(isinstance(part, Tensor) for part in (found if isinstance(found, tuple) else (found,))):
            kind = type(found).__name__
            raise RuleError(
                f"{self.where}{node!r} returned {kind}; it must return a Tensor, such as Tensor.dense(array), or a tuple of them"
            )
        return found

    def build(self, maker: Maker, node: Pattern, made: dict[tuple[AnyValue, ...], int], type_: Type) -> int:
        """The e-class of a pattern of a right side, for a left side of the given type; `made` caches existing ones and is extended."""
        if node.key not in made:
            if isinstance(node, (PLiteral, PNumber)):
                made[node.key] = self.build_computed(maker, node, type_)
            elif isinstance(node, (PVar, PConst)):
                made[node.key] = self.place(node)
            else:
                parts = [self.build(maker, part, made, type_) for part in pattern_parts(node)]
                if isinstance(node, PCall):
                    made[node.key] = maker.add_call(node.op, parts, self.call_attrs(node))
                else:
                    made[node.key] = maker.add_field(parts[0], node.index) if isinstance(node, PGet) else maker.add_tuple(parts)
        return made[node.key]

    def build_computed(self, maker: Maker, node: PLiteral | PNumber, type_: Type) -> int:
        """The e-class of a number, a computed constant or a computed expression of a right side."""
        if isinstance(node, PExpression):
            return add_tree(maker, self.value(node.value))
        return maker.add_value(self.constant(node) if isinstance(node, PValue) else scalar_for(self.value(node.value), type_))


_PLAIN: Final = frozenset({int, bool, float, str, type(None)})


def _has_sizes(value: AnyValue) -> bool:
    """True for a size that is not known, and for a tuple with one."""
    if type(value) in _PLAIN:  # nearly all
        return False
    if isinstance(value, tuple):
        return not _PLAIN.issuperset(map(type, value)) and any(map(_has_sizes, value))
    return isinstance(value, (SymDim, Any))


def add_tree(maker: Maker, tree: Tree) -> int:
    """The e-class of a computed expression."""
    if isinstance(tree, Applied):
        return maker.add_call(tree.op, [add_tree(maker, operand) for operand in tree.operands], tree.attrs)
    return maker.add_value(tree) if isinstance(tree, Tensor) else tree.cls


def bind_attrs(node: PCall, given: Attrs, attrs: dict[str, AnyValue]) -> bool:
    """True if the attributes of a call match those of a pattern; binds the attribute holes in `attrs`."""
    for name, wanted in node.attrs.items():
        if name != "attrs" and name not in given:
            return False
        value = given if name == "attrs" else given[name]
        known = attrs.setdefault(wanted.name, value) if isinstance(wanted, AttrHole) else wanted
        if value != (tuple(known) if isinstance(known, list) else known):
            return False
    return True


def build_together(rule: MultiRule, group: Sequence[Substitution], types: Sequence[Type], maker: Maker) -> list[int]:
    """The e-classes that replace the roots of a multi-pattern rule, whose types are given. Rejects unknown sizes."""
    made: dict[tuple[AnyValue, ...], int] = {}
    for node in subterms(rule.right.whole):
        if isinstance(node, PJoined):
            fields = [each.place(node.of) for each in group]
            axis = _tensor(maker.type_of(fields[0])).axis(node.axis)
            made[node.key] = _call(maker, "concatenate", maker.add_tuple(fields), axis=axis)
    whole = group[0].build(maker, rule.right.whole, made, types[0])
    axis = _tensor(maker.type_of(whole)).axis(rule.right.axis)
    sizes = [size for size in (_tensor(type_).shape[axis] for type_ in types) if isinstance(size, int)]
    if len(sizes) < len(types):
        raise Reject(f"the size of axis {axis} is unknown", Check.TYPES)
    cut = _call(maker, "split", whole, indices_or_sections=tuple(accumulate(sizes[:-1])), axis=axis)
    return [maker.add_field(cut, place) for place in range(len(group))]


def _call(maker: Maker, name: str, operand: int, **attrs: AnyValue) -> int:
    op = get_op(name)
    return maker.add_call(op, [operand], op.bind_attrs(attrs))


def _tensor(type_: Type) -> TensorType:
    if not isinstance(type_, TensorType):
        raise Reject(f"{type_!r} is not a tensor type", Check.TYPES)
    return type_


def bound_keys(rule: "Rule") -> Iterator[tuple[AnyValue, ...]]:
    """The parts of the left side that the right side reuses: the root, for a reducing rule its operands, the holes, and the terms that
    guards and computed values name. Others are created anew, with the attributes that the right side states. Of a large left side with
    cycles, all parts are bound, so that each row can be checked."""
    yield rule.lhs.key
    if rule.reducing:
        yield from [part.key for part in pattern_parts(rule.lhs)]
    named = {node.key for node in named_patterns(rule)}
    large = is_large_cycle(rule.lhs)
    for node in subterms(rule.lhs):
        if large or isinstance(node, (PVar, PConst, PLiteral)) or node.key in named or is_undeclared(node):
            yield node.key


_LARGE: Final = 7
"""egglog matches left sides with fewer calls correctly; a test has a left side of eight calls that it does not."""


def is_large_cycle(lhs: Pattern) -> bool:
    """True for a large left side with cycles. For such queries egglog (13.2) also returns rows that are not matches, although each atom by
    itself matches."""
    terms = {node.key: node for node in subterms(lhs)}
    calls = [node for node in terms.values() if not isinstance(node, PVar)]
    return len(calls) >= _LARGE and sum(len(pattern_parts(node)) for node in calls) >= len(terms)


_MOST_INTEGER: Final = int(sys.float_info.max)


def scalar_for(value: float, type_: Type) -> Tensor:
    """A number of a right side as a scalar of the left side's element type. Rejects numbers that the type cannot represent."""
    if not isinstance(type_, TensorType):
        raise Reject("a number on the right side needs a left side that is a tensor", Check.NUMBER)
    if not isinstance(value, (int, float, np.number, np.bool_)):
        raise Reject(f"{value!r} is not a known number", Check.NUMBER)
    if isinstance(value, int) and abs(value) > _MOST_INTEGER:
        raise Reject(f"a number of {counted(len(str(abs(value))), 'digit')} is too large", Check.NUMBER)
    kind = to_numpy(type_.dtype)
    if type_.dtype in FLOATS:
        with np.errstate(all="ignore"):
            found = np.asarray(value, kind)
        fits = bool(np.isfinite(found)) or not np.isfinite(value)
    elif type_.dtype in INTEGERS:
        limits = ml_dtypes.iinfo(kind)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
        fits = float(value).is_integer() and int(limits.min) <= value <= int(limits.max)
    else:
        fits = type_.dtype == "bool" and value in (0, 1)
    if not fits:
        raise Reject(f"{type_.dtype} cannot represent {value}", Check.NUMBER)
    return Tensor.dense(np.asarray(value, kind))


def agree(rule: "Rule", left: Type, right: Type) -> bool:
    """True if the right side of a rule has the type of the left side. A size that only one side knows is another size, such as that of
    `x * c` where `c` has more elements than `x`, unless shapes on the other side depend on values. A computed right side is the value of
    the left side."""
    if left == right:
        return True
    if not same_type(left, right):
        return False
    sides = ((left, right, rule.lhs), (right, left, rule.rhs))
    return isinstance(rule.rhs, PValue) or not any(_knows_less(type_, than) and not _computes_shapes(side) for type_, than, side in sides)


def _knows_less(type_: Type, than: Type) -> bool:
    """True if the first of two types that agree otherwise has an unknown size that the second knows."""
    return any(
        isinstance(dim, Any) and not isinstance(other, Any)
        for one, two in zip(leaves(type_), leaves(than), strict=False)
        if isinstance(one, TensorType) and isinstance(two, TensorType)
        for dim, other in zip(one.shape, two.shape, strict=True)
    )


def _computes_shapes(side: Pattern) -> bool:
    """True if the shape of a term may depend on values, so that its type may lack a size that another form has."""
    ops = [node.op for node in subterms(side) if isinstance(node, PCall)]
    return any(not isinstance(op, Op) or isinstance(op, OpaqueOp) or op.known_operands for op in ops)


def same_type(a: Type, b: Type) -> bool:
    """True if a value of one type may replace a value of the other: all dimensions are equal or unknown."""
    if a == b or isinstance(a, IncompleteType) or isinstance(b, IncompleteType):
        return True
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return (
            a.dtype == b.dtype
            and len(a.shape) == len(b.shape)
            and all(m == n or isinstance(m, Any) or isinstance(n, Any) for m, n in zip(a.shape, b.shape, strict=True))
        )
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return len(a.fields) == len(b.fields) and all(map(same_type, a.fields, b.fields))
    return False
