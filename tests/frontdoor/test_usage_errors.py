"""Invalid arguments: with --json the error is reported as JSON, like all errors."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import passat
from passat.cli.app import app
from passat.rules import op

EXAMPLE = Path(__file__).parents[2] / "examples" / "models" / "resnet_tiny.onnx"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("optimize --json", "Missing argument 'IN'."),
        ("optimize a.onnx -o b.onnx --jason --json", "No such option: --jason"),
        ("optimize --json a.onnx -o b.onnx -O 9", "Invalid value for '--opt-level' / '-O'"),
        ("optimize a.onnx -o b.onnx --choose never --json", "Invalid value for '--choose': 'never' is not one of "),
        ("rules lst --json", "No such command 'lst'. Did you mean 'list'?"),
        ("optimizer --json", "No such command 'optimizer'. Did you mean 'optimize'?"),
        ("--bad optimize --json", "No such option: --bad"),
        ("optimize a.onnx --json --dump-ir=", "Invalid value for '--dump-ir': it is empty; give a value"),
    ],
)
def test_usage_errors_in_json(arguments: str, sentence: str) -> None:
    result = CliRunner().invoke(app, arguments.split())
    assert result.exit_code == 2
    assert list(json.loads(result.stdout)) == ["error"]
    said = json.loads(result.stdout)["error"]
    assert said.startswith(sentence)
    assert "\n" not in said
    assert "Usage: " in result.stderr


@pytest.mark.parametrize(
    "arguments",
    ["optimize", "optimize a.onnx -o b.onnx --jason", "rules lst", "optimise", "--bad", "rules list --json=3"],  # codespell:ignore optimise
)
def test_without_json_usage_errors_stand_on_the_error_stream_alone(arguments: str) -> None:
    result = CliRunner().invoke(app, arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error" in result.stderr


@pytest.mark.parametrize("option", ["-o", "--dump-ir", "--reproducer", "--rules", "--report", "--custom-ops", "--config", ""])
def test_empty_arguments_write_nothing_into_the_current_folder(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["optimize", str(EXAMPLE), "--no-verify", *filter(None, [option]), ""])
    assert (result.exit_code, result.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert "it is empty; give a value" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "option", ["-o", "--output", "--report", "--certificate", "--dump-ir", "--reproducer", "--rules", "--inputs", "--disable", "-j"]
)
@pytest.mark.parametrize("following", ["--dry-run", "-v", "--misspelled", "--rules=rules.py"])
def test_an_option_is_not_the_value_of_the_one_before_it(
    option: str, following: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["optimize", str(EXAMPLE), "--json", option, following])
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    long = {"-o": "--output", "-j": "--jobs"}.get(option, option)
    said = f"its value is missing: {following} reads as an option; if it is the value, write {long}={following}"
    assert json.loads(result.stdout) == {"error": f"Invalid value for '{option}': {said}"}


def test_a_value_may_begin_with_a_hyphen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (["--report=--page.html"], ["--disable", "-1"], ["-j2", "--rtol", "-0"]):
        result = CliRunner().invoke(app, ["optimize", str(EXAMPLE), "--dry-run", *arguments])
        assert "reads as an option" not in result.output
    assert Path("--page.html").exists()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--passes", ""], "the pipeline is empty"),
        (["--passes="], "the pipeline is empty"),
        (["--passes", "FoldConstant", "-O0"], "`passat order` says why"),
    ],
)
def test_a_pipeline_of_which_no_pass_runs_is_no_silent_one(given: list[str], why: str) -> None:
    result = CliRunner().invoke(app, ["optimize", str(EXAMPLE), "--no-verify", "--dry-run", *given])
    assert result.exit_code == 0
    assert f"! no pass runs: {why}\n" in result.stdout


def test_errors_of_a_command_are_printed_once() -> None:
    result = CliRunner().invoke(app, ["order", "--json", "--format", "svg"])
    assert result.exit_code == 2
    assert json.loads(result.stdout) == {"error": "--json and --format svg contradict each other"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("optimize m.onnx --candidates 2", "--candidates 2 applies to --choose time only; add --choose time, or drop --candidates"),
        ("optimize m.onnx -o out.onnx --dry-run", "--dry-run writes no model, which contradicts -o out.onnx"),
        ("optimize m.onnx --report m.optimized.onnx", "--report would overwrite m.optimized.onnx, which -o writes"),
        ("optimize m.onnx -o out.onnx --report m.onnx", "--report would overwrite m.onnx, which the command reads"),
        ("optimize m.onnx -o out.onnx --certificate ./m.onnx", "--certificate would overwrite m.onnx, which the command reads"),
        ("optimize m.onnx -o mine.py --rules mine.py", "-o would overwrite mine.py, which --rules reads"),
        ("optimize m.onnx -o out.onnx --report mine.py --rules mine.py", "--report would overwrite mine.py, which --rules reads"),
        ("optimize m.onnx -o out.onnx --inputs f.npz --report f.npz", "--report would overwrite f.npz, which --inputs reads"),
        ("optimize m.onnx -o a --passes @a", "-o would overwrite a, which --passes reads"),
        ("optimize m.onnx -o out.onnx --certificate out.onnx", "--certificate would overwrite out.onnx, which -o writes"),
        ("optimize m.onnx -o out.onnx --certificate a --report a", "--report would overwrite a, which --certificate writes"),
        ("order --rules mine.py -o mine.py", "-o would overwrite mine.py, which --rules reads"),
        ("order --passes @a -o a", "-o would overwrite a, which --passes reads"),
        ("rules doc mine.py -o mine.py", "-o would overwrite mine.py, which the command reads"),
    ],
)
def test_inputs_are_never_overwritten(arguments: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rejected(arguments, sentence, tmp_path, monkeypatch)


MARGIN = "--margin applies to --check slower or --check larger only, not to --check"
COMPARED = "sets how the result is compared with the input, and --no-verify disables the comparison"
DRAWN = "draws random inputs, and --inputs gives them all; drop one of the two"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("bisect m.onnx --margin 0.5", f"{MARGIN} wrong"),
        ("bisect m.onnx --margin 0", f"{MARGIN} wrong"),
        ("rules bisect m.onnx --margin 0.5 --check crash", f"{MARGIN} crash"),
        ("bisect m.onnx --rtol 0.1 --check slower", "--rtol applies to --check wrong only, not to --check slower"),
        ("rules bisect m.onnx --atol 0.1 --check crash", "--atol applies to --check wrong only, not to --check crash"),
        (
            "bisect m.onnx --seed 1 --check ./a",
            "--seed applies to --check wrong or --check slower or --check crash only, not to --check ./a",
        ),
        ("bisect m.onnx --inputs f.npz --check larger", "--inputs applies to --check wrong or "),
        ("bisect m.onnx --inputs f.npz --seed 7 --check slower", f"--seed 7 {DRAWN}"),
        ("optimize m.onnx --no-verify --seed 1", f"--seed {COMPARED}"),
        ("optimize m.onnx --no-verify --seed 1 --kernels --choose time --allow-unverified", f"--allow-unverified {COMPARED}"),
        ("optimize m.onnx --no-verify --choose time --rtol 0.1", f"--rtol {COMPARED}"),
        (
            "optimize m.onnx --choose time --explain",
            "--choose time tries several programs, and cannot explain or certify one of them; use --choose cost",
        ),
        ("optimize m.onnx --choose time --certificate c.json", "--choose time tries several programs, and cannot"),
        (
            "optimize m.onnx --time-limit 5 --config rules.time_limit=6",
            "--time-limit 5 and --config rules.time_limit=6 contradict each other",
        ),
        ("optimize m.onnx --explain --dry-run", "--explain writes into the result, and --dry-run writes none"),
        ("optimize m.onnx --stats --quiet", "--quiet and --stats contradict each other"),
        (
            "optimize m.onnx a -j 2 --cluster tcp://h:1",
            "--jobs 2 starts processes here, and --cluster runs the jobs elsewhere; drop one",
        ),
        (
            "rules check -j 2 --cluster tcp://h:1",
            "--jobs 2 starts processes here, and --cluster runs the jobs elsewhere; drop one of the two",
        ),
        ("profile m.onnx --inputs f.npz --seed 3", f"--seed 3 {DRAWN}"),
        ("run m.onnx --inputs f.npz --seed 3", f"--seed 3 {DRAWN}"),
        ("extract e.json --time-limit 0 --seed 3", "--seed 3 applies to the exact search, which --time-limit 0 disables"),
        ("order --json -o plan.svg", "--json and -o plan.svg contradict each other"),
        ("replay . --check ./a", "--check applies to folders that `passat rules bisect` wrote, and . is none"),
    ],
)
def test_an_option_without_effect_is_rejected(arguments: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rejected(arguments, sentence, tmp_path, monkeypatch)


def rejected(arguments: str, sentence: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name in ("m.onnx", "mine.py", "f.npz", "a"):
        Path(name).write_text("kept")
    result = CliRunner().invoke(app, arguments.split())
    assert (result.exit_code, sentence in result.stderr) == (2, True), result.stderr
    assert all(path.read_text() == "kept" for path in folder.iterdir())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("optimize m.onnx --report x.pdf", "--report x.pdf: the file must end with .html or .htm, not .pdf"),
        ("optimize m.onnx --certificate x.txt", "--certificate x.txt: the file must end with .json or .certificate, not .txt"),
        ("optimize m.onnx -o x.ort", "-o x.ort: the file must end with .onnx, not .ort"),
        ("optimize m.pb -o x.json", "-o x.json: the file must end with .onnx or .pb, not .json"),
        ("run m.onnx -o x.csv", "-o x.csv: the file must end with .npz, not .csv"),
        ("rules doc -o x.html", "-o x.html: the file must end with .md, .markdown or .txt, not .html"),
    ],
)
def test_an_ending_never_tells_another_format(arguments: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments.split())
    assert (result.exit_code, sentence in result.stderr) == (2, True), result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["optimize m.onnx", "order", "profile m.onnx", "bisect m.onnx"])
def test_an_option_of_the_passes_has_one_value(command: str) -> None:
    settings = ["--config", "rules.nodes=1", "--config", "rules.nodes=2"]
    result = CliRunner().invoke(app, [*command.split(), *settings])
    assert (result.exit_code, result.stderr.partition(";")[0].strip()) == (2, "error: --config gives rules.nodes two values, 1 and 2")
    result = CliRunner().invoke(app, ["order", *settings[:2], *settings[:2]])
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (lambda: passat.optimize("no-such.onnx"), 1),
        (lambda: passat.optimize(EXAMPLE, passes="NoSuch"), 2),
        (lambda: passat.optimize(EXAMPLE, config={"rules.mth": "exact"}), 2),
        (lambda: passat.optimize(EXAMPLE, rules="no-such.py"), 1),
        (lambda: passat.optimize(EXAMPLE, candidates=0), 2),
        (lambda: passat.optimize(EXAMPLE, inputs={"y": np.zeros(1)}), 1),
        (lambda: passat.optimize(EXAMPLE, custom_ops=["no-such.so"]), 1),
        (lambda: passat.optimize(EXAMPLE).explain(), 1),
        (lambda: passat.relay.fromtext("def"), None),
        (lambda: op.nothing(1), 1),
    ],
)
def test_every_error_has_one_base(cause: Callable[[], object], code: int | None) -> None:
    with pytest.raises(passat.PassatError) as caught:
        cause()
    assert caught.value.exit_code == code


def test_a_read_only_folder_is_named_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").touch()
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **how: mode != os.W_OK and may(path, mode, **how))  # root may write anywhere
    result = CliRunner().invoke(app, ["optimize", "m.onnx"])
    sentence = f"m.optimized.onnx cannot be written: the folder {tmp_path} is read-only; choose another file with -o"
    assert (result.exit_code, result.stderr) == (2, f"error: {sentence}; nothing was written\n")
