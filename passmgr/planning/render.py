"""Renders plans as text, JSON and SVG, without Graphviz. The output is deterministic.

The SVG has a box per step, from top to bottom, with nested pipelines indented. Steps are a sequence, so their places follow from their
numbers. A layout library such as dagre, which the report page uses, would need a JavaScript engine here and could reorder the steps.
"""

import json
import unicodedata
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any as AnyValue
from typing import Final

from passat.passmgr.planning.dependencies import names_in_pass
from passat.passmgr.planning.plan import Plan, Step, nested
from passat.passmgr.registry import own_name
from passat.passmgr.sequential import pipeline_text


def to_text(plan: Plan) -> str:
    """One line per pass: its number or `-`, its name and options, its stage, and why it runs or not."""
    rows = [("  " * depth + (step.number or "-"), step_label(step), step.stage, step_why(step)) for step, depth in nested(plan.steps)]
    wide = [max((len(row[at]) for row in rows), default=0) for at in range(3)]
    lines = [f"{plan.name} {settings_text(plan)}"]
    for *columns, why in rows:
        lines.append("  " + "".join(f"{column:{width}}  " for column, width in zip(columns, wide, strict=True) if width) + why)
    lines += [] if rows else ["  (nothing to run)"]
    lines += [f"note: {note}" for note in plan.notes]
    return "\n".join(lines) + "\n"


def to_json(plan: Plan) -> str:
    """An object: pipeline, opt_level, resolve, order (names that run), steps (nested) and notes."""
    return json.dumps(
        {
            "schema": "plan-1",
            "pipeline": plan.name,
            "opt_level": plan.opt_level,
            "resolve": plan.resolve,
            "order": plan.order,
            "steps": [_to_dict(step) for step in plan.steps],
            "notes": list(plan.notes),
        },
        indent=2,
    )


def edges(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """Yields the ordering constraints: pairs of step numbers, the earlier one first, with the declaration."""
    for level in (plan.steps, *(step.steps for step in plan.walk())):
        for at, step in enumerate(level):
            later = [other for other in level[at + 1 :] if other.runs]
            by = next((other for other in later if other.name == step.required_by), None)
            if by is not None:
                yield step.number or step.established_by or "", by.number, f"{by.name} requires {step.name}"
            for name in step.after:
                yield from ((one.number, step.number, f"{step.name} declares after {name}") for one in _holders(name, level[:at])[:1])
            for name in step.before:
                yield from ((step.number, one.number, f"{step.name} declares before {name}") for one in _holders(name, later)[-1:])


def _holders(name: str, steps: Sequence[Step]) -> list[Step]:
    own = own_name(name)
    return [step for step in steps if step.runs and own in names_in_pass(step.pass_)]


def settings_text(plan: Plan) -> str:
    """The settings of a plan."""
    return f"at opt_level {plan.opt_level}" + (", requirements resolved as in TVM" if plan.resolve == "relay" else "")


def step_label(step: Step) -> str:
    """The pass of a step as text; for a pipeline, its name."""
    if step.pass_.members is not None:
        return step.pass_.info.name
    try:
        return pipeline_text(step.pass_)
    except ValueError:  # an option without a text form
        return f"{step.pass_.info.name}{{...}}"


def step_why(step: Step) -> str:
    """The reason why a step runs or does not run."""
    return step.why if step.runs else f"does not run: {step.why}"


def _to_dict(step: Step) -> dict[str, AnyValue]:
    return {
        "name": step.name,
        "text": step_label(step),
        "number": step.number or None,
        "runs": step.runs,
        "reason": str(step.reason),
        "why": step.why,
        "stage": step.stage or None,
        "opt_level": step.pass_.info.opt_level,
        "required_by": step.required_by,
        "established_by": step.established_by,
        "after": list(step.after),
        "before": list(step.before),
        "steps": [_to_dict(inner) for inner in step.steps],
    }


_LINE: Final = 17
_MARGIN: Final = 20
_BOX: Final = 44
_GAP: Final = 16
_INDENT: Final = 28
_LANE: Final = 9
_LEGEND: Final = "dashed lines lead from a pass to the passes that require it or are declared to run after it"
_STYLE: Final = """
  text { font: 13px ui-sans-serif, system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; }
  .small { font-size: 11px; fill: #59636e; }
  .strong { font-weight: 600; }
  .plain .box { fill: #eef4fc; stroke: #4a7ab5; }
  .required .box { fill: #eaf6ec; stroke: #4b9560; }
  .group .box { fill: #f6f8fa; stroke: #8c959f; }
  .off .box { fill: none; stroke: #8c959f; stroke-dasharray: 4 3; }
  .off text { fill: #6e7781; }
  .arrow { fill: none; stroke: #59636e; stroke-width: 1.4; }
  .needs { fill: none; stroke: #4b9560; stroke-width: 1.2; stroke-dasharray: 4 3; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .page { fill: #0d1117; }
    .small { fill: #9198a1; }
    .plain .box { fill: #12243a; stroke: #5b8fd0; }
    .required .box { fill: #12291a; stroke: #57ab6b; }
    .group .box { fill: #161b22; stroke: #6e7681; }
    .off .box { stroke: #6e7681; }
    .off text { fill: #8b949e; }
    .arrow { stroke: #9198a1; }
    .needs { stroke: #57ab6b; }
  }
"""


def plan_svg(plan: Plan) -> str:
    """The plan as an SVG drawing. Required passes are green, skipped ones dashed; requirements that hold already are only drawn as
    lines."""
    rows = [(step, depth) for step, depth in nested(plan.steps) if step.established_by is None]
    row_of = {step.number: row for row, (step, _) in enumerate(rows) if step.runs}
    follows = _follows(rows)
    relied: dict[int, dict[int, str]] = {}  # the rows that rely on each row, with the declaration
    for first, then, said in edges(plan):
        if (row_of[first], row_of[then]) not in follows:
            relied.setdefault(row_of[first], {})[row_of[then]] = said
    lanes = _lanes(relied)
    left = _MARGIN + _LANE * (2 + max(lanes.values()) if lanes else 0)
    head = [f'<text class="strong" x="{_MARGIN}" y="{_MARGIN + 12}">{_text(plan.name)}</text>']
    small = [settings_text(plan), *([_LEGEND] if relied else []), *([] if rows else ["(nothing to run)"])]
    head += [_small(line, _MARGIN, _MARGIN + 12 + at * _LINE) for at, line in enumerate(small, 1)]
    top = _MARGIN + 12 + (1 + len(small)) * _LINE

    def place(row: int) -> tuple[int, int]:
        step, depth = rows[row]
        return left + _INDENT * (depth + (not step.runs)), top + row * (_BOX + _GAP)

    drawn: list[str] = []
    width = max(map(text_width, (plan.name, *small)))
    for row, (step, _) in enumerate(rows):
        x, y = place(row)
        element, right = _box(step, x, y)
        drawn.append(element)
        width = max(width, right)
    for one, other in sorted(follows):
        (x, y), (_, end) = place(one), place(other)
        drawn.append(f'<path class="arrow" d="M{x + 14},{y + _BOX} V{end}" marker-end="url(#head)"/>')
    for source, targets in relied.items():
        (x, y), lane = place(source), left - _LANE * (1 + lanes[source])
        drawn.append(f'<path class="needs" d="M{x},{y + 28} H{lane} V{place(max(targets))[1] + 16}"/>')
        for target, said in targets.items():
            x, y = place(target)
            drawn.append(f'<path class="needs" d="M{lane},{y + 16} H{x}"><title>{_text(said)}</title></path>')
    bottom = top + len(rows) * (_BOX + _GAP)
    notes = [f"note: {_shortened(note, 120)}" for note in plan.notes]
    drawn += [_small(note, _MARGIN, bottom + at * _LINE) for at, note in enumerate(notes)]
    width = max([width, *map(text_width, notes)]) + 2 * _MARGIN
    height = bottom + len(notes) * _LINE + _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}" role="img">',
            f"<title>The plan of {_text(plan.name)}</title>",
            f"<style>{_STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path class="arrow" d="M1,1 L7,4 L1,7"/></marker></defs>',
            '<rect class="page" width="100%" height="100%"/>',
            *head,
            *drawn,
            "</svg>\n",
        ]
    )


def _follows(rows: "list[tuple[Step, int]]") -> set[tuple[int, int]]:
    """The pairs of rows that run consecutively in the same pipeline."""
    found: set[tuple[int, int]] = set()
    last: list[int | None] = []
    for row, (step, depth) in enumerate(rows):
        del last[depth + 1 :]
        last += [None] * (depth + 1 - len(last))
        if step.runs:
            before, last[depth] = last[depth], row
            if before is not None:
                found.add((before, row))
    return found


def _lanes(relied: dict[int, dict[int, str]]) -> dict[int, int]:
    """Assigns a lane to each step that others rely on, shortest first, as far right as overlaps allow."""
    lanes: dict[int, int] = {}
    for source in sorted(relied, key=lambda row: (max(relied[row]) - row, row)):
        taken = {lane for other, lane in lanes.items() if other <= max(relied[source]) and source <= max(relied[other])}
        lanes[source] = next(lane for lane in range(len(lanes) + 1) if lane not in taken)
    return lanes


def _box(step: Step, x: int, y: int) -> tuple[str, float]:
    """The box of a step, and its right edge."""
    label, why = step_label(step), f"{step.stage}: {step_why(step)}" if step.stage else step_why(step)
    name, small = f"{step.number}  {_shortened(label, 64)}".lstrip(), _shortened(why, 94)
    style = "off" if not step.runs else "group" if step.steps else "required" if step.required_by else "plain"
    width = max(text_width(name, bold=True), text_width(small, 11)) + 20
    rectangle = f'<rect class="box" rx="5" x="{x}" y="{y}" width="{width:.0f}" height="{_BOX}"/>'
    title = f"<title>{_text(f'{label}: {why}')}</title>"
    text = f'<text class="strong" x="{x + 10}" y="{y + 18}">{_text(name)}</text>{_small(small, x + 10, y + 34)}'
    return f'<g class="{style}">{title}{rectangle}{text}</g>', x + width


def text_width(text: str, size: float = 13, *, bold: bool = False) -> float:
    """A generous estimate of the width of a text, since fonts differ."""
    wide = sum(_EM.get(char, 0.6) if ord(char) < 128 else 1.05 if unicodedata.east_asian_width(char) in "WF" else 0.66 for char in text)
    return wide * size * (1.16 if bold else 1.02)


_EM: Final = {
    **dict.fromkeys("ijl.,:;'|!", 0.32),
    **dict.fromkeys('ftrI()[]{}/\\- "`', 0.42),
    **dict.fromkeys("mwMWQGOD%@", 0.88),
    **dict.fromkeys("ABCEFHKLNPRSTUVXYZ&<>=+~_", 0.7),
}


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 2].rstrip() + "..."


def _small(text: str, x: int, y: int) -> str:
    return f'<text class="small" x="{x}" y="{y}">{_text(text)}</text>'


def _text(text: str) -> str:
    """Escapes a text for XML and drops characters that XML does not allow."""
    return escape("".join(char if char.isprintable() or char == " " else "\N{REPLACEMENT CHARACTER}" for char in text))
