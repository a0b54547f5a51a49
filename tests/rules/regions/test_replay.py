"""Equal regions are solved once: decisions for one are reused for others only if every question has the same answer."""

from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.analysis import well_formed
from passat.ir.equality import structural_equal
from passat.ir.evaluate import EvaluateError
from passat.ir.expr import Call, Constant, Expr, Function, Span, Tuple, Var
from passat.ir.infer import InferError, infer_type
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order, rewrite
from passat.rules.cost import Roofline, program_cost
from passat.rules.guards import Term, computed, guard
from passat.rules.library import Arithmetic, Constants, Products
from passat.rules.passes.simplify import FOLDING
from passat.rules.pattern import constant, number, op, tensor
from passat.rules.regions import regions
from passat.rules.rule_set import RuleSet, RuleSetMeta
from tests.rules.building import const, func, numbers, ops, splat, var
from tests.rules.program_strategies import KEEPING_DROPOUT, build
from tests.rules.running import Outcome, assert_equal_in_value, difference, feeds_of, operators, run, saturate
from tests.share import SOAK, share

a = var("a", (2, 4))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "LEAST", 3)
    monkeypatch.setattr(regions, "WINDOW", 20)


def layered(*weights: Constant) -> Function:
    """One layer for each weight."""
    value: Expr = a
    for weight in weights:
        scaled = ops.multiply(value, weight)
        value = ops.add(ops.nn.relu(scaled), ops.exp(scaled))
    return func(value)


def in_regions(function: Function, *sets: RuleSetMeta, fold: bool = True, **config: AnyValue) -> Outcome:
    return saturate(function, *sets, *(FOLDING if fold else ()), rules__region_nodes=0, **config)


def ones_but(place: int | None, value: float = 2.0) -> Constant:
    """Eight ones, one of which may be another number."""
    elements = np.ones((2, 4), np.float32)
    if place is not None:
        elements.reshape(-1)[place] = value
    return const(elements)


def copies(function: Function, count: int, generator: np.random.Generator) -> Function | None:
    """Copies of the program side by side, on separate inputs. Constants are the same, or differ in one element or in their storage."""

    def perturbed(tensor: Tensor) -> Tensor:
        kind = generator.integers(4)
        if kind == 1 and tensor.size:
            elements = tensor.numpy().copy()
            elements.reshape(-1)[generator.integers(tensor.size)] += 1
            return Tensor.dense(elements)
        if kind == 2 and tensor.uniform() is not None:
            return Tensor.dense(np.array(tensor.numpy()))
        return Tensor.splat(1, tensor.shape, tensor.dtype) if kind == 3 and tensor.dtype != "bool" else tensor

    bodies: list[Expr] = []
    params: list[Var] = []
    for each in range(count):
        own = {param: Var(f"{param.name_hint}_{each}", param.type_annotation) for param in function.params}

        def replace(old: Expr, new: Expr, own: dict[Var, Var] = own) -> Expr:
            if isinstance(old, Var):
                return own[old]
            return Constant(perturbed(old.data)) if isinstance(old, Constant) else new

        body = rewrite(function.body, replace)
        bodies += body.fields if isinstance(body, Tuple) else [body]
        params += own.values()
    made = Function(params, Tuple(bodies))
    try:
        infer_type(made)
    except (InferError, ValueError):
        return None
    return made


def check_against_whole(function: Function, *, exact: bool) -> float:
    """Checks that a function optimized in regions has the values of the input, and costs no more. Returns the number of replayed
    regions."""
    outcome = in_regions(function, *KEEPING_DROPOUT, rules__math="exact" if exact else "reassociate")
    assert well_formed(outcome.function)
    assert program_cost(infer_type(outcome.function), Roofline()) <= program_cost(function, Roofline()) * (1 + 1e-9)
    generator = np.random.default_rng(0)
    for special in (False, exact):
        feeds = feeds_of(function, generator, special=special)
        try:
            expected = run(function, feeds)
        except EvaluateError:
            break
        wrong = difference(run(outcome.function, feeds), expected, exact=exact, tolerance=1e-3)
        assert wrong is None, f"{wrong}\n{function}\nbecame\n{outcome.function}"
    return outcome.count("replayed")


@settings(max_examples=share(5, 20), derandomize=True)
@given(st.integers(0, 1 << 30), st.integers(4, 14), st.booleans())
def test_regions_keep_values_and_never_cost_more(seed: int, size: int, exact: bool) -> None:
    function = copies(build(seed, size, tame=not exact), 6, np.random.default_rng(seed))
    if function is not None:
        check_against_whole(function, exact=exact)


@pytest.mark.skipif(not SOAK, reason="takes two minutes; PASSAT_SOAK=1 runs it")
def test_random_programs_are_replayed_at_all() -> None:
    programs = [copies(build(seed, 12, tame=True), 6, np.random.default_rng(seed)) for seed in range(20)]
    assert sum(check_against_whole(program, exact=False) for program in programs if program is not None) > 20


# ---- questions


def test_layers_with_other_weights_are_solved_once() -> None:
    outcome = in_regions(layered(*[numbers((2, 4), seed=seed) for seed in range(12)]), Arithmetic)
    assert outcome.count("regions") == 12
    assert outcome.count("replayed") == 11


@pytest.mark.parametrize("place", range(8))
def test_one_element_that_a_rule_looks_at_is_seen(place: int) -> None:
    weights = [ones_but(None), ones_but(None), ones_but(place), ones_but(None), ones_but(place, 3.0), ones_but(None)]
    function = layered(*weights)
    outcome = in_regions(function, Arithmetic)
    assert operators(outcome.function.body).count("multiply") == 2
    assert outcome.count("replayed") == 4, "each kind is solved once"
    assert_equal_in_value(function, outcome.function, exact=True)


@pytest.mark.parametrize("first", [0, 1])
def test_it_does_not_matter_which_comes_first(first: int) -> None:
    weights = [ones_but(3 if i % 2 == first else None) for i in range(8)]
    outcome = in_regions(layered(*weights), Arithmetic)
    assert operators(outcome.function.body).count("multiply") == 4
    assert outcome.count("replayed") == 6
    assert_equal_in_value(layered(*weights), outcome.function, exact=True)


def test_a_splat_and_the_same_elements_one_by_one_give_equal_results() -> None:
    function = layered(splat(1.0, (2, 4)), ones_but(None), splat(1.0, (2, 4)), ones_but(None), splat(2.0, (2, 4)), ones_but(None))
    outcome = in_regions(function, Arithmetic)
    assert operators(outcome.function.body).count("multiply") == 1
    assert_equal_in_value(function, outcome.function, exact=True)


def test_constants_are_folded_for_each_region_from_its_own() -> None:
    value: Expr = a
    for seed in range(8):
        scaled = ops.multiply(ops.multiply(value, numbers((2, 4), seed=seed)), numbers((4,), seed=100 + seed))
        value = ops.add(ops.nn.relu(scaled), ops.negative(scaled))
    function = func(value)
    outcome = in_regions(function, *KEEPING_DROPOUT)
    assert outcome.count("replayed") > 4
    assert operators(outcome.function.body).count("multiply") <= 9
    assert_equal_in_value(function, outcome.function, exact=False)


def test_a_constant_whose_kernel_rejects_stays_a_call() -> None:
    value: Expr = a
    for index in (0, 1, 9, 0, 9, 1, 0, 0):
        row = ops.take(numbers((2, 4)), const(index, "int64"), axis=0)
        value = ops.add(ops.nn.relu(ops.multiply(value, row)), value)
    outcome = in_regions(func(value))
    assert operators(outcome.function.body).count("take") == 2


def test_which_constants_are_equal_is_part_of_the_answer() -> None:
    one, other = numbers((2, 4), seed=1), numbers((2, 4), seed=2)

    def program(*pairs: tuple[Constant, Constant]) -> Function:
        value: Expr = a
        for first, second in pairs:
            value = ops.multiply(ops.exp(value), splat(1.0))
            value = ops.maximum(ops.multiply(value, Constant(first.data)), ops.multiply(value, Constant(Tensor.dense(second.data.numpy()))))
        return func(value)

    function = program((one, one), (one, other), (other, other), (other, one), (one, one), (one, one), (other, one))
    outcome = in_regions(function, *KEEPING_DROPOUT)
    assert operators(outcome.function.body).count("multiply") == 4 * 1 + 3 * 2
    assert outcome.count("replayed") == 5
    assert_equal_in_value(function, outcome.function, exact=True)


@guard
def falls(weight: Term) -> bool | str:
    """True if the elements never rise, which depends on all of them."""
    return bool(np.all(np.diff(weight.value().numpy().reshape(-1)) <= 0)) or "they rise"


@computed
def largest(weight: Term) -> float:
    """The largest element."""
    return float(np.max(weight.value().numpy()))


x, c = tensor("x"), constant("c")


class Own(RuleSet):
    """Rules whose functions read all elements."""

    scale = (op.multiply(x, c) >> op.add(x, number(largest(c)))).when(falls(c))


def test_functions_of_the_user_are_asked_again() -> None:
    falling = const(np.arange(8, 0, -1, dtype=np.float32).reshape(2, 4))
    lower = const(np.minimum(falling.data.numpy(), 7))
    rising = const(np.arange(8, dtype=np.float32).reshape(2, 4))
    function = layered(falling, falling, lower, rising, lower, falling, rising, numbers((2, 4)))
    whole, outcome = saturate(function, Own), in_regions(function, Own, fold=False)
    assert operators(outcome.function.body).count("multiply") == 3
    assert outcome.fired("Own.scale") == whole.fired("Own.scale") == 5
    assert outcome.count("replayed") == 5
    assert structural_equal(outcome.function, whole.function, map_free_vars=True)


# ---- results


def test_a_function_that_nothing_applies_to_is_the_same_object() -> None:
    function = layered(*[numbers((2, 4), seed=seed) for seed in range(6)])
    outcome = in_regions(function, Arithmetic)
    assert outcome.count("regions") == 6
    assert outcome.function is function


def test_unchanged_nodes_are_the_same_objects_and_names_are_those_of_the_own_region() -> None:
    value: Expr = a
    for layer in range(6):
        scaled = Call(ops.multiply(value, value).op, [value, ones_but(None)], span=Span(f"scale{layer}", outputs=(f"s{layer}",)))
        first = Call(ops.nn.relu(a).op, [scaled], span=Span(f"relu{layer}", outputs=(f"r{layer}",)))
        value = Call(ops.add(a, a).op, [first, scaled], span=Span(f"add{layer}", outputs=(f"a{layer}",)))
    outcome = in_regions(func(value), Arithmetic)
    assert outcome.count("replayed") == 5
    names = [node.span.outputs[0] for node in post_order(outcome.function.body) if node.span is not None]
    assert names == [f"{letter}{layer}" for layer in range(6) for letter in "ra"]


def test_the_next_pass_knows_the_regions_again() -> None:
    function = layered(*[ones_but(None) if seed % 2 else numbers((2, 4), seed=seed) for seed in range(12)])
    once = in_regions(function, Arithmetic)
    twice = in_regions(once.function, Products, Constants)
    assert twice.count("regions") == once.count("regions")
    assert twice.count("replayed") >= once.count("replayed") - 1
    assert_equal_in_value(function, twice.function, exact=False)


def test_small_functions_and_functions_of_different_layers_stay_whole() -> None:
    function = layered(*[numbers((2, 4), seed=seed) for seed in range(6)])
    assert saturate(function, Arithmetic, rules__region_nodes=100).count("regions") == 0
    value: Expr = a
    for unary in (ops.exp, ops.negative, ops.tanh, ops.abs, ops.sqrt):
        value = unary(ops.nn.relu(ops.multiply(value, numbers((2, 4)))))
    assert in_regions(func(value), Arithmetic).count("regions") == 0


def test_statistics_count_each_region() -> None:
    function = layered(*[ones_but(None) for _ in range(6)])
    unit = Arithmetic.only("unit")
    whole, cut = saturate(function, unit), in_regions(function, unit, fold=False)
    names = [key for key in whole.statistics.counters["Tried"] if key.startswith("fired:")]
    assert names
    assert [whole.count(name) for name in names] == [cut.count(name) for name in names]


def test_no_seconds_are_left_for_any_region() -> None:
    function = layered(*[ones_but(None) for _ in range(6)])
    outcome = in_regions(function, Arithmetic, fold=False, rules__seconds=0.0)
    assert outcome.function is function
    assert len([remark for remark in outcome.remarks if "limit of time" in remark]) == 1
