"""Events before the saturation that would run a rule: how earlier passes changed potential matches. Also eager rules, which are tried on
each node when it is added, and reject it there."""

from collections.abc import Container, Mapping, Sequence
from typing import Final

from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from passat.ir.known import known_value
from passat.ir.long_words import listed
from passat.ir.module import IRModule
from passat.ir.op import FOLLOWED, Op, is_followed
from passat.ir.types import TensorType
from passat.rules.engine.eager import KNOWS_ALL, asks_elements
from passat.rules.engine.matching import Matcher
from passat.rules.guards import Reject, Term
from passat.rules.holes import OperatorHole, PartsHole
from passat.rules.pattern import PCall
from passat.rules.provenance.node_traces import names_of
from passat.rules.provenance.pass_trace import expressions
from passat.rules.rule import Rule
from passat.rules.subterms import subterms
from passat.rules.why_not.align import Aligner, Alignment
from passat.rules.why_not.answer import Finding, Kind, bare, times
from passat.rules.why_not.collect import SENTENCES
from passat.rules.why_not.view import View
from passat.rules.why_not.watch import Ran, RunTrace, views_of_module


def matched_before(matcher: Matcher, module: IRModule, before: Sequence[Ran], first: Ran, node: str | None) -> list[Finding]:
    """Positions in the input model where a rule would have matched, by the rules or the pass that rewrote them before a pass, the `first`
    that has the rule."""
    places = _matches(matcher, module, node) if before else {}
    found: dict[str, list[str]] = {}
    for ran, after in zip(before, [*(ran.before for ran in before[1:]), first.before], strict=True):
        still = _matches(matcher, after, node) if places and after is not ran.before else places
        for place in [place for place in places if place not in still]:
            by = rewriters([ran], places[place]) or listed([f"{rule} (in {ran.name})" for rule in _eager(ran, places[place])]) or ran.name
            found.setdefault(by, []).append(place)
        places = {place: names for place, names in places.items() if place in still}
    return _retired(found, first.name, "it would match the input model at {places}, but {by} rewrote it before {first} ran")


def replaced(matcher: Matcher, first: Ran, node: str | None) -> list[Finding]:
    """Positions in the input of a pass where a rule would have matched, and the eager rules that replaced them, or parts of them, when they
    were added."""
    found: dict[str, list[str]] = {}
    for place, names in _matches(matcher, first.before, node).items():
        if by := listed(_eager(first, names)):
            found.setdefault(by, []).append(place)
    return _retired(found, first.name, "it would match at {places} (in {first}), but {by}, which is eager, came first")


def _matches(matcher: Matcher, module: IRModule, node: str | None) -> dict[str, set[str]]:
    """The positions in a module where a rule matches, with the names of the matched nodes."""
    found: dict[str, set[str]] = {}
    for view in [view for views in views_of_module(module).values() for view in views]:
        for one in Aligner(matcher, view).nearest():
            if not one.failures and _agrees(matcher, view, one) and (node is None or view.is_any(one.nodes, node)):
                found[view.place(one.root)] = {name for part in one.nodes if (name := view.name(part))}
    return found


def _eager(ran: Ran, names: Container[str]) -> list[str]:
    """The eager rules that replaced nodes of these names in a pass."""
    decisions = [decision for run_trace in ran.runs for decision in run_trace.run.graph.decisions if not decision.rejection]
    return [decision.rule for decision in decisions if any(name in names for name in names_of(decision.place))]


def _retired(found: Mapping[str, list[str]], first: str, text: str) -> list[Finding]:
    return [
        Finding(Kind.RETIRED, text.format(places=listed(places), by=by, first=first), bare(places), (first,), len(places))
        for by, places in found.items()
    ]


def rewriters(before: Sequence[Ran], names: set[str]) -> str:
    """The rules of some passes that were applied at nodes of these names, and whose results were extracted."""
    used = [(ran, each.view, *used) for ran in before for each in ran.runs for used in _used(each)]
    rules = [f"{rule} (in {ran.name})" for ran, view, rule, nodes in used if any(view.is_any(nodes, name) for name in names)]
    return listed(list(dict.fromkeys(rules)))


def absent(rule: Rule, before: Sequence[Ran], holding: Sequence[Ran]) -> list[Finding]:
    """The operators of the left side that do not occur in any program that a pass with the rule received. Lists those that the model never
    had or, if it had them all, the changes of earlier passes to them."""
    wanted = dict.fromkeys(part.op for part in subterms(rule.lhs) if isinstance(part, PCall))
    seen: set[Op] = set()
    for each in holding:
        seen |= _ops(each.before)
        seen |= {symbol.op for run_trace in each.runs for symbol in run_trace.run.graph.symbols if symbol.op is not None}
    missing = {op: [ran for ran in before if op in _ops(ran.before)] for op in wanted if op not in seen}
    names = {op.name for op in seen}
    never = [Finding(Kind.ABSENT, f"there is no {op.name} in the model{_form_of(op, names)}") for op, had in missing.items() if not had]
    return never or [_gone(op, had[-1], holding[0]) for op, had in missing.items()]


_FORMS: Final = {
    "nn.matmul": ("nn.dense", "a product with a weight stored transposed, which op.nn.dense(x, w) matches"),
    "add": ("nn.bias_add", "a sum with a vector along an axis, which op.nn.bias_add(x, b, ...) matches"),
}
"""Operators that models often have in place of one that a rule is written for, and how a rule matches them."""


def _form_of(op: Op, seen: Container[str]) -> str:
    other, words = _FORMS.get(op.name, ("", ""))
    return f", but {other}: {words}" if other in seen else ""


def _gone(op: Op, last: Ran, first: Ran) -> Finding:
    by = dict.fromkeys(
        rule for each in last.runs for rule, nodes in _used(each) if any(each.run.graph.symbols[node].op is op for node in nodes)
    )
    folded = any(each.new is not None and each.new.head.op is op for run_trace in last.runs for each in run_trace.run.graph.decisions)
    who = f"{listed(list(by))} (in {last.name}) rewrote" if by else f"{last.name} {'folded' if folded else 'removed'}"
    return Finding(Kind.ABSENT, f"there is no {op.name} left when {first.name} runs: {who} it before", passes=(first.name,))


def _agrees(matcher: Matcher, view: View, one: Alignment) -> bool:
    """True if the guards of the rule hold."""
    try:
        matcher.decide(view.graph, one.row(matcher))
    except Reject:
        return False
    return True


def _used(run_trace: RunTrace) -> list[tuple[str, Sequence[int]]]:
    """The rules whose results were extracted, once for each application, with the nodes that they matched."""
    applied = zip(run_trace.run.applications, run_trace.taken, run_trace.matched, strict=True)
    return [(one.rule, nodes) for one, used, nodes in applied if used]


def _ops(module: IRModule) -> set[Op]:
    """The operators that a module calls."""
    return {node.op for node in expressions(module) if isinstance(node, Call) and isinstance(node.op, Op)}


def decided(rule: Rule, ran: Sequence[Ran], node: str | None, nearest: int) -> list[Finding]:
    """The eager rule's decisions on nodes, in all passes that have it; with `node`, on that one only, or why it was not applied there.
    Without it, also why some calls of constants, or of nothing, were not tried."""
    found: dict[tuple[Kind, str], dict[str, list[str]]] = {}
    for each in ran:
        for run_trace in each.runs:
            for decision in run_trace.run.graph.decisions:
                names = names_of(decision.place)
                if decision.rule == rule.name and (node is None or node in names):
                    kind = Kind.REJECTED if decision.rejection else Kind.TAKEN
                    found.setdefault((kind, decision.rejection), {}).setdefault(each.name, []).extend(names[:1] or [""])
    findings = []
    for (kind, reason), by in sorted(found.items(), key=lambda item: item[0][0] is Kind.REJECTED):
        places = list(dict.fromkeys(place for names in by.values() for place in names if place))
        count = sum(map(len, by.values()))
        at = f"at {listed([repr(place) for place in places])} " if places else ""
        text = SENTENCES[kind].format(where=f"{at}(in {listed(list(by))})", reason=reason, times=times(count))
        findings.append(Finding(kind, text, tuple(places), tuple(by), count))
    return findings if findings and node is not None else [*findings, *_not_tried(rule, ran[0], node)[:nearest]]


def _not_tried(rule: Rule, first: Ran, node: str | None) -> list[Finding]:
    """Why the left side of an eager rule does not match the node of that name at the start of a pass; without it, why that of a rule about
    constants does not match some calls of constants, or of nothing, and why the elements that a rule asks for are unknown."""
    constants = any(isinstance(arg, PartsHole) and arg.constant for arg in getattr(rule.lhs, "args", ()))
    if node is None and not (constants or asks_elements(rule)):
        return []
    found: dict[tuple[Kind, str], dict[str, None]] = {}
    for expr in expressions(first.before):
        names = names_of(expr)
        asked = node in names if node is not None else _is_likely(rule, expr)
        if asked and (why := _mismatch(rule, expr)) is not None and names:
            found.setdefault(why, {})[node or names[0]] = None
    return [
        Finding(Kind.NEAR, why, tuple(places), (first.name,), agreed=0, parts=1)
        if kind is Kind.NEAR
        else Finding(kind, f"it does not match at {listed([repr(place) for place in places])}: {why}", tuple(places), (first.name,))
        for (kind, why), places in found.items()
    ]


def _mismatch(rule: Rule, expr: Expr) -> tuple[Kind, str] | None:
    """Why the left side of an eager rule does not match an expression: it is another kind of expression (NEAR), or an operator or operand
    is not what the rule asks (REJECTED)."""
    left = rule.lhs
    if not isinstance(left, PCall):
        return None if isinstance(expr, TupleGetItem) else (Kind.NEAR, "it is not a field of a tuple")
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return Kind.NEAR, "it is not a call of an operator"
    hole: object = left.op
    if not isinstance(hole, OperatorHole):
        return None if expr.op is left.op else (Kind.NEAR, f"it is a call of {expr.op.name}, not of {left.op.name}")
    if expr.op.stateful:
        return Kind.REJECTED, f"{expr.op.name} is stateful"
    if not hole.stands_for(expr.op):
        return Kind.REJECTED, f"{hole.meaning()}, which {expr.op.name} is not"
    parts = next((arg for arg in left.args if isinstance(arg, PartsHole)), None)
    if parts is not None and len(expr.args) < parts.least:
        return Kind.REJECTED, f"{expr.op.name} has no operands"
    if parts is not None and parts.constant:
        for name, arg in zip(expr.op.operand_names, expr.args, strict=False):
            if not _is_constant(arg):
                return Kind.REJECTED, f"its operand {' '.join((name, *map(repr, names_of(arg)[-1:])))} is not a constant"
    answer = KNOWS_ALL(Term(expr.checked_type, known=known_value(expr))) if asks_elements(rule) else True
    return None if answer is True else (Kind.REJECTED, str(answer))


def _is_likely(rule: Rule, expr: Expr) -> bool:
    """True for a call of constants, or of nothing; for a rule that needs elements, for a small integer tensor of an operator that it is
    about."""
    if not isinstance(expr, Call):
        return False
    if not asks_elements(rule):
        return all(map(_is_constant, expr.args))
    hole: object = rule.lhs.op if isinstance(rule.lhs, PCall) else None
    if not (isinstance(expr.op, Op) and isinstance(hole, OperatorHole) and hole.stands_for(expr.op)):
        return False
    type_ = expr.checked_type
    return isinstance(type_, TensorType) and type_.dtype in FOLLOWED and is_followed(type_)


def _is_constant(arg: Expr) -> bool:
    return all(map(_is_constant, arg.fields)) if isinstance(arg, Tuple) else isinstance(arg, Constant)
