"""Faulty rules, one of each kind, and sound ones."""

from passat.rules.guards import Term, guard, has_dtype, has_rank, is_all, is_float, same_type
from passat.rules.multi_pattern import each, joined, parts
from passat.rules.pattern import attributes, constants, op, tensors
from passat.rules.rule_set import RuleSet

x, y, z, w = tensors("x y z w")
c, d = constants("c d")
a, p, q = attributes("a p q")


@guard
def has_even_first(x: Term) -> bool | str:
    """True if the first dimension is even. Raises an error for a scalar."""
    return int(str(x.type.shape[0])) % 2 == 0


@guard
def never(x: Term) -> bool | str:
    """Never holds."""
    return "there is no such tensor"


class Sound(RuleSet):
    """Sound rules."""

    commutes = (x * y >> y * x).exploring()
    twice = op.negative(op.negative(x)) >> x
    add_zero = (x + c >> x).when(is_all(c, 0), same_type(x, x + c)).inexact("-0.0 + 0.0 is 0.0")
    less_itself = (x - x >> x * 0).finite("infinity - infinity is NaN")
    doubles = (x + x >> x * 2).exploring()
    both_ways = (x * (y * z) >> (x * y) * z).inexact("rounds in another order").and_back()
    transposes = op.transpose(op.transpose(x, axes=(1, 0)), axes=(1, 0)) >> x
    takes_out = (x * y + x * z >> x * (y + z)).inexact("one product instead of two", nonfinite="resolved").exploring()
    distributes = ((x + y) * z >> x * z + y * z).inexact("rounds in another order", nonfinite="mixed").exploring()
    products = (each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).inexact("accumulates in blocks of another size")


class Wrong(RuleSet):
    """Rules whose sides have different values."""

    swapped = x - y >> y - x
    less_itself = x - x >> x * 0
    halves = x / 2 >> x * 0.25
    relu_of_scaled = (op.nn.relu(x) * c >> op.nn.relu(x * c)).exploring()
    transposed_sum = (op.transpose(x + y, axes=p) >> op.transpose(x, axes=p) + op.transpose(y, axes=p)).exploring()
    pads = op.nn.pad(op.nn.pad(x, pad_width=p, pad_mode=q), pad_width=p, pad_mode=q) >> op.nn.pad(x, pad_width=p, pad_mode=q)
    products = (each(op.nn.matmul(x, w, ...), sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).inexact(
        "accumulates in blocks of another size"
    )
    keeps_no_infinity = ((x + y) * z >> x * z + y * z).inexact("rounds in another order", nonfinite="resolved").exploring()
    makes_finite = ((x + y) - x >> y).when(same_type(y, x + y), has_dtype(x, "float32")).inexact("a sum less", nonfinite="mixed")
    makes_undefined = (op.sigmoid(x) >> op.exp(x) / (op.exp(x) + 1.0)).inexact("its definition", nonfinite="mixed").exploring()
    scales_a_factor = ((x @ y) * c >> x @ (y * c)).when(has_rank(c, 0), is_float(x)).inexact("scales a factor").exploring()
    only_back = (x * (y / y) >> x).when(same_type(x, x * (y / y)), has_dtype(x, "float32"))


class Useless(RuleSet):
    """Rules that have no effect, or no useful one."""

    ill_typed = op.logical_and(op.sqrt(x), y) >> y
    no_such_field = op.split(x, indices_or_sections=1)[1] >> x
    held_back = (op.nn.relu(x) >> x).when(never(x))
    raises = (op.nn.relu(x) >> op.abs(x)).when(has_even_first(x))
    of_types = (op.nn.relu(x) >> op.cast(x, dtype="int8")).when(has_dtype(x, "int16"))
    distributes = ((x + y) * z >> x * z + y * z).finite("infinity - infinity is NaN")
    round_and_round = x * y >> y * x


class Circle(RuleSet):
    """Two rules that undo each other, and one that is not part of the cycle."""

    there = x - y >> x + op.negative(y)
    back = x + op.negative(y) >> x - y
    aside = op.nn.relu(op.nn.relu(x)) >> op.nn.relu(x)


class Covering(RuleSet):
    """A general rule, instances of it, and rules that are not instances of it."""

    any_sum = (x + c >> x).when(is_all(c, 0), same_type(x, x + c)).inexact("-0.0 + 0.0 is 0.0")
    of_relu = (op.nn.relu(y) + d >> op.nn.relu(y)).when(is_all(d, 0), same_type(op.nn.relu(y), op.nn.relu(y) + d)).inexact("zero")
    of_exact_relu = (op.nn.relu(y) + d >> op.nn.relu(y)).when(is_all(d, 0), same_type(op.nn.relu(y), op.nn.relu(y) + d))
    unguarded = (op.exp(y) + d >> op.exp(y)).when(is_all(d, 0)).inexact("zero")
    other = (op.exp(y) + d >> op.exp(y)).when(is_all(d, 1), same_type(op.exp(y), op.exp(y) + d)).inexact("zero")
    swapped = (c + op.tanh(x) >> op.tanh(x)).when(is_all(c, 0), same_type(op.tanh(x), op.tanh(x) + c)).inexact("zero")
