"""Programs as text, on streams and in files."""

import io
from pathlib import Path

import numpy as np
import pytest

from passat.ir.equality import structural_equal
from passat.ir.expr import Constant, Function, Tuple, const, var
from passat.ir.module import IRModule
from passat.ir.text import parse
from passat.passmgr import (
    DumpIR,
    PassContext,
    PassPrintingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    PrintIR,
    PrintIRAfter,
    PrintIRBefore,
    Sequential,
    function_pass,
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


def test_a_failing_pass_shows_its_input(mod: IRModule) -> None:
    out = io.StringIO()
    with PassContext(instruments=[PrintIRAfter(file=out)]), pytest.raises(KeyError):
        Sequential([one, bad])(mod)
    assert heads(out.getvalue()) == ["*** IR Dump After one ***", "*** IR Dump After bad failed (KeyError); its input ***"]


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
    with pytest.raises(TypeError, match=r"^names must contain names, not 3$"):
        PrintIRBefore([3])  # type: ignore[list-item]  # that is the point


@module_pass(opt_level=0)
def same(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


@function_pass(opt_level=0, name="../odd name:\n*")
def add(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return Function(func.params, func.body + const([1.5, 2.5]))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_after_every_pass_that_parses_back(mod: IRModule, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "dump"
    with PassContext(instruments=[DumpIR(folder)]):
        result = Sequential([same, add])(mod)
    assert names(folder) == ["000_same.relay", "001_.._odd_name_.relay", "002_sequential.relay"]
    for name, expected in zip(names(folder), (mod, result, result), strict=True):
        assert structural_equal(parse((folder / name).read_text()), expected)


def test_only_changes_and_the_input(mod: IRModule, tmp_path: Path) -> None:
    with PassContext(instruments=[DumpIR(tmp_path, only_changes=True, initial=True)]):
        Sequential([same, add, same])(mod)
    assert names(tmp_path) == ["000_input.relay", "001_.._odd_name_.relay"]
    assert (tmp_path / "000_input.relay").read_text() == mod.astext()


def test_without_constants(mod: IRModule, tmp_path: Path) -> None:
    with PassContext(instruments=[DumpIR(tmp_path, show_meta_data=False)]):
        add(mod)
    assert "#[metadata]" not in (tmp_path / "000_.._odd_name_.relay").read_text()


def test_an_earlier_dump_is_not_replaced_unasked(mod: IRModule, tmp_path: Path) -> None:
    def dump(refresh: bool) -> None:
        with PassContext(instruments=[DumpIR(tmp_path, refresh)]):
            same(mod)

    (tmp_path / "000_notes.txt").write_text("mine")
    (tmp_path / "mine.relay").write_text("mine")
    dump(False)
    (tmp_path / "017_other.relay").write_text("old")
    with pytest.raises(FileExistsError, match="contains an earlier dump; empty it or use another folder"):
        dump(False)
    assert (tmp_path / "017_other.relay").read_text() == "old"
    dump(True)
    assert names(tmp_path) == ["000_notes.txt", "000_same.relay", "mine.relay"]


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        DumpIR(tmp_path / "file", refresh=True)


def test_counting_goes_on_in_the_next_context(mod: IRModule, tmp_path: Path) -> None:
    dump = DumpIR(str(tmp_path), only_changes=True, initial=True)
    for _ in range(2):
        with PassContext(instruments=[dump]):
            add(mod)
    assert names(tmp_path) == ["000_input.relay", "001_.._odd_name_.relay", "002_input.relay", "003_.._odd_name_.relay"]


def test_a_failed_write_leaves_no_files(mod: IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with PassContext(instruments=[DumpIR(tmp_path)]), pytest.raises(OSError, match="No space left"):
        same(mod)
    assert names(tmp_path) == []


def test_a_pass_that_raises_leaves_the_files_before_it(mod: IRModule, tmp_path: Path) -> None:
    with PassContext(instruments=[DumpIR(tmp_path)]), pytest.raises(KeyError):
        Sequential([same, bad, same])(mod)
    assert names(tmp_path) == ["000_same.relay"]


def test_long_names_are_cut(mod: IRModule, tmp_path: Path) -> None:
    named = module_pass(lambda mod, ctx: mod, opt_level=0, name="n" * 1000)
    with PassContext(instruments=[DumpIR(tmp_path)]):
        named(mod)
    assert names(tmp_path) == [f"000_{'n' * 100}.relay"]


def test_large_constants_are_stripped_when_asked(tmp_path: Path) -> None:
    large = np.arange(40_000, dtype=np.float32) + 2
    module = IRModule.from_expr(Function([], Tuple([const(large), const([1.5, 2.5]), const(np.zeros(40_000, np.float32))])))
    with PassContext(instruments=[DumpIR(tmp_path, strip_constants=True)]):
        same(module)
    text = (tmp_path / "000_same.relay").read_text()
    assert text.startswith("// constants above 64 KiB, 1 here, are replaced by their first element, repeated\n")
    assert len(text) < 2000
    body = parse(text)["main"].body
    assert isinstance(body, Tuple)
    kept = [field.data for field in body.fields if isinstance(field, Constant)]
    assert kept[0].uniform() == 2
    assert kept[0].shape == (40_000,)
    assert structural_equal(Constant(kept[1]), const([1.5, 2.5]))
    assert kept[2].uniform() == 0
