"""Options that several commands share, and their evaluation."""

import contextlib
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final
from typing import Any as AnyValue

import typer

from passat.cli import completion
from passat.cli.app import USAGE, fail
from passat.cli.command import PASSES, TRUST
from passat.ir.similar_names import did_you_mean, suggestion
from passat.ir.whole_file import written_file

if TYPE_CHECKING:
    from passat.passmgr import PassContext, Plan
    from passat.passmgr.inspection.printing import NameFilter
    from passat.rules.rule_set import RuleSet
    from passat.verify import Comparing

_OTHER_FORMATS: Final = frozenset(
    (
        *(".csv", ".dot", ".gz", ".html", ".jpg", ".json", ".md", ".npy", ".npz", ".onnx", ".ort", ".pb"),
        *(".pdf", ".pkl", ".png", ".pt", ".pth", ".svg", ".tflite", ".txt", ".xml", ".yaml", ".zip"),
    )
)
"""Endings that say what a file is. Others, such as those of temporary files, say nothing."""
_PIPELINE_LIMIT: Final = 1 << 24
"""Maximum size in bytes of a file with a pipeline."""


def not_nan(value: float | None) -> float | None:
    """Ends the command if a number is NaN, which no bound rejects."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("NaN is not allowed")
    return value


def as_option(name: str, *value: object) -> str:
    """A setting as an option of the command line, as messages write it.

    >>> as_option("allow_unverified"), as_option("verify", False), as_option("choose", "time")
    ('--allow-unverified', '--no-verify', '--choose time')
    """
    option = name.replace("_", "-")
    if value == (False,):
        return f"--no-{option}"
    return " ".join([f"--{option}", *(f"{each:g}" if isinstance(each, float) else str(each) for each in value if each is not True)])


RulesOption = Annotated[
    list[Path] | None, typer.Option("--rules", metavar="FILE.py", help="Python file with your own RuleSet classes (repeatable)")
]
CustomOpsOption = Annotated[
    list[Path] | None,
    typer.Option("--custom-ops", metavar="LIB", help="Library of custom operators for ONNX Runtime, which is executed (repeatable)"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs")]


@dataclass(frozen=True, kw_only=True)
class PassOptions:
    """The passes that run, with rules and options."""

    panel: ClassVar[str] = PASSES

    passes: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            autocompletion=completion.several_passes,
            help="Passes to run, such as 'FoldConstant, SimplifyExpr', @FILE to read them from a file, or '' for none "
            "(default: the default pipeline)",
        ),
    ] = None
    opt_level: Annotated[
        int, typer.Option("--opt-level", "-O", metavar="LEVEL", min=0, max=4, help="Level above which passes do not run")
    ] = 3
    disable: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", autocompletion=completion.passes_and_rules, help="Pass, rule or rule set to disable (repeatable)"),
    ] = None
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", autocompletion=completion.passes, help="Pass of the pipeline to run at any level (repeatable)"),
    ] = None
    rules: RulesOption = None
    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            autocompletion=completion.settings,
            help="Option of the passes, such as rules.math=exact; `passat config list` lists them (repeatable)",
        ),
    ] = None

    @property
    def files(self) -> dict[str, Sequence[str | Path]]:
        """The files that the options read."""
        pipeline = [self.passes[1:]] if self.passes is not None and self.passes.startswith("@") else []
        return {"--rules": self.rules or (), "--passes": pipeline}

    def context(self, config: Mapping[str, AnyValue] | None = None, *, apart: bool = False) -> "PassContext":
        """The context of the passes; options take precedence over `config`. With `apart`, adjacent rule passes run one by one unless an
        option says otherwise. Ends the command for invalid options."""
        from passat.passmgr import ConfigError, PassContext

        options = {**({"rules.joint": False} if apart else {}), **parse_config(self.config), **(config or {})}
        rules = [name for name in self.disable or () if _is_rule(name)]
        if rules:
            options["rules.disabled"] = [*options.get("rules.disabled", ()), *rules]
        try:
            return PassContext(self.opt_level, self.require, [name for name in self.disable or () if name not in rules], config=options)
        except ConfigError as error:
            fail(config_message(str(error)), USAGE)

    def text(self) -> str | None:
        """The text of the pipeline, which for `@FILE` is the content of the file. Ends the command if it cannot be read."""
        if self.passes is None or not self.passes.startswith("@"):
            return self.passes
        from passat.ir.bounded_read import read_bounded

        try:
            return read_bounded(self.passes[1:], _PIPELINE_LIMIT).decode("utf-8")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            fail(f"the pipeline {self.passes} cannot be read: {why}", USAGE)

    @contextlib.contextmanager
    def entered(self) -> "Iterator[tuple[str | None, list[type[RuleSet]]]]":
        """Enters the context of the options, and yields the text of the pipeline and the rule sets. Output of the user's rules goes to the
        error stream, so that it does not mix with the result. Ends the command for invalid options."""
        context, text, sets = self.context(), self.text(), load(self.rules)
        with contextlib.redirect_stdout(sys.stderr), context:
            for note in check_settings(text, sets, self.rules or ()):
                print(f"note: {note}", file=sys.stderr)
            yield text, sets


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """How models are compared."""

    panel: ClassVar[str] = TRUST

    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz", help="File of your own inputs by name (numpy.savez); models are compared on these and on random ones"
        ),
    ] = None
    rtol: Annotated[
        float | None,
        typer.Option(
            min=0, callback=not_nan, metavar="X", help="Relative tolerance for floating-point values (default: what rounding explains)"
        ),
    ] = None
    atol: Annotated[
        float | None,
        typer.Option(
            min=0, callback=not_nan, metavar="X", help="Absolute tolerance for floating-point values (default: what rounding explains)"
        ),
    ] = None
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the random inputs that models are compared on")] = 0
    custom_ops: CustomOpsOption = None

    def comparing(self) -> "Comparing":
        """The options as keywords of functions that compare models. Raises InputsError, ArgumentError."""
        from passat.verify import comparing

        return comparing(self.seed, self.inputs, self.rtol, self.atol)


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """The check of a bisection."""

    check: Annotated[
        str,
        typer.Option(
            metavar="CHECK",
            help="What is bad: 'wrong', other values than the original's; 'slower', more time; 'larger', more nodes or bytes; 'crash', a "
            "pass or ONNX Runtime that fails; or a command that fails on a model, which gets the path in place of {} or as its last "
            "argument, and runs without a shell: exit code 0 is good, 125 is undecided, any other is bad",
        ),
    ] = "wrong"
    margin: Annotated[
        float | None,
        typer.Option(
            min=0,
            callback=not_nan,
            metavar="X",
            help="With --check slower or larger: the smallest bad increase, relative to the time or the bytes (default: 0.1)",
        ),
    ] = None


def load(files: Sequence[Path] | None) -> "list[type[RuleSet]]":
    """The rule sets of all files, each file once."""
    from passat.pipelines import check_rule_sets
    from passat.rulefile import read_rules

    with contextlib.redirect_stdout(sys.stderr):
        sets, _ = read_rules(files or ())
    check_rule_sets(sets)
    return sets


def _is_rule(name: str) -> bool:
    """True for the name of a rule, `Set.rule`, a form, `Set.rule[exp]`, and a rule set of the library that is not also a pass."""
    from passat.passmgr import list_passes
    from passat.rules.library import rule_sets

    passes = {entry.name for entry in list_passes()}
    return name not in passes and not name.startswith("relay.") and ("." in name or "[" in name or name in rule_sets())


def check_settings(
    passes: str | None, rules: "Sequence[type[RuleSet]]", files: Sequence[Path], printed: Sequence[tuple[str, "NameFilter"]] = ()
) -> list[str]:
    """A sentence for each rule file whose registered passes do not run. Ends the command if the current context, or an option that prints
    passes, names unknown passes or rules. Prints other notes to the error stream."""
    from passat.passmgr import PassContext
    from passat.pipelines import build_pipeline

    settings = PassContext.current()
    if not (settings.disabled_pass or settings.required_pass or files or printed or settings.get_config("rules.disabled")):
        return []
    plan = build_pipeline(passes, rules).plan()
    idle = check_names(plan, files, printed)
    for note in plan.notes:
        print(f"note: {note}", file=sys.stderr)
    return idle


def check_names(plan: "Plan", files: Sequence[Path], printed: Sequence[tuple[str, "NameFilter"]] = ()) -> list[str]:
    """A sentence for each rule file whose registered passes are not in the plan. Ends the command if settings, or options that print
    passes, name unknown passes or rules."""
    from passat.passmgr import PassContext, list_passes
    from passat.passmgr.inspection.printing import NameFilter
    from passat.passmgr.planning.plan import unknown_pass
    from passat.rulefile import idle_passes
    from passat.rules.planned_rules import check_disabled

    steps = list(plan.walk())
    if plan.unknown:
        unknown = plan.unknown[0].replace("disabled_pass", "--disable", 1).replace("required_pass", "--require", 1)
        disabled = PassContext.current().disabled_pass
        if called := _rules_called(unknown, disabled):
            fail(f"{unknown.partition(';')[0]}{suggestion(called[:3])}", USAGE)
        fail(unknown + _way_out(unknown, disabled), USAGE)
    check_disabled(PassContext.current(), [step.pass_ for step in steps])
    planned = {plan.name, *(step.name for step in steps)}
    known = planned | {entry.name for entry in list_passes()} if printed else planned
    for option, names in printed:
        for name in names.patterns:
            if not any(map(NameFilter(name), known)):
                fail(unknown_pass(option, name, planned), USAGE)
    return idle_passes(files, steps)


def _way_out(unknown: str, disabled: Sequence[str]) -> str:
    """The hint for a sentence without suggestions: a similar rule set, or the commands that list names."""
    from passat.rules.library import rule_sets

    if "did you mean" in unknown:
        return ""
    near = [hint for name in disabled if repr(name) in unknown and (hint := did_you_mean(name, rule_sets(), 1))]
    lists = "`passat passes` and `passat rules list` show all names" if disabled else "`passat passes` shows all names"
    return near[0] if near else f"; {lists}"


def _rules_called(unknown: str, disabled: Sequence[str]) -> list[str]:
    """The rules of the library that a sentence names without their set."""
    from passat.rules.library import rule_sets

    wanted = {name for name in disabled if repr(name) in unknown}
    return [rule.name for rules in rule_sets().values() for rule in rules if rule.name.partition(".")[2] in wanted]


def _check_output(path: Path, option: str) -> None:
    """Ends the command, before any work is done, if the path of an output option is not writable."""
    folder = Path(written_file(os.fspath(path))).parent
    if str(path) == "-":
        fail(f"{option} names the file to write; it cannot be standard output", USAGE)
    if os.path.isdir(path):  # unlike Path's methods, those of os.path allow folders that may not be entered
        fail(f"{path} is a folder; {option} names the file to write", USAGE)
    if os.path.exists(path) and not os.path.isfile(path):
        fail(f"{path} is not a file; {option} names the file to write", USAGE)
    if not folder.is_dir():
        why = f"{folder} is not a folder" if folder.exists() else f"the folder {folder} does not exist"
        fail(f"{path} cannot be written: {why}", USAGE)
    if not os.access(folder, os.W_OK):
        fail(f"{path} cannot be written: the folder {folder.absolute()} is read-only; choose another file with {option}", USAGE)


def check_outputs(written: Mapping[str, Path | None], read: Mapping[str, Iterable[str | Path | None]]) -> None:
    """Ends the command, before any work is done, if an output option is not writable, or names a file that another option writes or
    reads."""
    taken = {os.path.realpath(path): f"{name} reads" for name, paths in read.items() for path in paths if path is not None}
    for option, output in written.items():
        if output is not None:
            _check_output(output, option)
            other = taken.setdefault(os.path.realpath(output), f"{option} writes")
            if other != f"{option} writes":
                fail(f"{option} would overwrite {output}, which {other}", USAGE)


def check_ending(option: str, path: Path | None, *endings: str) -> None:
    """Ends the command if the ending of an output file says another format."""
    if path is not None and path.suffix.lower() in _OTHER_FORMATS.difference(endings):
        named = f"{', '.join(endings[:-1])} or {endings[-1]}" if len(endings) > 1 else endings[0]
        fail(f"{option} {path}: the file must end with {named}, not {path.suffix}", USAGE)


def check_output_folder(path: Path, option: str) -> None:
    """Ends the command, before any work is done, if the folder of an option cannot be created."""
    there = next((folder for folder in (path, *path.absolute().parents) if folder.exists()), path)
    if not there.is_dir():
        fail(f"{option} {path}: {there} is not a folder", USAGE)
    if not os.access(there, os.W_OK):
        fail(f"{option} {path}: the folder {there.absolute()} is read-only; choose another folder", USAGE)


def config_message(message: str) -> str:
    """The message of a ConfigError, worded for the command line instead of as in TVM."""
    if found := re.fullmatch(r"Invalid config option (\S+) candidates are: .*", message):
        return f"there is no config option {found[1]}; `passat config list` shows all options"
    if found := re.fullmatch(r"expect config (\S+) to have type (.+) but get (.+)", message, re.DOTALL):
        example = f""": --config '{found[1]}=[{found[3].replace("'", '"')}]'""" if found[2] == "list[str]" and found[3][0] == "'" else ""
        return f"config {found[1]} takes {found[2]}, not {found[3]}{example}"
    if found := re.fullmatch(r"Invalid config option (\S+); (.*)", message):
        return f"there is no config option {found[1]}; {found[2]}"
    return message


def parse_config(entries: Sequence[str] | None) -> dict[str, AnyValue]:
    """Options given as `KEY=VALUE`. Values are JSON, and strings otherwise. Ends the command if a key has two values."""
    settings: dict[str, AnyValue] = {}
    for entry in entries or ():
        key, equals, value = entry.partition("=")
        if not equals:
            fail(f"--config takes KEY=VALUE, not {entry!r}", USAGE)
        try:
            read = json.loads(value)
        except ValueError:
            read = value
        if key in settings and repr(settings[key]) != repr(read):
            fail(f"--config gives {key} two values, {settings[key]} and {read}", USAGE)
        settings[key] = read
    return settings
