"""Compiled left sides: a query for egglog, steps for a walk over the input program, and the positions of a match."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.rules.engine.egraph import Query
from passat.rules.engine.graph import Graph
from passat.rules.engine.symbols import CALL, CONST_SYMBOL, GET_SYMBOL, TUPLE, Symbol, symbol
from passat.rules.pattern import Pattern, PCall, PConst, PGet, PLiteral, PTuple, PVar
from passat.rules.subterms import pattern_parts

HOLES: Final = (PVar, PConst, PLiteral)
"""The parts of a left side that match an e-class as a whole."""


def symbol_of(node: Pattern) -> Symbol:
    """The symbol of the nodes that a pattern matches; the pattern is not a hole."""
    if isinstance(node, PCall):
        return symbol(CALL, node.op, len(node.args))
    if isinstance(node, PTuple):
        return symbol(TUPLE, None, len(node.fields))
    return GET_SYMBOL if isinstance(node, PGet) else CONST_SYMBOL


class Variant(NamedTuple):
    """A left side with a fixed operand order at its root: as a query for egglog, and as steps that match a program whose e-classes have one
    node each (an input program).

    A step `(whole, i, part, symbol)` goes from the node in register `whole` to its operand `i`, into register `part`. The operands of
    registers in `commuting` match in either order.
    """

    query: Query
    edges: frozenset[tuple[Symbol, int, Symbol]]
    numbers: frozenset[tuple[Symbol, int, float]]
    """The numbers that must be operands of symbols, with their places."""
    steps: tuple[tuple[int, int, int, Symbol | None], ...]
    registers: int
    classes: tuple[int, ...]
    payloads: tuple[int, ...]
    root: tuple[int, ...]
    """The columns of a row that hold the operands of the root, if the rule is reducing."""
    commuting: tuple[int, ...] = ()

    def search(self, graph: Graph, candidates: Sequence[int]) -> list[tuple[int, ...]]:
        """The rows of all matches rooted at the candidates, which have the root's symbol."""
        symbols, operands, payloads = graph.symbols, graph.operands, graph.payloads
        for whole, i, _, expected in self.steps:
            if whole == 0 and expected is not None:  # most candidates fail here
                candidates = [node for node in candidates if symbols[operands[node][i]] is expected]
        rows: list[tuple[int, ...]] = []
        if self.commuting:
            for root in candidates:
                rows += dict.fromkeys([self.row(registers, payloads) for registers in self.ways(graph, root)])
            return rows
        registers = [-1] * self.registers
        for root in candidates:
            registers[1:] = [-1] * (self.registers - 1)
            registers[0] = root
            for whole, i, part, expected in self.steps:
                node = operands[registers[whole]][i]
                if expected is not None and symbols[node] is not expected:
                    break
                if registers[part] < 0:
                    registers[part] = node
                elif registers[part] != node:
                    break
            else:
                rows.append(self.row(registers, payloads))
        return rows

    def again(self, graph: Graph, candidates: Iterable[int], newest: Mapping[int, int]) -> list[tuple[int, ...]]:
        """The rows of the matches at some nodes if the e-classes below them are represented by their newest nodes."""
        payloads, rows = graph.payloads, list[tuple[int, ...]]()
        for root in candidates:
            for registers in self.ways(graph, root, newest):
                classes = [registers[i] for i in self.classes]
                rows.append((*classes, *[payloads[newest.get(registers[i], registers[i]) if i else root] for i in self.payloads]))
        return list(dict.fromkeys(rows))

    def row(self, registers: Sequence[int], payloads: Sequence[int]) -> tuple[int, ...]:
        """The row of a match with these nodes in the registers."""
        return (*[registers[i] for i in self.classes], *[payloads[registers[i]] for i in self.payloads])

    def ways(self, graph: Graph, root: int, newest: Mapping[int, int] = MappingProxyType({})) -> Iterator[list[int]]:
        """The e-classes in the registers for each match at a root, and what represents those below it, if not their smallest node."""
        symbols, operands, steps = graph.symbols, graph.operands, self.steps
        stack = [(0, [root] + [-1] * (self.registers - 1), frozenset[int]())]
        while stack:
            at, registers, turned = stack.pop()
            if at == len(steps):
                yield registers
                continue
            whole, i, part, expected = steps[at]
            parent = newest.get(registers[whole], registers[whole]) if whole else root
            if whole in self.commuting and i == 0 and whole not in turned:
                first, second = operands[parent]
                if first != second:
                    stack.append((at, registers, turned | {whole}))  # the swapped order comes last: entries pushed below are popped first
            node = operands[parent][1 - i if whole in turned else i]
            if registers[part] == node:
                stack.append((at + 1, registers, turned))
            elif registers[part] < 0 and (expected is None or symbols[newest.get(node, node)] is expected):
                stack.append((at + 1, [*registers[:part], node, *registers[part + 1 :]], turned))


class Place(NamedTuple):
    """A part of a left side, the node in its place in the program, the equal node that it matched, and whether its operands are swapped.
    For a hole, the matched node is the e-class that it is bound to."""

    part: Pattern
    given: int
    node: int
    turned: bool = False


class Placed(NamedTuple):
    """A match in the program: its row (see `Matcher.bind`), the places of the parts of the left side in preorder, and the nodes of its
    calls, tuples and projections, root first."""

    row: tuple[int, ...]
    places: tuple[Place, ...]
    nodes: tuple[int, ...]


def find_places(
    graph: Graph,
    part: Pattern,
    given: int,
    columns: Mapping[tuple[AnyValue, ...], int],
    payloads: Mapping[int, int],
    members: Mapping[int, Sequence[int]],
) -> list[Place] | None:
    """The places of a part of a left side and of its parts, in preorder; None if it does not match the e-class of a given node. `columns`
    and `payloads` are those of the match (see `Matcher.bound`); `members` lists the nodes of e-classes with several."""
    cls = graph.find(given)
    bound = columns.get(part.key, given)
    if graph.find(bound) != cls:
        return None
    if isinstance(part, HOLES):
        return [Place(part, given, bound)]
    head, parts = symbol_of(part), pattern_parts(part)
    turns = (False, True) if head.op is not None and head.op.commutative and len(parts) == 2 else (False,)
    for node in members.get(cls, (cls,)):
        if graph.symbols[node] is not head or payloads.get(id(part), graph.payloads[node]) != graph.payloads[node]:
            continue
        for turned in turns:
            operands = graph.operands[node][:: -1 if turned else 1]
            if any(
                graph.find(columns.get(each.key, operand)) != graph.find(operand) for each, operand in zip(parts, operands, strict=True)
            ):
                continue  # a search of one operand would be in vain if another is not the one that was matched
            below = [find_places(graph, *at, columns, payloads, members) for at in zip(parts, operands, strict=True)]
            if None not in below:
                return [Place(part, given, node, turned), *(place for places in below for place in places or ())]
    return None
