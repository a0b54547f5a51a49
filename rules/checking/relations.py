"""Relations between rules, and to cost: subsumption, cycles, and rules that only increase cost."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.equality import structural_equal, structural_hash
from passat.ir.evaluate import EvaluateError, Value, as_constant, evaluate_call
from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from passat.ir.infer import InferError, infer_type
from passat.ir.op import Op
from passat.ir.traverse import post_order, rewrite
from passat.rules.checking.trial import expression_of
from passat.rules.checking.trying import Checked
from passat.rules.cost import ROOFLINE, program_cost
from passat.rules.engine.graph import Graph
from passat.rules.engine.matching import Matcher
from passat.rules.engine.symbols import Symbol
from passat.rules.expansion import with_parts
from passat.rules.guards import Guard
from passat.rules.pattern import AttrHole, Pattern, PCall, PConst, PGet, PLiteral, PVar
from passat.rules.rule import LIBERTIES, REDUCING, Rule
from passat.rules.subterms import attr_holes, pattern_parts, subterms, ways

_LOOKED_AT: Final = 4
"""Number of instances of a rule that are followed through other rules."""
_STEPS: Final = 4
_STATES: Final = 40
"""Maximum number of programs visited in the search for a cycle."""
_COSTED: Final = 60


# ---- rules that increase cost


def enlarges(checked: Checked) -> bool:
    """True if a reducing rule made all its instances more expensive by the roofline model."""
    if checked.rule.kind != REDUCING:
        return False
    constants = {node.name for node in subterms(checked.rule.lhs) if isinstance(node, PConst)}
    pairs = []
    for _, trial in checked.agreeing[:_COSTED]:
        plain = all(name in constants or not name.isidentifier() for name in trial.case.constants)  # folded constants cost nothing
        if plain and not trial.case.unknown and trial.program is not None and trial.right is not None:
            pairs.append((trial.program.body, trial.right))
    return len(pairs) >= 5 and all(
        program_cost(infer_type(right), ROOFLINE) > program_cost(left, ROOFLINE) * (1 + 1e-9) for left, right in pairs
    )


# ---- cycles of rules


def reducing_matchers(rules: Iterable[Rule]) -> dict[Symbol, list[Matcher]]:
    """The matchers of reducing rules, by the operator at the root of their left sides."""
    matchers: dict[Symbol, list[Matcher]] = {}
    for rule in rules:
        if rule.kind == REDUCING:
            for matcher in map(Matcher, rule.directions()):
                matchers.setdefault(matcher.root, []).append(matcher)
    return matchers


def starts(checked: Checked) -> tuple[Expr, ...]:
    """Instances of a reducing rule from which to look for cycles."""
    if checked.rule.kind != REDUCING:
        return ()
    return tuple(trial.program.body for _, trial in checked.agreeing[:_LOOKED_AT] if trial.program is not None)


def circles(instances: Iterable[tuple[Rule, Sequence[Expr]]], matchers: Mapping[Symbol, Sequence[Matcher]]) -> list[tuple[str, ...]]:
    """The cycles among reducing rules that lead from an instance of one back to itself: their names in order, each cycle once."""
    found: dict[frozenset[str], tuple[str, ...]] = {}
    for rule, programs in instances:
        for program in programs:
            try:
                start = _folded(program)
            except InferError:
                continue  # a computed constant does not fit the operands beside it
            path = _circle(start, rule.name, matchers)
            if path:
                found.setdefault(frozenset(path), path)
    return list(found.values())


def _circle(start: Expr, first: str, matchers: Mapping[Symbol, Sequence[Matcher]]) -> tuple[str, ...]:
    """The names of the rules that lead back from a program to itself, starting with the given one; empty if none is found."""
    seen = [(structural_hash(start), start)]
    states: list[tuple[Expr, tuple[str, ...]]] = [(start, ())]
    for _ in range(_STEPS):
        following = []
        for expr, path in states:
            for name, made in _next(expr, matchers):
                if not path and name != first:
                    continue
                key = structural_hash(made)
                same = next((program for other, program in seen if other == key and structural_equal(program, made)), None)
                if same is start:
                    return (*path, name)
                if same is None and len(seen) < _STATES:
                    seen.append((key, made))
                    following.append((made, (*path, name)))
        states = following
    return ()


def _next(expr: Expr, matchers: Mapping[Symbol, Sequence[Matcher]]) -> Iterator[tuple[str, Expr]]:
    """The programs that one application of one rule produces, with its name."""
    graph = Graph()
    graph.load(infer_type(expr))
    nodes = {graph.ids[id(part)]: part for part in post_order(expr) if id(part) in graph.ids}
    for node, part in nodes.items():
        for matcher in matchers.get(graph.symbols[node], ()):
            for variant in matcher.variants:
                for row in variant.search(graph, [node]):
                    try:
                        _, built = matcher.decide(graph, row)
                    except Exception:  # a rejection, or an exception of a guard, which is reported where the rule itself is tried
                        continue
                    yield matcher.name, _folded(_with(expr, part, expression_of(graph, built)))


def _with(expr: Expr, old: Expr, new: Expr) -> Expr:
    """The expression with a part replaced."""
    return infer_type(rewrite(expr, lambda node, made: new if node is old else made))


def _folded(expr: Expr) -> Expr:
    """The expression after constant folding, which runs before rules."""
    return rewrite(infer_type(expr), lambda _, made: _fold(infer_type(made)))


def _fold(node: Expr) -> Expr:
    if isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Tuple):
        return node.tuple_value.fields[node.index]
    if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.stateful or not node.args:
        return node
    values = [_constant_value(arg) for arg in node.args]
    if any(value is None for value in values):
        return node
    try:
        return infer_type(as_constant(evaluate_call(node.op, values, node.attrs, node.checked_type)))  # type: ignore[arg-type]  # none of them is None
    except EvaluateError:
        return node


def _constant_value(expr: Expr) -> Value | None:
    if isinstance(expr, Constant):
        return expr.data
    if isinstance(expr, Tuple):
        parts = [_constant_value(field) for field in expr.fields]
        return None if None in parts else tuple(part for part in parts if part is not None)
    return None


# ---- subsumption


def covered(rules: Sequence[Rule]) -> Iterator[tuple[Rule, Rule]]:
    """Pairs of rules such that the first subsumes the second: its left side is more general, its right side is equal after substitution,
    and it has no further guards. A rule with holes is subsumed if all its directions are, by directions of one rule."""
    plain = [(rule, one) for rule in rules for one in (rule.directions() if rule.holes() else [rule])]
    alike: dict[object, list[tuple[int, Rule, Rule]]] = {}
    for place, (rule, one) in enumerate(plain):
        if type(one) is Rule:
            alike.setdefault(_root(one), []).append((place, rule, one))
    found: dict[tuple[str, str], tuple[Rule, Rule, set[int]]] = {}
    for i, (rule, general) in enumerate(plain):
        for j, other, special in alike.get(_root(general), []) if type(general) is Rule else []:
            if rule is not other and covers(general, special) and not (j < i and covers(special, general)):
                found.setdefault((rule.name, other.name), (rule, other, set()))[2].add(j)
    counts = Counter(rule.name for rule, _ in plain)
    for rule, other, places in found.values():
        if len(places) == counts[other.name]:
            yield rule, other


def _root(rule: Rule) -> object:
    return rule.lhs.op if isinstance(rule.lhs, PCall) else type(rule.lhs)


def covers(general: Rule, special: Rule) -> bool:
    """True if one rule subsumes another. Both have the same kind: unlike an exploring rule, a reducing rule retires the matched node."""
    if general.kind != special.kind:
        return False
    if LIBERTIES.index(general.liberty) > LIBERTIES.index(special.liberty):
        return False
    asked = {repr(guard) for guard in special.guards}
    for solution in _matches(general.lhs, special.lhs):
        if any(isinstance(value, _Open) and name in _needed(general) for name, value in solution.items()):
            continue
        guards = {repr(Guard(c.function, [_put(arg, solution) for arg in c.args])) for c in general.guards}
        if guards <= asked and _put(general.rhs, solution).key == special.rhs.key:
            return True
    return False


class _Open:
    """An attribute that the special rule leaves open."""


def _needed(rule: Rule) -> frozenset[str]:
    return attr_holes(rule.rhs).union(*(attr_holes(guard.args) for guard in rule.guards))


_Solution = Mapping[str, AnyValue]


def _matches(general: Pattern, special: Pattern) -> Iterator[_Solution]:
    """The ways in which a pattern is an instance of another, as substitutions."""
    holes = [node for node in subterms(general) if isinstance(node, (PVar, PConst))]
    for bound, attrs in ways(general, special, _operands, lambda one, other: one.key == other.key):
        yield attrs | {hole.name: bound[hole.key] for hole in holes}


def _operands(general: Pattern, special: Pattern, attrs: dict[str, AnyValue]) -> Sequence[Pattern] | None:
    """The operands of a term that is an instance of another, whose attribute holes are bound; None if it is none."""
    if isinstance(general, PVar):
        return ()
    if isinstance(general, (PConst, PLiteral)):
        fits = isinstance(special, (PConst, PLiteral)) if isinstance(general, PConst) else general.key == special.key
        return () if fits else None
    if isinstance(general, PCall):
        fits = isinstance(special, PCall) and general.op is special.op and _binds(general, special, attrs)
    else:
        fits = type(general) is type(special) and (not isinstance(general, PGet) or general.index == special.index)  # type: ignore[attr-defined]  # a field, too
    parts = pattern_parts(special)
    return parts if fits and len(parts) == len(pattern_parts(general)) else None


def _binds(general: PCall, special: PCall, attrs: dict[str, AnyValue]) -> bool:
    """True if the attributes of a call are instances of those of another; binds attribute holes."""
    for name, value in general.attrs.items():
        given = special.attrs.get(name, _Open())
        wanted = attrs.setdefault(value.name, given) if isinstance(value, AttrHole) else value
        if repr(wanted) != repr(given):
            return False
    return True


def _put(value: AnyValue, solution: _Solution) -> AnyValue:
    """A term, attribute or argument after substitution."""
    if isinstance(value, (PVar, PConst, AttrHole)):
        return solution.get(value.name, value)
    return with_parts(value, lambda part: _put(part, solution))
