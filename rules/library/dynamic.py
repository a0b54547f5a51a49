"""Dynamic operators whose shape-like operand is known become static ones. Operators: dyn.* onnx.CastLike."""

from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.ops.static_forms import static_form
from passat.rules.conditions import Refuse, Term, computed
from passat.rules.pattern import attributes, op, tensors
from passat.rules.rule import RuleSet

x, y, z, v, w = tensors("x y z v w")
(a,) = attributes("a")
_NONE: Final = Attrs()


@computed
def static_attrs(name: str, operands: tuple[Term, ...], attrs: Attrs) -> AnyValue:
    """The attributes of the static operator that does the same. Refuses where too little is known of the operands."""
    form = static_form(name, [x.type_ for x in operands], [x.known_value for x in operands], attrs, [x.constant for x in operands])
    if form is None:
        raise Refuse(f"too little is known of the operands of {name}: {', '.join(f'{x.known}' for x in operands[1:])}")
    return form.attrs


class DynamicToStatic(RuleSet):
    """Operators that take a shape, bounds or repeats as a tensor take them as attributes, once shape arithmetic knows them."""

    reshape = (op.dyn.reshape(x, y, attrs=a) >> op.reshape(x, attrs=static_attrs("dyn.reshape", (x, y), a))).eager()
    broadcast_to = (op.dyn.broadcast_to(x, y) >> op.broadcast_to(x, attrs=static_attrs("dyn.broadcast_to", (x, y), _NONE))).eager()
    full = (op.dyn.full(x, y, attrs=a) >> op.full(x, attrs=static_attrs("dyn.full", (x, y), a))).eager()
    strided_slice = (
        op.dyn.strided_slice(x, y, z, v, w) >> op.strided_slice(x, attrs=static_attrs("dyn.strided_slice", (x, y, z, v, w), _NONE))
    ).eager()
    tile = (op.dyn.tile(x, y) >> op.tile(x, attrs=static_attrs("dyn.tile", (x, y), _NONE))).eager()
    pad = (op.dyn.pad(x, y, z, attrs=a) >> op.nn.pad(x, attrs=static_attrs("dyn.pad", (x, y, z), a))).eager()
    one_hot = (op.dyn.one_hot(x, y, z, v, attrs=a) >> op.one_hot(x, z, v, attrs=static_attrs("dyn.one_hot", (x, y, z, v), a))).eager()
    topk = (op.dyn.topk(x, y, attrs=a) >> op.topk(x, attrs=static_attrs("dyn.topk", (x, y), a))).eager()
    cast_like = (op.onnx.CastLike(x, y) >> op.cast(x, attrs=static_attrs("onnx.CastLike", (x, y), _NONE))).eager()
