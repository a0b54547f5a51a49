"""What an optimization keeps for its page beside the report, and what the page shows of it: which rule or pass made which node of a result,
the e-graphs with all their nodes, what rules did in full."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple
from typing import Any as AnyValue

from passat.ir.expr import Call, Expr, Var
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.page.texts import Strings, attrs_text, constant_text, shown, type_text
from passat.report import Report
from passat.rules.cost import CostModel
from passat.rules.engine.graph import CALL, CONST, GET, LEAF, TUPLE, Graph
from passat.rules.engine.rebuild import parts_of
from passat.rules.engine.trace import Run
from passat.rules.provenance.node_traces import NodeTraces
from passat.rules.provenance.pass_trace import PassEvent, counterparts, identity_of, is_only_rebuilt
from passat.rules.rule import without_operators

if TYPE_CHECKING:
    from onnx import ModelProto

    from passat.passmgr import Plan


class Record(NamedTuple):
    """What `write_report` needs beside the report.

    `models` are the input and the result, `folder` that of their external data, `before` and `after` the programs that were read and
    written, and `written` has the names of the values that each call of `after` was written as, by the identity of the call. `runs` are all
    saturations in order; the first `first` of them belong to the first run of the pipeline, the others made candidates. `pass_events`
    are the passes of the first run, `prices` is the cost model.
    """

    models: "tuple[ModelProto, ModelProto]"
    folder: str | None
    before: IRModule
    after: IRModule
    written: Mapping[int, Sequence[str]]
    prices: CostModel
    plan: "Plan"
    runs: Sequence[Run]
    first: int
    pass_events: Sequence[PassEvent] = ()


class Place(NamedTuple):
    """A class of an e-graph: which run's, and its number."""

    run: int
    cls: int


class Origins:
    """What is known of the expressions of all runs, by their identity. The runs keep the expressions alive.

    A rule made a node where it applied first and built it; what later passes only gave other operands stays that rule's. `pass_events` are
    the passes between which the runs are: of those without runs, which are walks, what they made is known from what they were given.
    """

    def __init__(self, runs: Sequence[Run], pass_events: Sequence[PassEvent] = ()) -> None:
        self.places: dict[int, Place] = {}
        self._rules: dict[int, str] = {}
        self._passes: dict[int, str] = {}
        self._named: dict[object, str] = {}
        self._runs = runs
        self._nodes: dict[int, list[tuple[int, int]]] = {}
        self._alike: dict[object, list[tuple[int, int]]] = {}
        self._applied: dict[int, dict[int, list[str]]] = {}
        walks = [each for each in pass_events if each.first == each.end and each.before is not each.after]
        for number, run in enumerate(runs):
            while walks and walks[0].end <= number:
                self._walk(walks.pop(0))
            for key, node in run.graph.ids.items():
                self._see(key, number, run, node)
                self._nodes.setdefault(key, []).append((number, node))
                origin = run.graph.origins[node]
                if origin is not None and identity_of(origin) is not None:
                    self._alike.setdefault(identity_of(origin), []).append((number, node))
            if run.choice is not None:
                self._follow(number, run, run.choice)
        for walk in walks:
            self._walk(walk)

    def rule_of(self, expr: Expr | None) -> str:
        """The rule that made an expression; "" where none did, as far as is known."""
        if expr is None:
            return ""
        return self._rules.get(id(expr)) or self._named.get(identity_of(expr), "")

    def pass_of(self, expr: Expr | None) -> str:
        """The pass without rules that made an expression, or gave it other operands; "" where none did, as far as is known."""
        return "" if expr is None else self._passes.get(id(expr), "")

    def place_of(self, expr: Expr | None) -> Place | None:
        """The e-class to show for an expression: the one in which another e-node was extracted, else that of the last e-graph with
        alternatives, else that of the last e-graph at all."""
        for number, node in self._nodes_of(expr):
            run = self._runs[number]
            cls = run.graph.find(node)
            if run.choice is not None and run.choice.get(cls, node) != node and cls in run.members:
                return Place(number, cls)
        return self.places.get(id(expr))

    def replaced_by(self, expr: Expr | None) -> list[str]:
        """The rules whose right side was extracted in place of an expression."""
        for number, node in self._nodes_of(expr):
            run = self._runs[number]
            cls = run.graph.find(node)
            chosen = None if run.choice is None else run.choice.get(cls)
            if chosen is None or chosen == node:
                continue
            rule = without_operators(run.provenance.get(chosen, ("", 0))[0])
            found = [rule] if rule else self._rules_at(number, cls)
            if found:
                return found
        return []

    def is_constant(self, expr: Expr | None) -> bool:
        """Whether some e-graph has an expression in an e-class with a constant."""
        runs = self._runs
        return any(runs[number].graph.find(node) in runs[number].graph.constants for number, node in self._nodes_of(expr))

    def _nodes_of(self, expr: Expr | None) -> list[tuple[int, int]]:
        """The e-nodes that an expression was read as, also after a pass has built it anew; each with its run."""
        if expr is None:
            return []
        return list(dict.fromkeys([*self._nodes.get(id(expr), ()), *self._alike.get(identity_of(expr), ())]))

    def _rules_at(self, number: int, cls: int) -> list[str]:
        """The rules that made nodes of an e-class equal, each once."""
        if number not in self._applied:
            found = self._applied[number] = {}
            run = self._runs[number]
            for application in run.applications:
                for root, _ in application.unions:
                    rules = found.setdefault(run.graph.find(root), [])
                    name = without_operators(application.rule)
                    if name not in rules:
                        rules.append(name)
        return self._applied[number].get(cls, [])

    def _walk(self, walk: PassEvent) -> None:
        """Finds what a pass has made that has no rules. What it only built anew is still the work of whoever had made it."""
        old = {id(expr) for function in walk.before.functions.values() for expr in post_order(function)}
        found = counterparts(walk.before, walk.after)
        for function in walk.after.functions.values():
            for expr in post_order(function):
                if id(expr) in old:
                    continue
                earlier = found.get(id(expr))
                self._note_as(expr, self.rule_of(earlier))
                who = self.pass_of(earlier) if earlier is not None and is_only_rebuilt(expr, found) else walk.name
                if who:
                    self._passes.setdefault(id(expr), who)
                if id(earlier) in self.places:
                    self.places.setdefault(id(expr), self.places[id(earlier)])

    def _see(self, key: int, number: int, run: Run, node: int) -> None:
        cls = run.graph.find(node)
        if key not in self.places or cls in run.members:
            self.places[key] = Place(number, cls)

    def _follow(self, number: int, run: Run, choice: Mapping[int, int]) -> None:
        """Goes through a result and the nodes that were chosen for it side by side."""
        graph = run.graph
        pending: list[tuple[Expr, int]] = [(run.result, graph.find(run.root))]
        seen: set[int] = set()
        while pending:
            expr, cls = pending.pop()
            node = choice.get(cls)
            if node is None or id(expr) in seen:
                continue
            seen.add(id(expr))
            self._see(id(expr), number, run, node)
            self._note(expr, run, node)
            if graph.symbols[node].kind in (CALL, TUPLE, GET) and _is(expr, graph, node):
                pending += [(part, graph.find(operand)) for part, operand in zip(parts_of(expr), graph.operands[node], strict=True)]

    def _note(self, expr: Expr, run: Run, node: int) -> None:
        rule = without_operators(run.provenance.get(node, ("", 0))[0])
        origin = run.graph.origins[node]
        if not rule and origin is not None:
            rule = self.rule_of(origin)
            if not rule and self.pass_of(origin):
                self._passes.setdefault(id(expr), self.pass_of(origin))
        self._note_as(expr, rule)

    def _note_as(self, expr: Expr, rule: str) -> None:
        if rule:
            self._rules[id(expr)] = rule
            name = identity_of(expr)
            if name is not None:
                self._named[name] = rule


def _is(expr: Expr, graph: Graph, node: int) -> bool:
    """Whether an expression is built of operands as the node is."""
    symbol = graph.symbols[node]
    return len(parts_of(expr)) == len(graph.operands[node]) and (not isinstance(expr, Call) or expr.op is symbol.op)


MOST: Final = 2_000
"""Of each e-graph at most so many nodes are told, those around which rules did something."""
MOST_TOGETHER: Final = 40_000
"""And of all e-graphs together."""
_DEPTH: Final = 2
_USERS: Final = 8
"""Of the users of a class so many are told where there is little room."""


def egraphs_of(
    runs: Sequence[Run], strings: Strings, spelling: Mapping[str, str] = MappingProxyType({})
) -> list[dict[str, AnyValue] | None]:
    """For each run its e-graph, bounded; None where no room is left. Those in which most was found come first. `spelling` has the ONNX
    operators to show for operators of the intermediate representation."""
    left = MOST_TOGETHER
    found: list[dict[str, AnyValue] | None] = [None] * len(runs)
    for number in sorted(range(len(runs)), key=lambda i: (-len(runs[i].members), -len(runs[i].applications), i)):
        if left > 0:
            made = found[number] = _egraph(runs[number], strings, spelling, min(MOST, left))
            left -= made["nodes"]
    return found


def _egraph(run: Run, strings: Strings, spelling: Mapping[str, str], most: int) -> dict[str, AnyValue]:
    """One e-graph in columns. Operands are places in the list of classes; -1 where the class has been left out."""
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
    """The nodes of each class, of those that have become equal one."""
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
    """The classes to tell, in the order of the program: all, or those in which rules did something, and what is around them."""
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
    """Where to look first: where each rule applied for the first time, then where each did for the second time, and so on."""
    turns: dict[str, int] = {}
    found: list[tuple[int, int, int]] = []
    for number, application in enumerate(run.applications):
        turn = turns[application.rule] = turns.get(application.rule, 0) + 1
        found += [(turn, number, run.graph.find(root)) for root, _ in application.unions]
    ordered = [cls for _, _, cls in sorted(found)]
    return list(dict.fromkeys([*ordered, *sorted(cls for cls in run.members if run.graph.find(cls) == cls), run.graph.find(run.root)]))


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


def add_statistics(report: Report, record: Record) -> None:
    """Adds to the rules of a report what a record knows of them."""
    rules = {rule.name: rule for rule in report.rules}
    for run in record.runs[: record.first]:
        for name, statistics in run.saturation.rules.items():
            rule = rules.get(without_operators(name))
            if rule is not None:
                rule.seconds += statistics.seconds
                for reason, count in statistics.reasons.items():
                    rule.reasons[reason] = rule.reasons.get(reason, 0) + count
    made, calls = made_by_rules(record)
    node_traces = NodeTraces(record.runs[: record.first], [each for each in record.pass_events if each.end <= record.first])
    taken = set() if report.kept else set(map(without_operators, node_traces.rules()))
    eager = {without_operators(name) for run in record.runs for name in run.graph.statistics}
    for rule in report.rules:
        rest = rule.refused - sum(rule.reasons.values())  # the engine keeps the first few of each saturation
        if rest > 0:
            rule.reasons["(other reasons)"] = rest
        rule.made = made.get(rule.name, 0)
        rule.share = rule.made / calls if calls else 0.0
        rule.taken = rule.name in taken or (None if rule.name in eager else False)  # what eager rules make leaves no choice
    report.recorded = True


def made_by_rules(record: Record) -> tuple[dict[str, int], int]:
    """How many nodes of the result each rule made, and how many nodes there are."""
    from passat.page.sides import result_of  # which needs onnx

    side, origins = result_of(record), Origins(record.runs, record.pass_events)
    rules = [side.rule(number, origins) for number in side.counted]
    return dict(Counter(filter(None, rules))), len(rules)


def silent_rules(record: Record) -> list[str]:
    """The rules that ran and of whose left sides nothing was found."""
    runs = record.runs[: record.first]
    stages = [stage for run in runs for stage in run.stages]
    heard = [matcher.name for stage in stages for matcher in stage.matchers] + [each.name for stage in stages for each in stage.groupers]
    ran = map(without_operators, heard)
    matched = {without_operators(name) for run in runs for name, statistics in run.saturation.rules.items() if statistics.matches}
    return [name for name in dict.fromkeys(ran) if name not in matched]
