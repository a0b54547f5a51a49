"""`relay.transform.recast`: computes operators in other element types, with casts around them."""

from collections.abc import Collection, Sequence
from typing import overload

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Expr, Tuple, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.traverse import children, post_order, rewrite
from passat.ir.types import TensorType, TupleType, Type


@overload
def recast(
    expr: IRModule, dtype: str, out_dtype: str, ops: Sequence[str] | None = None, skip_layers: Sequence[int] | None = None
) -> IRModule: ...
@overload
def recast(expr: Expr, dtype: str, out_dtype: str, ops: Sequence[str] | None = None, skip_layers: Sequence[int] | None = None) -> Expr: ...
def recast(
    expr: Expr | IRModule, dtype: str, out_dtype: str, ops: Sequence[str] | None = None, skip_layers: Sequence[int] | None = None
) -> Expr | IRModule:
    """Casts the operands of calls of `ops` (by default `nn.conv2d`) to `dtype`, and their results to the types that they had.

    `out_dtype` is the element type of the results in between, for operators with that attribute. `skip_layers` are calls that stay: the
    layer of a call is the largest number of such calls on a path that ends at it, from 0; negative numbers count from the last layer. Of a
    module, recasts `main`. Raises InferError if an operator does not take the element type.
    """
    if isinstance(expr, IRModule):
        made = expr.shallow_copy()
        made["main"] = expr["main"].with_body(recast(expr["main"].body, dtype, out_dtype, ops, skip_layers))
        return made
    wanted = {get_op(name) for name in (("nn.conv2d",) if ops is None else ops)}
    layers = _layers(infer_type(expr), wanted)
    count = max(layers.values(), default=-1) + 1
    skipped = {layer + count if layer < 0 else layer for layer in skip_layers or ()}

    def recast_call(old: Expr, node: Expr) -> Expr:
        if old not in layers or layers[old] in skipped or not isinstance(node, Call):
            return node
        args = [_cast(arg, before.checked_type, dtype) for arg, before in zip(node.args, children(old)[1:], strict=True)]
        made = Call(node.op, args, _with_result(node, dtype, out_dtype), node._type_args, node.span)
        return _cast(made, old.checked_type)

    return infer_type(rewrite(expr, recast_call))


def _layers(expr: Expr, wanted: Collection[Op]) -> dict[Expr, int]:
    """The layer of each call of the wanted operators."""
    before: dict[Expr, int] = {}
    found: dict[Expr, int] = {}
    for node in post_order(expr):
        before[node] = max((before[part] for part in children(node)), default=0)
        if isinstance(node, Call) and node.op in wanted:
            found[node] = before[node]
            before[node] += 1
    return found


def _with_result(call: Call, dtype: str, out_dtype: str) -> Attrs:
    """The attributes of a call on operands of `dtype`, with the element type of its result if the operator has that attribute."""
    if not isinstance(call.op, Op) or "out_dtype" not in call.op.defaults:
        return call.attrs
    return Attrs(call.attrs, out_dtype="" if dtype == out_dtype and call.op.defaults["out_dtype"] == "" else out_dtype)


def _cast(value: Expr, type_: Type, dtype: str | None = None) -> Expr:
    """A tensor, or a tuple of tensors, of a type cast to an element type; without one, to those of the type."""
    if isinstance(type_, TensorType):
        return get_op("cast")(value, dtype=dtype or type_.dtype)
    if not isinstance(type_, TupleType):
        return value
    fields = value.fields if isinstance(value, Tuple) else [TupleGetItem(value, i) for i in range(len(type_.fields))]
    return Tuple(_cast(part, field, dtype) for part, field in zip(fields, type_.fields, strict=True))
