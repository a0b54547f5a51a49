"""All instruments at once around random pipelines that fail somewhere: no state is left behind, and each start has an end."""

import io
import tempfile
import tracemalloc
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Expr, Function, var
from passat.ir.module import IRModule
from passat.passmgr import (
    DumpIR,
    Pass,
    PassContext,
    PassEvent,
    PassMemoryInstrument,
    PassProgress,
    PassTimingInstrument,
    PrintIRAfter,
    PrintIRBefore,
    PrintIRChanged,
    Sequential,
    VerifyEach,
    function_pass,
    module_pass,
)
from passat.passmgr.inspection import resources
from passat.passmgr.inspection.checks import IMMUTABLE_MODULE_CHECK
from tests.share import share


@module_pass(opt_level=0)
def same(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


@function_pass(opt_level=0)
def negate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return Function(func.params, -func.body)


@module_pass(opt_level=0)
def raises(mod: IRModule, ctx: PassContext) -> IRModule:
    raise KeyError("raises")


@module_pass(opt_level=0)
def recovers(mod: IRModule, ctx: PassContext) -> IRModule:
    try:
        return Sequential([negate, raises])(mod)
    except KeyError:
        return negate(mod)


@function_pass(opt_level=0)
def breaks(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return Function(func.params, var("lost", shape=(2,)))


@module_pass(opt_level=0)
def sneaky(mod: IRModule, ctx: PassContext) -> IRModule:
    mod["main"] = Function([], Function([], mod["main"].body).body)
    return mod


pipelines = st.recursive(
    st.sampled_from([same, negate, negate, raises, recovers, breaks, sneaky]),
    lambda inner: st.lists(inner, max_size=4).map(lambda passes: Sequential(passes, name="nested")),
    max_leaves=8,
)


@settings(max_examples=share(10, 60))
@given(st.lists(pipelines, max_size=4))
def test_nothing_stays_behind(passes: list[Pass]) -> None:
    x: Expr = var("x", shape=(2,))
    mod = IRModule.from_expr(x + x)
    pipeline = Sequential(passes)
    events: list[PassEvent] = []
    out = io.StringIO()
    timing, memory, changed, verify = PassTimingInstrument(), PassMemoryInstrument(trace=True), PrintIRChanged(file=out), VerifyEach()
    progress = PassProgress(events.append, pipeline.plan())
    with tempfile.TemporaryDirectory() as folder:
        around = [progress, timing, memory, PrintIRBefore(file=out), changed, DumpIR(folder), verify, PrintIRAfter(file=out)]
        for _ in range(2):
            with PassContext(instruments=around, config={"testing.immutable_module": True}):
                try:
                    pipeline(mod.shallow_copy())
                except Exception as error:
                    assert not [note for note in error.__notes__ if "pass_failed raised" in note]  # noqa: PT017  # any exception
                assert len(timing.timings) == len(memory.runs)
    assert IMMUTABLE_MODULE_CHECK._running.open == []
    assert changed._running.open == []
    assert resources._OPEN == {}
    assert verify._sound.functions is None
    assert not tracemalloc.is_tracing()
    kinds = Counter("begun" if event.kind == "begun" else "ended" for event in events)
    assert kinds["begun"] == kinds["ended"]
    assert [run.name for run in timing.timings] == [run.name for run in memory.runs]
