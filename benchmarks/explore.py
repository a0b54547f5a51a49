"""Exploring rules: sums and products in every order. The e-graph grows without bound, so limits stop them."""

from passat.rules import RuleSet
from passat.rules.pattern import tensors

x, y, z = tensors("x y z")


class Explore(RuleSet):
    """Sums and products in any order."""

    commute = x + y >> y + x
    associate_sums = ((x + y) + z >> x + (y + z)).and_back().inexact("reassociates sums")
    associate_products = ((x * y) * z >> x * (y * z)).and_back().inexact("reassociates products")
    distribute = (x * (y + z) >> x * y + x * z).and_back().inexact("distributes")
