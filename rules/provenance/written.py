"""Other words for the same, as rules: what becomes of programs that are written to ONNX and read again, where no results are two at once,
and what passes without rules change."""

from typing import Final

from passat.ir.attrs import Attrs
from passat.rules.conditions import Refuse, Term, computed
from passat.rules.pattern import OpNames, attributes, op, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

x, b = tensors("x b")
(a,) = attributes("a")

_WITH_AXIS: Final = ("cumsum", "nn.log_softmax", "nn.softmax", "topk")
"""Operators of one operand whose axis may be counted from either end."""


@computed
def column(axis: int, data: Term) -> tuple[int, ...]:
    """The shape in which a bias is added to the data along an axis."""
    rank = data.type.ndim
    return (-1, *(1,) * (rank - axis % rank - 1))


@computed
def from_the_front(attrs: Attrs, data: Term) -> Attrs:
    """The attributes with the axis counted from the front. Refuses where it is."""
    if attrs["axis"] >= 0:
        raise Refuse("the axis is counted from the front")
    return Attrs({**attrs, "axis": attrs["axis"] + data.type.ndim})


def _rules() -> RuleSetMeta:
    rules: dict[str, Rule] = {
        "identity": op.copy(x) >> x,
        "two": (op.elemwise_sum((x, b)) >> x + b).exploring(),
        "bias": (op.nn.bias_add(x, b, axis=a) >> op.add(x, op.reshape(b, newshape=column(a, x)))).exploring(),
    }
    for name in _WITH_AXIS:
        head = OpNames(name)
        rules[name.replace(".", "_")] = (head(x, attrs=a) >> head(x, attrs=from_the_front(a, x))).exploring()
    return RuleSetMeta("WrittenAndRead", (RuleSet,), {"__doc__": __doc__, **rules})


Written = _rules()
