"""How two models differ, as people read it."""

from collections.abc import Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from passat.model_diff import Difference, ModelDiff
from passat.render import plain_table, rendered
from passat.report import NOT_COUNTED, node_count
from passat.summary_text import amount

_NAMES: Final = 4
"""Names of nodes beyond this number are counted."""
_INSTANCES: Final = 3
"""Places that differ in the same way beyond this number are counted."""
_LISTED: Final = 40
"""Differences and changes beyond this number are counted; `to_json` has all."""


def diff_text(diff: ModelDiff) -> str:
    """A difference as plain text."""
    return rendered(render_diff(diff))


def render_diff(diff: ModelDiff) -> RenderableType:
    """A difference for a rich console."""
    parts: list[RenderableType] = [_model("-", diff.before, diff.nodes_before, diff.bytes_before)]
    parts += [_model("+", diff.after, diff.nodes_after, diff.bytes_after), Text()]
    if diff.equal:
        return Group(*parts, Text("the models are the same up to names and the order of nodes"))
    parts += [Text(said) for said in diff.interface]
    parts += [_operators(diff), Text(), Text(_counts(diff))]
    for difference in diff.differences[:_LISTED]:
        parts += [Text(), *_difference(difference)]
    if diff.changes:
        parts += [Text(), Text("nodes of both that are not the same:", style="bold")]
        parts += [Text(f"  {change.operator} {change.after!r}: {'; '.join(change.what)}") for change in diff.changes[:_LISTED]]
    rest = max(0, len(diff.differences) - _LISTED) + max(0, len(diff.changes) - _LISTED)
    if rest:
        parts += [Text(), Text(f"... and {rest} more, which --json lists")]
    return Group(*parts)


def _model(sign: str, name: str, nodes: Mapping[str, int], size: int) -> Text:
    count = node_count(nodes)
    return Text.assemble(f"{sign} ", (name, "bold"), f": {'1 node' if count == 1 else f'{count:,} nodes'}, {amount(size)}")


def _operators(diff: ModelDiff) -> RenderableType:
    table = plain_table("operator", "before", "after", "")
    same = 0
    for name in sorted({*diff.nodes_before, *diff.nodes_after}):
        before, after = diff.nodes_before.get(name, 0), diff.nodes_after.get(name, 0)
        if before == after:
            same += before
        else:
            data = name in NOT_COUNTED
            note = f"{after - before:+d}{'  holds data, does not count' if data else ''}"
            table.add_row(Text(name), str(before), str(after), note, style="dim" if data else None)
    table.add_row("others", str(same), str(same), "", style="dim")
    return table


def _counts(diff: ModelDiff) -> str:
    return f"{diff.same + diff.moved:,} nodes are in both: {diff.same:,} read the same values, {diff.moved:,} values that other nodes make"


def _difference(difference: Difference) -> list[RenderableType]:
    count = len(difference.instances)
    places = f"in {count} places" if count > 1 else "in one place"
    where = f" of {difference.graph}" if difference.graph else ""
    if not difference.after:
        said = f"gone {places}{where}: {_listed(difference.before)}"
    elif not difference.before:
        said = f"new {places}{where}: {_listed(difference.after)}"
    else:
        said = f"{places}{where}: {_listed(difference.before)} became {_listed(difference.after)}"
    lines: list[RenderableType] = [Text(said, style="bold")]
    for instance in difference.instances[:_INSTANCES]:
        signed = (("-", instance.before, "red"), ("+", instance.after, "green"))
        lines += [Text(f"  {sign} {_named(names)}", style=style) for sign, names, style in signed if names]
    if count > _INSTANCES:
        lines.append(Text(f"  ... and {count - _INSTANCES} more", style="dim"))
    return lines


def _listed(operators: Mapping[str, int]) -> str:
    """Operators with their numbers.

    >>> _listed({"MatMul": 1, "Add": 2})
    'MatMul, 2 Add'
    """
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in operators.items())


def _named(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_NAMES])
    return shown if len(names) <= _NAMES else f"{shown} and {len(names) - _NAMES} more"
