"""Sequential: gating, nesting, requirements as in TVM and as in the graph, notes of exceptions, invalid arguments."""

import pytest

from passat.ir.module import IRModule
from passat.passmgr import (
    ModulePass,
    PassContext,
    PassDependencyError,
    PassInfo,
    PassInstrument,
    Sequential,
    UnknownPassError,
    module_pass,
    register_pass,
)

pytestmark = pytest.mark.usefixtures("forgotten")
RELAY = {"passmgr.resolve": "relay"}


class Log:
    """Passes that record that they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def make(self, name: str, opt_level: int = 0, required: tuple[str, ...] = (), preserves: str = "") -> ModulePass:
        def body(mod: IRModule, ctx: PassContext) -> IRModule:
            self.ran.append(name)
            return mod

        return module_pass(body, opt_level=opt_level, name=name, required=required, preserves=preserves or ())


class Count(PassInstrument):
    def __init__(self) -> None:
        self.names: list[str] = []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.names.append(info.name)


def test_enabled_members_run_in_list_order(mod: IRModule) -> None:
    log = Log()
    pipeline = Sequential([log.make("B", 2), log.make("A", 1), log.make("C", 3)])
    assert pipeline(mod) is mod
    assert log.ran == ["B", "A"]
    with PassContext(opt_level=3, disabled_pass=["A"]):
        pipeline(mod)
    with PassContext(opt_level=0, required_pass=["C"]):
        pipeline(mod)
    assert log.ran[2:] == ["B", "C", "C"]


def test_it_is_a_pass_which_instruments_see(mod: IRModule) -> None:
    log = Log()
    with PassContext(instruments=[count := Count()]):
        Sequential([log.make("A"), Sequential([log.make("B")], name="inner"), log.make("C")])(mod)
    assert count.names == ["sequential", "A", "inner", "B", "C"]


def test_nested_ones_are_gated_by_their_own_level_and_then_by_those_of_the_members(mod: IRModule) -> None:
    log = Log()
    inner = Sequential([log.make("A"), log.make("B", 2)], opt_level=1, name="inner")
    pipeline = Sequential([inner])
    with PassContext(opt_level=0):
        pipeline(mod)
        assert log.ran == []
        inner(mod)  # its own level does not count in a direct call
        assert log.ran == ["A"]
    with PassContext(opt_level=1):
        pipeline(mod)
    assert log.ran == ["A", "A"]


def test_own_requirements_matter_only_if_nested(mod: IRModule) -> None:
    log = Log()
    register_pass("R", log.make("R"))
    inner = Sequential([log.make("A")], name="inner", required=["R"])
    inner(mod)
    assert log.ran == ["A"]
    Sequential([inner])(mod)
    assert log.ran == ["A", "R", "A"]


def test_requirements_are_transitive_and_run_once(mod: IRModule) -> None:
    log = Log()
    register_pass("R1", log.make("R1", required=("R2", "R3")))
    register_pass("R2", log.make("R2", required=("R3",)))
    register_pass("R3", log.make("R3"))
    Sequential([log.make("A", required=("R1", "R3"), preserves="*"), log.make("B", required=("R1",))])(mod)
    assert log.ran == ["R3", "R2", "R1", "A", "B"]


def test_requirements_run_again_after_a_pass_that_keeps_nothing(mod: IRModule) -> None:
    log = Log()
    register_pass("R", log.make("R"))
    Sequential([log.make("A", required=("R",)), log.make("B", required=("R",))])(mod)
    assert log.ran == ["R", "A", "R", "B"]


def test_requirements_as_in_tvm(mod: IRModule) -> None:
    log = Log()
    register_pass("R1", log.make("R1", 9, required=("R2",)))
    register_pass("R2", log.make("R2"))
    pipeline = Sequential([log.make("A", required=("R1",), preserves="*"), log.make("B", required=("R1", "R1"), preserves="*")])
    with PassContext(disabled_pass=["R1"], config=RELAY, instruments=[count := Count()]):
        pipeline(mod)
    assert log.ran == ["R1", "A", "R1", "R1", "B"]
    assert count.names == ["sequential", *log.ran]


def test_requirements_run_although_disabled_or_above_the_level(mod: IRModule) -> None:
    log = Log()
    register_pass("R", log.make("R", 9))
    with PassContext(opt_level=0, disabled_pass=["R"]):
        Sequential([log.make("A", required=("R",)), log.make("R")])(mod)
    assert log.ran == ["R", "A"]


def test_a_required_pass_may_be_a_sequential(mod: IRModule) -> None:
    log = Log()
    register_pass("Fold", lambda: Sequential([log.make("X", 1), log.make("Y", 3, required=("Z",))], name="Fold"))
    register_pass("Z", log.make("Z"))
    pipeline = Sequential([log.make("A", required=("Fold",))])
    for config in ({}, RELAY):
        with PassContext(opt_level=1, config=config):
            pipeline(mod)
        with PassContext(opt_level=3, config=config):
            pipeline(mod)
        assert log.ran == ["X", "A", "X", "Z", "Y", "A"]
        log.ran.clear()


def test_an_unregistered_requirement_is_found_among_members(mod: IRModule) -> None:
    log = Log()
    a = log.make("A", preserves="*")
    Sequential([a, log.make("B", required=("A",))])(mod)
    assert log.ran == ["A", "B"]
    log.ran.clear()
    Sequential([log.make("B", required=("A",), preserves="*"), a])(mod)
    assert log.ran == ["A", "B", "A"]


def test_unknown_requirements_are_rejected_when_it_is_built() -> None:
    log = Log()
    with pytest.raises(UnknownPassError) as caught:
        Sequential([log.make("A", required=("InferTyp",))])
    assert str(caught.value) == ("the pass A requires InferTyp: there is no pass InferTyp; did you mean InferType?")


def test_as_in_tvm_unknown_requirements_are_found_when_it_runs(mod: IRModule) -> None:
    with PassContext(config=RELAY):
        pipeline = Sequential([Log().make("A", required=("NoSuch",))])
        with pytest.raises(UnknownPassError, match=r"^there is no pass NoSuch"):
            pipeline(mod)


def test_a_cycle_is_an_error_when_it_is_built_but_not_as_in_tvm(mod: IRModule) -> None:
    log = Log()
    register_pass("A", log.make("A", required=("B",)))
    register_pass("B", log.make("B", required=("A",)))
    with pytest.raises(PassDependencyError, match=r"^passes require each other in a cycle: A requires B requires A$"):
        Sequential([log.make("X", required=("A",))])
    with PassContext(config=RELAY):
        Sequential([log.make("X", required=("A",))])(mod)
    assert log.ran == ["A", "X"]


def test_a_registration_that_comes_later_counts(mod: IRModule) -> None:
    log = Log()
    register_pass("R", log.make("R"))
    pipeline = Sequential([log.make("A", required=("R",))])
    pipeline(mod)
    register_pass("S", log.make("S"))
    register_pass("R", log.make("R", required=("S",)), override=True)
    pipeline(mod)
    assert log.ran == ["R", "A", "S", "R", "A"]


def test_exceptions_name_the_pass_and_those_before(mod: IRModule) -> None:
    def fail(mod: IRModule, ctx: PassContext) -> IRModule:
        raise ValueError("broken")

    log = Log()
    bad = module_pass(fail, opt_level=0, name="Bad")
    pipeline = Sequential([log.make("A"), log.make("Off", 9), log.make("B"), Sequential([bad], name="inner"), log.make("C")])
    with pytest.raises(ValueError, match="broken") as caught:
        pipeline(mod)
    assert caught.value.__notes__ == [
        "in the module pass Bad",
        "in Bad, step 1 of 1 of inner; before it ran: nothing",
        "in inner, step 3 of 4 of sequential; before it ran: A, B",
    ]


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match=r"^passes must be a list of Pass objects.$"):
        Sequential("InferType")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match=r"passes must be a list of Pass objects. 3 is not one$"):
        Sequential([3])  # type: ignore[list-item]  # the mistake
    with pytest.raises(TypeError, match=r"is not one; did you mean Count\(\)\?"):
        Sequential([Count])  # type: ignore[list-item]  # the mistake
    with pytest.raises(TypeError, match=r"^Required is expected to be the type of list/tuple.$"):
        Sequential([], required="InferType")


def test_a_derived_pipeline_must_not_override_run() -> None:
    with pytest.raises(TypeError, match="Twice overrides run, which enclosing pipelines do not call; derive from ModulePass"):

        class Twice(Sequential):
            def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
                return super().run(super().run(mod, ctx), ctx)


def test_depth_is_limited() -> None:
    pipeline = Sequential([])
    for _ in range(99):
        pipeline = Sequential([pipeline])
    assert pipeline.depth == 100
    with pytest.raises(ValueError, match="pipelines are nested more than 100 levels deep"):
        Sequential([pipeline])


def test_an_endless_pipeline_as_in_tvm_is_an_error(mod: IRModule) -> None:
    log = Log()
    with PassContext(config=RELAY):
        inner = Sequential([log.make("A", required=("S",))], name="S")
        register_pass("S", inner)
        with pytest.raises(PassDependencyError, match="a pipeline contains itself by requirements of its members"):
            inner(mod)
    with pytest.raises(PassDependencyError, match=r"^passes require each other in a cycle: A requires S contains A$"):
        Sequential([inner])


def test_members_and_repr() -> None:
    log = Log()
    a, b = log.make("A"), log.make("B")
    pipeline = Sequential([a, b], 1, "mine", ["InferType"], True)
    assert pipeline.passes == pipeline.members == (a, b)
    info = pipeline.info
    assert (info.opt_level, info.name, info.required, info.traceable) == (1, "mine", ("InferType",), True)
    assert repr(pipeline) == "Run Sequential pass: mine at the optimization level 1. The passes will be executed are: [A B ]"
    assert repr(Sequential()) == "Run Sequential pass: sequential at the optimization level 0. The passes will be executed are: []"


def test_settings_of_a_context_may_change_between_runs(mod: IRModule) -> None:
    log = Log()
    pipeline = Sequential([log.make("A", 1), log.make("B", 2)])
    with PassContext() as ctx:
        for level, names in ((1, ["A"]), (2, ["A", "B"]), (0, []), (2, ["A", "B"])):
            ctx.opt_level = level
            pipeline(mod)
            assert log.ran == names
            log.ran.clear()
        ctx.disabled_pass.append("A")
        pipeline(mod)
    assert log.ran == ["B"]
