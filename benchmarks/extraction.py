"""Extraction on e-graphs of the extraction-gym: the cost after each stage, proofs of optimality, and the speed of the greedy stages.

    git clone https://github.com/egraphs-good/extraction-gym
    python benchmarks/extraction.py extraction-gym/data --seconds 60
    python benchmarks/extraction.py FILE.json ... --seconds 0          # without exact search

Costs count every chosen node once. The greedy stages of Passat are the cheapest trees and their improvement as a graph; they are
compared with the greedy extractor of `greedy_dag.py`. `--seconds` limits exact search for each file.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from greedy_dag import greedy_dag

from passat.rules.extraction.ladder import climb
from passat.rules.extraction.space import read_egraph

RUNS = 5


def files(paths: list[Path]) -> Iterator[Path]:
    """The named files, and those in the named folders."""
    for path in paths:
        yield from sorted(path.rglob("*.json")) if path.is_dir() else [path]


def timed(run: Callable[[], float]) -> tuple[float, float]:
    """The result of a function, and its median seconds."""
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
    return result, statistics.median(seconds)


def main() -> None:
    """Read the command line, extract, print the table."""
    parser = argparse.ArgumentParser(description="Extract from e-graphs in files.")
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=60.0, help="for exact search on each file")
    options = parser.parse_args()
    print("| e-graph | nodes | greedy-dag | ms | Passat greedy | ms | nodes/s | exact | bound | s |\n| :-- |" + " --: |" * 9)
    for path in files(options.paths):
        egraph = read_egraph(path)
        space, roots = egraph.space, egraph.roots
        theirs, their_seconds = timed(lambda space=space, roots=roots: greedy_dag(space, roots))  # type: ignore[misc]  # bound at once
        ours, our_seconds = timed(lambda space=space, roots=roots: climb(space, roots).cost)  # type: ignore[misc]  # bound at once
        cells = [path.stem, f"{len(space.classes):,}", f"{theirs:.10g}", f"{1000 * their_seconds:.1f}", f"{ours:.10g}"]
        cells += [f"{1000 * our_seconds:.1f}", f"{len(space.classes) / our_seconds:,.0f}"]
        if options.seconds > 0:
            found = climb(space, roots, options.seconds)
            cells += [f"{found.cost:.10g}", "proven" if found.proven else f"{found.bound:.10g}", f"{found.stages['exact'][1]:.1f}"]
        else:
            cells += ["", "", ""]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
