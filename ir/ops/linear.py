"""Matrix products, and the bias of a product or a convolution."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, elements, nbytes
from passat.ir.counting import counted
from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.expr import Call, Constant, Expr
from passat.ir.onnx.opaque import dequantizes
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, to_onnx
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.ops.accumulate import BYTES, Array, check_dtypes, narrow, summed, sums_dtype, wide
from passat.ir.ops.emitting import cast, only, part, transpose, vector_on_axis
from passat.ir.shape import Dim, Shape, broadcast, may_equal, same_dim, static_size
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, Type, tensor_type


def _check_inner(left: Dim, right: Dim) -> None:
    if not may_equal(left, right):
        raise OpTypeError(f"rows of the left operand have {counted(left, 'element')}, but columns of the right operand have {right!r}")


def _product_shape(a: Shape, b: Shape) -> Shape:
    """The result shape of `numpy.matmul`."""
    if not a or not b:
        raise OpTypeError("operands must have at least one dimension, but one is a scalar")
    _check_inner(a[-1], b[-2] if len(b) > 1 else b[0])
    rows = a[-2:-1]  # empty for a vector, whose dimension the result drops
    columns = b[-1:] if len(b) > 1 else ()
    batch = broadcast(a[:-2], b[:-2]) if len(a) > 2 or len(b) > 2 else ()
    return (*batch, *rows, *columns)


def product_cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """One multiplication and one addition per element of the result and of the contracted dimension."""
    left = tensor_type(args[0])
    summed = left.shape[-2] if attrs.get("transpose_a") else left.shape[-1]
    return Cost(2.0 * static_size(tensor_type(result).shape) * static_size((summed,)), sum(map(nbytes, args)) + nbytes(result))


def stacked_product(a: TensorType, b: TensorType, *, transpose_a: bool, transpose_b: bool, out_dtype: str = "") -> TensorType:
    """The type of a batched matrix product, with optional transposition of the last two dimensions of each operand."""
    dtype = sums_dtype("a", a, "b", b, out_dtype)
    left = (*a.shape[:-2], a.shape[-1], a.shape[-2]) if transpose_a else a.shape
    right = (*b.shape[:-2], b.shape[-1], b.shape[-2]) if transpose_b else b.shape
    return TensorType(_product_shape(left, right), dtype)


def _swapped(array: Array, swap: bool) -> Array:
    return array.swapaxes(-1, -2) if swap else array


def matrix_product(a: Array, b: Array, *, transpose_a: bool, transpose_b: bool, out_dtype: str = "") -> Array:
    """The batched matrix product, with optional transposition of the last two dimensions of each operand."""
    found = np.matmul(_swapped(summed(a, out_dtype), transpose_a), _swapped(summed(b, out_dtype), transpose_b))
    return narrow(found, to_numpy(out_dtype) if out_dtype else a.dtype)


@define_op("nn.matmul", exact="integers", kernel=matrix_product, cost=product_cost, pattern=4)
def matmul(a: TensorType, b: TensorType, *, transpose_a: bool = False, transpose_b: bool = False, out_dtype: str = "") -> TensorType:
    """The matrix product of `numpy.matmul`: vectors, matrices, and batches of matrices that broadcast.

    The flags transpose an operand before the product and require operands of rank 2. `out_dtype` is the element type of the result, int32
    or int64 for narrower integers. ONNX: MatMul (1, 9, 13) without flags; Gemm (7 to 13) without bias, alpha and beta with flags;
    MatMulInteger (10) with `out_dtype`.
    """
    dtype = sums_dtype("a", a, "b", b, out_dtype)
    left, right = a.shape, b.shape
    if transpose_a or transpose_b:
        if len(left) != 2 or len(right) != 2:
            raise OpTypeError("transpose_a and transpose_b require two operands of rank 2")
        left, right = left[:: -1 if transpose_a else 1], right[:: -1 if transpose_b else 1]
    return TensorType(_product_shape(left, right), dtype)


def _dense(data: Array, weight: Array, *, out_dtype: str = "") -> Array:
    return matrix_product(data, weight, transpose_a=False, transpose_b=True, out_dtype=out_dtype)


@define_op("nn.dense", exact="integers", kernel=_dense, cost=product_cost, pattern=4)
def dense(data: TensorType, weight: TensorType, *, out_dtype: str = "") -> TensorType:
    """`data` (..., inputs) times the transpose of `weight` (units, inputs): (..., units).

    `out_dtype` is that of `nn.matmul`. ONNX: Gemm (7 to 13) with transB; Transpose and MatMul if `data` has more than two dimensions.
    """
    dtype = sums_dtype("data", data, "weight", weight, out_dtype)
    if len(data.shape) < 2 or len(weight.shape) != 2:
        raise OpTypeError(f"data must have two dimensions or more and weight exactly two, but they have {data.ndim} and {weight.ndim}")
    if not may_equal(data.shape[-1], weight.shape[1]):
        raise OpTypeError(f"rows of data have {counted(data.shape[-1], 'element')}, but rows of weight have {weight.shape[1]!r}")
    return TensorType((*data.shape[:-1], weight.shape[0]), dtype)


@define_op("nn.batch_matmul", exact="integers", kernel=matrix_product, cost=product_cost, pattern=4)
def batch_matmul(a: TensorType, b: TensorType, *, transpose_a: bool = False, transpose_b: bool = True, out_dtype: str = "") -> TensorType:
    """The products of two batches of matrices, of rank 3. `b` is transposed by default, as in Relay; `out_dtype` is that of `nn.matmul`.

    The batches have equal lengths, or one has length 1. Written as Transpose and MatMul.
    """
    if len(a.shape) != 3 or len(b.shape) != 3:
        raise OpTypeError(f"operands must have three dimensions, but have {a.ndim} and {b.ndim}")
    return stacked_product(a, b, transpose_a=transpose_a, transpose_b=transpose_b, out_dtype=out_dtype)


def _bias_add(data: Array, bias: Array, *, axis: int) -> Array:
    return narrow(wide(data) + wide(bias).reshape(-1, *(1,) * (data.ndim - axis % data.ndim - 1)), data.dtype)


def _taken_along(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Reads only the bias: it is fused with the preceding product or convolution."""
    return Cost(elements(result), nbytes(args[1]))


@define_op("nn.bias_add", exact="always", kernel=_bias_add, cost=_taken_along, pattern=1)
def bias_add(data: TensorType, bias: TensorType, *, axis: int = 1) -> TensorType:
    """Adds the vector `bias` to `data` along an axis of the same length.

    After a product or a convolution it becomes the bias of ONNX's Gemm or Conv (`accepts_bias`); otherwise it is written as Add.
    """
    check_dtypes("data", data, "bias", bias)
    place = data.axis(axis)
    if len(bias.shape) != 1:
        raise OpTypeError(f"bias must have one dimension, but has {bias.ndim}")
    size, length = data.shape[place], bias.shape[0]
    if size == length or (type(size) is int and type(length) is not int):
        return data
    if not may_equal(size, length):
        raise OpTypeError(f"bias has {counted(length, 'element')}, but axis {axis} of data has {size!r}")
    return data.with_shape((*data.shape[:place], length, *data.shape[place + 1 :])) if type(length) is int else data


_CONVOLUTIONS: Final = frozenset(f"nn.conv{rank}d{kind}" for rank in (1, 2, 3) for kind in ("", "_transpose"))


def accepts_bias(call: Call) -> bool:
    """Whether a `nn.bias_add` can be fused into the ONNX node of its product or convolution (`takes_bias`). Operands must have types."""
    product = call.args[0]
    if not isinstance(product, Call) or not isinstance(product.op, Op):
        return False
    return takes_bias(product.op, product.attrs, [arg.checked_type for arg in product.args], call.attrs["axis"])


def takes_bias(op: Op, attrs: Attrs, types: Sequence[Type], axis: int) -> bool:
    """Whether the ONNX node of a call on operands of these types accepts a bias along an axis of its result. Gemm and Conv do.

    Products must have floating-point operands of rank 2 and a bias along the last axis; convolutions must have a bias along their channels.
    Their writers then accept the name of the bias as an additional operand.
    """
    if attrs.get("out_dtype"):
        return False
    if op.name in _CONVOLUTIONS:
        layout = attrs["data_layout"]
        return bool(axis % len(layout) == layout.index("C"))
    return op.name in ("nn.dense", "nn.matmul") and axis in (1, -1) and _are_for_gemm(types)


def _is_gemm(product: Call) -> bool:
    return _are_for_gemm([arg.checked_type for arg in product.args])


def _are_for_gemm(types: Sequence[Type]) -> bool:
    """Whether Gemm supports these operands. ONNX Runtime has no integer Gemm, but an integer MatMul."""
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


def _quantized_weight(product: Call) -> Call | None:
    """The right operand of a product if both operands are dequantized."""
    left, right = product.args[:2]
    if isinstance(left, Call) and isinstance(right, Call) and dequantizes(left.op) and dequantizes(right.op):
        return right
    return None


def _breaks_matmul(weight: Call) -> bool:
    """Whether a dequantized weight has other scales than one or one for each column. ONNX Runtime fuses MatMul on it, and then does not run
    it; it does not fuse such a Gemm."""
    scales = tensor_type(weight.args[1].checked_type).shape
    return len(scales) > 1 or (len(scales) == 1 and scales[0] not in (1, tensor_type(weight.checked_type).shape[-1]))


def _breaks_gemm(weight: Call) -> bool:
    """Whether a dequantized weight, which is transposed, has a scale for each column. ONNX Runtime takes them for scales of rows if it
    fuses Gemm."""
    scales = tensor_type(weight.args[1].checked_type).shape
    return len(scales) == 1 and scales[0] != 1 and weight.attrs.get("axis", 1) in (1, -1)


def _write_product(call: Call, inputs: Sequence[str], emit: Emitter, *, left: bool, right: bool) -> str:
    """Emits a product of operands whose last two axes are optionally swapped; a third operand is a bias."""
    # before opset 11 Gemm requires a bias
    weight = _quantized_weight(call)
    by_gemm = left or right if weight is None else (left or right or _breaks_matmul(weight)) and not (right and _breaks_gemm(weight))
    if _is_gemm(call) and (len(inputs) == 3 or (emit.opset >= 11 and by_gemm)):
        return emit.node("Gemm", inputs, {name: 1 for name, flag in (("transA", left), ("transB", right)) if flag})
    assert len(inputs) == 2, "only products of floating-point matrices accept a bias"
    types = [tensor_type(arg.checked_type) for arg in call.args]
    a, b = (
        transpose(emit, name, (*range(type_.ndim - 2), type_.ndim - 1, type_.ndim - 2)) if flag else name
        for name, flag, type_ in zip(inputs, (left, right), types, strict=True)
    )
    dtype = tensor_type(call.checked_type).dtype
    if dtype == "int32" and emit.opset >= 10 and {type_.dtype for type_ in types} <= BYTES:
        return emit.node("MatMulInteger", [a, b])
    return emit.node("MatMul", [cast(emit, name, type_.dtype, dtype) for name, type_ in zip((a, b), types, strict=True)])


@to_onnx(matmul)
@to_onnx(batch_matmul)
def _write_matmul(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return _write_product(call, inputs, emit, left=call.attrs.transpose_a, right=call.attrs.transpose_b)


@to_onnx(dense)
def _write_dense(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return _write_product(call, inputs, emit, left=False, right=True)


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
