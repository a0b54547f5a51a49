"""User-defined cost models: how passes use them, rejected ones, and that no program becomes more expensive."""

import copy
import hashlib
import math
import pickle
import re
from collections.abc import Sequence
from typing import Any as AnyValue

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.equality import structural_equal
from passat.ir.expr import Function
from passat.ir.op import Op, get_op
from passat.ir.types import TensorType, Type
from passat.passmgr import PassContext
from passat.rules import CostError, CostModel, Machine, NodeCount, Roofline, RuleSet, op, program_cost, tensors
from passat.rules.cost import ROOFLINE, ConstantAware, cost_model, price
from passat.rules.library.arithmetic import Arithmetic, Constants
from passat.rules.library.data_movement import Copies
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.products import Products
from passat.rules.library.views import Transposes
from tests.rules.building import const, func, numbers, ops, var
from tests.rules.program_strategies import programs
from tests.rules.running import operators, saturate
from tests.share import share

SETS = (Arithmetic, Constants, Products, Copies, Transposes)
a, x = var("a", (4, 4)), tensors("x")[0]
T = TensorType((4, 4))


class Flat:
    """The same price for every call. It defines equality, and therefore has no hash."""

    __hash__ = None  # type: ignore[assignment]  # tests this mistake

    def __init__(self, amount: object = 1.0) -> None:
        self.amount = amount

    def __eq__(self, other: object) -> bool:
        return False

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        return self.amount  # type: ignore[return-value]  # tests return what is not a number


class Scaled:
    """Another model in other units."""

    def __init__(self, base: CostModel, factor: float) -> None:
        self.base = base
        self.factor = factor

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        return self.base.call(op, types, result, attrs) * self.factor


class Wild:
    """Arbitrary prices between 1e-30 and 1e30."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        digest = hashlib.sha256(f"{self.seed} {op.name} {types} {result}".encode()).digest()
        return math.pow(10.0, digest[0] / 4.25 - 30)


class Raising:
    """A model with an error in it."""

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        return 1.0 / (len(types) - 1)


class Packed:
    """Adding a constant costs less than adding anything else."""

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        return self.call_on(op, types, result, attrs, (False,) * len(types))

    def call_on(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs, constants: Sequence[bool]) -> float:
        return 1.0 if any(constants) else 3.0


class Squares(RuleSet):
    """Two forms of the same value."""

    square = op.power(x, 2.0) >> op.multiply(x, x)


class Twice(RuleSet):
    """Removes double negations."""

    negated = op.negative(op.negative(x)) >> x


def test_a_model_of_ones_own_decides() -> None:
    class Powers:
        def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
            return 1.0 if op.name == "power" else 100.0

    function = func(ops.power(a, const(2.0)))
    assert operators(saturate(function, Squares, rules__cost="nodes").function) in (["power"], ["multiply"])
    assert operators(saturate(function, Squares, rules__cost=Powers()).function) == ["power"]


def test_a_model_may_have_no_hash_and_a_pass_forgets_it() -> None:
    function = func(ops.negative(ops.negative(a)))
    for model in (Flat(), Flat(2), Flat(3.5)):
        assert operators(saturate(function, Twice, rules__cost=model).function) == []


@settings(max_examples=share(8, 40), derandomize=True)
@given(programs(), st.sampled_from([1.0, 0.25, 1e6]))
def test_a_constant_model_counts_nodes(function: Function, amount: float) -> None:
    assert program_cost(function.body, Flat(amount)) == pytest.approx(amount * program_cost(function.body, NodeCount()))
    counted = saturate(function, *SETS, ConstantFolding, rules__cost="nodes").function
    flat = saturate(function, *SETS, ConstantFolding, rules__cost=Flat(1)).function
    assert structural_equal(flat, counted)


@settings(max_examples=share(8, 40), derandomize=True)
@given(programs(), st.integers(-60, 60))
def test_the_units_of_a_model_do_not_matter(function: Function, power: int) -> None:
    scaled = saturate(function, *SETS, ConstantFolding, rules__cost=Scaled(NodeCount(), 2.0**power)).function
    plain = saturate(function, *SETS, ConstantFolding, rules__cost="nodes").function
    assert program_cost(scaled.body, NodeCount()) == program_cost(plain.body, NodeCount())


@settings(max_examples=share(15, 80), derandomize=True)
@given(programs(), st.integers(0, 1000))
def test_no_cost_model_makes_a_program_more_expensive(function: Function, seed: int) -> None:
    model = Wild(seed)
    after = saturate(function, *SETS, ConstantFolding, rules__cost=model).function
    assert program_cost(after.body, model) <= program_cost(function.body, model) * (1 + 1e-9)


def test_prices_can_depend_on_which_operands_are_constants() -> None:
    constant = func(a + numbers((4, 4)))
    assert program_cost(constant.body, Packed()) == 1.0
    assert program_cost(func(a + a).body, Packed()) == 3.0

    class Doubling(RuleSet):
        """The sum of a value with itself is a product with two."""

        double = op.multiply(x, 2.0) >> op.add(x, x)

    assert operators(saturate(func(a * const(2.0)), Doubling, rules__cost=Packed()).function) == ["multiply"]
    assert isinstance(Packed(), ConstantAware)
    assert not isinstance(Flat(), ConstantAware)


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (math.nan, "nan for negative\\(.*; a cost must be positive and finite"),
        (math.inf, "inf for negative\\(.*; a cost must be positive and finite"),
        (-math.inf, "-inf for negative\\(.*; a cost must be positive and finite"),
        (0, "0.0 for negative\\(.*; a cost must be positive and finite"),
        (-1, "-1.0 for negative\\(.*; a cost must be positive and finite"),
        (1e200, "1e\\+200 for negative\\(.*; a cost must be at most 1e\\+100"),
        pytest.param(10**400, "inf for negative\\(.*; a cost must be positive and finite", id="beyond all floats"),
        (None, "None for negative\\(.*; a cost must be a number"),
        ("much", "'much' for negative\\(.*; a cost must be a number"),
        (True, "True for negative\\(.*; a cost must be a number"),
    ],
)
def test_invalid_costs_are_errors(amount: object, said: str) -> None:
    with pytest.raises(CostError, match=f"^the cost model Flat returned {said}"):
        saturate(func(ops.negative(ops.negative(a))), Twice, rules__cost=Flat(amount))


def test_the_message_names_model_operator_and_types() -> None:
    expected = r"^the cost model Raising raised ZeroDivisionError: float division by zero for negative\(Tensor\[\(4, 4\), float32\]\) -> "
    with pytest.raises(CostError, match=expected) as caught:
        price(Raising(), get_op("negative"), [T], T, Attrs(), (False,))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_message_does_not_list_a_thousand_types() -> None:
    with pytest.raises(CostError) as caught:
        price(Flat(0), get_op("add"), [T] * 1000, T, Attrs(), ())
    assert len(str(caught.value)) < 400


def test_an_interruption_is_not_an_error_of_the_model() -> None:
    class Interrupted:
        def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        price(Interrupted(), get_op("add"), [T, T], T, Attrs(), ())


@pytest.mark.parametrize("value", ["fast", 3, object(), None])
def test_the_option_takes_names_and_models_only(value: object) -> None:
    with pytest.raises(AttributeError, match=r"rules\.cost"):
        PassContext(config={"rules.cost": value})


def test_meanings_of_the_option() -> None:
    assert cost_model("roofline") is ROOFLINE
    assert isinstance(cost_model("nodes"), NodeCount)
    machine = Machine(1.0, 2.0, 3.0)
    found = cost_model("roofline", machine)
    assert isinstance(found, Roofline)
    assert found.machine == machine
    assert cost_model("roofline", Machine(1.0, 2.0, 3.0)) is found
    own = Flat()
    assert cost_model(own) is own


def test_classes_and_objects_without_the_method_are_not_cost_models() -> None:
    with pytest.raises(CostError, match=r"the cost model NodeCount is a class; pass an instance: NodeCount\(\)"):
        cost_model(NodeCount)  # type: ignore[arg-type]  # tests the error that a type checker would report
    odd: AnyValue = object()
    with pytest.raises(CostError, match="a cost model needs a method call"):
        cost_model(odd)
    with pytest.raises(CostError, match="unknown cost model 'fast'"):
        cost_model("fast")  # type: ignore[arg-type]  # likewise


def test_a_machine_can_be_given_as_a_mapping() -> None:
    assert PassContext(config={"rules.machine": {"flops": 1e12}}).get_config("rules.machine") == Machine(flops=1e12)
    with pytest.raises(AttributeError, match=r"Machine has no field 'flop'; it has: .*; did you mean flops"):
        PassContext(config={"rules.machine": {"flop": 1e12}})


@pytest.mark.parametrize(
    ("field", "value"),
    [("flops", 0.0), ("flops", -1.0), ("bandwidth", math.nan), ("launch", math.inf), ("launch", -1e-9), ("flops", 2e100)],
)
def test_a_machine_that_cannot_be(field: str, value: float) -> None:
    with pytest.raises(CostError, match=f"the {field} of a machine must be a positive number up to 1e\\+100, not {re.escape(str(value))}"):
        Machine(**{field: value})


def test_a_machine_with_a_rate_beyond_all_floats() -> None:
    with pytest.raises(CostError, match="the flops of a machine must be a positive number up to 1e\\+100, not 1000"):
        Machine(flops=10**400)


def test_a_machine_is_a_value() -> None:
    machine = Machine(2.0, 3.0, 0.0)
    assert pickle.loads(pickle.dumps(machine)) == copy.copy(machine) == machine
    assert hash(machine) == hash(Machine(2.0, 3.0, 0.0))


def test_the_machine_of_the_roofline_counts() -> None:
    twice = func(ops.negative(ops.negative(a)))
    assert program_cost(twice.body, cost_model("roofline", Machine(launch=1.0))) == pytest.approx(2.0, rel=1e-6)
