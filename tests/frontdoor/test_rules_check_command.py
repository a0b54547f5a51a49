"""`passat rules check`: output, exit codes, JSON, and one message for each kind of invalid rule file."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from passat.cli.app import Terminated, app
from passat.render import ProgressLine

HEAD = """
from passat.rules import *
from passat.rules.guards import *
x, y, z = tensors("x y z")
c = constant("c")
"""


def run(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["rules", "check", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def file(folder: Path, body: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(f"{HEAD}\nclass Mine(RuleSet):\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    return path


def test_sets_of_the_library_are_checked_by_name() -> None:
    assert run("Transposes", "Reassociate", "--instances", "20") == "6 rules checked on 200 instances, 6 sound\n"
    assert "Transposes.merge: sound\n" in run("Transposes", "--instances", "10", "-v")


def test_a_wrong_rule_is_shown_with_its_smallest_instance(tmp_path: Path) -> None:
    path = file(tmp_path, "half = x / 2 >> x * 0.25\ntwice = op.negative(op.negative(x)) >> x")
    text = run(path, code=1)
    assert "Mine.half: rejected\n" in text
    assert "      left  divide(%x, 2f) = 0.5\n      right multiply(%x, 0.25f) = 0.25\n" in text
    assert "repeat with --rule Mine.half --seed 0\n" in text
    assert text.endswith("1 sound, 1 rejected\n")
    assert run(path, "--rule", "Mine.twice", "--instances", "10") == "1 rule checked on 10 instances, 1 sound\n"


def test_the_seed_reproduces_the_finding(tmp_path: Path) -> None:
    path = file(tmp_path, "swapped = x - y >> y - x")
    found = [json.loads(run(path, "--json", "--seed", "5", "--instances", "40", code=1)) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0][0]["seed"] == 5


def test_json_contains_all_facts_of_the_text(tmp_path: Path) -> None:
    path = file(tmp_path, "zero = (x + c >> x).when(is_all(c, 0), same_type(x, x + c))")
    [row] = json.loads(run(path, "--json", code=1))
    assert row["verdict"] == "rejected"
    assert row["fixed_by"] == ".inexact(...)"
    assert set(row["rejected"]) == {"is_all(c, 0)", "same_type(x, (x + c))"}
    assert row["counterexample"]["lines"][0] == "x: float32 = -0.0"
    assert row["findings"][0]["kind"] == "value"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("r = x + y >> x + z", ", line 8: rule [(x + y) -> (x + z)]: the right side uses 'z', which the left side does not bind"),
        ("r = op.nosuch(x) >> x", ", line 8: there is no operator 'nosuch'"),
        ("r = x + y >> y + x\nr = x * y >> y * x", ", line 9: Mine.r is defined twice; every rule of a set needs its own name"),
        ("r = 1 +", ", line 8: invalid syntax"),
        ("import nothing_here", ", line 8: ModuleNotFoundError: No module named 'nothing_here'"),
        (
            "r = x + y >> (y + x).when(is_float(x))",
            ".when(...) belongs to the rule, not to its right side: write (left >> right).when(...)",
        ),
        ("r = (x + y >> y + x).when(True)", "True is not a guard; write one with @guard"),
        ("pass", "defines no rules and registers no passes"),
    ],
    ids=("unbound", "operator", "name", "syntax", "import", "when", "guard", "none"),
)
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, body: str, sentence: str) -> None:
    path = file(tmp_path, body)
    output = run(path, code=1)
    assert output.startswith(f"error: {path}")
    assert sentence in output
    assert output.count("\n") == 1
    printed = CliRunner().invoke(app, ["rules", "check", str(path), "--json"]).stdout
    assert json.loads(printed)["error"] == output.removeprefix("error: ").rstrip()


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_invalid_rule_does_not_hide_the_others(tmp_path: Path, jobs: str) -> None:
    raises = "raises = (op.abs(op.abs(x)) >> op.abs(x)).when(guard(lambda x: x.shape)(x))"
    path = file(
        tmp_path, f'{raises}\ntypes = op.cast(x, dtype="int8") >> op.cast(x, dtype="float32")\nfine = op.negative(op.negative(x)) >> x'
    )
    text = run(path, "--instances", "10", "--jobs", jobs, code=1)
    assert "(mine.py:8)\n" in text
    assert " raises AttributeError: 'Term' object has no attribute 'shape'\n" in text
    assert "  ! the sides have different types: on x: Tensor[(2, 2), float32] the left side has type" in text
    assert text.endswith("3 rules checked on 10 instances, 1 sound, 2 rejected\n")


def test_raising_guards_and_looping_rules_are_reported(tmp_path: Path) -> None:
    path = file(tmp_path, "raises = (op.nn.relu(x) >> x).when(is_axis(0, 'a', x))\nloops = (x + y) >> (y + x)")
    text = run(path, "--instances", "20", code=1)
    assert "  ! the rule Mine.raises (mine.py:8): is_axis(0, 'a', x) raises TypeError: " in text
    assert "  ! returns to its input, so it improves no program: use .exploring(), or .and_back()\n" in text


def test_an_unknown_file_or_set_is_a_usage_error(tmp_path: Path) -> None:
    assert (
        run("Arithmetik", code=2)
        == "error: Arithmetik is neither a rule file nor a set of the library or of a plug-in; did you mean Arithmetic?\n"
    )
    assert run("Arithmetic", "--rule", "Arithmetic.cop", code=2).startswith(
        "error: no checked set has a rule Arithmetic.cop; did you mean Arithmetic.copy"
    )
    assert (
        run("Views.fuse", code=2)
        == "error: Views.fuse is a rule of the set Views: name the set; `passat rules check Views --rule Views.fuse` checks this rule alone\n"
    )
    assert "no checked set has a rule copy; did you mean Arithmetic.copy?" in run("Arithmetic", "--rule", "copy", code=2)
    assert "cannot be read: No such file" in run(tmp_path / "none.py", code=1)
    model = tmp_path / "model.onnx"
    assert run(model, code=2).startswith(f"error: {model} is a model, not a rule file; `passat rules why-not RULE {model}` ")


@pytest.mark.parametrize(("error", "said", "code"), [(KeyboardInterrupt, "interrupted", 130), (Terminated, "terminated", 143)])
def test_an_interruption_prints_the_checks_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[KeyboardInterrupt], said: str, code: int
) -> None:
    path = file(tmp_path, "half = x / 2 >> x * 0.25\ntwice = op.negative(op.negative(x)) >> x\nagain = op.abs(op.abs(x)) >> op.abs(x)")

    def press(_: ProgressLine, text: str) -> None:
        if text.startswith("checking Mine.again, 3 of 3"):
            raise error

    monkeypatch.setattr(ProgressLine, "__call__", press)
    result = CliRunner().invoke(app, ["rules", "check", str(path), "--instances", "20"])
    assert (result.exit_code, result.stderr) == (code, f"error: {said}; 2 of 3 rules were checked\n")
    assert "Mine.half: rejected\n" in result.stdout
    assert result.stdout.endswith("1 sound, 1 rejected\n")
    result = CliRunner().invoke(app, ["rules", "check", str(path), "--instances", "20", "--json"])
    assert result.exit_code == code
    assert [row["name"] for row in json.loads(result.stdout)] == ["Mine.half", "Mine.twice"]


def test_other_processes_give_the_same_report(tmp_path: Path) -> None:
    path = file(tmp_path, "half = x / 2 >> x * 0.25\nloops = (x + y) >> (y + x)\ntwice = op.negative(op.negative(x)) >> x")
    here, there = (json.loads(run(path, "Transposes", "--instances", "20", "--json", "--jobs", jobs, code=1)) for jobs in ("1", "2"))
    assert here == there
    assert [row["verdict"] for row in here if row["name"].startswith("Mine.")] == ["rejected", "rejected", "sound"]


def test_a_rule_that_ends_its_process_takes_no_other_rule_along(tmp_path: Path) -> None:
    path = file(tmp_path, "ends = (op.nn.relu(x) >> x).when(ends(x))\ntwice = op.negative(op.negative(x)) >> x")
    ends = "import os\n@guard\ndef ends(x):\n    return os._exit(3) if 'Mine' in globals() else True\n"
    path.write_text(path.read_text().replace("class Mine", f"{ends}class Mine"))
    text = run(path, "--instances", "20", "--jobs", "2", code=1)
    assert "Mine.ends: rejected\n" in text
    assert "  ! its process has ended; there may not be enough memory\n" in text
    assert text.endswith("1 sound, 1 rejected\n")


def test_other_processes_cannot_read_a_pipe(tmp_path: Path) -> None:
    path = file(tmp_path, "twice = op.negative(op.negative(x)) >> x")
    end, other = os.pipe()
    os.write(other, path.read_bytes())
    os.close(other)
    assert run(f"/dev/fd/{end}", "--jobs", "2", code=1).startswith("error: the set Mine does not come from a regular file")
    os.close(end)
