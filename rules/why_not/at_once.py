"""Why an eager rule was not applied: it is tried on each node when that is added, and says there why it refused."""

from collections.abc import Sequence

from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.rules.operator_hole import OperatorHole
from passat.rules.parts_hole import PartsHole
from passat.rules.pattern import PCall
from passat.rules.rule import Rule
from passat.rules.why_not.answer import Finding, Kind, listed, times
from passat.rules.why_not.collect import SENTENCES
from passat.rules.why_not.view import names_of
from passat.rules.why_not.watch import Ran


def decided(rule: Rule, ran: Sequence[Ran], node: str | None) -> list[Finding]:
    """What the rule decided on nodes, in all passes that have it; with `node`, on that one alone, or why it was not asked there."""
    found: dict[tuple[Kind, str], dict[str, list[str]]] = {}
    for each in ran:
        for history in each.runs:
            for decision in history.run.graph.decisions:
                names = names_of(decision.place)
                if decision.rule == rule.name and (node is None or node in names):
                    kind = Kind.REFUSED if decision.refusal else Kind.TAKEN
                    found.setdefault((kind, decision.refusal), {}).setdefault(each.name, []).extend(names[:1] or [""])
    if not found and node is not None:
        return [Finding(Kind.NEAR, why, (node,), agreed=0, parts=1) for why in [_mismatch_at(rule, ran, node)] if why]
    findings = []
    for (kind, reason), by in sorted(found.items(), key=lambda item: item[0][0] is Kind.REFUSED):
        places = list(dict.fromkeys(place for names in by.values() for place in names if place))
        count = sum(map(len, by.values()))
        at = f"at {listed([repr(place) for place in places])} " if places else ""
        text = SENTENCES[kind].format(where=f"{at}(in {listed(list(by))})", reason=reason, times=times(count))
        findings.append(Finding(kind, text, tuple(places), tuple(by), count))
    return findings


def _mismatch_at(rule: Rule, ran: Sequence[Ran], node: str) -> str:
    """Why the left side is not what stands at a node of that name when the first of the passes begins; '' where there is none."""
    for function in ran[0].before.functions.values():
        for expr in post_order(function) if isinstance(function, Function) else ():
            if node in names_of(expr):
                return _mismatch(rule, expr)
    return ""


def _mismatch(rule: Rule, expr: Expr) -> str:
    left = rule.lhs
    if not isinstance(left, PCall):
        return "" if isinstance(expr, TupleGetItem) else "it is no field of a tuple"
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return "it is no call of an operator"
    hole: object = left.op
    if not isinstance(hole, OperatorHole):
        return "" if expr.op is left.op else f"it is a call of {expr.op.name}, not of {left.op.name}"
    if expr.op.stateful:
        return f"{expr.op.name} is stateful"
    if not hole.stands_for(expr.op):
        return f"{hole.meaning()}, which {expr.op.name} is not"
    parts = next((arg for arg in left.args if isinstance(arg, PartsHole)), None)
    if parts is not None and len(expr.args) < parts.least:
        return f"{expr.op.name} has no operands"
    if parts is not None and parts.constant:
        for name, arg in zip(expr.op.operand_names, expr.args, strict=False):
            if not _is_constant(arg):
                return f"its operand {' '.join((name, *map(repr, names_of(arg)[-1:])))} is no constant"
    return ""


def _is_constant(arg: Expr) -> bool:
    return all(map(_is_constant, arg.fields)) if isinstance(arg, Tuple) else isinstance(arg, Constant)
