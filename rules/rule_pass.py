"""Rule sets as passes: `rule_pass(Arithmetic, Transposes, name="Simplify")` is a function pass that saturates with these rules."""

import functools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Final, NamedTuple, Protocol, Unpack, cast, runtime_checkable

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.ir.onnx_mapping import DEFAULT_OPSET
from passat.passmgr import FunctionPass, Pass, PassContext, PassInfo, Place
from passat.passmgr.passes import nested_passes
from passat.rules.cost import cost_model
from passat.rules.engine.directions import Directions, Stage, expanded, groupers
from passat.rules.engine.eager import Eager
from passat.rules.engine.engine import Engine
from passat.rules.engine.report import Ended, EngineReport, Inapplicable, Rejected, early_end
from passat.rules.library.folding import TupleProjection
from passat.rules.multi_pattern import MultiRule
from passat.rules.pattern import RuleError
from passat.rules.rule import EAGER, LOWERING, MATH_LEVELS, MULTI_PATTERN, Rule, equation_of, without_operators
from passat.rules.rule_options import limits
from passat.rules.rule_set import RuleSet, RuleSetMeta
from passat.rules.substitution import Environment


@runtime_checkable
class RunsRules(Protocol):
    """A pass that runs rules, so that lists of rules name it. Rule passes do; others have `rules`."""

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules."""


class Phase(NamedTuple):
    """Rule sets that run together in the e-graph of the preceding phases, until saturation or for `rounds` iterations. A rule that finds
    more than `rule_matches` matches in one iteration is banned (back-off)."""

    sets: tuple[RuleSetMeta, ...]
    rounds: int | None = None
    rule_matches: int | None = None


def phase(*sets: RuleSetMeta, rounds: int | None = None, rule_matches: int | None = None) -> Phase:
    """A phase of a pass: `rule_pass(phase(Simple), phase(Products, rounds=2))`. Raises RuleError for anything but rule sets, and for limits
    below one.

    >>> from passat.rules.library import Arithmetic
    >>> phase(Arithmetic, rounds=2).rounds
    2
    """
    if not sets:
        raise RuleError("phase needs at least one rule set")
    for name, limit in (("rounds", rounds), ("rule_matches", rule_matches)):
        if limit is not None and limit < 1:
            raise RuleError(f"phase: {name} is at least 1, not {limit!r}")
    return Phase(rule_sets(sets, "phase"), rounds, rule_matches)


def rule_sets(given: Iterable[object], where: str) -> tuple[RuleSetMeta, ...]:
    """The given objects, all of which are rule sets. Raises RuleError otherwise."""
    sets = tuple(given)
    for rules in sets:
        if not isinstance(rules, RuleSetMeta):
            raise RuleError(f"{where} takes classes derived from RuleSet, not {rules!r}")
    return cast(tuple[RuleSetMeta, ...], sets)


def phases_of(given: Sequence[RuleSetMeta | Phase]) -> tuple[Phase, ...]:
    """The phases of a pass; adjacent rule sets form one phase."""
    phases: list[Phase] = []
    together = False
    for each in given:
        if isinstance(each, Phase):
            phases.append(each)
        elif together:
            phases[-1] = Phase((*phases[-1].sets, each))
        else:
            phases.append(Phase((each,)))
        together = not isinstance(each, Phase)
    return tuple(phases)


ALWAYS: Final = (TupleProjection,)
"""Sets of eager rules that every rule pass runs besides its own."""
_PROVEN: Final = 1e-7
"""A smaller gap is a rounding error."""

COUNTERS: Final = {
    "rounds": "iterations of saturation",
    "nodes": "e-nodes at the end",
    "eager": "eager rule applications: folded constants, tuple fields, operators made static",
    "merged": "common subexpressions eliminated",
    "lowered": "calls replaced by lowering rules",
    "alternatives": "e-classes with more than one extractable e-node",
    "changed": "functions that changed",
    "regions": "regions of large functions",
    "replayed": "regions that replayed the rewrites of an equal region",
    "matched:*": "matches of a rule that were processed",
    "fired:*": "matches of a rule that changed the e-graph",
    "rejected:*": "matches of a rule that its guards rejected",
    "seconds": "seconds of the pass",
}
"""The counters of a rule pass."""
_OF_THE_ENGINE: Final = tuple(key for key in COUNTERS if ":" not in key and key != "seconds")


class RulePass(FunctionPass):
    """A function pass that saturates each function with rule sets and extracts the cheapest program.

    It records `COUNTERS` in the context's statistics. Remarks report limits reached, failures, and the most frequent rejection reasons.
    With `joint`, it may share an e-graph with adjacent rule passes.
    """

    inner: ClassVar[tuple["RulePass", ...]] = ()
    """Further rule passes that the pass runs on some functions."""

    def __init__(
        self,
        sets: Sequence[RuleSetMeta | Phase],
        *,
        name: str,
        opt_level: int = 2,
        required: Sequence[str] = (),
        merge: bool = False,
        rounds: int | None = None,
        joint: bool = True,
        without: Sequence[str] = (),
        doc: str = "",
        **place: Unpack[Place],
    ) -> None:
        required = ["InferType", *required]
        self.info = PassInfo(opt_level, name, required, provides=("types",), preserves=("types",), counters=COUNTERS, **place)
        self.phases = phases_of(sets)
        self.sets = tuple(dict.fromkeys(rules for each in self.phases for rules in each.sets))
        self.merge = merge
        self.rounds = rounds
        self.without = tuple(without)
        """The names of rules of the sets that the pass does not run."""
        self.joint_option = "rules.joint" if joint else None
        self.owners: Mapping[str, str] = {}
        """The name of the pass that each rule belongs to, for rules that belong to a single pass of a stage."""
        self.__doc__ = doc or " ".join((rules.__doc__ or "").split("\n")[0] for rules in self.sets)
        self._prepared: dict[tuple[str, tuple[str, ...]], tuple[Sequence[Stage], Sequence[Directions], Eager]] = {}

    @cached_property
    def rules(self) -> list[Rule]:
        """The rules of the pass; a two-way rule counts as one per direction."""
        return [direction for rules in self.sets for rule in rules for direction in expanded(rule)]

    @property
    def declared(self) -> list[Rule]:
        """The rules of the pass as declared, and those that every pass runs."""
        return list(dict.fromkeys(rule for rules in (*self.sets, *ALWAYS) for rule in rules))

    def __getstate__(self) -> dict[str, object]:
        """The pickled state: rule sets go by name, and stages are created in the other process."""
        return {name: value for name, value in vars(self).items() if name != "rules"} | {"_prepared": {}}

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Saturates one function. Returns it unchanged if nothing is cheaper, or if the engine fails."""
        if not self.applies(mod, ctx):
            return func
        report = EngineReport()
        start = time.perf_counter()
        engine = self._engine(mod, ctx)
        if engine.trace is not None:
            name = next((var.name_hint for var, each in mod.functions.items() if each is func), "")
            engine.trace.at(self.info.name, name, self.owners)
        result = engine.run(func, report)
        report.changed = int(result is not func)
        self.record(ctx, report, time.perf_counter() - start, engine.exact_seconds)
        return result

    def run_jointly(self, passes: Sequence[Pass], mod: IRModule, ctx: PassContext, stage: str) -> IRModule:
        """Saturates with the rules of several passes in one e-graph."""
        from passat.rules.joint import joint_pass  # derives from this class

        own = tuple([pass_ for pass_ in cast(Sequence[RulePass], passes) if pass_.applies(mod, ctx)])
        if not own:
            return mod
        if len(own) == 1:
            return own[0].run(mod, ctx)
        joint = joint_pass(own, stage)
        try:
            return joint.run(mod, ctx)
        except RuleError as error:
            error.pass_name = joint.owners.get(equation_of(error.rule), "")
            raise

    def applies(self, mod: IRModule, ctx: PassContext) -> bool:
        """True if the pass applies to the module; otherwise a remark says why not."""
        why = self.inapplicable(mod, ctx)
        if why:
            ctx.remark(self.info.name, Inapplicable(why))
        return not why

    def inapplicable(self, mod: IRModule, ctx: PassContext) -> str:
        """Why the pass does not apply to the module; '' if it does."""
        return ""

    def record(self, ctx: PassContext, report: EngineReport, seconds: float, exact_seconds: float = 0.0) -> None:
        """Records statistics and remarks in the context."""
        name = self.info.name
        ctx.record(name, "seconds", seconds)
        for key in _OF_THE_ENGINE:
            if amount := getattr(report, key):
                ctx.record(name, key, amount)
        for direction, statistics in report.rules.items():
            rule = without_operators(direction)
            ctx.record(name, f"matched:{rule}", statistics.matches)
            ctx.record(name, f"fired:{rule}", statistics.unions)
            ctx.record(name, f"rejected:{rule}", statistics.rejected)
            for reason, count in statistics.reasons.items():
                ctx.remark(name, Rejected(rule, reason, count))
        for stopped in report.stopped:
            ctx.remark(name, early_end(stopped))
        for ended in report.ended:
            ctx.remark(name, Ended(ended))
        for gap in report.gaps:
            proven = "the extracted program is proven to be the cheapest"
            close = Ended(f"stopped at the limit of {exact_seconds:g} s of exact search; at most {100 * gap:.2g} % can be gained")
            ctx.remark(name, proven if gap < _PROVEN else close)
        for failure in report.failures:
            ctx.remark(name, failure)

    @property
    def picked_by(self) -> tuple[str, ...]:
        """The names by which `rules.pick` refers to this pass."""
        return (self.info.name,)

    def left_out(self, rule: Rule, ctx: PassContext) -> str:
        """Why the pass does not run a rule of its sets; '' if it does."""
        if rule.name in self.without:
            return f"{self.info.name} leaves it out"
        return _left_out(rule, self._math(ctx), ctx.get_config("rules.disabled"))

    def _math(self, ctx: PassContext) -> str:
        """The floating-point mode of the pass (`rules.math`)."""
        math: str = ctx.get_config("rules.math")
        return math

    def _engine(self, mod: IRModule, ctx: PassContext) -> Engine:
        """The engine for a module. Passes may run in several threads at once, each with its own limits."""
        math, disabled = self._math(ctx), tuple(ctx.get_config("rules.disabled"))
        limit, trace, pick = limits(ctx, self.rounds), ctx.get_config("rules.trace"), ctx.get_config("rules.pick")
        if (math, disabled) not in self._prepared:
            eager = Eager(rule for rule in self.declared if rule.kind == EAGER and not _left_out(rule, math, disabled))
            self._prepared[math, disabled] = self._stages(math, disabled), self._lowering(math, disabled), eager
        stages, lowering, eager = self._prepared[math, disabled]
        return Engine(
            stages,
            lowering=lowering,
            limits=limit,
            model=cost_model(ctx.get_config("rules.cost"), ctx.get_config("rules.machine")),
            eager=eager,
            environment=Environment(ctx.get_config("rules.max_growth"), read_opset(mod) or DEFAULT_OPSET, written_opset(mod, ctx)),
            merge=self.merge,
            exact_seconds=ctx.get_config("rules.exact"),
            region_nodes=None if limit.unions is not None or trace is not None else ctx.get_config("rules.region_nodes"),
            rank=max(pick.get(name, 0) for name in self.picked_by),
            trace=trace,
        )

    def _stages(self, math: str, disabled: Sequence[str]) -> list[Stage]:
        """The stages of an engine, one per phase."""
        disabled = (*disabled, *self.without)
        stages = []
        for each in self.phases:
            rules = [rule for rules in each.sets for rule in rules if not _left_out(rule, math, disabled)]
            plain = [_directions(rule, disabled) for rule in rules if rule.kind not in (EAGER, LOWERING, MULTI_PATTERN)]
            together = [
                grouper for rule in rules if isinstance(rule, MultiRule) for grouper in groupers(rule) if grouper.name not in disabled
            ]
            stages.append(Stage(tuple(plain), tuple(together), each.rounds, each.rule_matches))
        return stages

    def _lowering(self, math: str, disabled: Sequence[str]) -> list[Directions]:
        """The lowering rules of an engine."""
        disabled = (*disabled, *self.without)
        return [_directions(rule, disabled) for rule in self.declared if rule.kind == LOWERING and not _left_out(rule, math, disabled)]


def rule_passes(pipeline: Pass) -> Iterator[RulePass]:
    """The rule passes in a pipeline."""
    return (each for each in nested_passes(pipeline) if isinstance(each, RulePass))


def rule_pass(
    *sets: type[RuleSet] | Phase,
    name: str | None = None,
    opt_level: int = 2,
    required: Iterable[str] = (),
    merge: bool = False,
    rounds: int | None = None,
    **place: Unpack[Place],
) -> RulePass:
    """A function pass of rule sets, or of consecutive phases (`passat.rules.phase`). The name defaults to that of the first set.

    With `passat.rules.library.ConstantFolding` among the sets, constants are folded while the rules run. With `merge`, common
    subexpressions are eliminated even if no rule fires; `rounds` bounds the saturation below the context's limit. `after` and `before`
    order the pass (PassInfo). Raises RuleError for anything but a rule set, and if there is neither a set nor a name.
    """
    for each in sets:
        if not isinstance(each, Phase):
            rule_sets([each], "rule_pass")
    phases = phases_of(cast(Sequence[RuleSetMeta | Phase], sets))
    if not phases and name is None:
        raise RuleError("rule_pass needs at least one rule set, or a name")
    title = name or phases[0].sets[0].__name__
    return RulePass(
        phases,
        name=title,
        opt_level=opt_level,
        required=tuple(required),
        merge=merge,
        rounds=rounds,
        **place,
    )


def read_opset(mod: IRModule | None) -> int | None:
    """The opset of the ONNX model that a module was read from; None for any other module."""
    return None if mod is None else getattr(mod.attrs.get("onnx"), "version", None)


def written_opset(mod: IRModule | None, ctx: PassContext) -> int | None:
    """The opset of the model to write: `rules.opset`, or that of the ONNX model that was read; None for any other module."""
    asked: int | None = ctx.get_config("rules.opset")
    return read_opset(mod) if asked is None else asked


def _directions(rule: Rule, disabled: Iterable[str]) -> Directions:
    """The directions of a rule that are not disabled by name. Passes that share rules share them."""
    return _directions_without(rule, frozenset([name for name in disabled if name.startswith((f"{rule.name}[", f"{rule.name}.back"))]))


_directions_without = functools.lru_cache(maxsize=4096)(Directions)


def _left_out(rule: Rule, math: str, disabled: Sequence[str]) -> str:
    names = (rule.name, equation_of(rule.name), rule.name.partition(".")[0])
    named = next((one for one in disabled if one in names), None)
    if named is not None:
        return f"it is disabled: rules.disabled names {named}"
    if MATH_LEVELS.index(rule.math) > MATH_LEVELS.index(math):
        return f"it is excluded by rules.math = {math}: it needs {rule.math} ({rule.note})"
    return ""
