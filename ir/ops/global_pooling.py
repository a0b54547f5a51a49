"""Global pooling over all spatial dimensions: maximum, mean, p-norm."""

from collections.abc import Callable, Sequence

import numpy as np

from passat.ir.cost import reduction
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, to_onnx
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.ops.accumulate import Array, narrow, wide
from passat.ir.ops.emitting import only, reduced
from passat.ir.ops.pooling import laid_out, spatial_shape
from passat.ir.ops.windows import SPATIAL, arranged_value
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, tensor_type


def _declare_global(what: str, rank: int, kernel: Callable[[Array, tuple[int, ...]], Array], op_type: str) -> Op:
    letters = SPATIAL[rank]

    def run(data: Array, *, layout: str) -> Array:
        axes = tuple(axis for axis, letter in enumerate(layout) if letter in letters)
        if not all(data.shape[axis] for axis in axes):
            raise ValueError("there are no elements to pool")
        return narrow(kernel(wide(data), axes), data.dtype)

    def relation(data: TensorType, *, layout: str = "NC" + letters) -> TensorType:
        shape = spatial_shape(data, rank, layout)
        return laid_out(data, (*shape[:2], *(1,) * rank), rank, layout)

    relation.__doc__ = (
        f"""The {what} of data (N, C, {", ".join(letters)}) over all spatial dimensions, kept with size 1. ONNX: {op_type} (1, 22)."""
    )
    name = f"nn.global_{'max' if op_type == 'GlobalMaxPool' else 'avg'}_pool{rank}d"
    return define_op(name, kernel=run, cost=reduction, pattern=4)(relation)


def _global_lp(data: Array, *, p: int) -> Array:
    norm = (np.abs(wide(data)) ** p).sum(tuple(range(2, data.ndim)), keepdims=True) ** (1 / p)
    return narrow(norm, data.dtype)


@define_op("nn.global_lp_pool", kernel=_global_lp, cost=reduction, pattern=4)
def global_lp_pool(data: TensorType, *, p: int = 2) -> TensorType:
    """The p-norm of data (N, C, one to three spatial dimensions) over all spatial dimensions. ONNX: GlobalLpPool (2, 22)."""
    rank = data.ndim - 2
    if rank not in SPATIAL or p < 1:
        raise OpTypeError(f"data must have three to five dimensions and p must be at least 1, but they are {data.ndim} and {p}")
    return data.with_shape((*spatial_shape(data, rank, "NC" + SPATIAL[rank])[:2], *(1,) * rank))


GLOBAL_MAX = {
    rank: _declare_global("greatest element", rank, lambda x, axes: x.max(axes, keepdims=True), "GlobalMaxPool") for rank in SPATIAL
}
"""`nn.global_max_pool1d` and so on, by the number of spatial dimensions."""
GLOBAL_AVG = {rank: _declare_global("mean", rank, lambda x, axes: x.mean(axes, keepdims=True), "GlobalAveragePool") for rank in SPATIAL}
"""`nn.global_avg_pool1d` and so on, by the number of spatial dimensions."""


@from_onnx("GlobalMaxPool")
def _read_global_max(node: OnnxNode) -> Expr | None:
    rank = node.type(0).ndim - 2
    return GLOBAL_MAX[rank](node.input(0), span=node.span) if rank in SPATIAL and only(node) else None


@from_onnx("GlobalAveragePool")
def _read_global_avg(node: OnnxNode) -> Expr | None:
    rank = node.type(0).ndim - 2
    return GLOBAL_AVG[rank](node.input(0), span=node.span) if rank in SPATIAL and only(node) else None


@from_onnx("GlobalLpPool")
def _read_global_lp(node: OnnxNode) -> Expr | None:
    rank, p = node.type(0).ndim - 2, node.attrs.get("p", 2)
    return global_lp_pool(node.input(0), p=p, span=node.span) if rank in SPATIAL and p >= 1 and only(node, "p") else None


def _global_writer(op_type: str) -> Callable[[Call, Sequence[str], Emitter], str]:
    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
        canonical = "NC" + SPATIAL[tensor_type(call.args[0].checked_type).ndim - 2]
        layout = call.attrs.get("layout", canonical)
        result = emit.node(op_type, [arranged_value(emit, inputs[0], layout, canonical)])
        return arranged_value(emit, result, canonical, layout)

    return write


for _rank in SPATIAL:
    to_onnx(GLOBAL_MAX[_rank])(_global_writer("GlobalMaxPool"))
    to_onnx(GLOBAL_AVG[_rank])(_global_writer("GlobalAveragePool"))


@to_onnx(global_lp_pool)
def _write_global_lp(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    """Written as a reduction from opset 22 on, since ONNX Runtime has no kernel for GlobalLpPool 22."""
    p, type_ = call.attrs.p, tensor_type(call.args[0].checked_type)
    if emit.opset < 22:
        return emit.node("GlobalLpPool", inputs, {"p": p})
    axes = range(2, type_.ndim)
    if p in (1, 2):
        return reduced(emit, f"ReduceL{p}", inputs[0], axes)
    power, root = (emit.constant(Tensor.splat(exponent, (), type_.dtype)) for exponent in (p, 1 / p))
    powers = emit.node("Pow", [emit.node("Abs", inputs), power])
    return emit.node("Pow", [reduced(emit, "ReduceSum", powers, axes), root])
