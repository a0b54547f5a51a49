"""The effect of single decisions in the design of the engine, each measured by undoing it (`engine.py --lessons`).

Every row runs the same program, a random graph of `programs.py`, with the engine's decision and with the alternative.
"""

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import egglog.bindings as eb
import programs
from bridge import Bridge
from programs import Program, Twenty

from passat.ir.expr import Function
from passat.ir.infer import infer_type
from passat.rules.engine import egraph, engine, saturate
from passat.rules.engine.egraph import EGraph, EGraphs, Query
from passat.rules.engine.engine import Engine
from passat.rules.engine.limits import Limits
from passat.rules.engine.matching import Matcher
from passat.rules.engine.report import EngineReport, Saturation
from passat.rules.engine.saturate import Saturator

SIZE: Final = 2_000
CHAIN: Final = 2_000
ROUNDS: Final = 4


class AskingSaturator(Saturator):
    """Also has egglog find the matches of the original program."""

    def run(self) -> Saturation:
        """Runs rounds until there are no new matches."""
        with self._lease:
            self._start()
            self._rounds([])
        return self.result


class KeyedQueries(EGraph):
    """Looks up the keys of e-classes in each query, instead of in one rule for all queries of a form."""

    def add_query(self, query: Query) -> int:
        """Adds a query and returns its number."""
        known = super().add_query(query)
        if query in self._keyed:
            return known
        self._keyed.add(query)
        return known

    def __init__(self) -> None:
        self._keyed: set[Query] = set()
        super().__init__()

    def _define(self, *texts: str) -> None:
        for text in texts:
            if ":ruleset match " in text:
                body, head = text.removeprefix("(rule (").split(") ((found_", 1)
                form, number, *rest = head.split(")", 1)[0].split()
                classes = int(form.split("_")[0])
                keys = " ".join(f"(= k{i} (key {name}))" for i, name in enumerate(rest[:classes]))
                row = " ".join([f"match_{form}", number, *(f"k{i}" for i in range(classes)), *rest[classes:]])
                super()._define(f"(rule ({body} {keys}) (({row})) :ruleset match {text[text.index(':name') :]}")
            else:
                super()._define(text)


def _run(program: Program, matchers: Sequence[Matcher]) -> EngineReport:
    function = Function(program.function.params, program.function.body)
    infer_type(function)
    report = EngineReport()
    Engine(matchers, limits=Limits(rounds=ROUNDS)).run(function, report)
    return report


@contextmanager
def _changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    kept = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


def _medians(ways: Sequence[Callable[[], object]], runs: int) -> list[float]:
    """Median CPU seconds of several alternatives, run in turn after one uncounted run."""
    times: list[list[float]] = [[] for _ in ways]
    for counted in range(runs + 1):
        for way, spent in zip(ways, times, strict=True):
            gc.collect()
            start = time.process_time()
            way()
            if counted:
                spent.append(time.process_time() - start)
    return [statistics.median(spent) for spent in times]


def _loaded(program: Program) -> Bridge:
    """Adds a program to egglog as tables."""
    bridge = Bridge()
    bridge.load(program.rows)
    return bridge


def _as_text(program: Program) -> None:
    """Adds a program to egglog as text, one command for each node."""
    graph = eb.EGraph()
    lines = ["(sort E)", "(constructor Ref (i64) E)"]
    arities = {(row.op, len(row.operands)) for row in program.rows}
    lines += [f"(constructor {op.replace('.', '_')}_ ({'E ' * arity} i64) E)" for op, arity in sorted(arities)]
    lines += [
        f"(union (Ref {i}) ({row.op.replace('.', '_')}_ {' '.join(f'(Ref {part})' for part in row.operands)} {row.payload}))"
        for i, row in enumerate(program.rows)
    ]
    graph.run_program(*graph.parse_program("\n".join(lines)))


def _frozen(graph: eb.EGraph) -> int:
    return sum(len([row.inputs for row in function.rows]) for function in graph.freeze().functions.values())


def _serialized(graph: eb.EGraph) -> int:
    return len(
        json.loads(graph.serialize([], max_functions=None, max_calls_per_function=None, include_temporary_functions=False).to_json())
    )


def _chosen_by_egglog(bridge: Bridge, output: int) -> None:
    bridge.egraph.run_program(*bridge.egraph.parse_program(f"(extract (Ref {output}))"))


def lessons(runs: int) -> str:
    """The table of lessons."""
    gc.disable()
    program, chain = programs.dag(SIZE), programs.chain(CHAIN)
    reducing = [Matcher(direction) for rule in Twenty for direction in rule.directions()]
    exploring = [Matcher(rule.exploring()) for rule in Twenty]

    def plain() -> EngineReport:
        return _run(program, reducing)

    def changed(owner: Any, name: str, value: Any, *, fresh: bool = True) -> Callable[[], EngineReport]:
        pool = EGraphs()

        def way() -> EngineReport:
            with _changed(saturate, "_EGRAPHS", pool if fresh else saturate._EGRAPHS), _changed(owner, name, value):
                return _run(program, reducing)

        return way

    before, after = plain(), _run(program, exploring)
    frozen, chained = _loaded(program), _loaded(chain)
    rows: list[tuple[str, str, str, list[float]]] = [
        (
            "what a reducing rule matched is retired",
            f"{before.nodes:,} nodes, {sum(rule.matches for rule in before.rules.values()):,} matches",
            f"matches on: {after.nodes:,} nodes, {sum(rule.matches for rule in after.rules.values()):,} matches",
            _medians([plain, lambda: _run(program, exploring)], runs),
        ),
        (
            "matches of the program itself are found by walking it",
            "",
            "egglog finds them",
            _medians([plain, changed(engine, "Saturator", AskingSaturator)], runs),
        ),
        (
            "keys of matched classes are looked up by one rule per form",
            "",
            "in each query",
            _medians([plain, changed(egraph, "EGraph", KeyedQueries)], runs),
        ),
        (
            "definitions stay in egglog between runs (push and pop)",
            "",
            "made for each run",
            _medians([plain, changed(egraph, "USES", 1)], runs),
        ),
        (
            "a program is loaded as tables",
            "",
            "as text, a command for each node",
            _medians([lambda: _loaded(program), lambda: _as_text(program)], runs),
        ),
        (
            "`freeze` reads the e-graph",
            "",
            "`serialize` and JSON",
            _medians([lambda: _frozen(frozen.egraph), lambda: _serialized(frozen.egraph)], runs),
        ),
        (
            f"own extraction, chain of {CHAIN:,}",
            "",
            "egglog's, for one output",
            _medians([lambda: chained.extract(chain.outputs), lambda: _chosen_by_egglog(chained, chain.outputs[-1])], runs),
        ),
    ]
    lines = [f"Random graph of {SIZE:,} calls.", "", "| decision | ms | instead | ms | ratio |", "| :-- | --: | :-- | --: | --: |"]
    for decision, note, instead, (ours, theirs) in rows:
        lines.append(
            f"| {decision}{' (' + note + ')' if note else ''} | {1000 * ours:.1f} | {instead} | {1000 * theirs:.1f} | {theirs / ours:.1f} |"
        )
    return "\n".join(lines)
