"""The two models of a page: their ONNX nodes with types and costs, and the expressions of each node."""

from collections import Counter
from collections.abc import Sequence, Set
from functools import cached_property

from passat.ir.expr import Call, Expr
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx
from passat.ir.onnx.flat_graph import NODE, FlatNode, flat_graph
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.ir.types import TupleType
from passat.page.origins import Origins, Place, Record
from passat.page.texts import type_text
from passat.report import NOT_COUNTED
from passat.rules.cost import CostModel, call_costs
from passat.rules.provenance.pass_trace import expressions
from passat.written_as_read import written_as_read


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
    for expr in expressions(module):
        names = record.written.get(id(expr), ()) if written and isinstance(expr, Call) else ()
        for number in dict.fromkeys(filter(None, map(finder.by_output.get, names))) or finder.find(expr):
            if nodes[number].kind == NODE:
                calls[number].append(expr)
    return Side(nodes, calls, unchanged)


class _Finder:
    """Finds the nodes from which expressions were read, by the names in the expressions."""

    def __init__(self, nodes: list[FlatNode]) -> None:
        self.by_output = _by_output(nodes)
        self.by_name: dict[str, int] = {}
        for number, node in enumerate(nodes):
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
    return _details(module, side.nodes, record.prices)


def _details(module: IRModule, nodes: list[FlatNode], prices: CostModel) -> tuple[list[str], list[float]]:
    finder = _Finder(nodes)
    types, costs = [""] * len(nodes), [0.0] * len(nodes)
    typed: dict[str, str] = {}
    for function in module.functions.values():
        inferred = infer_type(function)
        for call, cost in call_costs(inferred, prices):
            for number in finder.find(call):
                costs[number] += cost
        for expr in post_order(inferred):
            type_ = expr._checked_type
            names = () if expr.span is None else expr.span.outputs
            several = type_.fields if isinstance(type_, TupleType) and len(type_.fields) == len(names) else [type_] * len(names)
            typed.update((name, type_text(each)) for name, each in zip(names, several, strict=True) if name)
            if not names and expr.span is None and hasattr(expr, "name_hint"):
                typed.setdefault(expr.name_hint, type_text(type_))
    for number, node in enumerate(nodes):
        types[number] = ", ".join(filter(None, (typed.get(name, "") for name in node.outputs)))
    return types, costs


def _by_output(nodes: list[FlatNode]) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in node.outputs:
            found.setdefault(name, number)
    return found
