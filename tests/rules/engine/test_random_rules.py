"""Random rules are applied exactly: the result is the right side, with the values of the holes of the left side."""

from typing import Final

from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from passat.ir.op import Op, get_op
from passat.ir.traverse import children, post_order, with_children
from passat.rules.guards import Term, guard
from passat.rules.holes import OperatorHole, operator
from passat.rules.pattern import Pattern, PCall, PGet, PTuple, RuleError, attributes, constants, op, tensors
from passat.rules.rule import Rule
from passat.rules.rule_pass import rule_pass
from passat.rules.rule_set import RuleSet
from passat.rules.subterms import attr_holes, operator_names, pattern_parts, subterms
from tests.rules.building import func, numbers, var
from tests.rules.provenance.proving import written
from tests.rules.running import rewritten
from tests.share import share

HOLES: Final = (*tensors("x y z"), *constants("c d"))
VARS: Final[dict[object, Expr]] = {
    hole.key: value
    for hole, value in zip(HOLES, [*(var(name, (2, 2)) for name in "xyz"), numbers((2, 2)), numbers((2, 2), seed=1)], strict=True)
}
P, Q = attributes("p q")
AXES: Final = {"p": (1, 0), "q": (0, 1)}
F, G = operator("f", "abs", "negative", "exp"), operator("g", "add", "subtract", "multiply")
CHOSEN: Final = {"f": get_op("exp"), "g": get_op("subtract")}
ALL: Final = frozenset({"f", "g", "p", "q"})


@guard
def is_there(term: Term) -> bool:
    return True


def _call(of: Op | OperatorHole, *parts: Pattern) -> Pattern:
    return of(*parts) if isinstance(of, OperatorHole) else PCall(of, parts)


def extended(terms: st.SearchStrategy[Pattern], holes: frozenset[str]) -> st.SearchStrategy[Pattern]:
    """Terms whose parts have the same type, (2, 2), with holes of these names for operators and attributes."""
    unary = [*map(get_op, ("abs", "negative", "exp")), *([F] if "f" in holes else [])]
    binary = [*map(get_op, ("add", "subtract", "multiply")), *([G] if "g" in holes else [])]
    axes = [(1, 0), *(hole for hole in (P, Q) if hole.name in holes)]
    return st.one_of(
        st.builds(_call, st.sampled_from(unary), terms),
        st.builds(_call, st.sampled_from(binary), terms, terms),
        st.builds(lambda of, axes: op.transpose(of, axes=axes), terms, st.sampled_from(axes)),
        st.builds(lambda one, other, i: PGet(PTuple((one, other)), i), terms, terms, st.integers(0, 1)),
    )


def terms_over(leaves: list[Pattern], holes: frozenset[str]) -> st.SearchStrategy[Pattern]:
    return st.recursive(st.sampled_from(leaves), lambda terms: extended(terms, holes), max_leaves=5)


def expression(of: Pattern, made: dict[object, Expr]) -> Expr:
    """The instance of a term with variables and constants for its holes."""
    if of.key not in made:
        parts = [expression(part, made) for part in pattern_parts(of)]
        if isinstance(of, PCall):
            attrs = {name: AXES.get(repr(value), value) for name, value in of.attrs.items()}
            called = CHOSEN[of.op.name] if isinstance(of.op, OperatorHole) else of.op
            made[of.key] = Call(called, parts, called.bind_attrs(attrs))
        elif isinstance(of, PTuple):
            made[of.key] = Tuple(parts)
        else:
            assert isinstance(of, PGet)
            made[of.key] = TupleGetItem(parts[0], of.index)
    return made[of.key]


def substituted(body: Expr, made: dict[int, Expr]) -> Expr:
    for node in post_order(body):
        if id(node) not in made:
            made[id(node)] = with_children(node, [made[id(part)] for part in children(node)])
    return made[id(body)]


@st.composite
def rules_of_any_form(draw: st.DrawFn) -> Rule:
    """A rule whose right side consists of parts of the left."""
    left = draw(extended(terms_over(list(HOLES), ALL), ALL))
    parts = [part for part in subterms(left) if not isinstance(part, PTuple)]
    bound = operator_names(left) | attr_holes(left)
    right = draw(terms_over([part for part in parts if part.key != left.key], bound).filter(lambda term: term.key != left.key))
    named = draw(st.lists(st.sampled_from(parts), max_size=2))
    return Rule(left, right, tuple(map(is_there, named)), kind=draw(st.sampled_from(["reducing", "exploring"])))


@settings(max_examples=share(15, 2000))
@given(rules_of_any_form())
def test_a_match_becomes_the_right_side(rule: Rule) -> None:
    made = dict(VARS)
    body, wanted = expression(rule.lhs, made), expression(rule.rhs, made)
    assume(not structural_equal(body, wanted, map_free_vars=True))
    results, _ = rewritten(func(body), rule)
    assert any(structural_equal(result.body, wanted, map_free_vars=True) for result in results)


@settings(max_examples=share(8, 1000))
@given(rules_of_any_form(), st.data())
def test_certificates_of_random_rules_hold(rule: Rule, data: st.DataObject) -> None:
    """Two negations keep the rule from matching until they are removed, so the e-graph has to find the match."""
    body = expression(rule.lhs, dict(VARS))
    hidden = data.draw(st.sampled_from([node for node in post_order(body) if isinstance(node, (Call, TupleGetItem, Var))]))
    replaced = substituted(body, {id(hidden): expression(op.negative(op.negative(HOLES[0])), {HOLES[0].key: hidden})})
    try:

        class Random(RuleSet):
            """A random rule, and a rule that has to be applied first."""

            drawn = rule
            twice = op.negative(op.negative(HOLES[0])) >> HOLES[0]

    except RuleError:
        reject()
    verdict = written(func(replaced), [rule_pass(Random)]).check(Random)
    assert not verdict.uncovered
