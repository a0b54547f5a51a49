"""Why-not queries: why a rule, or each rule of a set, did not fire when a pipeline ran on a module."""

import inspect
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any as AnyValue
from typing import Final

from passat.ir.counting import counted
from passat.ir.custom_ops import NOT_AS_DECLARED
from passat.ir.expr import Call
from passat.ir.long_words import listed
from passat.ir.module import IRModule
from passat.ir.onnx.opaque import OpaqueOp
from passat.ir.onnx.untyped import NOT_MODELED, has_form, untyped_values
from passat.ir.op import Op, find_op, list_ops
from passat.ir.passat_error import PassatError
from passat.ir.similar_names import did_you_mean
from passat.passmgr import Pass, PassContext, PassEntry, Sequential, list_passes
from passat.rules.cost import NodeCount, Roofline, cost_model
from passat.rules.engine.directions import expanded
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.limits import SATURATED
from passat.rules.engine.matching import Matcher
from passat.rules.engine.report import Inapplicable, Skipped
from passat.rules.multi_pattern import MultiRule
from passat.rules.passes import default_pipeline
from passat.rules.pattern import PCall
from passat.rules.planned_rules import other_passes, registered_rule_passes, why_not_run
from passat.rules.provenance.node_traces import names_of
from passat.rules.provenance.pass_trace import expressions
from passat.rules.rule import EAGER, Rule, equation_of, without_operators
from passat.rules.rule_pass import RulePass, rule_passes
from passat.rules.rule_set import RuleSetMeta
from passat.rules.subterms import subterms
from passat.rules.why_not.answer import Answer, Finding, Kind
from passat.rules.why_not.collect import Asked, Collector, rule_in, stopped_text
from passat.rules.why_not.earlier import absent, decided, matched_before, replaced, rewriters
from passat.rules.why_not.walks import about_walk
from passat.rules.why_not.watch import Ran, Watched, watch

NEAREST: Final = 3
"""Number of nearest matches that are reported."""
DEFAULT_LEVEL: Final = 3
"""The optimization level without a surrounding context."""


class WhyNotError(PassatError, ValueError):
    """A query about an unknown rule or node; the message suggests the nearest name."""


def why_not(
    rule: str | Rule,
    module: IRModule,
    *,
    pipeline: Pass | None = None,
    node: str | None = None,
    nearest: int = NEAREST,
    config: Mapping[str, AnyValue] | None = None,
) -> Answer:
    """Why a rule (`Set.rule`, or `Set.rule.back` for the reverse direction) did not fire when a pipeline, by default Passat's own, ran on a
    module. `node` restricts the query to the node of that name in the ONNX file, or to the one whose first output has the name. Settings
    are those of the surrounding context; without one, passes of all levels run. Raises WhyNotError for an unknown rule or node."""
    inquiry = Inquiry(module, pipeline, config)
    return inquiry.answer(rule if isinstance(rule, str) else rule.name, node, nearest)


def why_not_set(
    rules: str | RuleSetMeta,
    module: IRModule,
    *,
    pipeline: Pass | None = None,
    node: str | None = None,
    nearest: int = NEAREST,
    config: Mapping[str, AnyValue] | None = None,
) -> list[Answer]:
    """Why each rule of a set did not fire, as `why_not` says of one. Raises WhyNotError for an unknown set or node."""
    inquiry = Inquiry(module, pipeline, config)
    return [inquiry.answer(name, node, nearest) for name in inquiry.rules_of(rules if isinstance(rules, str) else rules.__name__)]


class Inquiry:
    """A pipeline that has run on a module, ready for queries about its rules."""

    def __init__(self, module: IRModule, pipeline: Pass | None = None, config: Mapping[str, AnyValue] | None = None) -> None:
        settings = (PassContext.entered() or PassContext(DEFAULT_LEVEL)).inside(None, config)
        self.module = module
        self.watched: Watched | None = None
        self._settings = settings
        self._pipeline = pipeline or default_pipeline()
        self._holders: Mapping[str, Mapping[str, Pass]] = {}
        self._rules: Mapping[str, Rule] = {}
        self._known()

    def _known(self) -> None:
        """The rules of the pipeline, and of the registered passes with their names."""
        self._holders, self._rules, known = _registered(tuple(list_passes()), tuple(list_ops()))
        own = {rule.name: rule for pass_ in rule_passes(self._pipeline) for rule in pass_.rules}
        # A set of the pipeline may have the name of a registered one, from an earlier run with user rules.
        sets = {rules.__name__: rules.base for pass_ in rule_passes(self._pipeline) for rules in pass_.sets}
        other = {name for name, base in sets.items() if known.get(name) is not base}
        self._rules = {name: rule for name, rule in self._rules.items() if name.partition(".")[0] not in other} | own

    def is_set(self, name: str) -> bool:
        """True if the name denotes a rule set, or a rule with holes for operators."""
        return name not in self._rules and any(rule.startswith((f"{name}.", f"{name}[")) for rule in self._rules)

    def rules_of(self, name: str) -> list[str]:
        """The names of the rules of a set, or of the expansions of a rule with holes for operators. Raises WhyNotError."""
        found = [rule for rule in self._rules if name in (rule.partition(".")[0], without_operators(rule))]
        if not found:
            raise WhyNotError(f"unknown rule set {name!r}{_hint(name, {rule.partition('.')[0] for rule in self._rules})}")
        return found

    def answer(self, name: str, node: str | None = None, nearest: int = NEAREST) -> Answer:
        """The answer for one rule, or for a pass without rules. Raises WhyNotError."""
        rule = self._rules.get(name)
        if rule is None and (walk := self._walk(name)) is not None:
            findings = about_walk(walk.info.name, self._watched(node), node)
            return Answer(name, _first_sentence(walk), (walk.info.name,), tuple(findings), node)
        if rule is None and self.is_set(name):
            forms = self.rules_of(name)
            raise WhyNotError(
                f"{name!r} stands for {counted(len(forms), 'rule')}, such as {forms[0]!r}; why_not_set answers for all of them"
            )
        if rule is None:
            if not_a_form := self._not_a_form(name):
                raise WhyNotError(not_a_form)
            hint = _hint(name, {*self._rules, *(one.partition(".")[0] for one in self._rules), *self._walks()})
            if not hint or ("." in name and not self.is_set(name.partition(".")[0])):
                hint += "; for a rule of a file, name the file with --rules"
            raise WhyNotError(f"unknown rule {name!r}{hint}")
        watched = self._watched(node)
        off, holding = self._passes(rule, watched)
        if not holding:
            return Answer(name, repr(rule), (), (Finding(Kind.NOT_RUN, off),), node)
        if rule.kind == EAGER:
            findings = decided(rule, holding, node, nearest) or [Finding(Kind.NOTHING, "nothing in the program resembles its left side")]
            return Answer(name, repr(rule), tuple(dict.fromkeys(name for ran in holding for name in ran.holders)), tuple(findings), node)
        matcher = Grouper(rule) if isinstance(rule, MultiRule) else Matcher(rule)
        budget = watched.settings.get_config("rules.rule_matches")
        money = partial(_money, watched.settings)
        collector = Collector(Asked(_theirs(holding, name) or matcher, node, nearest, money, budget, watched.remarks))
        ordered = [ran.name for ran in holding]
        for i, ran in enumerate(holding):
            collector.add_pass(ran, ordered[: i + 1].count(ran.name), ordered.count(ran.name))
        findings = collector.findings()
        near = not findings or findings[0].kind is Kind.NEAR
        if near and not (isinstance(rule, MultiRule) and findings):
            earlier = self._before(holding[0])
            asked = collector.asked.rule
            before = []
            if not isinstance(asked, Grouper):
                before = matched_before(asked, self.module, earlier, holding[0], node) or replaced(asked, holding[0], node)
            gone = [] if node or before else absent(rule, self._before(holding[0]), holding)
            kept = [one for one in findings if not before and (not gone or 2 * (one.agreed or 0) >= (one.parts or 0))]
            findings = [*self._cut(holding), *before, *gone, *_opaque(rule, holding[-1].before, node), *kept]
        if node is not None and near and not findings:
            by = rewriters(self._before(holding[0]), {node})
            who = f": {by} had rewritten it" if by else ""
            findings = [Finding(Kind.NOTHING, f"'{node}' no longer exists when {holding[0].name} runs{who}")]
        if not findings:
            findings = [Finding(Kind.NOTHING, "nothing in the program resembles its left side")]
        return Answer(name, repr(rule), tuple(dict.fromkeys(name for ran in holding for name in ran.holders)), tuple(findings), node)

    def _watched(self, node: str | None) -> Watched:
        """The run of the pipeline. Raises WhyNotError for an unknown node."""
        if node is not None:
            names = _names(self.module)
            if node not in names:
                first = list(dict.fromkeys(names.values()))
                some = f"; there are {', '.join(map(repr, first[:NEAREST]))}{' ...' if len(first) > NEAREST else ''}" if first else ""
                raise WhyNotError(f"there is no node {node!r}{_hint(node, names) or some}")
        if self.watched is None:
            self.watched = watch(self._pipeline, self.module, self._settings)
        return self.watched

    def _walk(self, name: str) -> Pass | None:
        """The pass without rules of that name, of the pipeline or a registered one with default options."""
        found = self._walks().get(name) or next((entry.default() for entry in list_passes() if entry.name == name), None)
        return None if found is None or found.members is not None or isinstance(found, RulePass) else found

    def _walks(self) -> dict[str, Pass]:
        """The passes without rules of the pipeline, by name."""
        plan = self._pipeline.plan(self._settings) if isinstance(self._pipeline, Sequential) else None
        passes = [self._pipeline] if plan is None else [step.pass_ for step in plan.walk()]
        return {each.info.name: each for each in reversed(passes) if each.members is None and not isinstance(each, RulePass)}

    def _not_a_form(self, name: str) -> str:
        """Why a rule with holes, which passes of the pipeline have, does not stand for the operators that a name gives; '' if it is another
        name."""
        declared = {rule.name: rule for pass_ in rule_passes(self._pipeline) for rule in pass_.declared}
        rule = declared.get(without_operators(name))
        if rule is None or name == rule.name or not (holes := rule.holes()):
            return ""
        asked = [op for part in name.partition("[")[2].removesuffix("]").split(",") if (op := find_op(part.strip())) is not None]
        bare = [
            (hole, op)
            for hole in holes.operators.values()
            for op in asked
            if not hole.choices and op.attr_params and op in hole.operators() and op not in hole.fitting(rule.lhs)
        ]
        if bare:
            hole, op = bare[0]
            reason = f"{op.name} has attributes, and {hole.name}(...) stands for operators without any: write {hole.name}(..., attrs=a)"
        else:
            reason = "; ".join(holes.meanings())
        return f"{rule.name} has no form {name.removeprefix(rule.name)}: {reason}"

    def _before(self, first: Ran) -> Sequence[Ran]:
        """The passes that ran before a pass."""
        assert self.watched is not None
        return self.watched.ran[: first.number]

    # ---- the passes that ran the rule

    def _passes(self, rule: Rule, watched: Watched) -> tuple[str, list[Ran]]:
        """The passes that ran and have the rule; if there are none, the reason."""
        found = why_not_run(rule, watched.plan, watched.settings, {name for ran in watched.ran for name in ran.parts})
        if found.why:
            if found.is_held:
                return found.why, []
            held = self._holders.get(rule.name, {})
            left = {name: pass_ for name, pass_ in held.items() if isinstance(pass_, RulePass) and rule.name in pass_.without}
            running = [name for name in held if name not in left]
            leaving = [pass_.left_out(rule, watched.settings) for pass_ in left.values()]
            others = f"{listed(running)} {'does' if len(running) == 1 else 'do'}" if running else listed(leaving)
            return "; ".join(filter(None, (found.why, others))), []
        holders = dict.fromkeys(
            step.name
            for step in watched.plan.walk()
            if step.runs
            and isinstance(step.pass_, RulePass)
            and any(one.name == equation_of(rule.name) for one in step.pass_.declared)
            and not step.pass_.left_out(rule, watched.settings)
        )
        alone = {each.name for each in watched.ran if each.runs}  # a pass may apply to some functions only
        silent = [name for name in holders if name not in alone]
        unfit = {name: said for name in silent for said in watched.remarks.get(name, ()) if isinstance(said, Inapplicable)}
        if unfit.keys() == holders.keys():
            return listed([f"{name} does not run: {said}" for name, said in unfit.items()]), []
        fit = holders.keys() - unfit.keys()
        ran = [(each, tuple(name for name in dict.fromkeys(each.parts) if name in fit)) for each in watched.ran]
        return "", [each._replace(name=holders[0] if len(holders) == 1 else each.name, holders=holders) for each, holders in ran if holders]

    # ---- reasons besides mismatches

    def _cut(self, holding: Sequence[Ran]) -> list[Finding]:
        """Limits reached by saturations, which may have missed matches, and functions that the engine skipped."""
        assert self.watched is not None
        alone = [(ran.name, said) for ran in holding for said in self.watched.remarks.get(ran.name, ()) if isinstance(said, Skipped)]
        ended = [(ran.name, run_trace.run.saturation) for ran in holding for run_trace in ran.runs]
        stopped = dict.fromkeys((name, stopped_text(saturation)) for name, saturation in ended if saturation.stopped != SATURATED)
        stopped |= dict.fromkeys((name, f"{rule} {how}") for name, saturation in ended for rule, how in saturation.ended.items())
        return [Finding(Kind.CUT, f"{how} (in {name}); it might have matched later", passes=(name,)) for name, how in stopped] + [
            Finding(Kind.LEFT, f"{name} has functions that it {said}", passes=(name,)) for name, said in dict.fromkeys(alone)
        ]


def _first_sentence(pass_: Pass) -> str:
    """What a pass does."""
    return " ".join((inspect.getdoc(pass_) or "").partition("\n\n")[0].split()).partition(". ")[0].removesuffix(".")


def _opaque(rule: Rule, module: IRModule, node: str | None) -> list[Finding]:
    """Nodes that are opaque because they are not as declared, because a type is unknown, or, if the left side names their operator, because
    of their operands or attributes: all, or only the node of the given name."""
    found: list[Finding] = []
    for warning in getattr(module.attrs.get("onnx"), "warnings", ()):
        span = warning.span
        names = () if span is None else tuple(name for name in (span.source_name, *span.outputs) if name)
        if NOT_AS_DECLARED in str(warning.sentence) and (node is None or node in names):
            found.append(Finding(Kind.UNTYPED, str(warning.sentence), names[:1]))
    untyped = untyped_values(module)
    for value in untyped:
        names = tuple(names_of(call)[0] for call in value.calls if names_of(call) and (node is None or node in names_of(call)))
        if node is None:
            found.append(Finding(Kind.UNTYPED, value.sentence, names, times=len(value.calls)))
        elif names:
            found.append(Finding(Kind.UNTYPED, f"'{node}' is left opaque because {value.reason}", names))
    seen = {call for value in untyped for call in value.calls}
    # The docstring of an operator names the ONNX operators that are read as its calls.
    docs = "\n".join({part.op.doc for part in subterms(rule.lhs) if isinstance(part, PCall) and isinstance(part.op, Op)})
    narrower: dict[str, list[str]] = {}
    for call in expressions(module):
        if not (isinstance(call, Call) and isinstance(call.op, OpaqueOp) and has_form(call)) or call in seen:
            continue
        names, operator = names_of(call), call.op.op_type
        if names and (node is None or node in names) and re.search(rf"\b{re.escape(operator)}\b", docs):
            narrower.setdefault(operator, []).append(names[0])
    for operator, named in narrower.items():
        count, is_one = counted(len(named), f"{operator} node"), len(named) == 1
        nodes = f"{named[0]!r} ({operator}) is" if is_one else f"{count}, such as {named[0]!r}, are"
        found.append(Finding(Kind.UNTYPED, f"{nodes} left opaque: {NOT_MODELED}", tuple(named), times=len(named)))
    return found


def _theirs(holding: Sequence[Ran], name: str) -> Matcher | Grouper | None:
    """The matcher that the engine used."""
    return next((found for ran in holding for run_trace in ran.runs if (found := rule_in(run_trace.run, name)) is not None), None)


def _names(module: IRModule) -> dict[str, str]:
    """The names of the nodes of a module and of their outputs, each with the first name of its node."""
    return {name: names_of(expr)[0] for expr in expressions(module) if isinstance(expr, Call) for name in names_of(expr)}


def _hint(name: str, known: Mapping[str, object] | set[str]) -> str:
    return did_you_mean(name, sorted(set(map(without_operators, known))))


def _money(settings: PassContext, cost: float) -> str:
    """A cost in the unit of the model."""
    model = cost_model(settings.get_config("rules.cost"), settings.get_config("rules.machine"))
    if isinstance(model, NodeCount):
        count = round(cost)
        return "one call" if count == 1 else f"{count} calls"
    if not (isinstance(model, Roofline) or settings.get_config("rules.cost") == "measured"):
        return f"{cost:.4g}"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if cost >= size:
            return f"{cost / size:.4g} {unit}"
    return f"{cost / 1e-6:.2g} us"


@lru_cache(maxsize=1)
def _registered(
    entries: tuple[PassEntry, ...], operators: tuple[Op, ...]
) -> tuple[Mapping[str, Mapping[str, Pass]], Mapping[str, Rule], Mapping[str, RuleSetMeta]]:
    """By name: the registered passes that have each rule, the rules, which stand for the declared operators, and the sets."""
    holders: dict[str, dict[str, Pass]] = {}
    rules: dict[str, Rule] = {}
    sets: dict[str, RuleSetMeta] = {}
    for name, pass_ in registered_rule_passes():
        sets.update((one.__name__, one.base) for one in pass_.sets)
        for rule in pass_.rules:
            rules.setdefault(rule.name, rule)
            if not any(name.startswith(f"{known}{{") for known in holders.get(rule.name, ())):
                holders.setdefault(rule.name, {}).setdefault(name, pass_)
    for name, other, declared in other_passes():
        for rule in [direction for each in declared for direction in expanded(each)]:
            rules.setdefault(rule.name, rule)
            holders.setdefault(rule.name, {}).setdefault(name, other)
    return holders, rules, sets
