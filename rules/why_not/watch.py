"""Runs a pipeline with full traces: what happened to the matches of each saturation, the nodes that they correspond to, whether rule
results were extracted, and what the program would have cost with them."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, NamedTuple

from passat.ir.anf import to_graph
from passat.ir.expr import Function, Let
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.traverse import bodies, post_order
from passat.passmgr import Pass, PassContext, Plan, Sequential
from passat.rules.engine.graph import Graph
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.report import Skipped
from passat.rules.engine.trace import Application, Run, Trace
from passat.rules.extraction.improve import Solution, cheapest_trees
from passat.rules.extraction.space import Space
from passat.rules.provenance.node_traces import Index
from passat.rules.provenance.pass_trace import PassTrace
from passat.rules.why_not.view import View

_SEARCHED = 16
"""Maximum number of positions for which the cheapest program is searched; beyond that, the cost of the single change is used."""


class Priced(NamedTuple):
    """The extra cost of a program over its `cost`."""

    extra: float
    cost: float


def extra_costs(run: Run, applications: Sequence[Application]) -> list[Priced | None]:
    """The extra cost of the program with the result of each application, with everything else as cheap as can be found. None if the
    position is not part of the program, or the program would be cyclic. For saturations with an extraction."""
    assert run.space is not None
    assert run.choice is not None
    graph, space, choice = run.graph, run.space, run.choice
    root = graph.find(run.root)
    trees = cheapest_trees(space)
    cost = space.cost(choice, [root])
    now = Solution.of_choice(space, choice, [root])
    few = len(applications) <= _SEARCHED
    found: list[Priced | None] = []
    for application in applications:
        forced = {graph.find(cls): node for cls, node in application.unions if graph.find(cls) in choice}
        extra: list[float] = []
        if forced and (now is None or few or len(forced) > 1):
            extra += [total - cost for total in _searched(space, choice, trees, forced, root)]
        elif forced and now is not None:
            ((cls, node),) = forced.items()
            difference = now.difference(cls, node, trees)
            extra += [] if difference is None else [difference]
        found.append(Priced(min(extra), cost) if extra else None)
    return found


def _searched(space: Space, choice: Mapping[int, int], trees: Mapping[int, int], forced: Mapping[int, int], root: int) -> list[float]:
    """The costs of the cheapest programs found that contain given nodes."""
    alternatives = {**space.alternatives, **{cls: [node] for cls, node in forced.items()}}
    narrow = replace(space, alternatives=alternatives)
    totals = []
    for start in ({**trees, **choice}, {**choice, **trees}):
        solution = Solution.of_choice(narrow, {**start, **forced}, [root])
        if solution is not None:
            solution.improve(trees)
            totals.append(solution.total)
    return totals


_ABOVE: Final = 1_000
"""Maximum number of nodes above a position that are examined."""


class RunTrace:
    """A saturation with cached queries. `view` is its final graph."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.view = View(run.graph, run.provenance, run.initial)

    @cached_property
    def matched(self) -> list[tuple[int, ...]]:
        """The nodes that each application matched, root first; all roots for a multi-pattern rule."""
        return [self._matched(application) for application in self.run.applications]

    def _matched(self, application: Application) -> tuple[int, ...]:
        if isinstance(application.matcher, Grouper):
            return tuple(placed.nodes[0] for placed in application.matched)
        return application.matched[0].nodes

    @cached_property
    def taken(self) -> list[bool]:
        """For each application, whether the result depends on it or on an equivalent one."""
        index = self._index
        return [place in index.used or index.repeats(place) for place in range(len(self.run.applications))]

    @cached_property
    def _index(self) -> Index:
        return Index(0, self.run)

    def made_cyclic(self, application: Application) -> list[str]:
        """The other rules that made the position of an application equal to a part of its result."""
        graph = self.run.graph
        parts = [(part, root) for root, made in application.unions for part in self._below(made) if graph.find(part) == graph.find(root)]
        places = self._index.proof.applications(parts)
        return list(dict.fromkeys(one.rule for i, one in enumerate(self.run.applications) if i in places and one is not application))

    def _below(self, made: int) -> set[int]:
        """The operands of a new node, and those of the new nodes among them."""
        found: set[int] = set()
        work = [made]
        while work:
            parts = set(self.run.graph.operands[work.pop()]) - found
            found |= parts
            work += [part for part in parts if part >= self.run.initial]
        return found

    @cached_property
    def _users(self) -> Mapping[int, Sequence[int]]:
        """The users of each e-class, in the input program."""
        graph = self.run.graph
        users: dict[int, list[int]] = {}
        for node in range(self.run.initial):
            for operand in graph.operands[node]:
                users.setdefault(graph.find(operand), []).append(graph.find(node))
        return users

    def rewritten_above(self, application: Application) -> tuple[str, int] | None:
        """The rewrite that removed the position of an application from the program: the rule that rewrote a node above it, and the e-class
        of that node."""
        run, graph = self.run, self.run.graph
        assert run.choice is not None
        seen: set[int] = set()
        work = deque(graph.find(root) for root, _ in application.unions)
        while work and len(seen) < _ABOVE:
            cls = work.popleft()
            if cls in seen:
                continue
            seen.add(cls)
            chosen = run.choice.get(cls)
            if chosen is None:
                work.extend(self._users.get(cls, ()))
            elif chosen in run.provenance:
                return run.provenance[chosen][0], cls
        return None


class Ran(NamedTuple):
    """A pass that ran, or the passes of a stage: the name, its input module, its saturations, the names of the passes, and its position in
    the sequence."""

    name: str
    before: IRModule
    runs: tuple[RunTrace, ...]
    parts: tuple[str, ...] = ()
    number: int = 0
    holders: tuple[str, ...] = ()
    """The passes in it that have the requested rule."""


class Watched(NamedTuple):
    """A pipeline run: its plan, the settings, the passes in order, the resulting module, and the remarks of passes."""

    plan: Plan
    settings: PassContext
    ran: tuple[Ran, ...]
    after: IRModule
    remarks: Mapping[str, Sequence[str]]


def watch(pipeline: Pass, module: IRModule, settings: PassContext) -> Watched:
    """Runs a pipeline in the settings of a context, function by function, and records everything. Propagates exceptions of passes."""
    pass_trace = PassTrace(trace := Trace())
    whole = pipeline if isinstance(pipeline, Sequential) else Sequential([pipeline])
    context = settings.inside(config={"rules.trace": trace}, instruments=[pass_trace])
    plan = whole.plan(context)
    with context:
        after = whole(module)
    ran: list[Ran] = []
    remarks = {name: list(said) for name, said in context.statistics.remarks.items()}
    for number, event in enumerate(pass_trace.events):
        name = event.parts[0] if len(event.parts) == 1 else event.name
        ran.append(Ran(name, event.before, tuple(map(RunTrace, trace.runs[event.first : event.end])), event.parts, number))
        alone = [remark for remark in remarks.get(name, ()) if isinstance(remark, Skipped)]
        for part in event.parts:
            if part != name:
                remarks.setdefault(part, []).extend(alone)
    return Watched(plan, settings, tuple(ran), after, remarks)


def views_of_module(module: IRModule) -> dict[str, list[View]]:
    """The bodies of each function of a module as graphs with one node per e-class."""
    views: dict[str, list[View]] = {}
    for var, function in module.functions.items():
        if not isinstance(function, Function):
            continue
        flat = infer_type(function)
        if any(isinstance(node, Let) for node in post_order(function)):
            flat = infer_type(to_graph(function))
        for body in bodies(flat):
            graph = Graph()
            graph.load(body)
            views.setdefault(var.name_hint, []).append(View(graph))
    return views
