"""Runs a set of rules on one function: load, saturate, extract, rebuild. Returns the function unchanged on failure.

Lowering decomposes operators that the target lacks, in the extracted program. The lowered calls are excluded from extraction regardless of
cost, so lowering runs last, and the cost may increase.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from passat.ir.analysis import well_formed
from passat.ir.anf import to_anf, to_graph
from passat.ir.collector import collector_paused
from passat.ir.expr import Call, Expr, Function, GlobalVar, If, Let, Match, RefCreate, RefRead, RefWrite, Tuple, Var
from passat.ir.infer import infer_type
from passat.ir.op import Op
from passat.ir.sealed import is_sealed, nodes_in
from passat.ir.traverse import children, post_order, with_children
from passat.rules.cost import ROOFLINE, CostModel, NodeCount, program_cost
from passat.rules.engine.directions import Directions, Stage
from passat.rules.engine.eager import Eager
from passat.rules.engine.graph import Graph, operands_of
from passat.rules.engine.limits import Limits, StopReason, interruptible
from passat.rules.engine.matching import Matcher
from passat.rules.engine.rebuild import rebuild
from passat.rules.engine.report import EngineReport, Skipped
from passat.rules.engine.saturate import Saturator
from passat.rules.engine.symbols import CONST_SYMBOL, TUPLE
from passat.rules.engine.trace import Steps, Trace
from passat.rules.extraction.extract import Extraction, extract
from passat.rules.extraction.ladder import NoProgramError, climb
from passat.rules.extraction.space import Space
from passat.rules.regions.regional import run_regions
from passat.rules.rule import without_operators
from passat.rules.substitution import Environment


def _without(space: Space, gone: set[int], root: int) -> dict[int, int] | None:
    """The extracted program without some nodes; None if there is none."""
    try:
        return climb(space.without(gone), [root]).choice
    except NoProgramError:
        return None


def _circular(space: Space, gone: Mapping[str, set[int]], root: int) -> list[str]:
    """The rules without which a program exists, by the nodes that each replaces: those that lead back to what they match by themselves, or
    together."""

    def possible(names: Iterable[str]) -> bool:
        return _without(space, set[int]().union(*(gone[name] for name in names)), root) is not None

    alone = [name for name in gone if not possible([name])]
    return alone or [name for name in gone if possible(gone.keys() - {name})] or list(gone)


_GROWING: Final = (StopReason.NODES, StopReason.MATCHES, StopReason.ROUNDS, StopReason.MEMORY)
"""The limits that rules without end reach."""


def _endless(saturator: Saturator) -> list[str]:
    """The rules that were applied to what they made until a limit was reached: those that occur twice among the rules to which the last
    node goes back."""
    if saturator.result.stopped.reason not in _GROWING and not saturator.result.ended:
        return []
    rules: Counter[str] = Counter()
    node = max(saturator.provenance, default=-1)
    while node in saturator.provenance:
        name, node = saturator.provenance[node]
        rules[without_operators(name)] += 1
    return sorted(name for name, times in rules.items() if times > 1)


def _matched(saturator: Saturator) -> dict[str, set[int]]:
    """The nodes to which each rule was applied."""
    graph, gone = saturator.graph, dict[str, set[int]]()
    find = graph.find
    assert saturator.steps is not None
    for step in saturator.steps.applications:
        assert isinstance(step.matcher, Matcher), "multi-pattern rules do not lower"
        cls, key = find(step.unions[0][0]), graph.key(step.matched[0].nodes[0])
        nodes = gone.setdefault(without_operators(step.rule), set())
        nodes |= {node for node in graph.members.get(cls, [cls]) if graph.key(node) == key}
    return dict(sorted(gone.items()))


@dataclass(frozen=True, eq=False)
class Engine:
    """The rules, limits, cost model and guard settings of a run: everything but the program.

    `merge` is for passes whose purpose is CSE; every run that changes anything else also performs it. `rank` selects the extracted program:
    0 is the cheapest found; others may be more expensive than the input. The `lowering` rules run after the stages; the `eager` ones are
    applied to nodes as they are added. A `trace` records all events.
    """

    stages: Sequence[Stage]
    lowering: Sequence[Directions] = ()
    limits: Limits = field(default_factory=Limits)
    model: CostModel = ROOFLINE
    eager: Eager = field(default_factory=Eager)
    environment: Environment = field(default_factory=Environment)
    merge: bool = False
    exact_seconds: float = 0.0
    region_nodes: int | None = None
    rank: int = 0
    trace: Trace | None = None

    def run(self, function: Function, report: EngineReport) -> Function:
        """The optimized function, or the function itself if nothing changed. Nested functions and branches are optimized in turn. Functions
        that use references are skipped, and the report says so."""
        # Rules compute with any constant: a cast of a signaling NaN is not worth a warning.
        with collector_paused(), interruptible(), np.errstate(all="ignore"):
            infer_type(function)
            made = self._in_regions(function, report)
            if made is not None:
                return made
            graph = self._graph()
            root = graph.load(function.body)
            if all(isinstance(leaf, (Var, GlobalVar)) for leaf in graph.leaves):
                return function.with_body(self.optimize(graph, root, function.body, report, _fields(function.body)))
            return self._with_regions(function, report)

    def _in_regions(self, function: Function, report: EngineReport) -> Function | None:
        """The function, optimized region by region; None if it does not split, or if only CSE is to run, which is cheap on the whole
        function. With rules, CSE runs at the end, since equal expressions may be in different regions."""
        only_merges = self.merge and not (self.lowering or any(stage.rules or stage.groupers for stage in self.stages))
        if only_merges or self.trace is not None or self.region_nodes is None:
            return None
        made = run_regions(replace(self, merge=False), function, report)
        if made is None or not self.merge:
            return made
        return Engine([], limits=self.limits, model=self.model, merge=True).run(made, report)

    def _with_regions(self, function: Function, report: EngineReport) -> Function:
        """A function with lets, branches or nested functions. Lets are removed for the run and restored where possible."""
        has_lets = any(isinstance(node, Let) for node in post_order(function))
        flat = infer_type(to_graph(function)) if has_lets else function
        done = _Done({}, {})
        for region in _regions(flat):
            done.regions[id(region)] = self._region(region, flat, done, report)
        result = done.regions[id(flat)]
        assert isinstance(result, Function)
        if result is flat:
            return function
        # Code shared by several bodies is optimized in each. If the results differ, it might be computed more often.
        costlier = not (self.rank or report.lowered) and all(
            program_cost(result, model) > program_cost(flat, model) for model in (self.model, NodeCount())
        )
        if costlier or _stateful_calls(result) > _stateful_calls(flat) or not well_formed(result):
            report.failures.append(Skipped("skipped: code shared by its branches would be computed more than once"))
            return function
        return infer_type(to_anf(result)) if has_lets else result

    def _region(self, region: Expr, whole: Function, done: "_Done", report: EngineReport) -> Expr:
        if isinstance(region, Function):
            made: Expr = region.with_body(self._body(region.body, done, report, _fields(region.body) if region is whole else ()))
        else:
            outer, *inner = children(region)  # the guard belongs to the surrounding function
            made = with_children(region, [outer, *(self._body(part, done, report) for part in inner)])
        return made.assume_type(region._checked_type)

    def _body(self, body: Expr, done: "_Done", report: EngineReport, returned: Sequence[int] = ()) -> Expr:
        nodes = post_order(body, parts_of=_own_parts)
        if any(isinstance(node, (RefCreate, RefRead, RefWrite)) for node in nodes):
            report.failures.append(Skipped("skipped: it creates, reads or writes references"))
            return body
        if any(isinstance(node, Let) for node in nodes):
            report.failures.append(Skipped("skipped: its lets order stateful calls, or bind a recursive function"))
            return body
        graph = self._graph()
        return self.optimize(graph, graph.load(body), body, report, returned, done)

    def _graph(self) -> Graph:
        return Graph(self.eager, self.environment, compare_large=self.merge)

    def optimize(
        self, graph: Graph, root: int, body: Expr, report: EngineReport, returned: Sequence[int] = (), done: "_Done | None" = None
    ) -> Expr:
        """The optimized body, for a body that was loaded into the graph. `returned` are the positions of the results of the function, which
        are priced separately; none for a region, which would be optimized differently from equal regions without results."""
        made = self._saturated(graph, root, body, done, report, returned)
        return self._lowered(graph.anew(), made, report, returned) if self._may_lower(graph) else made

    def _may_lower(self, graph: Graph) -> bool:
        """True if the extracted program may contain calls to lower: they are in the graph, or loading creates them."""
        if not self.lowering:
            return False
        present = {*graph.symbols, CONST_SYMBOL}
        present.update(*(made for symbol, made in self.eager.makes if symbol in present))
        return any(rule.within(present) for rule in self.lowering)

    def _saturated(self, graph: Graph, root: int, body: Expr, done: "_Done | None", report: EngineReport, returned: Sequence[int]) -> Expr:
        saturator = Saturator(graph, self.stages, self._limits(report), steps=None if self.trace is None else Steps())
        changed_leaf = done is not None and any(done.regions.get(id(leaf), leaf) is not leaf for leaf in graph.leaves)
        result = saturator.run()
        report.add_saturation(result)
        report.eager += graph.applied
        report.add_rules(graph.statistics)
        made, extraction = body, None
        if result.unions or graph.applied or changed_leaf or (self.merge and graph.merged):
            report.merged += graph.merged
            extraction = extract(
                *(graph, [root], saturator.initial, self.model, self.exact_seconds, saturator.together),
                rank=self.rank,
                results=_results(graph, root, returned),
                accept=lambda choice: self._lost(graph, choice) is None,
            )
            made = self._extracted(graph, root, body, saturator, extraction, done, report)
            if not (graph.applied or changed_leaf or (self.merge and graph.merged)) and _is_own(graph, root, extraction.choice):
                made = body  # rules fired, but the result is the program: building it anew would share its equal parts
        if self.trace is not None:
            space, choice = (None, None) if extraction is None else (extraction.space, extraction.choice)
            self.trace.note(saturator, root, body, made, space, choice)
        return made

    def _limits(self, report: EngineReport) -> Limits:
        """The limits of the next saturation; applications are counted over all bodies of a function."""
        unions = self.limits.unions
        if unions is None:
            return self.limits
        applied = sum(statistics.unions for statistics in report.rules.values()) - report.eager
        return self.limits._replace(unions=max(0, unions - applied))

    def _extracted(
        self, graph: Graph, root: int, body: Expr, saturator: Saturator, extraction: Extraction, done: "_Done | None", report: EngineReport
    ) -> Expr:
        """The expression of the extracted choice."""
        report.alternatives += extraction.alternatives
        if extraction.bound is not None:
            report.gaps.append(max(0.0, 1 - extraction.bound / extraction.cost) if extraction.cost else 0.0)
        lost = self._lost(graph, extraction.choice)
        if lost is not None:
            report.failures.append(Skipped(f"skipped: a stateful call of {lost.op!r} would be lost"))
            return body
        report.cost_before += extraction.input_cost
        report.cost_after += extraction.cost
        regions, shared = done or (None, None)
        return rebuild(graph, extraction.choice, root, regions, shared, saturator.provenance)

    def _lowered(self, graph: Graph, body: Expr, report: EngineReport, returned: Sequence[int]) -> Expr:
        """The body after the lowering rules: without calls that they match, even if rules create such calls. Rules for which there is no
        such program are left out. `graph` is empty."""
        root = graph.load(body)
        symbols = set(graph.symbols)
        if not any(rule.within(symbols) for rule in self.lowering):
            return body
        saturator = Saturator(graph, [Stage(tuple(self.lowering))], self._limits(report), steps=Steps())
        saturator.run()
        made, space, choice, problem = body, None, None, ""
        if without := _endless(saturator):
            said = "what it makes matches it again" if len(without) == 1 else "what they make matches them again"
            ended = "".join(f", and {rule} {how}" for rule, how in saturator.result.ended.items())
            problem = f"{said}, until saturation {saturator.result.stopped}{ended}"
        elif gone := _matched(saturator):
            every, top = set[int]().union(*gone.values()), graph.find(root)
            space = Space.of_graph(graph, self.model, _results(graph, root, returned))
            choice = _without(space, every, top)
            if choice is None:
                without, problem = _circular(space, gone, top), "the results depend on the calls that are replaced"
            else:
                made = rebuild(graph, choice, root, None, None, saturator.provenance)
                report.lowered += len(every)
        if self.trace is not None:
            self.trace.note(saturator, root, body, made, space, choice)
        if without:
            report.failures.append(f"not lowered by {' and '.join(without)}: {problem}")
            rest = [rule for rule in self.lowering if rule.rule.name not in without]
            return replace(self, lowering=rest)._lowered(graph.anew(), body, report, returned)
        report.add_saturation(saturator.result)
        report.eager += graph.applied
        report.add_rules(graph.statistics)
        return made

    def _lost(self, graph: Graph, choice: Mapping[int, int]) -> Call | None:
        """A stateful call that a choice drops although no rule matches its operator."""
        for call in graph.stateful:
            node = graph.ids[id(call)]
            if choice.get(graph.find(node)) != node and not any(
                graph.symbols[node] in matcher.symbols for stage in self.stages for matcher in stage.matchers
            ):
                return call
        return None


class _Done(NamedTuple):
    """The results for regions, and for expressions that several regions share, by identity."""

    regions: dict[int, Expr]
    shared: dict[int, Expr]


def _fields(body: Expr) -> Sequence[int]:
    """The positions of the results of a function: the fields of a tuple, or its only result."""
    return range(len(body.fields)) if isinstance(body, Tuple) else (0,)


def _is_own(graph: Graph, root: int, choice: Mapping[int, int]) -> bool:
    """True if a choice consists of the nodes of the program itself, each with its own operands."""
    if choice[graph.find(root)] != root:
        return False
    return all(choice[graph.find(part)] == part for node in choice.values() for part in graph.operands[node])


def _results(graph: Graph, root: int, returned: Sequence[int]) -> Sequence[int]:
    """The nodes of returned values."""
    if graph.symbols[root].kind == TUPLE:
        return [graph.operands[root][position] for position in returned]
    return [root] if returned else []


def _stateful_calls(function: Function) -> int:
    return sum(isinstance(node, Call) and isinstance(node.op, Op) and node.op.stateful for node in post_order(function))


def _own_parts(expr: Expr) -> Sequence[Expr]:
    """The parts of an expression that belong to the same body."""
    return () if isinstance(expr, Function) else operands_of(expr) or children(expr)


def _regions(function: Function) -> list[Expr]:
    """Nested functions, branches and the function itself, inner ones first; without sealed ones and their contents."""
    order = nodes_in(function)
    return [node for node in order if isinstance(node, (Function, If, Match)) and (node is function or not is_sealed(node))]
