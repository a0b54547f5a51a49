"""Sinks transposes of images below the operators that follow convolutions.

A walk: both orders cost the same, so extraction does not choose between them.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.analysis import is_call_of
from passat.ir.attrs import Attrs
from passat.ir.dtypes import itemsize
from passat.ir.expr import Call, Expr, Function, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.op import Op, get_op
from passat.ir.ops.movement import permutation, transpose
from passat.ir.traverse import children, post_order, rewrite
from passat.ir.types import TensorType, Type, tensor_type


def sunk(function: Function, *, exact: bool = False) -> Function:
    """The function with transposes sunk below elementwise operators, operators along an axis, and quantized sums, so that these directly
    follow convolutions. Keeps a transpose if its result has other uses, or if its elements would become wider; with `exact`, also before
    operators that would sum in a different order."""
    fixed = _SUMMING if exact else ()
    nodes = post_order(function)
    uses = Counter(id(part) for node in nodes for part in children(node))
    fields = defaultdict(list)
    for node in nodes:
        if isinstance(node, TupleGetItem):
            fields[id(node.tuple_value)].append(node.index)
    moved: dict[int, tuple[Call, tuple[int, ...]] | None] = {}

    def sink(old: Expr, made: Expr) -> Expr:
        if is_call_of(made, *fixed):
            return made
        if isinstance(old, Call) and isinstance(made, Call) and not _is_tuple(old):
            found = _below(old, made, uses)
            return made if found is None else _turned(*found)
        if not isinstance(old, TupleGetItem) or not isinstance(made, TupleGetItem):
            return made
        whole, call = old.tuple_value, made.tuple_value
        if not isinstance(whole, Call) or not isinstance(call, Call) or len(fields[id(whole)]) != uses[id(whole)]:
            return made
        if id(whole) not in moved:
            first = call.op is not _BATCH_NORM or not any(fields[id(whole)])
            moved[id(whole)] = _below(whole, call, uses) if first else None
        below = moved[id(whole)]
        return made if below is None else _turned(TupleGetItem(below[0], made.index, span=made.span), below[1])

    return infer_type(rewrite(function, sink))


def _is_tuple(expr: Expr) -> bool:
    return not isinstance(expr.checked_type, TensorType)


def _turned(expr: Expr, order: tuple[int, ...]) -> Expr:
    return Call(transpose, [expr], Attrs(axes=order), span=expr.span)


def _below(old: Call, made: Call, uses: Mapping[int, int]) -> tuple[Call, tuple[int, ...]] | None:
    """The call on the operands before their transposes, and the permutation of its result; None if a transpose cannot sink or that saves
    nothing."""
    if not isinstance(made.op, Op):
        return None
    places = _data_of(made.op, [arg.checked_type for arg in old.args])
    turned = [made.args[i] for i in places]
    operands = [
        arg.args[0] for arg in turned if isinstance(arg, Call) and arg.op is transpose and isinstance(arg.args[0], (Call, TupleGetItem))
    ]
    axes = {arg.attrs["axes"] for arg in turned if isinstance(arg, Call) and arg.op is transpose}
    if not places or len(operands) != len(places) or len(axes) != 1:
        return None
    inputs = [old.args[i] for i in places]
    grows = not _is_tuple(old) and itemsize(tensor_type(old.checked_type).dtype) > itemsize(tensor_type(inputs[0].checked_type).dtype)
    if grows or any(uses[id(arg)] != sum(arg is other for other in inputs) for arg in inputs):
        return None
    order = permutation(tensor_type(inputs[0].checked_type).ndim, axes.pop())
    if made.op.name in _PER_SAMPLE and order[0] != 0:
        return None
    named = [name for name, scale in _CHANNELS.get(made.op.name, {}).items() if _is_vector(old.args[scale])]
    if made.op.name in _ALONG:
        named = ["axis"]
    attrs = {name: _moved(made.attrs[name], order) for name in named}
    if None in attrs.values():
        return None
    below = [operands[places.index(i)] if i in places else arg for i, arg in enumerate(made.args)]
    return Call(made.op, below, Attrs(made.attrs, **attrs), span=made.span), order


def _moved(axis: AnyValue, order: Sequence[int]) -> AnyValue:
    """The axes before a transpose that become one or more axes after it."""
    return tuple(order[each] for each in axis) if isinstance(axis, tuple) else None if axis is None else order[axis]


_SUM: Final = {"lhs_axis": 2, "rhs_axis": 4}
_CHANNELS: Final[Mapping[str, Mapping[str, int]]] = {"qnn.requantize": {"axis": 0}, "qnn.add": _SUM, "qnn.subtract": _SUM, "qnn.mul": _SUM}
"""Attributes that name the axis of scales, and the operands that decide whether it matters: for requantize it always matters, as in TVM."""
_PER_SAMPLE: Final = ("nn.group_norm", "nn.instance_norm")
_SUMMING: Final = (*_PER_SAMPLE, "nn.l2_normalize")
_ALONG: Final = (*_SUMMING, "nn.batch_norm", "nn.lrn", "split", "topk")
"""Operators on their first operand, along axes, whose other operands are vectors."""
_BATCH_NORM: Final = get_op("nn.batch_norm")
"""Its fields but the first one are vectors."""


def _is_vector(expr: Expr) -> bool:
    return tensor_type(expr.checked_type).size != 1


def _data_of(op: Op, types: Sequence[Type]) -> list[int]:
    """The operands of an operator that have the layout of the result, where the others are scalars, scales or vectors; none for other
    operators."""
    if op.name in _ALONG:
        return [0]
    if op.name in _CHANNELS:
        return [0] if op.name == "qnn.requantize" else [0, 1]
    if not op.elementwise or not all(isinstance(type_, TensorType) for type_ in types):
        return []
    found = [i for i, type_ in enumerate(types) if tensor_type(type_).ndim]
    return found if len(found) == 1 else []
