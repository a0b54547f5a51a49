"""Evaluates dataflow on constants by the kernels of the operators. Splats stay splats where possible."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.counting import counted
from passat.ir.dtypes import from_numpy, to_numpy
from passat.ir.expr import Constant, Expr, Tuple
from passat.ir.op import Kernel, Op
from passat.ir.passat_error import PassatError
from passat.ir.tensor import Tensor
from passat.ir.types import IncompleteType, TensorType, TupleType, Type

Value = Tensor | tuple["Value", ...]
"""Operands and results of kernels: tensors and tuples of values."""


def tensors_in(values: Iterable[Value]) -> Iterator[Tensor]:
    """Yields the tensors in values and nested tuples, in order."""
    for value in values:
        if isinstance(value, tuple):
            yield from tensors_in(value)
        else:
            yield value


def type_of_value(value: Value) -> Type:
    """The type of a value."""
    return TupleType(map(type_of_value, value)) if isinstance(value, tuple) else TensorType(value.shape, value.dtype)


def as_constant(value: Value) -> Expr:
    """A constant, or a tuple of constants."""
    return Constant(value) if isinstance(value, Tensor) else Tuple(map(as_constant, value))


class EvaluateError(PassatError, ValueError):
    """A call cannot be evaluated: it has no kernel, the kernel rejects the operands, or the result does not have the inferred type."""


class MisdeclaredError(EvaluateError):
    """A kernel contradicts the declaration of its operator: its result does not have the inferred type."""


def evaluate_call(op: Op, args: Sequence[Value], attrs: Attrs, result: Type, kernel: Kernel | None = None) -> Value:
    """Computes a call on constant operands and checks the result against the inferred type; symbolic and unknown dimensions match any size.

    `kernel` replaces the kernel of the operator. If all operands are uniform and one is a splat, the result is a splat: an elementwise
    operator is computed on a single element, and data movement is not computed at all. Raises EvaluateError.
    """
    kernel = kernel or op.kernel
    if kernel is None:
        raise EvaluateError(f"{op.name} has no kernel")
    shape = _static_shape(result)
    if shape is not None and isinstance(result, TensorType):
        tensors = _flatten(args)
        if gives_splat(op, tensors):
            if op.elementwise:
                return Tensor.splat(_element(op, kernel, args, tensors, attrs, result), shape, result.dtype)
            return Tensor.splat(tensors[0].uniform(), shape, result.dtype)
    value = _run(op, kernel, [_arrays(arg) for arg in args], attrs)
    return _wrap(op, value, result)


def gives_splat(op: Op, tensors: Sequence[Tensor]) -> bool:
    """Whether a call on these tensors, with a static result type, is computed on a single element and returns a splat."""
    if not (op.elementwise or op.movement) or not any(tensor.is_splat for tensor in tensors):
        return False
    values = [tensor.uniform() for tensor in tensors]
    if any(value is None for value in values):
        return False
    return op.elementwise or len({np.asarray(value).tobytes() for value in values}) == 1


def _element(op: Op, kernel: Kernel, args: Sequence[Value], tensors: Sequence[Tensor], attrs: Attrs, result: TensorType) -> AnyValue:
    """Computes the single element of an elementwise call on splats. Results are cached: models with splat weights repeat the same few
    calls."""
    elements = [tensor.uniform() for tensor in tensors]
    if any(isinstance(element, (str, bytes)) for element in elements):
        return _checked(op, _run(op, kernel, [_single(arg) for arg in args], attrs), result.with_shape(()), shaped=False)
    key = (op, kernel, attrs, result.dtype, *[(t.dtype, element.tobytes()) for t, element in zip(tensors, elements, strict=True)])
    found = _ELEMENTS.get(key)
    if found is None:
        found = _checked(op, _run(op, kernel, [_single(arg) for arg in args], attrs), result.with_shape(()), shaped=False)
        if len(_ELEMENTS) >= _REMEMBERED:
            _ELEMENTS.clear()
        _ELEMENTS[key] = found
    return found


_REMEMBERED: Final = 4096
_ELEMENTS: Final[dict[tuple[object, ...], AnyValue]] = {}
"""Cache of elementwise results on single elements, at most `_REMEMBERED` entries."""
_REJECTIONS: Final = (ValueError, TypeError, IndexError, ArithmeticError, NotImplementedError, MemoryError)
"""Exceptions that kernels raise for unsupported operands."""


def _run(op: Op, kernel: Kernel, operands: Sequence[AnyValue], attrs: Attrs) -> AnyValue:
    try:
        with np.errstate(all="ignore"):
            return kernel(*operands, **attrs)
    except Exception as error:
        if op.is_own and not isinstance(error, _REJECTIONS):
            raise
        raise EvaluateError(f"the kernel of {op.name} rejected its operands: {error}") from error


def _wrap(op: Op, value: AnyValue, type_: Type) -> Value:
    if isinstance(type_, TupleType):
        if len(value) != len(type_.fields):
            raise EvaluateError(f"the kernel of {op.name} returned {counted(len(value), 'result')}, but {len(type_.fields)} are declared")
        return tuple(_wrap(op, part, field) for part, field in zip(value, type_.fields, strict=True))
    if isinstance(value, tuple) and isinstance(type_, IncompleteType):
        return tuple(_wrap(op, part, type_) for part in value)
    array = _checked(op, value, type_)
    if array.size > 1 and not any(stride for stride, dim in zip(array.strides, array.shape, strict=True) if dim > 1):
        return Tensor.splat(array[(0,) * array.ndim], array.shape, from_numpy(array.dtype))  # a view of one element
    return Tensor.dense(array)


def _checked(op: Op, value: AnyValue, type_: Type, *, shaped: bool = True) -> AnyValue:
    array = np.asarray(value)
    if not isinstance(type_, TensorType):
        return array
    if array.dtype != to_numpy(type_.dtype) and not (type_.dtype == "string" and from_numpy(array.dtype) == "string"):
        raise MisdeclaredError(f"the kernel of {op.name} returned {array.dtype}, but the type relation expects {type_.dtype}")
    if not shaped:
        return array.reshape(-1)[0]
    if len(array.shape) != type_.ndim or any(type(m) is int and m != n for m, n in zip(type_.shape, array.shape, strict=True)):
        raise MisdeclaredError(f"the kernel of {op.name} returned shape {array.shape}, but the type relation expects {type_!r}")
    return array


def _static_shape(type_: Type) -> tuple[int, ...] | None:
    if not isinstance(type_, TensorType):
        return None
    shape = tuple(dim for dim in type_.shape if isinstance(dim, int))
    return shape if len(shape) == type_.ndim else None


def _flatten(args: Sequence[Value]) -> list[Tensor]:
    found: list[Tensor] = []
    for arg in args:
        found.extend(_flatten(arg) if isinstance(arg, tuple) else [arg])
    return found


def _single(arg: Value) -> AnyValue:
    return tuple(map(_single, arg)) if isinstance(arg, tuple) else np.asarray(arg.uniform()).reshape(())


def _arrays(arg: Value) -> AnyValue:
    return tuple(map(_arrays, arg)) if isinstance(arg, tuple) else arg.numpy()
