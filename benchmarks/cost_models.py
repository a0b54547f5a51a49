"""How well the cost models predict times of whole models: estimates beside times on ONNX Runtime, and their rank correlation.

    python benchmarks/cost_models.py MODELS                      # ten models, about a minute
    python benchmarks/cost_models.py MODELS --only bert vit      # all variants of these
    python benchmarks/cost_models.py MODELS --fresh              # discards earlier measurements

Times are medians on one thread; every model runs interleaved with its optimized form, without ONNX Runtime's own optimizations (the time
that the models estimate) and with all of them. Operators are measured as by `--cost measured`. The table goes to standard output as
Markdown.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from passat import optimize
from passat.choose import choose_feed, take_turns, time_of
from passat.ir.infer import infer_type
from passat.ir.onnx import from_onnx
from passat.measure import Measured
from passat.rules.cost import NODES, ROOFLINE, CostModel, Roofline, program_cost
from passat.runner import Runner

TEN: Final = ("bert", "convnext", "gpt2", "llama", "mixtral", "resnet", "swin", "t5", "vit", "whisper")


def times(path: Path) -> tuple[list[float], object]:
    """Seconds of a model and of its optimized form, without and with ONNX Runtime's optimizations; the optimized model."""
    made = optimize(path, verify=False, cost="roofline").model
    found: list[float] = []
    for level in (False, "all"):
        runners = [Runner(model, threads=1, optimize=level, arena=True) for model in (path, made)]
        feed = choose_feed(runners[0], 0)
        turns = take_turns(
            lambda which, repeat, runners=runners, feed=feed: time_of(runners[which], feed, repeat),
            2,
            rounds=(11, 101),
            seconds=2.0,
            turn=0.002,
        )
        found += map(median, turns)
    return found, made


def costs(model: object, pricing: Sequence[CostModel]) -> list[float]:
    """The estimate of each cost model for a model."""
    body = infer_type(from_onnx(model)["main"])
    return [program_cost(body, one) for one in pricing]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's, of values without ties."""
    ranks = [np.argsort(np.argsort(values)) for values in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1])


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--fresh", action="store_true")
    arguments = parser.parse_args()
    if arguments.only:
        paths = sorted(path for name in arguments.only for path in arguments.models.glob(f"{name}_*.onnx"))
    else:
        paths = [arguments.models / f"{name}_torchscript_static.onnx" for name in TEN]
    if arguments.fresh:
        os.environ["PASSAT_CACHE"] = tempfile.mkdtemp()
    measured = Measured()
    pricing: list[CostModel] = [NODES, ROOFLINE, Roofline(measured.machine), measured]
    print("| model | nodes | roofline | of this machine | measured | plain | optimized | seconds to measure |")
    print("| :-- | --: | --: | --: | --: | --: | --: | --: |")
    rows: list[tuple[list[float], list[float]]] = []
    pairs: list[tuple[list[float], list[float]]] = []
    for path in paths:
        measured.begin()
        start = time.perf_counter()
        before = costs(str(path), pricing)
        taken = time.perf_counter() - start
        (plain, plain_after, full, full_after), made = times(path)
        after = costs(made, pricing)
        rows.append((before, [plain, full]))
        pairs.append(([b / a for b, a in zip(before, after, strict=True)], [plain / plain_after, full / full_after]))
        shown = " | ".join(f"{cost * 1e3:.3f}" for cost in before[1:])
        print(f"| {path.stem} | {before[0]:.0f} | {shown} | {plain * 1e3:.3f} | {full * 1e3:.3f} | {taken:.1f} |", flush=True)
    print("\nRank correlation over the models: of estimates and times, and of estimated and measured gains:\n")
    print("| | nodes | roofline | of this machine | measured |\n| :-- | --: | --: | --: | --: |")
    for number, title in enumerate(("plain", "optimized")):
        for what, data in (("times", rows), ("gains", pairs)):
            found = [rank_correlation([row[0][i] for row in data], [row[1][number] for row in data]) for i in range(len(pricing))]
            print(f"| {what}, {title} | {' | '.join(f'{value:.2f}' for value in found)} |")
    errors = [median(abs(np.log(row[0][i] / row[1][0])) for row in rows) for i in range(1, len(pricing))]
    print(f"| off by a factor of (plain, median) | | {' | '.join(f'{np.exp(error):.2f}' for error in errors)} |")


if __name__ == "__main__":
    main()
