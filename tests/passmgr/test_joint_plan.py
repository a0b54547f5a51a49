"""Adjacent passes that run as one: which ones, when, and the effects on others."""

from collections.abc import Sequence

import pytest

from passat.ir.module import IRModule
from passat.passmgr import (
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    PassMemoryInstrument,
    PassProgress,
    PassTimingInstrument,
    Sequential,
    register_option,
    render_times,
)

pytestmark = pytest.mark.usefixtures("forgotten")


class Joinable(ModulePass):
    """A pass that records which passes it runs with."""

    def __init__(self, name: str, log: list[str], option: str | None = "test.joint", level: int = 0) -> None:
        self.info = PassInfo(level, name)
        self.joint_option = option
        self._log = log

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        self._log.append(self.info.name)
        return mod

    def run_jointly(self, passes: Sequence[Pass], mod: IRModule, ctx: PassContext, stage: str) -> IRModule:
        self._log.append("+".join(pass_.info.name for pass_ in passes))
        return mod


def run(passes: Sequence[Pass], *, joint: bool = True, opt_level: int = 2) -> None:
    with PassContext(opt_level, config={"test.joint": joint}):
        Sequential(list(passes))(IRModule({}))


def test_adjacent_passes_are_joined_if_the_context_says_so() -> None:
    register_option("test.joint", bool, False)
    log: list[str] = []
    passes = [Joinable("A", log), Joinable("B", log), Joinable("X", log, None), Joinable("C", log), Joinable("D", log), Joinable("E", log)]
    run(passes, joint=False)
    assert log == ["A", "B", "X", "C", "D", "E"]
    log.clear()
    run(passes)
    assert log == ["A+B", "X", "C+D+E"]
    Sequential(passes)(IRModule({}))
    assert log[-6:] == ["A", "B", "X", "C", "D", "E"], "the default context does not ask"


def test_measurements_belong_to_the_stage() -> None:
    register_option("test.joint", bool, False)
    pipeline = Sequential([Joinable("X", [], None), Joinable("A", []), Joinable("B", [])])
    told: list[str] = []
    with PassContext(config={"test.joint": True}) as ctx:
        plan = pipeline.plan(ctx)
    watching = [PassProgress(lambda event: told.append(f"{event}/{event.stage}"), plan), timing := PassTimingInstrument()]
    with PassContext(config={"test.joint": True}, instruments=[*watching, memory := PassMemoryInstrument()]):
        pipeline(IRModule({}))
    assert [(run.name, run.stage, run.seconds > 0.0) for run in timing.timings[2:]] == [
        ("stage 1", "", True),
        ("A", "stage 1", False),
        ("B", "stage 1", False),
    ]
    assert [line.strip() for line in render_times(timing.timings).splitlines()[-2:]] == ["A: in stage 1", "B: in stage 1"]
    assert memory.render().splitlines()[-1].strip() == "B: in stage 1"
    begun = [one for one in told if one.startswith("running")]
    assert begun[1:] == [
        "running X (1 of 3)/",
        "running stage 1 (2 to 3 of 3)/",
        "running A (2 of 3)/stage 1",
        "running B (3 of 3)/stage 1",
    ]


def test_passes_that_do_not_run_do_not_stand_between() -> None:
    register_option("test.joint", bool, False)
    log: list[str] = []
    run([Joinable("A", log), Joinable("High", log, None, level=4), Joinable("B", log)])
    assert log == ["A+B"]


def test_a_pass_may_stand_several_times_in_a_group() -> None:
    register_option("test.joint", bool, False)
    log: list[str] = []
    a, b = Joinable("A", log), Joinable("B", log)
    run([a, b, a, a])
    run([a, a])
    assert log == ["A+B+A+A", "A+A"]


def test_each_plan_joins_passes_by_its_context() -> None:
    register_option("test.joint", bool, False)
    register_option("test.other", bool, False)
    log: list[str] = []
    options = ("test.joint", "test.joint", "test.other", "test.other")
    pipeline = Sequential([Joinable(name, log, option) for name, option in zip("ABCD", options, strict=True)])
    asked = [
        ((True, False), ["A+B", "C", "D"]),
        ((True, True), ["A+B", "C+D"]),
        ((False, False), ["A", "B", "C", "D"]),
        ((False, True), ["A", "B", "C+D"]),
    ]
    for (joint, other), expected in asked:
        with PassContext(config={"test.joint": joint, "test.other": other}):
            pipeline(IRModule({}))
        assert log == expected
        log.clear()


def test_an_exception_names_the_passes() -> None:
    register_option("test.joint", bool, False)

    class Failing(Joinable):
        def run_jointly(self, passes: Sequence[Pass], mod: IRModule, ctx: PassContext, stage: str) -> IRModule:
            raise ArithmeticError("no")

    with pytest.raises(ArithmeticError) as caught:
        run([Failing("A", []), Failing("B", [])])
    assert "A, B" in caught.value.__notes__[-1]
