"""Optimizes every available model, checks the result, compares it with the input, and optimizes it again.

    python benchmarks/corpus.py                          # the models and the operator tests of the installed onnx package
    python benchmarks/corpus.py FOLDER ...               # and every .onnx file in some folders
    python benchmarks/corpus.py --only FOLDER ...        # the folders alone
    python benchmarks/corpus.py --every 20               # every twentieth operator test
    python benchmarks/corpus.py --determinism            # also that two processes write the same bytes

For each model it checks that `onnx.checker` accepts the result; that its values are those of the original, on random inputs at
several sizes and on the inputs that come with the model, under ONNX Runtime with its optimizations off, or under onnx.reference if ONNX
Runtime cannot run it; that the file has not grown by more than the limit; that optimizing it again does not increase its cost. Operator
tests also run with all inputs but the first, and with all inputs, as constants, so that they are folded. The exit code is 1 if anything
fails.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where it runs as a program
import passat
from benchmarks.differences import difference
from passat.ir.onnx import OnnxError, check
from passat.ir.onnx.opaque import RANDOM
from passat.ir.onnx.sizes import model_bytes
from passat.runner import Runner
from passat.verify import Reference
from tests.onnx_cases import collected

MAX_GROWTH: Final = 1 << 20
"""Maximum growth of a file in bytes: the default of `rules.max_growth` for one folded constant."""
TRIALS: Final = 6
"""Choices of sizes for symbolic dimensions: all different, other ones, all 1, all 4, 8 and 16."""
DATA: Final = Path(onnx.__file__).parent / "backend" / "test" / "data"

Values = Sequence[Any]


@dataclass
class Case:
    """A model, or its file, and values for its inputs if it comes with some."""

    name: str
    model: ModelProto | Path
    inputs: Mapping[str, Any] | None = None
    quiet: bool = False
    """True if it gets a row only for errors."""


@dataclass
class Row:
    """The result of a case. `compared` names the runtime; `problem` is empty if everything is correct."""

    name: str
    nodes_before: int = 0
    nodes_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    seconds: float = 0.0
    compared: list[str] = field(default_factory=list)
    problem: str = ""

    def __str__(self) -> str:
        ratio = self.bytes_after / self.bytes_before if self.bytes_before else 1.0
        how = ", ".join(self.compared) or "not compared"
        return f"{self.name:44} {self.nodes_before:6} {self.nodes_after:6} {self.seconds:7.2f} {ratio:6.3f}  {self.problem or how}"


HEADING: Final = f"{'model':44} {'nodes':>6} {'after':>6} {'seconds':>7} {'bytes':>6}  compared"


def files(folder: Path) -> Iterator[Case]:
    """The models in a folder and below, with the first of their data sets."""
    for path in sorted(folder.rglob("*.onnx")):
        sets = sorted(path.parent.glob("test_data_set_*"))
        name = path.stem if path.stem != "model" else f"{path.parent.parent.name}/{path.parent.name}"
        inputs = None
        if sets and path.stem == "model":
            graph = onnx.load(path, load_external_data=False).graph
            given = [path_ for i in range(len(graph.input)) if (path_ := sets[0] / f"input_{i}.pb").exists()]
            inputs = {value.name: _read(file, value.type) for value, file in zip(graph.input, given, strict=False)}
        yield Case(name, path, inputs)


def _read(path: Path, kind: onnx.TypeProto) -> Any:
    data = path.read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(TensorProto.FromString(data))


def operator_tests(every: int = 1) -> Iterator[Case]:
    """ONNX's tests of its operators, or some of them, unchanged and with constants for inputs."""
    cases = sorted((case for case in collected() if case.model is not None and case.data_sets), key=lambda case: case.name)
    for case in cases[::every]:
        assert case.model is not None
        assert case.data_sets is not None
        values = list(case.data_sets[0][0])
        names = [value.name for value in case.model.graph.input]
        yield Case(case.name, case.model, dict(zip(names, map(_array, values), strict=False)), quiet=True)
        if len(values) == len(names) and all(isinstance(value, (np.ndarray, np.generic, TensorProto)) for value in values):
            for kept in sorted({0, min(1, len(values) - 1)}) if values else ():
                model = with_constants(case.model, values, kept)
                given = dict(zip(names[:kept], map(_array, values), strict=False))
                yield Case(f"{case.name} with {len(values) - kept} constants", model, given, quiet=True)


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def with_constants(model: ModelProto, values: Values, kept: int) -> ModelProto:
    """The model with all inputs but the first few as initializers."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for declared, value in list(zip(model.graph.input, values, strict=True))[kept:]:
        tensor = copy.graph.initializer.add()
        tensor.CopyFrom(value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value)))
        tensor.name = declared.name
    del copy.graph.input[kept:]
    return copy


def examine(case: Case) -> Row:
    """Optimizes a model and checks the requirements on the result."""
    row = Row(case.name)
    try:
        _examine(case, row)
    except Exception as error:  # any error: the other models still run
        row.problem = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return row


def _examine(case: Case, row: Row) -> None:
    folder = str(case.model.parent) if isinstance(case.model, Path) else None
    original = onnx.load(case.model, load_external_data=False) if isinstance(case.model, Path) else case.model
    before = original.SerializeToString()
    start = time.perf_counter()
    result = passat.optimize(original, verify=False, folder=folder)
    row.seconds = time.perf_counter() - start
    report, out = result.report, result.model
    row.nodes_before, row.nodes_after = report.node_count_before, report.node_count_after
    row.bytes_before, row.bytes_after = report.bytes_before, report.bytes_after
    problems = [
        "the input has been changed" if original.SerializeToString() != before else "",
        _form(original, out),
        f"grew by {row.bytes_after - row.bytes_before} bytes" if row.bytes_after - row.bytes_before > MAX_GROWTH else "",
        f"reported {row.bytes_after} bytes" if row.bytes_after != model_bytes(out) else "",
    ]
    if not report.kept:
        again = passat.optimize(out, verify=False, folder=folder).report
        if again.node_count_after > report.node_count_after:
            problems.append(f"a second run makes {again.node_count_after} nodes of {report.node_count_after}")
        problems += [_on_random_inputs(case, original, out, folder, row), _on_own_inputs(case, original, out, row)]
    else:
        row.compared.append("unchanged")
    row.problem = "; ".join(filter(None, problems))


def _form(original: ModelProto, out: ModelProto) -> str:
    """The error of `onnx.checker` for a result, if the original has none."""
    try:
        check(out)
    except OnnxError as error:
        try:
            check(original)
        except OnnxError:
            return ""
        return str(error)
    return ""


def _on_random_inputs(case: Case, original: ModelProto, out: ModelProto, folder: str | None, row: Row) -> str:
    source = case.model if isinstance(case.model, Path) else original
    report = Reference(source, trials=TRIALS, folder=folder).check(out)
    if report.equal:
        row.compared.append(f"{len(report.trials)} random inputs")
    return report.mismatch if report.equal is False else ""


def _on_own_inputs(case: Case, original: ModelProto, out: ModelProto, row: Row) -> str:
    if case.inputs is None or any(node.op_type in RANDOM for node in _nodes(original)):
        return ""
    for run in (_by_runtime, _by_reference):
        want = run(original, case.inputs)
        if want is not None:
            got = run(out, case.inputs)
            break
    else:
        return ""
    if got is None:
        return "the original runs on its own inputs, but the result does not"
    row.compared.append("own inputs")
    for i, (a, b) in enumerate(zip(want, got, strict=True)):
        found = difference(_plain(a), _plain(b))
        if found.reason:
            return f"on its own inputs output {i} {found.reason}"
    return ""


def _plain(value: Any) -> Any:
    """A value in its form for comparison: onnx.reference returns strings in two types."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        return value.astype(np.object_)
    return value


def _by_runtime(model: ModelProto, feed: Mapping[str, Any]) -> Values | None:
    try:
        return Runner(model, threads=1).run(feed)
    except Exception:  # ONNX Runtime lacks some operators, and has no exception class for that
        return None


def _by_reference(model: ModelProto, feed: Mapping[str, Any]) -> Values | None:
    try:
        return list(ReferenceEvaluator(model).run(None, dict(feed)))
    except Exception:  # the reference has no base class either
        return None


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    pending: list[Any] = [model.graph, *model.functions]
    while pending:
        for node in pending.pop().node:
            yield node
            for attribute in node.attribute:
                pending += [attribute.g] if attribute.HasField("g") else attribute.graphs


# ---- the same bytes from every process


def digests(cases: Iterable[Case]) -> dict[str, str]:
    """A digest of the optimized form of each model."""
    found: dict[str, str] = {}
    for case in cases:
        try:
            model = passat.optimize(case.model, verify=False).model
        except Exception as error:  # `examine` reports it
            found[case.name] = type(error).__name__
        else:
            found[case.name] = hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()
    return found


def differing(arguments: Sequence[str]) -> list[str]:
    """The models for which two processes with different hash seeds write different bytes."""
    outcomes: list[dict[str, str]] = []
    for seed in ("1", "2"):
        command = [sys.executable, str(Path(__file__).resolve()), *arguments, "--digests"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed})
        outcomes.append(json.loads(done.stdout))
    return [name for name in outcomes[0] if outcomes[0][name] != outcomes[1].get(name)]


# ---- the command


def cases_of(folders: Sequence[Path], *, onnx_too: bool, every: int) -> Iterator[Case]:
    """The settings of a command line."""
    if onnx_too:
        for folder in sorted(path for path in DATA.iterdir() if path.is_dir()):
            yield from files(folder)
        yield from operator_tests(every)
    for folder in folders:
        yield from files(folder)


def main() -> int:
    """Reads the command line, examines the models, prints the table, and returns 1 if there are errors."""
    parser = argparse.ArgumentParser(description="Optimize all available models, and check the results.")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--only", action="store_true", help="the folders alone, without the models of the onnx package")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th operator test of the onnx package")
    parser.add_argument("--determinism", action="store_true", help="also compare the results of two processes")
    parser.add_argument("--digests", action="store_true", help="print digests of the results, and nothing else")
    given = parser.parse_args()
    cases = cases_of(given.folders, onnx_too=not given.only, every=given.every)
    if given.digests:
        print(json.dumps(digests(cases)))
        return 0
    print(HEADING)
    failures, compared, count = 0, Counter[str](), 0
    for case in cases:
        row = examine(case)
        count += 1
        compared["compared" if row.compared else "not compared"] += 1
        failures += bool(row.problem)
        if row.problem or not case.quiet:
            print(row, flush=True)
    print(f"{count} models: {compared['compared']} compared, {compared['not compared']} could not be run, {failures} with problems")
    if given.determinism:
        arguments = [*map(str, given.folders), *(["--only"] if given.only else []), "--every", str(given.every)]
        different = differing(arguments)
        failures += len(different)
        print(
            f"two processes write the same bytes of all but {len(different)}: {', '.join(different[:20])}"
            if different
            else "two processes write the same bytes"
        )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
