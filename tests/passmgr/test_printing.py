"""Printing of programs: the pass, TVM's instruments, and before and after passes by name and function."""

import io

import pytest

from passat.ir.expr import Function, const, var
from passat.ir.module import IRModule
from passat.passmgr import (
    PassContext,
    PassPrintingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    PrintIR,
    PrintIRAfter,
    PrintIRBefore,
    Sequential,
    get_pass,
    module_pass,
    parse_pipeline,
    pipeline_text,
)
from passat.passmgr.instruments import PassInstrument

MAIN = "def @main(%x: Tensor[(2), float32]) {\n  add(%x, %x)\n}\n"


@module_pass(opt_level=0)
def one(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


@module_pass(opt_level=0)
def fold_it(mod: IRModule, ctx: PassContext) -> IRModule:
    x = var("x", shape=(2,))
    return IRModule({"main": Function([x], x), "helper": Function([x], x)})


@module_pass(opt_level=0)
def bad(mod: IRModule, ctx: PassContext) -> IRModule:
    raise KeyError("bad")


def test_print_ir_is_a_pass_of_level_0(mod: IRModule, capsys: pytest.CaptureFixture[str]) -> None:
    printing = PrintIR("here")
    assert printing(mod) is mod
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f'PrintIR(here):\n#[version = "0.0.5"]\n{MAIN}'
    assert (printing.info.name, printing.info.opt_level, printing.info.required) == ("PrintIR", 0, ())
    assert str(printing) == "Run Module pass: PrintIR at the optimization level 0"


def test_print_ir_with_metadata(capsys: pytest.CaptureFixture[str]) -> None:
    x = var("x", shape=(2,))
    mod = IRModule.from_expr(Function([x], x + const([1.0, 2.0])))
    PrintIR()(mod)
    assert "#[metadata]" not in capsys.readouterr().err
    PrintIR("", True)(mod)
    assert capsys.readouterr().err == f"PrintIR():\n{mod.astext()}"


def test_print_ir_in_pipeline_text(mod: IRModule, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = parse_pipeline('PrintIR{header="two words"},PrintIR')
    assert pipeline_text(pipeline) == 'PrintIR{header="two words"},PrintIR'
    pipeline(mod)
    assert [line for line in capsys.readouterr().err.split("\n") if "PrintIR" in line] == ["PrintIR(two words):", "PrintIR():"]
    assert isinstance(get_pass("transform.PrintIR"), PrintIR)


def test_print_before_and_after_all(mod: IRModule, capsys: pytest.CaptureFixture[str]) -> None:
    with PassContext(instruments=[PrintBeforeAll(), PrintAfterAll()]):
        one(mod)
    assert capsys.readouterr().out == (
        f"Before Running Pass: {one.info}\n{MAIN.rstrip()}\nAfter Running Pass: {one.info}\n{MAIN.rstrip()}\n"
    )


def test_pass_printing_instrument(mod: IRModule, capsys: pytest.CaptureFixture[str]) -> None:
    with PassContext(instruments=[PassPrintingInstrument(["one"], ["fold_it"])]):
        Sequential([one, fold_it, one])(mod)
    out = capsys.readouterr().out
    assert out.startswith(f"Print IR before: one\n{mod}\n\n\nPrint IR after: fold_it\ndef @main")
    assert [line for line in out.split("\n") if "Print" in line] == [
        "Print IR before: one",
        "Print IR after: fold_it",
        "Print IR before: one",
    ]


def heads(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("***")]


def run(mod: IRModule, *instruments: PassInstrument) -> None:
    with PassContext(instruments=instruments):
        Sequential([one, fold_it])(mod)


def test_before_and_after(mod: IRModule) -> None:
    out = io.StringIO()
    run(mod, PrintIRBefore("fold_it", file=out), PrintIRAfter(["o?e"], file=out))
    assert out.getvalue() == f"*** IR Dump After one ***\n{mod}\n*** IR Dump Before fold_it ***\n{mod}\n"


def test_all_passes_and_pipelines_by_their_exact_names(mod: IRModule, capsys: pytest.CaptureFixture[str]) -> None:
    run(mod, PrintIRBefore())
    assert heads(capsys.readouterr().err) == ["*** IR Dump Before one ***", "*** IR Dump Before fold_it ***"]
    run(mod, PrintIRBefore(["s*", "sequential"]), PrintIRAfter("*"))
    assert heads(capsys.readouterr().err) == [
        "*** IR Dump Before sequential ***",
        "*** IR Dump After one ***",
        "*** IR Dump After fold_it ***",
    ]


def test_functions_and_lines(mod: IRModule) -> None:
    out = io.StringIO()
    run(mod, PrintIRAfter(functions="help*", file=out, max_lines=2))
    assert out.getvalue() == (
        "*** IR Dump After fold_it on @helper ***\ndef @helper(%x: Tensor[(2), float32]) {\n  %x\n... (1 more lines left out)\n"
    )


def test_a_pass_that_raises_shows_what_it_got(mod: IRModule) -> None:
    out = io.StringIO()
    with PassContext(instruments=[PrintIRAfter(file=out)]), pytest.raises(KeyError):
        Sequential([one, bad])(mod)
    assert heads(out.getvalue()) == ["*** IR Dump After one ***", "*** IR Dump After bad failed (KeyError); what it got ***"]


def test_names_that_fitted_nothing(mod: IRModule) -> None:
    printing = PrintIRAfter(["one", "Nope", "fold*"], file=io.StringIO())
    run(mod, printing)
    assert printing.names.unused == ["Nope"]


def test_the_error_stream_is_that_of_the_moment(mod: IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    printing = PrintIRAfter("one")
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    run(mod, printing)
    assert heads(out.getvalue()) == ["*** IR Dump After one ***"]


def test_names_that_are_none() -> None:
    with pytest.raises(TypeError, match=r"^names are strings, not 3$"):
        PrintIRBefore([3])  # type: ignore[list-item]  # that is the point
