"""Crash reproducers of any pipeline: what is written when a pass raises, that it is written completely or not at all, and that it
replays."""

import base64
import json
import os
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passat.ir.equality import structural_equal
from passat.ir.expr import Constant, Function, const, var
from passat.ir.module import IRModule
from passat.ir.tensor import Tensor
from passat.ir.text import parse
from passat.passmgr import (
    BrokenModuleError,
    CrashReproducer,
    FunctionPass,
    InferType,
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    PassInstrument,
    ReproducerError,
    Sequential,
    VerifyEach,
    module_pass,
    parse_pipeline,
    read_reproducer,
    register_pass,
    replay,
)
from passat.passmgr.debugging import reproducer as reproducer_file
from passat.passmgr.inspection import printing
from tests.share import share


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, forgotten: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the reproducer in an empty folder, with registered passes that raise on contents of the module."""
    monkeypatch.chdir(tmp_path)
    for one in (RaisesOnLarge, AddsCopy):
        register_pass(one.__name__)(one)
    return tmp_path / "crash"


@dataclass(frozen=True, repr=False)
class RaisesOnLarge(FunctionPass):
    """Raises if a function contains a constant with an element above a limit."""

    limit: float = 0.5
    info = PassInfo(0, "RaisesOnLarge", ["InferType"], preserves="*")

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        from passat.ir.traverse import post_order

        for node in post_order(func):
            if isinstance(node, Constant) and node.data.numpy().max() > self.limit:
                raise OverflowError(f"{node.data.numpy().max():.3f} is too much at level {ctx.opt_level}")
        return func


@dataclass(frozen=True, repr=False)
class AddsCopy(ModulePass):
    """Adds a copy of main."""

    info = PassInfo(0, "AddsCopy")

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        copy = mod.shallow_copy()
        copy["copy"] = mod["main"]
        return copy


def program(*arrays: AnyValue) -> IRModule:
    """A module that adds constants to its parameter."""
    x = var("x", shape=(1,))
    body: AnyValue = x
    for array in arrays:
        body = body + (Constant(array) if isinstance(array, Tensor) else const(array))
    return IRModule.from_expr(Function([x], body))


SMALL = np.array([0.25], np.float32)
LARGE = np.array([0.75], np.float32)


def crash(pipeline: Pass, mod: IRModule, folder: Path, **context: AnyValue) -> Exception:
    """The exception of a pipeline for which a reproducer is written."""
    reproducer = CrashReproducer(folder)
    with pytest.raises(Exception) as caught, PassContext(instruments=[reproducer], **context):  # noqa: PT011  # any exception
        pipeline(mod)
    assert reproducer.written, caught.value.__notes__
    return caught.value


def data_of(folder: Path) -> AnyValue:
    return json.loads((folder / "reproducer.json").read_text())


def test_a_crash_in_a_nested_pipeline_is_written_and_replays(folder: Path) -> None:
    pipeline = parse_pipeline(
        "AddsCopy,Sequential{name=middle}(InferType,Sequential{name=inner}(RaisesOnLarge{limit=0.6},AddsCopy)),AddsCopy"
    )
    start = program(SMALL, LARGE)
    error = crash(pipeline, start, folder, opt_level=1, disabled_pass=["Other"], config={"passmgr.resolve": "graph"})
    assert any(note == f"{folder} contains a reproducer: passat replay {shlex.quote(str(folder))}" for note in error.__notes__)
    data = data_of(folder)
    assert data["pass"] == {
        "name": "RaisesOnLarge",
        "text": "RaisesOnLarge{limit=0.6}",
        "number": 3,
        "path": ["sequential", "middle", "inner"],
        "step": "2.2.1",
        "function": "main",
    }
    assert (
        data["pipeline"] == "AddsCopy,Sequential{name=middle}(InferType,Sequential{name=inner}(RaisesOnLarge{limit=0.6},AddsCopy)),AddsCopy"
    )
    assert data["rest"] == "AddsCopy,AddsCopy"
    assert data["context"] == {
        "opt_level": 1,
        "required_pass": [],
        "disabled_pass": ["Other"],
        "config": {"passmgr.resolve": "graph"},
        "config_left_out": {},
    }
    assert data["error"]["type"] == "OverflowError"
    assert data["error"]["message"] == "0.750 is too much at level 1"
    assert {"passat", "numpy", "python"} <= data["versions"].keys()
    saved = parse((folder / "module.relay").read_text())
    assert [name.name_hint for name in saved] == ["main", "copy"]
    assert structural_equal(saved["main"], start["main"])
    assert "OverflowError: 0.750 is too much" in (folder / "error.txt").read_text()
    assert "passat replay crash" in (folder / "README.txt").read_text()
    found = replay(folder)
    assert found.same
    assert str(found) == "the pass RaisesOnLarge on the saved module fails the same way: OverflowError: 0.750 is too much at level 1"


def test_a_pass_by_itself(folder: Path) -> None:
    crash(RaisesOnLarge(), program(LARGE), folder)
    assert data_of(folder)["pass"]["step"] == ""
    assert data_of(folder)["pass"]["path"] == []
    assert replay(str(folder)).same


def test_nothing_is_written_without_an_uncaught_exception(folder: Path) -> None:
    @module_pass(opt_level=0)
    def catches(mod: IRModule, ctx: PassContext) -> IRModule:
        with pytest.raises(OverflowError):
            RaisesOnLarge()(mod)
        return mod

    with PassContext(instruments=[reproducer := CrashReproducer(folder)]):
        Sequential([AddsCopy(), catches])(program(LARGE))
    assert not reproducer.written
    assert os.listdir() == []


def test_a_crash_inside_a_pass_that_runs_passes_is_that_of_the_outer_one(folder: Path) -> None:
    @register_pass("Outer")
    @module_pass(opt_level=0)
    def outer(mod: IRModule, ctx: PassContext) -> IRModule:
        return Sequential([AddsCopy(), RaisesOnLarge()])(mod)

    crash(Sequential([outer]), program(LARGE), folder)
    assert data_of(folder)["pass"]["name"] == "outer"
    assert [name.name_hint for name in parse((folder / "module.relay").read_text())] == ["main"]


def test_an_interruption_is_not_a_crash(folder: Path) -> None:
    @module_pass(opt_level=0)
    def interrupted(mod: IRModule, ctx: PassContext) -> IRModule:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), PassContext(instruments=[CrashReproducer(folder)]):
        interrupted(program())
    assert os.listdir() == []


def test_an_unregistered_pass_is_reported_and_replays_with_the_pipeline(folder: Path) -> None:
    @module_pass(opt_level=0)
    def mine(mod: IRModule, ctx: PassContext) -> IRModule:
        raise LookupError("no")

    pipeline = Sequential([AddsCopy(), mine])
    crash(pipeline, program(SMALL), folder)
    assert data_of(folder)["not_registered"] == ["mine"]
    assert "These passes cannot be created from text: mine" in (folder / "README.txt").read_text()
    with pytest.raises(ReproducerError, match=r"the pass mine cannot be made here: .*; register it, or hand the pipeline to"):
        replay(folder)
    assert replay(folder, pipeline).same
    assert replay(folder, mine).same


def test_an_option_that_has_no_text(folder: Path) -> None:
    @register_pass("Holds")
    @dataclass(frozen=True)
    class Holds(ModulePass):
        """Has an option without a text form."""

        value: object = None
        info = PassInfo(0, "Holds")

        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            raise ValueError(str(type(self.value)))

    pipeline = Sequential([Holds(print)])
    crash(pipeline, program(), folder)
    data = data_of(folder)
    assert (data["pipeline"], data["pass"]["text"], data["rest"], data["not_registered"]) == (None, None, "", ["Holds"])
    with pytest.raises(ReproducerError, match="the pass Holds cannot be made from text"):
        replay(folder)
    assert replay(folder, pipeline).same


def test_a_pass_that_was_repaired_does_not_fail(folder: Path) -> None:
    crash(parse_pipeline("RaisesOnLarge"), program(LARGE), folder)

    @register_pass("RaisesOnLarge", override=True)
    @dataclass(frozen=True, repr=False)
    class Repaired(RaisesOnLarge):
        """Raises at a higher limit."""

        limit: float = 10.0

    found = replay(folder)
    assert (found.error, found.same) == (None, False)
    assert str(found) == "the pass RaisesOnLarge on the saved module does not fail"


@pytest.mark.parametrize(
    ("raised", "same", "said"),
    [
        (OverflowError("something else"), True, "fails the same way (with a different message): OverflowError: something else"),
        (KeyError("x"), False, "fails, but differently: KeyError: 'x' in the pass RaisesOnLarge; it was OverflowError in the pass"),
    ],
)
def test_another_error(folder: Path, raised: Exception, same: bool, said: str) -> None:
    crash(parse_pipeline("RaisesOnLarge"), program(LARGE), folder)

    @register_pass("RaisesOnLarge", override=True)
    @module_pass(opt_level=0, name="RaisesOnLarge")
    def other(mod: IRModule, ctx: PassContext) -> IRModule:
        raise raised

    found = replay(folder)
    assert found.same is same
    assert said in str(found)


def test_a_module_without_types_that_the_pass_found(folder: Path) -> None:
    @module_pass(opt_level=0)
    def breaks(mod: IRModule, ctx: PassContext) -> IRModule:
        a, b = var("a", shape=(2,)), var("b", shape=(3,))
        copy = mod.shallow_copy()
        copy["bad"] = Function([a, b], a + b)
        return copy

    crash(Sequential([breaks, InferType()]), program(), folder)
    assert data_of(folder)["pass"]["name"] == "InferType"
    assert replay(folder).same


def test_large_constants_lie_in_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "INLINE_LIMIT", 64)
    ramp = np.linspace(0, 1, 100, dtype=np.float32)
    narrow = Tensor.dense(np.arange(200).astype(np.uint8).reshape(2, 100))
    crash(parse_pipeline("RaisesOnLarge"), program(Tensor.splat(0.25, (100,), "float32"), ramp[:1], Tensor.dense(ramp)), folder)
    data = data_of(folder)
    assert data["constants"] == {"files": 1, "bytes": 400, "left_out": 0}
    assert np.array_equal(np.fromfile(folder / "constant-0.bin", np.float32), ramp)
    assert replay(folder).same
    # the text can be read without the files: the constant is then a splat of its first element
    assert "splat" in (folder / "module.relay").read_text()
    assert parse((folder / "module.relay").read_text())["main"] is not None
    narrow_program = IRModule.from_expr(Function([], Constant(narrow)))
    crash(parse_pipeline("RaisesOnLarge"), narrow_program, folder)
    assert (folder / "constant-0.bin").stat().st_size == 200
    assert replay(folder).same


def test_every_element_type_comes_back_from_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "INLINE_LIMIT", 8)
    from passat.ir.dtypes import NAMES, to_numpy

    for dtype in sorted(NAMES - {"string"}):
        values = np.resize(np.arange(4), (5, 8)).astype(to_numpy("float32" if dtype.startswith("complex") else dtype))
        tensor = Tensor.dense(values.astype(to_numpy(dtype)))
        os.makedirs("constants", exist_ok=True)
        kept = reproducer_file._Constants("constants", 1 << 20)
        form = kept.form(tensor)
        if tensor.nbytes > 8:
            raw = Path("constants/constant-0.bin").read_bytes()
            from passat.ir.text.metadata import decode

            again = decode({"dtype": form["dtype"], "shape": form["shape"], "data": base64.b64encode(raw).decode()})
            assert again == tensor, dtype


def test_beyond_the_limit_only_a_splat_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "INLINE_LIMIT", 64)
    ramp = np.linspace(0, 1, 100, dtype=np.float32)
    with pytest.raises(OverflowError), PassContext(instruments=[CrashReproducer(folder, data_limit=500)]):
        RaisesOnLarge()(program(ramp, ramp[::-1] * 2))
    assert data_of(folder)["constants"] == {"files": 1, "bytes": 400, "left_out": 1}
    assert "1 constant was too large to be kept and is replaced by its first element, repeated" in (folder / "README.txt").read_text()
    assert replay(folder).same


def test_settings_without_a_json_form_are_reported(folder: Path) -> None:
    from passat.passmgr import register_option

    register_option("test.struct", Settings)
    register_option("test.object", object)
    crash(RaisesOnLarge(), program(LARGE), folder, config={"test.struct": {"depth": 7}, "test.object": print})
    context = data_of(folder)["context"]
    assert context["config"] == {"test.struct": {"depth": 7, "name": "x"}}
    assert context["config_left_out"] == {"test.object": "builtin_function_or_method"}
    assert "test.object" in (folder / "README.txt").read_text()
    assert read_reproducer(folder).context().config["test.struct"] == Settings(7)
    assert replay(folder).same


@dataclass(frozen=True)
class Settings:
    """An option with fields."""

    depth: int = 1
    name: str = "x"


def test_an_older_reproducer_is_replaced_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "INLINE_LIMIT", 64)
    crash(RaisesOnLarge(), program(np.linspace(0, 1, 100, dtype=np.float32)), folder)
    crash(RaisesOnLarge(0.1), program(SMALL), folder)
    assert sorted(os.listdir(folder)) == ["README.txt", "error.txt", "module.relay", "reproducer.json"]
    assert os.listdir() == ["crash"]
    assert replay(folder, RaisesOnLarge(0.1)).same


def test_write_errors_leave_no_files_and_keep_the_original_error(folder: Path) -> None:
    def full(target: str, data: dict[str, AnyValue]) -> None:
        raise OSError(28, "No space left on device")

    reproducer = CrashReproducer(folder, extra=full)
    with pytest.raises(OverflowError) as caught, PassContext(instruments=[reproducer]):
        RaisesOnLarge()(program(LARGE))
    assert not reproducer.written
    assert any(note.startswith(f"a reproducer could not be written to {folder}: OSError") for note in caught.value.__notes__)
    assert os.listdir() == []


def test_folders_that_hold_something_else_are_rejected(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    CrashReproducer(folder)
    (folder / "notes.txt").touch()
    with pytest.raises(ReproducerError, match=r"it contains other files, such as notes\.txt"):
        CrashReproducer(folder)
    (folder / "notes.txt").rename(folder / "error.txt")
    with pytest.raises(ReproducerError, match=r"such as error\.txt"):
        CrashReproducer(folder)
    with pytest.raises(ReproducerError, match="there is no folder"):
        CrashReproducer(tmp_path / "no" / "such")
    with pytest.raises(ReproducerError, match="it is not a folder"):
        CrashReproducer(folder / "error.txt")
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(ReproducerError, match="it is not a folder"):
        CrashReproducer(tmp_path / "link")


def test_files_that_came_into_the_folder_meanwhile_stay(folder: Path) -> None:
    reproducer = CrashReproducer(folder)
    folder.mkdir()
    (folder / "precious").touch()
    with pytest.raises(OverflowError), PassContext(instruments=[reproducer]):
        RaisesOnLarge()(program(LARGE))
    assert os.listdir(folder) == ["precious"]
    assert os.listdir() == ["crash"]


def test_an_instrument_that_raises_counts_as_the_pass_it_stopped(folder: Path) -> None:
    class Strict(PassInstrument):
        def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
            if len(mod) > 1:
                raise AssertionError("two functions")

    with pytest.raises(AssertionError), PassContext(instruments=[Strict(), reproducer := CrashReproducer(folder)]):
        Sequential([AddsCopy()])(program())
    assert reproducer.written
    assert str(replay(folder)) == "the pass AddsCopy on the saved module does not fail"


def test_a_crash_in_another_thread(folder: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(crash, parse_pipeline("AddsCopy,RaisesOnLarge"), program(LARGE), folder).result()
    assert replay(folder).same


def edit(folder: Path, change: Callable[[AnyValue], AnyValue]) -> None:
    data = data_of(folder)
    change(data)
    (folder / "reproducer.json").write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda data: data.update(format=2), "has format 2; this version of Passat reads format 1"),
        (lambda data: data.update(format="1"), "'format' must be int, not str"),
        (lambda data: data.pop("error"), "has no 'error.type'"),
        (lambda data: data["pass"].update(name=3), "'pass.name' must be str, not int"),
        (lambda data: data.update({"pass": []}), "has no 'pass.name'"),
        (lambda data: data["context"].update(opt_level=True), "'context.opt_level' must be int, not bool"),
        (lambda data: data["context"].update(required_pass="InferType"), "'context.required_pass' must be list, not str"),
        (lambda data: data["context"].update(disabled_pass=[1]), "'context.disabled_pass' must be a list of names"),
        (lambda data: data["context"].update(config={"no.such": 1}), "invalid settings: Invalid config option 'no.such'"),
        (lambda data: data["context"].update(config={"passmgr.resolve": 1}), "invalid settings: expect config"),
        (lambda data: data["pass"].update(name="x", text="Nothing", step=None), "cannot be made here"),
        (lambda data: data["pass"].update(name="x", text="InferType{", step=None), "cannot be made here"),
    ],
)
def test_settings_that_were_tampered_with(folder: Path, change: Callable[[AnyValue], AnyValue], sentence: str) -> None:
    crash(parse_pipeline("AddsCopy,RaisesOnLarge"), program(LARGE), folder)
    edit(folder, change)
    with pytest.raises(ReproducerError) as caught:
        replay(folder)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "null", '{"format": 1}', "\0\xff"])
def test_a_file_of_settings_that_is_none(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "reproducer.json").write_text(text)
    with pytest.raises(ReproducerError, match=r"reproducer\.json"):
        replay(folder)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hello", "expected def"),
        ("", "does not fail"),
        ("def @main() { meta[relay.Constant][0] }\n#[metadata]\n{", "not valid JSON"),
        ('def @main() { meta[relay.Constant][0] }\n#[metadata]\n{"file"', "invalid metadata section"),
        ('def @main() { 1 }\n#[metadata]\n["file"]', "invalid metadata section"),
        ('def @main() { 1 }\n#[metadata]\n{"relay.Constant": [{"file": "../../etc/passwd"}]}', "names the file '../../etc/passwd'"),
        ('def @main() { 1 }\n#[metadata]\n{"relay.Constant": [{"file": "error.txt", "splat": ""}]}', "names the file 'error.txt'"),
        ('def @main() { 1 }\n#[metadata]\n{"relay.Constant": [{"file": 3}]}', "names the file 3"),
        ('def @main() { 1 }\n#[metadata]\n{"relay.Constant": [{"file": "constant-9.bin"}]}', "has no constant-9.bin"),
        (
            'def @main() { 1 }\n#[metadata]\n{"relay.Constant": [{"file": "constant-0.bin", "dtype": "float32", "shape": [7], "splat": ""}]}',
            "constant-0.bin has 5 bytes, but float32[7] requires 28",
        ),
        (
            'def @main() { 1 }\n#[metadata]\n{"relay.Constant": [{"file": "constant-0.bin", "dtype": "no", "shape": [5], "splat": ""}]}',
            "unknown element type 'no'",
        ),
        ("def @main(%a: Tensor[(2), int8], %b: Tensor[(3), int8]) { %a + %b }", "module.relay cannot be used"),
    ],
)
def test_a_module_that_was_tampered_with(folder: Path, text: str, sentence: str) -> None:
    crash(parse_pipeline("AddsCopy,RaisesOnLarge"), program(LARGE), folder)
    (folder / "module.relay").write_text(text)
    (folder / "constant-0.bin").write_bytes(b"12345")
    try:
        said = str(replay(folder))
    except ReproducerError as error:
        said = str(error)
    assert sentence in said
    assert "\n" not in said


@settings(max_examples=share(30, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(["reproducer.json", "module.relay", "constant-0.bin"]), data=st.data())
def test_bytes_that_were_tampered_with(folder: Path, name: str, data: st.DataObject) -> None:
    """For any contents of the folder, the answer is a replay or one sentence."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(printing, "INLINE_LIMIT", 64)
        crash(parse_pipeline("AddsCopy,RaisesOnLarge"), program(LARGE, np.linspace(0, 1, 100, dtype=np.float32)), folder)
    content = bytearray((folder / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 8))] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"{", b"]", b'"', b",", b"9", b"-"])
        )
    (folder / name).write_bytes(content)
    try:
        said = str(replay(folder))
    except ReproducerError as error:
        said = str(error)
    assert "\n" not in said


def test_files_that_are_missing_or_no_files(folder: Path) -> None:
    with pytest.raises(ReproducerError, match="there is no folder"):
        replay(folder)
    folder.touch()
    with pytest.raises(ReproducerError, match="is not a folder"):
        replay(folder)
    folder.unlink()
    folder.mkdir()
    with pytest.raises(ReproducerError, match=r"has no reproducer\.json, so it is not a crash reproducer"):
        replay(folder)
    folder.rmdir()
    crash(RaisesOnLarge(), program(LARGE), folder)
    (folder / "module.relay").rename("elsewhere")
    with pytest.raises(ReproducerError, match=r"has no module\.relay"):
        replay(folder)
    os.mkfifo(folder / "module.relay")
    with pytest.raises(ReproducerError, match=r"module\.relay is not a regular file"):
        replay(folder)
    (folder / "module.relay").unlink()
    (folder / "module.relay").symlink_to(Path("elsewhere").absolute())
    with pytest.raises(ReproducerError, match=r"module\.relay is not a regular file"):
        replay(folder)


def test_the_position_of_a_pass_that_occurs_twice(folder: Path) -> None:
    pipeline = parse_pipeline("RaisesOnLarge{limit=5},RaisesOnLarge")
    crash(pipeline, program(LARGE), folder)
    assert data_of(folder)["pass"]["step"] == "3"
    assert replay(folder).same
    assert replay(folder, pipeline).same
    edit(folder, lambda data: data["pass"].update(step="2"))
    assert not replay(folder).same


def test_passes_that_instruments_vetoed_do_not_shift_the_place(folder: Path) -> None:
    class Veto(PassInstrument):
        def should_run(self, mod: IRModule, info: PassInfo) -> bool:
            return info.name != "AddsCopy"

    pipeline = parse_pipeline("AddsCopy,AddsCopy,RaisesOnLarge,AddsCopy")
    with pytest.raises(OverflowError), PassContext(instruments=[Veto(), CrashReproducer(folder)]):
        pipeline(program(LARGE))
    assert data_of(folder)["pass"]["step"] == "4"
    assert data_of(folder)["pass"]["number"] == 2
    assert data_of(folder)["rest"] == "AddsCopy"


@module_pass(opt_level=0)
def frees(mod: IRModule, ctx: PassContext) -> IRModule:
    """Leaves a free variable."""
    copy = mod.shallow_copy()
    copy["main"] = Function(mod["main"].params, var("lost"))
    return copy


@pytest.mark.parametrize("pipeline", [Sequential([InferType(), Sequential([frees], name="inner")]), frees])
@pytest.mark.parametrize("verify_first", [False, True])
def test_a_module_that_a_check_rejects_is_a_crash_of_the_pass(folder: Path, pipeline: Pass, verify_first: bool) -> None:
    reproducer = CrashReproducer(folder)
    instruments: list[PassInstrument] = [VerifyEach(), reproducer] if verify_first else [reproducer, VerifyEach()]
    with pytest.raises(BrokenModuleError) as raised, PassContext(instruments=instruments):
        pipeline(program())
    # for a pass that runs by itself, no instrument is called after its own
    assert reproducer.written is (verify_first or pipeline is not frees)
    if not reproducer.written:
        return
    assert any("contains a reproducer: passat replay" in note for note in raised.value.__notes__)
    assert structural_equal(parse((folder / "module.relay").read_text()), program())
    found = replay(folder, pipeline)
    assert (found.same, found.pass_name) == (True, "frees")
    assert "fails the same way: BrokenModuleError: the pass frees broke the module: in @main" in str(found)


def test_the_command_has_the_arguments_that_it_takes(folder: Path) -> None:
    reproducer = CrashReproducer(folder, arguments=["--rules", "my rules.py"])
    assert reproducer.command == shlex.join(["passat", "replay", str(folder), "--rules", "my rules.py"])
    with pytest.raises(OverflowError), PassContext(instruments=[reproducer]):
        RaisesOnLarge()(program(LARGE))
    assert "\nTo run it again:    passat replay crash --rules 'my rules.py'\n" in (folder / "README.txt").read_text()
