"""Checks after every pass: no pass changes its input module, and its result is well-formed."""

import pickle

import pytest
from hypothesis import given, settings

from passat.ir.analysis import Flaw
from passat.ir.expr import Expr, Function, GlobalVar, Let, Tuple, Var, var
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.traverse import post_order
from passat.ir.types import TensorType
from passat.passmgr import (
    BrokenModuleError,
    ImmutableModuleCheck,
    Pass,
    PassContext,
    PassInstrument,
    PassProgress,
    Sequential,
    VerifyEach,
    function_pass,
    module_pass,
)
from passat.passmgr.inspection.checks import FLAWS_SHOWN, IMMUTABLE_MODULE_CHECK
from tests.share import share
from tests.strategies import modules

ON = {"testing.immutable_module": True}


@module_pass(opt_level=0)
def same(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


@module_pass(opt_level=0)
def negate(mod: IRModule, ctx: PassContext) -> IRModule:
    func = mod["main"]
    return IRModule({"main": Function(func.params, -func.body)})


@module_pass(opt_level=0)
def sneaky(mod: IRModule, ctx: PassContext) -> IRModule:
    func = mod["main"]
    mod["main"] = Function(func.params, -func.body)
    return mod


@module_pass(opt_level=0)
def changes_attrs(mod: IRModule, ctx: PassContext) -> IRModule:
    mod.attrs["note"] = "changed"
    return mod


@module_pass(opt_level=0)
def bad(mod: IRModule, ctx: PassContext) -> IRModule:
    raise KeyError("bad")


def test_a_pass_that_changes_its_input(mod: IRModule) -> None:
    with PassContext(config=ON), pytest.raises(RuntimeError, match=r"^Immutable module has been modified in pass: sneaky"):
        Sequential([same, negate, sneaky])(mod)


def test_attributes_count_too(mod: IRModule) -> None:
    with PassContext(config=ON), pytest.raises(RuntimeError, match=r"modified in pass: changes_attrs$"):
        changes_attrs(mod)


def test_passes_that_return_another_module_are_fine(mod: IRModule) -> None:
    with PassContext(config=ON) as ctx:
        result = Sequential([same, negate, Sequential([negate])])(mod)
    assert result is not mod
    assert ctx.instruments == ()


@pytest.mark.parametrize("config", [{}, {"testing.immutable_module": False}])
def test_off_it_costs_nothing(config: dict[str, bool], mod: IRModule) -> None:
    with PassContext(config=config) as ctx:
        assert ctx.hooks is None
        sneaky(mod)


def test_beside_other_instruments(mod: IRModule) -> None:
    seen: list[str] = []

    class Seen(PassInstrument):
        def run_after_pass(self, mod: IRModule, info: object) -> None:
            seen.append("after")

    with PassContext(config=ON, instruments=[Seen()]) as ctx:
        assert len(ctx.instruments) == 1
        with pytest.raises(RuntimeError):
            sneaky(mod)
        ctx.override_instruments(None)
        with pytest.raises(RuntimeError):
            sneaky(mod)
    assert seen == ["after"]


def test_a_pass_that_replaces_the_instruments_is_checked(mod: IRModule) -> None:
    @module_pass(opt_level=0)
    def swap(mod: IRModule, ctx: PassContext) -> IRModule:
        ctx.override_instruments([PassInstrument()])
        return sneaky.transform_module(mod, ctx)

    with PassContext(config=ON), pytest.raises(RuntimeError, match=r"modified in pass: swap$"):
        swap(mod)


def test_nothing_is_left_after_an_exception(mod: IRModule) -> None:
    with PassContext(config=ON):
        with pytest.raises(KeyError):
            Sequential([negate, bad])(mod)
        assert IMMUTABLE_MODULE_CHECK._running.open == []
        with pytest.raises(RuntimeError, match=r"modified in pass: sneaky"):
            Sequential([Sequential([sneaky])])(mod)
    assert IMMUTABLE_MODULE_CHECK._running.open == []


def test_inherited(mod: IRModule) -> None:
    with PassContext(config=ON):
        with PassContext(inherit=True), pytest.raises(RuntimeError, match=r"modified in pass: sneaky"):
            sneaky(mod)
        with PassContext(inherit=True, config={"testing.immutable_module": False}):
            sneaky(mod)
        with PassContext():
            sneaky(mod)


def test_as_an_instrument_of_ones_own(mod: IRModule) -> None:
    with PassContext(instruments=[ImmutableModuleCheck()]), pytest.raises(RuntimeError, match=r"modified in pass: sneaky"):
        sneaky(mod)


def test_a_pass_that_enters_its_context_again(mod: IRModule) -> None:
    @module_pass(opt_level=0)
    def guilty(mod: IRModule, ctx: PassContext) -> IRModule:
        with ctx:
            same(mod)
        mod["main"] = Function(mod["main"].params, -mod["main"].body)
        return mod

    events: list[str] = []
    instruments: list[PassInstrument] = [PassProgress(lambda event: events.append(str(event))), ImmutableModuleCheck()]
    with PassContext(instruments=instruments), pytest.raises(RuntimeError, match=r"modified in pass: guilty"):
        guilty(mod)
    assert events == ["running guilty", "running same", "finished same", "finished guilty"]


def test_the_option_is_a_bool() -> None:
    assert PassContext.list_configs()["testing.immutable_module"]["type"] == "bool"
    with pytest.raises(AttributeError, match=r"^expect config testing.immutable_module to have type bool but get 'yes'$"):
        PassContext(config={"testing.immutable_module": "yes"})


y = var("y", shape=(2,))


def body_becomes(body: Expr, name: str = "guilty") -> Pass:
    @function_pass(opt_level=0, name=name)
    def changing(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return Function(func.params, body)

    return changing


def verify(mod: IRModule, body: Expr, types: bool = True) -> IRModule:
    with PassContext(instruments=[VerifyEach(types)]):
        return Sequential([same, body_becomes(body), same])(mod)


def test_a_sound_pipeline_passes(mod: IRModule) -> None:
    x = mod["main"].params[0]
    result = verify(mod, -x)
    assert result["main"].body._checked_type is None
    assert mod["main"].body._checked_type is None


twice = Var("a")


@pytest.mark.parametrize(
    ("body", "sentence", "shown"),
    [
        (y + y, "the variable %y is free", "add(%y, %y)"),
        (GlobalVar("nowhere")(), "the module has no function @nowhere", "@nowhere()"),
        (Let(twice, Let(twice, y, twice), twice), "the variable %a is bound more than once", "let %a ="),
    ],
)
def test_wrong_bindings(body: Expr, sentence: str, shown: str, mod: IRModule) -> None:
    with pytest.raises(BrokenModuleError) as caught:
        verify(mod, body)
    error = caught.value
    assert error.args[0] == f"the pass guilty broke the module: in @main: {sentence}"
    assert str(error).startswith(f"{error.args[0]}\n    {shown}")
    assert error.pass_name == "guilty"
    assert error.flaws[0].function == "main"
    assert error.diagnostics[0].message == f"in @main: {sentence}"


def test_types_that_contradict(mod: IRModule) -> None:
    x = mod["main"].params[0]
    body = -x
    body._checked_type = TensorType((3,))
    with pytest.raises(BrokenModuleError, match=r"the pass guilty broke the module: in @main: the type is Tensor\[\(3,\)"):
        verify(mod, body)
    assert verify(mod, body, types=False)["main"].body is body


def test_operators_that_do_not_take_their_operands(mod: IRModule) -> None:
    x = mod["main"].params[0]
    with pytest.raises(BrokenModuleError, match=r"broke the module: in @main: .*broadcast") as caught:
        verify(mod, get_op("concatenate")(Tuple([x, x]), axis=0) + x)
    assert "    add(" in str(caught.value)


def test_the_input_is_checked_too(mod: IRModule) -> None:
    broken = IRModule({"main": Function([], y)})
    with (
        PassContext(instruments=[VerifyEach()]),
        pytest.raises(BrokenModuleError, match=r"^the input module of the pass sequential is broken: in @main: the variable %y is free"),
    ):
        Sequential([same])(broken)


def test_the_inner_pass_is_the_guilty_one_and_not_the_one_around_it(mod: IRModule) -> None:
    with (
        PassContext(instruments=[VerifyEach()]),
        pytest.raises(BrokenModuleError, match=r"^the pass inner broke the module"),
    ):
        Sequential([Sequential([same, body_becomes(y, "inner")])])(mod)


def test_many_flaws_are_counted(mod: IRModule) -> None:
    body: Expr = mod["main"].params[0]
    for i in range(FLAWS_SHOWN + 3):
        body = body + var(f"v{i}", shape=(2,))
    with pytest.raises(BrokenModuleError) as caught:
        verify(mod, body)
    assert str(caught.value).endswith("\n... and 3 more")
    assert len(caught.value.flaws) == FLAWS_SHOWN + 3
    assert str(caught.value).count("is free") == FLAWS_SHOWN


def test_functions_that_did_not_change_are_not_checked_again(mod: IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    from passat.passmgr.inspection import checks

    checked: list[IRModule] = []

    def check(mod: IRModule) -> list[Flaw]:
        checked.append(mod)
        return []

    monkeypatch.setattr(checks, "binding_flaws", check)
    verifying = VerifyEach()
    with PassContext(instruments=[verifying]):
        Sequential([same, body_becomes(y), same])(mod)
        same(mod)
    assert len(checked) == 3
    assert verifying._sound.functions is None


def test_errors_travel_between_processes(mod: IRModule) -> None:
    with pytest.raises(BrokenModuleError) as caught:
        verify(mod, y)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.pass_name) == (BrokenModuleError, str(caught.value), "guilty")


@settings(max_examples=share(20, 40))
@given(modules())
def test_random_modules_are_sound_and_stay_as_they_are(module: IRModule) -> None:
    def types() -> list[object]:
        return [node._checked_type for func in module.functions.values() for node in post_order(func)]

    before = types()
    with PassContext(instruments=[VerifyEach()]):
        same(module)
    assert types() == before
