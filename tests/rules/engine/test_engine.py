"""Laws of the engine on random programs: values and types are kept, costs never rise, and runs are repeatable. Also: lets, branches, nested
functions, references, stateful calls and failures."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from passat.ir.analysis import well_formed
from passat.ir.equality import structural_equal
from passat.ir.evaluate import EvaluateError
from passat.ir.expr import Call, Clause, Expr, Function, If, Let, Match, PatternTuple, PatternVar, RefCreate, RefRead, RefWrite, Var
from passat.ir.infer import infer_type
from passat.ir.op import get_op
from passat.ir.traverse import post_order
from passat.ir.types import compatible
from passat.rules import library
from passat.rules.cost import NodeCount, Roofline, program_cost
from passat.rules.engine.egraph import EGraph, EngineError
from passat.rules.library import Arithmetic, Decompositions, Transposes
from passat.rules.library.folding import ConstantFolding
from passat.rules.passes.simplify import FOLDING
from passat.rules.pattern import op, tensors
from passat.rules.rule_set import RuleSet, RuleSetMeta
from tests.rules.building import const, func, ops, splat, tup, var
from tests.rules.program_strategies import KEEPING_DROPOUT, build, programs
from tests.rules.running import assert_equal_in_value, difference, feeds_of, operators, result_type, run, saturate
from tests.share import share
from tests.strategies import programs as any_programs

MATCHES = 20_000
"""In a few random programs, rules that combine constants in all orders find many times more matches, which test nothing new."""
SETS: list[RuleSetMeta] = list(library.rule_sets().values())
x, y = tensors("x y")
a, b = var("a"), var("b")


def negated(value: Expr) -> Expr:
    return ops.negative(ops.negative(value))  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def agrees(before: Function, after: Function, *, exact: bool) -> None:
    """True if values and type are the same. Programs that the kernels reject are ignored."""
    assert result_type(after) == result_type(before)
    generator = np.random.default_rng(0)
    for special in (False, exact):
        feeds = feeds_of(before, generator, special=special)
        try:
            expected = run(before, feeds)
        except EvaluateError:
            return
        wrong = difference(run(after, feeds), expected, exact=exact, tolerance=1e-3)
        assert wrong is None, f"{wrong}\n{before}\nbecame\n{after}\non {feeds}"


# ---- laws


@settings(max_examples=share(6, 1500), derandomize=True)
@given(programs())
def test_exact_rules_keep_every_bit(function: Function) -> None:
    outcome = saturate(function, *SETS, *FOLDING, rules__math="exact", rules__matches=MATCHES)
    agrees(function, outcome.function, exact=True)


@settings(max_examples=share(6, 1500), derandomize=True)
@given(programs(tame=True))
def test_other_rules_change_values_by_rounding(function: Function) -> None:
    outcome = saturate(function, *SETS, *FOLDING, rules__matches=MATCHES)
    agrees(function, outcome.function, exact=False)


@pytest.mark.parametrize("rules", SETS, ids=lambda rules: rules.__name__)
def test_each_set_alone_keeps_values(rules: RuleSetMeta) -> None:
    for seed in range(share(4, 300)):
        function = build(1000 + seed, 14, tame=True)
        for fold in (False, True):
            agrees(function, saturate(function, rules, *(FOLDING[:1] if fold else ())).function, exact=False)


@settings(max_examples=share(6, 1000), derandomize=True)
@given(programs(), st.booleans())
def test_costs_never_rise(function: Function, fold: bool) -> None:
    for cost, model in (("roofline", Roofline()), ("nodes", NodeCount())):
        after = saturate(function, *SETS, *(FOLDING if fold else ()), rules__cost=cost).function
        assert program_cost(after.body, model) <= program_cost(function.body, model) * (1 + 1e-9)


@settings(max_examples=share(6, 625), derandomize=True)
@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_two_runs_give_equal_programs(seed: int, size: int) -> None:
    first, second = (saturate(build(seed, size), *SETS, *FOLDING) for _ in range(2))
    assert structural_equal(first.function, second.function)
    assert str(first.function) == str(second.function)
    without_times = [
        {key: value for key, value in outcome.statistics.counters["Tried"].items() if "seconds" not in key} for outcome in (first, second)
    ]
    assert without_times[0] == without_times[1]


def test_tables_are_loaded_in_the_order_of_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of addresses, which matches are found would differ from process to process: egglog keeps one of equal rows."""
    loaded: list[list[str]] = []
    load = EGraph.load

    def watched(self: EGraph, rows: Mapping[str, Sequence[str]], unions: Iterable[tuple[int, int]] = ()) -> None:
        loaded.append([name for name in rows if name != "bare" and not name.startswith("retire_")])
        load(self, rows, unions)

    monkeypatch.setattr(EGraph, "load", watched)
    saturate(build(1, 30), *SETS)
    assert max(map(len, loaded)) > 10
    assert all(names == sorted(names) for names in loaded)


@settings(max_examples=share(6, 750), derandomize=True)
@given(programs())
def test_a_second_run_does_not_make_it_worse(function: Function) -> None:
    once = saturate(function, *SETS, *FOLDING).function
    twice = saturate(once, *SETS, *FOLDING).function
    assert program_cost(twice.body, Roofline()) <= program_cost(once.body, Roofline()) * (1 + 1e-9)
    assert len(operators(twice)) <= len(operators(once))


@settings(max_examples=share(6, 500), derandomize=True)
@given(programs(stateful=True))
def test_stateful_calls_are_neither_merged_nor_duplicated_nor_dropped(function: Function) -> None:
    before = operators(function.body).count("nn.dropout")
    outcome = saturate(function, *KEEPING_DROPOUT, *FOLDING, merge=True)
    assert operators(outcome.function.body).count("nn.dropout") == before


@settings(max_examples=share(6, 1500), derandomize=True)
@given(any_programs(effects=True))
def test_programs_of_every_kind_keep_values_and_stay_well_formed(function: Function) -> None:
    """Programs with lets, closures, branches, matches and references, and with known and unknown sizes."""
    infer_type(function)
    outcome = saturate(function, Arithmetic, ConstantFolding, merge=True, rules__math="exact")
    after = outcome.function
    assert well_formed(after)
    infer_type(after)
    assert compatible(after.body.checked_type, function.body.checked_type)
    try:
        feeds = feeds_of(function, np.random.default_rng(0), special=True, sizes={"n": 1})
        expected = run(function, feeds)
    except (EvaluateError, NotImplementedError):
        assume(False)
    assert difference(run(after, feeds), expected, exact=True) is None


# ---- nothing to do


def test_without_applications_the_function_is_unchanged() -> None:
    for body in (a, ops.exp(a), tup(a, b), ops.exp(a) + ops.exp(a), negated(a)):
        function = func(body)
        assert saturate(function, Transposes).function is function
        assert saturate(function).function is function


def test_cse_alone() -> None:
    function = func(ops.exp(a) + ops.exp(a))
    assert operators(saturate(function, merge=True).function) == ["exp", "add"]
    shared = ops.exp(a)
    plain = func(shared + shared)
    assert saturate(plain, merge=True).function is plain


def test_changed_programs_are_hash_consed() -> None:
    function = func(tup(ops.exp(negated(a)), ops.exp(a)))
    assert operators(saturate(function, Arithmetic).function) == ["exp"]


def test_rules_that_only_explore_change_nothing() -> None:
    class Swaps(RuleSet):
        """Sums in another order."""

        swap = (x + y >> y + x).exploring()

    function = func(a + b)
    outcome = saturate(function, Swaps)
    assert outcome.fired("Swaps.swap") == 1
    assert outcome.function is function


def test_rules_that_contribute_nothing_share_nothing() -> None:
    """A rule fires and its result is not taken: equal parts, which loading merges, stay separate, as without the rule."""
    swaps = RuleSetMeta("Swaps", (RuleSet,), {"swap": (x + y >> y + x).exploring()})
    function = func(ops.exp(a) * ops.exp(a) * (a + b))
    outcome = saturate(function, swaps)
    assert outcome.fired("Swaps.swap") == 1
    assert outcome.function is function
    assert operators(saturate(function, swaps, merge=True).function) == ["exp", "multiply", "add", "multiply"]


def test_both_directions_of_a_rule() -> None:
    z = tensors("z")[0]

    class Rings(RuleSet):
        """Products over sums."""

        distribute = (x * (y + z) >> x * y + x * z).and_back().inexact("distributes")

    function = func(a * b + a * ops.exp(b))
    outcome = saturate(function, Rings)
    assert operators(outcome.function) == ["exp", "add", "multiply"]
    assert outcome.fired("Rings.distribute.back") >= 1


# ---- lets, branches, functions


def test_lets_come_back_as_lets() -> None:
    u, v, w = Var("u"), Var("v"), Var("w")
    function = func(Let(u, negated(a), Let(v, ops.exp(u), Let(w, u + v, w * splat(1.0)))), a)
    after = saturate(function, Arithmetic).function
    assert isinstance(after.body, Let)
    assert sum(isinstance(node, Let) for node in post_order(after.body)) == 2
    assert operators(after.body) == ["exp", "add"]
    assert_equal_in_value(function, after, exact=True)


def test_lets_in_which_nothing_changes_come_back_themselves() -> None:
    u = Var("u")
    function = func(Let(u, ops.exp(a), u + u), a)
    assert saturate(function, Arithmetic, ConstantFolding).function is function


def test_branches_are_optimized_in_turn() -> None:
    c = var("c", (), "bool")
    function = func(If(ops.logical_not(ops.logical_not(c)), negated(a), ops.exp(negated(a))))
    after = saturate(function, Arithmetic).function
    assert isinstance(after.body, If)
    assert after.body.cond is c
    assert operators(after) == ["exp"]
    assert_equal_in_value(function, after, exact=True)


def test_a_condition_shares_nodes_with_its_surroundings() -> None:
    shared = ops.exp(negated(a))
    guard = ops.greater(ops.sum(shared, axis=(0, 1)), splat(0.0))
    function = func(tup(If(guard, a, b), shared))
    after = saturate(function, Arithmetic).function
    assert sorted(operators(after)) == ["exp", "greater", "sum"]
    assert_equal_in_value(function, after, exact=True)


def test_nested_functions_and_their_arguments_are_optimized() -> None:
    p = var("p")
    inner = Function([p], negated(p))
    function = func(Call(inner, [negated(a)]))
    after = saturate(function, Arithmetic).function
    assert operators(after) == []
    assert_equal_in_value(function, after, exact=True)
    infer_type(after)


def test_functions_bound_by_lets_are_optimized() -> None:
    p, f, u = var("p"), Var("f"), Var("u")
    inner = Function([p], Let(u, negated(p), u))
    function = func(Let(f, inner, tup(Call(f, [a]), Call(f, [b]))), a, b)
    after = saturate(function, Arithmetic).function
    assert operators(after) == []
    assert well_formed(after)
    assert_equal_in_value(function, after, exact=True)


def test_primitive_functions_are_left_as_they_are() -> None:
    p = var("p")
    kernel = Function([p], negated(p), attrs={"Primitive": 1})
    function = func(Call(kernel, [negated(a)]))
    after = saturate(function, Arithmetic).function
    assert isinstance(after.body, Call)
    assert after.body.op is kernel
    assert after.body.args == (a,)


def test_matches_are_optimized() -> None:
    p, q = Var("p"), Var("q")
    clause = Clause(PatternTuple([PatternVar(p), PatternVar(q)]), negated(p))
    function = func(Match(tup(negated(a), b), [clause]))
    after = saturate(function, Arithmetic).function
    assert operators(after) == []
    assert_equal_in_value(function, after, exact=True)


def test_calls_of_functions_are_neither_merged_nor_lost() -> None:
    p = var("p")
    inner = Function([p], ops.exp(p))
    function = func(tup(Call(inner, [negated(a)]), Call(inner, [a])))
    after = saturate(function, Arithmetic, merge=True).function
    calls = [node for node in post_order(after) if isinstance(node, Call) and isinstance(node.op, Function)]
    assert len(calls) == 2


def test_values_shared_by_branches_stay_shared() -> None:
    c = var("c", (), "bool")
    dear = ops.nn.matmul(ops.exp(negated(a)), const(np.ones((3, 400))))
    function = func(tup(If(c, ops.abs(dear), dear), If(c, dear, ops.cos(dear)), ops.sin(dear)))
    after = saturate(function, Arithmetic).function
    assert sorted(operators(after)) == ["abs", "cos", "exp", "nn.matmul", "sin"]
    assert_equal_in_value(function, after, exact=True)


def test_a_stateful_call_that_branches_share_stays_one_call() -> None:
    c = var("c", (), "bool")
    dropped = ops.nn.dropout(negated(a))[0]
    function = func(tup(If(c, ops.abs(dropped), dropped), ops.sin(dropped)))
    after = saturate(function, Arithmetic).function
    assert sorted(operators(after)) == ["abs", "nn.dropout", "sin"]


def test_variables_that_a_shared_match_binds_are_bound_once() -> None:
    c, p, q = var("c", (), "bool"), Var("p"), Var("q")
    shared = Match(tup(negated(a), b), [Clause(PatternTuple([PatternVar(p), PatternVar(q)]), ops.exp(p))])
    function = func(tup(If(c, shared, ops.abs(shared)), ops.sin(shared)), a, b, c)
    after = saturate(function, Arithmetic).function
    assert well_formed(after)
    assert sorted(operators(after)) == ["abs", "exp", "sin"]
    assert_equal_in_value(function, after, exact=True)


def test_references_are_left_alone() -> None:
    r, done = Var("r"), Var("_")
    body = Let(r, RefCreate(negated(a)), Let(done, RefWrite(r, negated(b)), RefRead(r)))
    function = func(body, a, b)
    outcome = saturate(function, Arithmetic)
    assert outcome.function is function
    assert outcome.remarks == ["skipped: it creates, reads or writes references"]


def test_lets_that_order_stateful_calls_are_left_alone() -> None:
    u = Var("u")
    function = func(Let(u, ops.nn.dropout(negated(a))[0], u + b), a, b)
    outcome = saturate(function, Arithmetic)
    assert outcome.function is function
    assert outcome.remarks == ["skipped: its lets order stateful calls, or bind a recursive function"]


def test_a_stateful_call_is_not_lost() -> None:
    function = func(ops.where(splat(1, (), "bool"), a, ops.nn.dropout(a)[0]))
    outcome = saturate(function, Arithmetic)
    assert outcome.function is function
    assert "skipped: a stateful call of nn.dropout would be lost" in outcome.remarks
    assert operators(saturate(function, Arithmetic, Decompositions).function) == []


# ---- failures


@pytest.mark.parametrize("method", ["step", "load", "declare"])
def test_if_the_engine_fails_earlier_decisions_hold(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise EngineError("egglog failed: on purpose")

    monkeypatch.setattr(EGraph, method, fail)
    # a rule of its own, so that no e-graph of another run is reused
    fresh = RuleSetMeta("Fresh", (RuleSet,), {"__doc__": method, "twice": op.negative(op.negative(x)) >> x})
    function = func(ops.exp(negated(a)))
    outcome = saturate(function, fresh)
    assert operators(outcome.function) == ["exp"]
    assert outcome.remarks == ["egglog failed: on purpose; the best program so far was extracted"]


def test_after_a_failure_the_next_run_is_as_good_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = RuleSetMeta("Fresh", (RuleSet,), {"__doc__": "Once more.", "twice": op.negative(op.negative(x)) >> x})
    function = func(ops.exp(negated(a)) + splat(1.0) * splat(2.0))
    with monkeypatch.context() as patch:
        patch.setattr(EGraph, "_run", lambda *texts, **options: panic())
        outcome = saturate(function, fresh, ConstantFolding)
        assert operators(outcome.function) == ["exp", "add"]
        assert outcome.remarks[0].startswith("egglog failed: ")
    assert operators(saturate(function, fresh, ConstantFolding).function) == ["exp", "add"]


def panic() -> None:
    """Causes a PanicException in egglog by asking an e-graph for a function that it does not have."""
    from egglog.bindings import EGraph as Bindings
    from egglog.bindings import Input, RustSpan

    graph = Bindings()
    graph.run_program(*graph.parse_program("(relation r (i64))"))
    try:
        graph.run_program(Input(RustSpan("t", 0, 0), "r", "/nowhere/at/all"))
    except BaseException as error:
        from passat.rules.engine.egraph import _engine_error

        raise _engine_error(error) from error


# ---- depth


def test_a_long_chain_of_calls() -> None:
    body: Expr = a
    for _ in range(share(2_500, 25_000)):
        body = Call(get_op("negative"), [Call(get_op("negative"), [body])])
    function = Function([a], body)
    assert saturate(function, Arithmetic).function.body is a


def test_a_long_chain_of_calls_in_which_little_changes() -> None:
    body: Expr = a
    thousands = share(5, 50)
    for i in range(1_000 * thousands):
        body = Call(get_op("sin" if i % 1000 else "copy"), [body])
    outcome = saturate(Function([a], body), Arithmetic)
    assert outcome.fired("Arithmetic.copy") == thousands
    assert operators(outcome.function).count("sin") == 999 * thousands


def test_a_graph_of_many_paths() -> None:
    body: Expr = a
    for _ in range(100):
        body = negated(body) + body
    function = Function([a], body)
    after = saturate(function, Arithmetic).function
    assert operators(after) == ["add"] * 100
