"""A left side as it is looked for: a query for egglog, and steps that find its matches in a program as it comes in."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from passat.rules.engine.egraph import Query
from passat.rules.engine.graph import CALL, CONST_SYMBOL, GET_SYMBOL, TUPLE, Graph, Symbol, symbol
from passat.rules.pattern import Pattern, PCall, PGet, PTuple


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
