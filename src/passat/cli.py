"""The command line: `passat optimize`, `passat order`, `passat passes`, `passat rules list`.

Exit codes: 0 done, 1 the model or the rules cannot be used or the result is wrong, 2 the command makes no sense, 130 interrupted.
Passat itself is imported when a command runs, so that `--help` answers at once.
"""

import contextlib
import enum
import errno
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from typing import Any as AnyValue

import typer

from passat import __version__

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from passat.rules.rule import RuleSet

FAILURE: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
TRACEBACK: Final = "PASSAT_TRACEBACK"
"""Where this environment variable is set, errors come with the traceback of Python."""

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)
rules_app = typer.Typer(no_args_is_help=True, help="What the rules are.")
app.add_typer(rules_app, name="rules")


class PlanFormat(enum.StrEnum):
    """How a plan is shown."""

    TEXT = "text"
    DOT = "dot"
    MERMAID = "mermaid"
    JSON = "json"


PassesOption = Annotated[
    str | None,
    typer.Option("--passes", metavar="TEXT", help="The pipeline, such as 'FoldConstant,SimplifyExpr'. Default: Passat's own."),
]
LevelOption = Annotated[int, typer.Option("--opt-level", "-O", min=0, max=4, help="Passes above this level do not run.")]
RulesOption = Annotated[
    list[Path] | None, typer.Option("--rules", metavar="FILE.py", help="A Python file with RuleSet classes of your own. May be repeated.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@app.callback(invoke_without_command=True)
def passat(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)] = False) -> None:
    """Optimise ONNX models with rewrite rules, saturated in an e-graph."""
    if version:
        print(f"passat {__version__}")
        raise typer.Exit


@app.command()
def optimize(
    model: Annotated[Path, typer.Argument(metavar="IN", help="The model to optimise.", show_default=False)],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Where the result goes.", show_default=False)],
    passes: PassesOption = None,
    opt_level: LevelOption = 3,
    rules: RulesOption = None,
    time_limit: Annotated[
        float | None, typer.Option(min=0, metavar="S", help="Seconds for all saturation; then the best so far is taken.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Compare the result with the input on ONNX Runtime.")] = True,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="KEY=VALUE",
            help="An option of the passes, such as rules.math=exact. An unknown KEY lists them all. May be repeated.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random inputs that the models are compared on.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Optimise an ONNX model, compare the result with it, and write it."""
    with errors(as_json, "nothing was written"):
        import passat.optimizer
        from passat.progress import ProgressLine

        check_output(output)
        settings = parse_config(config or [])
        sets = load(rules)
        # What rules of the user's own print would stand in the way of who reads the report.
        with contextlib.redirect_stdout(sys.stderr), ProgressLine(console(stderr=True), enabled=not as_json) as progress:
            result = passat.optimizer.optimize(
                model,
                passes=passes,
                rules=sets,
                opt_level=opt_level,
                verify=verify,
                time_limit=time_limit,
                config=settings,
                seed=seed,
                progress=progress,
            )
            progress(f"writing {output}")
            result.save(output)
    with errors(as_json, f"{output} was written"):
        if as_json:
            print(result.report.to_json())
        else:
            from passat.render import render_report

            show(render_report(result.report))


@app.command()
def order(
    passes: PassesOption = None,
    opt_level: LevelOption = 3,
    rules: RulesOption = None,
    format: Annotated[PlanFormat, typer.Option("--format", help="How to show it.")] = PlanFormat.TEXT,
) -> None:
    """Show which passes would run, in which order, and why."""
    with errors():
        from passat.passmgr import PassContext
        from passat.pipelines import build_pipeline

        plan = build_pipeline(passes, load(rules)).plan(PassContext(opt_level))
        shown = {
            PlanFormat.TEXT: plan.to_text,
            PlanFormat.DOT: plan.to_dot,
            PlanFormat.MERMAID: plan.to_mermaid,
            PlanFormat.JSON: plan.to_json,
        }
        print(shown[format]().rstrip("\n"))


@app.command()
def passes(as_json: JsonOption = False) -> None:
    """List the passes."""
    with errors(as_json):
        from passat.listing import pass_rows, passes_table

        rows = pass_rows()
        if as_json:
            print(json.dumps(rows, indent=2))
        else:
            show(passes_table(rows))


@rules_app.command("list")
def list_rules(rules: RulesOption = None, as_json: JsonOption = False) -> None:
    """List the rules: those that Passat has, or those of your own files."""
    with errors(as_json):
        from passat.listing import rule_rows, rules_text

        rows = rule_rows(load(rules) if rules else None)
        print(json.dumps(rows, indent=2) if as_json else rules_text(rows))


def load(files: Sequence[Path] | None) -> "list[type[RuleSet]]":
    """The rule sets of all files, those of a file that is given twice once."""
    from passat.pipelines import check_rule_sets
    from passat.rulefile import load_rules

    once = {os.path.realpath(file): file for file in files or ()}
    with contextlib.redirect_stdout(sys.stderr):
        sets = [rules for file in once.values() for rules in load_rules(file)]
    check_rule_sets(sets)
    return sets


def check_output(path: Path) -> None:
    """Ends the command where nothing can be written to a path, before any work is done."""
    folder = path.parent
    if path.is_dir():
        fail(f"{path} is a folder; -o names the file to write", USAGE)
    if path.exists() and not path.is_file():
        fail(f"{path} is no file; -o names the file to write", USAGE)
    if not folder.is_dir():
        fail(f"{path} cannot be written: there is no folder {folder}", USAGE)
    if not os.access(folder, os.W_OK):
        fail(f"{path} cannot be written: the folder {folder} is read-only", USAGE)


def parse_config(entries: Sequence[str]) -> dict[str, AnyValue]:
    """Options given as `KEY=VALUE`: values are read as JSON, and as they stand where they are none."""
    settings: dict[str, AnyValue] = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals:
            fail(f"--config takes KEY=VALUE, not {entry!r}", USAGE)
        try:
            settings[key] = json.loads(value)
        except ValueError:
            settings[key] = value
    return settings


class CommandError(Exception):
    """Ends a command with a sentence and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def fail(message: str, code: int = FAILURE) -> None:
    """Ends the command with a sentence on the error stream."""
    raise CommandError(message, code)


@contextlib.contextmanager
def errors(as_json: bool = False, outcome: str = "") -> Iterator[None]:
    """Turns what may go wrong into one sentence and an exit code. `outcome` says what an interruption left undone."""
    try:
        yield
    except KeyboardInterrupt:
        end(f"interrupted{'; ' + outcome if outcome else ''}", INTERRUPTED, as_json)
    except BrokenPipeError:
        raise  # whoever read the output has left
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        message, code = explain(error)
        sentence, *picture = message.split("\n", 1)  # of a pipeline, the place where it is wrong is shown
        end("\n".join([f"{sentence}{'; ' + outcome if outcome else ''}", *picture]), code, as_json)


def explain(error: Exception) -> tuple[str, int]:
    """The sentence and the exit code for an error."""
    from passat.ir.onnx import OnnxError
    from passat.passmgr import PassDependencyError, PipelineError
    from passat.report import MismatchError
    from passat.rulefile import RuleFileError
    from passat.rules.pattern import RuleError
    from passat.verify import VerifyError

    if isinstance(error, CommandError):
        return str(error), error.code
    if isinstance(error, (PipelineError, PassDependencyError)):
        return str(error), USAGE
    if isinstance(error, AttributeError) and "config" in str(error):
        return str(error), USAGE
    if isinstance(error, (OnnxError, MismatchError, RuleFileError, RuleError, VerifyError)):
        return str(error), FAILURE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        full = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or str(error)
        return f"{where}{full}", FAILURE
    if isinstance(error, MemoryError):
        return "there is not enough memory", FAILURE
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    text = " ".join(str(error).split())
    return f"Passat itself failed: {type(error).__name__}: {text}{notes}; {TRACEBACK}=1 shows where", FAILURE


def end(message: str, code: int, as_json: bool) -> None:
    """Prints a sentence and leaves."""
    print(f"error: {message}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": message}))
    raise typer.Exit(code)


def console(*, stderr: bool = False) -> "Console":
    """A console; where it is no terminal, it is wide, unless COLUMNS says how wide."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    return made if made.is_terminal or "COLUMNS" in os.environ else Console(stderr=stderr, highlight=False, width=160)


def show(what: "RenderableType") -> None:
    """Prints a table or a text, without spaces at the ends of lines where nobody sees them."""
    out = console()
    if out.is_terminal:
        out.print(what)
        return
    with out.capture() as capture:
        out.print(what)
    print("\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n")))


def main() -> None:
    """Runs the command that the process was started with."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files may hold what a terminal cannot show
    try:
        app(prog_name="passat")
    except OSError as error:  # whoever reads the output has left, or there is no room for it
        with contextlib.suppress(OSError):
            print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(FAILURE)
