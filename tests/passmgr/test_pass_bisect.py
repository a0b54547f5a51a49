"""Bisection of pipelines: the guilty pass in a logarithmic number of runs, and a clear message if there is none."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Function, const, var
from passat.ir.module import IRModule
from passat.passmgr import (
    AlreadyTrueError,
    BisectError,
    BrokenModuleError,
    FlappingError,
    InferType,
    NeverTrueError,
    Pass,
    PassContext,
    PassInfo,
    PassInstrument,
    PassLimit,
    Sequential,
    VerifyEach,
    bisect_passes,
    function_pass,
    module_pass,
)
from passat.passmgr.debugging.bisect import first_true
from tests.share import share


def size(mod: IRModule) -> int:
    """The number of functions in a module."""
    return len(mod.functions)


def adding(name: str, *, change: bool = True, opt_level: int = 0) -> Pass:
    """A pass that adds a function with its name."""

    def add(mod: IRModule, ctx: PassContext) -> IRModule:
        if not change:
            return mod
        copy = mod.shallow_copy()
        copy[f"{name}{size(mod)}"] = Function([], var("x"))
        return copy

    made: Pass = module_pass(add, opt_level=opt_level, name=name)
    return made


def raising(name: str = "Crash") -> Pass:
    def crash(mod: IRModule, ctx: PassContext) -> IRModule:
        raise ZeroDivisionError("a division")

    made: Pass = module_pass(crash, opt_level=0, name=name)
    return made


class Counted:
    """A predicate that counts its calls."""

    def __init__(self, predicate: Callable[[IRModule], object]) -> None:
        self.predicate = predicate
        self.calls = 0

    def __call__(self, mod: IRModule) -> object:
        self.calls += 1
        return self.predicate(mod)


def row(count: int) -> Sequential:
    return Sequential([adding(f"P{i}") for i in range(1, count + 1)])


def test_the_first_pass_is_found_with_its_number_and_modules() -> None:
    found = bisect_passes(row(20), IRModule(), lambda mod: size(mod) >= 13)
    assert (found.execution.number, found.execution.name) == (13, "P13")
    assert size(found.before) == 12
    assert found.after is not None
    assert size(found.after) == 13
    assert found.candidates == (found.execution,)
    assert len(found.executions) == 20
    assert str(found) == "pass 13 of 20, P13, function @P1312"


@settings(max_examples=share(10, 60))
@given(st.integers(1, 70), st.data())
def test_it_takes_a_logarithm_of_questions_and_one_run(count: int, data: st.DataObject) -> None:
    guilty = data.draw(st.integers(1, count))
    runs = 0

    @module_pass(opt_level=0)
    def begin(mod: IRModule, ctx: PassContext) -> IRModule:
        nonlocal runs
        runs += 1
        return mod

    predicate = Counted(lambda mod: size(mod) >= guilty)
    found = bisect_passes(Sequential([begin, *row(count).members]), IRModule(), predicate, confirm=False)
    assert found.execution.name == f"P{guilty}"
    assert runs == 1
    assert found.calls == predicate.calls <= 2 + math.ceil(math.log2(count))
    confirmed = bisect_passes(row(count), IRModule(), predicate)
    assert confirmed.calls == found.calls + 2


def test_passes_that_change_nothing_cost_no_question() -> None:
    members = [adding(f"N{i}", change=i == 40) for i in range(100)]
    predicate = Counted(lambda mod: size(mod) > 0)
    found = bisect_passes(Sequential(members), IRModule(), predicate, confirm=False)
    assert found.execution.number == 41
    assert predicate.calls == 2


def test_nested_pipelines_and_required_passes_count_and_are_named() -> None:
    inner = Sequential([adding("A"), adding("B")], name="inner")
    pipeline = Sequential([InferType(), Sequential([inner, adding("C")], name="middle"), adding("D")])
    found = bisect_passes(pipeline, IRModule(), lambda mod: size(mod) >= 2)
    assert found.execution.number == 3
    assert found.execution.path == ("sequential", "middle", "inner")
    assert "middle / inner / B" in str(found)
    assert [one.name for one in found.executions] == ["InferType", "A", "B", "C", "D"]


def test_passes_inside_a_pass_belong_to_it() -> None:
    @module_pass(opt_level=0)
    def outer(mod: IRModule, ctx: PassContext) -> IRModule:
        return row(3)(mod)

    found = bisect_passes(Sequential([adding("A"), outer, adding("B")]), IRModule(), lambda mod: size(mod) >= 3)
    assert [one.name for one in found.executions] == ["A", "outer", "B"]
    assert found.execution.name == "outer"
    limited = PassLimit(2)
    with PassContext(instruments=[limited]):
        assert size(Sequential([adding("A"), outer, adding("B")])(IRModule())) == 4
    assert limited.vetoed == ["B"]


def test_a_pass_by_itself_is_a_pipeline_of_one() -> None:
    assert bisect_passes(adding("A"), IRModule(), size).execution.number == 1


def test_the_function_is_found_that_makes_it_true(mod: IRModule) -> None:
    names = [f"f{i:02}" for i in range(20)]
    main = mod["main"]

    @function_pass(opt_level=0)
    def copied(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return Function(func.params, func.body)

    many = IRModule(dict.fromkeys(names, main))
    predicate = Counted(lambda mod: mod["f07"] is not main)
    found = bisect_passes(Sequential([copied]), many, predicate)
    assert found.function == "f07"
    assert predicate.calls <= 4 + math.ceil(math.log2(20))


def test_the_only_changed_function_of_a_module_pass_is_named(mod: IRModule) -> None:
    def change(*names: str) -> Pass:
        def run(mod: IRModule, ctx: PassContext) -> IRModule:
            copy = mod.shallow_copy()
            copy.update({name: Function([], var("z")) for name in names})
            return copy

        made: Pass = module_pass(run, opt_level=0, name="Change")
        return made

    two = IRModule({"a": mod["main"], "b": mod["main"]})
    assert bisect_passes(change("b"), two, lambda mod: mod["b"] is not two["b"]).function == "b"
    assert bisect_passes(change("a", "b"), two, lambda mod: mod["b"] is not two["b"]).function is None


def test_a_predicate_that_is_true_of_the_input() -> None:
    predicate = Counted(lambda mod: True)
    with pytest.raises(AlreadyTrueError, match="the input is bad already, before any pass ran"):
        bisect_passes(row(9), IRModule(), predicate)
    assert predicate.calls == 1


def test_a_predicate_that_is_false_of_the_result() -> None:
    predicate = Counted(lambda mod: False)
    with pytest.raises(NeverTrueError, match=r"the result of the whole pipeline is good \(9 passes ran\)"):
        bisect_passes(row(9), IRModule(), predicate)
    assert predicate.calls == 2
    with pytest.raises(NeverTrueError, match=r"no pass changes the module, so none .* \(1 pass ran\)"):
        bisect_passes(adding("A", change=False), IRModule(), predicate)


def test_a_predicate_that_forgets_to_return() -> None:
    with pytest.raises(BisectError, match="the check cannot tell whether the input is bad: it returned None"):
        bisect_passes(row(3), IRModule(), lambda mod: None)
    with pytest.raises(BisectError, match="cannot tell whether the result is bad"):
        bisect_passes(row(3), IRModule(), lambda mod: None if size(mod) == 3 else False)


def test_undecidable_modules_widen_the_answer() -> None:
    found = bisect_passes(row(20), IRModule(), lambda mod: None if 7 <= size(mod) <= 9 else size(mod) > 8)
    assert [one.number for one in found.candidates] == [7, 8, 9, 10]
    assert found.execution.number == 10
    assert size(found.before) == 6
    assert found.function is None
    assert str(found) == "one of the passes 7 (P7), 8 (P8), 9 (P9), 10 (P10), of 20: the check cannot tell between them"


def test_undecidable_modules_elsewhere_do_not_matter() -> None:
    found = bisect_passes(row(20), IRModule(), lambda mod: None if 9 <= size(mod) <= 12 else size(mod) >= 4)
    assert [one.number for one in found.candidates] == [4]


def test_a_flapping_predicate_is_reported() -> None:
    asked: dict[int, int] = {}

    def flaps(mod: IRModule) -> bool:
        asked[size(mod)] = asked.get(size(mod), 0) + 1
        return size(mod) > 5 or (size(mod) == 5 and asked[5] > 1)

    with pytest.raises(FlappingError, match=r"the check is not deterministic: after pass 5 \(P5\) it returned good first, then bad"):
        bisect_passes(row(8), IRModule(), flaps)


def test_a_flapping_predicate_that_becomes_undecided_on_the_input() -> None:
    answers = iter([False, True, None])
    with pytest.raises(FlappingError, match="about the input it returned good first, then undecided"):
        bisect_passes(adding("A"), IRModule(), lambda mod: next(answers))


def test_a_crash_counts_when_asked() -> None:
    pipeline = Sequential([*row(4).members, Sequential([raising()], name="inner"), adding("after")])
    with pytest.raises(BisectError, match=r"pass 5 \(inner / Crash\) raises ZeroDivisionError: a division; with crashes=True"):
        bisect_passes(pipeline, IRModule(), lambda mod: False)
    found = bisect_passes(pipeline, IRModule(), lambda mod: False, crashes=True)
    assert found.execution.number == 5
    assert found.after is None
    assert isinstance(found.error, ZeroDivisionError)
    assert size(found.before) == 4
    assert "inner / Crash, which raised ZeroDivisionError: a division" in str(found)


def test_a_crash_after_the_guilty_pass_does_not_hide_it() -> None:
    found = bisect_passes(Sequential([*row(4).members, raising()]), IRModule(), lambda mod: size(mod) >= 2, crashes=True)
    assert (found.execution.name, found.error) == ("P2", None)


def test_the_function_at_which_a_pass_raised(mod: IRModule) -> None:
    @function_pass(opt_level=0)
    def crash(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        raise ValueError("no")

    assert bisect_passes(crash, mod, lambda mod: False, crashes=True).function == "main"


def test_the_settings_and_instruments_of_the_context_hold() -> None:
    class Veto(PassInstrument):
        def should_run(self, mod: IRModule, info: PassInfo) -> bool:
            return info.name != "P3"

    members = [*row(4).members, adding("High", opt_level=3)]
    ctx = PassContext(opt_level=3, disabled_pass=["P1"], instruments=[Veto()])
    found = bisect_passes(Sequential(members), IRModule(), lambda mod: size(mod) == 3, ctx)
    assert [one.name for one in found.executions] == ["P2", "P4", "High"]
    assert found.execution.name == "High"
    with PassContext(disabled_pass=["P2"]):
        assert bisect_passes(row(3), IRModule(), size).execution.name == "P1"
        assert PassContext.current().instruments == ()


def test_counters_of_bisection_stay_out_of_the_callers_context() -> None:
    @module_pass(opt_level=0)
    def counting(mod: IRModule, ctx: PassContext) -> IRModule:
        ctx.record("counting", "runs")
        return adding("A")(mod)

    ctx = PassContext()
    bisect_passes(counting, IRModule(), size, ctx)
    assert ctx.statistics.counters == {}


def test_errors_outside_of_passes_and_of_the_predicate_propagate() -> None:
    class Broken(PassInstrument):
        def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
            raise OSError("an instrument")

    with pytest.raises(OSError, match="an instrument"):
        bisect_passes(row(2), IRModule(), size, PassContext(instruments=[Broken()]), crashes=True)
    with pytest.raises(ZeroDivisionError):
        bisect_passes(row(2), IRModule(), lambda mod: 1 // 0)


@pytest.mark.parametrize("limit", range(6))
def test_a_limit_lets_the_first_passes_run(limit: int) -> None:
    limited = PassLimit(limit)
    with PassContext(instruments=[limited]):
        result = Sequential([adding("A"), Sequential([adding("B"), InferType(), adding("C")]), adding("D")])(IRModule())
    ran = [one.name for one in limited.executions]
    expected = ["A", "B", "InferType", "C", "D"][:limit]
    assert ran == (expected if limit >= 3 else [*expected, "InferType"])
    assert size(result) == len([name for name in ran if name != "InferType"])
    assert len(limited.vetoed) + len(ran) == 5


def test_a_limit_vetoes_analyses_but_not_required_passes() -> None:
    with PassContext(instruments=[limited := PassLimit(0)], required_pass=["B"]):
        Sequential([adding("A"), InferType(), adding("B")])(IRModule())
    assert limited.vetoed == ["A"]
    assert [one.name for one in limited.executions] == ["InferType", "B"]


def test_a_negative_limit_vetoes_nothing_and_each_context_starts_anew() -> None:
    limited = PassLimit(-1)
    for _ in range(2):
        with PassContext(instruments=[limited]):
            row(3)(IRModule())
        assert [one.number for one in limited.executions] == [1, 2, 3]
    with pytest.raises(TypeError):
        PassLimit("3")  # type: ignore[arg-type]  # the mistake


def test_a_limit_counts_on_after_a_pass_that_raised() -> None:
    told: list[str] = []
    with PassContext(instruments=[PassLimit(2, tell=told.append)]):
        with pytest.raises(ZeroDivisionError):
            Sequential([raising()], name="inner")(IRModule())
        row(2)(IRModule())
    assert told == ["BISECT: running pass (1) Crash", "BISECT: running pass (2) P1", "BISECT: NOT running pass (3) P2"]


@settings(max_examples=share(18, 100))
@given(st.lists(st.sampled_from([True, False, None]), max_size=30))
def test_the_search_ends_at_a_change_from_false_to_true(answers: list[bool | None]) -> None:
    low, high = first_true(len(answers) + 1, lambda number: answers[number - 1])
    full = [False, *answers, True]
    assert low < high
    assert full[low] is False
    assert full[high] is True
    assert full[low + 1 : high] == [None] * (high - low - 1)


def test_a_pass_that_a_check_rejects_crashes() -> None:
    @module_pass(opt_level=0)
    def frees(mod: IRModule, ctx: PassContext) -> IRModule:
        copy = mod.shallow_copy()
        copy["main"] = Function([], var("lost"))
        return copy

    start = IRModule.from_expr(Function([], const(1)))
    ctx = PassContext(instruments=[VerifyEach()])
    found = bisect_passes(Sequential([InferType(), frees, InferType()]), start, lambda mod: False, ctx, crashes=True)
    assert (found.execution.name, found.after, type(found.error)) == ("frees", None, BrokenModuleError)
