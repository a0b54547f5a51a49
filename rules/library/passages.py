"""Views that move behind what is computed from them, where they meet other views. Operators: transpose reshape, every elementwise operator,
nn.softmax nn.log_softmax nn.bias_add concatenate.

Elementwise operators do not care where elements are: f(transpose(x)) = transpose(f(x)). By itself neither is better, so the rules explore;
what makes them pay are `Transposes` and `Views`, where two views meet.
"""

from collections.abc import Sequence
from typing import Final

from passat.ir.op import list_ops
from passat.rules.conditions import Refuse, Term, computed, condition, same_rank, same_shape
from passat.rules.library.linear import is_scalar, no_axes
from passat.rules.pattern import PCall, attributes, constants, op, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

x, y = tensors("x y")
(c,) = constants("c")
a, b, p, q = attributes("a b p q")
BUDGET: Final = 200
BINARY: Final = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "power",
    "equal",
    "greater",
    "less",
    "logical_and",
    "logical_or",
)
"""The operators of two operands that views pass."""


def _unary() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    for of in list_ops():
        if of.elementwise and of.arity == 1 and not of.name.startswith("elemwise_") and of.name != "copy":
            attrs = {"attrs": b} if of.attr_params else {}
            name = of.name.replace(".", "_")
            through = PCall(of, (op.transpose(x, axes=p),), attrs) >> op.transpose(PCall(of, (x,), attrs), axes=p)
            rules[f"transpose_{name}"] = through.exploring().budget(BUDGET)
            through = PCall(of, (op.reshape(x, attrs=a),), attrs) >> op.reshape(PCall(of, (x,), attrs), attrs=a)
            rules[f"reshape_{name}"] = through.exploring().budget(BUDGET)
    doc = "A view before an elementwise operator of one operand may as well be behind it."
    return RuleSetMeta("UnaryPassages", (RuleSet,), {"__doc__": doc, **rules})


UnaryPassages = _unary()


@computed
def transposed_back(axes: Sequence[int] | None, x: Term) -> tuple[int, ...]:
    """The permutation that undoes a transpose."""
    rank = x.type.ndim
    order = tuple(reversed(range(rank))) if axes is None else tuple(axis % rank for axis in axes)
    return tuple(order.index(axis) for axis in range(rank))


@computed
def padded_shape(c: Term, x: Term) -> tuple[int, ...]:
    """The shape of a constant with as many axes as another tensor. Refuses where it has more."""
    missing = x.type.ndim - c.type.ndim
    if missing < 0 or 0 in c.type.shape:
        raise Refuse(f"{c.type!r} has more axes than {x.type!r}, or no elements")
    return (1,) * missing + tuple(int(dim) for dim in c.type.shape)  # type: ignore[arg-type]  # constants are static


@condition
def is_no_scalar(c: Term) -> bool | str:
    """The constant has several elements."""
    return c.type.size != 1 or f"{c.type!r} is one number"


def _binary() -> RuleSetMeta:
    passages: dict[str, Rule] = {}
    for name in BINARY:
        of, rules = getattr(op, name), {}
        turned, viewed = op.transpose(x, axes=p), op.reshape(x, attrs=a)
        rules[f"transposes_{name}"] = (of(turned, op.transpose(y, axes=p)) >> op.transpose(of(x, y), axes=p)).when(same_rank(x, y))
        rules[f"reshapes_{name}"] = (of(viewed, op.reshape(y, attrs=b)) >> op.reshape(of(x, y), attrs=a)).when(
            same_shape(x, y), same_shape(viewed, op.reshape(y, attrs=b))
        )
        number = op.reshape(c, newshape=no_axes(c))
        back = op.transpose(op.reshape(c, newshape=padded_shape(c, x)), axes=transposed_back(p, x))
        if name != "multiply":  # see `Scales`
            rules[f"transpose_{name}_number"] = (of(turned, c) >> op.transpose(of(x, number), axes=p)).when(is_scalar(c, x))
            rules[f"reshape_{name}_number"] = (of(viewed, c) >> op.reshape(of(x, number), attrs=a)).when(is_scalar(c, viewed))
        rules[f"transpose_{name}_constant"] = (of(turned, c) >> op.transpose(of(x, back), axes=p)).when(is_no_scalar(c))
        for key, rule in rules.items():
            extremum = name in ("maximum", "minimum")
            passages[key] = (rule.inexact("of 0.0 and -0.0 either is the larger one") if extremum else rule).exploring().budget(BUDGET)
    doc = "A view that both operands have, or the one that is no constant, may as well be behind the operator."
    return RuleSetMeta("BinaryPassages", (RuleSet,), {"__doc__": doc, **passages})


BinaryPassages = _binary()


@computed
def axis_before(axis: int, axes: Sequence[int] | None, x: Term) -> int:
    """Which axis of a tensor an axis of its transpose is."""
    rank = x.type.ndim
    return rank - 1 - axis % rank if axes is None else axes[axis % rank] % rank


class RowPassages(RuleSet):
    """Transposes move behind what works along one axis."""

    softmax = (
        (op.nn.softmax(op.transpose(x, axes=p), axis=q) >> op.transpose(op.nn.softmax(x, axis=axis_before(q, p, x)), axes=p))
        .inexact("sums in another order")
        .exploring()
    )
    log_softmax = (
        (op.nn.log_softmax(op.transpose(x, axes=p), axis=q) >> op.transpose(op.nn.log_softmax(x, axis=axis_before(q, p, x)), axes=p))
        .inexact("sums in another order")
        .exploring()
    )
    bias = (
        op.nn.bias_add(op.transpose(x, axes=p), y, axis=q) >> op.transpose(op.nn.bias_add(x, y, axis=axis_before(q, p, x)), axes=p)
    ).exploring()
    concat = op.concatenate((op.transpose(x, axes=p), op.transpose(y, axes=p)), axis=q) >> op.transpose(
        op.concatenate((x, y), axis=axis_before(q, p, x)), axes=p
    )
