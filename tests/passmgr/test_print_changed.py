"""PrintIRChanged: prints what each pass changed, and nothing else."""

import io
import threading
from typing import Literal

import pytest

from passat.ir.expr import Function, var
from passat.ir.module import IRModule
from passat.ir.text import parse
from passat.passmgr import InferType, PassContext, PrintIRChanged, Sequential, function_pass, module_pass
from tests.patience import PATIENCE


@module_pass(opt_level=0)
def same(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


@function_pass(opt_level=0)
def rebuild(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return Function(func.params, func.body, func.ret_type, func.type_params, func.attrs)


@function_pass(opt_level=0)
def negate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return Function(func.params, -func.body) if not func.attrs else func


@module_pass(opt_level=0)
def helper(mod: IRModule, ctx: PassContext) -> IRModule:
    x = var("x", shape=(2,))
    result = mod.shallow_copy()
    result["helper"] = Function([x], x)
    return result


@module_pass(opt_level=0)
def bad(mod: IRModule, ctx: PassContext) -> IRModule:
    raise KeyError("bad")


@module_pass(opt_level=0)
def busy(mod: IRModule, ctx: PassContext) -> IRModule:
    return helper(negate(helper(mod)))


def heads(text: str) -> list[str]:
    return [line.removeprefix("*** IR Dump ").removesuffix(" ***") for line in text.split("\n") if line.startswith("*** ")]


def test_changes_and_no_changes(mod: IRModule) -> None:
    out = io.StringIO()
    with PassContext(instruments=[PrintIRChanged(file=out)]):
        Sequential([InferType(), same, negate, rebuild, helper])(mod)
    assert heads(out.getvalue()) == [
        "After InferType omitted because no change",
        "After same omitted because no change",
        "After negate on @main",
        "After rebuild omitted because no change",
        "After helper on @helper (added)",
    ]
    assert "-  add(%x, %x) /* ty=Tensor[(2), float32] */\n" in out.getvalue()
    assert "+  negative(%0)\n" in out.getvalue()


def test_quiet(mod: IRModule) -> None:
    out = io.StringIO()
    with PassContext(instruments=[PrintIRChanged(file=out, quiet=True)]):
        Sequential([same, negate, rebuild])(mod)
    assert heads(out.getvalue()) == ["After negate on @main"]


def test_changes_by_callees_are_not_blamed_on_the_pass(mod: IRModule) -> None:
    @module_pass(opt_level=0)
    def both(mod: IRModule, ctx: PassContext) -> IRModule:
        changed = IRModule({"main": negate.transform_function(mod["main"], mod, ctx)})
        return rebuild(helper(changed))

    out = io.StringIO()
    with PassContext(instruments=[PrintIRChanged(file=out)]):
        Sequential([both])(mod)
    assert heads(out.getvalue()) == [
        "After both up to helper on @main",
        "After helper on @helper (added)",
        "After rebuild omitted because no change",
        "After both omitted because no change",
    ]


@pytest.mark.parametrize(("mode", "sign"), [("diff", "+"), ("cdiff", "\x1b[32m+")])
def test_diffs_with_and_without_colors(mode: Literal["diff", "cdiff"], sign: str, mod: IRModule) -> None:
    out = io.StringIO()
    with PassContext(instruments=[PrintIRChanged(file=out, mode=mode, context=0)]):
        negate(mod)
    assert f"\n{sign}  negative(%0)" in out.getvalue()


def test_by_names() -> None:
    mod = parse("def @main(%x: int8) { (%x, %x) } def @other(%x: int8) { (%x, %x) }")
    out = io.StringIO()

    @function_pass(opt_level=0)
    def first(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return Function(func.params, func.params[0])

    with PassContext(instruments=[PrintIRChanged("f*", file=out)]):
        Sequential([same, first])(mod)
    assert heads(out.getvalue()) == ["After first on @main, @other"]


def test_functions_that_are_removed(mod: IRModule) -> None:
    @module_pass(opt_level=0)
    def empty(mod: IRModule, ctx: PassContext) -> IRModule:
        return IRModule()

    out = io.StringIO()
    with PassContext(instruments=[PrintIRChanged(file=out)]):
        empty(mod)
    assert heads(out.getvalue()) == ["After empty on @main (removed)"]


def test_a_pass_that_changes_its_input_is_reported_too(mod: IRModule) -> None:
    @module_pass(opt_level=0)
    def sneaky(mod: IRModule, ctx: PassContext) -> IRModule:
        del mod["main"]
        return mod

    out = io.StringIO()
    with PassContext(instruments=[PrintIRChanged(file=out)]):
        sneaky(mod)
    assert heads(out.getvalue()) == ["After sneaky on @main (removed)"]


def test_nothing_is_left_after_an_exception(mod: IRModule) -> None:
    out = io.StringIO()
    printing = PrintIRChanged(file=out, quiet=True)
    with PassContext(instruments=[printing]):
        with pytest.raises(KeyError):
            Sequential([negate, bad])(mod)
        helper(mod)
    assert heads(out.getvalue()) == ["After negate on @main", "After helper on @helper (added)"]
    assert printing._running.open == []


def test_put_in_while_a_pass_runs(mod: IRModule) -> None:
    out = io.StringIO()

    @module_pass(opt_level=0)
    def swap(mod: IRModule, ctx: PassContext) -> IRModule:
        ctx.override_instruments([PrintIRChanged(file=out)])
        return negate(mod)

    with PassContext():
        swap(mod)
    assert heads(out.getvalue()) == ["After negate on @main"]


def test_threads_do_not_mix(mod: IRModule) -> None:
    out = io.StringIO()
    printing = PrintIRChanged(file=out, quiet=True)
    inside, go_on = threading.Event(), threading.Event()

    @module_pass(opt_level=0)
    def waiting(mod: IRModule, ctx: PassContext) -> IRModule:
        inside.set()
        assert go_on.wait(PATIENCE)
        return negate(mod)

    def work() -> None:
        with PassContext(instruments=[printing]):
            waiting(mod)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(PATIENCE)
    with PassContext(instruments=[printing]):
        helper(mod)
    go_on.set()
    thread.join()
    assert heads(out.getvalue()) == ["After helper on @helper (added)", "After negate on @main"]


def test_modes_that_are_none() -> None:
    with pytest.raises(ValueError, match=r"^mode must be one of diff, cdiff, not 'all'$"):
        PrintIRChanged(mode="all")  # type: ignore[arg-type]  # that is the point


def test_nested_passes_are_reported_in_order(mod: IRModule) -> None:
    out = io.StringIO()
    with PassContext(instruments=[PrintIRChanged(file=out, quiet=True)]):
        busy(mod)
    assert heads(out.getvalue()) == ["After helper on @helper (added)", "After negate on @main, @helper", "After helper on @helper"]
