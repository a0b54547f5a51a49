"""Regions solved side by side: results, counters and remarks are those of one process, whatever becomes of the workers."""

import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Function, GlobalVar, Tuple
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.text import astext
from passat.passmgr import PassContext, get_pass, shutdown_workers
from passat.passmgr.workers import worker_pool
from passat.rules.engine import interruption
from passat.rules.pattern import op, tensor
from passat.rules.regions import regions
from passat.rules.rule import RuleSet
from passat.rules.rule_pass import RulePass
from tests.passmgr.test_sharing import Pickling
from tests.rules.program_strategies import build
from tests.rules.regions import region_passes
from tests.rules.regions.region_passes import KINDS, Choosy, Deadly, Plain, layers, negations
from tests.rules.regions.test_replay import copies

HERE = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "LEAST", 3)
    monkeypatch.setattr(regions, "WINDOW", 20)
    monkeypatch.setenv(region_passes.HOME, str(os.getpid()))


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    """Workers that can import the tests; none are left behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        yield
        shutdown_workers()


class Late(Pickling):
    """Answers in the opposite order: nothing, until it is asked for the first; then the last is done first."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[], None]] = []
        self.done: list[int] = []

    def submit(self, fn: Callable[..., AnyValue], /, *args: AnyValue, **kwargs: AnyValue) -> Future[AnyValue]:
        future = _Asked(self)
        number = len(self.waiting)

        def run() -> None:
            self.done.append(number)
            future.set_result(fn(*pickle.loads(pickle.dumps(args))))

        self.waiting.append(run)
        return future


class _Asked(Future[AnyValue]):
    def __init__(self, owner: Late) -> None:
        super().__init__()
        self._owner = owner

    def done(self) -> bool:
        while self._owner.waiting:
            self._owner.waiting.pop()()
        return super().done()


class Failing(Pickling):
    """Loses some tasks with their worker: those of these numbers."""

    def __init__(self, *lost: int, error: Callable[[], Exception] = BrokenProcessPool) -> None:
        super().__init__()
        self.lost = lost
        self.error = error

    def submit(self, fn: Callable[..., AnyValue], /, *args: AnyValue, **kwargs: AnyValue) -> Future[AnyValue]:
        if self.tasks in self.lost:
            self.tasks += 1
            future: Future[AnyValue] = Future()
            future.set_exception(self.error())
            return future
        return super().submit(fn, *args, **kwargs)


class KilledWorker(Exception):
    """Named like dask's."""


def outcome(
    pass_: RulePass, function: Function, executor: Executor | None = None, **config: object
) -> tuple[str, dict[str, float], dict[str, int]]:
    """The program with its constants, counters but for seconds, and remarks."""
    infer_type(function)
    given = {"rules.region_nodes": 0, "passmgr.workers_from": 0, **{key.replace("__", "."): value for key, value in config.items()}}
    with PassContext(executor=executor, config=given) as ctx:
        made = pass_(IRModule.from_expr(function))
    counters = {key: amount for key, amount in ctx.statistics.counters[pass_.info.name].items() if key != "seconds"}
    return astext(made, show_meta_data=True), counters, ctx.statistics.remarks.get(pass_.info.name, {})


def tried(*sets: type[RuleSet]) -> RulePass:
    return RulePass(sets, name="Tried")


@pytest.mark.parametrize("make", [Pickling, Late, lambda: ThreadPoolExecutor(1), lambda: ThreadPoolExecutor(3)])
def test_results_are_those_of_one_process(make: Callable[[], Executor]) -> None:
    function = layers()
    here = outcome(tried(Plain), function)
    assert (here[1]["regions"], here[1]["replayed"]) == (12, 8)
    with make() as executor:
        assert outcome(tried(Plain), function, executor) == here
        assert not isinstance(executor, Late) or executor.done == [3, 2, 1, 0]


def test_what_differs_travels_once() -> None:
    executor = Pickling()
    outcome(tried(Plain), layers(), executor)
    assert executor.tasks == len(KINDS)
    outcome(tried(Plain), layers(("exp",), 8), executor)  # nothing to be done side by side
    outcome(tried(Plain), layers(), executor, passmgr__workers_from=1000)
    assert executor.tasks == len(KINDS)


def test_worker_processes_do_it() -> None:
    function = layers()
    here = outcome(tried(Plain), function)
    assert outcome(tried(Plain), function, passmgr__workers=2) == here
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        assert outcome(tried(Plain), function, pool) == here


@settings(deadline=None, max_examples=12, derandomize=True)
@given(st.integers(0, 1 << 30), st.integers(6, 14), st.sampled_from(["SimplifyExpr", "FoldBatchNorm", "DynamicToStatic"]))
def test_random_programs_come_out_equal(seed: int, size: int, name: str) -> None:
    pass_ = get_pass(name)
    assert isinstance(pass_, RulePass)
    there, here = (outcome(pass_, mixture(seed, size), executor) for executor in (Pickling(), None))
    assert there == here


def test_random_programs_travel_at_all() -> None:
    executor, pass_ = Pickling(), get_pass("SimplifyExpr")
    assert isinstance(pass_, RulePass)
    for seed in range(12):
        outcome(pass_, mixture(seed, 8), executor)
    assert executor.tasks >= 12


def test_random_programs_come_out_equal_of_other_processes() -> None:
    """Where hashes of texts are others."""
    pass_ = get_pass("SimplifyExpr")
    assert isinstance(pass_, RulePass)
    for seed in range(3):
        assert outcome(pass_, mixture(seed, 12), passmgr__workers=2) == outcome(pass_, mixture(seed, 12))


def mixture(seed: int, size: int) -> Function:
    """Copies of several random programs, side by side: made anew, since a function that has been cut is remembered."""
    generator = np.random.default_rng(seed)
    made = [copies(build(seed + number, size, tame=True), 4, generator) for number in range(4)]
    return Function(
        [param for each in made if each is not None for param in each.params],
        Tuple([field for each in made if each is not None and isinstance(each.body, Tuple) for field in each.body.fields]),
    )


def test_answers_about_constants_are_looked_at_again() -> None:
    """The condition asks for all elements of a weight: what holds for one layer does not for the next."""
    function = layers(("exp", "tanh"), 4)
    here = outcome(tried(Choosy), function)
    assert here[1]["replayed"] < 6
    assert outcome(tried(Choosy), function, Pickling()) == here


def test_passes_travel_by_name_and_together() -> None:
    function = layers()
    for pass_ in (get_pass("SimplifyExpr"), get_pass("FoldBatchNorm")):
        assert isinstance(pass_, RulePass)
        executor = Pickling()
        assert outcome(pass_, function, executor) == outcome(pass_, function)
        assert executor.tasks


def test_the_cache_is_asked_first_and_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSAT_CACHE", str(tmp_path))
    function, executor = layers(), Pickling()
    first = outcome(tried(Plain), function, executor, rules__cache=True)
    again = outcome(tried(Plain), function, executor, rules__cache=True)
    assert executor.tasks == len(KINDS)
    assert first[0] == again[0]
    assert ("remembered" in first[1], again[1]["remembered"]) == (False, len(KINDS))


# ---- what goes wrong


def test_a_region_that_ends_its_worker_stays_as_it_was() -> None:
    infer_type(function := layers())
    for _ in range(2):
        with PassContext(config={"rules.region_nodes": 0, "passmgr.workers_from": 0, "passmgr.workers": 2}) as ctx:
            made = tried(Deadly)(IRModule.from_expr(function))["main"]
        (remark,) = ctx.statistics.remarks["Tried"]
        assert remark.startswith("a region of 6 nodes stays as it was: a worker process ended before its time")
        for kind in KINDS:
            assert negations(made, kind) == [3 if kind == "tanh" else 1] * 3


def test_a_pool_that_was_given_breaks() -> None:
    """What is left is done by processes that are started here."""
    infer_type(function := layers())
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        for _ in range(2):
            with PassContext(executor=pool, config={"rules.region_nodes": 0, "passmgr.workers_from": 0}) as ctx:
                made = tried(Deadly)(IRModule.from_expr(function))["main"]
            assert len(ctx.statistics.remarks["Tried"]) == 1
            assert [negations(made, kind)[0] for kind in KINDS] == [3 if kind == "tanh" else 1 for kind in KINDS]


@pytest.mark.parametrize("error", [BrokenProcessPool, KilledWorker])
def test_the_one_to_blame_is_found_among_those_that_are_lost(error: Callable[[], Exception]) -> None:
    function = layers()
    here = outcome(tried(Plain), function)
    assert outcome(tried(Plain), function, Failing(0, 2, 3, error=error)) == here  # all are done when they are alone
    (text, _, remarks) = outcome(tried(Plain), function, Failing(1, 3, 5, error=error))
    assert list(remarks) == ["a region of 6 nodes stays as it was: a worker process ended before its time, twice"]
    assert text != here[0]
    (_, _, remarks) = outcome(tried(Plain), function, Failing(1, error=error))  # no other can be to blame
    assert list(remarks) == ["a region of 6 nodes stays as it was: a worker process ended before its time"]


def test_what_cannot_travel_is_solved_here() -> None:
    x = tensor("x")

    class Local(RuleSet):
        """Is in no module."""

        twice = op.negative(op.negative(x)) >> x

    function, executor = layers(), Pickling()
    text, counters, _ = outcome(tried(Local), function)
    there = outcome(tried(Local), function, executor)
    assert there[:2] == (text, counters)
    (remark,) = there[2]
    assert remark.startswith("regions were solved in this process, not in workers: the pass Tried cannot be pickled")
    assert not executor.tasks


def test_what_a_worker_raises_is_raised_where_it_is_asked_for() -> None:
    function = layers()
    here = outcome(tried(Plain), function)
    there = outcome(tried(Plain), function, Failing(0, error=lambda: OSError("no such thing there")))
    assert there[:2] == here[:2]
    assert list(there[2]) == ["a region was solved in this process: OSError: no such thing there"]


class ShutDown(Executor):
    def submit(self, fn: Callable[..., AnyValue], /, *args: AnyValue, **kwargs: AnyValue) -> Future[AnyValue]:
        raise RuntimeError("cannot schedule new futures after shutdown")


def test_an_executor_that_takes_nothing() -> None:
    function = layers()
    here, there = outcome(tried(Plain), function), outcome(tried(Plain), function, ShutDown())
    assert there[:2] == here[:2]
    assert "the executor takes no tasks (RuntimeError: cannot schedule" in next(iter(there[2]))


def test_workers_that_never_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    function = layers()
    here = outcome(tried(Plain), function)
    monkeypatch.setattr(worker_pool, "_stillborn", [2, 2])
    there = outcome(tried(Plain), function, passmgr__workers=2)
    assert there[:2] == here[:2]
    assert "workers end before they do anything" in next(iter(there[2]))


def test_an_interruption_leaves_what_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    class Never(Executor):
        def submit(self, fn: Callable[..., AnyValue], /, *args: AnyValue, **kwargs: AnyValue) -> Future[AnyValue]:
            return Future()

    asked = interruption.Interruption()
    asked.requested = True
    monkeypatch.setattr(interruption, "_open", [asked])
    function = layers()
    infer_type(function)
    text, counters, remarks = outcome(tried(Plain), function, Never())
    assert text == astext(IRModule.from_expr(function), show_meta_data=True)
    assert counters["regions"] == 12
    assert "a region of 6 nodes stays as it was: interrupted" in remarks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_pool_refuses_rather_than_waits_for_ever() -> None:
    function = layers()
    here = outcome(tried(Plain), function)
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        there = outcome(tried(Plain), function, pool)
    assert there[:2] == here[:2]
    assert "rules cannot run in a process that was forked" in next(iter(there[2]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_pool_refuses_functions_too() -> None:
    mod = IRModule()
    for number in range(2):
        mod[GlobalVar(f"f{number}")] = infer_type_of(layers())
    with PassContext():
        here = tried(Plain)(mod)
    with ProcessPoolExecutor(1, get_context("fork")) as pool, PassContext(executor=pool, config={"passmgr.workers_from": 0}) as ctx:
        there = tried(Plain)(mod)
    assert astext(there, show_meta_data=True) == astext(here, show_meta_data=True)
    assert any("rules cannot run in a process that was forked" in remark for remark in ctx.statistics.remarks["Tried"])


def infer_type_of(function: Function) -> Function:
    infer_type(function)
    return function
