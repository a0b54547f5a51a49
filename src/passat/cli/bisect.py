"""`passat bisect`, `passat rules bisect`, and `passat replay`, which replays folders written by these and by crashes."""

import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar
from typing import Any as AnyValue

import typer

from passat.cli.app import USAGE, CommandError, app, end, errors, explain, fail, rules_app
from passat.cli.arguments import CheckOptions, CompareOptions, JsonOption, PassOptions, RulesOption, as_option, check_output_folder, load
from passat.cli.command import command
from passat.cli.options import ProgressOptions, VariantOptions, working

if TYPE_CHECKING:
    from passat.bisection import Bisection
    from passat.passmgr import Replay
    from passat.rule_bisection import RuleBisection
    from passat.rule_reproducer import RuleReplay


class Finding(Protocol):
    """The result of a bisection, with a text for people."""

    def to_dict(self) -> dict[str, AnyValue]:
        """The result as plain data."""


_Found = TypeVar("_Found", bound=Finding)
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Model whose optimization goes wrong", show_default=False)]


@dataclass(frozen=True, kw_only=True)
class BisectOptions:
    """The options of both bisections."""

    variant: VariantOptions
    asked: PassOptions
    compared: CompareOptions
    checked: CheckOptions
    said: ProgressOptions
    as_json: JsonOption = False


@command(app)
def bisect(
    model: ModelArgument,
    options: BisectOptions,
    save: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder to write the models before and after the pass to")] = None,
) -> None:
    """Find the pass that makes a model wrong, slower, larger or crash, in a logarithmic number of runs.

    Exit codes: 0 found, 1 there is none, or the check cannot decide, 2 invalid command.
    """
    with errors(options.as_json):
        from passat.bisection import bisect_model

        def write(found: "Bisection", folder: str) -> tuple[dict[str, AnyValue], str]:
            paths = found.save(folder)
            return {"saved": paths}, _lines(paths)

        _bisect("bisect-1", bisect_model, write, {"saved": []}, model, options, save)


@command(rules_app, "bisect")
def bisect_rules(
    model: ModelArgument,
    options: BisectOptions,
    save: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to write the models before and after the application to, and a reproducer")
    ] = None,
) -> None:
    """Find the rule, and its application, that makes a model wrong, slower, larger or crash, in a logarithmic number of runs.

    Exit codes: 0 found, 1 there is none, or the check cannot decide, 2 invalid command.
    """
    with errors(options.as_json):
        from passat.rule_bisection import bisect_rules as search
        from passat.rule_reproducer import save_bisection

        def write(found: "RuleBisection", folder: str) -> tuple[dict[str, AnyValue], str]:
            saved = save_bisection(found, folder)
            again = f"to reproduce it{' on the matched part alone' if saved.smallest else ''}: {saved.command}\n"
            return {"saved": saved.paths, "replay": saved.command}, _lines(saved.paths) + again

        _bisect("rules-bisect-1", search, write, {"saved": [], "replay": None}, model, options, save)


def _bisect(
    schema: str,
    search: Callable[..., _Found],
    write: Callable[[_Found, str], tuple[dict[str, AnyValue], str]],
    unsaved: dict[str, AnyValue],
    model: Path,
    options: BisectOptions,
    save: Path | None,
) -> None:
    """Searches, and prints the result, as JSON on request. `write` writes it to a folder, and returns what it wrote as data and as text;
    `unsaved` replaces this data if nothing is written."""
    from passat.ir.onnx import OnnxError
    from passat.model_checks import check_used
    from passat.runner import custom_operators
    from passat.settings import Variant

    compared = options.compared
    settings = {name: getattr(compared, name) for name in ("inputs", "rtol", "atol", "seed")}
    check_used(options.checked.check, {**settings, "margin": options.checked.margin}, as_option)
    checked, as_json, variant = options.checked, options.as_json, Variant(**options.variant.settings)
    if save is not None:
        check_output_folder(save, "--save")
    with (
        custom_operators(compared.custom_ops or ()),
        options.asked.entered() as (text, sets),
        options.said.progress(enabled=not as_json) as progress,
    ):
        how = compared.comparing()
        found = search(model, checked.check, passes=text, rules=sets, how=how, margin=checked.margin, variant=variant, progress=progress)
    if not as_json:
        print(found)
    try:
        written, words = (unsaved, "") if save is None else write(found, str(save))
    except (OSError, OnnxError) as error:
        if as_json:  # a result that took much work to find is always printed
            sentence, code = explain(error)
            print(json.dumps({"schema": schema, **found.to_dict(), **unsaved, "error": sentence}, indent=2))
            end(sentence, code, as_json=False)
        raise
    print(json.dumps({"schema": schema, **found.to_dict(), **written, "error": None}, indent=2) + "\n" if as_json else words, end="")


def _lines(paths: list[str]) -> str:
    """A line for each file that was written."""
    return "".join(f"{path} was written\n" for path in paths)


DIFFERENT = 3


@command(app)
def replay(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that --reproducer or --save wrote", show_default=False)],
    *,
    rules: RulesOption = None,
    check: Annotated[
        str | None, typer.Option(metavar="CMD", help="Command given as --check, for a folder that `passat rules bisect` wrote")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay a failed pass, or rules that made a model bad, from a folder of `optimize --reproducer` or `rules bisect --save`.

    Exit codes: 0 no failure, 1 the same failure, 2 the folder cannot be used, 3 another failure.
    Nothing in the folder is executed; give your rules and commands again.
    """
    with errors(as_json):
        try:
            from passat.crash import replay_folder
            from passat.rule_reproducer import is_bisection, replay_bisection

            sets = load(rules)
            with contextlib.redirect_stdout(sys.stderr), working(f"replaying {folder}", enabled=not as_json):
                found: Sequence[Replay | RuleReplay]
                bisected = is_bisection(folder)
                if check is not None and not bisected:
                    fail(f"--check applies to folders that `passat rules bisect` wrote, and {folder} is none", USAGE)
                found = replay_bisection(folder, sets, check) if bisected else replay_folder(folder, sets)
        except Exception as error:  # 1 means that it fails the same way, so no other error may use it
            sentence, _ = explain(error)
            raise CommandError(sentence, USAGE) from error
        last = found[-1]
        if as_json:
            told = {
                "schema": "replay-1",
                "failed": last.failure is not None,
                "same": last.same,
                "error": last.failure,
                "said": list(map(str, found)),
            }
            print(json.dumps(told, indent=2))
        else:
            print("\n".join(map(str, found)))
    raise typer.Exit(0 if last.failure is None else 1 if last.same else DIFFERENT)
