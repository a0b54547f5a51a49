"""Plans as text and JSON. The same plan always gives the same characters."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from typing import Any as AnyValue

from passat.passmgr.pipeline import pipeline_text
from passat.passmgr.planning.dependencies import names_in_pass, short_name

if TYPE_CHECKING:
    from passat.passmgr.planning.plan import Plan, Step


def to_text(plan: "Plan") -> str:
    """One line per pass: its number or `-`, its name and options, the stage that it shares with others, and why it runs or not."""
    rows = [("  " * depth + (step.number or "-"), step_label(step), step.stage, step_why(step)) for step, depth in walk(plan.steps)]
    wide = [max((len(row[at]) for row in rows), default=0) for at in range(3)]
    lines = [f"{plan.name} {settings_text(plan)}"]
    for *columns, why in rows:
        lines.append("  " + "".join(f"{column:{width}}  " for column, width in zip(columns, wide, strict=True) if width) + why)
    lines += [] if rows else ["  (nothing to run)"]
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


def walk(steps: "Sequence[Step]") -> "Iterator[tuple[Step, int]]":
    """All steps with how deep they are nested, each before those nested in it."""
    stack = [(step, 0) for step in reversed(steps)]
    while stack:
        step, depth = stack.pop()
        yield step, depth
        stack.extend((inner, depth + 1) for inner in reversed(step.steps))


def edges(plan: "Plan") -> "Iterator[tuple[str, str, str]]":
    """Why steps stand where they do: pairs of numbers of steps, the earlier one first, with what one of them declares."""
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


def _holders(name: str, steps: "Sequence[Step]") -> "list[Step]":
    return [step for step in steps if step.runs and short_name(name) in names_in_pass(step.pass_)]


def settings_text(plan: "Plan") -> str:
    """The settings for which a plan was made."""
    return f"at opt_level {plan.opt_level}" + (", requirements resolved as in TVM" if plan.resolve == "relay" else "")


def step_label(step: "Step") -> str:
    """The text of the pass of a step, of a pipeline its name."""
    if step.pass_.members is not None:
        return step.pass_.info.name
    try:
        return pipeline_text(step.pass_)
    except ValueError:  # an option that has no text form
        return f"{step.pass_.info.name}{{...}}"


def step_why(step: "Step") -> str:
    """Why a step runs where it does, or does not run."""
    return step.why if step.runs else f"does not run: {step.why}"


def _to_dict(step: "Step") -> dict[str, AnyValue]:
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
