"""Instances of any pattern can be drawn and tried. The result of an operator may have an unknown shape, be too large, or be ill-typed as an
operand of the next; none of these is an error in the checker."""

import random

import numpy as np
import pytest

from passat.ir.op import Op, list_ops
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.rules.checking.case import Case, Unfit
from passat.rules.checking.check_sets import check_rule
from passat.rules.checking.draw import SamplingHints, draw
from passat.rules.checking.sampler import EXTREME, PLAIN, Sampler
from passat.rules.checking.trial import Trier, Verdict
from passat.rules.checking.trying import generator_for
from passat.rules.library.folding import ConstantFolding
from passat.rules.pattern import Pattern, PCall, PTuple, PVar, attribute, constants, op, tensors
from passat.rules.rule import Rule

x, y = tensors("x y")
b, c = constants("b c")
p = attribute("p")
COUNT = op.arange(b, x, c)
OPS = [each for each in list_ops() if not each.stateful and not each.name.startswith("onnx.")]
PRODUCERS = [each for each in OPS if each.known_operands or each.name in ("nonzero", "unique", "where", "add")]
"""Operators whose result has a shape that depends on elements, and two for which it does not."""


def applied(of: Op, first: Pattern, prefix: str) -> PCall:
    """A call with one given operand, and holes for the other operands and the attributes."""
    count = 1 if of.variadic else of.arity
    args: list[Pattern] = [first, *(PVar(f"{prefix}{i}") for i in range(1, count))]
    if of.name in ("concatenate", "stack") or of.name.startswith("elemwise"):
        args = [PTuple([first, PVar(f"{prefix}1")])]
    return PCall(of, args, {"attrs": attribute(f"{prefix}_attrs")} if of.attr_params else {})


def chosen(count: int) -> list[Rule]:
    pairs = [(outer, inner) for outer in OPS for inner in PRODUCERS if not outer.variadic and outer.arity]
    rules = []
    for outer, inner in random.Random(0).sample(pairs, count):
        made = applied(outer, applied(inner, PVar("x") if inner.arity else x, "i"), "o")
        rules.append((op.negative(op.negative(made)) >> made).named(f"{outer.name}_of_{inner.name}"))
    return rules


@pytest.mark.parametrize("rule", chosen(150), ids=lambda rule: rule.name)
def test_any_operator_of_any_is_drawn_and_tried(rule: Rule) -> None:
    hints, trier = SamplingHints(rule.lhs, rule.guards, [rule.rhs]), Trier(rule)
    sampler = Sampler(generator_for(rule, 0, 0))
    for turn in range(12):
        try:
            case, _ = draw(hints, sampler, odd=EXTREME if turn % 2 else PLAIN, unknown=turn % 3 == 2)
        except Unfit:
            continue
        assert trier.try_case(case).verdict not in (Verdict.DISAGREES, Verdict.RAISES)


def test_a_reshape_of_numbers_counted_up_is_checked() -> None:
    shaped = op.reshape(COUNT, newshape=p)
    report = check_rule((op.negative(op.negative(shaped)) >> shaped).named("Mine.negated"), instances=40).report
    assert (report.verdict, report.compared >= 40) == ("sound", True)


def test_too_large_instances_are_not_computed() -> None:
    """Random sizes may require exabytes."""
    numbers = op.arange(0, x, 1, ...)
    case = Case(
        {"x": TensorType((), "int64"), "0": TensorType((), "int64"), "1": TensorType((), "int64")},
        {"0": Tensor.dense(np.asarray(0)), "1": Tensor.dense(np.asarray(1))},
        {"x": Tensor.dense(np.asarray(2**40))},
        {},
    )
    trial = Trier((op.negative(op.negative(numbers)) >> numbers).named("Mine.long")).try_case(case)
    assert (trial.verdict, trial.reason) == (Verdict.UNDEFINED, "arange: the value has more than 4194304 elements")


@pytest.mark.parametrize(("factor", "verdict"), [(2.0, Verdict.AGREES), (np.inf, Verdict.UNCOMPARED)])
def test_folded_values_may_be_those_of_onnx_runtime(factor: float, verdict: Verdict) -> None:
    """Its InstanceNormalization scales the data before it subtracts the mean."""
    (way,) = [way for way in ConstantFolding.call.directions() if way.name == "ConstantFolding.call[nn.instance_norm, 3]"]
    values = {"cs1": [[[0.0], [2.0]]], "cs2": [0.0, factor], "cs3": [0.0, 0.7149075]}
    constants = {name: Tensor.dense(np.asarray(value, np.float32)) for name, value in values.items()}
    types = {name: TensorType(value.shape, value.dtype) for name, value in constants.items()}
    assert isinstance(way.lhs, PCall)
    assert Trier(way).try_case(Case(types, constants, {}, {way.lhs.key: way.lhs.op.bind_attrs({})})).verdict is verdict
