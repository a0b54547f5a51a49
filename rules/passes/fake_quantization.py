"""FakeQuantizationToInteger: replaces real arithmetic between qnn.dequantize and qnn.quantize by integer arithmetic.

Functions registered for operators convert them (`passat.ir.affine_type`). The functions for Relay's operators are in `quantized_forms`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from passat.ir.affine_type import (
    CONVERSION,
    OPTIONAL_CONVERSION,
    AffineType,
    AffineTypes,
    Conversion,
    TensorAffineType,
    TupleAffineType,
)
from passat.ir.expr import Call, Expr, Function, Tuple, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.ops.quantization import dequantize, quantize, region_before
from passat.ir.passat_error import PassatError
from passat.ir.traverse import children, post_order, rewrite, with_children
from passat.ir.types import TensorType
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass


class FakeQuantizationError(PassatError, RuntimeError):
    """A region between qnn.dequantize and qnn.quantize cannot be computed in integers (`hard_fail`)."""


def _is(node: Expr, op: Op) -> bool:
    return isinstance(node, Call) and node.op is op


@register_pass("relay._transform.FakeQuantizationToInteger")
@dataclass(frozen=True)
class FakeQuantizationToInteger(FunctionPass):
    """Replaces real arithmetic between qnn.dequantize and qnn.quantize by integer arithmetic.

    A region is converted as a whole or not at all: each of its operators needs a conversion. With `hard_fail` a region that cannot be
    converted is an error; otherwise a remark says why it is kept. With `use_qat`, single operators after qnn.dequantize are also converted,
    if the scale of their result follows from those of their operands. `optional_qnn_ops` names operators whose conversion is an
    approximation (nn.softmax).

    A walk, not rules: the conversion of an operator depends on its whole region, and may use the scale at the end of the region.
    """

    hard_fail: bool = False
    use_qat: bool = False
    optional_qnn_ops: tuple[str, ...] = ()

    info = PassInfo(
        0,
        "FakeQuantizationToInteger",
        required=("InferType", "DivToMul"),
        provides=("types",),
        counters={"converted": "regions that are computed in integers"},
    )

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Converts the regions of one function."""
        import passat.rules.passes.quantized_forms  # noqa: F401  # registers the conversions of Relay's operators

        count = 0

        def counted(convert: Callable[[Expr, PassContext], Expr], made: Expr) -> Expr:
            nonlocal count
            found = convert(made, ctx)
            count += found is not made
            return found

        result = rewrite(infer_type(func), lambda _, made: counted(self._converted, made))
        if self.use_qat:
            result = rewrite(infer_type(result), lambda _, made: counted(self._converted_single, made))
        if count:
            ctx.record(self.info.name, "converted", count)
        return infer_type(result)

    def _converted(self, end: Expr, ctx: PassContext) -> Expr:
        """A qnn.quantize with the region before it converted to integers; any other node, or a node without such a region, unchanged."""
        if not isinstance(end, Call) or end.op is not quantize:
            return end
        region = region_before(end.args[0])
        if region is None or not region:
            return end
        for call in region:
            if self._conversion(call) is None:
                return self._stays(end, f"{call.op!r} has no conversion to integers (register_fake_quantization_to_integer)", ctx)
        try:
            return self._convert([*region, end], end)
        except Exception as error:  # conversions are functions of users
            return self._stays(end, _reason(error), ctx, error)

    def _converted_single(self, call: Expr, ctx: PassContext) -> Expr:
        """A call on dequantized operands, converted to integers with the result dequantized; any other node unchanged."""
        if not isinstance(call, Call) or not isinstance(call.op, Op) or call.op.name not in SINGLE:
            return call
        regions = [region_before(arg) for arg in call.args]
        operands = [node for region in regions for node in region or ()]
        if None in regions or not operands:
            return call
        if not all(_is(node, dequantize) for node in operands):
            return self._stays(call, f"an operand of {call.op.name} is not dequantized", ctx)
        try:
            return self._convert([*operands, call], None)
        except Exception as error:  # conversions are functions of users
            return self._stays(call, _reason(error), ctx, error)

    def _stays(self, node: Expr, why: str, ctx: PassContext, error: Exception | None = None) -> Expr:
        if self.hard_fail:
            raise FakeQuantizationError(f"FakeQuantizationToInteger: a region cannot be computed in integers: {why}") from error
        ctx.remark(self.info.name, f"a region stays in real numbers: {why}")
        return node

    def _conversion(self, call: Call) -> Conversion | None:
        found: Conversion | None = None
        if isinstance(call.op, Op):
            found = call.op.get_attr(CONVERSION)
            if found is None and call.op.name in self.optional_qnn_ops:
                found = call.op.get_attr(OPTIONAL_CONVERSION)
        return found

    def _convert(self, calls: Sequence[Call], end: Call | None) -> Expr:
        """The last call, converted to integers after the others; dequantized if no qnn.quantize ends the region (`end` is None)."""
        types = AffineTypes()
        made: dict[int, Expr] = {}
        known = {id(call) for call in calls}
        out = None if end is None else TensorAffineType(end.args[1], end.args[2], end.attrs.out_dtype, end.attrs.axis)
        last = calls[-1]
        starts = last.args if end is None else end.args[:1]
        for node in [*post_order(*starts, into=lambda node: not _is(node, dequantize)), last]:
            if isinstance(node, Call) and id(node) in known:
                made[id(node)] = self._convert_call(node, made, types, out, is_last=end is not None and node is end.args[0])
            else:
                made[id(node)] = _convert_part(node, made, types)
        result = made[id(last)]
        if end is None:
            type_ = _of_tensor(types[result])
            result = dequantize(result, type_.scale, type_.zero_point, axis=type_.axis)
        return infer_type(result)  # fails if an operator rejects integers of this type

    def _convert_call(self, call: Call, made: dict[int, Expr], types: AffineTypes, out: TensorAffineType | None, *, is_last: bool) -> Expr:
        conversion = self._conversion(call)
        if conversion is None:
            raise FakeQuantizationError(f"{call.op!r} has no conversion to integers")
        now: Expr = call
        if call.op is dequantize:
            types[now] = _type_of_dequantize(call)
        else:
            now = with_children(call, [made.get(id(part), part) for part in children(call)])
            if out is not None:
                types[now] = out
        types.last = now if is_last else None
        result, type_ = conversion(now, types)
        if not isinstance(result, Expr) or not isinstance(type_, AffineType):
            found = f"{type(result).__name__} and {type(type_).__name__}"
            raise FakeQuantizationError(f"the conversion of {call.op!r} returned {found}, not an expression and its affine type")
        if call.op is dequantize and types.get(result, type_) != type_:
            result = get_op("copy")(result)  # keeps two affine types of one tensor separate
        types[result] = type_
        return result


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, FakeQuantizationError) else f"{type(error).__name__}: {error}"


def _convert_part(node: Expr, made: dict[int, Expr], types: AffineTypes) -> Expr:
    """A tuple of converted expressions, or a field of one; a constant or an operator unchanged."""
    if isinstance(node, Tuple):
        fields = [made[id(field)] for field in node.fields]
        found: Expr = with_children(node, fields)
        types[found] = TupleAffineType([_of_tensor(types[field]) for field in fields])
        return found
    if isinstance(node, TupleGetItem):
        whole = made[id(node.tuple_value)]
        of_tuple = types[whole]
        assert isinstance(of_tuple, TupleAffineType)
        found = with_children(node, [whole])
        types[found] = of_tuple.types[node.index]
        return found
    return node


def _of_tensor(type_: AffineType) -> TensorAffineType:
    if not isinstance(type_, TensorAffineType):
        raise FakeQuantizationError(f"a tuple of tensors has no scale of its own: {type_!r}")
    return type_


def _type_of_dequantize(call: Call) -> TensorAffineType:
    data = infer_type(call.args[0]).checked_type
    assert isinstance(data, TensorType)
    return TensorAffineType(call.args[1], call.args[2], data.dtype, call.attrs.axis)


SINGLE: Final = frozenset(
    (
        *("broadcast_to", "clip", "expand_dims", "max", "maximum", "min", "minimum", "reshape", "split", "squeeze", "strided_slice"),
        *("transpose", "nn.avg_pool2d", "nn.batch_flatten", "nn.batch_matmul", "nn.bias_add", "nn.conv2d", "nn.conv2d_transpose"),
        *("nn.dense", "nn.depth_to_space", "nn.global_avg_pool2d", "nn.max_pool2d", "nn.pad", "nn.relu"),
    )
)
"""Operators that `use_qat` converts one by one: the scale of their result follows from those of their operands."""
