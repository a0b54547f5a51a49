"""`testing.immutable_module`: passes that change the module that they get are caught, with all else as it was."""

import pytest

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import ImmutableModuleCheck, PassContext, PassInstrument, Sequential, module_pass
from passat.passmgr.inspection.checks import IMMUTABLE_MODULE_CHECK

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
        assert IMMUTABLE_MODULE_CHECK._running.modules == []
        with pytest.raises(RuntimeError, match=r"modified in pass: sneaky"):
            Sequential([Sequential([sneaky])])(mod)
    assert IMMUTABLE_MODULE_CHECK._running.modules == []


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


def test_the_option_is_a_bool() -> None:
    assert PassContext.list_configs()["testing.immutable_module"]["type"] == "bool"
    with pytest.raises(AttributeError, match=r"^expect config testing.immutable_module to have type bool but get 'yes'$"):
        PassContext(config={"testing.immutable_module": "yes"})
