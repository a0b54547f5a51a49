"""Plans: which passes a pipeline runs in a context, in which order, and why each runs or not. A Sequential executes its plan."""

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, groupby
from typing import Final

from passat.ir.module import IRModule
from passat.ir.similar_names import did_you_mean
from passat.ir.walks import preorder
from passat.passmgr.context import PassContext, check_entered, entered_contexts
from passat.passmgr.pass_info import PassInfo, StageInfo
from passat.passmgr.passes import Pass
from passat.passmgr.planning.dependencies import DEPTH_LIMIT, Node, PassDependencyError, Requirements, State, names_in_pass
from passat.passmgr.registry import get_pass, is_registered, list_passes, own_name

STEPS_LIMIT: Final = 1_000_000
"""Maximum number of steps of a plan."""


class Reason(enum.StrEnum):
    """The reason why a pass runs or does not run."""

    LISTED = "listed"
    """Runs: a member whose level is enabled."""
    FORCED = "forced"
    """Runs: a member in `required_pass` of the context, although its level is not enabled."""
    REQUIRED = "required"
    """Runs: another pass requires it."""
    DISABLED = "disabled"
    """Skipped: a member in `disabled_pass` of the context."""
    LEVEL = "level"
    """Skipped: a member whose level is above that of the context."""
    ESTABLISHED = "established"
    """Skipped: required, but it ran earlier and its effect still holds."""


@dataclass(frozen=True, slots=True)
class Step:
    """A pass in a plan.

    * `number` is its position among the passes that run ("2", in a nested pipeline "2.1"); empty if it does not run.
    * `why` describes the reason. `required_by` is the pass that requires it; `established_by` is the number of the step that established
      its effect.
    * `after` and `before` are the passes of its pipeline that its declared position refers to.
    * `steps` are those of a nested pipeline. Steps with the same `stage` run as one pass.
    """

    pass_: Pass
    number: str
    reason: Reason
    why: str
    required_by: str | None = None
    established_by: str | None = None
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    steps: "tuple[Step, ...]" = ()
    stage: str = ""

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.pass_.info.name

    @property
    def runs(self) -> bool:
        """Whether the pass runs (unless an instrument vetoes it)."""
        return bool(self.number)


def nested(steps: Sequence[Step]) -> Iterator[tuple[Step, int]]:
    """All steps with their nesting depth, in preorder."""
    return preorder([(step, 0) for step in steps], lambda at: [(inner, at[1] + 1) for inner in at[0].steps])


class Plan:
    """The steps of a pipeline in a context, in order. Skipped steps are listed where they would have run.

    `notes` are warnings about the settings; `unknown` are those about unknown pass names.
    """

    def __init__(self, name: str, opt_level: int, resolve: str, steps: tuple[Step, ...], notes: tuple[str, ...] = ()) -> None:
        self.name = name
        self.opt_level = opt_level
        self.resolve = resolve
        self.steps = steps
        self.notes = notes
        self.unknown: tuple[str, ...] = ()
        groups = [list(group) for _, group in groupby((step for step in steps if step.runs), _stage_of)]
        self._bodies = [self._body(group) for group in groups]
        self._labels = [", ".join(step.name for step in group) for group in groups]

    @property
    def order(self) -> list[str]:
        """The names of the passes that run, in order; for nested pipelines, their members."""
        return [step.name for step in self.walk() if step.runs and step.pass_.members is None]

    @property
    def stages(self) -> dict[str, tuple[int, int]]:
        """The stages by name, each with the positions in `order` of its first and last pass, from 1."""
        running = [step for step in self.walk() if step.runs and step.pass_.members is None]
        found: dict[str, tuple[int, int]] = {}
        for number, step in enumerate(running, 1):
            if step.stage:
                found[step.stage] = found.get(step.stage, (number, number))[0], number
        return found

    def walk(self) -> Iterator[Step]:
        """Yields all steps in pre-order."""
        return (step for step, _ in nested(self.steps))

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Runs the steps, each with the instruments around it. Exceptions get a note with the names of the pass and the passes before
        it."""
        done, entered = 0, entered_contexts()
        try:
            for info, body in self._bodies:
                mod = body(mod, ctx) if ctx.hooks is None else ctx.run_pass(info, body, mod)
                check_entered(entered, info.name)
                done += 1
        except Exception as error:
            before = ", ".join(self._labels[:done])
            failed = self._labels[done]
            error.add_note(f"in {failed}, step {done + 1} of {len(self._bodies)} of {self.name}; before it ran: {before or 'nothing'}")
            raise
        return mod

    def to_text(self) -> str:
        """The plan as lines of text, one per pass."""
        from passat.passmgr.planning.render import to_text

        return to_text(self)

    def to_svg(self) -> str:
        """The plan as an SVG drawing; does not need Graphviz."""
        from passat.passmgr.planning.render import plan_svg

        return plan_svg(self)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def to_json(self) -> str:
        """The plan as JSON."""
        from passat.passmgr.planning.render import to_json

        return to_json(self)

    def __str__(self) -> str:
        return self.to_text()

    def _body(self, steps: Sequence[Step]) -> tuple[PassInfo, Callable[[IRModule, PassContext], IRModule]]:
        """The metadata and the function of a step, or of the steps of a stage."""
        passes = [step.pass_ for step in steps]
        if len(passes) > 1:
            return StageInfo(0, steps[0].stage), partial(_run_together, steps[0].stage, passes)
        step, info = steps[0], passes[0].info
        return info, passes[0].run if passes[0].members is None else Plan(step.name, self.opt_level, self.resolve, step.steps).run


def _stage_of(step: Step) -> str:
    return step.stage or step.number


def _with_stages(steps: Sequence[Step], ctx: PassContext, prefix: str = "") -> tuple[Step, ...]:
    """Groups adjacent steps into stages where the context enables it (`Pass.joint_option`)."""
    made = {step.number: replace(step, steps=_with_stages(step.steps, ctx, f"{step.number}.")) for step in steps if step.steps}
    numbers = count(1)
    for option, group in groupby((step for step in steps if step.runs), lambda step: step.pass_.joint_option):
        together = list(group)
        if option is not None and len(together) > 1 and ctx.get_config(option):
            stage = f"stage {prefix}{next(numbers)}"
            made.update((step.number, replace(step, stage=stage)) for step in together)
    return tuple([made.get(step.number, step) if step.runs else step for step in steps])


def _run_together(stage: str, passes: Sequence[Pass], mod: IRModule, ctx: PassContext) -> IRModule:
    """Runs passes as one. Instruments see each pass start and end, in order, and may veto it. The work is done in the last one that
    runs."""
    agreed: list[Pass] = []

    def begin(pass_: Pass, is_last: bool, mod: IRModule, ctx: PassContext) -> IRModule:
        agreed.append(pass_)
        return finish(mod) if is_last else mod

    def finish(mod: IRModule) -> IRModule:
        taken = agreed.copy()
        agreed.clear()
        return taken[0].run_jointly(taken, mod, ctx, stage) if len(taken) > 1 else taken[0].run(mod, ctx)

    for at, pass_ in enumerate(passes, 1):
        mod = ctx.run_pass(pass_.info, partial(begin, pass_, at == len(passes)), mod)
    return finish(mod) if agreed else mod  # the last one has been vetoed


def make_plan(name: str, members: Sequence[Pass], requirements: Requirements | None, ctx: PassContext) -> Plan:
    """Plans a pipeline in a context. Without `requirements` they are resolved as in TVM (`passmgr.resolve` = "relay").

    Raises PassDependencyError if two requirements of a pass undo each other, and UnknownPassError for an unknown name in TVM's resolution.
    """
    steps = _with_stages(_Planner(ctx, requirements).plan(members, ""), ctx)
    plan = Plan(name, ctx.opt_level, "relay" if requirements is None else "graph", steps)
    plan.notes, plan.unknown = _doubts(ctx, {step.name for step in plan.walk()})
    return plan


class _Planner:
    """Plans the steps of a pipeline and tracks which effects hold after each."""

    def __init__(self, ctx: PassContext, requirements: Requirements | None) -> None:
        self._ctx = ctx
        self._requirements = requirements
        self._state = State()
        self._count = 0

    def plan(self, members: Sequence[Pass], prefix: str, as_requirement: bool = False) -> tuple[Step, ...]:
        """The steps of a pipeline."""
        if prefix.count(".") > DEPTH_LIMIT:
            raise _too_deep()
        steps: list[Step] = []
        numbers = (f"{prefix}{number}" for number in count(1))
        for at, pass_ in enumerate(members):
            reason, why = self._gate(pass_.info)
            if reason in (Reason.DISABLED, Reason.LEVEL):
                steps.append(Step(pass_, "", reason, why))
                continue
            steps += self._required(pass_, id(pass_), pass_.info.name, numbers, set())
            after, before = (_present(pass_.info.after, members[:at]), _present(pass_.info.before, members[at + 1 :]))
            for word, names in (("after", after), ("before", before)):
                why += f", {word} {', '.join(names)}" if names else ""
            number = next(numbers)
            inner = self._run(pass_, pass_.info.name, number, as_requirement)
            steps.append(Step(pass_, number, reason, why, after=after, before=before, steps=inner))
        return tuple(steps)

    def _required(self, pass_: Pass, node: Node, label: str, numbers: Iterator[str], told: set[str], depth: int = 0) -> Iterator[Step]:
        """Plans the steps for the requirements of a pass.

        In TVM's resolution, these are its direct requirements. Otherwise, they are the requirements that do not hold, after their own
        requirements, in declared order; one that another undoes runs again. Requirements that hold are listed once as skipped.
        """
        if self._requirements is None:
            for name in pass_.info.required:
                yield self._required_step(get_pass(name), name, next(numbers), label)
            return
        if depth > DEPTH_LIMIT:
            raise _too_deep()
        requires, established = self._requirements.requires(node), self._state.steps
        for _ in range(len(requires) + 1):
            for name in requires:
                required = self._requirements.pass_of(name)
                if name not in established:
                    told.add(name)
                    yield from self._required(required, name, name, numbers, told, depth + 1)
                    yield self._required_step(required, name, next(numbers), label)
                elif name not in told:
                    told.add(name)
                    why = f"required by {label}, established by step {established[name]}"
                    yield Step(required, "", Reason.ESTABLISHED, why, label, established[name])
            if all(name in established for name in requires):
                return
        raise self._requirements.undo_each_other(label, requires)

    def _required_step(self, pass_: Pass, name: str, number: str, by: str) -> Step:
        """The step of a required pass. Its level and `disabled_pass` do not apply, but are mentioned."""
        reason, why = self._gate(pass_.info)
        though = f", though {why}" if reason in (Reason.DISABLED, Reason.LEVEL) else ""
        inner = self._run(pass_, name, number, as_requirement=True)
        return Step(pass_, number, Reason.REQUIRED, f"required by {by}{though}", by, steps=inner)

    def _run(self, pass_: Pass, name: str, number: str, as_requirement: bool) -> tuple[Step, ...]:
        """Updates the state for a pass that runs under a name. Returns the steps of a pipeline."""
        self._count += 1
        if self._count > STEPS_LIMIT:
            raise PassDependencyError(f"the plan would have more than {STEPS_LIMIT:,} steps")
        if pass_.members is None:
            self._state.ran(name, pass_.info, number, as_requirement=as_requirement)
            return ()
        steps = self.plan(pass_.members, f"{number}.", as_requirement)
        self._state.finished(name, pass_.info, number)
        return steps

    def _gate(self, info: PassInfo) -> tuple[Reason, str]:
        if info.name in self._ctx.disabled_pass:
            return Reason.DISABLED, "it is disabled"
        if info.opt_level <= self._ctx.opt_level:
            return Reason.LISTED, f"listed, level {info.opt_level}"
        if info.name in self._ctx.required_pass:
            return Reason.FORCED, f"listed, and enabled by name (its level {info.opt_level} > {self._ctx.opt_level})"
        return Reason.LEVEL, f"its level {info.opt_level} > {self._ctx.opt_level}"


def _present(names: Sequence[str], passes: Sequence[Pass]) -> tuple[str, ...]:
    """The names that occur among passes and their members."""
    present = frozenset[str]().union(*map(names_in_pass, passes)) if names else frozenset()
    return tuple(name for name in names if own_name(name) in present)


def _too_deep() -> PassDependencyError:
    return PassDependencyError(
        f"a pipeline contains itself by requirements of its members, or is nested more than {DEPTH_LIMIT} levels deep"
    )


def _doubts(ctx: PassContext, planned: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the warnings about the pass lists of a context, and the subset about unknown names."""
    notes: list[str] = []
    unknown: list[str] = []
    for what, names in (("disabled_pass", ctx.disabled_pass), ("required_pass", ctx.required_pass)):
        for name in names:
            if name in planned:
                continue
            if (own := own_name(name)) in planned:
                unknown.append(f"{what} names {name!r}, as which the pass {own!r} is registered; use its own name")
                notes.append(unknown[-1])
            elif not is_registered(name):
                unknown.append(unknown_pass(what, name, planned))
                notes.append(unknown[-1])
            elif what == "required_pass":
                notes.append(f"the required pass {name} is not part of this pipeline: naming a pass enables it, but does not add it")
    return tuple(notes), tuple(unknown)


def unknown_pass(what: str, name: str, planned: set[str]) -> str:
    """A sentence about a name that is neither planned nor registered, with the most similar name."""
    hint = did_you_mean(name, sorted(planned | {entry.name for entry in list_passes()}), 1)
    return f"{what} names {name!r}, which is neither a pass of this pipeline nor registered{hint}"
