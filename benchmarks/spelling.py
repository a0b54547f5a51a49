"""Whether it matters how a model was exported: the optimized exports of one network, compared by nodes and time.

    python benchmarks/spelling.py MODELS                            # nodes only; about half a second for each model
    python benchmarks/spelling.py MODELS --time                     # latency as well; about 10 s for each network
    python benchmarks/spelling.py MODELS --only bert vit --opset 23 --math finite

MODELS is a folder written by `models.py`. The exports of a network have the same weights; torch.export ("dynamo") with and without its
optimizer, and TorchScript with and without its constant folding, write it in different operators. Nodes are those after
`passat.optimize`, without constants; if the numbers differ, the operators with different counts are listed.

A latency is the time of a result relative to that of the first spelling, measured as in `latency.py`: one thread, interleaved, all
optimizations of ONNX Runtime on, medians of the ratios in rounds; `control` is the first spelling again. The values of a result are
compared with those of its own export. Exports may disagree if a padding mask covers a whole row: torch.export masks by the lowest number,
TorchScript by minus infinity.
"""

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import onnx
from latency import CONTROL, INPUT, SIZES, Ratio, race

import passat
from passat.report import NOT_COUNTED, histogram

SPELLINGS: Final = ("dynamo", "dynamoraw", "torchscript", "torchscriptraw")
SHAPES: Final = ("static", "dynamic")


def networks(folder: Path, only: list[str]) -> dict[tuple[str, str], dict[str, Path]]:
    """The exports by network and shapes, then by spelling."""
    found: dict[tuple[str, str], dict[str, Path]] = {}
    for path in sorted(folder.glob("*.onnx")):
        family, _, rest = path.stem.partition("_")
        spelling, _, shapes = rest.partition("_")
        if spelling in SPELLINGS and shapes in SHAPES and family.startswith(tuple(only)):
            found.setdefault((family, shapes), {})[spelling] = path
    return {key: {name: paths[name] for name in SPELLINGS if name in paths} for key, paths in found.items()}


def optimized(path: Path, target: Path, options: argparse.Namespace) -> Counter[str]:
    """Optimizes an export and writes the result. Returns its operators, without those that hold data."""
    config = {"rules.math": options.math} if options.math else None
    result = passat.optimize(path, opset=options.opset, config=config)
    onnx.save(result.model, target)
    found = histogram(result.model)
    return Counter({name: count for name, count in found.items() if name not in NOT_COUNTED})


def difference(first: Counter[str], other: Counter[str]) -> str:
    """The operators that a result has more or fewer of than the first."""
    names = sorted(name for name in {*first, *other} if first[name] != other[name])
    return ", ".join(f"{name} {other[name] - first[name]:+d}" for name in names)


def shown(ratio: Ratio | None) -> str:
    """A ratio with its spread."""
    return "-" if ratio is None else f"{ratio.median:.3f} ± {ratio.spread:.3f}"


def arguments() -> argparse.Namespace:
    """The settings of the command line."""
    parser = argparse.ArgumentParser(description="Compare the results for different exports of one network.")
    parser.add_argument("folder", type=Path, metavar="MODELS", help="a folder of exports from models.py")
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="networks whose name starts with one of these")
    parser.add_argument("--time", action="store_true", help="measure latencies as well")
    parser.add_argument("--opset", type=int, help="the opset of the results, as in passat.optimize")
    parser.add_argument("--math", choices=("exact", "reassociate", "finite"), help="what rules may do to values")
    parser.add_argument("--runs", type=int, default=300, help="rounds for each network, at most")
    parser.add_argument("--seconds", type=float, default=6, help="for each network")
    parser.add_argument("--sessions", type=int, default=3, help="sets of sessions that share the rounds")
    parser.add_argument("--turn", type=float, default=0.0006, help="seconds that a fast model runs in its turn")
    parser.add_argument("--limit", type=float, default=120, help="a tenth of the seconds that one set of sessions may take")
    options = parser.parse_args()
    options.sizes = SIZES
    return options


def row(paths: Mapping[str, Path], options: argparse.Namespace) -> tuple[list[str], list[str], list[str]]:
    """The cells of a network: nodes, latencies, differences and faults."""
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        made = {name: Path(folder) / f"{name}.onnx" for name in paths}
        for name, path in paths.items():
            counts[name] = optimized(path, made[name], options)
        first = next(iter(paths))
        ratios: dict[str, Ratio] = {}
        faults: dict[str, str] = {}
        if options.time:
            options.work = Path(folder)
            others = {name: made[name] for name in paths if name != first}
            ratios, faults = race({INPUT: made[first], CONTROL: made[first], **others}, 1, options)
    nodes = [str(counts[name].total()) if name in counts else "-" for name in SPELLINGS]
    times = [shown(ratios.get(name)) for name in (CONTROL, *SPELLINGS[1:])] if options.time else []
    notes = [f"{name} against {first}: {told}" for name in paths if (told := difference(counts[first], counts[name]))]
    return nodes, times, [*notes, *(f"{name}: {reason}" for name, reason in faults.items())]


def main() -> int:
    """Reads the command line, optimizes, prints the table; returns 2 without exports, 1 if numbers of nodes differ."""
    options = arguments()
    warnings.simplefilter("ignore")
    found = networks(options.folder, options.only)
    if not found:
        print(f"no such exports in {options.folder}", file=sys.stderr)
        return 2
    columns = [*SPELLINGS, *((CONTROL, *SPELLINGS[1:]) if options.time else ())]
    print("| network | shapes | " + " | ".join(columns) + " |")
    print("| :-- | :-- |" + " --: |" * len(columns), flush=True)
    differing = []
    for (family, shapes), paths in found.items():
        nodes, times, notes = row(paths, options)
        print(f"| {family} | {shapes} | " + " | ".join(nodes + times) + " |", flush=True)
        differing += [f"* {family}, {shapes}: {note}" for note in notes]
    if differing:
        print("\n".join(["", "Differences:", "", *differing]))
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
