"""Whether a call of If, Loop or Scan passes values of the types that the parameters of its bodies have. What is proven of a body holds for
values of these types only. In the first programs they do, as declared types hold there. Part of the trusted base of the checker."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue

from passat.ir.shape import ANY
from passat.ir.types import IncompleteType, TensorType, TupleType, Type
from passat.rules.provenance.terms import FUNCTION, operands_of

TypeOf = Callable[[int], Type]


def fits(value: Type, param: Type) -> bool:
    """Whether every value of one type has the other one."""
    if value == param or isinstance(param, IncompleteType):
        return True
    if not isinstance(value, TensorType) or not isinstance(param, TensorType):
        return False
    pairs = zip(value.shape, param.shape, strict=False)
    return value.dtype == param.dtype and len(value.shape) == len(param.shape) and all(b in (ANY, a) for a, b in pairs)


def passes(row: Sequence[AnyValue], attrs: Mapping[str, AnyValue], rows: Sequence[Sequence[AnyValue]], of: TypeOf) -> bool:
    """Whether a call in a table of terms passes to each parameter what its type says. `of` is the type of a term."""
    operands: Sequence[int] = row[3]
    counts = attrs["captured"]
    first = len(operands) - sum(counts)
    start = first - len(counts)
    if min(counts, default=0) < 0 or start < 0:
        return False
    captured = iter(operands[first:])
    for function, count in zip(operands[start:first], counts, strict=True):
        if rows[function][0] != FUNCTION:
            return False
        *params, body = operands_of(rows[function])
        given = [next(captured) for _ in range(count)]
        own = [of(param) for param in params[: len(params) - count]]
        if len(params) < count or not all(fits(of(value), of(param)) for value, param in zip(given, params[len(own) :], strict=True)):
            return False
        passed = _passed(row[1], attrs, list(map(of, operands[:start])), own, of(body)) if own else []
        if passed is None or not all(fits(value, param) for value, param in passed):
            return False
    return True


def _passed(
    op: str, attrs: Mapping[str, AnyValue], given: Sequence[Type], own: Sequence[Type], body: Type
) -> list[tuple[Type, Type]] | None:
    """Types of values and of the parameters, except captured ones, that receive them: at the start, and from one iteration to the next.
    None if it is not known which values the parameters receive."""
    results = body.fields if isinstance(body, TupleType) else [body]
    if op == "onnx.Loop" and len(own) >= 2:
        count = len(own) - 2
        before = [TensorType((), "int64"), TensorType((), "bool"), *given[len(given) - count :]]
        after = results[1 : 1 + count]
    elif op == "onnx.Scan" and attrs["opset"] >= 9 and len(own) == len(given):
        count = len(own) - attrs["num_scan_inputs"]
        axes = attrs.get("scan_input_axes", [0] * len(given[count:]))
        before = [*given[:count], *(_row(type_, axis) for type_, axis in zip(given[count:], axes, strict=True))]
        after = results[:count]
    else:
        return None
    states = own[2:] if op == "onnx.Loop" else own[:count]
    return [*zip(before, own, strict=True), *zip(after, states, strict=True)]


def _row(type_: Type, axis: int) -> Type:
    """The type of a tensor without an axis."""
    if not isinstance(type_, TensorType) or not -len(type_.shape) <= axis < len(type_.shape):
        return IncompleteType()
    return TensorType([size for place, size in enumerate(type_.shape) if place != axis % len(type_.shape)], type_.dtype)
