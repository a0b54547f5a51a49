"""Matrix products, and the bias that is added to a product or a convolution."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, elements, nbytes
from passat.ir.dtypes import FLOATS, NUMERIC
from passat.ir.expr import Call, Constant, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, to_onnx
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.ops.accumulate import Array, narrow, wide
from passat.ir.ops.emitting import only, part, transpose, vector_on_axis
from passat.ir.shape import Dim, Shape, broadcast, may_equal, same_dim, static_size
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, Type, tensor_type


def check_dtypes(name_a: str, a: TensorType, name_b: str, b: TensorType) -> None:
    """Raises OpTypeError where two operands have different element types, or one that there is no arithmetic on."""
    if a.dtype != b.dtype:
        raise OpTypeError(f"{name_a} has element type {a.dtype}, {name_b} has {b.dtype}; cast one")
    if a.dtype not in NUMERIC:
        raise OpTypeError(f"there is no arithmetic on elements of type {a.dtype}")


def _check_inner(left: Dim, right: Dim) -> None:
    if not may_equal(left, right):
        raise OpTypeError(f"rows of the left operand have {left!r} elements, columns of the right operand have {right!r}")


def _product_shape(a: Shape, b: Shape) -> Shape:
    """The shape of `numpy.matmul`."""
    if not a or not b:
        raise OpTypeError("an operand is a scalar; operands need at least one dimension")
    _check_inner(a[-1], b[-2] if len(b) > 1 else b[0])
    rows = a[-2:-1]  # empty for a vector, whose dimension the result drops
    columns = b[-1:] if len(b) > 1 else ()
    batch = broadcast(a[:-2], b[:-2]) if len(a) > 2 or len(b) > 2 else ()
    return (*batch, *rows, *columns)


def product_cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """A multiplication and an addition for each element of the result and each element of the summed dimension."""
    left = tensor_type(args[0])
    summed = left.shape[-2] if attrs.get("transpose_a") else left.shape[-1]
    return Cost(2.0 * static_size(tensor_type(result).shape) * static_size((summed,)), sum(map(nbytes, args)) + nbytes(result))


def stacked_product(a: TensorType, b: TensorType, *, transpose_a: bool, transpose_b: bool) -> TensorType:
    """The type of the product of stacks of matrices, the last two dimensions of which are exchanged first where a flag says so."""
    check_dtypes("a", a, "b", b)
    left = (*a.shape[:-2], a.shape[-1], a.shape[-2]) if transpose_a else a.shape
    right = (*b.shape[:-2], b.shape[-1], b.shape[-2]) if transpose_b else b.shape
    return TensorType(_product_shape(left, right), a.dtype)


def _swapped(array: Array, swap: bool) -> Array:
    return array.swapaxes(-1, -2) if swap else array


def matrix_product(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
    """The product of stacks of matrices, the last two dimensions of which are exchanged first where a flag says so."""
    return narrow(np.matmul(_swapped(wide(a), transpose_a), _swapped(wide(b), transpose_b)), a.dtype)


@define_op("nn.matmul", exact="integers", kernel=matrix_product, cost=product_cost, pattern=4)
def matmul(a: TensorType, b: TensorType, *, transpose_a: bool = False, transpose_b: bool = False) -> TensorType:
    """The matrix product of `numpy.matmul`: vectors, matrices, and stacks of matrices that broadcast.

    The flags transpose a matrix before the product and are for operands of rank 2 only.
    ONNX: MatMul (1, 9, 13) without flags; Gemm (7 to 13) without bias, alpha and beta with them.
    """
    check_dtypes("a", a, "b", b)
    left, right = a.shape, b.shape
    if transpose_a or transpose_b:
        if len(left) != 2 or len(right) != 2:
            raise OpTypeError("transpose_a and transpose_b are for two operands of rank 2")
        left, right = left[:: -1 if transpose_a else 1], right[:: -1 if transpose_b else 1]
    return TensorType(_product_shape(left, right), a.dtype)


def _dense(data: Array, weight: Array) -> Array:
    return narrow(np.matmul(wide(data), wide(weight).T), data.dtype)


@define_op("nn.dense", exact="integers", kernel=_dense, cost=product_cost, pattern=4)
def dense(data: TensorType, weight: TensorType) -> TensorType:
    """`data` (..., inputs) times the transpose of `weight` (units, inputs): (..., units).

    ONNX: Gemm (7 to 13) with transB; where `data` has more than two dimensions, Transpose and MatMul.
    """
    check_dtypes("data", data, "weight", weight)
    if len(data.shape) < 2 or len(weight.shape) != 2:
        raise OpTypeError(f"data needs two dimensions or more, weight exactly two; they have {data.ndim} and {weight.ndim}")
    if not may_equal(data.shape[-1], weight.shape[1]):
        raise OpTypeError(f"rows of data have {data.shape[-1]!r} elements, rows of weight have {weight.shape[1]!r}")
    return TensorType((*data.shape[:-1], weight.shape[0]), data.dtype)


@define_op("nn.batch_matmul", exact="integers", kernel=matrix_product, cost=product_cost, pattern=4)
def batch_matmul(a: TensorType, b: TensorType, *, transpose_a: bool = False, transpose_b: bool = True) -> TensorType:
    """The products of two stacks of matrices of rank 3, `b` transposed unless told otherwise (Relay's default).

    The stacks have equal lengths, or one has length 1. Written to ONNX as Transpose and MatMul.
    """
    if len(a.shape) != 3 or len(b.shape) != 3:
        raise OpTypeError(f"operands need three dimensions, they have {a.ndim} and {b.ndim}")
    return stacked_product(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _bias_add(data: Array, bias: Array, *, axis: int) -> Array:
    return narrow(wide(data) + wide(bias).reshape(-1, *(1,) * (data.ndim - axis % data.ndim - 1)), data.dtype)


def _taken_along(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Reads the bias alone: the product or convolution before it adds it to what it has in hand."""
    return Cost(elements(result), nbytes(args[1]))


@define_op("nn.bias_add", exact="always", kernel=_bias_add, cost=_taken_along, pattern=1)
def bias_add(data: TensorType, bias: TensorType, *, axis: int = 1) -> TensorType:
    """`data` plus the vector `bias` along an axis; the vector has as many elements as the axis.

    On a product or a convolution it stands for the bias of ONNX's Gemm or Conv (`accepts_bias`), else it is written as Add.
    """
    check_dtypes("data", data, "bias", bias)
    place = data.axis(axis)
    if len(bias.shape) != 1:
        raise OpTypeError(f"bias needs one dimension, it has {bias.ndim}")
    size, length = data.shape[place], bias.shape[0]
    if size == length or (type(size) is int and type(length) is not int):
        return data
    if not may_equal(size, length):
        raise OpTypeError(f"bias has {length!r} elements, axis {axis} of data has {size!r}")
    return data.with_shape((*data.shape[:place], length, *data.shape[place + 1 :])) if type(length) is int else data


_CONVOLUTIONS: Final = frozenset(f"nn.conv{rank}d{kind}" for rank in (1, 2, 3) for kind in ("", "_transpose"))


def accepts_bias(call: Call) -> bool:
    """Whether the ONNX node of the product or convolution that a bias is added to can add it (`takes_bias`); `call` is the `nn.bias_add`,
    operands with types."""
    product = call.args[0]
    if not isinstance(product, Call) or not isinstance(product.op, Op):
        return False
    return takes_bias(product.op, product.attrs, [arg.checked_type for arg in product.args], call.attrs["axis"])


def takes_bias(op: Op, attrs: Attrs, types: Sequence[Type], axis: int) -> bool:
    """Whether the ONNX node of a call on operands of these types can add a bias along an axis of its result: Gemm and Conv can.

    Products need operands of rank 2, of floating-point numbers, and a bias along the last axis, convolutions a bias along their channels.
    Their writers then take the name of the bias as one operand more.
    """
    if op.name in _CONVOLUTIONS:
        layout = attrs["data_layout"]
        return bool(axis % len(layout) == layout.index("C"))
    return op.name in ("nn.dense", "nn.matmul") and axis in (1, -1) and _are_for_gemm(types)


def _is_gemm(product: Call) -> bool:
    return _are_for_gemm([arg.checked_type for arg in product.args])


def _are_for_gemm(types: Sequence[Type]) -> bool:
    """Whether Gemm is for these operands. ONNX has it for integers too, but ONNX Runtime does not, where it has MatMul."""
    return all(isinstance(type_, TensorType) and type_.ndim == 2 and type_.dtype in FLOATS for type_ in types)


@from_onnx("MatMul")
def _read_matmul(node: OnnxNode) -> Expr | None:
    return matmul(node.input(0), node.input(1), span=node.span)


@from_onnx("Gemm")
def _read_gemm(node: OnnxNode) -> Expr | None:
    a, b, flags = node.type(0), node.type(1), node.attrs
    biased = node.has(2)
    if not only(node, "alpha", "beta", "transA", "transB") or a.ndim != 2 or b.ndim != 2:
        return None
    if flags.get("alpha", 1.0) != 1.0 or (biased and flags.get("beta", 1.0) != 1.0):
        return None
    left, right = bool(flags.get("transA", 0)), bool(flags.get("transB", 0))
    if biased and (node.type(2).ndim != 1 or not same_dim(node.type(2).shape[0], b.shape[0 if right else 1])):
        return None
    span = part(node.span) if biased else node.span
    if right and not left:
        product = dense(node.input(0), node.input(1), span=span)
    else:
        product = matmul(node.input(0), node.input(1), transpose_a=left, transpose_b=right, span=span)
    return bias_add(product, node.input(2), axis=-1, span=node.span) if biased else product


def _write_product(emit: Emitter, inputs: Sequence[str], *, left: bool, right: bool, matrices: bool) -> str:
    """A product of which the last two axes of the operands are swapped first; a third operand is a bias."""
    if matrices and (len(inputs) == 3 or (emit.opset >= 11 and (left or right))):  # before opset 11 Gemm has no form without bias
        return emit.node("Gemm", inputs, {name: 1 for name, flag in (("transA", left), ("transB", right)) if flag})
    assert len(inputs) == 2, "only products of floating-point matrices accept a bias"
    a, b = (transpose(emit, name, (1, 0) if flag else (0, 1)) for name, flag in zip(inputs[:2], (left, right), strict=True))
    return emit.node("MatMul", [a, b])


@to_onnx(matmul)
def _write_matmul(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return _write_product(emit, inputs, left=call.attrs.transpose_a, right=call.attrs.transpose_b, matrices=_is_gemm(call))


@to_onnx(dense)
def _write_dense(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return _write_product(emit, inputs, left=False, right=True, matrices=_is_gemm(call))


@to_onnx(batch_matmul)
def _write_batch_matmul(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    flags = (call.attrs.transpose_a, call.attrs.transpose_b)
    a, b = (transpose(emit, name, (0, 2, 1) if flag else (0, 1, 2)) for name, flag in zip(inputs, flags, strict=True))
    return emit.node("MatMul", [a, b])


@to_onnx(bias_add)
def _write_bias_add(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, bias = call.args[0], call.args[1]
    rank = tensor_type(data.checked_type).ndim
    axis = call.attrs.axis % rank
    if isinstance(bias, Constant) and axis + 1 < rank:
        return emit.node("Add", [inputs[0], emit.constant(_column(bias.data, rank - axis - 1))])
    return emit.node("Add", [inputs[0], vector_on_axis(emit, inputs[1], axis, rank)])


def _column(vector: Tensor, after: int) -> Tensor:
    shape = (*vector.shape, *(1,) * after)
    if vector.is_splat and vector.size:
        return Tensor.splat(vector.uniform(), shape, vector.dtype)
    return Tensor.dense(vector.numpy().reshape(shape))
