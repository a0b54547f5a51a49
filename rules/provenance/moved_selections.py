"""Rules for selections: a position along an axis of a result is computed from the same position of operands (`passat.ir.aligned_axes`).
Certificates use these rules to prove the work of HoistSelections, which is a walk. No pass runs them.

Operators: take strided_slice expand_dims squeeze concatenate split, elementwise operators, and others that `aligned_axes` lists.
"""

from collections.abc import Sequence

from passat.ir.aligned_axes import Aligned, aligned_axes
from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.expr import Call, Var
from passat.ir.op import Op, get_op, list_ops
from passat.ir.ops.newshape import static_newshape
from passat.ir.ops.reshaping import squeezed_axes
from passat.ir.ops.slicing import slice_parts
from passat.ir.types import TensorType, TupleType, Type, tensor_type
from passat.rules.guards import Applied, Reject, Term, Tree, computed, has_rank
from passat.rules.holes import cases, operator, tensors_of
from passat.rules.pattern import Pattern, attributes, expression, op, tensors
from passat.rules.rule_set import RuleSet

_LISTED = (
    *("nn.matmul", "nn.dense", "nn.bias_add", "nn.attention", "nn.softmax", "nn.log_softmax", "nn.layer_norm", "nn.rms_norm"),
    *("sum", "mean", "max", "min", "prod", "transpose", "reshape", "dyn.reshape", "expand_dims", "squeeze", "strided_slice", "take"),
)
_RESHAPES = ("reshape", "dyn.reshape")
_OF_TUPLES = ("elemwise_max", "elemwise_mean", "elemwise_min", "elemwise_sum")
_ELEMENTWISE = [found for found in list_ops() if found.elementwise and not (found.variadic or found.stateful or found.name in _OF_TUPLES)]
_OPERATORS = [*_ELEMENTWISE, *map(get_op, _LISTED)]
x, y, index = tensors("x y index")
s, e, p = attributes("s e p")
selection = cases("selection", "take", "strided_slice")
kind = cases("kind", "bare", "attributed")
f = operator("f", *(found.name for found in _OPERATORS if not found.attr_params))
g = operator("g", *(found.name for found in _OPERATORS if found.attr_params))
operands = tensors_of("operands", least=1, most=4)
xs = tensors_of("xs", least=1, most=4)
part = cases("part", "first", "second", "third")


def _axis_of(attrs: Attrs, data: TensorType, result: TensorType) -> int:
    """The axis of a selection. Rejects selections along several axes, and those that do not keep the axis."""
    if "axis" in attrs:
        if attrs.axis is None or data.ndim != result.ndim:
            raise Reject("the selection does not keep the axis")
        return data.axis(attrs.axis)
    cut = slice_parts(data.ndim, attrs.begin, attrs.end, attrs.strides, attrs.axes)
    if len(cut) != 1:
        raise Reject("the slice does not cut one axis")
    return next(iter(cut))


def _along(attrs: Attrs, rank: int, axis: int) -> Attrs:
    """The attributes of a selection for another axis; `rank` is that of the selected tensor."""
    if "axis" in attrs:
        return Attrs({**attrs, "axis": axis})
    ((begin, end, stride),) = slice_parts(rank, attrs.begin, attrs.end, attrs.strides, attrs.axes).values()
    return Attrs(begin=(begin,), end=(end,), strides=(stride,), axes=(axis,))


def _aligned(of: str, attrs: Attrs, types: Sequence[Type], result: Type, axis: int) -> Aligned:
    """The aligned axes of the operands of a call. Rejects calls that have none."""
    call = Call(get_op(of), [Var("operand", type_).assume_type(type_) for type_ in types], attrs)
    found = aligned_axes(call.assume_type(result), axis)
    if found is None or found == (None,) * len(found):
        raise Reject("a position of the result depends on several positions of an operand, or on none")
    return found


@computed
def selected_operands(of: Op, attrs: Attrs, chosen: Attrs, whole: Term, result: Term, place: Term, parts: Sequence[Term]) -> Tree:
    """The call on the selected positions of those operands that have the axis."""
    data, few = tensor_type(whole.type), tensor_type(result.type)
    axis = _axis_of(chosen, data, few)
    aligned = _aligned(of.name, attrs, [term.type for term in parts], data, axis)
    select = get_op("take" if "axis" in chosen else "strided_slice")
    more = (place,) if "axis" in chosen else ()
    trees: list[Tree] = [
        term if at is None else Applied(select, (term, *more), _along(chosen, data.ndim, at))
        for term, at in zip(parts, aligned, strict=True)
    ]
    source, at = tensor_type(parts[0].type).shape, aligned[0]
    if of.name == "squeeze":
        attrs = of.bind_attrs({"axis": tuple(squeezed_axes(source, attrs.axis))})
    elif of.name in _RESHAPES:
        assert at is not None
        new = static_newshape((*source[:at], few.shape[axis], *source[at + 1 :]), few.shape)
        if new is None:
            raise Reject("the shape of the selected positions must be computed")
        of, trees = get_op("reshape"), trees[:1]
        attrs = of.bind_attrs(new)
    return Applied(of, tuple(trees), attrs)


@computed
def along_operand(of: str, attrs: Attrs, chosen: Attrs, whole: Term, result: Term, operand: Term | Sequence[Term]) -> Attrs:
    """The attributes of the selection from the operand of a call, a tensor or the fields of a tuple."""
    data = tensor_type(whole.type)
    type_ = operand.type if isinstance(operand, Term) else TupleType([term.type for term in operand])
    (at,) = _aligned(of, attrs, [type_], data, _axis_of(chosen, data, tensor_type(result.type)))
    assert at is not None
    return _along(chosen, data.ndim, at)


@computed
def axis_of_take(chosen: Attrs, data: Term) -> tuple[int, ...]:
    """The axis of a selection as the axes of a squeeze. Rejects a selection from all elements."""
    if chosen.axis is None:
        raise Reject("the selection is from all elements")
    return (data.type.axis(chosen.axis),)


def _select(x: Pattern, attrs: object = s) -> Pattern:
    return selection(take=op.take(x, index, attrs=attrs), strided_slice=op.strided_slice(x, attrs=attrs))


_CALL = kind(bare=f(*operands), attributed=g(*operands, attrs=e))
_OF, _ATTRS = kind(bare=f, attributed=g), kind(bare=EMPTY_ATTRS, attributed=e)
_JOINED = op.concatenate((*xs,), attrs=e)
_PLACE = part(first=0, second=1, third=2)
_PART = op.split(x, attrs=e)[_PLACE]
_INDEX = selection(take=index, strided_slice=_CALL)  # which a slice does not have


class MovedSelections(RuleSet):
    """Selections of operands in place of selections of results."""

    scalar = (op.take(x, index, attrs=s) >> op.squeeze(op.take(x, op.expand_dims(index, axis=0), attrs=s), axis=axis_of_take(s, x))).when(
        has_rank(index, 0)
    )
    composed = (op.take(op.take(x, index, axis=p), y, axis=p) >> op.take(x, op.take(index, y, axis=0), axis=p)).when(index.ndim == 1)
    call = (
        _select(_CALL)
        >> expression(selected_operands(_OF, _ATTRS, s, _CALL, _select(_CALL), _INDEX, (*operands,)), *(found.name for found in _OPERATORS))
    ).inexact("a product of fewer rows may accumulate in another order")
    joined = _select(_JOINED) >> op.concatenate(
        (*(_select(x, along_operand("concatenate", e, s, _JOINED, _select(_JOINED), (*xs,))) for x in xs),), attrs=e
    )
    of_part = _select(_PART) >> op.split(_select(x, along_operand("split", e, s, _PART, _select(_PART), x)), attrs=e)[_PLACE]
