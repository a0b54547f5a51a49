"""2D and 3D convolutions and 2D poolings of data in blocks of channels: nn.contrib_conv2d_nchwc and so on.

They are separate operators, because rules on the others treat a layout as an order of axes. Each computes with joined blocks.
"""

import inspect
from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost
from passat.ir.expr import Call, Var
from passat.ir.infer import infer_type
from passat.ir.onnx_mapping import Emitter, to_onnx
from passat.ir.op import Op, define_op
from passat.ir.ops.blocked_layouts import emit_layout, has_blocks, joined, joined_shape, split, split_shape, without_blocks
from passat.ir.ops.convolution import CONVOLUTIONS
from passat.ir.ops.global_pooling import GLOBAL_AVG, GLOBAL_MAX
from passat.ir.ops.pooling import AVG, MAX
from passat.ir.tensor import Array
from passat.ir.types import TensorType, Type, tensor_type


def _declare(whole: Op) -> Op:
    layouts = [name for name in ("data_layout", "layout", "kernel_layout") if name in whole.attr_params]
    """The attributes for the layouts of operands, in order. The first one is also the layout of the result."""

    def of_whole(attrs: Attrs) -> Attrs:
        return Attrs(attrs, **{name: without_blocks(attrs[name]) for name in layouts})

    def whole_types(types: Sequence[Type], attrs: Attrs) -> list[TensorType]:
        pairs = zip(map(tensor_type, types), layouts, strict=False)
        return [type_.with_shape(joined_shape(type_.shape, attrs[layout])) for type_, layout in pairs]

    def relation(*operands: TensorType, **given: AnyValue) -> TensorType:
        found = tensor_type(whole.relation(*whole_types(operands, Attrs(given)), **of_whole(Attrs(given))))
        return found.with_shape(split_shape(found.shape, given[layouts[0]]))

    def compute(*operands: Array, **given: AnyValue) -> Array:
        assert whole.kernel is not None
        parts = [joined(array, given[layout]) for array, layout in zip(operands, layouts, strict=True)]
        result: Array = whole.kernel(*parts, **of_whole(Attrs(given)))
        return split(result, given[layouts[0]])

    def cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
        return whole.cost(whole_types(args, attrs), whole_types([result], attrs)[0], of_whole(attrs))

    parameters = inspect.signature(whole.relation).parameters.values()
    relation.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what define_op reads
        [each.replace(default=each.empty) if each.name in layouts else each for each in parameters]
    )
    relation.__doc__ = f"""`{whole.name}` of operands in layouts with blocks, such as NCHW16c; the result is in the layout of data.

    Blocks divide the axes. Relay's {whole.name} in such layouts."""
    name = f"nn.contrib_{whole.name.removeprefix('nn.')}_nchwc"
    made = define_op(name, kernel=compute, cost=cost, pattern=4)(relation)

    @to_onnx(made)
    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
        assert whole.to_onnx is not None
        used = [call.attrs[layout] for layout in layouts]
        types = whole_types([arg.checked_type for arg in call.args], call.attrs)
        operands = [
            emit_layout(emit, name, tensor_type(arg.checked_type).shape, layout, without_blocks(layout))
            for name, arg, layout in zip(inputs, call.args, used, strict=True)
        ]
        inner = infer_type(Call(whole, [Var(f"x{i}", type_) for i, type_ in enumerate(types)], of_whole(call.attrs)))
        assert isinstance(inner, Call)
        result = whole.to_onnx(inner, operands, emit)
        assert isinstance(result, str)
        return emit_layout(emit, result, tensor_type(inner.checked_type).shape, without_blocks(used[0]), used[0])

    return made


BLOCKED: Final = {of: _declare(of) for of in (CONVOLUTIONS[2], CONVOLUTIONS[3], MAX[2], AVG[2], GLOBAL_MAX[2], GLOBAL_AVG[2])}
"""Maps operators on whole axes to those on blocks."""
WHOLE: Final = {blocked: of for of, blocked in BLOCKED.items()}
"""The inverse of `BLOCKED`."""


def fitting(of: Op, *layouts: str) -> Op:
    """The operator for these layouts: the form of `of` on blocks, or its form on whole axes."""
    return BLOCKED.get(of, of) if any(map(has_blocks, layouts)) else WHOLE.get(of, of)
