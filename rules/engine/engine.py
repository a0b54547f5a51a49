"""One run of a set of rules over one function: load, saturate, extract, rebuild. On any failure the function comes back as it was."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from passat.ir.analysis import well_formed
from passat.ir.anf import to_anf, to_graph
from passat.ir.collector import collector_paused
from passat.ir.expr import Call, Expr, Function, GlobalVar, If, Let, Match, RefCreate, RefRead, RefWrite, Var
from passat.ir.infer import infer_type
from passat.ir.op import Op
from passat.ir.traverse import children, post_order, with_children
from passat.rules.cost import ROOFLINE, CostModel, NodeCount, program_cost
from passat.rules.engine.egraph import EngineError
from passat.rules.engine.fold import Folder
from passat.rules.engine.graph import Graph, Symbol, outer_parts
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.known_functions import FACTS, FunctionFacts, look_at
from passat.rules.engine.limits import Limits
from passat.rules.engine.matching import Matcher
from passat.rules.engine.rebuild import rebuild
from passat.rules.engine.saturate import RuleStatistics, Saturator
from passat.rules.extraction.extract import extract
from passat.rules.regions.recipe_store import RecipeStore
from passat.rules.regions.regional import run_regions


@dataclass
class EngineReport:
    """What a run did, regions included: rounds, nodes in the e-graph, what stopped it, statistics per rule; constants folded, equal
    expressions merged, fields of tuples taken, operators made static; costs as the model sees them; by what part of its cost each
    result of exact search may be dearer than the cheapest; why nothing was done where that has a reason of its own; into how many
    regions a large function was cut, how many of these were solved like an equal one, and how many solutions were in the cache."""

    rounds: int = 0
    nodes: int = 0
    stopped: list[str] = field(default_factory=list)
    rules: dict[str, RuleStatistics] = field(default_factory=dict)
    folded: int = 0
    merged: int = 0
    projected: int = 0
    made_static: int = 0
    too_large: int = 0
    cost_before: float = 0.0
    cost_after: float = 0.0
    gaps: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    regions: int = 0
    replayed: int = 0
    remembered: int = 0

    def add(self, other: "EngineReport") -> None:
        """Adds what another run did."""
        self.rounds = max(self.rounds, other.rounds)
        for name in ("nodes", "folded", "merged", "projected", "made_static", "too_large", "cost_before", "cost_after", "remembered"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("stopped", "failures"):
            ours = getattr(self, name)
            ours += [text for text in getattr(other, name) if text not in ours]
        self.gaps += other.gaps
        self.add_rules(other.rules)

    def add_rules(self, rules: dict[str, RuleStatistics]) -> None:
        """Adds the statistics of one saturation."""
        for name, new in rules.items():
            old = self.rules.setdefault(name, RuleStatistics())
            old.matches += new.matches
            old.refused += new.refused
            old.unions += new.unions
            old.seconds += new.seconds
            for reason, count in new.reasons.items():
                old.reasons[reason] = old.reasons.get(reason, 0) + count


class Engine:
    """Rules, whether to fold constants, limits and a cost model: everything that a run needs but the program.

    `merge` is for passes whose purpose is that equal expressions become one; all runs do it where they change anything else.
    """

    def __init__(
        self,
        matchers: Sequence[Matcher | Grouper],
        *,
        limits: Limits | None = None,
        model: CostModel | None = None,
        fold: bool = False,
        static: bool = False,
        max_growth: int = 1 << 20,
        merge: bool = False,
        exact_seconds: float = 0.0,
        region_nodes: int | None = None,
        store: RecipeStore | None = None,
    ) -> None:
        self.matchers = [each for each in matchers if isinstance(each, Matcher)]
        self.groupers = [each for each in matchers if isinstance(each, Grouper)]
        self.limits = limits or Limits()
        self.model = model or ROOFLINE
        self.fold = fold
        self.static = static
        self.max_growth = max_growth
        self.merge = merge
        self.exact_seconds = exact_seconds
        self.region_nodes = region_nodes
        self.store = store

    def run(self, function: Function, report: EngineReport) -> Function:
        """The function, made cheaper where the rules can; itself where nothing changed. Nested functions and branches are
        optimised in turn. A function that uses references is left alone, and the report says so."""
        facts = FACTS.get(function)
        if facts is None and not (self.fold or self.merge):
            facts = look_at(function, self._needed())
        if facts is not None and self._has_nothing_for(facts):
            return function
        with collector_paused():
            infer_type(function)
            if not self.merge and (self.region_nodes is not None or self.store is not None):
                made = run_regions(self, function, report)
                if made is not None:
                    return made
            graph = self._graph()
            root = graph.load(function.body)
            if all(isinstance(leaf, (Var, GlobalVar)) for leaf in graph.leaves):
                return self._plain(function, graph, root, report)
            return self._with_regions(function, report)

    def _needed(self) -> list[frozenset[Symbol]]:
        """The symbols that each rule needs to match."""
        return [*(matcher.symbols for matcher in self.matchers), *(grouper.symbols for grouper in self.groupers)]

    def _has_nothing_for(self, facts: FunctionFacts) -> bool:
        """Whether no rule can match and there is nothing to fold or merge."""
        return (
            (not self.fold or (self.static, self.max_growth) in facts.folded)
            and (not self.merge or facts.distinct)
            and not any(symbols <= facts.symbols for symbols in self._needed())
        )

    def _plain(self, function: Function, graph: Graph, root: int, report: EngineReport) -> Function:
        """A function without regions, and what is known of it afterwards."""
        failures = len(report.failures)
        made = function.with_body(self._optimise(graph, root, function.body, None, report))
        if len(report.failures) > failures:
            return made
        facts = FACTS.get(made)
        if facts is None:
            facts = FACTS[made] = FunctionFacts(frozenset(graph.symbols))
        if made is function:
            facts.distinct = facts.distinct or self.merge
            if self.fold:
                facts.folded.add((self.static, self.max_growth))
        return made

    def _with_regions(self, function: Function, report: EngineReport) -> Function:
        """A function with lets, branches or nested functions. Lets are taken out for the run, and all that can be put back."""
        has_lets = any(isinstance(node, Let) for node in post_order(function))
        flat = infer_type(to_graph(function)) if has_lets else function
        assert isinstance(flat, Function)
        done = _Done({}, {})
        for region in _regions(flat):
            done.regions[id(region)] = self._region(region, done, report)
        result = done.regions[id(flat)]
        assert isinstance(result, Function)
        if result is flat:
            return function
        # A part that bodies share is optimised in each of them; where it did not come out as one thing, it may be computed more often.
        dearer = all(program_cost(result, model) > program_cost(flat, model) for model in (self.model, NodeCount()))
        if dearer or _stateful_calls(result) > _stateful_calls(flat) or not well_formed(result):
            report.failures.append("left alone: what its branches share would be computed more than once")
            return function
        made = infer_type(to_anf(result)) if has_lets else result
        assert isinstance(made, Function)
        return made

    def _region(self, region: Expr, done: "_Done", report: EngineReport) -> Expr:
        if isinstance(region, Function):
            made: Expr = region.with_body(self._body(region.body, done, report))
        else:
            outer, *inner = children(region)  # the condition belongs to what is around it
            made = with_children(region, [outer, *(self._body(part, done, report) for part in inner)])
        made._checked_type = region._checked_type
        return made

    def _body(self, body: Expr, done: "_Done", report: EngineReport) -> Expr:
        nodes = post_order(body, parts_of=_own_parts)
        if any(isinstance(node, (RefCreate, RefRead, RefWrite)) for node in nodes):
            report.failures.append("left alone: it creates, reads or writes references")
            return body
        if any(isinstance(node, Let) for node in nodes):
            report.failures.append("left alone: its lets order calls that are stateful, or bind a function that calls itself")
            return body
        graph = self._graph()
        return self._optimise(graph, graph.load(body), body, done, report)

    def _graph(self) -> Graph:
        folder = Folder(self.max_growth, static=self.static) if self.fold else None
        return Graph(folder, compare_large=self.merge)

    def optimise(self, graph: Graph, root: int, body: Expr, report: EngineReport) -> Expr:
        """What takes the place of a body without regions, from which a graph was loaded."""
        return self._optimise(graph, root, body, None, report)

    def _optimise(self, graph: Graph, root: int, body: Expr, done: "_Done | None", report: EngineReport) -> Expr:
        """The body that takes the place of one that a graph was loaded from."""
        saturator = Saturator(graph, self.matchers, self.limits, self.groupers)
        changed_leaf = done is not None and any(done.regions.get(id(leaf), leaf) is not leaf for leaf in graph.leaves)
        try:
            result = saturator.run()
        except EngineError as error:
            report.failures.append(str(error))
            return body
        report.rounds = max(report.rounds, result.rounds)
        report.nodes += result.nodes
        report.add_rules(result.rules)
        report.folded += graph.folded
        report.merged += graph.merged
        report.projected += graph.projected
        report.made_static += graph.made_static
        if graph.folder is not None:
            report.too_large += graph.folder.refused
        if result.stopped != "saturated":
            report.stopped.append(result.stopped)
        if not (result.unions or graph.folded or graph.projected or graph.made_static or changed_leaf or (self.merge and graph.merged)):
            return body
        extraction = extract(graph, [root], saturator.members, self.model, self.exact_seconds, saturator.together)
        if extraction.bound is not None:
            report.gaps.append(max(0.0, 1 - extraction.bound / extraction.cost) if extraction.cost else 0.0)
        for call in graph.stateful:
            node = graph.ids[id(call)]
            if extraction.choice.get(graph.find(node)) != node and not any(
                graph.symbols[node] in matcher.symbols for matcher in self.matchers
            ):
                report.failures.append(f"left alone: a call of {call.op!r} would be lost, which is stateful")
                return body
        report.cost_before += extraction.input_cost
        report.cost_after += extraction.cost
        regions, shared = done or (None, None)
        return rebuild(graph, extraction.choice, root, regions, shared, saturator.provenance)


class _Done(NamedTuple):
    """What became of regions, and of what several of them share, by the identity of the expressions."""

    regions: dict[int, Expr]
    shared: dict[int, Expr]


def _stateful_calls(function: Function) -> int:
    return sum(isinstance(node, Call) and isinstance(node.op, Op) and node.op.stateful for node in post_order(function))


def _own_parts(expr: Expr) -> Sequence[Expr]:
    """The parts of an expression that belong to the same body."""
    if isinstance(expr, Function):
        return ()
    return outer_parts(expr) if isinstance(expr, (If, Match)) else children(expr)


def _regions(function: Function) -> list[Expr]:
    """Nested functions, branches and the function itself, inner ones first; without those that are primitive, and what is in them."""
    order = post_order(function, into=lambda node: node is function or not _is_primitive(node))
    return [node for node in order if isinstance(node, (Function, If, Match)) and (node is function or not _is_primitive(node))]


def _is_primitive(node: Expr) -> bool:
    return isinstance(node, Function) and bool(node.attrs.get("Primitive"))
