"""Function passes over executors: results, order, statistics, exceptions, config, what cannot travel; without processes of its own."""

import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.diagnostics import Diagnostic, DiagnosticContext, DiagnosticError, DiagnosticLevel
from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Function, Span
from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.ir.serialize import numbering
from passat.ir.text import astext
from passat.passmgr import FunctionPass, PassContext, PassInstrument, Sequential, function_pass, get_pass
from passat.passmgr.workers.sharing import WorkerTraceback
from tests.passmgr import sharing_passes as passes
from tests.passmgr.sharing_passes import chains
from tests.strategies import modules


class Pickling(Executor):
    """Runs tasks here and at once, but on copies, as another process would have them."""

    def __init__(self) -> None:
        self.tasks = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.tasks += 1
        future: Future[Any] = Future()
        fn, args = pickle.loads(pickle.dumps((fn, args)))
        try:
            future.set_result(pickle.loads(pickle.dumps(fn(*args))))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.fixture(params=["pickling", "threads"])
def executor(request: pytest.FixtureRequest) -> Any:
    if request.param == "pickling":
        yield Pickling()
    else:
        with ThreadPoolExecutor(3) as threads:
            yield threads


def context(executor: Executor, **config: object) -> PassContext:
    return PassContext(executor=executor, config={"passmgr.workers_from": 0, **config})


def outcome(pass_: FunctionPass, mod: IRModule, ctx: PassContext) -> tuple[Any, dict[str, Any]]:
    """What comes of a pass in a context: the module, or type, text and notes of the exception; and the statistics."""
    with ctx:
        try:
            result: Any = pass_(mod)
        except Exception as error:
            result = type(error), str(error), error.__notes__
    return result, ctx.statistics.to_dict()


@pytest.mark.parametrize(
    "pass_",
    [passes.double_even, passes.infer_each, passes.Scale(), passes.Decorated(), passes.made(), passes.Scale(5.0), passes.made(by=6.0)],
)
def test_same_results_in_the_same_order(executor: Executor, pass_: FunctionPass) -> None:
    mod, same = chains(7), chains(7)
    here, counted = outcome(pass_, same, PassContext())
    there, shared = outcome(pass_, mod, context(executor))
    assert list(there.functions) == list(mod.functions)
    assert astext(there) == astext(here)
    assert astext(mod) == astext(same)
    assert shared == counted


@settings(deadline=None, max_examples=60)
@given(modules(), st.sampled_from([passes.double_even, passes.infer_each, passes.Scale(), passes.raise_at_three]))
def test_random_modules_have_the_same_outcome(mod: IRModule, pass_: FunctionPass) -> None:
    copied = pickle.loads(pickle.dumps(mod))
    here, counted = outcome(pass_, copied, PassContext())
    there, shared = outcome(pass_, mod, context(Pickling()))
    assert shared == counted
    if isinstance(here, IRModule):
        assert_structural_equal(here, there, sharing=True)
        assert astext(here) == astext(there)
    else:
        assert there == here
    assert [node._checked_type for node in numbering(*mod.functions.values())] == [
        node._checked_type for node in numbering(*copied.functions.values())
    ]


def test_what_stayed_is_the_same_object(executor: Executor) -> None:
    mod = chains(6)
    result = outcome(passes.double_even, mod, context(executor))[0]
    for place, var in enumerate(mod.functions):
        old, new = mod[var], result[var]
        assert (new is old) is bool(place % 2)
        assert new.params[0] is old.params[0]
        assert place % 2 or new.body.args[0] is new.body.args[1] is old.body
    assert outcome(function_pass(unchanged, opt_level=0), mod, context(executor))[0] is mod


def unchanged(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return func


def test_the_first_exception_of_the_module_wins(executor: Executor) -> None:
    here, counted = outcome(passes.raise_at_three, chains(8), PassContext())
    there, shared = outcome(passes.raise_at_three, chains(8), context(executor))
    assert there == here == (KeyError, "'function 3'", ["noted in the pass", "in the function pass raise_at_three, function @f3"])
    assert shared == counted
    assert counted["counters"]["raise_at_three"] == {"seen": 4}


def test_an_exception_from_a_worker_brings_its_traceback() -> None:
    with context(Pickling()), pytest.raises(KeyError) as caught:
        passes.raise_at_three(chains(8))
    assert type(caught.value.__cause__) is WorkerTraceback
    assert "in raise_at_three" in str(caught.value.__cause__)


def test_an_exception_that_cannot_be_pickled_is_raised_here(executor: Executor) -> None:
    there, shared = outcome(passes.raise_awkwardly, chains(5), context(executor))
    assert there == (passes.Awkward, "awkward at 2", ["in the function pass raise_awkwardly, function @f2"])
    assert shared["counters"] == {"raise_awkwardly": {"seen": 3}}


@pytest.mark.parametrize("pass_", [passes.wrong_result, passes.add_function])
def test_bad_passes_are_told_alike(executor: Executor, pass_: FunctionPass) -> None:
    assert outcome(pass_, chains(5), context(executor))[0] == outcome(pass_, chains(5), PassContext())[0]


def test_pipelines_name_the_passes_before(executor: Executor) -> None:
    with context(executor), pytest.raises(KeyError) as caught:
        Sequential([passes.double_even, passes.raise_at_three])(chains(5))
    assert caught.value.__notes__[-1] == "in raise_at_three, step 2 of 2 of sequential; before it ran: double_even"


def test_the_context_is_told_to_workers(executor: Executor) -> None:
    settings = {"test.sharing": 9, "passmgr.workers": 2, "passmgr.workers_from": 0}
    with PassContext(4, ["A"], ["B"], [PassInstrument()], settings, executor=executor):
        mod = passes.report_config(chains(3))
    assert {func.attrs["said"] for func in mod.functions.values()} == {(9, 4, "", True, "A", "B", True, 0)}
    with context(executor):
        mod = passes.report_config(chains(3))
    assert {func.attrs["said"][0] for func in mod.functions.values()} == {7}


def test_instruments_see_the_pass_once(executor: Executor) -> None:
    seen: list[str] = []

    class Watch(PassInstrument):
        def run_before_pass(self, mod: IRModule, info: Any) -> None:
            seen.append(f"before {info.name}")

        def run_after_pass(self, mod: IRModule, info: Any) -> None:
            seen.append(f"after {info.name}")

    with PassContext(executor=executor, instruments=[Watch()], config={"passmgr.workers_from": 0}):
        passes.double_even(chains(4))
    assert seen == ["before double_even", "after double_even"]


def test_other_functions_are_left_alone(executor: Executor) -> None:
    mod = chains(5)
    mod["f1"] = mod["f1"].with_attr("Compiler", "other")
    mod["f3"] = PrimFunc([], "source")
    result = outcome(passes.Scale(), mod, context(executor))[0]
    assert [new is old for new, old in zip(result.functions.values(), mod.functions.values(), strict=True)] == [
        False,
        True,
        False,
        True,
        False,
    ]


def remarks(pass_: FunctionPass, ctx: PassContext, mod: IRModule | None = None) -> tuple[Any, list[str]]:
    result, statistics = outcome(pass_, mod or chains(4), ctx)
    return result, list(statistics["remarks"].get(pass_.info.name, {}))


def test_what_cannot_travel_runs_here_and_a_remark_says_so() -> None:
    local = function_pass(lambda func, mod, ctx: func.with_attr("local", 1), opt_level=0, name="Local")
    result, said = remarks(local, context(Pickling()))
    assert [func.attrs["local"] for func in result.functions.values()] == [1] * 4
    assert len(said) == 1
    assert said[0].startswith("ran in this process, not in workers: the pass Local cannot be pickled (")
    mod = chains(4)
    mod.attrs["secret"] = lambda: None
    result, said = remarks(passes.Scale(), context(Pickling()), mod)
    assert result is not mod
    assert said[0].startswith("ran in this process, not in workers: the module cannot be pickled (")
    result, said = remarks(passes.make_unpicklable, context(Pickling()))
    assert callable(result["f0"].attrs["made"])
    assert said[0].startswith("ran in this process, not in workers: what the pass made cannot be pickled (")
    result, said = remarks(passes.raise_awkwardly, context(Pickling()), chains(5))
    assert result[0] is passes.Awkward
    assert said == []


def test_a_pass_that_a_worker_does_not_know() -> None:
    other = passes.made()
    vars(other)["made_by"] = ("FoldConstant", {})
    result, said = remarks(other, context(Pickling()))
    assert said == [
        "ran in this process, not in workers: a worker cannot read the task: another pass is registered there under the name FoldConstant"
    ]
    assert isinstance(result, IRModule)
    assert_structural_equal(result, outcome(passes.made(), chains(4), PassContext())[0])


def test_passes_of_the_library_travel_by_name() -> None:
    executor = Pickling()
    fold = get_pass("FoldConstant")
    assert isinstance(fold, FunctionPass)
    result, said = remarks(fold, context(executor), get_pass("InferType")(chains(4)))
    assert executor.tasks > 1
    assert isinstance(result, IRModule)
    assert said == []


def test_small_modules_and_lone_functions_stay() -> None:
    executor = Pickling()
    with PassContext(executor=executor):
        passes.double_even(chains(50))
    with context(executor):
        passes.double_even(chains(1))
        passes.double_even(IRModule())
    with PassContext(config={"passmgr.workers": 1, "passmgr.workers_from": 0}):
        assert len({func.attrs["process"] for func in passes.mark_process(chains(4)).functions.values()}) == 1
    assert executor.tasks == 0
    with PassContext(executor=executor):
        passes.double_even(chains(50, 50))
    assert executor.tasks > 1


def test_functions_are_shared_out_evenly() -> None:
    executor = Pickling()
    with context(executor, **{"passmgr.workers": 2}):
        passes.double_even(chains(100, 5))
    assert executor.tasks == 8


def test_bad_numbers_of_workers() -> None:
    for key in ("passmgr.workers", "passmgr.workers_from"):
        with pytest.raises(AttributeError, match=f"expect config {key} to be at least 0 but get -1"):
            PassContext(config={key: -1})
    with pytest.raises(AttributeError, match=r"expect config passmgr\.workers to have type int but get 'two'"):
        PassContext(config={"passmgr.workers": "two"})
    with pytest.raises(TypeError, match=r"^executor must be a concurrent.futures.Executor; 4 is none$"):
        PassContext(executor=4)  # type: ignore[arg-type]  # the mistake


class Lost(Pickling):
    """An executor whose worker ends after the first task."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.tasks == 0:
            return super().submit(fn, *args, **kwargs)
        future: Future[Any] = Future()
        future.set_exception(BrokenProcessPool("gone"))
        return future


class Dead(Pickling):
    """An executor that is broken from the start."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise BrokenProcessPool("gone")


@pytest.mark.parametrize(
    ("executor", "said"),
    [(Lost(), "a worker process ended before its time"), (Dead(), "no worker can be started (BrokenProcessPool: gone)")],
)
def test_lost_workers_are_made_up_for_here(executor: Pickling, said: str) -> None:
    here, counted = outcome(passes.double_even, chains(9), PassContext())
    there, shared = outcome(passes.double_even, chains(9), context(executor))
    assert astext(there) == astext(here)
    assert shared["counters"] == counted["counters"]
    assert f"ran in this process, not in workers: {said}" in shared["remarks"]["double_even"]


def test_an_executor_that_was_shut_down_is_the_users_mistake(executor: Executor) -> None:
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    with context(threads), pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        passes.double_even(chains(4))


@function_pass(opt_level=0)
def complain(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    assert ctx.diag_ctx is not None
    ctx.diag_ctx.emit(Diagnostic(DiagnosticLevel.ERROR, Span("node"), "wrong"))  # type: ignore[attr-defined]  # a DiagnosticContext
    return func


def test_diagnostics_are_collected(executor: Executor) -> None:
    ctx = PassContext(executor=executor, config={"passmgr.workers_from": 0}, diag_ctx=DiagnosticContext(None))
    with ctx, pytest.raises(DiagnosticError) as caught:
        complain(chains(3))
    assert len(caught.value.diagnostics) == 3
    said = ctx.statistics.remarks.get("complain", {})
    expected = [] if isinstance(executor, ThreadPoolExecutor) else ["diagnostics are collected in this process"]
    assert list(said) == [f"ran in this process, not in workers: {text}" for text in expected]
