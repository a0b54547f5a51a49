"""A model of 2.2 GB with external data: seconds and memory to load, optimize and save it, against other optimizers.

    python benchmarks/big_external.py                            # makes the model in a temporary folder first: 7 GB of disk
    python benchmarks/big_external.py --model FOLDER/big.onnx --peers onnxscript --runs 5

Each run is a separate process, one at a time. The clock runs from before the model is opened until the result is written, with the
libraries imported and the model in the page cache. Memory is the largest resident set of the process, libraries included (and pages of the
mapped file, if any). Then the result is moved to another folder, and runs there on ONNX Runtime.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

GIGABYTES: Final = 2.2
MAKE: Final = "import sys, pathlib, graphs; graphs.big_external(pathlib.Path(sys.argv[1]), float(sys.argv[2]))"
MEMORY: Final = 10 << 30
"""Maximum memory that a process may map, so that a larger one fails instead of the machine."""


def passat(source: Path, target: Path) -> Callable[[], None]:
    """Passat without verification."""
    import onnx  # noqa: F401  # which Passat imports when it reads the first model

    from passat import optimize

    return lambda: optimize(source, verify=False, opt_level=3).save(target)


def onnxscript(source: Path, target: Path) -> Callable[[], None]:
    """The optimizer of onnxscript on onnx_ir's model, which reads tensors when they are needed."""
    import onnx_ir
    from onnxscript.optimizer import optimize

    def run() -> None:
        model = onnx_ir.load(source)
        optimize(model)
        onnx_ir.save(model, target, external_data=f"{target.name}.data")

    return run


def onnxsim(source: Path, target: Path) -> Callable[[], None]:
    """onnxsim, as from its command line."""
    import onnx
    from onnxsim import simplify

    def run() -> None:
        model, _ = simplify(str(source))
        onnx.save(model, str(target), save_as_external_data=True, location=f"{target.name}.data")

    return run


def onnxslim(source: Path, target: Path) -> Callable[[], None]:
    """onnxslim, as from its command line."""
    from onnxslim import slim

    return lambda: slim(str(source), str(target), save_as_external_data=True)


OURS: Final = passat.__name__
OPTIMISERS: Final[dict[str, Callable[[Path, Path], Callable[[], None]]]] = {
    optimizer.__name__: optimizer for optimizer in (passat, onnxscript, onnxsim, onnxslim)
}


class Outcome(NamedTuple):
    """One run: seconds, maximum bytes of memory, nodes in the result, how the result runs, or the error."""

    seconds: float = 0.0
    memory: int = 0
    nodes: int = 0
    runs: str = ""
    error: str = ""


def work(name: str, source: Path, target: Path) -> tuple[float, int, int]:
    """Loads, optimizes and saves. Returns seconds, the largest resident set in bytes, and nodes of the result."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    run = OPTIMISERS[name](source, target)
    start = time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    import onnx

    return seconds, memory, len(onnx.load(str(target), load_external_data=False).graph.node)


def evaluate(model: Path, target: Path) -> None:
    """Writes the output of a model for a fixed random input to a file: on ONNX Runtime, with its optimizations off."""
    from passat.ir.onnx_runtime import onnx_runtime

    onnxruntime = onnx_runtime()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    (taken,) = session.get_inputs()
    feed = {taken.name: np.random.default_rng(0).normal(size=(2, taken.shape[1])).astype(np.float32)}
    np.save(target, session.run(None, feed)[0])


def apart(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs this file in a separate process. The parent stays small, because Linux counts its memory as that of the new child."""
    return subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)


def complaint(child: subprocess.CompletedProcess[str]) -> str:
    """The last output of a failed process."""
    said = child.stderr.strip().splitlines()
    errors = [line for line in said if "Error" in line.partition(":")[0]] or said or ["no message"]
    return f"exit code {child.returncode}: {errors[-1][:200]}"


def once(name: str, source: Path, folder: Path, expected: Any) -> Outcome:
    """One run in a separate process; with `expected`, the result is moved and run as well."""
    here, elsewhere = folder / "here", folder / "elsewhere"
    for place in (here, elsewhere):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    target = here / "result.onnx"
    child = apart("--work", name, str(source), str(target))
    if child.returncode:
        return Outcome(error=complaint(child))
    seconds, memory, nodes = json.loads(child.stdout.splitlines()[-1])
    runs = ""
    if expected is not None:
        for file in here.iterdir():
            shutil.move(file, elsewhere / file.name)
        child = apart("--evaluate", str(elsewhere / target.name), str(folder / "found.npy"))
        if child.returncode:
            runs = f"does not run: {complaint(child)}"
        else:
            runs = "equal" if np.allclose(np.load(folder / "found.npy"), expected, rtol=1e-3, atol=1e-4) else "other values"
    return Outcome(seconds, memory, nodes, runs)


def main() -> None:
    """Read the command line, measure, print the table."""
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps(work(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))))
        return
    if sys.argv[1:2] == ["--evaluate"]:
        evaluate(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    from passat.ir.onnx_runtime import forbid_telemetry  # not at the top: the memory of the processes that work is measured

    forbid_telemetry()  # in all processes, also where a peer imports ONNX Runtime
    parser = argparse.ArgumentParser(description="Optimize a model above protobuf's size limit.")
    parser.add_argument("--model", type=Path, help="a model from graphs.big_external; created if not given")
    parser.add_argument("--folder", type=Path, help="folder for temporary results; by default a temporary folder")
    parser.add_argument("--peers", nargs="*", choices=[name for name in OPTIMISERS if name != OURS], default=list(OPTIMISERS)[1:])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = Path(temporary)
        source = options.model
        if source is None:
            source = folder / "big.onnx"
            subprocess.run([sys.executable, "-c", MAKE, str(source), str(GIGABYTES)], cwd=Path(__file__).parent, check=True)
        for file in source.parent.glob(f"{source.name}*"):
            subprocess.run(["cat", str(file)], stdout=subprocess.DEVNULL, check=True)  # into the page cache
        child = apart("--evaluate", str(source), str(folder / "expected.npy"))
        if child.returncode:
            sys.exit(f"ONNX Runtime does not run the model: {complaint(child)}")
        expected = np.load(folder / "expected.npy")
        names = [OURS, *options.peers]
        found: dict[str, list[Outcome]] = {name: [] for name in names}
        for turn in range(options.runs):
            for name in names:
                if turn == 0 or not found[name][0].error:
                    found[name].append(once(name, source, folder, expected if turn == 0 else None))
                    print(f"{name}: {found[name][-1]}", file=sys.stderr, flush=True)
    print("| optimizer | seconds | times Passat's | GB of memory | nodes | from another folder |")
    print("| :-- | --: | --: | --: | --: | :-- |")
    if found[OURS][0].error:
        sys.exit(f"Passat failed: {found[OURS][0].error}")
    ours = statistics.median(outcome.seconds for outcome in found[OURS])
    for name, outcomes in found.items():
        first = outcomes[0]
        if first.error:
            print(f"| {name} | - | - | - | - | {first.error} |")
            continue
        seconds = statistics.median(outcome.seconds for outcome in outcomes)
        memory = statistics.median(outcome.memory for outcome in outcomes)
        print(f"| {name} | {seconds:.2f} | {seconds / ours:.1f} | {memory / 1e9:.2f} | {first.nodes} | {first.runs} |")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    main()
