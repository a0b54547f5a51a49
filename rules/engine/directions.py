"""The directions of rules that passes run, expanded when a program may match them; and the stages of a saturation: which of them run
together and for how long, and which can match at all."""

import functools
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from functools import cached_property
from typing import Final, NamedTuple

from passat.ir.op import Op
from passat.rules.engine.graph import Graph
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.matching import Matcher
from passat.rules.engine.symbols import Symbol
from passat.rules.engine.variant import Variant, symbol_of
from passat.rules.expansion import Expansion, fixed_terms, loose
from passat.rules.holes import OperatorHole
from passat.rules.multi_pattern import MultiRule
from passat.rules.pattern import Pattern, PCall, PTuple, PVar
from passat.rules.rule import EAGER, Rule
from passat.rules.subterms import subterms

_COMPILING: Final = threading.Lock()
"""Threads share matchers, which are compared by identity."""


class Directions:
    """The directions of a rule that is not multi-pattern, without those whose names are in `left_out`.

    One rule may stand for a hundred, and most programs lack an operator that all of them match. So they are expanded on demand.
    """

    def __init__(self, rule: Rule, left_out: frozenset[str] = frozenset()) -> None:
        self.rule = rule
        self._left_out = left_out
        self._had: tuple[frozenset[Op] | None, list[Matcher]] = (None, [])
        """The matchers of left sides without other operators than these."""

    @cached_property
    def needs(self) -> frozenset[Symbol]:
        """Symbols that the left side of each direction has."""
        return frozenset() if self.rule.back else frozenset(_fixed(self.rule.lhs))

    @cached_property
    def matchers(self) -> list[Matcher]:
        """The matcher of each direction."""
        return self._compiled(None)

    def within(self, symbols: Set[Symbol], operators: frozenset[Op] | None = None) -> list[Matcher]:
        """The matchers of left sides that have no symbols but these. Expands the rule only as far as there may be one. Who asks many rules
        gives the operators of the symbols."""
        if not self.needs <= symbols:
            return []
        had = (operators_of(symbols) if operators is None else operators) & self._mentioned
        known = self._had
        if had != known[0]:
            known = self._had = had, self._compiled(had)
        return [matcher for matcher in known[1] if matcher.symbols <= symbols]

    @cached_property
    def _mentioned(self) -> frozenset[Op]:
        """The operators that left sides may have."""
        sides = (self.rule.lhs, self.rule.rhs) if self.rule.back else (self.rule.lhs,)
        heads: list[object] = [node.op for side in sides for node in subterms(side) if isinstance(node, PCall)]
        found = [head.operators() if isinstance(head, OperatorHole) else [head] for head in dict.fromkeys(heads)]
        return frozenset([op for ops in found for op in ops if isinstance(op, Op)])

    def _compiled(self, operators: Set[Op] | None) -> list[Matcher]:
        with _COMPILING:
            return [_matcher(each) for each in _expansion(self.rule).within(operators) if each.name not in self._left_out]


def operators_of(symbols: Iterable[Symbol]) -> frozenset[Op]:
    """The operators of some symbols."""
    return frozenset([symbol.op for symbol in symbols if symbol.op is not None])


def _fixed(left: Pattern) -> Iterator[Symbol]:
    """The symbols of a left side that depend on no choice."""
    for node in fixed_terms(left):
        op: object = node.op if isinstance(node, PCall) else None
        any_length = isinstance(node, PTuple) and any(map(loose, node.fields))
        if not (isinstance(node, PVar) or isinstance(op, OperatorHole) or any_length):
            yield symbol_of(node)


_expansion: Final = functools.lru_cache(maxsize=4096)(Expansion)


def expanded(rule: Rule) -> list[Rule]:
    """The directions of a rule; an eager rule itself, since the engine expands it for each node: `f(*cs)` stands for hundreds of rules."""
    return [rule] if rule.kind == EAGER else _expansion(rule).within()


@functools.lru_cache(maxsize=4096)
def groupers(rule: MultiRule) -> tuple[Grouper, ...]:
    """The groupers of a multi-pattern rule."""
    return tuple([Grouper(each) for each in expanded(rule) if isinstance(each, MultiRule)])


_matcher: Final = functools.lru_cache(maxsize=4096)(Matcher)
"""The matcher of a direction, cached, since compiling queries is expensive."""


class Stage(NamedTuple):
    """Rules that run in one e-graph until it is saturated, or for a number of iterations. `groupers` are applied at the start of the stage,
    to the input program. `rule_matches` is the default budget per rule and iteration. A stage that is `beside` runs together with the
    preceding one."""

    rules: tuple[Directions, ...]
    groupers: tuple[Grouper, ...] = ()
    rounds: int | None = None
    rule_matches: int | None = None
    beside: bool = False

    @property
    def matchers(self) -> list[Matcher]:
        """The matchers of all directions of the rules."""
        return [matcher for each in self.rules for matcher in each.matchers]


Makes = tuple[Symbol, frozenset[Symbol]]
"""A symbol, and the symbols that an eager rule may replace it with."""


def reachable(present: Iterable[Symbol], stages: Sequence[Stage], eager: Collection[Makes] = ()) -> dict[Directions, list[Matcher]]:
    """The matchers that can match, by rule, given the symbols of the program and those that eager rules create."""
    rules = dict.fromkeys([each for stage in stages for each in stage.rules])
    known = set(present)
    found: dict[Directions, list[Matcher]] = {each: [] for each in rules}
    grown = True
    while grown:
        before = len(known)
        operators = operators_of(known)
        for each in rules:
            matchers = each.within(known, operators)
            if len(matchers) > len(found[each]):
                found[each] = matchers
                known.update(*[matcher.makes for matcher in matchers])
        for symbol, made in eager:
            if symbol in known:
                known |= made
        grown = len(known) > before
    return found


class StageQuery(NamedTuple):
    """A query of a stage: a variant of a matcher."""

    matcher: Matcher
    variant: Variant
    stage: int


def queries_of(graph: Graph, stages: Sequence[Stage]) -> list[StageQuery]:
    """The queries for a program: those of rules that may match, in the order of stages and rules. Multi-pattern rules may create any
    operator of their right sides."""
    present = set(graph.symbols)
    if any(grouper.symbols <= present for stage in stages for grouper in stage.groupers):
        possible = {each: each.matchers for stage in stages for each in stage.rules}
    else:
        possible = reachable(present, stages, () if graph.eager is None else graph.eager.makes)
    return [
        StageQuery(matcher, variant, number)
        for number, stage in enumerate(stages)
        for each in stage.rules
        for matcher in possible.get(each, ())
        for variant in matcher.variants
    ]
