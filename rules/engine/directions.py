"""The directions of rules that passes run, expanded when a program may match them."""

import functools
from collections.abc import Iterator, Set
from functools import cached_property

from passat.rules.engine.graph import Symbol
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.matching import Matcher
from passat.rules.engine.variant import symbol_of
from passat.rules.holes import OperatorHole, PartsHole
from passat.rules.multi_pattern import MultiRule
from passat.rules.pattern import Pattern, PCall, PCase, PTuple, PVar, pattern_parts
from passat.rules.rule import EAGER, Rule


class Directions:
    """The directions of a rule that is not multi-pattern, without those whose names are in `left_out`.

    One rule may stand for a hundred, and most programs lack an operator that all of them match. So they are expanded on demand.
    """

    def __init__(self, rule: Rule, left_out: frozenset[str] = frozenset()) -> None:
        self.rule = rule
        self._left_out = left_out

    @cached_property
    def needs(self) -> frozenset[Symbol]:
        """Symbols that the left side of each direction has."""
        return frozenset() if self.rule.back else frozenset(_fixed(self.rule.lhs))

    @cached_property
    def matchers(self) -> tuple[Matcher, ...]:
        """The matcher of each direction."""
        return tuple([_matcher(each) for each in expanded(self.rule) if each.name not in self._left_out])

    def within(self, symbols: Set[Symbol]) -> list[Matcher]:
        """The matchers of left sides that have no other symbols. Expands the rule only if there may be one."""
        return [matcher for matcher in self.matchers if matcher.symbols <= symbols] if self.needs <= symbols else []


def _fixed(left: Pattern) -> Iterator[Symbol]:
    """The symbols of a left side that depend on no choice."""
    stack = [left]
    while stack:
        node = stack.pop()
        if isinstance(node, PCase):
            continue
        stack += pattern_parts(node)
        op: object = node.op if isinstance(node, PCall) else None
        any_length = isinstance(node, PTuple) and any(isinstance(field, PartsHole) for field in node.fields)
        if not (isinstance(node, PVar) or isinstance(op, OperatorHole) or any_length):
            yield symbol_of(node)


@functools.lru_cache(maxsize=4096)
def expanded(rule: Rule) -> tuple[Rule, ...]:
    """The directions of a rule; an eager rule itself, since the engine expands it for each node: `f(*cs)` stands for hundreds of rules."""
    return (rule,) if rule.kind == EAGER else tuple(rule.directions())


@functools.lru_cache(maxsize=4096)
def groupers(rule: MultiRule) -> tuple[Grouper, ...]:
    """The groupers of a multi-pattern rule."""
    return tuple([Grouper(each) for each in expanded(rule) if isinstance(each, MultiRule)])


@functools.lru_cache(maxsize=4096)
def _matcher(rule: Rule) -> Matcher:
    """The matcher of a direction, cached, since compiling queries is expensive."""
    return Matcher(rule)
