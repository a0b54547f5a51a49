"""Plans: what a pipeline will run in a context, in which order, and why each pass runs or not. Running a Sequential executes its plan."""

import difflib
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from passat.ir.module import IRModule
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import PassInfo, PipelineInfo
from passat.passmgr.passes import Pass
from passat.passmgr.planning.dependencies import DEPTH_LIMIT, Node, PassDependencyError, Requirements, State
from passat.passmgr.planning.joint import joint_runs, run_together
from passat.passmgr.planning.resolve import Resolver, too_deep
from passat.passmgr.registry import UnknownPassError, get_entry, get_pass, list_passes

STEPS_LIMIT: Final = 1_000_000
"""How many passes a plan may run."""


class Reason(enum.StrEnum):
    """Why a pass runs, or does not."""

    LISTED = "listed"
    """Runs: a member of the pipeline whose level is on."""
    FORCED = "forced"
    """Runs: a member whose level is off, but `required_pass` of the context names it."""
    REQUIRED = "required"
    """Runs: another pass requires it."""
    DISABLED = "disabled"
    """A member that `disabled_pass` of the context names."""
    LEVEL = "level"
    """A member whose level is above that of the context."""
    ESTABLISHED = "established"
    """Required, but it has run before, and what it established still holds."""


@dataclass(frozen=True, slots=True)
class Step:
    """A pass in a plan. `number` is its place among those that run ("2", within a nested pipeline "2.1"), and empty where it does not.

    `why` says the reason in words; `required_by` names the pass that requires it, `established_by` is the number of the step in which
    what it establishes came to hold. `steps` are those of a nested pipeline.
    """

    pass_: Pass
    number: str
    reason: Reason
    why: str
    required_by: str | None = None
    established_by: str | None = None
    steps: "tuple[Step, ...]" = ()

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.pass_.info.name

    @property
    def runs(self) -> bool:
        """Whether the pass runs (unless an instrument vetoes it then)."""
        return bool(self.number)


class Plan:
    """What a pipeline does in a context of some settings: its steps in order, those that do not run at the place where they would have.

    `notes` are doubts about the settings; those about passes that do not exist are `unknown`, too.
    """

    __slots__ = ("_bodies", "_joined", "_joint", "name", "notes", "opt_level", "resolve", "steps", "unknown")

    def __init__(self, name: str, opt_level: int, resolve: str, steps: tuple[Step, ...], notes: tuple[str, ...] = ()) -> None:
        self.name = name
        self.opt_level = opt_level
        self.resolve = resolve
        self.steps = steps
        self.notes = notes
        self.unknown: tuple[str, ...] = ()
        self._bodies = tuple((step.pass_.info, self._body(step)) for step in steps if step.runs)
        passes = [step.pass_ for step in steps if step.runs]
        self._joint = {run: passes[run[0]].joint_option or "" for run in joint_runs(passes)}
        self._joined: dict[tuple[tuple[int, int], ...], Plan] = {}

    @property
    def order(self) -> list[str]:
        """The names of the passes that run, in order; of nested pipelines the passes in them."""
        return [step.name for step in self.walk() if step.runs and step.pass_.members is None]

    def walk(self) -> Iterator[Step]:
        """All steps, each before those nested in it."""
        stack = list(reversed(self.steps))
        while stack:
            step = stack.pop()
            yield step
            stack.extend(reversed(step.steps))

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Runs the steps, each with the instruments around it. An exception gets a note that names the pass and those before it."""
        if self._joint and (asked := self._asked_jointly(ctx)):
            return asked.run(mod, ctx)
        done = 0
        try:
            for info, body in self._bodies:
                mod = body(mod, ctx) if ctx.hooks is None else ctx.run_pass(info, body, mod)
                done += 1
        except Exception as error:
            before = ", ".join(info.name for info, _ in self._bodies[:done])
            failed = self._bodies[done][0].name
            error.add_note(f"in {failed}, step {done + 1} of {len(self._bodies)} of {self.name}; before it ran: {before or 'nothing'}")
            raise
        return mod

    def to_text(self) -> str:
        """The plan as lines of text, one per pass."""
        from passat.passmgr.planning.render import to_text

        return to_text(self)

    def to_dot(self) -> str:
        """The plan as a Graphviz digraph."""
        from passat.passmgr.planning.render import to_dot

        return to_dot(self)

    def to_mermaid(self) -> str:
        """The plan as a Mermaid flowchart."""
        from passat.passmgr.planning.render import to_mermaid

        return to_mermaid(self)

    def to_svg(self) -> str:
        """The plan as a picture in SVG, made without Graphviz."""
        from passat.passmgr.planning.plan_svg import plan_svg

        return plan_svg(self)

    def to_json(self) -> str:
        """The plan as JSON."""
        from passat.passmgr.planning.render import to_json

        return to_json(self)

    def __str__(self) -> str:
        return self.to_text()

    def _asked_jointly(self, ctx: PassContext) -> "Plan | None":
        """The plan in which passes that stand side by side, and that the context wants to run as one, are one step; None where it does
        not want that of any."""
        wanted = tuple(run for run, option in self._joint.items() if ctx.get_config(option))
        if wanted and wanted not in self._joined:
            self._joined[wanted] = self._join(wanted)
        return self._joined.get(wanted)

    def _join(self, runs: Iterable[tuple[int, int]]) -> "Plan":
        passes = [step.pass_ for step in self.steps if step.runs]
        plan = Plan(self.name, self.opt_level, self.resolve, (), self.notes)
        bodies: list[tuple[PassInfo, Callable[[IRModule, PassContext], IRModule]]] = []
        at = 0
        for start, stop in runs:
            bodies += self._bodies[at:start]
            together = passes[start:stop]
            info = PipelineInfo(0, "+".join(pass_.info.name for pass_ in together))
            bodies.append((info, partial(run_together, together)))
            at = stop
        plan._bodies = (*bodies, *self._bodies[at:])
        return plan

    def _body(self, step: Step) -> Callable[[IRModule, PassContext], IRModule]:
        return step.pass_.run if step.pass_.members is None else Plan(step.name, self.opt_level, self.resolve, step.steps).run


def make_plan(name: str, members: Sequence[Pass], requirements: Requirements | None, ctx: PassContext) -> Plan:
    """The plan of a pipeline in a context. Without `requirements` they are resolved as TVM does it (`passmgr.resolve` = "relay").

    Raises PassDependencyError where two requirements of a pass undo each other, UnknownPassError in TVM's way for a name that is unknown.
    """
    steps = (_RelayPlanner(ctx) if requirements is None else _Planner(ctx, requirements)).plan(members, State(), "")
    plan = Plan(name, ctx.opt_level, "relay" if requirements is None else "graph", tuple(steps))
    plan.notes, plan.unknown = _doubts(ctx, {step.name for step in plan.walk()})
    return plan


class _RelayPlanner:
    """TVM's way: before each member what it requires itself, whether or not it has run before."""

    def __init__(self, ctx: PassContext) -> None:
        self.ctx = ctx
        self._count = 0

    def plan(self, members: Sequence[Pass], state: State, prefix: str, as_requirement: bool = False) -> list[Step]:
        """The steps of a pipeline, from a state that is brought up to date."""
        if prefix.count(".") > DEPTH_LIMIT:  # through what members require; as in TVM nobody has searched that for cycles
            raise too_deep()
        steps: list[Step] = []
        count = 0
        for pass_ in members:
            reason, why = self._gate(pass_.info)
            if reason in (Reason.DISABLED, Reason.LEVEL):
                steps.append(Step(pass_, "", reason, why))
                continue
            for required in self.required(pass_, state, prefix, count):
                steps.append(required)
                count += required.runs
            count += 1
            steps.append(self.step(pass_, pass_.info.name, f"{prefix}{count}", state, reason, why, as_requirement=as_requirement))
        return steps

    def required(self, pass_: Pass, state: State, prefix: str, count: int) -> Iterator[Step]:
        """The steps for what a pass requires."""
        for name in pass_.info.required:
            count += 1
            yield self.required_step(get_pass(name), name, f"{prefix}{count}", state, pass_.info.name)

    def required_step(self, pass_: Pass, name: str, number: str, state: State, by: str) -> Step:
        """The step of a pass that runs because another requires it; neither its level nor `disabled_pass` counts, but they are told."""
        reason, why = self._gate(pass_.info)
        though = f", though {why}" if reason in (Reason.DISABLED, Reason.LEVEL) else ""
        return self.step(pass_, name, number, state, Reason.REQUIRED, f"required by {by}{though}", as_requirement=True, required_by=by)

    def step(
        self,
        pass_: Pass,
        name: str,
        number: str,
        state: State,
        reason: Reason,
        why: str,
        *,
        as_requirement: bool,
        required_by: str | None = None,
    ) -> Step:
        """The step of a pass that runs, with what it does to the state under the name that it is required by."""
        self._count += 1
        if self._count > STEPS_LIMIT:
            raise PassDependencyError(f"the plan would have more than {STEPS_LIMIT:,} steps")
        steps: list[Step] = []
        if pass_.members is None:
            state.ran(name, pass_.info, number, as_requirement=as_requirement)
        else:
            steps = self.plan(pass_.members, state, f"{number}.", as_requirement)
            state.finished(name, pass_.info.provides, number)
        return Step(pass_, number, reason, why, required_by, steps=tuple(steps))

    def _gate(self, info: PassInfo) -> tuple[Reason, str]:
        if info.name in self.ctx.disabled_pass:
            return Reason.DISABLED, "disabled_pass names it"
        if info.opt_level <= self.ctx.opt_level:
            return Reason.LISTED, f"listed, level {info.opt_level}"
        if info.name in self.ctx.required_pass:
            return Reason.FORCED, f"listed, and required_pass names it (its level {info.opt_level} > {self.ctx.opt_level})"
        return Reason.LEVEL, f"its level {info.opt_level} > {self.ctx.opt_level}"


class _Planner(_RelayPlanner):
    """Our way: what a pass requires, transitively, where it is not established."""

    def __init__(self, ctx: PassContext, requirements: Requirements) -> None:
        super().__init__(ctx)
        self._requirements = requirements
        self._resolver = Resolver(ctx, requirements)

    def required(self, pass_: Pass, state: State, prefix: str, count: int) -> Iterator[Step]:
        """The steps for what a pass requires; those that are established are told, and do not run."""
        node = id(pass_)
        requires, pass_of = self._requirements.requires, self._requirements.pass_of
        if not requires(node):
            return
        chosen = self._resolver.choose(node, pass_.info.name, state, prefix.count("."))
        consumers: list[tuple[Node, str]] = [*((name, name) for name in chosen), (node, pass_.info.name)]
        # A pipeline may run for what a pass in it establishes: then the pass at hand is who requires it.
        required_by = dict.fromkeys(range(len(chosen)), pass_.info.name)
        pending: dict[str, list[int]] = {}
        for at, (consumer, label) in enumerate(consumers):
            for name in requires(consumer):
                required_by.update(dict.fromkeys(pending.pop(name, ()), label))
            pending.setdefault(label, []).append(at)
        told = set(chosen)
        for at, (consumer, label) in enumerate(consumers):
            for name in requires(consumer):
                if name not in told:
                    told.add(name)
                    number = state.steps[name]
                    why = f"required by {label}, established by step {number}"
                    yield Step(pass_of(name), "", Reason.ESTABLISHED, why, label, number)
            if at < len(chosen):
                count += 1
                yield self.required_step(pass_of(chosen[at]), chosen[at], f"{prefix}{count}", state, required_by[at])


def _doubts(ctx: PassContext, planned: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is doubtful in the lists of a context, and of that the names that no pass has."""
    notes: list[str] = []
    unknown: list[str] = []
    for what, names in (("disabled_pass", ctx.disabled_pass), ("required_pass", ctx.required_pass)):
        for name in names:
            if name in planned:
                continue
            if _is_registered(name):
                if what == "required_pass":
                    notes.append(f"required_pass names {name}, which is no pass of this pipeline: it turns members on, and adds none")
                continue
            unknown.append(unknown_pass(what, name, planned))
            notes.append(unknown[-1])
    return tuple(notes), tuple(unknown)


def unknown_pass(what: str, name: str, planned: set[str]) -> str:
    """A sentence about a name that no pass has, neither one that is planned nor a registered one, with the nearest that one has."""
    near = difflib.get_close_matches(name, sorted(planned | {entry.name for entry in list_passes()}), 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{what} names {name!r}, which is no pass of this pipeline and not registered{hint}"


def _is_registered(name: str) -> bool:
    try:
        get_entry(name)
    except UnknownPassError:
        return False
    return True
