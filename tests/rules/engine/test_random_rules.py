"""Random rules do what they say: the right side over what the holes of the left side stand for."""

from typing import Final

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from passat.ir.op import get_op
from passat.ir.traverse import children, post_order, with_children
from passat.rules.guards import Term, guard
from passat.rules.pattern import Pattern, PCall, PGet, PTuple, RuleError, attributes, op, pattern_parts, subterms, tensors
from passat.rules.rule import Rule, RuleSet
from passat.rules.rule_pass import rule_pass
from tests.rules.building import func, var
from tests.rules.provenance.proving import written
from tests.rules.running import rewritten
from tests.share import share

HOLES: Final = tensors("x y z")
VARS: Final = {hole.key: var(hole.name, (2, 2)) for hole in HOLES}
P, Q = attributes("p q")
AXES: Final = {"p": (1, 0), "q": (0, 1)}


@guard
def is_there(term: Term) -> bool:
    return True


def _call(name: str, *parts: Pattern, **attrs: object) -> Pattern:
    return PCall(get_op(name), parts, attrs)


def _extended(terms: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
    """Terms whose parts are of the same type, (2, 2)."""
    unary = st.builds(_call, st.sampled_from(["abs", "negative", "exp"]), terms)
    binary = st.builds(_call, st.sampled_from(["add", "subtract", "multiply"]), terms, terms)
    turned = st.builds(lambda of, axes: op.transpose(of, axes=axes), terms, st.sampled_from([P, Q, (1, 0)]))
    field = st.builds(lambda one, other, i: PGet(PTuple((one, other)), i), terms, terms, st.integers(0, 1))
    return st.one_of(unary, binary, turned, field)


def terms_over(leaves: list[Pattern]) -> st.SearchStrategy[Pattern]:
    return st.recursive(st.sampled_from(leaves), _extended, max_leaves=5)


def expression(term: Pattern, made: dict[object, Expr]) -> Expr:
    """What a term stands for where its holes stand for variables."""
    if term.key not in made:
        parts = [expression(part, made) for part in pattern_parts(term)]
        if isinstance(term, PCall):
            attrs = {name: AXES.get(repr(value), value) for name, value in term.attrs.items()}
            made[term.key] = Call(term.op, parts, term.op.bind_attrs(attrs))
        elif isinstance(term, PTuple):
            made[term.key] = Tuple(parts)
        else:
            assert isinstance(term, PGet)
            made[term.key] = TupleGetItem(parts[0], term.index)
    return made[term.key]


def substituted(body: Expr, made: dict[int, Expr]) -> Expr:
    for node in post_order(body):
        if id(node) not in made:
            made[id(node)] = with_children(node, [made[id(part)] for part in children(node)])
    return made[id(body)]


@st.composite
def rules_of_any_form(draw: st.DrawFn) -> Rule:
    """A rule, the right side of which is made of parts of the left."""
    left = draw(_extended(terms_over(list(HOLES))))
    parts = [part for part in subterms(left) if not isinstance(part, PTuple)]
    right = draw(terms_over([part for part in parts if part.key != left.key] or parts).filter(lambda term: term.key != left.key))
    named = draw(st.lists(st.sampled_from(parts), max_size=2))
    bound = {name for part in subterms(left) if isinstance(part, PCall) for name in map(repr, part.attrs.values())}
    unbound = [
        part
        for part in subterms(right)
        if isinstance(part, PCall)
        for value in map(repr, part.attrs.values())
        if value in AXES.keys() - bound
    ]
    kind = draw(st.sampled_from(["reducing", "exploring"]))
    return Rule(left, parts[-1] if unbound and parts[-1].key != left.key else right, tuple(map(is_there, named)), kind=kind)


@settings(max_examples=share(150, 2000), deadline=None)
@given(rules_of_any_form())
def test_a_match_becomes_the_right_side(rule: Rule) -> None:
    made: dict[object, Expr] = dict(VARS)
    body, wanted = expression(rule.lhs, made), expression(rule.rhs, made)
    results, _ = rewritten(func(body), rule)
    assert any(structural_equal(result.body, wanted, map_free_vars=True) for result in results)


@settings(max_examples=share(60, 1000), deadline=None)
@given(rules_of_any_form(), st.data())
def test_certificates_of_random_rules_hold(rule: Rule, data: st.DataObject) -> None:
    """Two negations keep the rule from matching until they are gone, so that the e-graph finds the match."""
    body = expression(rule.lhs, dict(VARS))
    hidden = data.draw(st.sampled_from([node for node in post_order(body) if isinstance(node, (Call, TupleGetItem, Var))]))
    replaced = substituted(body, {id(hidden): expression(op.negative(op.negative(HOLES[0])), {HOLES[0].key: hidden})})
    try:

        class Random(RuleSet):
            """A random rule, and one that has to come first."""

            drawn = rule
            twice = op.negative(op.negative(HOLES[0])) >> HOLES[0]

    except RuleError:
        reject()
    verdict = written(func(replaced), [rule_pass(Random)]).check(Random)
    assert not verdict.uncovered
