"""A page: one JSON document, made of the report and of what was kept beside it, in one HTML file that asks nothing of any network."""

import base64
import hashlib
import os
from html import escape
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any as AnyValue
from typing import Final

from passat.ir.collector import collector_paused
from passat.ir.whole_file import write_whole
from passat.page.layout import CROWD, HEIGHT, HUB, lay_out
from passat.page.origins import Origins, Record, egraphs_of, silent_rules
from passat.page.program import CALL, Node, Program, Strings, program_of, script_json, shown, twins
from passat.passmgr.planning.render import step_label, text_width
from passat.render import cost_text, seconds, verification_text
from passat.report import Report, RuleReport
from passat.rules.engine.trace import Run

_KINDS: Final = ("call", "input", "output", "other")
_LINES: Final = 200
"""Of each list of sentences so many are told."""
_PLAN: Final = 300
"""A plan of more passes is not drawn."""
_WIDTHS: Final = (58, 240)


def document(report: Report, record: Record) -> dict[str, AnyValue]:
    """All that a page shows, as plain data. Numbers in the columns of graphs are places in `strings`."""
    strings = Strings()
    runs = record.runs
    origins = Origins(runs, record.pass_events)
    before, after = program_of(record.before), program_of(record.after)
    (same_before, same_after), near = twins(before, after)
    made = [origins.rule_of(node.expr) if node.kind == CALL else "" for node in after.nodes]
    remade = {number for number, rule in enumerate(made) if rule}
    graphs = {
        "before": _graph(before, [twin < 0 or twin in remade for twin in same_before], near[0], [""] * len(before.nodes), origins, strings),
        "after": _graph(after, [twin < 0 or i in remade for i, twin in enumerate(same_after)], near[1], made, origins, strings),
    }
    return {
        "head": _head(report),
        "graphs": graphs,
        "rules": [_rule(rule) for rule in report.rules],
        "silent": [shown(name, 120) for name in silent_rules(record)],
        "runs": [_run(run, number < record.first) for number, run in enumerate(runs)],
        "egraphs": egraphs_of(runs, strings),
        "passes": [
            {
                "name": shown(run.name, 120),
                "seconds": run.seconds,
                "depth": run.depth,
                "counters": {key: amount for key, amount in run.counters.items() if amount},
            }
            for run in report.passes
        ],
        "stages": report.seconds,
        "plan": _plan(record),
        "remarks": _sentences([*report.limits, *report.remarks]),
        "strings": strings.texts,
    }


def _head(report: Report) -> dict[str, AnyValue]:
    timings = [
        {
            "name": shown(timing.name, 120),
            "time": shown(timing.failed) if timing.failed else seconds(timing.seconds),
            "faster": timing.faster,
            "chosen": timing.chosen,
        }
        for timing in report.timings
    ]
    if report.verification is not None:
        verified = verification_text(report.verification).plain
        state = {True: "good", False: "bad", None: "open"}[report.verification.equal]
    else:
        verified = "the result is the input, there was nothing to compare" if report.kept else "not verified: switched off"
        state = "open"
    return {
        "source": shown(report.source),
        "output": shown(report.output),
        "nodes": [report.node_count_before, report.node_count_after],
        "costs": [report.cost_before, report.cost_after],
        "cost_texts": [cost_text(report, report.cost_before), cost_text(report, report.cost_after)],
        "in_seconds": report.cost_in_seconds,
        "cost_model": shown(report.cost_model, 80),
        "bytes": [report.bytes_before, report.bytes_after],
        "operators": [
            [shown(name, 120), report.nodes_before.get(name, 0), report.nodes_after.get(name, 0)]
            for name in sorted({*report.nodes_before, *report.nodes_after})
        ],
        "verified": shown(verified, 2000),
        "verification": state,
        "kept": shown(report.kept),
        "interrupted": report.interrupted,
        "notes": _sentences(report.cost_notes),
        "timings": timings,
        "pipeline": shown(report.pipeline, 4000),
    }


def _rule(rule: RuleReport) -> dict[str, AnyValue]:
    return {
        "name": shown(rule.name, 120),
        "matched": rule.matched,
        "refused": rule.refused,
        "reasons": [[shown(reason), count] for reason, count in sorted(rule.reasons.items(), key=lambda item: -item[1])],
        "unions": rule.fired,
        "seconds": rule.seconds,
        "made": rule.made,
        "share": rule.share,
    }


def _graph(
    program: Program, changed: list[bool], twin: list[int], rules: list[str], origins: Origins, strings: Strings
) -> dict[str, AnyValue]:
    """A program in columns. Operands are numbers of nodes; where below 0, `-1 - number` of the text of a constant."""
    widths = [_width(node) for node in program.nodes]
    layout = lay_out([[part for part in node.operands if isinstance(part, int)] for node in program.nodes], widths)
    columns: dict[str, list[AnyValue]] = {
        name: [] for name in ("kind", "label", "attrs", "type", "name", "outputs", "function", "rule", "pass", "operands", "place")
    }
    for node, rule in zip(program.nodes, rules, strict=True):
        place = origins.place_of(node.expr)
        columns["kind"].append(_KINDS.index(node.kind))
        for name in ("label", "attrs", "type", "name", "function"):
            columns[name].append(strings.number(getattr(node, name)))
        columns["outputs"].append([strings.number(output) for output in node.outputs if output != node.name])
        columns["rule"].append(strings.number(rule))
        columns["pass"].append(strings.number("" if rule else shown(origins.pass_of(node.expr), 120)))
        columns["operands"].append([part if isinstance(part, int) else -1 - strings.number(part) for part in node.operands])
        columns["place"].append(0 if place is None else list(place))
    return {
        "total": program.total,
        "height": HEIGHT,
        "hub": HUB,
        "crowd": CROWD,
        "x": layout.x,
        "y": layout.y,
        "column": layout.column,
        "width": [round(width) for width in widths],
        "changed": [int(each) for each in changed],
        "twin": twin,
        **columns,
    }


def _width(node: Node) -> float:
    return min(max(text_width(node.label, 13) + 20, _WIDTHS[0]), _WIDTHS[1])


def _run(run: Run, first: bool) -> dict[str, AnyValue]:
    return {
        "pass": shown(run.pass_name, 120),
        "function": shown(run.function, 120),
        "first": first,
        "initial": run.initial,
        "applications": len(run.applications),
        "stopped": shown(str(run.saturation.stopped)),
        "rounds": [list(each) for each in _history(run)],
    }


def _history(run: Run) -> list[tuple[float, ...]]:
    return [(each.nodes, each.classes, each.matches, each.unions, each.seconds) for each in run.saturation.history]


def _plan(record: Record) -> dict[str, AnyValue]:
    plan = record.plan
    steps = list(islice(plan.walk(), _PLAN + 1))
    svg = plan.to_svg() if len(steps) <= _PLAN else ""
    return {
        "name": shown(plan.name),
        "opt_level": plan.opt_level,
        "steps": [[step.number, shown(step_label(step), 200), shown(step.why)] for step in steps[:_PLAN]],
        "more": len(steps) > _PLAN,
        "notes": _sentences(list(plan.notes)),
        "svg": base64.b64encode(svg.encode("utf-8", "backslashreplace")).decode(),
    }


def _sentences(texts: list[str]) -> list[str]:
    more = [f"... and {len(texts) - _LINES} more"] if len(texts) > _LINES else []
    return [*(shown(text, 600) for text in texts[:_LINES]), *more]


_SCRIPTS: Final = ("elements.js", "drawing.js", "canvas.js", "graphs.js", "tables.js", "rounds.js", "egraph.js", "page.js")
"""In the order in which they run: each uses what those before it define."""


def write_page(path: str | os.PathLike[str], report: Report, record: Record) -> None:
    """Writes the page of an optimization, whole or not at all. Raises OSError."""
    with collector_paused():
        write_whole(Path(path), page_text(report, record).encode())


def page_text(report: Report, record: Record) -> str:
    """The page as HTML.

    Its policy forbids all connections and all scripts but the one that it holds, which goes by its hash: what a model has in its names
    cannot run, wherever it might come to stand.
    """
    style = _read("page.css")
    script = "".join(f"{_read(name)}\n" for name in _SCRIPTS)
    source = os.path.basename(report.source) or report.source
    parts = {
        "policy": f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; "
        "form-action 'none'",
        "title": escape(shown(source, 120)),
        "style": style,
        "data": script_json(document(report, record)),
        "script": script,
    }
    pieces = _read("page.html").split("@@")
    return "".join(parts[piece] if at % 2 else piece for at, piece in enumerate(pieces))


def _read(name: str) -> str:
    return files("passat.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
