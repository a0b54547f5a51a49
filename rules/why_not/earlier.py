"""What the passes before have done to what a rule would have matched."""

from collections.abc import Sequence

from passat.ir.expr import Call, Function
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.rules.conditions import Refuse
from passat.rules.engine.matching import Matcher
from passat.rules.pattern import PCall, subterms
from passat.rules.rule import Rule
from passat.rules.why_not.align import Aligner, Alignment
from passat.rules.why_not.answer import Finding, Kind, bare, listed
from passat.rules.why_not.history import History
from passat.rules.why_not.view import View
from passat.rules.why_not.watch import Ran, views_of_module


def matched_before(matcher: Matcher, module: IRModule, before: Sequence[Ran], first: str, node: str | None) -> list[Finding]:
    """Where a rule would have matched the model as it came in, and which rule of the passes before the `first` that has it was there."""
    found: dict[str, list[str]] = {}
    for views in views_of_module(module).values() if before else ():
        for view in views:
            for one in Aligner(matcher, view).nearest():
                if one.failures or not _agrees(matcher, view, one) or not (node is None or view.is_any(one.nodes, node)):
                    continue
                by = rewriters(before, {name for part in one.nodes if (name := view.name(part))})
                found.setdefault(by or _folder(before), []).append(view.place(one.root))
    return [
        Finding(
            Kind.RETIRED,
            f"it would match the model as it is at {listed(places)}, but {by} had rewritten that before {first} ran",
            bare(places),
            (first,),
            len(places),
        )
        for by, places in found.items()
    ]


def rewriters(before: Sequence[Ran], names: set[str]) -> str:
    """The rules of some passes that were applied at nodes of these names, and taken."""
    return listed(list(dict.fromkeys(f"{rule} (in {ran.name})" for ran in before for history in ran.runs for rule in _at(history, names))))


def absent(rule: Rule, before: Sequence[Ran], holding: Sequence[Ran]) -> list[Finding]:
    """The operators of the left side that do not occur in any program that a pass got which has the rule, and what the passes before have
    done to them."""
    wanted = dict.fromkeys(part.op for part in subterms(rule.lhs) if isinstance(part, PCall))
    seen: set[Op] = set()
    for each in holding:
        seen |= _ops(each.before)
        seen |= {symbol.op for history in each.runs for symbol in history.run.graph.symbols if symbol.op is not None}
    return [_gone(op, before, holding[0]) for op in wanted if op not in seen]


def _gone(op: Op, before: Sequence[Ran], first: Ran) -> Finding:
    had = [ran for ran in before if op in _ops(ran.before)]
    if not had:
        return Finding(Kind.ABSENT, f"there is no {op.name} in the model")
    last = had[-1]
    by = dict.fromkeys(rule for history in last.runs for rule in _removers(history, op))
    folded = any(history.run.graph.applied for history in last.runs)
    who = f"{listed(list(by))} (in {last.name}) rewrote" if by else f"{last.name} {'folded' if folded else 'removed'}"
    return Finding(Kind.ABSENT, f"there is no {op.name} any more when {first.name} runs: {who} what there was", passes=(first.name,))


def _agrees(matcher: Matcher, view: View, one: Alignment) -> bool:
    """Whether the conditions of the rule hold."""
    try:
        matcher.decide(view.graph, one.row(matcher))
    except Refuse:
        return False
    return True


def _folder(before: Sequence[Ran]) -> str:
    """The passes that folded something, or else all."""
    folded = [ran.name for ran in before if any(history.run.graph.applied for history in ran.runs)]
    return listed(folded or [ran.name for ran in before if ran.runs] or [ran.name for ran in before])


def _at(history: History, names: set[str]) -> list[str]:
    """The rules that were applied at nodes of those names, and taken."""
    applied = zip(history.run.applications, history.taken, history.matched, strict=True)
    return [one.rule for one, used, nodes in applied if used and any(history.view.is_any(nodes, name) for name in names)]


def _removers(history: History, op: Op) -> list[str]:
    """The rules whose applications matched calls of an operator and were taken."""
    symbols = history.run.graph.symbols
    applied = zip(history.run.applications, history.taken, history.matched, strict=True)
    return [one.rule for one, used, nodes in applied if used and any(symbols[node].op is op for node in nodes)]


def _ops(module: IRModule) -> set[Op]:
    """The operators that a module calls."""
    return {
        node.op
        for function in module.functions.values()
        if isinstance(function, Function)
        for node in post_order(function)
        if isinstance(node, Call) and isinstance(node.op, Op)
    }
