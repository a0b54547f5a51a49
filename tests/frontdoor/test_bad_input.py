"""Bad input on the command line: one clear sentence, exit code 1 or 2, nothing written, no traceback."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from typer.testing import CliRunner

import passat
import passat.ir.onnx
from passat.cli.app import Terminated, app
from passat.ir.onnx.errors import raise_interrupt
from passat.rules.engine.graph import Graph
from passat.rules.engine.matching import Matcher

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "models"
RESNET = EXAMPLES / "resnet_tiny.onnx"
HEAD = 'from passat.rules import RuleSet, attributes, constant, op, tensors\nx, y, z = tensors("x y z")\n'
EXPLODING = (
    HEAD
    + '''
class Sums(RuleSet):
    """Every order and bracketing of sums."""

    commute = (x + y >> y + x).exploring()
    associate = ((x + y) + z >> x + (y + z)).and_back()
'''
)


NOTICED = """
import time
from passat.rules import guard
from passat.rules.engine.limits import interrupted

matches = []

@guard
def notice(x):
    matches.append(x)
    if len(matches) == 100:
        open("matched", "w").close()
        while not interrupted():  # until then the e-graph stays small, even if the test waits for a busy machine
            time.sleep(0.01)
    return True

class Noticed(RuleSet):
    commute = (x + y >> y + x).exploring().when(notice(x))
"""


LONG = "n" * 5000


@pytest.mark.parametrize(
    "command",
    [
        ["optimize", "--dry-run"],
        ["inspect"],
        ["run"],
        ["rules", "why-not", "Arithmetic"],
        ["rules", "why-not", "Arithmetic.copy"],
        ["diff", "long.onnx"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("missing", [False, True])
def test_names_of_thousands_of_characters_are_shortened(command: list[str], missing: bool) -> None:
    """Those of values and nodes, of dimensions, and of missing data files."""
    weight = numpy_helper.from_array(np.ones(3, np.float32), "w" * 5000)
    if missing:
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=LONG)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [LONG, 3]) for name in ("x" * 5000, "y" * 5000))
    nodes = [helper.make_node("Identity", [x.name], [LONG], LONG), helper.make_node("Add", [LONG, weight.name], [y.name], "a" * 5000)]
    onnx.save(
        helper.make_model(helper.make_graph(nodes, "g", [x], [y], [weight]), ir_version=10, opset_imports=[helper.make_opsetid("", 17)]),
        "long.onnx",
    )
    done = CliRunner().invoke(app, [*command, "long.onnx"])
    assert done.output
    assert max(map(len, done.output.split())) <= 300


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["inspect m.onnx", "optimize m.onnx", "diff m.onnx m.onnx", "bisect m.onnx", "explain m.onnx"])
def test_a_model_that_may_not_be_read_is_like_a_missing_one(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("m.onnx").touch()

    def denied(path: str, limit: int) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **how: str(path) != "m.onnx" and may(path, mode, **how))
    monkeypatch.setattr("passat.ir.onnx.files.read_bounded", denied)
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 1, result.stderr
    assert result.stderr.startswith("error: m.onnx cannot be read: Permission denied")


def sum_of(count: int, shape: tuple[int, ...] = (4,)) -> ModelProto:
    """The sum of many inputs."""
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape) for i in range(count)]
    nodes = [helper.make_node("Add", ["x0" if i == 1 else f"s{i - 1}", f"x{i}"], [f"s{i}"]) for i in range(1, count)]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(f"s{count - 1}", TensorProto.FLOAT, shape)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def rejected(*arguments: object, code: int = 1, written: str = "out.onnx") -> str:
    """The sentence with which a command ends; checks that it has written nothing."""
    before = sorted(os.listdir())
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert sorted(os.listdir()) == before
    assert not Path(written).exists()
    assert result.stderr.startswith("error: ")
    return result.stderr


def rejected_model(model: ModelProto) -> str:
    Path("in.onnx").write_bytes(model.SerializeToString())
    text = rejected("optimize", "in.onnx", "-o", "out.onnx")
    assert text.count("\n") == 1
    assert "in.onnx" in text
    return text


def edited(change: Callable[[ModelProto], object]) -> ModelProto:
    model = sum_of(3)
    change(model)
    return model


def test_not_a_file() -> None:
    assert "- cannot be read: No such file or directory; standard input is /dev/stdin" in rejected("optimize", "-", "-o", "out.onnx")
    assert "nothing.onnx cannot be read: No such file or directory" in rejected("optimize", "nothing.onnx", "-o", "out.onnx")


def test_a_folder_as_model() -> None:
    Path("folder").mkdir()
    assert "folder cannot be read: Is a directory" in rejected("optimize", "folder", "-o", "out.onnx")


@pytest.mark.parametrize("content", [b"", b"hello, this is text", b"\x08\x07\x12\xff\xff", b"\x00" * 64])
def test_not_onnx(content: bytes) -> None:
    Path("in.onnx").write_bytes(content)
    assert "in.onnx is not an ONNX model" in rejected("optimize", "in.onnx", "-o", "out.onnx")


def test_a_truncated_model() -> None:
    Path("in.onnx").write_bytes(RESNET.read_bytes()[:-1000])
    assert "in.onnx is not an ONNX model, or is truncated" in rejected("optimize", "in.onnx", "-o", "out.onnx")


def test_a_pointer_of_git_lfs() -> None:
    Path("in.onnx").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 123\n")
    assert "in.onnx is a Git LFS pointer, not an ONNX model" in rejected("optimize", "in.onnx", "-o", "out.onnx")


def test_checker_errors_name_file_and_node() -> None:
    text = rejected_model(edited(lambda m: m.graph.node[0].input.append("")))
    assert text.startswith("error: in.onnx: onnx.checker does not accept the model: Node ")
    assert "OpType: Add" in text


def test_nodes_out_of_order_are_taken_as_onnx_runtime_takes_them() -> None:
    Path("in.onnx").write_bytes(edited(lambda m: m.graph.node.reverse()).SerializeToString())
    result = CliRunner().invoke(app, ["optimize", "in.onnx", "-o", "out.onnx"])
    assert result.exit_code == 0
    assert "! ONNX Runtime loads the input, but onnx.checker does not accept the model" in result.stdout


def test_an_unknown_opset() -> None:
    assert "uses version 999 of the ONNX operators" in rejected_model(edited(lambda m: setattr(m.opset_import[0], "version", 999)))


def test_a_model_that_imports_no_operators() -> None:
    assert "does not say which version of the ONNX operators it uses" in rejected_model(edited(lambda m: m.ClearField("opset_import")))


def test_an_unknown_ir_version() -> None:
    assert "has IR version 99" in rejected_model(edited(lambda m: setattr(m, "ir_version", 99)))


def test_a_cycle() -> None:
    def close(model: ModelProto) -> None:
        model.graph.node[0].input[1] = "s2"

    assert "cycl" in rejected_model(edited(close)) or "reads" in rejected_model(edited(close))


def test_a_value_that_nothing_makes() -> None:
    assert "'nowhere', which is not defined" in rejected_model(edited(lambda m: m.graph.node[1].input.__setitem__(1, "nowhere")))


def external(location: str) -> ModelProto:
    model = sum_of(2)
    tensor = numpy_helper.from_array(np.ones(4, np.float32), "x1")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    model.graph.initializer.append(tensor)
    del model.graph.input[1]
    return model


def test_missing_external_data() -> None:
    assert "external file 'weights.bin', which does not exist" in rejected_model(external("weights.bin"))


def test_an_output_that_would_replace_the_data_of_the_input() -> None:
    data = np.ones(4, np.float32).tobytes()
    Path("weights").write_bytes(data)
    Path("in.onnx").write_bytes(external("weights").SerializeToString())
    text = rejected("optimize", "in.onnx", "-o", "weights", written="nothing")
    assert "weights cannot be written: the model reads external data from it" in text
    assert Path("weights").read_bytes() == data


def test_external_data_whose_name_no_file_can_have() -> None:
    assert "is declared external but has no file name" in rejected_model(external("weights\0.bin"))


def test_external_data_outside_the_folder(tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside.bin"
    outside.write_bytes(np.ones(4, np.float32).tobytes())
    assert "is outside the model's folder" in rejected_model(external("../outside.bin"))
    assert "is outside the model's folder" in rejected_model(external(str(outside)))
    Path("link.bin").symlink_to(outside)
    assert "a symbolic link to outside the model's folder" in rejected_model(external("link.bin"))


def test_shapes_that_contradict() -> None:
    def widen(model: ModelProto) -> None:
        model.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 7

    rejected_model(edited(widen))


def test_an_output_folder_that_is_not_there() -> None:
    text = rejected("optimize", RESNET, "-o", "no/such/out.onnx", code=2, written="no")
    assert "no/such/out.onnx cannot be written: the folder no/such does not exist" in text


def test_an_output_folder_that_is_a_file() -> None:
    Path("file").write_bytes(b"")
    text = rejected("optimize", RESNET, "-o", "file/out.onnx", code=2, written="file/out.onnx")
    assert "file/out.onnx cannot be written: file is not a folder" in text


def test_an_output_that_is_a_folder(empty: Path) -> None:
    """A folder receives the result under the model's name, which is that of a folder here, too."""
    (empty / "folder" / RESNET.name).mkdir(parents=True)
    assert f"{RESNET.name} is a folder" in rejected("optimize", RESNET, "-o", "folder", code=2)


def test_standard_output() -> None:
    said = "cannot be standard output"
    assert said in rejected("optimize", RESNET, "-o", "-", code=2, written="nothing")
    assert said in rejected("optimize", RESNET, "--report", "-", code=2, written="nothing")


def test_an_output_that_is_not_a_file(empty: Path) -> None:
    os.mkfifo("pipe")
    assert "pipe is not a file" in rejected("optimize", RESNET, "-o", "pipe", code=2, written="nothing")
    with pytest.raises(passat.ir.onnx.OnnxError, match="pipe cannot be written: it is not a file"):
        passat.optimize(RESNET, verify=False).save("pipe")
    assert (empty / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def f(:\n", "rules.py, line 1: "),
        ("import not_there_at_all\n", "rules.py, line 1: ModuleNotFoundError"),
        ("x = 1\n", "rules.py defines no rules"),
        (HEAD + "class Mine(RuleSet):\n    bad = op.negative(x) >> y\n", "uses 'y', which the left side does not bind"),
        (HEAD + "class Mine(RuleSet):\n    bad = op.negative(x) >> op.equal(x, x)\n", "the sides have different types"),
        (HEAD + "class Mine(RuleSet):\n    bad = op.negatve(x) >> x\n", "did you mean negative"),
        (HEAD + "class Mine(RuleSet):\n    bad = op.negative(x) >> x.exploring()\n", "write (left >> right).exploring(...)"),
        (HEAD + "class Mine(RuleSet):\n    bad = op.transpose(x, axes=y) >> x\n", "attribute('axes') for a hole, not y"),
        (HEAD + "class Mine(RuleSet):\n    r = op.exp(op.log(x)) >> x\n    r = op.log(op.exp(x)) >> x\n", "Mine.r is defined twice"),
        (HEAD + "class Mine(RuleSet):\n    r = op.exp(x) >> op.exp(x)\n", "both sides are the same"),
        (HEAD + 2 * "class Mine(RuleSet):\n    r = op.exp(op.log(x)) >> x\n", "line 5: the class Mine is defined twice, first in line 3"),
        (
            HEAD + "class Arithmetic(RuleSet):\n    add_zero = op.exp(op.log(x)) >> x\n",
            "Arithmetic.add_zero has the name of a built-in rule",
        ),
        (HEAD + "class SimplifyExpr(RuleSet):\n    r = op.exp(op.log(x)) >> x\n", "SimplifyExpr has the name of a pass"),
        ("x = '\0'\n", "rules.py is not a Python file: source code string cannot contain null bytes"),
    ],
)
def test_a_rule_file_that_is_wrong(text: str, sentence: str) -> None:
    Path("rules.py").write_text(text)
    assert sentence in rejected("optimize", RESNET, "-o", "out.onnx", "--rules", "rules.py")
    assert sentence in rejected("rules", "list", "--rules", "rules.py")


def test_two_rule_sets_of_one_name() -> None:
    for name in ("a.py", "b.py"):
        Path(name).write_text(HEAD + f"class Mine(RuleSet):\n    {name[0]} = op.exp(op.log(x)) >> x\n")
    assert "two rule sets have the name Mine" in rejected("optimize", RESNET, "-o", "out.onnx", "--rules", "a.py", "--rules", "b.py")
    assert "two rule sets have the name Mine" in rejected("rules", "list", "--rules", "a.py", "--rules", "b.py")


def test_a_rule_file_that_is_not_there() -> None:
    assert "rules.py cannot be read: No such file or directory" in rejected("optimize", RESNET, "-o", "out.onnx", "--rules", "rules.py")


def test_an_unknown_pass_gives_the_nearest() -> None:
    text = rejected("optimize", RESNET, "-o", "out.onnx", "--passes", "FoldConstnt,SimplifyExpr", code=2)
    assert "did you mean FoldConstant" in text
    assert "column 1); nothing was written\n  FoldConstnt,SimplifyExpr\n  ^\n" in text
    assert "did you mean FoldConstant" in rejected("order", "--passes", "FoldConstnt", code=2)


def test_a_pipeline_that_does_not_parse() -> None:
    assert "column" in rejected("optimize", RESNET, "-o", "out.onnx", "--passes", "FoldConstant,,", code=2)


def test_a_wrong_rule_is_a_mismatch_that_names_it_and_writes_nothing() -> None:
    Path("rules.py").write_text(HEAD + "class Wrong(RuleSet):\n    relu = op.nn.relu(x) >> x\n")
    text = rejected("optimize", RESNET, "-o", "out.onnx", "--rules", "rules.py")
    assert f"error: {RESNET}: the optimized model computes other values than the original" in text
    assert "the difference comes from the pass Wrong, and `passat rules bisect` finds its rule; nothing was written" in text


def test_with_json_the_sentence_is_json_too() -> None:
    result = CliRunner().invoke(app, ["optimize", "nothing.onnx", "-o", "out.onnx", "--json"])
    assert result.exit_code == 1
    assert result.stdout.startswith('{"error": "nothing.onnx cannot be read')


def test_a_rule_set_that_explodes_stops_at_a_limit_with_the_best_so_far() -> None:
    Path("rules.py").write_text(EXPLODING)
    onnx.save(sum_of(14), "in.onnx")
    limits = ["--config", "rules.nodes=3000", "--config", "rules.matches=20000"]
    result = CliRunner().invoke(app, ["optimize", "in.onnx", "-o", "out.onnx", "--rules", "rules.py", *limits])
    assert result.exit_code == 0, result.output
    assert "stopped at the limit of" in result.stdout
    assert len(onnx.load("out.onnx").graph.node) <= 13


def start(*arguments: str, **options: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", "from passat.cli import main; main()", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload, no-any-return]  # options of the caller


def test_an_interruption_during_saturation_writes_the_best_so_far() -> None:
    Path("rules.py").write_text(EXPLODING + NOTICED)
    onnx.save(sum_of(16), "in.onnx")
    limits = ["--config", "rules.nodes=100000000", "--config", "rules.matches=100000000", "--config", "rules.seconds=600.0"]
    with start("optimize", "in.onnx", "-o", "out.onnx", "--rules", "rules.py", *limits) as process:
        while not Path("matched").exists() and process.poll() is None:
            time.sleep(0.05)
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()  # runaway allocation takes gigabytes
    assert process.returncode == 130, err
    assert err == "error: interrupted; nothing better was found so far, so the input was written to out.onnx\n"
    assert "interrupted; the best program so far was extracted" in " ".join(out.split())
    assert len(onnx.load("out.onnx").graph.node) <= 39
    assert sorted(os.listdir()) == ["in.onnx", "matched", "out.onnx", "rules.py"]


def test_a_second_interruption_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = Matcher.decide

    def pressed(self: Matcher, graph: Graph, row: Sequence[int]) -> tuple[int, int]:
        signal.raise_signal(signal.SIGINT)
        return decide(self, graph, row)

    monkeypatch.setattr(Matcher, "decide", pressed)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    Path("rules.py").write_text(EXPLODING)
    onnx.save(sum_of(4), "in.onnx")
    result = CliRunner().invoke(app, ["optimize", "in.onnx", "-o", "out.onnx", "--rules", "rules.py"])
    signal.signal(signal.SIGINT, before)
    assert result.exit_code == 130
    assert result.stderr == "error: interrupted; nothing was written\n"
    assert not Path("out.onnx").exists()


def test_a_full_disk_leaves_nothing_behind() -> None:
    def fill() -> None:
        # no file may exceed this size: writing then fails as on a full disk, with another error number
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    with start("optimize", str(RESNET), "-o", "out.onnx", "--no-verify", "-O0", preexec_fn=fill) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert out == ""
    assert os.listdir() == []


@pytest.mark.parametrize(
    "arguments", [["optimize", str(RESNET), "-o", "out.onnx", "--no-verify", "-O0"], ["--help"]], ids=["optimize", "help"]
)
def test_a_full_device_for_standard_output_is_one_sentence(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "passat", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert ("out.onnx was written" in done.stderr) == Path("out.onnx").exists() == (arguments[0] == "optimize")


def test_an_interruption_while_the_command_line_is_imported() -> None:
    code = """
import builtins, sys
from passat.__main__ import main
def interrupt(*arguments): raise KeyboardInterrupt
builtins.__import__ = interrupt
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


def test_an_interruption_while_a_compiled_module_is_imported() -> None:
    failed = ImportError("initialization failed")
    raise_interrupt(failed)
    failed.__cause__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        raise_interrupt(failed)
    failed.__cause__ = Terminated()
    with pytest.raises(Terminated):
        raise_interrupt(failed)


def test_a_tensor_that_contradicts_its_shape_is_not_blamed_on_a_pass(empty: Path) -> None:
    """Its contents are read when something folds them."""
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[2, 3], raw_data=b"\0" * 20)
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in ("x", "y")]
    nodes = [onnx.helper.make_node("Add", ["w", "w"], ["z"]), onnx.helper.make_node("Add", ["x", "z"], ["y"])]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", info[:1], info[1:], [tensor]))
    Path("model.onnx").write_bytes(model.SerializeToString())
    sentence = rejected("optimize", "model.onnx", "-o", "out.onnx")
    assert sentence.startswith("error: model.onnx: the tensor 'w', declared as float32[2, 3], cannot be read")
    assert "pass" not in sentence


@pytest.mark.parametrize("folder", [".", "/"])
def test_a_folder_without_a_name_is_no_model(folder: str) -> None:
    result = CliRunner().invoke(app, ["optimize", folder])
    assert result.exit_code == 1
    assert result.stderr.strip() == f"error: {folder} cannot be read: Is a directory; nothing was written"


@pytest.mark.parametrize(("model", "reason"), [("/", "Is a directory"), ("no/model.onnx", "No such file or directory")])
def test_what_cannot_be_read_is_named_before_what_cannot_be_written(monkeypatch: pytest.MonkeyPatch, model: str, reason: str) -> None:
    """For users who may write neither beside the model nor in its folder."""
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    result = CliRunner().invoke(app, ["optimize", model])
    assert result.stderr.strip() == f"error: {model} cannot be read: {reason}; nothing was written"
