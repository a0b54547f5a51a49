"""The page of a report: one JSON document, made from the report and the record, in one HTML file that opens no connection. Its e-graphs
have all e-classes and e-nodes, or those around which rules applied."""

import base64
import hashlib
import os
from collections import deque
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any as AnyValue
from typing import Final

from passat.ir.collector import collector_paused
from passat.ir.counting import seconds
from passat.ir.expr import Var
from passat.ir.onnx.flat_graph import INPUT, NODE, OUTPUT
from passat.ir.tensor import Tensor
from passat.ir.whole_file import write_whole
from passat.page.origins import Origins, Record, Side, details, input_of, is_counted, result_of, silent_rules, spelling
from passat.page.regions import Comparison, compare, explain, grouped, savings
from passat.page.texts import Strings, attrs_text, constant_text, script_json, shown, type_text
from passat.passmgr.planning.render import step_label
from passat.render import cost_text, verification_text
from passat.report import Report, RuleReport
from passat.rules.engine.graph import Graph
from passat.rules.engine.symbols import CALL, CONST, GET, LEAF
from passat.rules.engine.trace import Run
from passat.rules.rule import without_operators

_KINDS: Final = (NODE, INPUT, OUTPUT)
_LINES: Final = 200
"""Maximum number of sentences in a list."""
_PLAN: Final = 300
"""Plans with more passes are not drawn."""
MOST: Final = 25_000
"""Maximum number of nodes shown of a model; the first ones are."""


def document(report: Report, record: Record) -> dict[str, AnyValue]:
    """The content of a page as plain data. Numbers in the columns of graphs are indices into `strings`."""
    strings = Strings()
    runs = record.runs
    origins = Origins(runs, record.pass_events)
    sides = input_of(record), result_of(record)
    found = compare(record, sides)
    known = details(record, sides[0], after=False), details(record, sides[1], after=True)
    explain(found, sides, (known[0][1], known[1][1]), origins)
    saved = savings(found)
    return {
        "head": _head(report),
        "graphs": {name: _graph(at, sides[at], found, known[at], origins, strings) for at, name in enumerate(("before", "after"))},
        "regions": grouped(found, sides, MOST),
        "rules": [_rule(rule, saved.get(rule.name, (0.0, 0, 0))) for rule in report.rules],
        "silent": [shown(name, 120) for name in silent_rules(record)],
        "runs": [_run(run, number < record.first) for number, run in enumerate(runs)],
        "egraphs": egraphs_of(runs, strings, spelling(sides)),
        "passes": [
            {
                "name": shown(run.name, 120),
                "seconds": run.seconds,
                "depth": run.depth,
                "stage": run.stage,
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


def _rule(rule: RuleReport, saved: tuple[float, int, int]) -> dict[str, AnyValue]:
    return {
        "saving": saved[0],
        "regions": saved[1],
        "removed": saved[2],
        "name": shown(rule.name, 120),
        "matched": rule.matched,
        "rejected": rule.rejected,
        "reasons": [[shown(reason), count] for reason, count in sorted(rule.reasons.items(), key=lambda item: -item[1])],
        "unions": rule.fired,
        "seconds": rule.seconds,
        "made": rule.made,
        "share": rule.share,
    }


_COLUMNS: Final = (
    *("kind", "counted", "label", "attrs", "type", "name", "outputs", "where", "cost", "rule", "pass", "operands", "place", "twin"),
    "state",
)


def _graph(
    at: int, side: Side, found: Comparison, known: tuple[list[str], list[float]], origins: Origins, strings: Strings
) -> dict[str, AnyValue]:
    """A model as columns. An operand is the number of a node, or `-1 - i` for a constant with text `i`."""
    columns: dict[str, list[AnyValue]] = {name: [] for name in _COLUMNS}
    for number, node in enumerate(side.nodes[:MOST]):
        place = side.place(number, origins)
        rule = side.rule(number, origins) if at else ""
        twin = found.twins[at][number]
        texts = {
            "label": shown(node.operator, 80),
            "attrs": shown(", ".join(f"{shown(name, 60)}={shown(value, 160)}" for name, value in node.attributes.items())),
            "type": known[0][number],
            "name": shown(node.name),
            "where": shown(node.where, 200),
            "rule": rule,
            "pass": "" if rule or not at else shown(side.pass_name(number, origins), 120),
        }
        for name, text in texts.items():
            columns[name].append(strings.number(text))
        columns["kind"].append(_KINDS.index(node.kind))
        columns["counted"].append(int(is_counted(node)))
        columns["outputs"].append([strings.number(shown(output)) for output in node.outputs[:8] if output != node.name])
        columns["cost"].append(float(f"{known[1][number]:.4g}"))
        columns["operands"].append([part if isinstance(part, int) else -1 - strings.number(_constant(part)) for part in node.operands])
        columns["place"].append(0 if place is None else list(place))
        columns["twin"].append(twin if twin < MOST else -1)
        columns["state"].append(found.states[at][number])
    return {"total": len(side.nodes), **columns}


def _constant(part: "Tensor | str") -> str:
    return shown(part) if isinstance(part, str) else constant_text(part)


def _run(run: Run, first: bool) -> dict[str, AnyValue]:
    return {
        "pass": shown(run.pass_name, 120),
        "function": shown(run.function, 120),
        "first": first,
        "initial": run.initial,
        "applications": len(run.applications),
        "stopped": shown("; ".join([str(run.saturation.stopped), *(f"{rule} {how}" for rule, how in run.saturation.ended.items())])),
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


MOST_ENODES: Final = 2_000
"""Maximum number of e-nodes shown of an e-graph; those near applied rules come first."""
MOST_TOGETHER: Final = 40_000
"""Maximum number of e-nodes of all e-graphs of a page."""
_DEPTH: Final = 2
_USERS: Final = 8
"""Maximum number of users of an e-class that are kept in a truncated e-graph."""


def egraphs_of(
    runs: Sequence[Run], strings: Strings, spelling: Mapping[str, str] = MappingProxyType({})
) -> list[dict[str, AnyValue] | None]:
    """The e-graph of each run, truncated; None beyond the total limit. E-graphs with the most merged e-classes come first. `spelling` maps
    operators of the intermediate representation to ONNX operators."""
    left = MOST_TOGETHER
    found: list[dict[str, AnyValue] | None] = [None] * len(runs)
    for number in sorted(range(len(runs)), key=lambda i: (-len(runs[i].graph.members), -len(runs[i].applications), i)):
        if left > 0:
            made = found[number] = _egraph(runs[number], strings, spelling, min(MOST_ENODES, left))
            left -= made["nodes"]
    return found


def _egraph(run: Run, strings: Strings, spelling: Mapping[str, str], most: int) -> dict[str, AnyValue]:
    """One e-graph as columns. Operands are indices into the list of e-classes; -1 for an e-class that is left out."""
    graph = run.graph
    nodes_of = _nodes(run)
    classes = _chosen_classes(run, nodes_of, most)
    place = {cls: at for at, cls in enumerate(classes)}
    columns: dict[str, list[AnyValue]] = {name: [] for name in ("cls", "label", "operator", "attrs", "cost", "rule", "taken", "operands")}
    for cls in classes:
        for node in nodes_of[cls]:
            rule = without_operators(run.provenance.get(node, ("", 0))[0])
            columns["cls"].append(place[cls])
            label = _label(graph, node)
            columns["label"].append(strings.number(spelling.get(label, label)))
            columns["operator"].append(strings.number(label))
            columns["attrs"].append(strings.number(_attrs(graph, node)))
            columns["cost"].append(None if run.space is None else float(f"{run.space.costs[node]:.4g}"))
            columns["rule"].append(strings.number(rule))
            columns["taken"].append(int(run.choice is not None and run.choice.get(cls) == node))
            columns["operands"].append([place.get(graph.find(part), -1) for part in graph.operands[node]])
    return {
        "classes": classes,
        "types": [strings.number(type_text(graph.types[cls])) for cls in classes],
        "constant": [at for at, cls in enumerate(classes) if cls in graph.constants],
        "root": place.get(graph.find(run.root), -1),
        "nodes": len(columns["cls"]),
        "total": len(graph),
        **columns,
    }


def _nodes(run: Run) -> dict[int, list[int]]:
    """The e-nodes of each e-class; of congruent ones only one."""
    graph = run.graph
    found: dict[int, list[int]] = {}
    seen: set[object] = set()
    for node in range(len(graph)):
        cls = graph.find(node)
        content = (cls, graph.symbols[node], graph.payloads[node], tuple([graph.find(part) for part in graph.operands[node]]))
        taken = run.choice is not None and run.choice.get(cls) == node
        if content not in seen or taken:
            seen.add(content)
            found.setdefault(cls, []).append(node)
    return found


def _chosen_classes(run: Run, nodes_of: dict[int, list[int]], most: int) -> list[int]:
    """The e-classes to keep, in the order of the program: all, or those in which rules applied with those around them."""
    if sum(map(len, nodes_of.values())) <= most:
        return sorted(nodes_of)
    graph = run.graph
    users: dict[int, list[int]] = {}
    for cls, nodes in nodes_of.items():
        for node in nodes:
            for part in graph.operands[node]:
                users.setdefault(graph.find(part), []).append(cls)
    kept: set[int] = set()
    room = most
    for start in _seeds(run):
        queue, near = deque([(start, 0)]), {start}
        while queue and room > 0:
            cls, depth = queue.popleft()
            if cls not in kept and len(nodes_of[cls]) <= room:
                kept.add(cls)
                room -= len(nodes_of[cls])
            if depth < _DEPTH:
                below = [graph.find(part) for node in nodes_of[cls] for part in graph.operands[node]]
                around = [other for other in (*below, *users.get(cls, ())[:_USERS]) if other not in near]
                near.update(around)
                queue.extend((other, depth + 1) for other in around)
        if room <= 0:
            break
    return sorted(kept)


def _seeds(run: Run) -> list[int]:
    """The most important e-classes: those of the first application of each rule, then of the second, and so on."""
    turns: dict[str, int] = {}
    found: list[tuple[int, int, int]] = []
    for number, application in enumerate(run.applications):
        turn = turns[application.rule] = turns.get(application.rule, 0) + 1
        found += [(turn, number, run.graph.find(root)) for root, _ in application.unions]
    ordered = [cls for _, _, cls in sorted(found)]
    return list(dict.fromkeys([*ordered, *sorted(run.graph.members), run.graph.find(run.root)]))


def _label(graph: Graph, node: int) -> str:
    symbol, payload = graph.symbols[node], graph.payloads[node]
    if symbol.kind == CALL and symbol.op is not None:
        return shown(symbol.op.name, 80)
    if symbol.kind == CONST:
        return "constant"
    if symbol.kind == GET:
        return f".{payload}"
    if symbol.kind == LEAF:
        leaf = graph.leaves[payload]
        return shown(leaf.name_hint, 80) if isinstance(leaf, Var) else type(leaf).__name__
    return symbol.kind


def _attrs(graph: Graph, node: int) -> str:
    symbol, payload = graph.symbols[node], graph.payloads[node]
    if symbol.kind == CALL and symbol.op is not None:
        defaults = symbol.op.defaults
        return attrs_text({name: value for name, value in graph.attrs[payload].items() if name not in defaults or value != defaults[name]})
    return constant_text(graph.tensors[payload]) if symbol.kind == CONST else ""


_SCRIPTS: Final = (
    *("dagre.min.js", "elements.js", "picture.js", "changes.js", "details.js", "listing.js", "tables.js", "rounds.js"),
    *("egraph.js", "page.js"),
)
"""In execution order: each script uses names that earlier ones define."""


def write_page(path: str | os.PathLike[str], report: Report, record: Record) -> None:
    """Writes the page of an optimization atomically. Raises OSError."""
    with collector_paused():
        write_whole(Path(path), page_text(report, record).encode())


def page_text(report: Report, record: Record) -> str:
    """The page as HTML.

    Its content security policy forbids all connections, and all scripts except its own, which it names by hash: text from a model never
    runs, wherever it appears.
    """
    style = _read("page.css")
    script = f"/*\n{_read('dagre.LICENSE')}*/\n" + "".join(f"{_read(name)}\n" for name in _SCRIPTS)
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
