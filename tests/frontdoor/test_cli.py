"""The command line on valid input: output, files, exit codes."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner, Result

import passat
from passat.cli.app import app
from passat.passmgr import registry
from tests import processes

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "models"
RESNET = EXAMPLES / "resnet_tiny.onnx"
RULES = '''
"""Rules of a user."""
from passat.rules import RuleSet, op, tensors

(x,) = tensors("x")

class Mine(RuleSet):
    """What I know about my models."""

    relu = op.nn.relu(x) >> op.maximum(x, 0.0)
'''


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_version() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"passat {passat.__version__}\n")


def test_help_answers_without_importing_anything_heavy() -> None:
    code = "import sys; from passat.cli.app import app; print([m for m in ('numpy', 'onnx', 'egglog', 'networkx') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_optimize_writes_a_smaller_model_and_a_report(empty: Path) -> None:
    result = run("optimize", RESNET, "-o", "out.onnx")
    assert result.exit_code == 0, result.stderr
    assert "73 nodes became 51" in result.stdout
    assert "BatchNormalization" in result.stdout
    assert "verified on ONNX Runtime" in result.stdout
    assert "written to out.onnx" in result.stdout
    assert result.stderr == ""
    assert len(onnx.load("out.onnx").graph.node) < len(onnx.load(RESNET).graph.node)
    assert [path.name for path in empty.iterdir()] == ["out.onnx"]


def test_an_ending_that_names_no_format_is_taken(empty: Path) -> None:
    assert run("optimize", RESNET, "-o", "tmp.Ab3xYz", "--no-verify").exit_code == 0
    assert onnx.load(empty / "tmp.Ab3xYz").graph.node


def test_optimize_prints_json_and_nothing_else(empty: Path) -> None:
    result = run("optimize", RESNET, "-o", "out.onnx", "--json")
    report = json.loads(result.stdout)
    assert result.stderr == ""
    assert report["node_count_after"] < report["node_count_before"]
    assert report["verification"]["equal"] is True
    assert report["output"] == "out.onnx"
    assert {"name", "seconds", "depth", "counters", "own", "stage"} == set(report["passes"][0])


def test_the_result_is_written_beside_the_input_by_default(empty: Path) -> None:
    shutil.copy(RESNET, empty / "model.onnx")
    result = run("optimize", "model.onnx", "--no-verify")
    assert result.stdout.endswith("written to model.optimized.onnx\n")
    assert sorted(os.listdir()) == ["model.onnx", "model.optimized.onnx"]


def test_optimizing_in_place_leaves_no_former_data(empty: Path) -> None:
    model = onnx.load(RESNET)
    onnx.save(model, "model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    want = onnx.load("model.onnx")
    for data in ("model.onnx.1.data", "model.onnx.data"):
        result = run("optimize", "model.onnx", "-o", "model.onnx", "--no-verify")
        assert result.exit_code == 0, result.stderr
        assert "is left" not in result.stdout
        assert sorted(os.listdir()) == ["model.onnx", data]
    assert {each.name for each in onnx.load("model.onnx").graph.output} == {each.name for each in want.graph.output}
    shutil.copy("model.onnx", "backup.onnx")
    result = run("optimize", "model.onnx", "-o", "model.onnx", "--no-verify")
    assert "! model.onnx.data, which the former model.onnx refers to, is left: backup.onnx refers to it" in result.stdout
    assert sorted(os.listdir()) == ["backup.onnx", "model.onnx", "model.onnx.1.data", "model.onnx.data"]


def test_a_dry_run_writes_no_model(empty: Path) -> None:
    shutil.copy(RESNET, empty / "model.onnx")
    result = run("optimize", "model.onnx", "--no-verify", "--dry-run", "--report", "page.html", "--certificate", "proof.json")
    assert "73 nodes became 51" in result.stdout
    assert result.stdout.endswith("no model was written (--dry-run)\nthe page is in page.html\nthe certificate is in proof.json\n")
    assert re.search(r"^rule +fired +matched +rejected$", result.stdout, re.MULTILINE), "without --stats no statistics"
    assert sorted(os.listdir()) == ["model.onnx", "page.html", "proof.json"]
    assert json.loads(run("optimize", "model.onnx", "--no-verify", "--dry-run", "--json").stdout)["output"] == ""


def test_optimize_in_place(empty: Path) -> None:
    Path("m.onnx").write_bytes(RESNET.read_bytes())
    assert run("optimize", "m.onnx", "-o", "m.onnx").exit_code == 0
    assert len(onnx.load("m.onnx").graph.node) < len(onnx.load(RESNET).graph.node)


def test_a_file_that_is_replaced_keeps_its_mode_and_a_link_stays(empty: Path) -> None:
    Path("folder").mkdir()
    target, link = Path("folder/m.onnx"), Path("link.onnx")
    target.write_bytes(RESNET.read_bytes())
    target.chmod(0o640)
    link.symlink_to(target)
    assert run("optimize", RESNET, "-o", "expected.onnx", "--no-verify").exit_code == 0
    assert run("optimize", link, "-o", link, "--no-verify", "--report", "page.html").exit_code == 0
    assert link.is_symlink()
    assert target.read_bytes() == Path("expected.onnx").read_bytes()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert list(Path("folder").iterdir()) == [target]


def test_the_target_of_a_link_need_not_exist_but_its_folder(empty: Path) -> None:
    link = Path("link.onnx")
    link.symlink_to("folder/m.onnx")
    arguments = ("optimize", RESNET, "-o", link, "--no-verify")
    assert "the folder " in run(*arguments).stderr
    Path("folder").mkdir()
    assert run(*arguments).exit_code == 0
    assert onnx.load("folder/m.onnx").graph.node


def test_a_model_that_comes_through_a_pipe_is_verified(empty: Path) -> None:
    with subprocess.Popen(["cat", RESNET], stdout=subprocess.PIPE) as pipe:
        assert pipe.stdout is not None
        done = run("optimize", f"/dev/fd/{pipe.stdout.fileno()}", "-o", "out.onnx", "--json")
    assert json.loads(done.stdout)["verification"]["equal"] is True


def test_names_that_the_terminal_cannot_show(empty: Path) -> None:
    Path("mödel.onnx").write_bytes(RESNET.read_bytes())
    command = [sys.executable, "-m", "passat", "optimize", "mödel.onnx", "-o", "öut.onnx", "--no-verify", "-O0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("written to \\xf6ut.onnx\n")


@pytest.mark.parametrize("columns", ["0", "", "wide"])
def test_a_width_that_is_none_does_not_count(columns: str, empty: Path) -> None:
    """Nothing was printed in 0 columns, which terminals without a size have."""
    usual = processes.run(["passat", "passes"], empty)
    assert max(map(len, usual.stdout.splitlines())) > 120
    found = processes.run(["passat", "passes"], empty, {"COLUMNS": columns})
    assert (found.returncode, found.stdout) == (0, usual.stdout)


def test_forced_colors_make_no_terminal(empty: Path) -> None:
    found = processes.run(["passat", "passes"], empty, {"FORCE_COLOR": "1"})
    assert "\x1b[" in found.stdout
    assert max(map(len, found.stdout.splitlines())) > 120


def test_the_same_input_gives_the_same_file(empty: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        assert run("optimize", RESNET, "-o", name, "--no-verify").exit_code == 0
    assert Path("a.onnx").read_bytes() == Path("b.onnx").read_bytes()


def test_the_same_input_gives_the_same_file_in_every_process(empty: Path) -> None:
    """Another process has another order of hashes, and its e-graph was never used."""
    arguments = ["optimize", str(EXAMPLES / "bert_tiny.onnx"), "--no-verify", "-o"]
    assert run(*arguments, "here.onnx").exit_code == 0
    command = [sys.executable, "-m", "passat", *arguments, "there.onnx"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    assert Path("here.onnx").read_bytes() == Path("there.onnx").read_bytes()


def test_a_pipeline_and_a_level_can_be_given(empty: Path) -> None:
    result = run("optimize", RESNET, "-o", "out.onnx", "--passes", "FoldBatchNorm", "-O", "1", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["kept"] == "no pass changed anything"


def test_options_of_the_passes_can_be_given(empty: Path) -> None:
    exact = run("optimize", RESNET, "-o", "out.onnx", "--config", "rules.math=exact", "--json")
    assert json.loads(exact.stdout)["nodes_after"]["BatchNormalization"] == 22
    assert run("optimize", RESNET, "-o", "out.onnx", "--config", "rules.math").exit_code == 2
    assert run("optimize", RESNET, "-o", "out.onnx", "--config", "rules.meth=exact").exit_code == 2


@pytest.mark.parametrize(("math", "left"), [("exact", 22), ("reassociate", 0), ("finite", 0)])
def test_math_is_a_short_form_of_rules_math(empty: Path, math: str, left: int) -> None:
    result = run("optimize", RESNET, "-o", "out.onnx", "--math", math, "--config", f"rules.math={math}", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["nodes_after"].get("BatchNormalization", 0) == left


def test_no_other_math_is_known(empty: Path) -> None:
    assert run("optimize", RESNET, "-o", "out.onnx", "--math", "fast").exit_code == 2


def test_a_users_rules_py_in_an_empty_folder(empty: Path) -> None:
    Path("rules.py").write_text(RULES)
    result = run("optimize", RESNET, "-o", "out.onnx", "--rules", "rules.py", "--json")
    assert result.exit_code == 0, result.stderr
    assert next(rule for rule in json.loads(result.stdout)["rules"] if rule["name"] == "Mine.relu")["matched"] > 0
    named = run("optimize", RESNET, "-o", "out.onnx", "--rules", "rules.py", "--passes", "Mine", "--json")
    assert json.loads(named.stdout)["pipeline"] == "Mine"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--config", "rules.math=exact"), "it is excluded by rules.math = exact: it needs reassociate (once)"),
        (("--disable", "Mine.sines"), "it is disabled: rules.disabled names Mine.sines"),
        (("--disable", "Mine"), "Mine does not run: it is disabled"),
        (("--config", 'rules.disabled=["Mine"]'), "it is disabled: rules.disabled names Mine"),
        ((), "nothing matched its left side"),
    ],
)
def test_a_disabled_rule_states_the_reason(empty: Path, options: tuple[str, ...], why: str) -> None:
    Path("rules.py").write_text(RULES + '    sines = (op.sin(op.sin(x)) >> op.sin(x)).inexact("once")\n')
    onnx.save(onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Relu(x) }'), "m.onnx")
    command = ["optimize", "m.onnx", "-o", "out.onnx", "--no-verify", "--stats", "--rules", "rules.py", *options]
    (said,) = re.findall(r"! Mine.sines did not fire: (.*?)(?= !| verification| written)", " ".join(run(*command).stdout.split()))
    assert said == why
    (row,) = [row for row in json.loads(run(*command, "--json").stdout)["rules"] if row["name"] == "Mine.sines"]
    assert row["why_not_run"] == ("" if said.startswith("nothing") else said)
    answer = run("rules", "why-not", "Mine.sines", "m.onnx", "--rules", "rules.py", *options).stdout
    assert said in " ".join(answer.split()) or not row["why_not_run"]


def write_pass(registered: str, own: str) -> None:
    """Writes a rule file, passes.py, with a pass that is registered under one name and has another of its own."""
    Path("passes.py").write_text(f"""
from passat.passmgr import module_pass, register_pass


@register_pass("{registered}")
@module_pass(opt_level=0, name="{own}")
def idle(mod, ctx):
    \"\"\"Nothing.\"\"\"
    return mod
""")


def test_the_report_lists_passes_of_rule_files_that_did_not_run(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))  # other tests list the passes
    write_pass("IdleOfTest", "IdleOfTest")
    command = ["optimize", RESNET, "-o", "out.onnx", "--no-verify", "--rules", "passes.py", "--json"]
    result = run(*command, "--passes", "FoldConstant")
    said = (
        "passes.py registers the pass IdleOfTest, which does not run: a pipeline has to name it, or all passes of its `after` and `before`"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["warnings"] == [said]
    assert json.loads(run(*command, "--passes", "IdleOfTest").stdout)["warnings"] == []


def test_the_report_lists_passes_of_rule_files_above_the_level(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))  # other tests list the passes
    write_pass("HighOfTest", "HighOfTest")
    Path("passes.py").write_text(Path("passes.py").read_text().replace("opt_level=0", 'opt_level=4, after=["SimplifyShapes"]'))
    command = ["optimize", RESNET, "-o", "out.onnx", "--no-verify", "--rules", "passes.py", "--json"]
    said = (
        "passes.py registers the pass HighOfTest, which does not run: its level 4 > 3; a higher level, or requiring it by name, enables it"
    )
    assert json.loads(run(*command).stdout)["warnings"] == [said]
    for enabling in (("-O", "4"), ("--require", "HighOfTest"), ("--disable", "HighOfTest")):
        assert json.loads(run(*command, *enabling).stdout)["warnings"] == []


@pytest.mark.parametrize("command", ["optimize", "order"])
def test_a_pass_that_is_registered_under_another_name_than_its_own_runs(empty: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))  # other tests list the passes
    write_pass("RegisteredOfTest", "OwnOfTest")
    given = [RESNET, "--dry-run", "--no-verify"] if command == "optimize" else []
    result = run(command, *given, "--rules", "passes.py", "--passes", "RegisteredOfTest")
    assert result.exit_code == 0
    assert "not run" not in result.output


def test_output_of_a_rule_file_does_not_mix_with_json(empty: Path) -> None:
    Path("rules.py").write_text("print('hello')\n" + RULES)
    result = run("optimize", RESNET, "-o", "out.onnx", "--rules", "rules.py", "--json")
    assert result.stderr == "hello\n"
    assert json.loads(result.stdout)["output"] == "out.onnx"


def test_a_rule_file_that_is_given_twice_counts_once(empty: Path) -> None:
    Path("rules.py").write_text(RULES)
    result = run("order", "--rules", "rules.py", "--rules", "./rules.py", "--passes", "Mine", "--format", "json")
    assert json.loads(result.stdout)["order"] == ["InferType", "Mine"]


def test_a_rule_that_did_not_fire_states_the_reason(empty: Path) -> None:
    two = RULES.replace('tensors("x")', 'tensors("x")\nc = constant("c")').replace("op, tensors", "constant, op, tensors")
    two = two.replace("import RuleSet", "import RuleSet") + "    none = op.sin(op.sin(x)) >> op.sin(x)\n"
    two += "    zero = (op.maximum(x, c) >> x).when(is_all(c, -7))\n"
    Path("rules.py").write_text("from passat.rules.guards import is_all\n" + two)
    text = " ".join(run("optimize", RESNET, "-o", "out.onnx", "--rules", "rules.py").stdout.split())  # lines are as wide as the terminal
    assert "! Mine.none did not fire: nothing matched its left side" in text
    assert "! Mine.zero did not fire: 38 matches, 38 rejected: is_all(c, -7): the elements of the constant are 0.0, not -7" in text


def test_order_in_every_format(empty: Path) -> None:
    text = run("order")
    assert text.exit_code == 0
    assert "SimplifyExpr" in text.stdout
    assert "does not run" in run("order", "-O", "0").stdout
    assert run("order", "--format", "svg").stdout.startswith("<svg")
    plan = json.loads(run("order", "--format", "json", "--passes", "FoldConstant").stdout)
    assert plan["order"][-1] == "FoldConstant"


def test_order_shows_where_user_rules_run(empty: Path) -> None:
    Path("rules.py").write_text(RULES)
    lines = run("order", "--rules", "rules.py").stdout.splitlines()
    assert sum("Mine" in line for line in lines) >= 2


def test_passes_are_listed() -> None:
    rows = {row["name"]: row for row in json.loads(run("passes", "--json").stdout)}
    assert {"FoldConstant", "SimplifyExpr", "InferType"} <= set(rows)
    assert rows["FoldConstant"]["doc"]
    assert "FoldConstant" in run("passes").stdout


def test_every_rule_of_the_library_is_listed_with_its_passes() -> None:
    rows = json.loads(run("rules", "list", "--json").stdout)
    assert len(rows) > 20
    assert len({row["name"] for row in rows}) == len(rows)
    assert all(row["passes"] and " -> " in row["rule"] for row in rows if row["math"] == "exact" and " <-> " not in row["rule"])
    lines = run("rules", "list").stdout.splitlines()
    assert rows[0]["name"] in lines[0]
    long = next(lines[place + 1 :] for place, line in enumerate(lines) if line.startswith("Views.fuse "))
    assert [long[0], long[1][:28]] == ["    A", "    -> reshape(x, newshape=n"]
    assert any(line.startswith("    A = outer(reshape=reshape(B, ") for line in long[:8])


def test_rules_of_a_file_are_listed(empty: Path) -> None:
    Path("rules.py").write_text(RULES)
    result = run("rules", "list", "--rules", "rules.py")
    assert result.stdout == "Mine.relu\n    nn.relu(x) -> maximum(x, 0.0)\n"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('.inexact("once")', "    reassociate: once\n"),
        ('.inexact("once", nonfinite="resolved")', "    reassociate: once (NaN may become infinite)\n"),
        ('.inexact("once", nonfinite="mixed")', "    reassociate: once (infinities and NaN may become one another)\n"),
        ('.finite("none is")', "    finite: none is\n"),
    ],
)
def test_effects_of_rules_on_values_are_listed(empty: Path, said: str, told: str) -> None:
    Path("rules.py").write_text(RULES.replace("op.nn.relu(x) >> op.maximum(x, 0.0)", f"(op.nn.relu(x) >> op.maximum(x, 0.0)){said}"))
    assert run("rules", "list", "--rules", "rules.py").stdout.endswith(told)


@pytest.mark.parametrize("kind", ["exploring", "joining", "lowering", "eager"])
def test_the_kind_of_a_rule_is_listed_unless_it_is_reducing(empty: Path, kind: str) -> None:
    Path("rules.py").write_text(RULES.replace("op.nn.relu(x) >> op.maximum(x, 0.0)", f"(op.nn.relu(x) >> op.maximum(x, 0.0)).{kind}()"))
    assert run("rules", "list", "--rules", "rules.py").stdout.endswith(f"maximum(x, 0.0)\n    kind: {kind}\n")
    (row,) = json.loads(run("rules", "list", "--rules", "rules.py", "--json").stdout)
    assert (row["kind"], row["kind_in"]) == (kind, {})


def test_each_rule_of_the_library_has_a_kind_and_those_that_passes_use_it_as() -> None:
    rows = {row["name"]: row for row in json.loads(run("rules", "list", "--json").stdout)}
    assert {row["kind"] for row in rows.values()} == {"reducing", "exploring", "multi-pattern", "lowering", "eager"}
    assert rows["Reassociate.commuted"]["kind_in"] == {"Explore": ["joining", "exploring"], "LinearAlgebra": ["joining"]}
    listed = run("rules", "list").stdout
    assert "\n    kind: exploring; in Explore joining and exploring; in LinearAlgebra joining\n" in listed


def test_every_rule_pass_runs_the_rules_that_all_of_them_have() -> None:
    rows = {row["name"]: row for row in json.loads(run("rules", "list", "--json").stdout)}
    everywhere = set(rows["TupleProjection.field"]["passes"])
    assert {"FoldConstant", "SimplifyExpr", "SimplifyTupleGet"} <= everywhere
    assert everywhere >= set(rows["ConstantFolding.call"]["passes"])


def test_without_arguments_the_help_is_shown() -> None:
    assert "optimize" in run().output


@pytest.mark.skipif(os.name != "posix", reason="the shell closes the stream")
def test_closed_streams() -> None:
    shell = f'exec "{sys.executable}" -m passat inspect "{RESNET}" 2>&-'
    result = subprocess.run(["sh", "-c", shell], stdout=subprocess.PIPE, text=True, check=True)
    assert result.stdout.startswith(f"{RESNET}: ")
