"""What the ranges of elements decide (`passat.rules.ranges`). Operators: nn.relu abs clip maximum minimum, comparisons, and what is
monotonic."""

from passat.ir.attrs import Attrs
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.rules.checking.dice import Dice
from passat.rules.conditions import Refuse, Term, computed, condition, is_not_empty, same_type
from passat.rules.drafts import Draft, Drafts
from passat.rules.library.arithmetic import TIES
from passat.rules.library.clips import limits_of_clip
from passat.rules.operator_hole import operator
from passat.rules.pattern import attributes, op, tensors, value
from passat.rules.range_guards import never_negative, never_signed, range_of
from passat.rules.rule import RuleSet

x, y = tensors("x y")
(a,) = attributes("a")


@condition
def clips_nothing(attrs: Attrs, x: Term) -> bool | str:
    """Every element lies within the bounds of the clip."""
    found, (low, high) = range_of(x), limits_of_clip(attrs, x.type.dtype)
    return low <= found.low <= found.high <= high or f"elements lie in {found}, and are clipped to [{low:g}, {high:g}]"


def _apart(dice: Dice, of: Op, x: Draft, y: Draft) -> Drafts:
    side = 1.0 if of.name == "maximum" else -1.0
    return [None, Draft(elements=(side * 2, side * 3, float("nan"))), Draft(elements=(side * -1, side * 2))]


@condition(draw=_apart)
def always_wins(of: Op, x: Term, y: Term) -> bool | str:
    """The greater (or smaller) element of two is always the first, whatever that is."""
    one, other = range_of(x), range_of(y)
    if other.nan:
        return f"elements of the second may be NaN: they lie in {other}"
    wins = one.low >= other.high if of.name == "maximum" else one.high <= other.low
    return wins or f"elements lie in {one} and {other}"


def _truth(name: str, x: Term, y: Term) -> bool | None:
    """What a comparison of two tensors always says; None where that depends on the elements."""
    one, other = range_of(x), range_of(y)
    nan = one.nan or other.nan
    if name in ("greater", "greater_equal"):
        return _truth("less" if name == "greater" else "less_equal", y, x)
    if name == "not_equal":
        equal = _truth("equal", x, y)
        return None if equal is None else not equal
    if name == "equal":
        same = one.low == one.high == other.low == other.high
        return True if same and not nan else False if one.high < other.low or other.high < one.low else None
    never, always = (one.low >= other.high, one.high < other.low) if name == "less" else (one.low > other.high, one.high <= other.low)
    return True if always and not nan else False if never else None


@computed
def outcome(of: Op, x: Term, y: Term, whole: Term) -> Tensor:
    """What a comparison always says, as a tensor. Refuses where that depends on the elements."""
    found = _truth(of.name, x, y)
    if found is None:
        raise Refuse(f"elements lie in {range_of(x)} and {range_of(y)}")
    if not whole.type.is_static:
        raise Refuse(f"{whole.type!r} is not static")
    return Tensor.splat(found, whole.type.concrete_shape, "bool")


rectifier = operator("rectifier", "abs", "nn.relu")
extremum = operator("extremum", "maximum", "minimum")
comparison = operator("comparison", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
monotonic = operator("monotonic", monotonic=True, arity=1)
greatest = operator("greatest", "max", "min")
_COMPARED = comparison(x, y)


class Bounds(RuleSet):
    """Operators that change nothing, because elements never leave a range; comparisons that it decides; monotonic operators, of which the
    greatest result is that of the greatest operand."""

    rectified = (rectifier(x) >> x).when(never_signed(x))
    rectified_zeros = (rectifier(x) >> x).when(never_negative(x)).inexact(TIES)
    clipped = (op.clip(x, attrs=a) >> x).when(clips_nothing(a, x)).inexact(TIES)
    won = (extremum(x, y) >> x).when(always_wins(extremum, x, y), same_type(x, extremum(x, y))).inexact(TIES)
    compared = _COMPARED >> value(outcome(comparison, x, y, _COMPARED))
    extremum_of_both = (extremum(monotonic(x), monotonic(y)) >> monotonic(extremum(x, y))).inexact("approximations are not quite monotonic")
    extremum_of_all = (
        (greatest(monotonic(x), attrs=a) >> monotonic(greatest(x, attrs=a)))
        .when(is_not_empty(x))
        .inexact("approximations are not quite monotonic")
    )
