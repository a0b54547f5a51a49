"""The record of an optimization, which is the data for its page: its two models, with the types, costs and expressions of their nodes, and
the origin of each node of the result: the rule or pass that created it."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from passat.ir.expr import Call, Expr
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx
from passat.ir.onnx.flat_graph import NODE, FlatNode, flat_graph
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.ir.types import TupleType
from passat.page.texts import type_text
from passat.report import NOT_COUNTED, Report
from passat.rules.cost import CostModel, call_costs
from passat.rules.engine.trace import Run
from passat.rules.provenance.node_traces import NodeTraces
from passat.rules.provenance.pass_trace import PassEvent, identity_of
from passat.rules.rule import without_operators
from passat.written_as_read import written_as_read

if TYPE_CHECKING:
    from onnx import ModelProto

    from passat.passmgr import Plan


class Record(NamedTuple):
    """The data of `write_report` besides the report.

    `models` are the input and the result, `folder` that of their external data, `before` and `after` the programs that were read and
    written, and `written` has the names of the values that each call of `after` was written as, by the identity of the call. `runs` are all
    saturations in order; the first `first` of them belong to the first run of the pipeline, the others to candidates. `pass_events` are the
    passes of the first run, `prices` is the cost model.
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

    @property
    def node_traces(self) -> NodeTraces:
        """The traces of the nodes of the first run's result."""
        return NodeTraces(self.runs[: self.first], [each for each in self.pass_events if each.end <= self.first])


class Place(NamedTuple):
    """An e-class: the number of its run, and its number in the e-graph."""

    run: int
    cls: int


class Origins:
    """The origins of the expressions of all runs: the rules and passes that made them, and their e-classes. The runs keep the expressions
    alive. `pass_events` are the passes around the runs."""

    def __init__(self, runs: Sequence[Run], pass_events: Sequence[PassEvent] = ()) -> None:
        self._traces = NodeTraces(runs, pass_events)
        self._runs = runs
        self._places: dict[int, Place] = {}
        self._nodes: dict[int, list[tuple[int, int]]] = {}
        self._alike: dict[object, list[tuple[int, int]]] = {}
        self._applied: dict[int, dict[int, list[str]]] = {}
        for number, run in enumerate(runs):
            for key, node in run.graph.ids.items():
                self._see(key, number, run, node)
                self._nodes.setdefault(key, []).append((number, node))
                origin = run.graph.origins[node]
                if origin is not None and identity_of(origin) is not None:
                    self._alike.setdefault(identity_of(origin), []).append((number, node))
            for expr, cls in () if run.choice is None else run.extracted():
                self._see(id(expr), number, run, cls)

    def rule_of(self, expr: Expr) -> str:
        """The rule that made an expression; "" if none is known. A node that later passes only rebuild with other operands keeps its
        rule."""
        return without_operators(self._traces.maker(expr)[0])

    def pass_of(self, expr: Expr) -> str:
        """The pass without rules that made or rebuilt an expression; "" if none is known, or if a rule made it."""
        return self._traces.maker(expr)[1]

    def place_of(self, expr: Expr) -> Place | None:
        """The e-class to show for an expression: the one in which another e-node was extracted, else that of the last e-graph with
        alternatives, else that of the last e-graph at all."""
        for number, node in self._nodes_of(expr):
            run = self._runs[number]
            cls = run.graph.find(node)
            if run.choice is not None and run.choice.get(cls, node) != node and cls in run.graph.members:
                return Place(number, cls)
        return self._places.get(id(expr))

    def replaced_by(self, expr: Expr) -> list[str]:
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

    def is_constant(self, expr: Expr) -> bool:
        """True if some e-graph has the expression in an e-class with a constant."""
        runs = self._runs
        return any(runs[number].graph.find(node) in runs[number].graph.constants for number, node in self._nodes_of(expr))

    def _nodes_of(self, expr: Expr) -> list[tuple[int, int]]:
        """The e-nodes of an expression, each with its run, including those from before a pass rebuilt it."""
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

    def _see(self, key: int, number: int, run: Run, node: int) -> None:
        cls = run.graph.find(node)
        if key not in self._places or cls in run.graph.members:
            self._places[key] = Place(number, cls)


class Side:
    """One of two models. `nodes` are its nodes, inputs and outputs; `calls` has the expressions of each node of the recorded program."""

    def __init__(self, nodes: list[FlatNode], calls: list[list[Expr]], unchanged: Set[str] = frozenset()) -> None:
        self.nodes = nodes
        self.calls = calls
        self._unchanged = unchanged
        """Results of nodes that are written as they were read, although a rule made their call."""

    @property
    def counted(self) -> list[int]:
        """The nodes that a report counts: those that compute something."""
        return [number for number, node in enumerate(self.nodes) if is_counted(node)]

    @cached_property
    def by_place(self) -> dict[tuple[str, str], int]:
        """The nodes and inputs by their locations and the names of their outputs."""
        return {(node.where, name): number for number, node in enumerate(self.nodes) for name in node.outputs}

    def rule(self, number: int, origins: Origins) -> str:
        """The rule that made a node; "" if there is none."""
        if not self._unchanged.isdisjoint(self.nodes[number].outputs):
            return ""
        return next(filter(None, map(origins.rule_of, reversed(self.calls[number]))), "")

    def pass_name(self, number: int, origins: Origins) -> str:
        """The pass without rules that made a node; "" if there is none."""
        return next(filter(None, map(origins.pass_of, reversed(self.calls[number]))), "")

    def place(self, number: int, origins: Origins) -> Place | None:
        """The e-class of a node."""
        return next(filter(None, map(origins.place_of, reversed(self.calls[number]))), None)


def is_counted(node: FlatNode) -> bool:
    """True if a report counts the node."""
    return node.kind == NODE and node.operator not in NOT_COUNTED


def input_of(record: Record) -> Side:
    """The model before."""
    return _side(flat_graph(record.models[0], record.folder), record.before, record, written=False)


def result_of(record: Record) -> Side:
    """The model after."""
    traces = record.node_traces
    same = written_as_read(*record.models, record.after, record.written, traces)
    unchanged = {name for _, _, nodes in same for node in nodes for name in node.output if name}
    return _side(flat_graph(record.models[1], record.folder), record.after, record, written=True, unchanged=unchanged)


def _side(nodes: list[FlatNode], module: IRModule, record: Record, *, written: bool, unchanged: Set[str] = frozenset()) -> Side:
    finder = _Finder(nodes)
    calls: list[list[Expr]] = [[] for _ in nodes]
    for expr in post_order(*module.functions.values()):
        names = record.written.get(id(expr), ()) if written and isinstance(expr, Call) else ()
        for number in dict.fromkeys(filter(None, map(finder.by_output.get, names))) or finder.find(expr):
            if nodes[number].kind == NODE:
                calls[number].append(expr)
    return Side(nodes, calls, unchanged)


class _Finder:
    """Finds the nodes from which expressions were read, by the names in the expressions."""

    def __init__(self, nodes: list[FlatNode]) -> None:
        self.by_output: dict[str, int] = {}
        self.by_name: dict[str, int] = {}
        for number, node in enumerate(nodes):
            for name in node.outputs:
                self.by_output.setdefault(name, number)
            if node.kind == NODE and node.name:
                self.by_name.setdefault(node.name, number)

    def find(self, expr: Expr) -> list[int]:
        """The node of an expression, if it has one."""
        span = expr.span
        if span is None:
            return []
        named = next((self.by_output[name] for name in span.outputs if name in self.by_output), None)
        number = self.by_name.get(span.source_name) if named is None else named
        return [] if number is None else [number]


def spelling(sides: Sequence[Side]) -> dict[str, str]:
    """The ONNX operators as which operators of the intermediate representation are read or written in these models, by name."""
    counts: dict[str, Counter[str]] = {}
    for side in sides:
        for node, exprs in zip(side.nodes, side.calls, strict=True):
            names = [expr.op.name for expr in exprs if isinstance(expr, Call) and isinstance(expr.op, Op)]
            if len(names) == 1:
                counts.setdefault(names[0], Counter())[node.operator] += 1
    return {name: found.most_common(1)[0][0] for name, found in counts.items()}


def details(record: Record, side: Side, *, after: bool) -> tuple[list[str], list[float]]:
    """The output types and the cost of each node of the model as read."""
    module = from_onnx(record.models[1], folder=record.folder, lenient=True) if after else record.before
    finder, costs = _Finder(side.nodes), [0.0] * len(side.nodes)
    typed: dict[str, str] = {}
    for function in module.functions.values():
        inferred = infer_type(function)
        for call, cost in call_costs(inferred, record.prices):
            for number in finder.find(call):
                costs[number] += cost
        for expr in post_order(inferred):
            type_ = expr._checked_type
            names = () if expr.span is None else expr.span.outputs
            several = type_.fields if isinstance(type_, TupleType) and len(type_.fields) == len(names) else [type_] * len(names)
            typed.update((name, type_text(each)) for name, each in zip(names, several, strict=True) if name)
            if not names and expr.span is None and hasattr(expr, "name_hint"):
                typed.setdefault(expr.name_hint, type_text(type_))
    return [", ".join(filter(None, (typed.get(name, "") for name in node.outputs))) for node in side.nodes], costs


def add_statistics(report: Report, record: Record) -> None:
    """Adds the statistics of the record to the rules of a report."""
    rules = {rule.name: rule for rule in report.rules}
    for run in record.runs[: record.first]:
        for name, statistics in run.saturation.rules.items():
            rule = rules.get(without_operators(name))
            if rule is not None:
                rule.seconds += statistics.seconds
    made, calls = made_by_rules(record)
    node_traces = record.node_traces
    taken = set() if report.kept else set(map(without_operators, node_traces.rules()))
    eager = {without_operators(name) for run in record.runs for name in run.graph.statistics}
    for rule in report.rules:
        rule.made = made.get(rule.name, 0)
        rule.share = rule.made / calls if calls else 0.0
        rule.taken = rule.name in taken or (None if rule.name in eager else False)  # eager rules leave no choice
    report.recorded = True


def made_by_rules(record: Record) -> tuple[dict[str, int], int]:
    """The number of nodes of the result that each rule made, and the total number of nodes."""
    side, origins = result_of(record), Origins(record.runs, record.pass_events)
    rules = [side.rule(number, origins) for number in side.counted]
    return dict(Counter(filter(None, rules))), len(rules)


def silent_rules(record: Record) -> list[str]:
    """The rules that ran and matched nothing."""
    runs = record.runs[: record.first]
    stages = [stage for run in runs for stage in run.stages]
    names = [matcher.name for stage in stages for matcher in stage.matchers] + [each.name for stage in stages for each in stage.groupers]
    ran = map(without_operators, names)
    matched = {without_operators(name) for run in runs for name, statistics in run.saturation.rules.items() if statistics.matches}
    return [name for name in dict.fromkeys(ran) if name not in matched]
