"""A quick check when a rule is made: both sides must have the same type on sample types. (`check` is thorough.)"""

import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.dtypes import to_numpy
from passat.ir.onnx.opaque import OpaqueOp
from passat.ir.op import Op, OpTypeError
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.ir.walks import preorder
from passat.rules.attribute_arithmetic import differs, equals, item
from passat.rules.guards import Guard, Reject, Term, dtype_of, has_dtype
from passat.rules.holes import OperatorHole
from passat.rules.multi_pattern import MultiRule, PJoined
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
    PValue,
    PVar,
    RuleError,
    is_undeclared,
)
from passat.rules.rule import Rule
from passat.rules.substitution import Substitution, same_type
from passat.rules.subterms import arguments_of, subterms, values_in
from passat.rules.symbolic import AttributeTerm, Symbolic

_SHAPES = ((2, 2), (2, 2, 2, 2), (2, 2, 2), (2,), (), (1, 2))
_TRIES = 60
_DTYPE_OF: Final = dtype_of("").function
_HAS_DTYPE: Final = has_dtype("", "").function
_ITEM: Final = item("", "").function
_COMPARISONS: Final = (equals("", "").function, differs("", "").function)


def check_types(rule: Rule) -> None:
    """Raises RuleError if the sides have different types on every sample that the left side and the guards accept.

    There are few samples: one shape and one element type for all holes, and default attributes. Without a matching sample, nothing is
    reported.
    """
    try:
        directions = rule.directions() if rule.holes() else [rule]
        if not directions:
            raise RuleError(
                f"rule {rule.name} [{rule!r}]: {'; '.join(rule.holes().meanings())}: no choice fits both sides, or all make them equal"
            )
        _check_names(rule)
        for direction in directions:
            _check_direction(direction)
    except RuleError as error:
        error.source = error.source or rule.source
        raise


def _check_direction(rule: Rule) -> None:
    _check_calls(rule)
    _check_element_types(rule)
    if isinstance(rule.rhs, PValue) or any(map(is_undeclared, subterms(rule.lhs))):
        return  # computed values have the type of the left side, or are rejected when the rule is applied; onnx infers undeclared operators
    mismatch = ""
    for sample in itertools.islice(_samples(rule), _TRIES):
        try:
            left = sample.type_of(rule.lhs)
            answers = [sample.ask(guard) for guard in rule.guards]
            if any(guard.rejection(answer, rule.name) for guard, answer in zip(rule.guards, answers, strict=True)):
                continue
            right = sample.type_of(rule.rhs, left)
        except RuleError:
            raise
        except (OpTypeError, Reject, LookupError, TypeError, ValueError):
            continue
        except Exception as error:
            raise RuleError(f"rule {rule.name} [{rule!r}]: {sample.asked!r} raises {type(error).__name__}: {error}") from error
        wanted = _twice(left, rule.right.axis) if isinstance(rule, MultiRule) else left
        if same_type(wanted, right):
            return
        holes = ", ".join(f"{name}: {type_!r}" for name, type_ in sample.types.items())
        whole = "two of the left side have type" if isinstance(rule, MultiRule) else "the left side has type"
        mismatch = mismatch or f"on {holes} {whole} {wanted!r}, the right side {right!r}"
    if mismatch:
        raise RuleError(f"rule {rule.name} [{rule!r}]: the sides have different types: {mismatch}")


def _check_calls(rule: Rule) -> None:
    """Raises RuleError for a guard or computed value with the wrong number of arguments."""
    for call in values_of(rule):
        if isinstance(call, (Guard, Computed)):
            try:
                inspect.signature(call.function).bind(*call.args)
            except TypeError as error:
                raise RuleError(f"rule {rule.name} [{rule!r}]: {call!r}: {error}") from None


def values_of(rule: Rule) -> Iterator[AnyValue]:
    """The guards of a rule, its right side, and the values within these."""

    def parts(value: AnyValue) -> Sequence[AnyValue]:
        return value.args if isinstance(value, Guard) else [*(values_in if isinstance(value, Pattern) else arguments_of)(value)]

    return preorder([*rule.guards, rule.rhs], parts)


def _check_names(rule: Rule) -> None:
    """Raises RuleError for `p["name"]` if no operator whose attributes `p` stands for has an attribute of that name."""
    operators: dict[str, list[Op]] = {}
    for node in subterms(rule.lhs):
        if isinstance(node, PCall) and isinstance(hole := node.attrs.get("attrs"), AttrHole):
            operators.setdefault(hole.name, []).extend(node.op.operators() if isinstance(node.op, OperatorHole) else [node.op])
    for value in values_of(rule):
        if isinstance(value, Computed) and value.function is _ITEM and isinstance(hole := value.args[0], AttrHole):
            name, of = value.args[1], operators.get(hole.name, [])
            if of and isinstance(name, str) and not any(isinstance(op, OpaqueOp) or name in op.attr_params for op in of):
                known = ", ".join(dict.fromkeys(each for op in of for each in op.attr_params)) or "none"
                raise RuleError(f"rule {rule.name} [{rule!r}]: {of[0].name} has no attribute {name!r}; it has: {known}")


def _check_element_types(rule: Rule) -> None:
    """Raises RuleError for an element type that does not exist, with which a rule would never match."""
    for where, dtype in _element_types(rule):
        if dtype is not None and not isinstance(dtype, Symbolic):
            try:
                to_numpy(dtype)
            except ValueError as error:
                raise RuleError(f"rule {rule.name} [{rule!r}]: {where!r}: {error}") from None


def _element_types(rule: Rule) -> Iterator[tuple[PCall | Guard, AnyValue]]:
    """The element types that a rule names, with the call or guard that does."""
    bound = set()
    for node in (*subterms(rule.lhs), *subterms(rule.rhs)):
        if isinstance(node, PCall) and node.op.is_own and "dtype" in node.attrs:
            bound.add(repr(node.attrs["dtype"]))
            yield node, node.attrs["dtype"]
    for guard in rule.guards:
        if guard.function is _HAS_DTYPE:
            yield guard, guard.args[1]
        elif guard.function in _COMPARISONS:
            for one, other in (guard.args, guard.args[::-1]):
                if isinstance(one, AttributeTerm) and (repr(one) in bound or getattr(one, "function", None) is _DTYPE_OF):
                    yield guard, other


def _twice(type_: Type, axis: int) -> Type:
    """The type of two values of the type, concatenated."""
    if not isinstance(type_, TensorType):
        return type_
    at = type_.axis(axis)
    return type_.with_shape((*type_.shape[:at], 2 * type_.shape[at], *type_.shape[at + 1 :]))


def _samples(rule: Rule) -> Iterator["_Sample"]:
    holes = {node.name: node for node in subterms(rule.lhs) if isinstance(node, (PVar, PConst))}
    for dtype in ("float32", "int64", "bool"):
        for shape in _SHAPES:
            yield _Sample({name: TensorType(shape, dtype) for name in holes})
        for shape in _SHAPES:
            yield _Sample({name: TensorType(() if isinstance(node, PConst) else shape, dtype) for name, node in holes.items()})


class _Sample(Substitution):
    """One assignment of types to holes; constants are all ones, attributes have their defaults."""

    def __init__(self, types: Mapping[str, Type]) -> None:
        super().__init__()
        self.types = types
        self.asked: Guard | Computed | None = None

    def ask(self, call: Guard | Computed) -> AnyValue:
        """The answer of a guard or computed value; `asked` is the last one called."""
        values = [self.value(arg) for arg in call.args]
        self.asked = call
        return call.function(*values)

    def type_of(self, pattern: Pattern, root: Type | None = None) -> Type:
        if isinstance(pattern, (PVar, PConst)):
            return self.types[pattern.name]
        if isinstance(pattern, (PLiteral, PNumber)):
            return root if isinstance(root, TensorType) and not root.shape else TensorType((), self._dtype(root))
        if isinstance(pattern, PJoined):  # as if there were two matches
            return _twice(self.type_of(pattern.of, root), pattern.axis)
        if isinstance(pattern, PTuple):
            return TupleType(self.type_of(field, root) for field in pattern.fields)
        if isinstance(pattern, PGet):
            whole = self.type_of(pattern.of, root)
            if not isinstance(whole, TupleType):
                raise TypeError("not a tuple")
            return whole.fields[pattern.index]
        assert isinstance(pattern, PCall)
        types = [self.type_of(arg, root) for arg in pattern.args]
        return pattern.op.infer(types, self._bound_attrs(pattern) if root is None else self.call_attrs(pattern))

    def _dtype(self, root: Type | None) -> str:
        types = [root, *self.types.values()]
        return next(type_.dtype for type_ in types if isinstance(type_, TensorType))

    def _bound_attrs(self, call: PCall) -> Attrs:
        """The attributes of a call on the left side, which bind its holes."""
        if not call.op.attr_params:
            return EMPTY_ATTRS
        attrs = call.op.bind_attrs(
            {name: value for name, value in call.attrs.items() if name != "attrs" and not isinstance(value, AttrHole)}
        )
        for name, value in call.attrs.items():
            if isinstance(value, AttrHole):
                self.attrs.setdefault(value.name, attrs if name == "attrs" else attrs[name])
        return attrs

    def bound(self, pattern: Pattern) -> Term:
        """The pattern as guards see it."""
        type_, constant = self.type_of(pattern, TensorType(())), None
        if isinstance(pattern, PConst) and isinstance(type_, TensorType):
            constant = Tensor.splat(np.ones(()), tuple(int(dim) for dim in type_.shape), type_.dtype)  # type: ignore[arg-type]  # samples are static
        return Term(type_, constant)
