"""The profile of two models as people read it."""

from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from passat.profiling import ModelProfile, OperatorTime, Ratio
from passat.render import plain_table, rendered, seconds

_OPERATORS: Final = 15
"""Operators beyond this number are summed up."""
_STYLES: Final = {"faster": "bold green", "slower": "bold red", "no different": "bold"}


def profile_text(profile: ModelProfile) -> str:
    """A profile as plain text."""
    return rendered(render_profile(profile))


def render_profile(profile: ModelProfile) -> RenderableType:
    """A profile for a rich console."""
    table = plain_table("model", "nodes", "time")
    table.add_row(Text(profile.before), str(profile.nodes_before), seconds(profile.seconds_before))
    table.add_row(Text(profile.after), str(profile.nodes_after), seconds(profile.seconds_after))
    sizes = ", ".join(f"{name}={size}" for name, size in profile.sizes.items())
    threads = "1 thread" if profile.threads == 1 else f"{profile.threads} threads"
    setting = f"medians of {profile.rounds} rounds on {threads}{', ' + sizes if sizes else ''}"
    return Group(
        Text(said(profile), style=_STYLES[profile.verdict]), Text(), table, Text(setting, style="dim"), Text(), _operators(profile)
    )


def said(profile: ModelProfile) -> str:
    """Whether a model is faster than another, in one line."""
    verdict = "as fast, up to noise" if profile.verdict == "no different" else profile.verdict
    return f"{profile.after} is {verdict}: {_shown(profile.ratio)} of the time; the first model against itself {_shown(profile.control)}"


def _shown(ratio: Ratio) -> str:
    """A ratio with its confidence interval.

    >>> _shown(Ratio(0.93412, 0.92, 0.95))
    '0.934 (0.920 to 0.950)'
    """
    return f"{ratio.median:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _operators(profile: ModelProfile) -> RenderableType:
    table = plain_table("operator", "before", "", "after", "", "")
    shown, rest = profile.operators[:_OPERATORS], profile.operators[_OPERATORS:]
    if rest:
        sums = [sum(values) for values in zip(*(each[1:] for each in map(_numbers, rest)), strict=True)]
        shown = [*shown, OperatorTime(f"{len(rest)} others", *sums)]
    for each in shown:
        change = each.seconds_after - each.seconds_before
        sign = "+" if change > 0 else "-"
        cells = (_time(each.seconds_before), _calls(each.calls_before), _time(each.seconds_after), _calls(each.calls_after))
        table.add_row(Text(each.operator), *cells, f"{sign}{seconds(abs(change))}")
    return table


def _numbers(each: OperatorTime) -> tuple[str, float, float, float, float]:
    return each.operator, each.calls_before, each.seconds_before, each.calls_after, each.seconds_after


def _time(value: float) -> str:
    return seconds(value) if value else "-"


def _calls(count: float) -> str:
    return f"{count:.0f} x" if count else ""
