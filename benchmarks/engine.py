"""The engine of Passat against a bare bridge to egglog: nodes per second from a program to the extracted program.

    python benchmarks/engine.py                             # the sizes of the table in README.md
    python benchmarks/engine.py --sizes 1000 --chains --runs 15

Both run the twenty rules of `programs.py` for four rounds. The bridge (`bridge.py`) lets egglog decide and apply; Passat reads a typed
function, lets egglog match, decides in Python under limits, infers types of new terms, counts rejections, extracts by a roofline cost with
sharing, and builds a typed function again.

Seconds are CPU seconds of this process (both engines use one thread), so that background load matters less; runs alternate between the two,
and the tables show medians. The cyclic garbage collector is disabled during measurements, and runs between them.
"""

import argparse
import gc
import importlib
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import bridge
import programs
from programs import Program, Twenty

from passat.ir.expr import Call, Function
from passat.ir.infer import infer_type
from passat.ir.traverse import post_order
from passat.rules.engine.directions import Directions, Stage
from passat.rules.engine.egraph import EGraph
from passat.rules.engine.engine import Engine
from passat.rules.engine.graph import Graph
from passat.rules.engine.limits import Limits
from passat.rules.engine.mirror import Mirror
from passat.rules.engine.report import EngineReport
from passat.rules.engine.saturate import Saturator

ROUNDS: Final = 4
SIZES: Final = (100, 1_000, 2_000, 10_000, 20_000, 50_000)
CHAINS: Final = (5_000, 50_000)

PHASES: Final[dict[str, tuple[tuple[Any, str], ...]]] = {
    "load": ((Graph, "load"),),
    "match": ((Saturator, "_walk"), (EGraph, "step")),
    "decide": ((Saturator, "_decide"), (Mirror, "_merge")),
    "apply": ((EGraph, "load"), (EGraph, "wipe")),
    "extract": ((importlib.import_module("passat.rules.engine.engine"), "extract"),),
    "rebuild": ((importlib.import_module("passat.rules.engine.engine"), "rebuild"),),
}
"""The parts of a run, and their functions."""


class Run(NamedTuple):
    """One run: CPU seconds, those of each phase, calls in the result, rules fired."""

    seconds: float
    phases: Counter[str]
    calls: int
    fired: int


@contextmanager
def stopwatch(spent: Counter[str]) -> Iterator[None]:
    """Counts the seconds of each phase in `spent` while it is open."""
    kept = [(owner, name, getattr(owner, name)) for parts in PHASES.values() for owner, name in parts]
    for phase, parts in PHASES.items():
        for owner, name in parts:
            setattr(owner, name, _timed(getattr(owner, name), phase, spent))
    try:
        yield
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)


def _timed(function: Callable[..., Any], phase: str, spent: Counter[str]) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        start = time.process_time()
        try:
            return function(*args, **named)
        finally:
            spent[phase] += time.process_time() - start  # type: ignore[assignment]  # seconds are counted like things

    return call


STAGE: Final = Stage(tuple(map(Directions, Twenty)))


def run_engine(program: Program) -> Run:
    """From a typed function to the extracted, typed function."""
    function = Function(program.function.params, program.function.body)  # a new object without cached results
    infer_type(function)
    engine, report, spent = Engine([STAGE], limits=Limits(rounds=ROUNDS)), EngineReport(), Counter[str]()
    gc.collect()
    with stopwatch(spent):
        start = time.process_time()
        result = engine.run(function, report)
        seconds = time.process_time() - start
    assert not report.failures
    fired = sum(statistics_.unions for statistics_ in report.rules.values())
    return Run(seconds, spent, sum(isinstance(node, Call) for node in post_order(result.body)), fired)


def run_bridge(program: Program) -> Run:
    """From rows to extracted rows."""
    gc.collect()
    start = time.process_time()
    calls = bridge.run(program, ROUNDS)
    return Run(time.process_time() - start, Counter(), calls, 0)


def compare(name: str, program: Program, runs: int) -> str:
    """Runs both on a program, in turn, and returns the row of the table."""
    run_bridge(program), run_engine(program)
    pairs = [(run_bridge(program), run_engine(program)) for _ in range(runs)]
    theirs = statistics.median(bare.seconds for bare, _ in pairs)
    ours = statistics.median(run.seconds for _, run in pairs)
    bare, run = pairs[-1]
    phases = [statistics.median(run.phases[phase] for _, run in pairs) for phase in PHASES]
    cells = [
        name,
        f"{100 * run.fired / program.calls:.0f} %",
        f"{program.calls / theirs / 1000:.0f}",
        f"{program.calls / ours / 1000:.0f}",
        f"{theirs / ours:.2f}",
        *(f"{1000 * seconds:.1f}" for seconds in phases),
        f"{1000 * (ours - sum(phases)):.1f}",
        f"{bare.calls} / {run.calls}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Read the command line, measure, print the table."""
    parser = argparse.ArgumentParser(description="Compare Passat's engine with a bare bridge to egglog.")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="calls in random graphs")
    parser.add_argument("--chains", type=int, nargs="*", default=CHAINS, help="calls in random chains")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    gc.disable()
    print("| program | fired | bridge, 1000 nodes/s | Passat, 1000 nodes/s | ratio |", " | ".join(PHASES), "| rest, ms | calls left |")
    print("| :-- |" + " --: |" * (len(PHASES) + 6))
    for kind, sizes in (("graph", options.sizes), ("chain", options.chains)):
        for size in sizes:
            program = programs.dag(size) if kind == "graph" else programs.chain(size)
            print(compare(f"{kind} {size:,}", program, options.runs), flush=True)


if __name__ == "__main__":
    main()
