"""Instances: what is drawn, how unknown sizes and lists of sizes are built, how cases are shrunk and shown."""

import numpy as np
import pytest

from passat.ir.attrs import Attrs
from passat.ir.expr import Constant
from passat.ir.op import list_ops
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType
from passat.rules.checking.case import Case, Unfit, build
from passat.rules.checking.dice import Dice
from passat.rules.checking.draw import Wishes, draw
from passat.rules.checking.relations import covers
from passat.rules.checking.shrink import shrink, weight
from passat.rules.checking.trial import Trial, Trier, Verdict
from passat.rules.conditions import equals, is_float
from passat.rules.multi_root import each, joined, parts
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import Rule

x, y, z = tensors("x y z")
c, d = constants("c d")
p, q = attributes("p q")


def drawn(pattern: Pattern, tries: int, seed: int = 0) -> list[Case]:
    """The cases that came out well typed."""
    wishes, dice, found = Wishes(pattern, ()), Dice(np.random.default_rng(seed)), []
    for turn in range(tries):
        try:
            case, dtype = draw(wishes, dice, unknown=turn % 4 == 3)
            build(pattern, case)
        except Unfit:
            continue
        wishes.accept(dtype)
        found.append(case)
    return found


SKIPPED = {"dyn.full", "zeros", "ones"}
"""Operators without an operand that could be a hole for any expression."""
OPERATORS = [of for of in list_ops() if not of.variadic and not of.stateful and of.arity and of.name not in SKIPPED]


@pytest.mark.parametrize("of", OPERATORS, ids=lambda of: of.name)
def test_instances_of_every_operator_are_drawn(of: object) -> None:
    from passat.ir.op import Op

    assert isinstance(of, Op)
    holes = tensors(" ".join(f"h{i}" for i in range(of.arity)))
    assert drawn(PCall(of, holes), 250), f"no instance of {of.name} is well typed"


@pytest.mark.parametrize(
    "pattern",
    [
        op.nn.relu(op.nn.conv2d(op.nn.conv2d(x, y), z)),
        op.concatenate((op.nn.conv2d(x, y, attrs=p), op.nn.conv2d(x, z, attrs=p)), axis=1),
        op.reshape(op.nn.matmul(op.reshape(x), y) + z),
        op.where(op.greater(x, y), x, z),
        op.split(x, attrs=p)[1] + op.split(x, attrs=p)[0],
        op.elemwise_sum(x),
        op.sum(op.exp(x), axis=p, keepdims=True) / op.sum(op.exp(x), axis=p, keepdims=True),
    ],
    ids=repr,
)
def test_instances_of_larger_patterns_are_drawn(pattern: Pattern) -> None:
    assert len(drawn(pattern, 300)) >= 10


def test_a_hole_may_be_a_tuple() -> None:
    assert any(isinstance(case.types["x"], TupleType) for case in drawn(op.concatenate(x, axis=0), 30))


def test_unknown_sizes_are_declared_and_lists_of_sizes_read_off() -> None:
    pattern = op.dyn.reshape(x, y)
    case = Case(
        {"x": TensorType((2, 3)), "y": TensorType((2,), "int64")},
        {"y": Tensor.dense(np.array([3, 2]))},
        {"x": Tensor.dense(np.zeros((2, 3), np.float32))},
        {pattern.key: Attrs(allowzero=False)},
        {("x", 1): "n3"},
        {"y": [("x", 1), None]},
    )
    program = build(pattern, case)
    assert repr(program.params["x"].checked_type) == "Tensor[(2, n3), float32]"
    assert repr(program.body.checked_type) == "Tensor[(n3, 2), float32]"
    assert not isinstance(program.terms["var", "y"], Constant)
    with pytest.raises(Unfit, match="y is no list of 1 sizes"):
        build(pattern, case._replace(computed={"y": [None]}))


def test_lists_of_sizes_occur_in_draws() -> None:
    assert any(case.computed for case in drawn(op.dyn.broadcast_to(x, y), 200))


def test_a_shrunk_instance_is_lighter_and_of_the_kind() -> None:
    rule = (x - y >> y - x).named("swapped")
    trier = Trier(rule)
    wishes, dice = Wishes(trier.pattern, ()), Dice(np.random.default_rng(5))
    trial = Trial(Verdict.UNFIT, drawn(trier.pattern, 30)[0])
    while trial.verdict is not Verdict.DISAGREES or trial.case.types["x"] == TensorType(()):
        trial = trier.try_case(draw(wishes, dice, unknown=True)[0])
    small = shrink(trier, trial.case, lambda found: found.verdict is Verdict.DISAGREES)
    assert small.verdict is Verdict.DISAGREES
    assert weight(small.case) < weight(trial.case)
    assert small.case.types["x"] == TensorType(())


def test_several_roots_share_what_the_rule_says() -> None:
    rule = (each(op.nn.dense(x, c), sharing=x) >> parts(op.nn.dense(x, joined(c, axis=0)), axis=-1)).inexact("blocks")
    assert repr(Trier(rule, 3).pattern) == "(nn.dense(x, c1), nn.dense(x, c2), nn.dense(x, c3))"


@pytest.mark.parametrize(
    ("general", "special", "covered"),
    [
        (op.exp(x) + y >> y, op.exp(z) + x >> x, True),
        (op.exp(x) + y >> y, x + op.exp(z) >> x, True),
        (op.exp(x) - y >> y, x - op.exp(z) >> x, False),
        (x + c >> x, op.exp(y) + 0 >> op.exp(y), True),
        (x + 0 >> x, op.exp(y) + c >> op.exp(y), False),
        (x + x >> x, x + y >> x, False),
        (x + y >> x, x + x >> x, True),
        (op.transpose(x, axes=p) >> x, op.transpose(y, axes=(1, 0)) >> y, True),
        (op.transpose(x, axes=(0, 1)) >> x, op.transpose(y, axes=p) >> y, False),
        (op.transpose(x) >> x, op.transpose(y, axes=(1, 0)) >> y, True),
        (op.transpose(op.transpose(x, axes=p), axes=p) >> x, op.transpose(op.transpose(x, axes=p), axes=q) >> x, False),
        ((op.exp(x) >> x).when(is_float(x)), (op.exp(y) >> y).when(is_float(y)), True),
        ((op.exp(x) >> x).when(is_float(x)), op.exp(y) >> y, False),
        (op.exp(x) >> x, (op.exp(y) >> y).when(is_float(y)), True),
        ((op.exp(x) >> x).inexact("rounds"), op.exp(y) >> y, False),
        ((op.exp(x) >> x).inexact("rounds", nonfinite="mixed"), (op.exp(y) >> y).inexact("rounds"), False),
        ((op.exp(x) >> x).inexact("rounds"), (op.exp(y) >> y).inexact("rounds", nonfinite="mixed"), True),
        ((op.transpose(x, axes=p) >> x).when(equals(p, (0, 1))), op.transpose(y) >> y, False),
        (op.concatenate((x, y)) >> x, op.concatenate((op.exp(x), y)) >> op.exp(x), True),
        (op.split(x, attrs=p)[0] >> x, op.split(op.exp(x), attrs=q)[0] >> op.exp(x), True),
    ],
    ids=repr,
)
def test_a_rule_covers_its_instances(general: Rule, special: Rule, covered: bool) -> None:
    assert covers(general, special) is covered
