"""Plans as text, Graphviz, Mermaid and JSON. The same plan always gives the same characters."""

import itertools
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any as AnyValue

from passat.passmgr.pipeline import pipeline_text

if TYPE_CHECKING:
    from passat.passmgr.passes import Pass
    from passat.passmgr.planning.plan import Plan, Step


def to_text(plan: "Plan") -> str:
    """One line per pass: its number or `-`, its name and options, and why it runs or not."""
    rows = [
        ("  " * depth + (step.number or "-"), step_label(step), step.why if step.runs else f"does not run: {step.why}")
        for step, depth in _walk(plan)
    ]
    wide = [max((len(row[at]) for row in rows), default=0) for at in (0, 1)]
    lines = [f"{plan.name} at opt_level {plan.opt_level}" + (", requirements resolved as in TVM" if plan.resolve == "relay" else "")]
    lines += [f"  {number:{wide[0]}}  {label:{wide[1]}}  {why}" for number, label, why in rows] or ["  (nothing to run)"]
    lines += [f"note: {note}" for note in plan.notes]
    return "\n".join(lines) + "\n"


def to_json(plan: "Plan") -> str:
    """An object: pipeline, opt_level, resolve, order (names that run), steps (nested) and notes."""
    return json.dumps(
        {
            "pipeline": plan.name,
            "opt_level": plan.opt_level,
            "resolve": plan.resolve,
            "order": plan.order,
            "steps": [_to_dict(step) for step in plan.steps],
            "notes": list(plan.notes),
        },
        indent=2,
    )


def to_dot(plan: "Plan") -> str:
    """A digraph. Solid arrows lead from pass to pass in order, dashed ones from what is required to what requires it; grey does not run."""
    lines = [f"digraph {dot_text(plan.name)} {{", "  rankdir=LR;", "  node [shape=box];"]
    ids = _ids(plan)
    depth = 1

    def add(text: str) -> None:
        lines.append("  " * depth + text)

    def steps(level: "tuple[Step, ...]") -> None:
        nonlocal depth
        for step in level:
            if step.pass_.members is not None and step.runs:
                add(f"subgraph cluster_{ids[id(step)]} {{")
                depth += 1
                add(f"label={dot_text(_title(step))};")
                add(f"{ids[id(step)]} [label={dot_text(step.name)}, shape=point];")
                steps(step.steps)
                depth -= 1
                add("}")
            else:
                style = "" if step.runs else ", style=dashed, color=gray, fontcolor=gray"
                add(f"{ids[id(step)]} [label={dot_text(_title(step))}, tooltip={dot_text(step.why)}{style}];")

    steps(plan.steps)
    for source, target, required in _edges(plan):
        style = " [style=dashed, constraint=false]" if required else ""
        add(f"{ids[id(source)]} -> {ids[id(target)]}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def to_mermaid(plan: "Plan") -> str:
    """A flowchart with the same arrows as the Graphviz form."""
    lines = ["flowchart LR"]
    ids = _ids(plan)

    def steps(level: "tuple[Step, ...]", indent: str) -> None:
        for step in level:
            label = mermaid_text(_title(step))
            if step.pass_.members is not None and step.runs:
                lines.append(f'{indent}subgraph {ids[id(step)]}["{label}"]')
                steps(step.steps, indent + "  ")
                lines.append(f"{indent}end")
            else:
                lines.append(f'{indent}{ids[id(step)]}["{label}"]{"" if step.runs else ":::off"}')

    steps(plan.steps, "  ")
    for source, target, required in _edges(plan):
        lines.append(f"  {ids[id(source)]} {'-.->' if required else '-->'} {ids[id(target)]}")
    lines.append("  classDef off stroke-dasharray: 4,color:#888,stroke:#888")
    return "\n".join(lines) + "\n"


def _walk(plan: "Plan") -> Iterator[tuple["Step", int]]:
    stack = [(step, 0) for step in reversed(plan.steps)]
    while stack:
        step, depth = stack.pop()
        yield step, depth
        stack.extend((inner, depth + 1) for inner in reversed(step.steps))


def _ids(plan: "Plan") -> dict[int, str]:
    return {id(step): f"s{at}" for at, step in enumerate(plan.walk(), 1)}


def _edges(plan: "Plan") -> Iterator[tuple["Step", "Step", bool]]:
    """Pairs of steps: each with the next one that runs at its level, and each required one with the one that requires it."""
    levels = [plan.steps, *(step.steps for step in plan.walk() if step.steps)]
    for level in levels:
        running = [step for step in level if step.runs]
        yield from ((a, b, False) for a, b in itertools.pairwise(running))
        yield from ((step, by, True) for step, by in who_requires(level))


def who_requires(level: "tuple[Step, ...]") -> "list[tuple[Step, Step]]":
    """Pairs of steps of one pipeline, in order: one that is required, whether it runs or not, and the next one that requires it."""
    found: list[tuple[Step, Step]] = []
    later: dict[str, Step] = {}
    for step in reversed(level):
        if step.required_by in later:
            found.append((step, later[step.required_by]))
        if step.runs:
            later[step.name] = step
    return found[::-1]


def step_label(step: "Step") -> str:
    """The text of the pass of a step, of a pipeline its name."""
    return pass_label(step.pass_)


def pass_label(pass_: "Pass") -> str:
    """The text of a pass, of a pipeline its name."""
    if pass_.members is not None:
        return pass_.info.name
    try:
        return pipeline_text(pass_)
    except ValueError:  # an option that has no text form
        return f"{pass_.info.name}{{...}}"


def _title(step: "Step") -> str:
    return f"{step.number} {step_label(step)}" if step.runs else step_label(step)


def dot_text(text: str) -> str:
    """A text in quotes, for Graphviz."""
    return json.dumps(text, ensure_ascii=False)


def mermaid_text(text: str) -> str:
    """A text as it stands in quotes in Mermaid, which reads HTML there.

    >>> mermaid_text('PrintIR{header="a<b"}')
    'PrintIR{header=#quot;a#lt;b#quot;}'
    """
    return text.replace("#", "#35;").replace('"', "#quot;").replace("&", "#amp;").replace("<", "#lt;").replace(">", "#gt;")


def _to_dict(step: "Step") -> dict[str, AnyValue]:
    return {
        "name": step.name,
        "text": step_label(step),
        "number": step.number or None,
        "runs": step.runs,
        "reason": str(step.reason),
        "why": step.why,
        "opt_level": step.pass_.info.opt_level,
        "required_by": step.required_by,
        "established_by": step.established_by,
        "steps": [_to_dict(inner) for inner in step.steps],
    }
