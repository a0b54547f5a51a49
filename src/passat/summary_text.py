"""The summary of a model as people read it."""

from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from passat.model_summary import ModelSummary, Opaque, Value
from passat.render import plain_table, rendered, seconds
from passat.report import NOT_COUNTED

_VALUES: Final = 12
"""Inputs and outputs beyond this number are counted."""
_NAMES: Final = 3
"""Names of nodes beyond this number are counted."""


def summary_text(summary: ModelSummary) -> str:
    """A summary as plain text."""
    return rendered(render_summary(summary))


def render_summary(summary: ModelSummary) -> RenderableType:
    """A summary for a rich console."""
    parts: list[RenderableType] = [_headline(summary), Text(_versions(summary), style="dim"), Text()]
    parts += [_values(summary), Text(), _operators(summary)]
    if summary.fused:
        fused = ", ".join(f"{count} {kind}" for kind, count in summary.fused.items())
        parts += [Text(), Text(f"ONNX Runtime's own fusions leave: {fused}")]
    elif not summary.not_loaded:
        parts += [Text(), Text("ONNX Runtime's own fusions find nothing in it")]
    parts += [Text(f"! {said}", style="yellow") for said in (summary.not_loaded, *summary.warnings) if said]
    parts += [Text(), *_opaque(summary)]
    return Group(*parts)


def _headline(summary: ModelSummary) -> Text:
    count = summary.node_count
    text = Text.assemble((summary.source, "bold"), f": {'1 node' if count == 1 else f'{count:,} nodes'}")
    text.append(f", {summary.weight_elements:,} elements in {_counted(summary.weights, 'initializer')} ({amount(summary.weight_bytes)})")
    text.append(f", estimated {seconds(summary.estimated_seconds)}")
    return text


def _versions(summary: ModelSummary) -> str:
    opsets = ", ".join(f"{domain} {version}" for domain, version in summary.opsets.items())
    by = f", made by {summary.producer}" if summary.producer else ""
    return f"IR version {summary.ir_version}, opsets: {opsets}{by}"


def _values(summary: ModelSummary) -> RenderableType:
    table = plain_table("", "name", "type")
    for what, values in (("input", summary.inputs), ("output", summary.outputs)):
        for value in values[:_VALUES]:
            table.add_row(what, Text(value.name), Text(_type(value)))
        if len(values) > _VALUES:
            table.add_row(what, f"... and {len(values) - _VALUES} more", "")
    return table


def _type(value: Value) -> str:
    return "unknown" if value.type == "_" else value.type


def _operators(summary: ModelSummary) -> RenderableType:
    table = plain_table("operator", "nodes", "")
    for name, count in sorted(summary.nodes.items(), key=lambda item: (-item[1], item[0])):
        data = name in NOT_COUNTED
        table.add_row(Text(name), str(count), "holds data, does not count" if data else "", style="dim" if data else None)
    return table


def _opaque(summary: ModelSummary) -> list[RenderableType]:
    lines: list[RenderableType] = []
    count = sum(len(group.nodes) for group in summary.opaque)
    if not count:
        lines.append(Text("rules can look into every node"))
    else:
        stays = "stays as it is" if count == 1 else "stay as they are"
        lines.append(Text(f"rules do not look into {_counted(count, 'node')}, which {stays}:"))
        lines += [Text(f"  {_counted(len(group.nodes), group.operator)}{_names(group)}: {group.reason}") for group in summary.opaque]
    if summary.unknown:
        lines.append(Text(f"the type of {_counted(summary.unknown, 'result')} is unknown"))
    return lines


def _names(group: Opaque) -> str:
    shown = [repr(name) for name in group.nodes if name][:_NAMES]
    rest = len(group.nodes) - len(shown)
    return f" ({', '.join([*shown, *([f'{rest} more'] if rest else [])])})" if shown else ""


def _counted(count: int, what: str) -> str:
    """A number of things.

    >>> _counted(1, "node"), _counted(2000, "node")
    ('1 node', '2,000 nodes')
    """
    return f"{count:,} {what if count == 1 else f'{what}s' if what.islower() else what}"


def amount(size: float) -> str:
    """A number of bytes.

    >>> amount(12), amount(2_500), amount(2_500_000_000)
    ('12 B', '2.5 kB', '2.5 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError
