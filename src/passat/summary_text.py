"""Summaries, differences and profiles of models as text."""

from collections.abc import Mapping
from dataclasses import astuple
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.text import Text

from passat.ir.counting import counted
from passat.model_diff import Difference, ModelDiff
from passat.model_summary import ModelSummary, Opaque
from passat.quantities import amount, seconds
from passat.render import changed_operators, plain_table
from passat.report import NOT_COUNTED, node_count

if TYPE_CHECKING:
    from passat.profiling import ModelProfile, Ratio


_VALUES: Final = 12
"""Inputs and outputs beyond this number are counted."""
_NAMES: Final = 3
"""Names of nodes beyond this number are counted."""


def render_summary(summary: ModelSummary) -> RenderableType:
    """A summary for a rich console."""
    parts: list[RenderableType] = [_headline(summary), Text(_versions(summary), style="dim"), Text()]
    parts += [_values(summary), Text(), _operators(summary)]
    if summary.fused:
        fused = ", ".join(f"{count} {kind}" for kind, count in summary.fused.items())
        parts += [Text(), Text(f"ONNX Runtime's own fusions leave: {fused}")]
    elif not summary.not_loaded:
        parts += [Text(), Text("ONNX Runtime's own fusions find nothing in it")]
    problems = [Text(f"! {said}", style="yellow") for said in (summary.not_loaded, *summary.warnings) if said]
    parts += [Text(), *problems] if problems else []
    parts += [Text(), *_opaque(summary)]
    return Group(*parts)


def _headline(summary: ModelSummary) -> Text:
    text = Text.assemble((summary.source, "bold"), f": {_counted(summary.node_count, 'node')}")
    text.append(
        f", {_counted(summary.weight_elements, 'element')} in {_counted(summary.weights, 'initializer')} ({amount(summary.weight_bytes)})"
    )
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
            table.add_row(what, Text(value.name), Text("unknown" if value.type == "_" else value.type))
        if len(values) > _VALUES:
            table.add_row(what, f"... and {len(values) - _VALUES} more", "")
    return table


def _operators(summary: ModelSummary) -> RenderableType:
    table = plain_table("operator", "nodes", "")
    for name, count in sorted(summary.nodes.items(), key=lambda item: (-item[1], item[0])):
        data = name in NOT_COUNTED
        table.add_row(Text(name), str(count), "holds data, not counted" if data else "", style="dim" if data else None)
    return table


def _opaque(summary: ModelSummary) -> list[RenderableType]:
    lines: list[RenderableType] = []
    count = sum(len(group.nodes) for group in summary.opaque)
    if not count:
        lines.append(Text("no node is opaque to rules"))
    else:
        stays = "is" if count == 1 else "are"
        lines.append(Text(f"{_counted(count, 'node')} {stays} opaque to rules, and unchanged:"))
        lines += [Text(f"  {len(group.nodes):,} {group.operator}{_names(group)}: {group.reason}") for group in summary.opaque]
    if summary.unknown:
        lines.append(Text(f"the type of {_counted(summary.unknown, 'result')} is unknown"))
    return lines


def _names(group: Opaque) -> str:
    shown = [repr(name) for name in group.nodes if name][:_NAMES]
    rest = len(group.nodes) - len(shown)
    return f" ({', '.join([*shown, *([f'{rest} more'] if rest else [])])})" if shown else ""


def _counted(count: int, what: str) -> str:
    """A count with its noun.

    >>> _counted(1, "node"), _counted(2000, "node")
    ('1 node', '2,000 nodes')
    """
    return counted(f"{count:,}", what)


_NODES: Final = 4
"""Names of nodes beyond this number are counted."""
_INSTANCES: Final = 3
"""Places that differ in the same way beyond this number are counted."""
_LISTED: Final = 40
"""Differences and changes beyond this number are counted; `to_json` has all."""


def render_diff(diff: ModelDiff) -> RenderableType:
    """A difference for a rich console."""
    parts: list[RenderableType] = [_model("-", diff.before, diff.nodes_before, diff.bytes_before)]
    parts += [_model("+", diff.after, diff.nodes_after, diff.bytes_after), Text()]
    if diff.equal:
        return Group(*parts, Text("the models are the same up to names and the order of nodes"))
    parts += [Text(said) for said in diff.interface]
    parts += [changed_operators(diff.nodes_before, diff.nodes_after, "others"), Text(), Text(_counts(diff))]
    for difference in diff.differences[:_LISTED]:
        parts += [Text(), *_difference(difference)]
    if diff.changes:
        parts += [Text(), Text("nodes of both models that differ:", style="bold")]
        parts += [Text(f"  {change.operator} {change.after!r}: {'; '.join(change.what)}") for change in diff.changes[:_LISTED]]
    rest = max(0, len(diff.differences) - _LISTED) + max(0, len(diff.changes) - _LISTED)
    if rest:
        parts += [Text(), Text(f"... and {rest} more, which --json lists")]
    return Group(*parts)


def _model(sign: str, name: str, nodes: Mapping[str, int], size: int) -> Text:
    return Text.assemble(f"{sign} ", (name, "bold"), f": {_counted(node_count(nodes), 'node')}, {amount(size)}")


def _counts(diff: ModelDiff) -> str:
    both = diff.same + diff.moved
    return (
        f"{_counted(both, 'node')} {'is' if both == 1 else 'are'} in both: {diff.same:,} read the same values, {diff.moved:,} other values"
    )


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
    """Operators with their counts.

    >>> _listed({"MatMul": 1, "Add": 2})
    'MatMul, 2 Add'
    """
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in operators.items())


def _named(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_NODES])
    return shown if len(names) <= _NODES else f"{shown} and {len(names) - _NODES} more"


_TIMED: Final = 15
"""Operators beyond this number are summed up."""
_STYLES: Final = {"faster": "bold green", "slower": "bold red", "no different": "bold"}


def render_profile(profile: "ModelProfile") -> RenderableType:
    """A profile for a rich console."""
    table = plain_table("model", "nodes", "time")
    table.add_row(Text(profile.before), str(profile.nodes_before), seconds(profile.seconds_before))
    table.add_row(Text(profile.after), str(profile.nodes_after), seconds(profile.seconds_after))
    sizes = ", ".join(f"{name}={size}" for name, size in profile.sizes.items())
    threads = counted(profile.threads, "thread")
    setting = f"medians of {counted(profile.rounds, 'round')} on {threads}{', ' + sizes if sizes else ''}"
    apart = Text("operators: means of separate runs with the profiler of ONNX Runtime", style="dim")
    head = Text(said(profile), style=_STYLES[profile.verdict])
    return Group(head, Text(), table, Text(setting, style="dim"), Text(), _operator_times(profile), apart)


def said(profile: "ModelProfile") -> str:
    """One line that says whether the second model is faster."""
    verdict = "as fast, up to noise" if profile.verdict == "no different" else profile.verdict
    name = profile.after if profile.after != profile.before else "the second model"
    return f"{name} is {verdict}: {_shown(profile.ratio)} of the time; the first model against itself {_shown(profile.control)}"


def _shown(ratio: "Ratio") -> str:
    """A ratio with its confidence interval.

    >>> from passat.profiling import Ratio
    >>> _shown(Ratio(0.93412, 0.92, 0.95))
    '0.934 (0.920 to 0.950)'
    """
    return f"{ratio.median:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _operator_times(profile: "ModelProfile") -> RenderableType:
    table = plain_table("operator", "before", "", "after", "", "")
    shown, rest = profile.operators[:_TIMED], profile.operators[_TIMED:]
    if rest:
        from passat.profiling import OperatorTime  # imports the code that runs models

        sums = [sum(values) for values in zip(*(astuple(each)[1:] for each in rest), strict=True)]
        shown = [*shown, OperatorTime(f"{len(rest)} others", *sums)]
    for each in shown:
        change = each.seconds_after - each.seconds_before
        sign = "+" if change > 0 else "-"
        cells = (_time(each.seconds_before), _calls(each.calls_before), _time(each.seconds_after), _calls(each.calls_after))
        table.add_row(Text(each.operator), *cells, f"{sign}{seconds(abs(change))}")
    return table


def _time(value: float) -> str:
    return seconds(value) if value else "-"


def _calls(count: float) -> str:
    return f"{count:.0f} x" if count else ""
