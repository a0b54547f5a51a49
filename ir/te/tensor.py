"""Tensors, and the operations that make them: placeholders, elementwise definitions, and statements of your own."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.counting import counted
from passat.ir.tir.buffer import Buffer, decl_buffer
from passat.ir.tir.expr import EqualOp, ExprOp, IntImm, PrimExpr, convert
from passat.ir.tir.functor import post_order
from passat.ir.tir.ranges import IterVar, Reduce
from passat.ir.tir.stmt import Evaluate, Stmt
from passat.ir.tir.types import DataType, TirError
from passat.ir.tir.values import ProducerLoad


class Tensor(ExprOp):
    """Result number `value_index` of an operation. `t[i, j]` and `t(i, j)` are its elements."""

    __slots__ = ("dtype", "op", "shape", "value_index")

    def __init__(self, op: "Operation", value_index: int, shape: Sequence[PrimExpr], dtype: str) -> None:
        self.op, self.value_index, self.shape, self.dtype = op, value_index, tuple(shape), dtype

    def asobject(self) -> PrimExpr:
        """The element of a tensor without dimensions. Raises TirError for others."""
        if self.shape:
            raise TirError(f"{self.name} has {counted(self.ndim, 'dimension')}; an index makes an expression of it")
        return self()

    def __call__(self, *indices: AnyValue) -> PrimExpr:
        """The element at an index. Raises ValueError for an index of the wrong length."""
        if len(indices) != self.ndim:
            raise ValueError(f"{self.name} has {counted(self.ndim, 'dimension')}, and the index {len(indices)}")
        return ProducerLoad(self, indices)

    def __getitem__(self, indices: AnyValue) -> "TensorSlice":
        return TensorSlice(self, indices if isinstance(indices, tuple) else (indices,))

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    def __eq__(self, other: object) -> AnyValue:
        if isinstance(other, Tensor):
            return self.op is other.op and self.value_index == other.value_index
        return EqualOp(self, other) if isinstance(other, ExprOp) else False

    def __ne__(self, other: object) -> AnyValue:
        return not self == other

    def same_as(self, other: object) -> bool:
        """Whether this is the other tensor."""
        return self is other

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """The name of the operation, with the number of the result if there are several."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}.v{self.value_index}"

    def __repr__(self) -> str:
        return f"Tensor(shape=[{', '.join(map(str, self.shape))}], op.name={self.op.name})"


class TensorSlice(ExprOp):
    """A tensor with the first indices of an element; an expression once there is one for each dimension."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[AnyValue, ...]) -> None:
        self.tensor, self.indices = tensor, indices

    def __getitem__(self, indices: AnyValue) -> "TensorSlice":
        return TensorSlice(self.tensor, self.indices + (indices if isinstance(indices, tuple) else (indices,)))

    def __iter__(self) -> Iterator[AnyValue]:
        raise TypeError("an element of a tensor cannot be iterated over")

    def asobject(self) -> PrimExpr:
        """The element. Raises ValueError for an index of the wrong length."""
        return self.tensor(*self.indices)

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.tensor.dtype


class Operation:
    """Makes tensors from `input_tensors`."""

    def __init__(
        self, name: str, tag: str, attrs: Mapping[str, AnyValue] | None, results: Sequence[tuple[Sequence[PrimExpr], str]]
    ) -> None:
        self.name, self.tag, self.attrs = name, tag, dict(attrs or {})
        self._outputs = tuple(Tensor(self, place, shape, dtype) for place, (shape, dtype) in enumerate(results))
        self.input_tensors: tuple[Tensor, ...] = ()
        self.axis: tuple[IterVar, ...] = ()
        self.reduce_axis: tuple[IterVar, ...] = ()

    @property
    def num_outputs(self) -> int:
        """The number of results."""
        return len(self._outputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The results."""
        return self._outputs

    def output(self, index: int) -> Tensor:
        """A result."""
        return self._outputs[index]

    def same_as(self, other: object) -> bool:
        """Whether this is the other operation."""
        return self is other

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class PlaceholderOp(Operation):
    """A tensor that is an argument."""


class ComputeOp(Operation):
    """Tensors whose elements at the point `axis` are the expressions `body`."""

    def __init__(
        self, name: str, tag: str, attrs: Mapping[str, AnyValue] | None, axis: Sequence[IterVar], body: Sequence[PrimExpr]
    ) -> None:
        reductions = [part for part in body if isinstance(part, Reduce)]
        if reductions and len(reductions) != len(body):
            raise TirError(f"all results of {name} reduce, or none does")
        below = [part for each in body for part in post_order(each)]
        if any(isinstance(part, Reduce) and not any(part is each for each in body) for part in below):
            raise TirError(f"{name} reduces inside another expression; reductions are results of their own")
        shape = [iv.dom.extent for iv in axis if iv.dom is not None]
        super().__init__(name, tag, attrs, [(shape, part.dtype) for part in body])
        self.axis, self.body = tuple(axis), tuple(body)
        self.reduce_axis = reductions[0].axis if reductions else ()
        self.input_tensors = tuple(dict.fromkeys(part.producer for part in below if isinstance(part, ProducerLoad)))


class ExternOp(Operation):
    """Tensors that a statement writes. In it, buffers represent the inputs and outputs."""

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Mapping[str, AnyValue] | None,
        inputs: Sequence[Tensor],
        input_buffers: Sequence[Buffer],
        output_buffers: Sequence[Buffer],
        body: Stmt,
    ) -> None:
        super().__init__(name, tag, attrs, [(buffer.shape, buffer.dtype) for buffer in output_buffers])
        self.input_tensors, self.body = tuple(inputs), body
        self.input_placeholders, self.output_placeholders = tuple(input_buffers), tuple(output_buffers)


def _sizes(shape: AnyValue) -> tuple[PrimExpr, ...]:
    """The sizes of dimensions. Raises TirError for what is not an integer, and for negative numbers."""
    given = shape if isinstance(shape, (list, tuple)) else (shape,)
    sizes = tuple(convert(int(size) if isinstance(size, float) and size.is_integer() else size) for size in given)
    for size in sizes:
        if not size.type.is_integer or (isinstance(size, IntImm) and size.value < 0):
            raise TirError(f"the sizes of a tensor are integers from 0 on, not {size}")
    return sizes


def placeholder(shape: AnyValue, dtype: str | None = None, name: str = "placeholder") -> Tensor:
    """A tensor that is an argument. Raises TirError for bad sizes, and for an element type of another number of bits than arrays have.

    >>> placeholder((4, 2), name="x")
    Tensor(shape=[4, 2], op.name=x)
    """
    element = DataType.of(dtype or "float32")
    if element.kind in _BITS and element.bits not in _BITS[element.kind]:
        known = ", ".join(f"{element.kind}{bits}" for bits in _BITS[element.kind])
        raise TirError(f"no array has elements of type {element}; the types of this kind are {known}")
    return PlaceholderOp(name, "", None, [(_sizes(shape), str(element))]).output(0)


_BITS: Final = {"float": (16, 32, 64), "bfloat": (16,), "int": (1, 2, 4, 8, 16, 32, 64), "uint": (1, 2, 4, 8, 16, 32, 64)}
"""The numbers of bits of the elements of arrays, by kind."""


def compute(
    shape: AnyValue, fcompute: Callable[..., AnyValue], name: str = "compute", tag: str = "", attrs: Mapping[str, AnyValue] | None = None
) -> AnyValue:
    """The tensor whose element at an index is what a function of the index returns; several tensors if it returns several values.

    >>> x = placeholder((4, 2), name="x")
    >>> compute((2, 4), lambda i, j: x[j, i] * 2, name="y").op.body
    ((x[j: int32, i: int32]*2.0f32),)
    """
    sizes = _sizes(shape)
    names = _names(fcompute, len(sizes))
    if len(names) != len(sizes):
        raise ValueError(f"the function of {name} has {counted(len(names), 'parameter')}, and its shape {counted(len(sizes), 'dimension')}")
    axis = [IterVar((0, size), label, IterVar.DataPar) for label, size in zip(names, sizes, strict=True)]
    body = fcompute(*[iv.var for iv in axis])
    parts = [convert(part) for part in (body if isinstance(body, (list, tuple)) else [body])]
    outputs = ComputeOp(name, tag, attrs, axis, parts).outputs
    return outputs[0] if len(outputs) == 1 else outputs


def _names(function: Callable[..., AnyValue], count: int) -> list[str]:
    """The parameters of a function without defaults, or names for those of `*indices`."""
    params = inspect.signature(function).parameters.values()
    if any(param.kind == param.VAR_POSITIONAL for param in params):
        return [f"i{place}" for place in range(count)]
    return [param.name for param in params if param.default is param.empty]


def extern(
    shape: AnyValue,
    inputs: Sequence[Tensor],
    fcompute: Callable[[Sequence[Buffer], Sequence[Buffer]], Stmt | PrimExpr],
    name: str = "extern",
    dtype: str | Sequence[str] | None = None,
    in_buffers: Sequence[Buffer] | None = None,
    out_buffers: Sequence[Buffer] | None = None,
    tag: str = "",
    attrs: Mapping[str, AnyValue] | None = None,
) -> AnyValue:
    """Tensors that a statement writes, which a function makes of the buffers of the inputs and of the results."""
    several = isinstance(shape, (list, tuple)) and bool(shape) and isinstance(shape[0], (list, tuple))
    shapes = [_sizes(each) for each in (shape if several else [shape])]
    if any(not isinstance(tensor, Tensor) for tensor in inputs):
        raise ValueError(f"the inputs of {name} are tensors")
    types = {tensor.dtype for tensor in inputs}
    if dtype is None and out_buffers is None and len(types) != 1:
        raise ValueError(f"the inputs of {name} do not determine the types of its results; give dtype")
    dtypes = [dtype] * len(shapes) if isinstance(dtype, str) else list(dtype or list(types) * len(shapes))
    read = list(in_buffers or (decl_buffer(tensor.shape, tensor.dtype, tensor.op.name) for tensor in inputs))
    written = list(out_buffers or (decl_buffer(sizes, kind, name) for sizes, kind in zip(shapes, dtypes, strict=True)))
    made = fcompute(read, written)
    body = Evaluate(made) if isinstance(made, PrimExpr) else made
    if not isinstance(body, Stmt):
        raise ValueError(f"the function of {name} returns a statement or an expression, not a {type(body).__name__}")
    outputs = ExternOp(name, tag, attrs, inputs, read, written, body).outputs
    return outputs[0] if len(outputs) == 1 else outputs
