"""Transposes that move through what does not care for the order of axes. Operators: transpose nn.bias_add nn.batch_norm nn.instance_norm
nn.group_norm nn.lrn nn.lp_normalize nn.pad nn.prelu strided_slice split concatenate elemwise_sum squeeze reshape where reverse argmax
argmin, poolings, reductions, arithmetic and comparisons.

Each equation is read both ways: `LayoutsDown` moves a transpose from an operand to the result, `LayoutsUp` from the result to the operands.
By themselves they make nothing better; where a transpose meets its inverse, both vanish (`Meetings`). The unary operators are in
`UnaryPassages`, softmax in `RowPassages`. Where a transpose comes to other operands too, only those move that lay an image out otherwise:
others, as those of attention, meet no convolution.
"""

from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

from passat.ir.op import list_ops
from passat.rules.conditions import compose, is_identity, same_rank
from passat.rules.library.arithmetic import CHOSEN_ZERO, TIES
from passat.rules.library.layout_axes import (
    axis_behind,
    has_fewer_axes,
    has_part,
    has_several,
    inner_order,
    inner_shape,
    is_number,
    keeps_batch,
    keeps_order,
    kept_order,
    layout_before,
    layout_behind,
    lays_out,
    missing_axes,
    moves_blocks,
    one_axis_before,
    outer_order,
    reduced_before,
    sliced,
    widths_before,
    widths_behind,
)
from passat.rules.library.layouts import POOLINGS
from passat.rules.library.passages import axis_before, transposed_back
from passat.rules.library.views import is_view, new_shape
from passat.rules.operator_hole import operator
from passat.rules.parts_hole import PartsHole, tensors_of
from passat.rules.pattern import Pattern, PCall, attributes, op, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

x, y, z, gamma, beta, mean, var = tensors("x y z gamma beta mean var")
a, p, q = attributes("a p q")
MOST: Final = 4
"""Parts of a concatenation, a sum or a split through which transposes move in both directions."""
xs, ys = tensors_of("xs", most=MOST - 1), tensors_of("ys", most=MOST - 1)
zs = tensors_of("zs", least=1, most=MOST - 1)
many = tensors_of("many", least=MOST, most=31)
_SUMS: Final = "sums in another order"
pool = operator("pool", *POOLINGS)
norm = operator("norm", "nn.instance_norm", "nn.group_norm")
along = operator("along", "nn.lrn", "reverse")
"""Operators that work along one axis, which need not be the last."""
quantifier = operator("quantifier", "all", "any", "max", "min")
_EXACT: Final = (*quantifier.choices, "argmax", "argmin")
total = operator(
    "total", *(of.name for of in list_ops() if {"axis", "keepdims", "exclude"} <= set(of.attr_params) and of.name not in _EXACT)
)
"""Reductions whose result depends on the order of the elements."""
place = operator("place", "argmax", "argmin")
g = operator("g", "add", "subtract", "multiply", "divide", "power", "equal", "greater", "less")
h = operator("h", "subtract", "divide", "power", "greater", "less")  # those that are not commutative
extremum = operator("extremum", "maximum", "minimum")


def _back(of: Pattern) -> PCall:
    """A tensor with the inverse of the transpose."""
    return op.transpose(of, axes=transposed_back(p, x))


_TURNED: Final = op.transpose(x, axes=p)
Rules = dict[str, Rule]


def _one_operand() -> tuple[Rules, Rules]:
    """Operators on one tensor, some with vectors for its channels."""
    down: Rules = {}
    up: Rules = {}

    def add(
        name: str, of: AnyValue, before: dict[str, AnyValue], behind: dict[str, AnyValue], *, note: str = "", guard: AnyValue = None
    ) -> None:
        """`of` makes the call; `before` are the attributes that it has on the tensor where those on the transpose were `q` and `a`, and
        `behind` those that it has on the transpose where those on the tensor were. `guard` makes a condition of what it works on."""
        plain = {"attrs": a, **{key: q for key in before if key in ("axis", "layout", "pad_width")}}
        rule = of(_TURNED, **plain) >> op.transpose(of(x, **{**plain, **before}), axes=p)
        other = op.transpose(of(x, **plain), axes=p) >> of(_TURNED, **{**plain, **behind})
        if guard is not None:
            rule, other = rule.when(guard(_TURNED)), other.when(guard(x))
        down[name] = rule.inexact(note) if note else rule
        up[name] = (other.inexact(note) if note else other).when(lays_out(p, x))

    axis = {"axis": axis_before(q, p, x)}, {"axis": axis_behind(q, p, x)}
    add("bias_add", lambda data, **attrs: op.nn.bias_add(data, beta, **attrs), *axis)
    add("batch_norm", lambda data, **attrs: op.nn.batch_norm(data, gamma, beta, mean, var, **attrs)[0], *axis)
    add("along", along, *axis)
    add("lp_normalize", op.nn.lp_normalize, *axis, note=_SUMS)
    add("pool", pool, {"layout": layout_before(q, p, x)}, {"layout": layout_behind(q, p, x)})
    add("pad", op.nn.pad, {"pad_width": widths_before(q, p, x)}, {"pad_width": widths_behind(q, p, x)})
    parts = ("begin", "end", "strides", "axes")
    add("strided_slice", op.strided_slice, *({part: sliced(a, p, x, part, way) for part in parts} for way in (False, True)))
    for i in range(MOST):
        enough = lambda data, i=i: has_part(op.split(data, attrs=a, axis=q), a, x, i)  # noqa: E731  # one of each number
        add(f"split_{i}", lambda data, i=i, **attrs: op.split(data, **attrs)[i], *axis, guard=enough)
    add("norm", lambda data, **attrs: norm(data, gamma, beta, **attrs), *axis, note=_SUMS, guard=lambda _: keeps_batch(p, x))
    return down, up


def _reductions() -> Rules:
    """What takes axes of a transpose away takes them of the tensor; it is transposed where the axes left are in another order."""
    axes, axis = reduced_before(p, a, x), one_axis_before(q, p, x)
    calls = {
        "quantifier": (quantifier(_TURNED, attrs=a), quantifier(x, attrs=a, axis=axes, exclude=False)),
        "total": (total(_TURNED, attrs=a), total(x, attrs=a, axis=axes, exclude=False)),
        "place": (place(_TURNED, attrs=a, axis=q), place(x, attrs=a, axis=axis)),
        "squeeze": (op.squeeze(_TURNED, attrs=a), op.squeeze(x, attrs=a, axis=axes)),
    }
    rules: Rules = {}
    for name, (before, behind) in calls.items():
        rules[f"{name}_alone"] = (before >> behind).when(keeps_order(p, a, x, False))
        rules[name] = (before >> op.transpose(behind, axes=kept_order(p, a, x))).when(keeps_order(p, a, x, True))
    return {name: rule.inexact(_SUMS) if name.startswith("total") else rule for name, rule in rules.items()}


def _two_operands() -> tuple[Rules, Rules]:
    """Operators that broadcast: the other operand is transposed the other way, or is one number."""
    down: Rules = {}
    up: Rules = {}
    calls: dict[str, Callable[[Pattern, Pattern], PCall]] = {
        "binary": g,
        "binary_right": lambda one, other: h(other, one),
        "extremum": extremum,
    }
    for name, made in calls.items():
        down[name] = (made(_TURNED, y) >> op.transpose(made(x, _back(y)), axes=p)).when(lays_out(p, x), same_rank(x, y), has_several(y))
        down[f"{name}_wider"] = (made(_TURNED, y) >> op.transpose(made(x, _back(_widened(y))), axes=p)).when(
            lays_out(p, x), has_fewer_axes(y, x)
        )
        down[f"{name}_number"] = (made(_TURNED, y) >> op.transpose(made(x, y), axes=p)).when(lays_out(p, x), is_number(y, x))
        if name != "binary_right":
            both = op.transpose(made(x, y), axes=p) >> made(_TURNED, op.transpose(y, axes=p))
            up[name] = both.when(lays_out(p, x), same_rank(x, y), has_several(y), has_several(x))
        up[f"{name}_wider"] = (op.transpose(made(x, y), axes=p) >> made(_TURNED, op.transpose(_widened(y), axes=p))).when(
            lays_out(p, x), has_fewer_axes(y, x)
        )
        up[f"{name}_number"] = (op.transpose(made(x, y), axes=p) >> made(_TURNED, y)).when(lays_out(p, x), is_number(y, x))
    for rules in (down, up):
        rules.update({name: rule.inexact(TIES) for name, rule in rules.items() if name.startswith("extremum")})
    prelu = {
        "prelu": (op.nn.prelu(_TURNED, y) >> op.transpose(op.nn.prelu(x, _back(y)), axes=p)).when(same_rank(x, y), has_several(y)),
        "prelu_wider": (op.nn.prelu(_TURNED, y) >> op.transpose(op.nn.prelu(x, _back(_widened(y))), axes=p)).when(has_fewer_axes(y, x)),
        "prelu_number": (op.nn.prelu(_TURNED, y) >> op.transpose(op.nn.prelu(x, y), axes=p)).when(is_number(y, x)),
    }
    return down | prelu, up


def _widened(of: Pattern) -> PCall:
    """A tensor with as many axes as the other one."""
    return op.expand_dims(of, axis=0, num_newaxis=missing_axes(of, x))


def _several_operands() -> tuple[Rules, Rules]:
    """Concatenations, sums and choices, where one operand is transposed, and where the result is."""
    ranks = same_rank(x, xs), same_rank(x, ys)
    turned, inner = (*xs, _TURNED, *ys), (*map(_back, xs), x, *map(_back, ys))
    down: Rules = {
        "concat": _concat_down(turned, inner),
        "sum": (op.elemwise_sum(turned) >> op.transpose(op.elemwise_sum(inner), axes=p)).when(lays_out(p, x), *ranks),
    }
    summed = op.elemwise_sum((_TURNED, *(op.transpose(part, axes=p) for part in zs)))
    up: Rules = {
        "concat": _concat_up(zs),
        "sum": (op.transpose(op.elemwise_sum((x, *zs)), axes=p) >> summed).when(lays_out(p, x), same_rank(x, zs)),
    }
    down["where"] = (
        (op.where(y, _TURNED, z) >> op.transpose(op.where(_back(y), x, _back(z)), axes=p))
        .when(lays_out(p, x), same_rank(x, y), same_rank(x, z))
        .inexact(CHOSEN_ZERO)
    )
    down["where_else"] = (
        (op.where(y, z, _TURNED) >> op.transpose(op.where(_back(y), _back(z), x), axes=p))
        .when(lays_out(p, x), same_rank(x, y), same_rank(x, z))
        .inexact(CHOSEN_ZERO)
    )
    return down, up


def _concat_down(turned: tuple[Pattern, ...], inner: tuple[Pattern, ...]) -> Rule:
    """A concatenation of which one part is transposed."""
    rule = op.concatenate(turned, axis=q) >> op.transpose(op.concatenate(inner, axis=axis_before(q, p, x)), axes=p)
    return rule.when(lays_out(p, x))


def _concat_up(others: PartsHole) -> Rule:
    """A concatenation that is transposed."""
    parts = op.concatenate((_TURNED, *(op.transpose(part, axes=p) for part in others)), axis=axis_behind(q, p, x))
    return (op.transpose(op.concatenate((x, *others), axis=q), axes=p) >> parts).when(lays_out(p, x))


def _made(title: str, rules: Rules, doc: str) -> RuleSetMeta:
    return RuleSetMeta(title, (RuleSet,), {"__doc__": doc, **{name: rule.exploring() for name, rule in rules.items()}})


_ONE, _TWO, _SEVERAL = _one_operand(), _two_operands(), _several_operands()
LayoutsDown = _made("LayoutsDown", _ONE[0] | _reductions() | _TWO[0] | _SEVERAL[0], "Transposes move from an operand to the result.")
LayoutsUp = _made("LayoutsUp", _ONE[1] | _TWO[1] | _SEVERAL[1], "Transposes move from the result to the operands.")


class WideConcats(RuleSet):
    """Concatenations of more parts than those of `LayoutsUp` and `LayoutsDown`; of these the first part may be transposed."""

    up = _concat_up(many).exploring()
    down = _concat_down((_TURNED, *many), (x, *map(_back, many))).exploring()


class Meetings(RuleSet):
    """Transposes that meet, as in `Transposes`, but matched again: a tensor may be the transpose of several, which are then all one."""

    merge = (op.transpose(_TURNED, axes=q) >> op.transpose(x, axes=compose(p, q, x))).exploring()
    drop = (_TURNED >> x).when(is_identity(p, x)).exploring()


_SHUFFLED: Final = op.reshape(_TURNED)


class TurnedViews(RuleSet):
    """Transposes that move no elements are reshapes; reshapes that take channels apart, or together, let transposes pass."""

    transpose = (_TURNED >> op.reshape(x, newshape=new_shape(x, _TURNED))).when(is_view(p, x)).exploring()
    reshape = (
        (
            _SHUFFLED
            >> op.transpose(
                op.reshape(op.transpose(x, axes=inner_order(p, x, _SHUFFLED)), newshape=inner_shape(p, x, _SHUFFLED)),
                axes=outer_order(p, x, _SHUFFLED),
            )
        )
        .when(moves_blocks(p, x, _SHUFFLED))
        .exploring()
    )
