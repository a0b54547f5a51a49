"""Times of optimized models on ONNX Runtime: Passat's, those of other optimizers, and those that ONNX Runtime writes when it optimizes a
file.

    python benchmarks/latency.py MODELS --work WORK                                  # one thread and two; about 8 s for each model
    python benchmarks/latency.py MODELS --work WORK --only bert vit --threads 1      # some models, one thread
    python benchmarks/latency.py MODELS --work WORK --runs 2000 --seconds 20         # a quieter measurement
    python benchmarks/latency.py MODELS --work WORK --json latency.json              # all digits
    python benchmarks/latency.py MODELS --work WORK --peers --threads                # no times, only fused operators

Every result runs with all optimizations of ONNX Runtime on, so the measurement shows the gain beyond them. In each round the contestants
take turns: the input, the input again (the control: the distance of its ratio from 1 is noise), Passat's result, and those of the others. A
ratio is a contestant's time divided by the input's in the same round. The tables show medians, with half the interquartile range as their
spread. The rounds are divided among `--sessions` sets of sessions in separate processes, each in another order, since the memory addresses
of a session's weights shift all its times by a percent or two. Turns are shorter than the time slices of the scheduler, so medians are also
valid on a busy machine. With one thread, its CPU time is measured, without waiting.

Results of other optimizers are kept in WORK, and renewed only if the model changes. Passat's results are created in every run, or kept with
`--keep`. Peers that are not installed are left out. Results whose values differ from the input's are marked `!`, and are never the best.

After the times, it prints the operators that ONNX Runtime's own fusions leave in the input and in Passat's result (`fused_operators.py`).
"""

import argparse
import hashlib
import importlib.util
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import geometric_mean, median, quantiles
from typing import Any, Final, NamedTuple

import fused_operators
import numpy as np
import onnx
import peers
from differences import difference
from optimize import OPTIMISERS, OURS

from passat.choose import choose_feed, take_turns, time_of
from passat.feeds import Trial, make_feed, symbols
from passat.ir.counting import counted
from passat.ir.onnx_runtime import onnx_runtime
from passat.runner import Runner

INPUT: Final = "input"
CONTROL: Final = "control"
NEVER_ABOVE: Final = 1.01
"""The ratio that no model should exceed."""
TRANSFORMERS: Final = ("bert", "gpt2", "llama", "vit", "swin", "t5", "whisper", "mixtral", "distilbert", "clip")
"""The prefixes of names of transformer exports from `models.py`."""
SIZES: Final = {"batch": 2, "sequence": 16}
"""Sizes of named dimensions: those of the exports with fixed dimensions."""
LEAST_ROUNDS: Final = 5
REST: Final = 0.004
"""Seconds after which the threads of a session stop spinning."""
WARM_UP: Final = 3
"""Uncounted runs that wake up the threads of a session."""


def runtime(level: str) -> Callable[[onnx.ModelProto], onnx.ModelProto]:
    """The model that ONNX Runtime writes at a level of its optimizations; at higher levels the result runs only on the same processor."""

    def optimize(model: onnx.ModelProto) -> onnx.ModelProto:
        onnxruntime = onnx_runtime()

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "optimized.onnx"
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
            options.optimized_model_filepath = str(path)
            options.log_severity_level = 4
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            return onnx.load(path)

    return optimize


CONTESTANTS: Final[Mapping[str, Callable[[onnx.ModelProto], onnx.ModelProto]]] = {
    **OPTIMISERS,
    "ort_basic": runtime("BASIC"),
    "ort_extended": runtime("EXTENDED"),
}
PEERS: Final = ("onnxsim", "onnxslim", "onnxscript", "ort_basic", "ort_extended")


class Ratio(NamedTuple):
    """Times of a contestant relative to the input's: the median of the rounds, their quartiles, and its median seconds."""

    median: float
    low: float
    high: float
    seconds: float
    rounds: int
    equal: bool = True

    @property
    def spread(self) -> float:
        """Half the distance of the quartiles."""
        return (self.high - self.low) / 2


# ---- the results of the optimizers, each in a separate process


def made(name: str, model: Path, work: Path, limit: float, *, keep: bool) -> Path | str:
    """The file with the result of an optimizer, or why there is none. Reuses earlier results of peers."""
    digest = hashlib.sha256(model.read_bytes()).hexdigest()[:12]
    target = work / f"{model.stem}.{digest}.{name}.onnx"
    failure = target.with_suffix(".txt")
    if name != OURS or keep:
        if target.exists():
            return target
        if failure.exists():
            return failure.read_text()
    target.unlink(missing_ok=True)
    failure.unlink(missing_ok=True)
    command = [sys.executable, __file__, str(model), "--work", str(work), "--make", name, str(target)]
    try:
        done = subprocess.run(command, timeout=limit, capture_output=True, text=True, check=False)
        reason = done.stderr.strip().splitlines()[-1:] if done.returncode else []
        words = "" if target.exists() else (reason[0] if reason else f"ended with exit code {done.returncode}")[:200]
    except subprocess.TimeoutExpired:
        words = f"no result within {limit:.0f} s"
    if words:
        failure.write_text(words)
    return words or target


def make(name: str, model: Path, target: Path) -> None:
    """Runs one optimizer and writes its result atomically."""
    unfinished = target.with_suffix(".part")
    onnx.save(CONTESTANTS[name](onnx.load(model)), unfinished)
    unfinished.rename(target)


# ---- times, each set of sessions in a separate process


class Session(Runner):
    """A model with all optimizations, as in deployment."""

    def __init__(self, path: Path, threads: int) -> None:
        onnxruntime = onnx_runtime()

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._names = [output.name for output in self._session.get_outputs()]

    def run(self, feed: Mapping[str, Any]) -> list[Any]:
        """The values of all outputs, in order."""
        values: list[Any] = self._session.run(self._names, feed)
        return values


def feed_of(path: Path, sizes: Mapping[str, int], given: str | None) -> dict[str, Any]:
    """The inputs of a file, if given; otherwise inputs with these sizes of named dimensions, or with sizes on which the model runs."""
    if given is not None:
        return dict(np.load(given))
    runner = Runner(path, threads=1)
    with suppress(Exception):  # ONNX Runtime's errors have no common base class
        feed = make_feed(runner.inputs, Trial(0, {name: sizes.get(name, 16) for name in symbols(runner.inputs)}))
        runner.run(feed)
        return feed
    return choose_feed(runner, 0)


def measured(
    paths: Mapping[str, Path],
    seed: int,
    threads: int,
    runs: int,
    seconds: float,
    turn: float,
    sizes: Mapping[str, int],
    given: str | None,
) -> Any:
    """Times of all contestants in each round, and which of them do not load, or compute other values than the input."""
    feed = feed_of(paths[INPUT], sizes, given)
    names = [INPUT, *(name for name in paths if name != INPUT)]
    random.Random(seed).shuffle(names)
    sessions: dict[str, Session] = {}
    wrong: dict[str, str] = {}
    for name in names:
        try:
            session = Session(paths[name], threads)
            session.run(feed)
        except Exception as error:  # as above
            wrong[name] = peers.sentence(error)
        else:
            sessions[name] = session
    want = sessions[INPUT].run(feed)
    different = [
        name
        for name, session in sessions.items()
        if any(difference(a, b).reason for a, b in zip(want, session.run(feed), strict=True) if hasattr(a, "dtype"))
    ]
    order = list(sessions)

    def run(which: int, repeat: int) -> float:
        session = sessions[order[which]]
        if threads > 1:  # spinning threads of the previous session would take cores away, and those of this one are asleep
            time.sleep(REST)
            time_of(session, feed, WARM_UP)
        return time_of(session, feed, repeat, time.perf_counter if threads > 1 else time.thread_time)

    times = take_turns(run, len(order), rounds=(min(LEAST_ROUNDS, runs), runs), seconds=seconds, turn=turn)
    return {"times": dict(zip(order, times, strict=True)), "wrong": wrong, "different": different}


def race(paths: Mapping[str, Path], threads: int, options: argparse.Namespace) -> tuple[dict[str, Ratio], dict[str, str]]:
    """The ratios of all contestants from several sets of sessions, and why others have none."""
    rounds: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    wrong: dict[str, str] = {}
    different: set[str] = set()
    for seed in range(options.sessions):
        runs, seconds_each = math.ceil(options.runs / options.sessions), options.seconds / options.sessions
        shared = [runs, seconds_each, options.turn, options.sizes, None if options.feed is None else str(options.feed)]
        question = json.dumps([{name: str(path) for name, path in paths.items()}, seed, threads, *shared])
        command = [sys.executable, __file__, str(paths[INPUT]), "--work", str(options.work), "--race", question]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10 * options.limit)
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1:]
            return {}, {INPUT: reason[0][:200] if reason else f"ended with exit code {done.returncode}"}
        answer = json.loads(done.stdout)
        wrong |= answer["wrong"]
        different |= set(answer["different"])
        for name, times in answer["times"].items():
            rounds.setdefault(name, []).extend(a / b for a, b in zip(times, answer["times"][INPUT], strict=True))
            seconds.setdefault(name, []).extend(times)
    ratios = {}
    for name, found in rounds.items():
        low, _, high = quantiles(found, n=4) if len(found) > 1 else found * 3
        ratios[name] = Ratio(median(found), low, high, median(seconds[name]), len(found), name not in different)
    return ratios, wrong


# ---- the report


def best_peer(row: Mapping[str, Ratio]) -> str | None:
    """The fastest of the others with correct values."""
    able = [name for name, ratio in row.items() if name not in (INPUT, CONTROL, OURS) and ratio.equal]
    return min(able, key=lambda name: row[name].median, default=None)


def mean_of(rows: Iterable[Mapping[str, Ratio]], name: str) -> float | None:
    """The geometric mean of one contestant's ratios, if it has any."""
    found = [row[name].median for row in rows if name in row and row[name].equal]
    return geometric_mean(found) if found else None


def table(results: Mapping[str, Mapping[str, Ratio]], names: Sequence[str], threads: int) -> str:
    """The ratios as Markdown, with geometric means, and the models on which Passat is slower."""

    def shown(row: Mapping[str, Ratio], name: str) -> str:
        ratio = row.get(name)
        return "-" if ratio is None else f"{ratio.median:.3f} ± {ratio.spread:.3f}{'' if ratio.equal else ' !'}"

    columns = [CONTROL, OURS, *names]
    lines = [f"### {counted(threads, 'thread')}", ""]
    lines += ["| model | us | " + " | ".join(columns) + " | best peer |", "| :-- | --: |" + " --: |" * len(columns) + " --: |"]
    for model, row in results.items():
        best = best_peer(row)
        told = "-" if best is None else f"{row[best].median:.3f} {best}"
        cells = " | ".join(shown(row, name) for name in columns)
        lines.append(f"| {model} | {1e6 * row[INPUT].seconds:,.0f} | {cells} | {told} |")
    groups = {
        "transformers": [row for model, row in results.items() if model.startswith(TRANSFORMERS)],
        "all": list(results.values()),
    }
    for group, rows in groups.items():
        if rows:
            means = [mean_of(rows, name) for name in columns]
            bests = [row[name].median for row in rows if (name := best_peer(row))]
            cells = " | ".join("-" if mean is None else f"**{mean:.3f}**" for mean in means)
            told = f"**{geometric_mean(bests):.3f}**" if bests else "-"
            lines.append(f"| geometric mean, {group} ({len(rows)}) | | {cells} | {told} |")
    lines += ["", f"Models above {NEVER_ABOVE}:", ""]
    for name in columns:
        above = [model for model, row in results.items() if name in row and row[name].median > NEVER_ABOVE]
        listed = ", ".join(f"{model} {results[model][name].median:.3f}" for model in above)
        lines.append(f"* {name}: {len(above)}" + (f" ({listed})" if above and name in (OURS, CONTROL) else ""))
    behind = []
    for model, row in results.items():
        best = best_peer(row)
        if best is not None and OURS in row and row[best].median < row[OURS].median:
            behind.append(f"{model} {row[OURS].median:.3f}, {best} {row[best].median:.3f}")
    lines += ["", f"Models on which a peer's median is below {OURS}'s: {len(behind)}", "", *(f"* {line}" for line in behind)]
    return "\n".join(lines)


def selected(folder: Path, only: Sequence[str]) -> list[Path]:
    """The models of a folder whose names start with one of these; a file counts as a folder with one model."""
    return [path for path in ([folder] if folder.is_file() else sorted(folder.glob("*.onnx"))) if path.stem.startswith(tuple(only))]


def installed(name: str) -> bool:
    """True if an optimizer is installed."""
    return name.startswith("ort_") or importlib.util.find_spec(name) is not None


def size_of(text: str) -> tuple[str, int]:
    """A name and a number from the command line."""
    name, _, number = text.partition("=")
    return name, int(number)


def arguments() -> argparse.Namespace:
    """The settings of the command line."""
    parser = argparse.ArgumentParser(description="Compare the latency of optimized models on ONNX Runtime.")
    parser.add_argument("folder", type=Path, metavar="MODELS", help="a folder of models, or one model")
    parser.add_argument("--work", type=Path, required=True, help="where the optimized models are kept")
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="models whose name starts with one of these")
    parser.add_argument("--peers", nargs="*", choices=[name for name in CONTESTANTS if name != OURS], default=list(PEERS))
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2], help="numbers of threads; none to only count fused operators")
    parser.add_argument("--runs", type=int, default=300, help="rounds for each model, at most")
    parser.add_argument("--seconds", type=float, default=4, help="for each model and number of threads")
    parser.add_argument("--sessions", type=int, default=3, help="sets of sessions that share the rounds")
    parser.add_argument("--turn", type=float, default=0.0006, help="seconds that a fast model runs in its turn")
    parser.add_argument("--sizes", type=size_of, nargs="+", default=[], metavar="NAME=SIZE", help="of named dimensions; 16 by default")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one optimizer on one model")
    parser.set_defaults(feed=None)
    parser.add_argument("--keep", action="store_true", help="keep Passat's earlier results")
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--race", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.sizes = SIZES | dict(options.sizes)
    return options


def main() -> int:
    """Reads the command line, optimizes, measures, prints the tables; returns 2 without models."""
    options = arguments()
    warnings.simplefilter("ignore")
    if options.make:
        with peers.silence():
            # the calling process reads the reason of a failure
            make(options.make[0], options.folder, Path(options.make[1]))
        return 0
    if options.race:
        paths, *rest = json.loads(options.race)
        print(json.dumps(measured({name: Path(path) for name, path in paths.items()}, *rest)))
        return 0
    models = selected(options.folder, options.only)
    if not models:
        print(f"no such models in {options.folder}", file=sys.stderr)
        return 2
    options.work.mkdir(parents=True, exist_ok=True)
    names = [name for name in options.peers if installed(name)]
    results: dict[int, dict[str, dict[str, Ratio]]] = {threads: {} for threads in options.threads}
    fused: dict[str, tuple[Counter[str], Counter[str]]] = {}
    faults: dict[str, None] = {}
    for model in models:
        paths = {INPUT: model, CONTROL: model}
        for name in (OURS, *names):
            outcome = made(name, model, options.work, options.limit, keep=options.keep)
            if isinstance(outcome, Path):
                paths[name] = outcome
            else:
                faults[f"{model.stem}, {name}: {outcome}"] = None
        if OURS in paths:
            fused[model.stem] = fused_operators.count(model), fused_operators.count(paths[OURS])
        for threads in options.threads:
            row, wrong = race(paths, threads, options)
            faults.update(dict.fromkeys(f"{model.stem}, {name}: {reason}" for name, reason in wrong.items()))
            if INPUT in row:
                results[threads][model.stem] = row
                told = ", ".join(f"{name} {ratio.median:.3f}" for name, ratio in row.items() if name != INPUT)
                print(f"{model.stem}, {threads}: {1e6 * row[INPUT].seconds:.0f} us; {told}", file=sys.stderr, flush=True)
    if options.json:
        document = {
            "machine": {"load": os.getloadavg(), "cores": os.cpu_count()},
            "threads": {t: {m: {n: r._asdict() for n, r in row.items()} for m, row in rows.items()} for t, rows in results.items()},
            "fused": fused,
            "faults": list(faults),
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    tables = [table(rows, names, threads) for threads, rows in results.items() if rows]
    print("\n\n".join([*tables, *([fused_operators.table(fused)] if fused else [])]))
    if faults:
        print("\n".join(["", "What is wrong:", "", *(f"* {fault}" for fault in faults)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
