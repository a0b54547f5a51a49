"""`passat.optimize` against other common optimizers: times, node counts, sizes, and whether onnx.checker accepts the results.

    python benchmarks/models.py MODELS --only bert gpt2 llama vit swin t5 whisper mixtral     # once; needs torch
    python benchmarks/optimize.py MODELS                                                      # all of it, about half an hour
    python benchmarks/optimize.py MODELS --only vit light_resnet50 --peers onnxsim --runs 11
    python benchmarks/optimize.py MODELS --only bert_h256 gpt2_h256 --peers onnxsim passat_level_2   # other exports, other levels

Everything is called in process, from ModelProto to ModelProto, with default settings (Passat without verification, since the others do not
verify by default). Each optimizer has one process per model, so that a crash or an endless loop costs one cell; after a warm-up the
processes take turns, one call each, and medians of wall time are shown. The tables go to standard output as Markdown.
"""

import argparse
import functools
import json
import math
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

import graphs
import onnx
import peers

OFFICIAL: Final = (
    "bert_torchscript_dynamic",
    "gpt2_dynamo_dynamic",
    "llama_torchscript_dynamic",
    "vit_dynamo_static",
    "swin_torchscript_static",
    "t5_dynamo_dynamic",
    "whisper_torchscript_static",
    "mixtral_dynamo_static",
)
"""The eight transformer exports, from both exporters of torch, with fixed and with named dimensions."""
SYNTHETIC: Final[Mapping[str, Callable[[], onnx.ModelProto]]] = {
    "chain_5000": lambda: graphs.chain(5_000),
    "wide_20000": lambda: graphs.wide(20_000),
}


def passat(model: onnx.ModelProto, level: int = 3) -> onnx.ModelProto:
    """Run Passat with its whole default pipeline, without comparing values."""
    from passat import optimize

    return optimize(model, verify=False, opt_level=level).model


OURS: Final = passat.__name__
OTHERS: Final = {**peers.PEERS, **{f"passat_level_{level}": functools.partial(passat, level=level) for level in (1, 2)}}
OPTIMISERS: Final = {OURS: passat, **OTHERS}


class Cell(NamedTuple):
    """The result of one optimizer on one model: median seconds, nodes and bytes of the result, whether onnx.checker accepts it, and the
    error."""

    seconds: float | None = None
    nodes: int | None = None
    size: int | None = None
    checker: bool | None = None
    error: str = ""
    runs: int = 0


def work(name: str, path: Path, pipe: Connection) -> None:
    """The main loop of the process: optimizes once per "run" command, and answers "end" with its results."""
    with peers.silence():
        optimize, source = OPTIMISERS[name], onnx.load(path)
        result: onnx.ModelProto | None = None
        while pipe.recv() == "run":
            copy = onnx.ModelProto()
            copy.CopyFrom(source)
            result = None
            start = time.perf_counter()
            try:
                result = optimize(copy)
            except Exception as error:  # an optimizer may raise anything
                pipe.send(peers.sentence(error))
                return
            pipe.send(time.perf_counter() - start)
        assert result is not None
        complaint = ""
        try:
            onnx.checker.check_model(result)
        except (onnx.checker.ValidationError, ValueError) as rejection:
            complaint = peers.sentence(rejection)
        pipe.send((peers.node_count(result), result.ByteSize(), complaint))


class Worker:
    """A process that runs one optimizer on one model. `error` is the reason why it ended."""

    def __init__(self, name: str, path: Path, limit: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(name, path, other), daemon=True)
        self.process.start()
        other.close()
        self.limit = limit
        self.times: list[float] = []
        self.error = ""

    def _ask(self, word: str) -> Any:
        try:
            self.pipe.send(word)
            if not self.pipe.poll(self.limit):
                self.error = f"no result within {self.limit:.0f} s"
                self.process.kill()
                return None
            return self.pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self.process.join()
            self.error = f"ended with exit code {self.process.exitcode}"
            return None

    def run(self) -> None:
        """Optimizes once; the first time is not counted."""
        answer = self._ask("run")
        if isinstance(answer, str):
            self.error = answer
        elif answer is not None:
            self.times.append(answer)

    def end(self) -> Cell:
        """The results."""
        counted = self.times[1:] or self.times
        answer = None if self.error else self._ask("end")
        self.process.join(10)
        if answer is None:
            return Cell(error=self.error)
        nodes, size, error = answer
        return Cell(statistics.median(counted), nodes, size, not error, error, len(counted))


def measure(path: Path, names: Sequence[str], runs: int, limit: float, budget: float) -> dict[str, Cell]:
    """Runs optimizers in turn on a model: a warm-up, then `runs` rounds. An optimizer stops after `budget` seconds."""
    workers = {name: Worker(name, path, limit) for name in names}
    for worker in workers.values():
        worker.run()
    for _ in range(runs):
        for worker in workers.values():
            if not worker.error and sum(worker.times) < budget:
                worker.run()
    return {name: worker.end() for name, worker in workers.items()}


def tables(cells: Mapping[str, Mapping[str, Cell]], before: Mapping[str, tuple[int, int]], names: Sequence[str]) -> str:
    """The results as Markdown."""
    others = [name for name in names if name != OURS]

    def rows(first: Callable[[str], str], cell: Callable[[Cell, Cell], str]) -> list[str]:
        head = ["model", first(""), *names]
        lines = [f"| {' | '.join(head)} |", "| :-- |" + " --: |" * (len(head) - 1)]
        for model, row in cells.items():
            lines.append(f"| {' | '.join([model, first(model), *(cell(row[name], row[names[0]]) for name in names)])} |")
        return lines

    def milliseconds(cell: Cell, ours: Cell) -> str:
        if cell.seconds is None:
            return "-"
        ratio = f" ({cell.seconds / ours.seconds:.2f})" if cell is not ours and ours.seconds else ""
        return f"{1000 * cell.seconds:.1f}{ratio}"

    def means(models: Sequence[str]) -> str:
        found = []
        for name in others:
            ratios = [
                theirs / ours
                for model in models
                if (theirs := cells[model][name].seconds) is not None and (ours := cells[model][names[0]].seconds) is not None
            ]
            found.append(f"{name} {math.exp(statistics.fmean(map(math.log, ratios))):.2f}" if ratios else f"{name} -")
        return ", ".join(found)

    real = [model for model in cells if model not in SYNTHETIC]
    lines = ["### Milliseconds", "", "In parentheses: the ratio to Passat's time.", ""]
    lines += rows(lambda model: f"{before[model][0]}" if model else "nodes", milliseconds)
    lines += ["", f"Geometric means of the {len(real)} real models: {means(real)}.", f"Of all {len(cells)}: {means(list(cells))}."]
    lines += ["", "### Nodes", "", "Without Constant and ConstantOfShape; x: onnx.checker rejects the result.", ""]
    lines += rows(
        lambda model: f"{before[model][0]}" if model else "in",
        lambda cell, _: "-" if cell.nodes is None else f"{cell.nodes}{'' if cell.checker else ' x'}",
    )
    lines += ["", "### Kilobytes", ""]
    lines += rows(
        lambda model: f"{before[model][1] / 1000:,.0f}" if model else "in",
        lambda cell, _: "-" if cell.size is None else f"{cell.size / 1000:,.0f}",
    )
    faults = [f"* {model}, {name}: {cell.error}" for model, row in cells.items() for name, cell in row.items() if cell.error]
    return "\n".join([*lines, *(["", "### What is wrong", "", *faults] if faults else [])])


def main() -> int:
    """Read the command line, measure, print the tables; returns 2 if models are missing."""
    parser = argparse.ArgumentParser(description="Compare passat.optimize with other optimizers of ONNX models.")
    parser.add_argument("folder", type=Path, metavar="MODELS", help="folder with the models of models.py")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="names that models, also others in MODELS, start with")
    parser.add_argument("--peers", nargs="*", choices=OTHERS, default=list(peers.PEERS))
    parser.add_argument("--runs", type=int, default=7, help="counted runs of each")
    parser.add_argument("--limit", type=float, default=400, help="seconds for one call")
    parser.add_argument("--budget", type=float, default=60, help="time limit of one optimizer on one model, in seconds")
    parser.add_argument("--json", type=Path, help="also write the results there")
    options = parser.parse_args()
    names = [OURS, *options.peers]
    with tempfile.TemporaryDirectory() as folder:
        wanted = tuple(options.only) or ("",)
        paths = graphs.light_models() | {name: options.folder / f"{name}.onnx" for name in OFFICIAL}
        if options.only:
            paths |= {path.stem: path for path in sorted(options.folder.glob("*.onnx"))}
        for name, build in SYNTHETIC.items():
            if name.startswith(wanted):
                paths[name] = Path(folder) / f"{name}.onnx"
                onnx.save(build(), paths[name])
        paths = {name: path for name, path in paths.items() if name.startswith(wanted)}
        missing = [name for name, path in paths.items() if not path.is_file()]
        if missing:
            print(f"not in {options.folder}: {', '.join(missing)}; make them with benchmarks/models.py", file=sys.stderr)
            return 2
        cells: dict[str, dict[str, Cell]] = {}
        before: dict[str, tuple[int, int]] = {}
        for model, path in paths.items():
            proto = onnx.load(path)
            before[model] = peers.node_count(proto), proto.ByteSize()
            cells[model] = measure(path, names, options.runs, options.limit, options.budget)
            told = ", ".join(f"{name} {1000 * (cell.seconds or math.nan):.1f} ms" for name, cell in cells[model].items())
            print(f"{model}: {told}", file=sys.stderr, flush=True)
    if options.json:
        document = {model: {name: cell._asdict() for name, cell in row.items()} for model, row in cells.items()}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    print(tables(cells, before, names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
