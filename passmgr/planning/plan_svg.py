"""Plans as drawings: what runs from top to bottom, what does not run beside it, and who relies on whom in lanes at the left."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from passat.passmgr.planning.render import step_label, who_requires
from passat.passmgr.planning.svg import LINE, Drawing, Label, shortened

if TYPE_CHECKING:
    from passat.passmgr.planning.plan import Plan, Step

_GAP: Final = 18
"""Between boxes, above each other."""

_BESIDE: Final = 28
"""Between what runs and what does not."""

_LANE: Final = 9
_MARGIN: Final = 20


@dataclass(slots=True)
class _Row:
    """A step that runs, with what is told before it and does not; at the end there may be none that runs."""

    step: "Step | None"
    label: Label | None
    beside: "list[tuple[Step, Label]]"
    inner: "_Level | None" = None
    y: float = 0
    width: float = 0
    height: float = 0


@dataclass(slots=True)
class _Level:
    """The steps of one pipeline: rows, the lanes beside them (from row, to rows), and its size."""

    rows: list[_Row]
    lanes: list[tuple[int, list[int], int]] = field(default_factory=list)
    main: float = 0
    left: float = 0
    width: float = 0
    height: float = 0


def plan_svg(plan: "Plan") -> str:
    """The plan as an SVG picture. Green runs because it is required, dashed does not run; dashed lines lead to who relies on a pass."""
    reliances = _reliances(plan)
    level = _level(plan.steps, reliances)
    drawing = Drawing()
    drawing.text(plan.name, _MARGIN, _MARGIN + 12, "strong")
    head = [f"at opt_level {plan.opt_level}" + (", requirements resolved as in TVM" if plan.resolve == "relay" else "")]
    if any(_skips(pair) for pairs in reliances.values() for pair in pairs):
        head.append("dashed lines lead from what is required to those that rely on it")
    for at, line in enumerate(head, 1):
        drawing.text(line, _MARGIN, _MARGIN + 12 + at * LINE)
    top = _MARGIN + 12 + (1 + len(head)) * LINE
    if not plan.steps:
        drawing.text("(nothing to run)", _MARGIN, top + 6)
        top += LINE
    _draw(drawing, level, _MARGIN, top)
    bottom = top + level.height + (_GAP if plan.notes else 0)
    notes = [f"note: {shortened(note, 120)}" for note in plan.notes]
    for at, note in enumerate(notes):
        drawing.text(note, _MARGIN, bottom + at * LINE + 10)
    texts = [Label(text).width for text in (plan.name, *head, *notes)]
    return drawing.svg(max([level.width, *texts]) + 2 * _MARGIN, bottom + len(notes) * LINE + _MARGIN, f"The plan of {plan.name}")


def _reliances(plan: "Plan") -> dict[tuple[str, ...], set[tuple[int, int]]]:
    """Who relies on whom, by pipeline: pairs of the places of two steps in one pipeline, or of the steps that they are nested in."""
    found: dict[tuple[str, ...], set[tuple[int, int]]] = {}
    for steps in [plan.steps, *(step.steps for step in plan.walk() if step.steps)]:
        for step, by in who_requires(steps):
            one, other = (step.number or step.established_by or "").split("."), by.number.split(".")
            shared = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
            if shared is not None:
                found.setdefault(tuple(other[:shared]), set()).add((int(one[shared]), int(other[shared])))
    return found


def _level(steps: "Sequence[Step]", reliances: dict[tuple[str, ...], set[tuple[int, int]]], path: tuple[str, ...] = ()) -> _Level:
    """The steps of a pipeline with all sizes, and places relative to its corner."""
    rows: list[_Row] = []
    beside: list[tuple[Step, Label]] = []
    for step in steps:
        if step.runs:
            rows.append(_Row(step, _label(step), beside))
            beside = []
        else:
            beside.append((step, _label(step)))
    if beside:
        rows.append(_Row(None, None, beside))
    level = _Level(rows)
    y = 0.0
    for row in rows:
        _measure(row, reliances)
        row.y = y
        y += max(row.height, sum(label.height + 6 for _, label in row.beside) - 6) + _GAP
    level.height = max(0.0, y - _GAP)
    level.lanes = _lanes(reliances.get(path, set()))
    level.left = _LANE * (2 + max((lane for *_, lane in level.lanes), default=-1)) if level.lanes else 0
    # Boxes of one pipeline are equally wide, so that they stand in a column; pipelines in it take what they need.
    leaf = max((row.width for row in rows if row.inner is None), default=0)
    for row in rows:
        row.width = max(row.width, leaf) if row.step else 0
    level.main = max((row.width for row in rows), default=0)
    level.width = level.left + max(
        (row.width + (_BESIDE if row.step else 0) + max((label.width for _, label in row.beside), default=-_BESIDE) for row in rows),
        default=0,
    )
    return level


def _measure(row: _Row, reliances: dict[tuple[str, ...], set[tuple[int, int]]]) -> None:
    if row.step is None or row.label is None:
        return
    row.width, row.height = row.label.width, row.label.height
    if row.step.steps:
        row.inner = _level(row.step.steps, reliances, tuple(row.step.number.split(".")))
        row.width = max(row.width, row.inner.width + 2 * _GAP)
        row.height += row.inner.height + _GAP


def _skips(pair: tuple[int, int]) -> bool:
    """Whether other steps run between the two. Where none does, the arrow between them says it."""
    return pair[1] != pair[0] + 1


def _lanes(pairs: set[tuple[int, int]]) -> list[tuple[int, list[int], int]]:
    """One lane for each step that others rely on, as far left as lanes that it overlaps push it."""
    by_source: dict[int, list[int]] = {}
    for source, target in sorted(filter(_skips, pairs)):
        by_source.setdefault(source, []).append(target)
    lanes: list[tuple[int, list[int], int]] = []
    ends: list[int] = []
    for source, targets in sorted(by_source.items(), key=lambda item: (item[1][-1] - item[0], item[0])):
        taken = {lane for other, others, lane in lanes if not (others[-1] < source or targets[-1] < other)}
        lane = next(lane for lane in range(len(ends) + 1) if lane not in taken)
        ends += [0] if lane == len(ends) else []
        lanes.append((source, targets, lane))
    return lanes


def _draw(drawing: Drawing, level: _Level, x: float, y: float) -> None:
    left = x + level.left
    running = [row for row in level.rows if row.step is not None]
    for row in level.rows:
        if row.label is not None:
            drawing.box(row.label, left, y + row.y, row.width, row.height)
        if row.inner is not None and row.label is not None:
            _draw(drawing, row.inner, left + _GAP, y + row.y + row.label.height)
        aside = y + row.y
        for _, label in row.beside:
            drawing.box(label, left + row.width + (_BESIDE if row.step else 0), aside, label.width, label.height)
            aside += label.height + 6
    for one, other in pairwise(running):
        spine = left + 26
        drawing.path([(spine, y + one.y + one.height), (spine, y + other.y)])
    for source, targets, lane in level.lanes:
        at = left - _LANE * (1.5 + lane)
        start = running[source - 1]
        name = start.label.name if start.label else ""
        last = running[targets[-1] - 1]
        drawing.path([(left, y + start.y + 22), (at, y + start.y + 22), (at, y + last.y + 12)], "needs", head=False)
        for target in targets:
            end = running[target - 1]
            points = [(at, y + end.y + 12), (left, y + end.y + 12)]
            drawing.path(points, "needs", f"{end.label.name if end.label else ''} relies on {name}")


def _label(step: "Step") -> Label:
    text = step_label(step)
    name = f"{step.number.rpartition('.')[2]}  {shortened(text)}" if step.runs else shortened(text)
    why = step.why if step.runs else f"does not run: {step.why}"
    style = "off" if not step.runs else "group" if step.steps else "required" if step.required_by else ""
    full = f"{text}: " if len(text) > 64 else ""
    return Label(name, (shortened(why, 94),), full + why, style)
