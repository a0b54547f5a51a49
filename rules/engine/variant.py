"""A left side as it is looked for, as a query for egglog and as steps over a program that comes in, and where a match of it lies."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any as AnyValue
from typing import NamedTuple

from passat.rules.engine.egraph import Query
from passat.rules.engine.graph import CALL, CONST_SYMBOL, GET_SYMBOL, TUPLE, Graph, Symbol, symbol
from passat.rules.pattern import Pattern, PCall, PConst, PGet, PLiteral, PTuple, PVar, pattern_parts


def symbol_of(node: Pattern) -> Symbol:
    """What a node applies that a pattern, which is no hole, matches."""
    if isinstance(node, PCall):
        return symbol(CALL, node.op, len(node.args))
    if isinstance(node, PTuple):
        return symbol(TUPLE, None, len(node.fields))
    return GET_SYMBOL if isinstance(node, PGet) else CONST_SYMBOL


def has_payload(node: Pattern) -> bool:
    """Whether nodes that a pattern matches have attributes or an index."""
    return symbol_of(node).has_payload


class Variant(NamedTuple):
    """A left side with the operands of its root in one order: as a query for egglog, and as steps that find the matches in a program
    in which every class is one node (which is how a program comes in).

    A step `(whole, i, part, symbol)` goes from the node in register `whole` to its operand `i`, for register `part`. The operands of a
    register in `commuting` match in either order.
    """

    query: Query
    edges: frozenset[tuple[Symbol, int, Symbol]]
    steps: tuple[tuple[int, int, int, Symbol | None], ...]
    registers: int
    classes: tuple[int, ...]
    payloads: tuple[int, ...]
    root: tuple[int, ...]
    """The columns of a row that hold the operands of the root, where the rule is reducing."""
    commuting: tuple[int, ...] = ()

    def search(self, graph: Graph, candidates: Sequence[int]) -> list[tuple[int, ...]]:
        """The rows of all matches whose root is among the candidates, which have the root's symbol."""
        symbols, operands, payloads = graph.symbols, graph.operands, graph.payloads
        for whole, i, _, expected in self.steps:
            if whole == 0 and expected is not None:  # first of all what most candidates fail at
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

    def row(self, registers: Sequence[int], payloads: Sequence[int]) -> tuple[int, ...]:
        """The row of a match with those nodes in the registers."""
        return (*[registers[i] for i in self.classes], *[payloads[registers[i]] for i in self.payloads])

    def ways(self, graph: Graph, root: int) -> Iterator[list[int]]:
        """The nodes in the registers for each way to match at a root."""
        symbols, operands, steps = graph.symbols, graph.operands, self.steps
        stack = [(0, [root] + [-1] * (self.registers - 1), frozenset[int]())]
        while stack:
            at, registers, turned = stack.pop()
            if at == len(steps):
                yield registers
                continue
            whole, i, part, expected = steps[at]
            if whole in self.commuting and i == 0 and whole not in turned:
                first, second = operands[registers[whole]]
                if first != second:
                    stack.append((at, registers, turned | {whole}))  # for later: what is pushed below comes first
            node = operands[registers[whole]][1 - i if whole in turned else i]
            if registers[part] == node:
                stack.append((at + 1, registers, turned))
            elif registers[part] < 0 and (expected is None or symbols[node] is expected):
                stack.append((at + 1, [*registers[:part], node, *registers[part + 1 :]], turned))


class Placed(NamedTuple):
    """A match where it lies: its row (`Matcher.bind` says what that binds), the left side with all operands in the order in which they
    stand, and the nodes that calls, tuples and projections of it matched, the root first."""

    row: tuple[int, ...]
    variant: Variant
    nodes: tuple[int, ...]


class Place(NamedTuple):
    """A part of a left side, the node that it matched, and whether the operands of that stand the other way round."""

    part: Pattern
    node: int
    turned: bool


def find_places(
    graph: Graph,
    part: Pattern,
    cls: int,
    classes: Mapping[tuple[AnyValue, ...], int],
    payloads: Mapping[int, int],
    members: Mapping[int, Sequence[int]],
) -> list[Place] | None:
    """The places of the calls, tuples and projections of a part of a left side in a class, wholes first; None where it does not match
    there. `classes` are those that the match bound, by the keys of the parts; `payloads` those of its calls, by identity; `members` lists
    the nodes of classes that have several."""
    cls = graph.find(cls)
    if classes.get(part.key, cls) != cls:
        return None
    if isinstance(part, (PVar, PConst, PLiteral)):
        return []
    head, parts = symbol_of(part), pattern_parts(part)
    turns = (False, True) if head.op is not None and head.op.commutative and len(parts) == 2 else (False,)
    for node in members.get(cls, (cls,)):
        if graph.symbols[node] is not head or payloads.get(id(part), graph.payloads[node]) != graph.payloads[node]:
            continue
        for turned in turns:
            operands = graph.operands[node][:: -1 if turned else 1]
            below = [find_places(graph, *at, classes, payloads, members) for at in zip(parts, operands, strict=True)]
            if None not in below:
                return [Place(part, node, turned), *(place for places in below for place in places or ())]
    return None
