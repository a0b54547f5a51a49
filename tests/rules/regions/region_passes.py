"""Rules and programs for the tests of regions in workers: in a module that workers can import."""

import os
import signal

from passat.ir.expr import Call, Constant, Expr, Function
from passat.ir.op import get_op
from passat.ir.traverse import post_order
from passat.rules.conditions import Refuse, Term, condition
from passat.rules.pattern import constant, op, tensor
from passat.rules.rule import RuleSet
from tests.rules.building import func, numbers, ops, var

HOME = "PASSAT_TEST_HOME"
"""The environment variable that says which process is not to be killed."""
KINDS = ("exp", "sqrt", "tanh", "sigmoid")
SHAPE = (2, 4)
x = tensor("x")


@condition
def survives(term: Term) -> bool:
    """Kills the process, where that is a worker; not when rules are checked, as they are made, on types of their own."""
    if term.type.shape != SHAPE:
        return True
    if str(os.getpid()) == os.environ[HOME]:
        raise AssertionError("this process was to be spared")
    os.kill(os.getpid(), signal.SIGKILL)
    return True


@condition
def large(term: Term) -> bool:
    """Whether the elements of a constant are large; it looks at all of them."""
    if term.constant is None:
        raise Refuse("it is no constant")
    return bool(term.constant.numpy().sum() > 8)


class Plain(RuleSet):
    """Two negations are none."""

    twice = op.negative(op.negative(x)) >> x


class Deadly(RuleSet):
    """As above, but for those who look at a hyperbolic tangent."""

    twice = op.negative(op.negative(x)) >> x
    tanh = (op.tanh(op.negative(x)) >> op.negative(op.tanh(x))).when(survives(x))


class Choosy(RuleSet):
    """Takes the negations of products with weights that are large."""

    product = (op.negative(op.multiply(x, constant("w"))) >> op.multiply(x, op.negative(constant("w")))).when(large(constant("w")))


def layer(kind: str, value: Expr, weight: Constant) -> Expr:
    """Six nodes, of which one is used twice."""
    scaled = ops.multiply(value, weight)
    function = getattr(ops, kind)
    return ops.add(function(ops.negative(ops.negative(ops.negative(scaled)))), scaled)  # type: ignore[no-any-return]  # `ops` is untyped


def layers(kinds: tuple[str, ...] = KINDS, times: int = 3) -> Function:
    """Layers of each kind, again and again."""
    value: Expr = var("a", SHAPE)
    for number in range(times * len(kinds)):
        value = layer(kinds[number % len(kinds)], value, numbers(SHAPE, seed=number))
    return func(value)


def negations(function: Function, kind: str) -> list[int]:
    """How many negations come right before each call of that kind."""
    found: list[int] = []
    for node in post_order(function):
        if isinstance(node, Call) and node.op is get_op(kind):
            count, inner = 0, node.args[0]
            while isinstance(inner, Call) and inner.op is get_op("negative"):
                count, inner = count + 1, inner.args[0]
            found.append(count)
    return found
