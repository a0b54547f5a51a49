"""The behavior of TVM's pass infrastructure, row by row, where no other test file covers it; and the promises of
docs/tvm-differences.md."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from passat.ir.expr import Function, var
from passat.ir.module import IRModule
from passat.passmgr import (
    ModulePass,
    PassContext,
    PassInfo,
    PassInstrument,
    Sequential,
    function_pass,
    get_pass,
    module_pass,
    pass_instrument,
    register_option,
    register_pass,
)

pytestmark = pytest.mark.usefixtures("forgotten")
RELAY = {"passmgr.resolve": "relay"}
DIFFERENCES = Path(__file__).resolve().parents[2] / "docs" / "tvm-differences.md"


@pytest.fixture
def log() -> list[str]:
    return []


def make(name: str, log: list[str], opt_level: int = 0, required: Iterable[str] = ()) -> ModulePass:
    def body(mod: IRModule, ctx: PassContext) -> IRModule:
        log.append(name)
        return mod

    return module_pass(body, opt_level=opt_level, name=name, required=list(required))


@pass_instrument
class Calls(PassInstrument):
    """Records every call around a pass."""

    def __init__(self, log: list[str], veto: str = "") -> None:
        self.log, self.veto = log, veto

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        self.log.append(f"should {info.name}")
        return info.name != self.veto

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.log.append(f"before {info.name}")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self.log.append(f"after {info.name}")


@pytest.mark.parametrize("nothing", [None, [], (), {}, ""])
def test_falsy_arguments_of_a_context_are_empty(nothing: object) -> None:
    ctx = PassContext(2, nothing, nothing, nothing, nothing)  # type: ignore[arg-type]  # each is falsy, which is the point
    assert (ctx.required_pass, ctx.disabled_pass, ctx.config, bool(ctx.instruments)) == ([], [], {}, False)


def test_lists_of_a_context_are_copies() -> None:
    names = ["A"]
    ctx = PassContext(disabled_pass=names)
    names.append("B")
    assert ctx.disabled_pass == ["A"]


def test_instruments_of_the_default_context_stay(log: list[str], mod: IRModule) -> None:
    default = PassContext.current()
    default.override_instruments([Calls(log)])
    try:
        with PassContext():
            make("Inside", [])(mod)
        make("P", [])(mod)
    finally:
        default.override_instruments([])
    assert log == ["should P", "before P", "after P"]


def test_a_pass_receives_the_context_of_its_call(mod: IRModule) -> None:
    seen: list[object] = []

    @module_pass(opt_level=0)
    def look(mod: IRModule, ctx: PassContext) -> IRModule:
        seen.extend((ctx, PassContext.current()))
        return mod

    with PassContext() as outer, PassContext(opt_level=3) as inner:
        Sequential([look])(mod)
    assert seen == [inner, inner]
    assert outer not in seen


def test_config_is_read_by_key_and_with_a_default() -> None:
    register_option("tvm.rows", int, 7)
    with pytest.raises(ValueError, match="is already registered"):
        register_option("tvm.rows", int)
    ctx = PassContext(config={"tvm.rows": 3})
    assert (ctx.config["tvm.rows"], ctx.get_config("tvm.rows", 9), PassContext().get_config("tvm.rows", 9)) == (3, 3, 9)
    assert PassContext().get_config("tvm.rows") == 7
    assert PassContext.list_configs()["tvm.rows"]["type"] == "int"


def test_names_of_passes_stand_in_their_texts() -> None:
    for pass_ in (make("Mine", []), Sequential([], name="Mine"), get_pass("InferType")):
        assert pass_.info.name in str(pass_)
        assert str(pass_) == repr(pass_)


def test_defaults_of_a_sequential() -> None:
    info = Sequential().info
    assert (info.name, info.opt_level, info.required, info.traceable) == ("sequential", 0, (), False)
    assert Sequential(None).passes == Sequential([]).passes == Sequential(()).passes == ()


def test_a_sequential_counts_itself(log: list[str], mod: IRModule) -> None:
    # TVM's test of instruments counts 6 passes: the five, and the Sequential.
    names = ["A", "B", "C", "D", "E"]
    with PassContext(instruments=[Calls(log)]):
        Sequential([make(name, []) for name in names])(mod)
    assert [line for line in log if line.startswith("before")] == ["before sequential", *(f"before {name}" for name in names)]


def test_its_own_level_does_not_count_when_called_but_those_of_the_members_do(log: list[str], mod: IRModule) -> None:
    with PassContext(opt_level=1, disabled_pass=["outer"]):
        Sequential([make("A", log, 1), make("B", log, 2)], opt_level=9, name="outer")(mod)
    assert log == ["A"]


def test_a_required_pass_names_nested_pipelines_too(log: list[str], mod: IRModule) -> None:
    pipeline = Sequential([Sequential([make("A", log, 1), make("B", log, 3)], opt_level=3, name="inner")])
    with PassContext(opt_level=1, required_pass=["inner"]):
        pipeline(mod)
    assert log == ["A"]


@pytest.mark.parametrize("config", [{}, RELAY])
def test_instruments_around_required_passes(config: dict[str, str], log: list[str], mod: IRModule) -> None:
    register_pass("R", make("R", log))
    with PassContext(instruments=[Calls(log, veto="R")], config=config):
        Sequential([make("P", log, required=["R"])])(mod)
    assert log == [
        *("should sequential", "before sequential", "should R"),  # vetoed, which does not keep P from running
        *("should P", "before P", "P", "after P", "after sequential"),
    ]


def test_as_in_tvm_each_call_of_a_required_pass_is_a_new_one(mod: IRModule) -> None:
    made: list[ModulePass] = []

    def factory() -> ModulePass:
        made.append(make("R", []))
        return made[-1]

    register_pass("R", factory)
    with PassContext(config=RELAY):
        Sequential([make("P", [], required=["R", "R"]), make("Q", [], required=["R"])])(mod)
    assert len(made) == 3


@pytest.mark.parametrize("config", [{}, RELAY])
def test_requirements_of_disabled_members_do_not_run(config: dict[str, str], log: list[str], mod: IRModule) -> None:
    register_pass("R", make("R", log))
    with PassContext(opt_level=1, disabled_pass=["Q"], config=config):
        Sequential([make("P", log, 2, ["R"]), make("Q", log, 0, ["R"])])(mod)
    assert log == []


def test_a_missing_should_run_means_yes_and_a_class_need_not_define_anything(log: list[str], mod: IRModule) -> None:
    @pass_instrument
    class Empty:
        pass

    with PassContext(instruments=[Empty()]):  # type: ignore[list-item]  # for type checkers the class is unchanged
        make("P", log)(mod)
    assert log == ["P"]


def test_run_after_pass_gets_the_module_that_came_out(mod: IRModule) -> None:
    seen: list[IRModule] = []

    class After(PassInstrument):
        def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
            seen.append(mod)

        def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
            seen.append(mod)

    new = IRModule()
    with PassContext(instruments=[After()]):
        module_pass(lambda mod, ctx: new, opt_level=0, name="New")(mod)
    assert seen == [mod, new]


def test_traceable_is_taken_everywhere() -> None:
    assert module_pass(lambda mod, ctx: mod, 0, "P", [], True).info.traceable
    assert function_pass(lambda func, mod, ctx: func, 0, "P", [], True).info.traceable
    assert Sequential([], 0, "P", [], True).info.traceable
    assert PassInfo(0, "P", [], True).traceable


def test_a_function_pass_counts_once_for_no_types_are_inferred_after_it(log: list[str], mod: IRModule) -> None:
    with PassContext(instruments=[Calls(log)]):
        function_pass(lambda func, mod, ctx: func.with_attr("Inline", 1), opt_level=0, name="P")(mod)
    assert log == ["should P", "before P", "after P"]


def test_functions_are_visited_in_the_order_in_which_they_were_put_in(log: list[str]) -> None:
    x = var("x", shape=(2,))
    mod = IRModule({name: Function([x], x, attrs={"name": name}) for name in ("z", "a", "m")})

    @function_pass(opt_level=0)
    def visit(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        log.append(str(func.attrs["name"]))
        return func

    visit(mod)
    assert log == ["z", "a", "m"]


def test_every_row_of_the_differences_has_a_reason_and_a_switch() -> None:
    differences = DIFFERENCES.read_text().partition("## Tests of TVM that fail")[0]
    rows = [line for line in differences.splitlines() if line.startswith("| ")]
    assert len(rows) > 20
    for row in rows:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert len(cells) == 4, row
        assert all(cells), row


def test_config_options_that_the_differences_name_exist() -> None:
    named = set(re.findall(r"`(passmgr\.\w+|testing\.\w+)", DIFFERENCES.read_text()))
    assert "passmgr.resolve" in named
    assert named <= set(PassContext.list_configs())


def test_a_module_pass_infers_no_types_afterwards(mod: IRModule) -> None:
    x = var("x", shape=(2,))
    result = module_pass(lambda mod, ctx: IRModule.from_expr(Function([x], x + x)), opt_level=0, name="P")(mod)
    with pytest.raises(ValueError, match="has not been inferred yet"):
        result["main"].body.checked_type  # reading it raises


def test_the_tuner_has_no_arguments_in_a_context() -> None:
    for name in ("trace", "trace_stack", "make_traceable", "num_evals", "tuning_api_database"):
        with pytest.raises(TypeError, match=name):
            PassContext(**{name: None})  # type: ignore[arg-type]  # arguments that do not exist


def test_a_derived_instrument_may_initialize_its_base_by_name(log: list[str], mod: IRModule) -> None:
    class Derived(PassInstrument):
        def __init__(self) -> None:
            PassInstrument.__init__(self)

        def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
            log.append(info.name)

    with PassContext(instruments=[Derived()]):
        make("P", [])(mod)
    assert log == ["P"]
