"""The diagnostics of a context: rendered after each pass, always restored, never lost in an exception."""

from collections.abc import Callable
from typing import Any

import pytest

from passat.ir.diagnostics import Diagnostic, DiagnosticContext, DiagnosticError, DiagnosticLevel, DiagnosticRenderer
from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.passmgr import Pass, PassContext, function_pass, module_pass, prim_func_pass

ERROR = Diagnostic(DiagnosticLevel.ERROR, None, "this is wrong")
WARNING = Diagnostic(DiagnosticLevel.WARNING, None, "this is odd")


def module_of(act: Callable[[PassContext], object]) -> Pass:
    def body(mod: IRModule, ctx: PassContext) -> IRModule:
        act(ctx)
        return mod

    return module_pass(body, opt_level=0, name="P")


def function_of(act: Callable[[PassContext], object]) -> Pass:
    def body(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        act(ctx)
        return func

    return function_pass(body, opt_level=0, name="P")


def prim_func_of(act: Callable[[PassContext], object]) -> Pass:
    def body(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        act(ctx)
        return func

    return prim_func_pass(body, opt_level=0, name="P")


KINDS = pytest.mark.parametrize("make", [module_of, function_of, prim_func_of])
Make = Callable[[Callable[[PassContext], object]], Pass]


@pytest.fixture
def both(mod: IRModule) -> IRModule:
    mod["kernel"] = PrimFunc([])
    return mod


def context(told: list[Diagnostic]) -> DiagnosticContext:
    return DiagnosticContext(None, DiagnosticRenderer(lambda diagnostics: told.extend(diagnostics.pending)))


@KINDS
def test_diagnostics_of_a_pass_are_rendered_after_it(make: Make, both: IRModule) -> None:
    told: list[Diagnostic] = []

    def report(ctx: PassContext) -> None:
        ctx.diag_ctx.emit(WARNING)  # type: ignore[union-attr]  # a DiagnosticContext
        assert told == []

    with PassContext(diag_ctx=context(told)):
        assert make(report)(both) is both
    assert told == [WARNING]


@KINDS
def test_errors_are_raised(make: Make, both: IRModule) -> None:
    told: list[Diagnostic] = []
    with PassContext(diag_ctx=context(told)), pytest.raises(DiagnosticError, match=r"^this is wrong") as caught:
        make(lambda ctx: ctx.diag_ctx.emit(ERROR))(both)  # type: ignore[union-attr]  # a DiagnosticContext
    assert told == [ERROR]
    assert len(caught.value.__notes__) == 1
    assert caught.value.__notes__[0].endswith("pass P")


@KINDS
def test_a_replaced_diagnostic_context_is_rendered_and_restored(make: Make, both: IRModule) -> None:
    told: list[Diagnostic] = []
    outer = DiagnosticContext(None)

    def replace(ctx: PassContext) -> None:
        ctx.diag_ctx = own = context(told)
        own.emit(WARNING)

    for given in (outer, None):
        told.clear()
        with PassContext(diag_ctx=given) as ctx:
            make(replace)(both)
            assert ctx.diag_ctx is given
        assert told == [WARNING]
    assert outer.diagnostics == []


@KINDS
def test_a_pass_that_raises(make: Make, both: IRModule) -> None:
    given = DiagnosticContext(None)

    def fail(ctx: PassContext) -> None:
        ctx.diag_ctx = context([])
        ctx.diag_ctx.emit(ERROR)
        raise ValueError("and then it failed")

    with PassContext(diag_ctx=given) as ctx:
        with pytest.raises(ValueError, match="and then it failed") as caught:
            make(fail)(both)
        assert ctx.diag_ctx is given
    assert caught.value.__notes__[-1] == "and before that it reported: this is wrong"


@KINDS
def test_without_diagnostics_nothing_happens(make: Make, both: IRModule) -> None:
    seen: list[Any] = []
    make(lambda ctx: seen.append(ctx.diag_ctx))(both)
    assert seen == [None]


def test_objects_without_render() -> None:
    with pytest.raises(TypeError, match=r"^diag_ctx must have a method render\(\); 3 has none$"):
        PassContext(diag_ctx=3)  # type: ignore[arg-type]  # the mistake
