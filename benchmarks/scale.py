"""Time against size: models of 1 to 96 equal layers, and of 1,000 to 100,000 nodes; as a whole and in regions.

    python benchmarks/scale.py                          # both tables; with onnxsim if it is installed
    python benchmarks/scale.py --layers 1 8 96 --nodes  # layers only
    python benchmarks/scale.py --explore                # layers, with rules that try sums and products in every order
    python benchmarks/scale.py --kinds 4 --layers 16    # and with layers of several kinds

Milliseconds are those of `passat.optimize` from ModelProto to ModelProto, without verification: medians of `--runs`, alternating between
all ways. The columns `growth` have the ratio to the first row's time, and `cost` the difference of the costs of Passat's results.
"""

import argparse
import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import onnx
from explore import Explore
from graphs import chain, wide
from layers import equal_layers

import passat

LAYERS: Final = (1, 8, 24, 48, 96)
NODES: Final = (1_000, 10_000, 100_000)
WHOLE: Final = 1 << 60

Way = tuple[str, Callable[[onnx.ModelProto], tuple[int, float]]]


def passat_way(name: str, *, explore: bool, **config: Any) -> Way:
    """Passat under some configuration: calls in the result, and its cost."""

    def run(model: onnx.ModelProto) -> tuple[int, float]:
        options = {key.replace("__", "."): value for key, value in config.items()}
        result = passat.optimize(model, rules=[Explore] if explore else [], verify=False, config=options)
        return result.report.node_count_after, result.report.cost_after

    return name, run


def onnxsim_way() -> list[Way]:
    """onnxsim without its check, if it is installed."""
    try:
        onnxsim = importlib.import_module("onnxsim")
    except ImportError:
        return []

    def run(model: onnx.ModelProto) -> tuple[int, float]:
        simplified, _ = onnxsim.simplify(model, check_n=0)
        return len(simplified.graph.node), 0.0

    return [("onnxsim", run)]


def table(title: str, models: dict[str, onnx.ModelProto], ways: Sequence[Way], runs: int) -> None:
    """Measures every model in every way, and prints the rows."""
    print(f"\n| {title} | nodes |", " | ".join(f"{name} | growth | left" for name, _ in ways), "| cost |")
    print("| :-- | --: |" + " --: | --: | --: |" * len(ways) + " --: |")
    first: dict[str, float] = {}
    for name, model in models.items():
        cells = [name, str(len(model.graph.node))]
        taken: dict[str, list[float]] = {way: [] for way, _ in ways}
        made: dict[str, tuple[int, float]] = {}
        for _ in range(runs):
            for way, run in ways:
                start = time.perf_counter()
                made[way] = run(model)
                taken[way].append(time.perf_counter() - start)
        for way, _ in ways:
            seconds = statistics.median(taken[way])
            cells += [f"{1000 * seconds:.0f}", f"{seconds / first.setdefault(way, seconds):.1f}", str(made[way][0])]
        costs = [cost for _, cost in made.values() if cost]
        cells.append(f"{max(costs) / min(costs) - 1:.1e}")  # the difference of the costs
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description="Time against layers and nodes.")
    parser.add_argument("--layers", type=int, nargs="*", default=LAYERS)
    parser.add_argument("--nodes", type=int, nargs="*", default=NODES)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--explore", action="store_true")
    parser.add_argument("--kinds", type=int, default=1)
    options = parser.parse_args()
    explore = options.explore or options.kinds > 1
    ways = [passat_way("whole", explore=explore, rules__region_nodes=WHOLE)]
    ways.append(passat_way("regions", explore=explore, rules__region_nodes=100))
    if options.kinds > 1:
        models = {f"{count} layers of {options.kinds} kinds": equal_layers(count, kinds=options.kinds) for count in options.layers}
        for way in ways[1:]:
            way[1](equal_layers(4))
        table("model", models, ways[1:], options.runs)
        return
    ways += [] if explore else onnxsim_way()
    for kind, splat in (("random weights", False), ("splats", True)):
        models = {f"{count} layers, {kind}": equal_layers(count, splat=splat) for count in options.layers}
        for _, run in ways:
            run(next(iter(models.values())))
        table("model", models, ways, options.runs)
        if explore:
            return
    for make in (chain, wide):
        if options.nodes:
            table("model", {f"{make.__name__} {count:,}": make(count) for count in options.nodes}, ways, options.runs)


if __name__ == "__main__":
    main()
