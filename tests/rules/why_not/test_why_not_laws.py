"""The invariants behind the answers, checked against the engine: matches are complete alignments, and every rule gets an answer on every
program."""

import contextlib
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.rules.engine.graph import Graph
from passat.rules.engine.matching import Matcher
from passat.rules.guards import Reject
from passat.rules.library import Arithmetic, Constants, Copies, Transposes, Views
from passat.rules.rule import FINITE, Rule
from passat.rules.rule_pass import rule_pass
from passat.rules.why_not import Inquiry, Kind
from passat.rules.why_not.align import Aligner
from passat.rules.why_not.view import View
from tests.rules.program_strategies import programs
from tests.share import share

RULES: Final = [rule for rules in (Arithmetic, Copies, Constants, Transposes, Views) for each in rules.rules for rule in each.directions()]
# Without guards, so that the left side alone is compared.
BARE: Final = [Matcher(Rule(rule.lhs, rule.rhs, math=rule.math, note=rule.note, name=rule.name)) for rule in RULES]


@settings(max_examples=share(10, 60))
@given(programs())
def test_a_match_is_a_complete_alignment(function: Function) -> None:
    graph = Graph()
    graph.load(function.body)
    view = View(graph)
    for matcher in BARE:
        matches = {row for variant in matcher.variants for row in variant.search(graph, view.by_symbol.get(matcher.root, ()))}
        held = {row[0]: set[tuple[int, ...]]() for row in matches}
        for row in matches:
            try:
                matcher.bind(graph, row)
            except Reject:
                continue
            held[row[0]].add(row)
        aligner = Aligner(matcher, view)
        complete = {one.root: one for one in aligner.nearest() if not one.failures}
        assert complete.keys() == {root for root, rows in held.items() if rows}, matcher.name
        for root, one in complete.items():
            assert one.row(matcher) in held[root], matcher.name
            assert one.agreed == one.parts


@settings(max_examples=share(8, 25))
@given(programs(), st.sampled_from(RULES), st.booleans())
def test_every_rule_gets_an_answer(function: Function, rule: Rule, nodes: bool) -> None:
    inquiry = Inquiry(IRModule.from_expr(function), config={"rules.cost": "nodes"} if nodes else None)
    found = inquiry.answer(rule.name)
    assert found.findings
    assert all(finding.text for finding in found.findings)
    assert str(found).startswith(f"{rule.name}: ")
    for finding in found.findings:
        if finding.extra_cost is not None and finding.cost is not None:
            assert finding.extra_cost >= -1e-9 * finding.cost
        if finding.agreed is not None and finding.parts is not None:
            assert finding.agreed < finding.parts


@settings(max_examples=share(8, 60))
@given(programs())
def test_a_rule_that_accepts_a_match_of_the_input_is_not_said_to_match_nothing(function: Function) -> None:
    inquiry = Inquiry(IRModule.from_expr(function), rule_pass(Arithmetic, Copies, Constants, Transposes, Views, name="All"))
    for rule in RULES:
        if rule.math != FINITE and _accepts(Matcher(rule), function):
            assert inquiry.answer(rule.name).verdict not in (Kind.NEAR, Kind.ABSENT, Kind.NOTHING), rule.name


def _accepts(matcher: Matcher, function: Function) -> bool:
    """True if a rule accepts a match in a program, alone."""
    graph = Graph()
    graph.load(function.body)
    roots = View(graph).by_symbol.get(matcher.root, ())
    for row in [row for variant in matcher.variants for row in variant.search(graph, roots)]:
        with contextlib.suppress(Reject):
            matcher.decide(graph, row)
            return True
    return False


@settings(max_examples=share(8, 25))
@given(programs())
def test_a_rule_fires_at_changes_of_a_pass(function: Function) -> None:
    inquiry = Inquiry(IRModule.from_expr(function), config={"rules.cost": "nodes"})
    inquiry.answer("Arithmetic.add_zero")
    assert inquiry.watched is not None
    for ran in inquiry.watched.ran:
        for history in ran.runs:
            run = history.run
            folds = run.graph.applied or run.graph.merged
            if run.result is not run.body and not folds:
                assert any(history.taken)
