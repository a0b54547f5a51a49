"""Eager rules: applied to a node when it is added to a graph; their result replaces it (`modify` in egg).

They fold constants and turn shape operands into attributes. Types thus improve in one sweep from inputs to outputs, while rules matched by
egglog would take one iteration per step.
"""

from collections.abc import Iterable
from functools import cached_property, lru_cache
from inspect import unwrap
from typing import Final

from passat.ir.expr import Expr
from passat.ir.op import KnownValue
from passat.ir.types import Type
from passat.rules.engine.graph import Decision, Graph, NewNode
from passat.rules.engine.matching import Matcher
from passat.rules.engine.report import RuleStatistics
from passat.rules.engine.symbols import CONST_SYMBOL, GET_SYMBOL, TUPLE, Symbol
from passat.rules.engine.variant import symbol_of
from passat.rules.expansion import fitted, holes_in
from passat.rules.guards import Reject, Term, knows_all_elements
from passat.rules.pattern import PCall, RuleError
from passat.rules.rule import Rule

KNOWS_ALL: Final = unwrap(knows_all_elements)
_MOST_NESTED: Final = 64
"""Maximum number of eager rules that apply to each other's results."""


def asks_elements(rule: Rule) -> bool:
    """True for a rule that needs the elements of its left side."""
    return any(guard.function is KNOWS_ALL for guard in rule.guards)


class EagerMatcher(Matcher):
    """An eager rule for nodes of one symbol; `rule_name` is the name without the choices for its holes."""

    def __init__(self, rule: Rule, rule_name: str) -> None:
        super().__init__(rule)
        self.rule_name = rule_name
        steps = self.variants[0].steps
        self.first_constant = next((i for whole, i, _, expected in steps if whole == 0 and expected is CONST_SYMBOL), -1)
        """The first operand that must be constant, or -1."""
        self.asks_elements = asks_elements(rule)
        """True if the rule requires known elements. Most small integer tensors have none, so the rule is skipped early and silently."""

    def row(self, graph: Graph, payload: int, operands: tuple[int, ...]) -> tuple[int, ...] | None:
        """The match at a node that is not yet in the graph, with column -1 for the node; None if there is none."""
        variant = self.variants[0]
        symbols, below, payloads, constants, find = graph.symbols, graph.operands, graph.payloads, graph.constants, graph.find
        registers = [-1] * variant.registers
        for whole, i, part, expected in variant.steps:
            cls = find(operands[i] if whole == 0 else below[registers[whole]][i])
            if expected is CONST_SYMBOL:
                if cls not in constants:
                    return None
            elif expected is not None and symbols[cls] is not expected:
                return None
            if registers[part] not in (-1, cls):
                return None
            registers[part] = cls
        return (*[registers[i] for i in variant.classes], *[payload if i == 0 else payloads[registers[i]] for i in variant.payloads])


class Eager:
    """Eager rules, indexed by the nodes that they apply to."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules: Final = tuple(dict.fromkeys(rules))
        self.about_calls: Final = any(isinstance(rule.lhs, PCall) for rule in self.rules)
        self._matchers: dict[object, tuple[EagerMatcher, ...]] = {}

    @cached_property
    def makes(self) -> tuple[tuple[Symbol, frozenset[Symbol]], ...]:
        """The symbols that rules for specific operators create, by symbol of the left side."""
        certain = [rule for rule in self.rules if isinstance(rule.lhs, PCall) and not holes_in(rule.lhs)]
        return tuple((symbol_of(rule.lhs), Matcher(rule).makes) for rule in certain)

    def apply(
        self,
        graph: Graph,
        head: Symbol,
        payload: int,
        operands: tuple[int, ...],
        type_: Type,
        known: KnownValue | None = None,
        place: Expr | None = None,
    ) -> int:
        """The e-class that replaces a node, or -1 if no rule applies. Some elements of the node may be known, and it may correspond to an
        expression of the program. The operands are e-classes."""
        for matcher in self._about(graph, head, payload, operands):
            first = matcher.first_constant
            if (first >= 0 and operands[first] not in graph.constants) or (matcher.asks_elements and not _knows_all(type_, known)):
                continue  # nearly all nodes fail here
            row = matcher.row(graph, payload, operands)
            if row is None:
                continue
            statistics = graph.statistics.get(matcher.rule_name)
            if statistics is None:
                statistics = graph.statistics[matcher.rule_name] = RuleStatistics()
            statistics.matches += 1
            new = NewNode(head, payload, operands, type_, known)
            if graph.nested == _MOST_NESTED:
                raise RuleError(
                    f"the rule {matcher.name} ({matcher.rule.source}): eager rules apply to what they make, and this one to its own "
                    "results without end"
                )
            graph.nested += 1
            try:
                made = matcher.decide(graph, row, new)[1]
            except Reject as rejection:
                statistics.reject(rejection)
                graph.decisions.append(Decision(matcher.rule_name, place, str(rejection)))
                continue
            finally:
                graph.nested -= 1
            statistics.unions += 1
            graph.applied += 1
            values = [graph.constant_of(operand) for operand in new.operands]  # others may be constant later
            graph.decisions.append(Decision(matcher.rule_name, place, "", new, made, len(graph), values))
            return graph.find(made)
        return -1

    def _about(self, graph: Graph, head: Symbol, payload: int, operands: tuple[int, ...]) -> tuple[EagerMatcher, ...]:
        if head.op is not None:
            key: object = head
            payload, part = 0, None
        elif head is GET_SYMBOL:
            part = graph.symbols[graph.find(operands[0])]
            key = (payload, part)
        else:
            return ()
        found = self._matchers.get(key)
        if found is None:
            made = [_matcher(rule, head, payload, part) for rule in self.rules]
            found = self._matchers[key] = tuple([matcher for matcher in made if matcher is not None])
        return found


def _knows_all(type_: Type, known: KnownValue | None) -> bool:
    return known is not None and KNOWS_ALL(Term(type_, known=known)) is True


@lru_cache(maxsize=4096)
def _matcher(rule: Rule, head: Symbol, payload: int, part: Symbol | None) -> EagerMatcher | None:
    """The matcher of a rule for nodes of a symbol, shared by all passes that have the rule."""
    fields = part.arity if part is not None and part.kind == TUPLE else None
    found = fitted(rule, head.op, head.arity, payload, fields)
    return None if found is None else EagerMatcher(found, rule.name)
