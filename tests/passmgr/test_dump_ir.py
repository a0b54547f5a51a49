"""DumpIR: a file after every pass, which can be read back, and nothing overwritten unasked."""

from pathlib import Path

import numpy as np
import pytest

from passat.ir.equality import structural_equal
from passat.ir.expr import Constant, Function, Tuple, const
from passat.ir.module import IRModule
from passat.ir.text import parse
from passat.passmgr import DumpIR, PassContext, Sequential, function_pass, module_pass


@module_pass(opt_level=0)
def same(mod: IRModule, ctx: PassContext) -> IRModule:
    return mod


@function_pass(opt_level=0, name="../odd name:\n*")
def add(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return Function(func.params, func.body + const([1.5, 2.5]))


@module_pass(opt_level=0)
def bad(mod: IRModule, ctx: PassContext) -> IRModule:
    raise KeyError("bad")


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
    with pytest.raises(FileExistsError, match="holds the files of an earlier dump; empty it, or name another folder"):
        dump(False)
    assert (tmp_path / "017_other.relay").read_text() == "old"
    dump(True)
    assert names(tmp_path) == ["000_notes.txt", "000_same.relay", "mine.relay"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError, match="is no folder to dump to"):
        DumpIR(tmp_path / "file", refresh=True)


def test_counting_goes_on_in_the_next_context(mod: IRModule, tmp_path: Path) -> None:
    dump = DumpIR(str(tmp_path), only_changes=True, initial=True)
    for _ in range(2):
        with PassContext(instruments=[dump]):
            add(mod)
    assert names(tmp_path) == ["000_input.relay", "001_.._odd_name_.relay", "002_input.relay", "003_.._odd_name_.relay"]


def test_what_cannot_be_written_leaves_nothing(mod: IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert text.startswith("// of constants above 64 KiB, here 1, only the first element is kept, and repeated\n")
    assert len(text) < 2000
    body = parse(text)["main"].body
    assert isinstance(body, Tuple)
    kept = [field.data for field in body.fields if isinstance(field, Constant)]
    assert kept[0].uniform() == 2
    assert kept[0].shape == (40_000,)
    assert structural_equal(Constant(kept[1]), const([1.5, 2.5]))
    assert kept[2].uniform() == 0
