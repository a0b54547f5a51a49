"""A bare bridge to egglog: the cost of equality saturation when only speed matters.

Rows are loaded as tab-separated tables, rules are egglog's own (no decisions in Python, no limits, no types, no reasons, no statistics),
`freeze` reads the e-graph, and a worklist finds the cheapest term of every e-class by the number of calls.
"""

import heapq
import os
from collections.abc import Sequence
from typing import Any, Final

import egglog.bindings as eb
from programs import ARITY, NATIVE, Program, Row

_SPAN: Final = eb.RustSpan("bridge", 0, 0)
_NAMES: Final = {name: name.removeprefix("nn.").capitalize() for name in ARITY}
_HAS_PAYLOAD: Final = frozenset({"var", "const", "transpose"})


class Bridge:
    """An e-graph with one constructor per operator, and the rules of `NATIVE`. Use it once."""

    def __init__(self) -> None:
        self.egraph = eb.EGraph()
        commands = self._parse("(sort E)", "(constructor Ref (i64) E :unextractable)", "(ruleset load)", "(ruleset rules)")
        for name, arity in ARITY.items():
            head, payload = _NAMES[name], name in _HAS_PAYLOAD
            columns = " ".join([*(f"a{i}" for i in range(arity)), *(["p"] if payload else [])])
            term = " ".join([head, *(f"(Ref a{i})" for i in range(arity)), *(["p"] if payload else [])])
            commands += self._parse(
                f"(constructor {head} ({'E ' * arity}{'i64' if payload else ''}) E)",
                f"(relation in_{head} (i64 {'i64 ' * (arity + payload)}))",
                f"(rule ((in_{head} i {columns})) ((union (Ref i) ({term})) (delete (in_{head} i {columns}))) :ruleset load)",
            )
        self.egraph.run_program(*commands)

    def _parse(self, *texts: str) -> list[Any]:
        return [command for text in texts for command in self.egraph.parse_program(text)]

    def load(self, rows: Sequence[Row]) -> None:
        """Adds a program."""
        tables: dict[str, list[str]] = {name: [] for name in ARITY}
        for i, (name, payload, operands) in enumerate(rows):
            columns = (i, *operands, payload) if name in _HAS_PAYLOAD else (i, *operands)
            tables[name].append("\t".join(map(str, columns)))
        files = []
        for name, lines in tables.items():
            if lines:
                file = os.memfd_create(name)
                os.write(file, ("\n".join(lines) + "\n").encode())
                files.append((f"in_{_NAMES[name]}", file))
        self.egraph.run_program(*(eb.Input(_SPAN, table, f"/proc/self/fd/{file}") for table, file in files))
        self.egraph.run_program(*self._parse("(run load 1)"))
        for _, file in files:
            os.close(file)

    def add_rules(self) -> None:
        """Adds the rules. They come after the program, because egglog plans a rule by the sizes of the existing tables."""
        rules = []
        for name, sides in NATIVE.items():
            for order, text in enumerate(sides):
                left, right = text.split(" => ")
                rules += self._parse(f'(rule ((= e {left})) ((union e {right})) :ruleset rules :name "{name} {order}")')
        self.egraph.run_program(*rules)

    def saturate(self, rounds: int) -> None:
        """Runs all rules a number of times."""
        self.egraph.run_program(*(self._parse("(run rules 1)") * rounds))

    def extract(self, outputs: Sequence[int]) -> tuple[list[tuple[str, int, tuple[int, ...]]], list[int]]:
        """The cheapest terms of the outputs as a program: its rows `(operator, payload, operands)` and the rows of the outputs."""
        functions = self.egraph.freeze().functions
        number = self.egraph.value_to_i64
        classes: dict[Any, int] = {}
        terms: list[tuple[str, int, tuple[int, ...], int]] = []
        for name, arity in ARITY.items():
            payload = name in _HAS_PAYLOAD
            for row in functions[_NAMES[name]].rows:
                inputs = row.inputs
                parts = tuple([classes.setdefault(value, len(classes)) for value in inputs[:arity]])
                terms.append((name, number(inputs[arity]) if payload else 0, parts, classes.setdefault(row.output, len(classes))))
        roots = dict.fromkeys(outputs, -1)
        for row in functions["Ref"].rows:
            node = number(row.inputs[0])
            if node in roots:
                roots[node] = classes[row.output]
        chosen = _cheapest(terms, len(classes))
        order: dict[int, int] = {}
        program: list[tuple[str, int, tuple[int, ...]]] = []
        stack = list(reversed(roots.values()))
        while stack:
            cls = stack[-1]
            if cls in order:
                stack.pop()
                continue
            name, attribute, parts, _ = terms[chosen[cls]]
            missing = [part for part in parts if part not in order]
            if missing:
                stack += missing
                continue
            stack.pop()
            order[cls] = len(program)
            program.append((name, attribute, tuple([order[part] for part in parts])))
        return program, [order[cls] for cls in roots.values()]


def _cheapest(terms: Sequence[tuple[str, int, tuple[int, ...], int]], count: int) -> list[int]:
    """The cheapest term of each e-class; shared parts count each time (Knuth 1977: from the cheapest e-class up)."""
    users: list[list[int]] = [[] for _ in range(count)]
    waiting: list[int] = []
    chosen = [-1] * count
    cost = [0] * count
    heap: list[tuple[int, int]] = []
    for i, (_, _, parts, _) in enumerate(terms):
        waiting.append(len(parts))
        for part in parts:
            users[part].append(i)
        if not parts:
            heap.append((0, i))
    heapq.heapify(heap)
    while heap:
        total, i = heapq.heappop(heap)
        cls = terms[i][3]
        if chosen[cls] >= 0:
            continue
        chosen[cls], cost[cls] = i, total
        for user in users[cls]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(heap, (1 + sum([cost[part] for part in terms[user][2]]), user))
    return chosen


def run(program: Program, rounds: int) -> int:
    """From rows to the extracted program; returns its number of calls."""
    bridge = Bridge()
    bridge.load(program.rows)
    bridge.add_rules()
    bridge.saturate(rounds)
    rows, _ = bridge.extract(program.outputs)
    return sum(ARITY[name] > 0 for name, _, _ in rows)
