"""The rules of `taso_published` with the guards that they need: `Exchanges` of the library, and three rules that the library has
elsewhere or in a more general form."""

from passat.rules.guards import is_float, is_positive
from passat.rules.library import Exchanges
from passat.rules.pattern import attributes, constant, op, tensors
from passat.rules.rule_set import RuleSet

x, y = tensors("x y")
c = constant("c")
(p,) = attributes("p")


class Elementwise(RuleSet):
    """The counterparts of `Exchanges.multiply_distributes`, `Commute` and `ForwardScaleAxis`."""

    add_moves_scale = ((x + y) * c >> x * c + y * c).finite("the difference of infinities is NaN").exploring()
    relu_moves_scale = (op.nn.relu(x * c) >> op.nn.relu(x) * c).when(is_float(x), is_positive(c)).inexact("the sign of zero").exploring()
    transpose_of_relu = (op.nn.relu(op.transpose(x, axes=p)) >> op.transpose(op.nn.relu(x), axes=p)).exploring()


OWN = ("Exchanges.constant_operand", "Exchanges.constant_bias")
"""Rules of `Exchanges` that are not from TASO."""
SETS = (Elementwise, Exchanges.only(*(rule.own_name for rule in Exchanges if rule.name not in OWN)))
