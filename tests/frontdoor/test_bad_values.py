"""Every option of every command, and every key of `--config`, on invalid values: one sentence and exit code 1 or 2, or the command does its
work; never a traceback, an error inside Passat, an endless read, or half-written output."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any as AnyValue
from typing import Final

import pytest
import typer
from onnx import TensorProto, helper
from typer.testing import CliRunner, Result

from passat.cli.app import app
from passat.passmgr import PassContext

RULES = '''
from passat.rules import RuleSet, op, tensor

x = tensor("x")


class Swept(RuleSet):
    """Absolute values of absolute values."""

    twice = op.abs(op.abs(x)) >> op.abs(x)
'''
FAST: Final = ("--passes", "InferType")
COMMANDS: Final = {
    "optimize": ("in.onnx", "-o", "out.onnx", "--no-verify", *FAST),
    "order": FAST,
    "passes": ("InferType",),
    "bisect": ("in.onnx", *FAST),
    "rules bisect": ("in.onnx", *FAST),
    "replay": ("folder",),
    "extract": ("egraph.json", "--time-limit", "0"),
    "explain": ("in.onnx",),
    "inspect": ("in.onnx",),
    "diff": ("in.onnx", "in.onnx"),
    "profile": ("in.onnx", "in.onnx", "--seconds", "0.1"),
    "run": ("in.onnx",),
    "config list": (),
    "config explain": ("rules.math",),
    "rules check": ("rules.py", "--instances", "1"),
    "rules list": ("--rules", "rules.py"),
    "rules doc": ("rules.py",),
    "rules why-not": ("Swept.twice", "in.onnx", "--rules", "rules.py", *FAST),
}
"""Arguments with which each command does something in little time."""
WRITTEN: Final = ("output", "page", "dump_ir", "certificate", "save", "reproducer")
"""Options that name outputs; other tests cover what they reject."""
NUMBERS: Final = (
    "opt_level",
    "seed",
    "margin",
    "rtol",
    "atol",
    "time_limit",
    "top",
    "candidates",
    "opset",
    "pass_limit",
    "instances",
    "nearest",
    "threads",
    "jobs",
    "seconds",
)


def commands() -> Iterator[tuple[str, AnyValue]]:
    """All commands by name."""
    pending: list[tuple[tuple[str, ...], AnyValue]] = [((), typer.main.get_command(app))]
    while pending:
        path, command = pending.pop()
        if hasattr(command, "commands"):
            pending += [((*path, name), each) for name, each in command.commands.items()]
        else:
            yield " ".join(path), command


OPTIONS: Final = [
    (name, parameter.name, parameter.opts[0] if parameter.param_type_name == "option" else "")
    for name, command in commands()
    for parameter in command.params
    if not getattr(parameter, "is_flag", False) and parameter.name not in WRITTEN
]


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("swept"))
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", infos[:1], infos[1:])
    Path("in.onnx").write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    Path("rules.py").write_text(RULES)
    Path("egraph.json").write_text(
        json.dumps({"nodes": {"n": {"op": "x", "cost": 1.0, "eclass": "c", "children": []}}, "root_eclasses": ["c"]})
    )
    Path("folder").mkdir()
    os.mkfifo("pipe")
    yield
    os.chdir(before)


def run(command: str, *arguments: str) -> Result:
    """Runs a command, and checks what must hold for any arguments."""
    before = set(os.listdir())
    result = CliRunner().invoke(app, [*command.split(), *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 1, 2)
    for said in ("Passat itself", "Traceback", " failed: ", "failed at the function"):
        assert said not in result.output
    if result.exit_code:
        assert "rror" in result.stderr
        assert set(os.listdir()) == before
    Path("out.onnx").unlink(missing_ok=True)
    return result


def test_every_command_is_swept() -> None:
    assert {name for name, _ in commands()} == set(COMMANDS)


@pytest.mark.parametrize(("command", "name", "option"), OPTIONS, ids=lambda value: str(value) or "argument")
def test_a_value_that_makes_no_sense_is_a_sentence(command: str, name: str, option: str) -> None:
    for value in ("", "x", "-1", "nan", "1e400") if name in NUMBERS else ("x", "/dev/zero", "pipe"):
        if option:
            result = run(command, *COMMANDS[command], option, value)
        else:
            at = 1 if (command, name) == ("rules why-not", "model") else 0
            given = COMMANDS[command] if COMMANDS[command][:1] != ("--rules",) else ()
            result = run(command, *given[:at], value, *given[at + 1 :])
        if name in NUMBERS and value != "1e400":
            assert result.exit_code == 2, value
        if name in ("model", "models", "rules", "inputs", "file", "what") and value in ("x", "/dev/zero", "pipe"):
            assert result.exit_code in (1, 2), value


@pytest.mark.parametrize("key", PassContext.list_configs())
def test_an_option_of_the_passes_that_makes_no_sense_is_a_sentence(key: str) -> None:
    for value in ("x", "-1", "nan", "null", "", '{"x": -1}'):
        assert run("order", *COMMANDS["order"], "--config", f"{key}={value}").exit_code == 2, value
    for value in ("1e400", "{}"):
        assert run("optimize", *COMMANDS["optimize"], "--config", f"{key}={value}").exit_code in (0, 2), value


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--disable", "FoldConstnt"),
            "--disable names 'FoldConstnt', which is neither a pass of this pipeline nor registered; did you mean FoldConstant?",
        ),
        (
            ("--disable", "involution_twice"),
            "--disable names 'involution_twice', which is neither a pass of this pipeline nor registered; did you mean "
            "Arithmetic.involution_twice?",
        ),
        (("--disable", "Viewz"), "--disable names 'Viewz', which is neither a pass of this pipeline nor registered; did you mean Views?"),
        (("--disable", "Qqqq"), "nor registered; `passat passes` and `passat rules list` show all names"),
        (("--require", "Nothing"), "--require names 'Nothing', which is neither a pass of this pipeline nor registered"),
        (
            ("--config", 'rules.disabled=["View"]'),
            "config rules.disabled names 'View', which is neither a rule nor a rule set; did you mean Views?",
        ),
        (
            ("--config", 'rules.disabled=["Swept.twic"]', "--rules", "rules.py"),
            "names 'Swept.twic', which is neither a rule nor a rule set; did you mean",
        ),
        (("--passes", "@/dev/zero"), "the pipeline @/dev/zero cannot be read: it is a device, not a file"),
        (("--rules", "/dev/zero"), "/dev/zero cannot be read: it is a device, not a file"),
    ],
)
@pytest.mark.parametrize("command", ["optimize", "order", "bisect", "rules bisect", "rules why-not"])
def test_names_and_files_that_are_none_are_rejected_by_every_command(command: str, arguments: tuple[str, ...], said: str) -> None:
    result = run(command, *COMMANDS[command], *arguments)
    assert result.exit_code == (1 if "--rules" in arguments and "/dev/zero" in arguments else 2)
    assert said in result.stderr


def test_disable_takes_rules_and_sets_too() -> None:
    for name in ("ConstantFolding", "ConstantFolding.call", "Swept.twice"):
        assert run("optimize", *COMMANDS["optimize"], "--rules", "rules.py", "--disable", name).exit_code == 0
    result = run("optimize", *COMMANDS["optimize"], "--rules", "rules.py", "--disable", "Swept.twic")
    assert result.exit_code == 2
    assert "config rules.disabled names 'Swept.twic', which is neither a rule nor a rule set; did you mean Swept.twice?" in result.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Turned[exp]", "did you mean Turned.pair[exp]?"),
        ("Turned[ex]", "did you mean Turned.pair[exp]?"),
        ("Turned.pair[ex]", "did you mean Turned.pair[exp]?"),
        ("Swept[exp]", "Swept can only be disabled for all operators, as Swept"),
        ("ConstantFolding.call[take]", "ConstantFolding.call can only be disabled for all operators, as ConstantFolding.call"),
        ("ConstantFolding[take]", "ConstantFolding can only be disabled for all operators, as ConstantFolding"),
    ],
)
def test_rules_are_disabled_for_one_operator_by_the_name_of_the_form(name: str, said: str) -> None:
    turned = """
from passat.rules import operator
f = operator("f", "exp", "sqrt")
class Turned(RuleSet):
    pair = f(op.negative(op.negative(x))) >> f(x)
"""
    Path("turned.py").write_text(Path("rules.py").read_text() + turned)
    arguments = (*COMMANDS["optimize"], "--rules", "turned.py", "--disable")
    assert run("optimize", *arguments, "Turned.pair[exp]").exit_code == 0
    result = run("optimize", *arguments, name)
    assert result.exit_code == 2
    assert f"names {name!r}, which is neither a rule nor a rule set; {said}" in result.stderr


def test_rules_that_exist_are_disabled() -> None:
    for name in ("Arithmetic", "Arithmetic.add_zero", "Swept", "Swept.twice"):
        assert run("optimize", *COMMANDS["optimize"], "--rules", "rules.py", "--config", f'rules.disabled=["{name}"]').exit_code == 0
