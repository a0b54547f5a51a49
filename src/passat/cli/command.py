"""Registers commands: options in groups, help as phrases."""

import copy
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Annotated, Final, get_args, get_origin
from typing import Any as AnyValue

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

COMMON: Final = "Common"
PASSES: Final = "Passes"
SEARCH: Final = "Search"
TRUST: Final = "Trust"
DEBUGGING: Final = "Debugging"
GROUPS: Final = (COMMON, PASSES, SEARCH, TRUST, DEBUGGING)
"""The groups of options, in the order in which `--help` lists them."""


_EMPTY: Final = re.compile(r"(--[\w-]+=)?")
_OPTION: Final = re.compile(r"-[A-Za-z]|--[A-Za-z]")
"""The beginning of an option. Negative numbers, and `-` for a stream, are values."""
_MAY_BE_EMPTY: Final = "--passes"
"""The option whose value may be empty: the pipeline without passes."""


class Command(TyperCommand):
    """A command whose `--help` is listed like its other options, and which rejects empty arguments, and options in place of a value."""

    def parse_args(self, ctx: AnyValue, args: list[str]) -> list[str]:
        """Reads the arguments. As a path, an empty one would be the current folder; it is often a variable that is not set. An option that
        follows one without its value would be that value, such as the name of a file to write."""
        valued = {name: max(each.opts, key=len) for each in self.params if not getattr(each, "is_flag", True) for name in each.opts}
        for before, word in zip(["", *args], args, strict=False):
            option = word.removesuffix("=") or before
            if _EMPTY.fullmatch(word) and option != _MAY_BE_EMPTY and not ctx.resilient_parsing:
                raise typer.BadParameter(
                    "it is empty; give a value", ctx=ctx, param_hint=f"'{option}'" if option.startswith("-") else "an argument"
                )
        following = itertools.pairwise(args) if not ctx.resilient_parsing else ()
        for option, word in itertools.takewhile(lambda pair: pair[0] != "--", following):
            if option in valued and _OPTION.match(word):
                long = valued[option]
                raise typer.BadParameter(
                    f"its value is missing: {word} reads as an option; if it is the value, write {long}={word}",
                    ctx=ctx,
                    param_hint=f"'{option}'",
                )
        return super().parse_args(ctx, args)

    def get_params(self, ctx: AnyValue) -> list[AnyValue]:
        """The arguments and options. Flags are shown without a type."""
        return without_flag_types(super().get_params(ctx))

    def get_help_option(self, ctx: AnyValue) -> AnyValue:
        """The option `--help`, in the common group if there are groups."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.help = (option.help or "").removesuffix(".")
            option.rich_help_panel = COMMON if any(getattr(each, "rich_help_panel", None) for each in self.params) else None
        return option


def without_flag_types(parameters: list[AnyValue]) -> list[AnyValue]:
    """Parameters as they are shown: flags take no value, and need no type."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return parameters


def command(parent: typer.Typer, name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a command whose parameters are arguments and options. A dataclass parameter stands for the options in its fields, including
    nested dataclasses; its `panel` is the default group of these. The docstring is the help, without its last full stop."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        parameters = inspect.signature(function).parameters.values()
        made_of: dict[str, AnyValue] = {each.name: each.annotation for each in parameters if is_dataclass(each.annotation)}

        @functools.wraps(function)
        def run(**given: AnyValue) -> None:
            made = {name: _made(group, given) for name, group in made_of.items()}
            function(**given, **made)

        flat = list(_flattened(parameters, COMMON)) if made_of else parameters
        flat = [_unchecked(each).replace(kind=each.KEYWORD_ONLY) for each in sorted(flat, key=_place)]
        run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {each.name: each.annotation for each in flat}
        parent.command(name, cls=Command, help=_phrase(inspect.getdoc(function) or ""))(run)
        return function

    return register


def _made(group: AnyValue, given: dict[str, AnyValue]) -> AnyValue:
    """A dataclass of options, made from their values, which are removed from `given`."""
    return group(**{each.name: _made(each.type, given) if is_dataclass(each.type) else given.pop(each.name) for each in fields(group)})


def _flattened(parameters: Iterable[inspect.Parameter], panel: str) -> Iterator[inspect.Parameter]:
    """Arguments and options, with those of dataclasses in place."""
    for each in parameters:
        group: type = each.annotation
        if is_dataclass(group):
            yield from _flattened(inspect.signature(group).parameters.values(), getattr(group, "panel", COMMON))
        else:
            yield _placed(each, panel)


def _unchecked(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter without typer's check of readability: the code that reads the file reports the reason, as for a missing one."""
    if get_origin(parameter.annotation) is Annotated:
        kind, info = get_args(parameter.annotation)[:2]
        info = copy.copy(info)
        info.readable = False
        return parameter.replace(annotation=Annotated[kind, info])
    return parameter


def _option(parameter: inspect.Parameter) -> OptionInfo | None:
    found = get_args(parameter.annotation)[1:] if get_origin(parameter.annotation) is Annotated else ()
    return next((each for each in found if isinstance(each, OptionInfo)), None)


def _placed(parameter: inspect.Parameter, panel: str) -> inspect.Parameter:
    """The parameter with its option in a group, unless it has one."""
    option = _option(parameter)
    if option is None or option.rich_help_panel is not None:
        return parameter
    option = copy.copy(option)
    option.rich_help_panel = panel
    return parameter.replace(annotation=Annotated[get_args(parameter.annotation)[0], option])


def _place(parameter: inspect.Parameter) -> int:
    option = _option(parameter)
    return -1 if option is None or option.rich_help_panel is None else GROUPS.index(option.rich_help_panel)


def _phrase(text: str) -> str:
    """A docstring without the full stop at the end of its first paragraph."""
    first, *rest = text.split("\n\n")
    return "\n\n".join([first.removesuffix("."), *rest])
