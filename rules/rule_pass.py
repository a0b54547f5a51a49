"""Rule sets as passes: `rule_pass(Arithmetic, Transposes, name="Simplify")` is a function pass that saturates with these rules."""

import copy
import functools
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple, Unpack, cast

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.ir.onnx_mapping import DEFAULT_OPSET
from passat.passmgr import FunctionPass, Pass, PassContext, PassInfo, Place, Plan, register_option
from passat.rules.cost import CostModel, CostName, Machine, MachineName, cost_model
from passat.rules.engine.engine import Engine
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.limits import Limits
from passat.rules.engine.matching import Matcher
from passat.rules.engine.report import EngineReport
from passat.rules.engine.stage import Stage
from passat.rules.engine.trace import Trace
from passat.rules.library.folding import TupleProjection
from passat.rules.multi_pattern import MultiRule
from passat.rules.pass_options import rank_of, read_opset, written_opset
from passat.rules.pattern import RuleError
from passat.rules.regions.regional import REGION_NODES
from passat.rules.rule import EAGER, LOWERING, MATH_LEVELS, REASSOCIATE, Rule, RuleSet, RuleSetMeta, equation_of, without_operators
from passat.rules.substitution import Environment


class Phase(NamedTuple):
    """Rule sets that run together, in the e-graph that the phases before have left, until they find nothing new; or for so many `rounds`.
    A rule that finds more than `rule_matches` in one round is put off."""

    sets: tuple[RuleSetMeta, ...]
    rounds: int | None = None
    rule_matches: int | None = None


def phase(*sets: RuleSetMeta, rounds: int | None = None, rule_matches: int | None = None) -> Phase:
    """A phase of a pass: `rule_pass(phase(Simple), phase(Products, rounds=2))`. Raises RuleError for what is no rule set, and for limits
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
    """What is given, where all of it is rule sets. Raises RuleError."""
    sets = tuple(given)
    for rules in sets:
        if not isinstance(rules, RuleSetMeta):
            raise RuleError(f"{where} takes classes derived from RuleSet, not {rules!r}")
    return cast(tuple[RuleSetMeta, ...], sets)


def phases_of(given: Sequence[RuleSetMeta | Phase]) -> tuple[Phase, ...]:
    """The phases of a pass; rule sets that stand by themselves side by side are one phase."""
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


_DEFAULTS = Limits()
ALWAYS: Final = (TupleProjection,)
"""Sets of eager rules that every rule pass has beside its own."""
_PROVEN: Final = 1e-7
"""A gap below this comes from rounding."""

register_option(
    "rules.math",
    Literal["exact", "reassociate", "finite"],
    REASSOCIATE,
    "What rules may do to floating-point values: exact = nothing; reassociate = change rounding, and where they say so which of infinities "
    "and NaN a result is; finite = and assume no NaN or Inf.",
)
register_option("rules.nodes", int, _DEFAULTS.nodes, "Most nodes that one saturation adds to those of the program.", minimum=0)
register_option("rules.matches", int, _DEFAULTS.matches, "Most matches decided in one saturation.", minimum=0)
register_option("rules.rounds", int, _DEFAULTS.rounds, "Most rounds of each phase of a saturation.", minimum=0)
register_option(
    "rules.seconds", float, None, "Most seconds of one saturation; with such a limit, results depend on the machine.", minimum=0
)
register_option("rules.memory", float, _DEFAULTS.memory, "Most megabytes by which the process grows in one saturation.", minimum=0)
register_option(
    "rules.rule_matches", int, _DEFAULTS.rule_matches, "A rule that finds more matches than that in a round is put off.", minimum=0
)
register_option(
    "rules.unions",
    int,
    None,
    "Most applications of rules in the context together, in the order in which they come: to look for the one that does harm.",
    minimum=0,
)
register_option("rules.seed", int, 0, "0 decides on matches in the order of the program, another number in another order.", minimum=0)
register_option("rules.trace", Trace, None, "A Trace, which is told everything that saturations do.")
register_option("rules.joint", bool, True, "Whether rule passes that stand side by side share one e-graph, as a stage of the pipeline.")
register_option("rules.time_limit", float, None, "Most seconds of all saturations in the context together.", minimum=0)
register_option("rules.max_growth", int, 1 << 20, "Most bytes that one folded constant may add to the file.", minimum=0)
register_option(
    "rules.region_nodes",
    int,
    REGION_NODES,
    "Functions of more nodes are cut into regions where few values cross, if at least half of the regions are equal to others.",
    minimum=0,
)
register_option(
    "rules.cost",
    CostName | CostModel,
    "roofline",
    "What makes a program cheaper: estimated seconds (roofline), the number of calls (nodes), seconds that each operator takes on ONNX "
    "Runtime (measured), or an object with a method call(op, types, result, attrs).",
)
register_option(
    "rules.machine",
    MachineName | Machine,
    "default",
    'What the roofline model takes the machine for: the built-in profile, this one ("this": measured once and remembered), or a profile '
    "with flops and bandwidth a second, and seconds to launch an operator.",
)
register_option(
    "rules.exact",
    float,
    0.0,
    "Seconds in which each saturation searches on for the program that is proven the cheapest (needs OR-tools: passat[exact]).",
    minimum=0,
)
register_option("rules.disabled", list[str], [], "Rules (`Arithmetic.add_zero`) and whole sets (`Arithmetic`) that do not run.")


COUNTERS: Final = {
    "rounds": "rounds of saturation",
    "nodes": "nodes in the e-graphs at the end",
    "eager": "applications of rules to nodes as they were added: constants, fields of tuples, operators given their shapes",
    "merged": "equal expressions that became one",
    "lowered": "calls in the place of which stands what rules say that they are made of",
    "alternatives": "places in the programs taken out at which something else could have been taken",
    "changed": "functions that came out otherwise",
    "regions": "regions that large functions were cut into",
    "replayed": "regions for which it was enough to do what had been done for an equal one",
    "matched:*": "matches of a rule that were looked at",
    "fired:*": "matches of a rule that said something new",
    "refused:*": "matches of a rule that its guards refused",
    "seconds": "seconds that the pass took",
}
"""What a rule pass counts."""
_OF_THE_ENGINE: Final = tuple(key for key in COUNTERS if ":" not in key and key != "seconds")


class RulePass(FunctionPass):
    """A function pass that saturates each function with rule sets and takes out the cheapest program.

    What it did goes to the context's statistics (`COUNTERS`); limits that were reached, failures and the commonest reasons of
    refusals are remarks. With `joint` it may share an e-graph with the rule passes beside it.
    """

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
        doc: str = "",
        **place: Unpack[Place],
    ) -> None:
        required = ["InferType", *required]
        self.info = PassInfo(opt_level, name, required, provides=("types",), preserves=("types",), counters=COUNTERS, **place)
        self.phases = phases_of(sets)
        self.sets = tuple(dict.fromkeys(rules for each in self.phases for rules in each.sets))
        self.merge = merge
        self.rounds = rounds
        self.joint_option = "rules.joint" if joint else None
        self.owners: Mapping[str, str] = {}
        """The passes that rules belong to, where that is not this one."""
        self.__doc__ = doc or " ".join((rules.__doc__ or "").split("\n")[0] for rules in self.sets)
        self._engines: dict[tuple[object, ...], Engine] = {}

    @cached_property
    def rules(self) -> list[Rule]:
        """The rules of the pass, each direction of a two-way rule by itself."""
        return [direction for rules in self.sets for rule in rules for direction in _directions(rule)]

    @property
    def heard(self) -> list[Rule]:
        """The rules of the pass, and those that every pass has."""
        return list(dict.fromkeys([*self.rules, *(rule for rules in ALWAYS for rule in rules)]))

    def __getstate__(self) -> dict[str, object]:
        """What travels to other processes: rule sets go by name, and engines are made there."""
        return {name: value for name, value in vars(self).items() if name != "rules"} | {"_engines": {}}

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Saturates one function. It comes back as it was where nothing is cheaper, or where the engine fails."""
        if not self.applies(mod, ctx):
            return func
        report = EngineReport()
        start = time.perf_counter()
        engine = self._engine(ctx)
        engine.environment = engine.environment._replace(opset=read_opset(mod) or DEFAULT_OPSET, written=written_opset(mod, ctx))
        if engine.trace is not None:
            name = next((var.name_hint for var, each in mod.functions.items() if each is func), "")
            engine.trace.at(self.info.name, name, self.owners)
        result = engine.run(func, report)
        report.changed = int(result is not func)
        self.record(ctx, report, time.perf_counter() - start, engine.exact_seconds)
        return result

    def run_jointly(self, passes: Sequence[Pass], mod: IRModule, ctx: PassContext) -> IRModule:
        """Saturates with the rules of several passes in one e-graph."""
        from passat.rules.joint import joint_pass  # which derives from this class

        own = tuple([pass_ for pass_ in cast(Sequence[RulePass], passes) if pass_.applies(mod, ctx)])
        if not own:
            return mod
        return joint_pass(own).run(mod, ctx) if len(own) > 1 else own[0].run(mod, ctx)

    def applies(self, mod: IRModule, ctx: PassContext) -> bool:
        """Whether the pass has anything to do with a module; where it has not, a remark says why."""
        return True

    def record(self, ctx: PassContext, report: EngineReport, seconds: float, exact_seconds: float = 0.0) -> None:
        """Tells the context what was done."""
        name = self.info.name
        ctx.record(name, "seconds", seconds)
        for key in _OF_THE_ENGINE:
            if amount := getattr(report, key):
                ctx.record(name, key, amount)
        for direction, statistics in report.rules.items():
            rule = without_operators(direction)
            ctx.record(name, f"matched:{rule}", statistics.matches)
            ctx.record(name, f"fired:{rule}", statistics.unions)
            ctx.record(name, f"refused:{rule}", statistics.refused)
            for reason, count in statistics.reasons.items():
                ctx.remark(name, f"{rule} refused {count} times: {reason}")
        for stopped in report.stopped:
            ctx.remark(name, f"{stopped}; the best so far was taken")
        for gap in report.gaps:
            proven = "the program taken out is proven the cheapest"
            close = f"stopped at the limit of {exact_seconds:g} s of exact search; at most {100 * gap:.2g} % can be gained"
            ctx.remark(name, proven if gap < _PROVEN else close)
        for failure in report.failures:
            ctx.remark(name, failure)

    @property
    def picked_by(self) -> tuple[str, ...]:
        """The names under which `rules.pick` means this pass."""
        return (self.info.name,)

    def left_out(self, rule: Rule, ctx: PassContext) -> str:
        """Why the settings leave out a rule of the pass; '' where they do not."""
        return _left_out(rule, self._math(ctx), ctx.get_config("rules.disabled"))

    def _math(self, ctx: PassContext) -> str:
        """What rules of the pass may do to floating-point values."""
        math: str = ctx.get_config("rules.math")
        return math

    def _engine(self, ctx: PassContext) -> Engine:
        math, disabled = self._math(ctx), tuple(ctx.get_config("rules.disabled"))
        given = {field: ctx.get_config(f"rules.{field}") for field in Limits._fields}
        limits = Limits(**{field: value for field, value in given.items() if value is not None})
        if self.rounds is not None:
            limits = limits._replace(rounds=min(self.rounds, limits.rounds))
        total = ctx.get_config("rules.time_limit")
        if total is not None:
            spent = sum(counters.get("seconds", 0.0) for counters in ctx.statistics.counters.values())
            limits = limits._replace(seconds=min(limits.seconds, max(0.0, total - spent)))
        if limits.unions is not None:
            limits = limits._replace(unions=max(0, limits.unions - _applied(ctx)))
        growth, exact = ctx.get_config("rules.max_growth"), ctx.get_config("rules.exact")
        key = (math, disabled, growth, exact)
        engine = self._engines.get(key)
        if engine is None:
            engine = self._engines[key] = Engine(
                self._stages(math, disabled),
                eager=[rule for rule in self.heard if rule.kind == EAGER and not _left_out(rule, math, disabled)],
                environment=Environment(growth),
                merge=self.merge,
                exact_seconds=exact,
            )
        engine = copy.copy(engine)  # passes may run in several threads at once, each with its own limits
        engine.limits = limits
        engine.rank = rank_of(ctx, self.picked_by)
        engine.seed = ctx.get_config("rules.seed")
        engine.trace = ctx.get_config("rules.trace")
        whole = limits.unions is not None or engine.trace is not None
        engine.region_nodes = None if whole else ctx.get_config("rules.region_nodes")
        engine.model = cost_model(ctx.get_config("rules.cost"), ctx.get_config("rules.machine"))
        return engine

    def _stages(self, math: str, disabled: Sequence[str]) -> list[Stage | Matcher | Grouper]:
        """What an engine runs: a stage for each phase, and the rules that lower."""
        stages: list[Stage | Matcher | Grouper] = []
        lowering: dict[Matcher | Grouper, None] = {}
        for each in self.phases:
            rules = [direction for rules in each.sets for rule in rules if rule.kind != EAGER for direction in _directions(rule)]
            matchers = [_matcher(rule) for rule in rules if not _left_out(rule, math, disabled)]
            stages.append(Stage.of(matchers, each.rounds, each.rule_matches))
            lowering.update((matcher, None) for matcher in matchers if matcher.rule.kind == LOWERING)
        return [*stages, *lowering]


def rule_pass(
    *sets: type[RuleSet] | Phase,
    name: str | None = None,
    opt_level: int = 2,
    required: Iterable[str] = (),
    merge: bool = False,
    rounds: int | None = None,
    **place: Unpack[Place],
) -> RulePass:
    """A function pass of rule sets, or of phases one after the other (`passat.rules.phase`). Its name is that of the first set where none
    is given.

    With `passat.rules.library.ConstantFolding` among the sets constants are computed while the rules run. With `merge` equal expressions
    become one even where no rule fires; `rounds` bounds the saturation below the context's limit.
    `after` and `before` say where the pass stands (PassInfo).
    Raises RuleError where a set is none, or where there is neither a set nor a name.
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


@functools.lru_cache(maxsize=4096)
def _directions(rule: Rule) -> tuple[Rule, ...]:
    # Of eager rules the engine makes those that it meets: f(*cs) stands for hundreds.
    return (rule,) if rule.kind == EAGER else tuple(rule.directions())


@functools.lru_cache(maxsize=4096)
def _matcher(rule: Rule) -> Matcher | Grouper:
    """The matcher of a rule, made once: passes are cheap to make, queries are not."""
    return Grouper(rule) if isinstance(rule, MultiRule) else Matcher(rule)


def _applied(ctx: PassContext) -> int:
    """How many applications of rules the context has counted, but for eager ones."""
    every = ctx.statistics.counters.values()
    fired = sum(int(count) for counters in every for key, count in counters.items() if key.startswith("fired:"))
    return fired - sum(int(counters.get("eager", 0)) for counters in every)


def _left_out(rule: Rule, math: str, disabled: Sequence[str]) -> str:
    names = (rule.name, equation_of(rule.name), rule.name.partition(".")[0])
    named = next((one for one in disabled if one in names), None)
    if named is not None:
        return f"it is switched off: rules.disabled names {named}"
    if MATH_LEVELS.index(rule.math) > MATH_LEVELS.index(math):
        return f"it is left out where rules.math is {math}: it needs {rule.math} ({rule.note})"
    return ""


class Unheard(NamedTuple):
    """Whether a pass of the pipeline has the rule, and why none looks for it; '' where one does."""

    is_held: bool
    why: str


def unheard(rule: Rule, plan: Plan, ctx: PassContext, ran: Collection[str] | None = None) -> Unheard:
    """Why no pass of a plan looks for a rule; `ran` are the passes that ran in fact, by default all that the plan has running."""
    steps = [(step, step.pass_) for step in plan.walk() if isinstance(step.pass_, RulePass)]
    name = equation_of(rule.name)
    holding = [(step, pass_) for step, pass_ in steps if any(one.name == name for rules in (*pass_.sets, *ALWAYS) for one in rules)]
    whys = []
    for step, pass_ in holding:
        vetoed = "an instrument vetoed it" if ran is not None and step.name not in ran else ""
        idle = vetoed if step.runs else step.why
        why = pass_.left_out(rule, ctx) or (f"{step.name} does not run: {idle}" if idle else "")
        if not why:
            return Unheard(is_held=True, why="")
        whys.append(why)
    told = list(dict.fromkeys(whys))
    return Unheard(
        bool(holding), f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told) or "no pass of the pipeline has it"
    )
