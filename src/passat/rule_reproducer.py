"""Reproducers of `passat rules bisect`: folders that record which rules made a model bad, and that can be replayed.

The folder contains

* `before.onnx` and `after.onnx`: the model without and with the bad application;
* `smallest.onnx`: the matched part alone, as a model, if the rules make that bad too;
* `inputs.npz`: the user's inputs, on which models were compared, if there were any;
* `bisection.json`: the rules, the number of the application, the passes, the settings, the check; `model.onnx`, or the model's path;
* `README.txt`: a description, and how to replay it.

It contains only data, and replaying executes none of it: rules and check commands must be given again.
"""

import contextlib
import json
import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.bisection import INPUTS_NAME, read_leniently, save_programs
from passat.crash import keep_model, kept_path, require_rules
from passat.given_inputs import GivenInputs, read_inputs, write_inputs
from passat.ir.long_words import listed
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, read_model, save
from passat.judging import Closeness
from passat.model_checks import CHECKS, CheckError, make_check
from passat.passmgr import PassContext, ReproducerError, Sequential
from passat.passmgr.debugging.bisect import PassRaisedError
from passat.passmgr.debugging.replaying import read_form
from passat.passmgr.debugging.reproducer import context_data, put_file, versions
from passat.pipelines import build_pipeline, text_of
from passat.rule_bisection import GuiltyApplication, RuleBisection, rule_files
from passat.rule_search import ALL, Questions, RuleRuns
from passat.rulefile import file_of
from passat.rules import RuleSet
from passat.rules.matched import matched_part
from passat.runner import VerifyError
from passat.settings import Variant
from passat.verify import Comparing

FORMAT: Final = 2
"""The version of the folder's format, in `bisection.json`."""
JSON_NAME: Final = "bisection.json"
SMALLEST: Final = "smallest.onnx"
_OWN_FILES: Final = ("before.onnx", "after.onnx", SMALLEST, "model.onnx", INPUTS_NAME, "README.txt", JSON_NAME)


class RuleReplay(NamedTuple):
    """The result of a replay: what was run, whether the result is bad without the last application (or without the rules) and with it, and
    why."""

    where: str
    before: bool | None
    after: bool | None
    why: str

    @property
    def same(self) -> bool:
        """True if the rules make the model bad."""
        return self.before is False and self.after is True

    @property
    def failure(self) -> str | None:
        """Why the model is bad, or why the check cannot decide; None if it is good."""
        return None if self.after is False else self.why or "bad"

    def __str__(self) -> str:
        words = {True: "bad", False: "good", None: "undecided"}
        said = f": {self.why}" if self.why else ""
        if self.same:
            return f"{self.where} becomes bad{said}"
        return f"{self.where} is {words[self.before]} before and {words[self.after]} after{said}"


class Saved(NamedTuple):
    """The written paths, the replay command, and whether the matched part alone is bad."""

    paths: list[str]
    command: str
    smallest: bool


def save_bisection(found: RuleBisection, folder: str | os.PathLike[str]) -> Saved:
    """Writes a reproducer to a folder, which is created; replaces an older one. Raises OnnxError, OSError."""
    folder = os.fspath(folder)
    os.makedirs(folder, exist_ok=True)
    for name in _OWN_FILES:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    paths = save_programs(found.before, found.after, found.source, folder)
    smallest = _save_smallest(found, os.path.join(folder, SMALLEST))
    paths += [os.path.join(folder, SMALLEST)] if smallest else []
    kept = keep_model(read_model(found.source), found.source, folder)
    paths += [os.path.join(folder, kept["file"])] if "file" in kept else []
    if found.how.given is not None:
        paths.append(os.path.join(folder, INPUTS_NAME))
        write_inputs(found.how.given, paths[-1])
    command = _command(folder, found)
    texts = ((JSON_NAME, json.dumps(_data(found, kept, smallest), indent=2) + "\n"), ("README.txt", _readme(found, smallest, command)))
    for name, text in texts:
        put_file(folder, name, text)
        paths.append(os.path.join(folder, name))
    return Saved(paths, command, smallest)


def _command(folder: str, found: RuleBisection) -> str:
    rules = [word for file in rule_files(found.sets) for word in ("--rules", file)]
    check = [] if found.check in CHECKS else ["--check", found.check]
    return shlex.join(["passat", "replay", folder, *rules, *check])


def _data(found: RuleBisection, kept: Mapping[str, AnyValue], smallest: bool) -> dict[str, AnyValue]:
    passes = found.passes
    text = passes if isinstance(passes, str) or passes is None else text_of(build_pipeline(passes))
    return {
        "format": FORMAT,
        "rules": found.names,
        "application": None if found.application is None else found.application.to_dict(),
        "why": found.why,
        "check": found.check,
        "seed": found.how.seed,
        "inputs": None if found.how.given is None else INPUTS_NAME,
        "closeness": found.how.closeness,
        "margin": found.margin,
        "variant": asdict(found.variant),
        "passes": text,
        "sets": [{"name": one.__name__, "file": file_of(one)} for one in found.sets],
        "context": context_data(found.runs.settings),
        "model": dict(kept),
        "smallest": smallest,
        "command": found.command,
        "versions": versions(),
    }


def _readme(found: RuleBisection, smallest: bool, command: str) -> str:
    names = found.names
    lines = [f"With the {'rule' if len(names) == 1 else 'rules'} {listed(names, len(names))} a model becomes bad.", "", str(found), ""]
    lines += [f"To reproduce it:   {command}", *([f"To make the model:    {found.command}"] if found.command else []), ""]
    if smallest:
        lines.append(f"{SMALLEST} is the matched part alone, which becomes bad as well.")
    if found.how.given is not None:
        lines.append(f"{INPUTS_NAME} has your inputs; the models were compared on these and on random ones.")
    lines.append("before.onnx is the result without the application, after.onnx with it (unless a pass raises).")
    return "\n".join(lines) + "\n"


def _save_smallest(found: RuleBisection, path: str) -> bool:
    """Writes the matched part as a model if the rules make it bad too; with its constants as inputs if possible."""
    application = found.application
    if application is None or application.run is None:
        return False
    for constants in (False, True):
        module = _part(application, constants)
        if module is None:
            continue
        with contextlib.suppress(OnnxError, CheckError, VerifyError):
            save(module, path)
            if _on_smallest(
                path, found.runs.pipeline, found.runs.settings, found.names, found.check, replace(found.how, given=None), found.margin
            ).same:
                return True
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return False


def _part(application: GuiltyApplication, constants: bool) -> IRModule | None:
    assert application.run is not None
    assert application.application is not None
    part = matched_part(application.run, application.application, constants=constants)
    return None if part is None else IRModule.from_expr(part.before)


def _on_smallest(
    path: str, pipeline: Sequential, settings: PassContext, names: Collection[str], check: str, how: Comparing, margin: float
) -> RuleReplay:
    """True if the rules make a model bad that is good without them."""
    given = read_leniently(path)
    asked = Questions(RuleRuns(pipeline, given.module, settings), make_check(check, given, how, margin), crashes=check == "crash")
    return _replay(asked, SMALLEST, ((), 0), (names, ALL))


def _replay(asked: Questions, where: str, first: tuple[Collection[str], int], second: tuple[Collection[str], int]) -> RuleReplay:
    try:
        before = asked(*first)
        after, outcome = asked.answer(*second)
    except PassRaisedError as error:
        return RuleReplay(where, None, None, str(error))
    why = asked.check.why if after else asked.check.unclear if None in (before, after) else ""
    return RuleReplay(where, before, after, outcome.accused or why)


def is_bisection(folder: str | os.PathLike[str]) -> bool:
    """True if a folder is a reproducer of this kind."""
    return os.path.isfile(os.path.join(folder, JSON_NAME))


def replay_bisection(folder: str | os.PathLike[str], rules: Sequence[type[RuleSet]] = (), check: str | None = None) -> list[RuleReplay]:
    """Replays a reproducer: the rules on the smallest model and, if that is missing or good, on the whole one.

    `rules` are the user's rule sets of the original run, and `check` the command, if it was one. Raises ReproducerError for an unusable
    folder, and the errors of `bisect_rules`.
    """
    folder = os.fspath(folder)
    data = _read(folder)
    require_rules(folder, data["sets"], rules)
    asked_for = data["check"] if check is None else check
    if check is None and asked_for not in CHECKS:
        raise ReproducerError(f"{folder} was made with a check command, which is not run from the folder: pass it with --check")
    context = data["context"]
    try:
        settings = PassContext(context["opt_level"], context["required_pass"], context["disabled_pass"], config=context["config"])
        variant = Variant(**data["variant"])
    except (AttributeError, TypeError, ValueError) as error:
        raise ReproducerError(f"{folder}: its settings are invalid: {error}") from error
    try:
        pipeline = settings.run(build_pipeline, data["passes"], rules)
    except (ValueError, LookupError) as error:
        raise ReproducerError(f"{folder}: its pipeline cannot be built here: {str(error).splitlines()[0]}") from error
    names = data["rules"]
    how = Comparing(data["seed"], closeness=None if data["closeness"] is None else Closeness(*data["closeness"]))
    found: list[RuleReplay] = []
    smallest = os.path.join(folder, SMALLEST)
    if data["smallest"] and os.path.isfile(smallest) and not os.path.islink(smallest):
        found.append(_on_smallest(smallest, pipeline, settings, names, asked_for, how, data["margin"]))
        if found[0].same:
            return found
    model = kept_path(folder, data["model"])
    if model is None and not found:
        raise ReproducerError(f"{folder}: the model is neither in it nor at its recorded path, or has changed")
    if model is not None:
        given = read_leniently(model, variant.in_context(settings))
        check_made = make_check(asked_for, given, replace(how, given=_inputs(folder, data.get("inputs"))), data["margin"])
        asked = Questions(RuleRuns(pipeline, given.module, settings), check_made, crashes=asked_for == "crash")
        number = data["application"]["number"] if data["application"] is not None else None
        first, second = (((), 0), (names, 0)) if number is None else ((names, number - 1), (names, number))
        found.append(_replay(asked, "the model", first, second))
    return found


def _inputs(folder: str, name: str | None) -> GivenInputs | None:
    """The user's inputs, which the folder has. Raises ReproducerError, InputsError."""
    if name is None:
        return None
    path = os.path.join(folder, INPUTS_NAME)
    if name != INPUTS_NAME or os.path.islink(path) or not os.path.isfile(path):
        raise ReproducerError(f"{folder}: {INPUTS_NAME}, the inputs that its models were compared on, is missing")
    return read_inputs(path)


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "application": (dict, type(None)),
    "check": (str,),
    "seed": (int,),
    "closeness": (list, type(None)),
    "margin": (int, float),
    "variant": (dict,),
    "passes": (str, type(None)),
    "sets": (list,),
    "context.opt_level": (int,),
    "context.config": (dict,),
    "model": (dict,),
    "smallest": (bool,),
}


def _read(folder: str) -> dict[str, AnyValue]:
    """The validated content of `bisection.json`. Raises ReproducerError."""
    form = read_form(folder, JSON_NAME, FORMAT)
    path, data = os.path.join(folder, JSON_NAME), dict(form.data)
    for key, kinds in _KINDS.items():
        form.get(key, *kinds)
    for key in ("rules", "context.required_pass", "context.disabled_pass"):
        form.names(key)
    if data["application"] is not None and form.get("application.number", int) < 1:
        raise ReproducerError(f"{path}: 'application.number' must be positive")
    if data["closeness"] is not None and [type(each) for each in data["closeness"]] != [float, float]:
        raise ReproducerError(f"{path}: 'closeness' must be two numbers")
    return data
