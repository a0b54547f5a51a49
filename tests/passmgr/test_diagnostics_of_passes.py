"""Diagnostics that passes emit: the context renders them after each pass, and an error ends the pipeline with all emitted diagnostics."""

import io

import pytest

from passat.ir.diagnostics import Diagnostic, DiagnosticContext, DiagnosticError, DiagnosticLevel, DiagnosticRenderer
from passat.ir.expr import Call, Function, const, var
from passat.ir.infer import InferError
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.passmgr import InferType, PassContext, Sequential, function_pass, module_pass


@module_pass(opt_level=0)
def complain(mod: IRModule, ctx: PassContext) -> IRModule:
    """Emits an error for each call."""
    assert isinstance(ctx.diag_ctx, DiagnosticContext)
    for node in post_order(mod["main"]):
        if isinstance(node, Call):
            ctx.diag_ctx.emit(Diagnostic.at(node, "there must be no calls"))
    return mod


@function_pass(opt_level=0)
def warn(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    """Emits a warning for each function."""
    assert isinstance(ctx.diag_ctx, DiagnosticContext)
    ctx.diag_ctx.emit(Diagnostic(DiagnosticLevel.WARNING, None, "a function"))
    return func


def test_errors_of_a_pass_end_the_pipeline(mod: IRModule) -> None:
    diagnostics = DiagnosticContext.default(mod)
    with PassContext(diag_ctx=diagnostics) as ctx, pytest.raises(DiagnosticError) as caught:
        Sequential([InferType(), complain, warn])(mod)
    assert str(caught.value) == "there must be no calls"
    assert caught.value.render().startswith(
        "error: there must be no calls\n  |\n  | add(%x, %x)\n  |   %x: Tensor[(2), float32]\n\nin the module pass complain"
    )
    assert len(diagnostics.diagnostics) == 1
    assert ctx.diag_ctx is diagnostics


def test_warnings_are_rendered_once_after_each_pass(mod: IRModule) -> None:
    told = io.StringIO()
    with PassContext(diag_ctx=DiagnosticContext(mod, DiagnosticRenderer(stream=told))):
        assert Sequential([warn, InferType(), warn])(mod) is mod
    assert told.getvalue() == "warning: a function\n" * 2


def test_diagnostics_before_an_exception_are_attached_to_it(mod: IRModule) -> None:
    @module_pass(opt_level=0)
    def crash(mod: IRModule, ctx: PassContext) -> IRModule:
        complain.transform_module(mod, ctx)
        raise ZeroDivisionError

    with PassContext(diag_ctx=DiagnosticContext.default(mod)), pytest.raises(ZeroDivisionError) as caught:
        crash(mod)
    assert any("there must be no calls" in note for note in caught.value.__notes__)


def test_errors_of_type_inference_name_the_pass_and_all_places() -> None:
    x = var("x", shape=(2,))
    bad = [x + const([1.0, 2.0, 3.0]), x.astype("int8") + x]
    module = IRModule({name: Function([x], body) for name, body in zip(("main", "other"), bad, strict=True)})
    with pytest.raises(InferError) as caught:
        Sequential([InferType()])(module)
    assert len(caught.value.diagnostics) == 2
    text = caught.value.render()
    assert "= note: in the function @main\n\nerror: " in text
    assert "= note: in the function @other" in text
    assert text.split("\n\n")[-1].startswith("in the module pass InferType")
