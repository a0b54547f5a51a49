"""The command `passat` itself: what its subcommands hang on, and how it starts."""

import contextlib
import io
import sys
from typing import Annotated
from typing import Any as AnyValue

import typer
from typer.core import TyperGroup

from passat import __version__
from passat.cli.errors import FAILURE, terminate_in_order, usage_errors


class Commands(TyperGroup):
    """The commands. What is wrong with their arguments is said in JSON too where that is asked for."""

    def make_context(self, info_name: AnyValue, args: list[str], parent: AnyValue = None, **extra: AnyValue) -> AnyValue:
        """Reads what stands before the name of the command."""
        with usage_errors(args):
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: AnyValue) -> AnyValue:
        """Finds the command, reads its arguments, and runs it."""
        with usage_errors(ctx.args):
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
rules_app = typer.Typer(no_args_is_help=True, help="What the rules are.")
app.add_typer(rules_app, name="rules")


@app.callback(invoke_without_command=True)
def passat(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)] = False) -> None:
    """Optimise ONNX models with rewrite rules, saturated in an e-graph."""
    if version:
        print(f"passat {__version__}")
        raise typer.Exit


def main() -> None:
    """Runs the command that the process was started with."""
    terminate_in_order()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files may hold what a terminal cannot show
    try:
        app(prog_name="passat")
    except OSError as error:  # whoever reads the output has left, or there is no room for it
        with contextlib.suppress(OSError):
            print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(FAILURE)
