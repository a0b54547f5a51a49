"""Running a pipeline with everything that its saturations do kept."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from passat.ir.anf import to_graph
from passat.ir.expr import Function, Let
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.traverse import bodies, post_order
from passat.passmgr import Pass, PassContext, PassInfo, PassInstrument, Plan, Sequential
from passat.rules.engine.graph import Graph
from passat.rules.engine.journal import Journal
from passat.rules.why_not.history import History
from passat.rules.why_not.view import View


class Ran(NamedTuple):
    """A pass that ran, or the passes of a stage: the name, the module that it got, its saturations, the names of the passes, and which one
    it is of all that ran."""

    name: str
    before: IRModule
    runs: tuple[History, ...]
    parts: tuple[str, ...] = ()
    number: int = 0
    heard: tuple[str, ...] = ()
    """The passes in it that have the rule that is asked for."""


class Watched(NamedTuple):
    """A pipeline that was run: its plan, the settings, the passes that ran in order, the module that came out, and what passes remarked."""

    plan: Plan
    settings: PassContext
    ran: tuple[Ran, ...]
    after: IRModule
    remarks: Mapping[str, Sequence[str]]


class _Watch(PassInstrument):
    """Remembers the modules that passes got."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.seen: list[tuple[str, IRModule, int]] = []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Remembers a module, and how many saturations there had been."""
        self.seen.append((info.name, mod, len(self._journal.runs)))


def watch(pipeline: Pass, module: IRModule, settings: PassContext) -> Watched:
    """Runs a pipeline in the settings of a context, one function after the other, and remembers everything. Raises what passes do."""
    journal = Journal()
    watching = _Watch(journal)
    whole = pipeline if isinstance(pipeline, Sequential) else Sequential([pipeline])
    context = settings.inside(config={"rules.journal": journal}, instruments=[watching])
    plan = whole.plan(context)
    with context:
        after = whole(module)
    starts = [start for _, _, start in watching.seen] + [len(journal.runs)]
    pipelines = {plan.name, *(step.name for step in plan.walk() if step.pass_.members is not None)}
    ran = tuple(
        Ran(name, before, tuple(map(History, journal.runs[starts[i] : starts[i + 1]])))
        for i, (name, before, _) in enumerate(watching.seen)
        if name not in pipelines
    )
    remarks = {name: list(said) for name, said in context.statistics.remarks.items()}
    for each in (together := _as_one(ran, plan)):
        alone = [remark for part in each.parts[:1] for remark in remarks.get(part, ()) if remark.startswith("left alone")]
        for part in each.parts[1:]:
            remarks.setdefault(part, []).extend(alone)
    return Watched(plan, settings, together, after, remarks)


def _as_one(ran: Sequence[Ran], plan: Plan) -> tuple[Ran, ...]:
    """What ran, where passes that share an e-graph are one. The stage comes first, and after it each of its passes."""
    stages: dict[str, list[str]] = {}
    for step in plan.walk():
        if step.stage:
            stages.setdefault(step.stage, []).append(step.name)
    found: list[Ran] = []
    left: list[str] = []
    for each in ran:
        if each.name in left:
            del left[: left.index(each.name) + 1]  # passes before it were vetoed by an instrument
            last = found[-1]
            found[-1] = last._replace(runs=(*last.runs, *each.runs), parts=(*last.parts, each.name))
        else:
            left = list(stages.get(each.name, ()))
            found.append(each._replace(parts=() if left else (each.name,)))
    return tuple([ran._replace(name="+".join(ran.parts) or ran.name, number=number) for number, ran in enumerate(found)])


def views_of_module(module: IRModule) -> dict[str, list[View]]:
    """The bodies in each function of a module as graphs, in which every class is one node."""
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
