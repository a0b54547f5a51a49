"""Runs other optimizers on models: one adapter per peer, with measurements that survive crashes.

    python benchmarks/peers.py MODELS... --json peers.json --markdown peers.md [--peers onnxsim onnxslim] [--runs 4]

Each peer runs on each model in a separate process with a time limit, so a segmentation fault or an endless loop costs one cell of the
table. Inside it the adapter is called in process, from ModelProto to ModelProto, on a fresh copy each time; the first call is not counted.
To measure a further optimizer, add an adapter to `PEERS`.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from passat.ir.onnx_runtime import forbid_telemetry, onnx_runtime

forbid_telemetry()  # also where a peer imports ONNX Runtime

NOT_COUNTED: Final = frozenset({"Constant", "ConstantOfShape"})
"""Operators that hold a value rather than compute one; every count of nodes leaves them out."""


def onnxsim(model: onnx.ModelProto) -> onnx.ModelProto:
    """Run onnxsim with its default settings."""
    from onnxsim import simplify

    result: onnx.ModelProto = simplify(model)[0]
    return result


def onnxslim(model: onnx.ModelProto) -> onnx.ModelProto:
    """Run onnxslim with its default settings."""
    from onnxslim import slim

    result: onnx.ModelProto = slim(model)
    return result


def onnxscript(model: onnx.ModelProto) -> onnx.ModelProto:
    """Run the optimizer of onnxscript with its default settings."""
    from onnxscript.optimizer import optimize

    result: onnx.ModelProto = optimize(model)
    return result


def onnxoptimizer(model: onnx.ModelProto) -> onnx.ModelProto:
    """Run onnxoptimizer with all its fusion and elimination passes."""
    from onnxoptimizer import get_fuse_and_elimination_passes, optimize

    result: onnx.ModelProto = optimize(model, get_fuse_and_elimination_passes())
    return result


PEERS: Final[dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]]] = {
    adapter.__name__: adapter for adapter in (onnxsim, onnxslim, onnxscript, onnxoptimizer)
}


@dataclass
class Outcome:
    """The result of one peer on one model. `error` is the reason for a missing or wrong result."""

    seconds: float | None = None
    nodes: int | None = None
    size: int | None = None
    operators: dict[str, int] | None = None
    checker: bool | None = None
    equal: bool | None = None
    error: str = ""


def histogram(model: onnx.ModelProto) -> Counter[str]:
    """Count the nodes of `model` by operator, those in subgraphs and local functions included."""
    counts: Counter[str] = Counter()
    pending: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    while pending:
        for node in pending.pop().node:
            counts[f"{node.domain}.{node.op_type}" if node.domain else node.op_type] += 1
            for attribute in node.attribute:
                pending += [attribute.g] if attribute.HasField("g") else attribute.graphs
    return counts


def node_count(model: onnx.ModelProto) -> int:
    """Count the nodes of `model` that compute something."""
    return sum(count for operator, count in histogram(model).items() if operator not in NOT_COUNTED)


def random_inputs(model: onnx.ModelProto, *, dimension: int = 3, seed: int = 0) -> dict[str, np.ndarray]:
    """Make inputs for `model`: symbolic dimensions are all `dimension`, integers are 0 or 1, which are valid masks and token ids."""
    initialized = {tensor.name for tensor in model.graph.initializer}
    random = np.random.default_rng(seed)
    feed: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        if value.name in initialized:
            continue
        tensor = value.type.tensor_type
        shape = [d.dim_value if d.HasField("dim_value") else dimension for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        feed[value.name] = random.normal(size=shape).astype(dtype) if dtype.kind == "f" else random.integers(0, 2, shape).astype(dtype)
    return feed


def evaluate(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run `model` on ONNX Runtime with its optimizations off."""
    onnxruntime = onnx_runtime()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray] = session.run([output.name for output in model.graph.output], feed)
    return outputs


def same_value(before: onnx.ModelProto, after: onnx.ModelProto) -> bool:
    """Compare two models on random inputs, up to the rounding of float32."""
    for dimension in (3, 16):
        feed = random_inputs(before, dimension=dimension)
        for a, b in zip(evaluate(before, feed), evaluate(after, feed), strict=True):
            if a.shape != b.shape or a.dtype != b.dtype or not np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True):
                return False
    return True


def sentence(error: Exception) -> str:
    """Put an exception on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def measure(peer: str, path: Path, runs: int, keep: Path | None) -> Outcome:
    """Run `peer` on the model at `path` in this process."""
    optimize = PEERS[peer]
    source = onnx.load(path)
    outcome = Outcome()
    times: list[float] = []
    try:
        for _ in range(runs + 1):
            copy = onnx.ModelProto()
            copy.CopyFrom(source)
            started = time.perf_counter()
            result = optimize(copy)
            times.append(time.perf_counter() - started)
    except Exception as error:  # a peer may raise anything
        outcome.error = sentence(error)
        return outcome
    outcome.seconds = statistics.median(times[1:])
    outcome.nodes, outcome.operators, outcome.size = node_count(result), dict(histogram(result)), result.ByteSize()
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        onnx.save(result, keep / f"{path.stem}.{peer}.onnx")
    outcome.checker = True
    try:
        onnx.checker.check_model(result)
    except onnx.checker.ValidationError as error:
        outcome.checker, outcome.error = False, sentence(error)
    try:
        outcome.equal = same_value(source, result)
    except Exception as error:  # ONNX Runtime has a separate exception class for each kind of rejection
        outcome.equal, outcome.error = False, outcome.error or sentence(error)
    return outcome


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Discard the output of this process, including output from C++."""
    with Path(os.devnull).open("w") as nowhere:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere.fileno(), stream.fileno())
        yield


def measure_apart(peer: str, path: Path, runs: int, limit: float, keep: Path | None) -> Outcome:
    """Run `peer` on the model at `path` in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, __file__, str(path), "--peers", peer, "--runs", str(runs), "--json", str(answer), "--here"]
        command += ["--keep", str(keep)] if keep else []
        try:
            code = subprocess.run(command, timeout=limit, capture_output=True, check=False).returncode
        except subprocess.TimeoutExpired:
            return Outcome(error=f"no result within {limit:.0f} s")
        if not answer.exists():
            return Outcome(error=f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}")
        return Outcome(**json.loads(answer.read_text()))


def table(results: dict[str, dict[str, Outcome]], before: dict[str, tuple[int, int]]) -> str:
    """Formats the results as Markdown: nodes, times, sizes, and faults."""
    peers = list(next(iter(results.values())))

    def rows(cell: Callable[[Outcome], str], first: Callable[[str], str]) -> list[str]:
        lines = ["| model | in | " + " | ".join(peers) + " |", "| :-- | --: |" + " --: |" * len(peers)]
        return lines + [f"| {m} | {first(m)} | " + " | ".join(cell(o) for o in by_peer.values()) + " |" for m, by_peer in results.items()]

    def mark(outcome: Outcome) -> str:
        return "" if outcome.checker and outcome.equal else " !" if outcome.checker else " x"

    lines = ["# Other optimizers on the models", ""]
    lines += [
        "## Nodes",
        "",
        "Without Constant and ConstantOfShape. `x`: onnx.checker rejects the result; `!`: it does not run, or its values differ.",
        "",
    ]
    lines += rows(lambda o: "-" if o.nodes is None else f"{o.nodes}{mark(o)}", lambda m: str(before[m][0]))
    lines += ["", "## Milliseconds", "", "Median wall time in process, from ModelProto to ModelProto.", ""]
    lines += rows(lambda o: "-" if o.seconds is None else f"{1000 * o.seconds:.1f}", lambda m: "")
    lines += ["", "## Kilobytes", "", "Of the serialized model.", ""]
    lines += rows(lambda o: "-" if o.size is None else f"{o.size / 1000:,.0f}", lambda m: f"{before[m][1] / 1000:,.0f}")
    faults = [
        f"* {model}, {peer}: {o.error or 'values differ'}"
        for model, row in results.items()
        for peer, o in row.items()
        if o.error or not o.equal
    ]
    return "\n".join([*lines, "", "## What is wrong", "", *faults, ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, measure, and write the results."""
    parser = argparse.ArgumentParser(description="Run other optimizers on ONNX models.")
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--runs", type=int, default=4, help="counted runs; one more is made first")
    parser.add_argument("--limit", type=float, default=600, help="seconds that one peer may spend on one model")
    parser.add_argument("--json", type=Path, required=True, help="where the results go")
    parser.add_argument("--markdown", type=Path, help="where the table goes")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="also write each optimized model there")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.here:
        with silence():
            outcome = measure(options.peers[0], options.models[0], options.runs, options.keep)
        options.json.write_text(json.dumps(asdict(outcome)))
        return

    results: dict[str, dict[str, Outcome]] = {}
    before: dict[str, tuple[int, int]] = {}
    for path in options.models:
        model = onnx.load(path)
        before[path.stem] = node_count(model), model.ByteSize()
        results[path.stem] = {}
        for peer in options.peers:
            outcome = measure_apart(peer, path, options.runs, options.limit, options.keep)
            results[path.stem][peer] = outcome
            time_taken = "      -" if outcome.seconds is None else f"{1000 * outcome.seconds:7.1f}"
            print(f"{path.stem:34} {peer:14} {time_taken} ms  {before[path.stem][0]:6} -> {outcome.nodes}  {outcome.error}", flush=True)
    document = {
        model: {"in": {"nodes": before[model][0], "size": before[model][1]}, "peers": {peer: asdict(o) for peer, o in row.items()}}
        for model, row in results.items()
    }
    options.json.write_text(json.dumps(document, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(table(results, before))


if __name__ == "__main__":
    main()
