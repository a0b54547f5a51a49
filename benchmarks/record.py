"""Figures of optimization for each model of a folder, which must not become worse between versions.

    python benchmarks/record.py MODELS -o before.json              # one process a model
    python benchmarks/record.py MODELS -o after.json --only bert   # those whose name starts with one of these
    python benchmarks/record.py --compare before.json after.json

For each model: nodes, estimated cost, ONNX Runtime's own fused operators after its optimization, saturations, how often each rule fired,
and seconds of CPU of the second optimization in a process, without verification. `--compare` shows differences, and returns 1 if an
estimate rose, if nodes rose without a lower estimate, or if fused operators were lost. The passes run at the default level.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

SAME_COST: Final = 1e-9
"""Relative increase of an estimate that is permitted: sums in another order."""


def record(path: Path) -> dict[str, Any]:
    """The figures of one model."""
    import fused_operators
    import onnx

    import passat

    model = onnx.load(path)
    passat.optimize(model, verify=False)
    started = time.process_time()
    result = passat.optimize(model, verify=False)
    seconds = time.process_time() - started
    report = result.report
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "result.onnx"
        onnx.save(result.model, written)
        fused = fused_operators.count(written)
    return {
        "nodes_before": report.node_count_before,
        "nodes": report.node_count_after,
        "cost_before": report.cost_before,
        "cost": report.cost_after,
        "operators": report.nodes_after,
        "fused_before": fused_operators.count(path),
        "fused": fused,
        "saturations": sum("nodes" in run.counters for run in report.passes),
        "seconds": seconds,
        "fired": {rule.name: rule.fired for rule in report.rules if rule.fired},
        "kept": report.kept,
    }


def record_all(paths: Sequence[Path]) -> dict[str, Any]:
    """The figures of each model, or the reason why there are none."""
    found: dict[str, Any] = {}
    for path in paths:
        command = [sys.executable, __file__, "--one", str(path)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        said = ended.stderr.strip().splitlines()
        found[path.stem] = json.loads(ended.stdout.splitlines()[-1]) if not ended.returncode else {"failed": said[-1] if said else "?"}
        print(f"{path.stem:44} {line(found[path.stem])}", flush=True)
    return found


def ratio(new: float, old: float) -> float:
    """How many times the old cost the new one is; 1 if both are 0, as of models that only return their inputs."""
    return new / old if old else 1.0 if not new else float("inf")


def line(row: Mapping[str, Any]) -> str:
    """A row of the table."""
    if "failed" in row:
        return f"FAILED: {row['failed']}"
    nodes, cost = f"{row['nodes_before']:5} -> {row['nodes']:5}", ratio(row["cost"], row["cost_before"])
    fused = f"{sum(row['fused_before'].values()):3} -> {sum(row['fused'].values()):3}"
    work = f"{row['saturations']:2} saturations, {len(row['fired']):3} rules, {row['seconds']:.2f} s"
    return f"{nodes} nodes, cost {cost:.4f}, fused {fused}, {work}"


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """Shows the differences; returns 1 if something became worse."""
    worse = 0
    common = [name for name in before if name in after]
    for name in common:
        old, new = before[name], after[name]
        if "failed" in old or "failed" in new:
            worse += "failed" in new and "failed" not in old
            print(f"{name}: {line(old)}; now {line(new)}")
            continue
        costs = ratio(new["cost"], old["cost"])
        lost = {key: count for key, count in old["fused"].items() if new["fused"].get(key, 0) < count}
        signs = [
            *(["costlier"] if costs > 1 + SAME_COST else []),
            *(["more nodes"] if new["nodes"] > old["nodes"] and costs > 1 - SAME_COST else []),
            *([f"fewer fused: {lost}"] if lost else []),
        ]
        worse += bool(signs)
        if signs or new["nodes"] != old["nodes"] or abs(costs - 1) > SAME_COST:
            print(f"{name}: nodes {old['nodes']} -> {new['nodes']}, cost {costs:.6f} {'; '.join(signs)}")
        silent = sorted(set(old["fired"]) - set(new["fired"]))
        if silent:
            print(f"{name}: fired before, but not now: {', '.join(silent)}")
    whole = [(before[name], after[name]) for name in common if "failed" not in before[name] and "failed" not in after[name]]
    ratios = np.array([new["seconds"] / old["seconds"] for old, new in whole])
    if len(ratios):
        spread = ", ".join(f"{part} % {value:.3f}" for part, value in zip((10, 50, 90), np.quantile(ratios, [0.1, 0.5, 0.9]), strict=True))
        print(f"{len(ratios)} models: seconds {np.exp(np.log(ratios).mean()):.3f} of before in the geometric mean ({spread})")
    print(f"{worse} worse")
    return int(worse > 0)


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Record figures of optimized models, and compare two records.")
    parser.add_argument("folders", type=Path, nargs="*", metavar="MODELS")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    given = parser.parse_args()
    if given.one:
        print(json.dumps(record(given.one)))
        return 0
    if given.compare:
        old, new = (json.loads(path.read_text()) for path in given.compare)
        return compare(old, new)
    paths = [path for folder in given.folders for path in sorted(folder.glob("*.onnx")) if path.name.startswith(tuple(given.only))]
    found = record_all(paths)
    if given.output:
        given.output.write_text(json.dumps(found, indent=1))
    return int(any("failed" in row for row in found.values()))


if __name__ == "__main__":
    sys.exit(main())
