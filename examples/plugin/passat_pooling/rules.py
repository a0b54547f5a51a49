"""Rules about pooling."""

from passat.rules import RuleSet, attribute, op, tensor

x = tensor("x")
pool = attribute("pool")


class Pooling(RuleSet):
    """Pools first, so that a Relu works on fewer elements."""

    relu_last = (op.nn.max_pool2d(op.nn.relu(x), attrs=pool) >> op.nn.relu(op.nn.max_pool2d(x, attrs=pool))).inexact("the sign of 0")
