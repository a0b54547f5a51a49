"""The audit of operators that have several versions: each sample in each version that accepts it, compared with ONNX Runtime without
optimizations.

`python -m tests.ir.onnx.opset_audit` (`make audit`) runs it completely; `test_opset_audit.py` runs a fixed share.
"""

import ctypes
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

import passat
from benchmarks.differences import difference
from passat.ir.onnx import OnnxError, from_onnx, to_onnx
from passat.ir.onnx.opset import in_opset
from passat.ir.onnx_runtime import onnx_runtime
from tests.ir.onnx.conftest import rebuilt_module
from tests.ir.onnx.opset_samples import Array, Sample, all_samples

OLDEST: Final = 7
"""The oldest opset that ONNX Runtime and Passat's readers support."""
FORMS: Final = ("static", "symbolic", "unranked")
"""How a model declares the shapes of its inputs: completely, with names for all sizes, not at all."""
MATHS: Final = ("exact", "reassociate")
_RAW: Final = {
    "tensor(bfloat16)": TensorProto.BFLOAT16,
    "tensor(float8e4m3fn)": TensorProto.FLOAT8E4M3FN,
    "tensor(float8e5m2)": TensorProto.FLOAT8E5M2,
}
"""Types that NumPy lacks, by their names in ONNX Runtime."""


@dataclass(frozen=True)
class Case:
    """A sample in an opset."""

    sample: Sample
    opset: int

    def __str__(self) -> str:
        return f"opset {self.opset}: {self.sample}"


@dataclass(frozen=True)
class Finding:
    """A defect that the audit found."""

    check: str
    case: Case
    text: str

    def __str__(self) -> str:
        return f"{self.check}: {self.case}: {self.text}"


@lru_cache(1)
def runtime_opset() -> int:
    """The newest opset that ONNX Runtime runs."""
    newest: int = onnx.defs.onnx_opset_version()
    for opset in range(newest, OLDEST, -1):
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
        graph = helper.make_graph(
            [helper.make_node("Neg", ["x"], ["y"])], "g", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])]
        )
        try:
            session(model_of(graph, opset))
        except Exception:  # ONNX Runtime's errors have no base class of their own
            continue
        return opset
    raise AssertionError("ONNX Runtime runs nothing")


def model_of(graph: onnx.GraphProto, opset: int) -> ModelProto:
    """A model of a graph."""
    made: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = max(8, helper.find_min_ir_version_for(made.opset_import))
    return made


def session(model: ModelProto) -> Any:
    """A session with optimizations off."""
    ort = onnx_runtime()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model: ModelProto, given: Mapping[str, Array]) -> list[Any]:
    """The outputs of a model; those of types that NumPy lacks as raw bytes. Raises the errors of ONNX Runtime."""
    return _run(session(model), given)


def _run(made: Any, given: Mapping[str, Array]) -> list[Any]:
    names = [value.name for value in made.get_outputs()]
    raw = [value.name for value in made.get_outputs() if value.type in _RAW]
    plain = [name for name in names if name not in raw]
    found: dict[str, Any] = dict(zip(plain, made.run(plain, dict(given)) if plain else (), strict=True))
    if raw:
        ort_value = onnx_runtime().OrtValue
        feed = {name: ort_value.ortvalue_from_numpy(value) for name, value in given.items()}
        for name, value in zip(raw, made.run_with_ort_values(raw, feed), strict=True):
            found[name] = np.frombuffer(ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()), np.uint8)
    return [found[name] for name in names]


@lru_cache(1)
def versions() -> Mapping[str, Sequence[int]]:
    """The versions of each operator of the default domain with several versions, at least one of them after opset 7."""
    found: dict[str, list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found.setdefault(schema.name, []).append(schema.since_version)
    return {name: sorted(each) for name, each in sorted(found.items()) if len(each) > 1 and max(each) > OLDEST}


def spans(op_type: str) -> list[tuple[int, int, int]]:
    """For each version of an operator in opsets that ONNX Runtime runs: the version, and its first and last such opset."""
    every = versions()[op_type]
    ends = [*(later - 1 for later in every[1:]), runtime_opset()]
    found = [(since, max(since, OLDEST), min(end, runtime_opset())) for since, end in zip(every, ends, strict=True)]
    return [(since, first, last) for since, first, last in found if first <= last]


def cases(samples: Iterable[Sample], *, last: bool = False) -> list[Case]:
    """Each sample in the first opset of each version of its operator that accepts it; with `last`, also in the last one."""
    found: dict[Case, None] = {}
    for sample in samples:
        for _, first, end in spans(sample.op_type):
            low, high = max(first, sample.since), min(end, sample.until)
            if low <= high:
                found[Case(sample, low)] = None
                if last:
                    found[Case(sample, high)] = None
    return list(found)


def _types(sample: Sample, form: str) -> Iterator[ValueInfoProto]:
    for i, operand in enumerate(sample.operands):
        if operand is not None and i < sample.data:
            shape: Sequence[int | str] | None = operand.shape
            if form == "symbolic":
                shape = [f"d{i}_{axis}" for axis in range(operand.ndim)]
            elif form == "unranked":
                shape = None
            yield helper.make_tensor_value_info(f"i{i}", helper.np_dtype_to_tensor_dtype(operand.dtype), shape)


def model(case: Case, form: str, results: Sequence[ValueInfoProto] = ()) -> ModelProto:
    """The model of one node: its first operands are inputs, declared in the given form, the others initializers."""
    sample = case.sample
    inputs = list(_types(sample, form))
    known = {value.name for value in inputs}
    fixed = [
        numpy_helper.from_array(operand, f"i{i}")
        for i, operand in enumerate(sample.operands)
        if operand is not None and f"i{i}" not in known
    ]
    outputs = list(results) or [onnx.ValueInfoProto(name=f"o{i}") for i in range(sample.outputs)]
    return model_of(helper.make_graph([*sample.before, sample.node()], "g", inputs, outputs, fixed), case.opset)


def feeds(sample: Sample) -> dict[str, Array]:
    """The inputs of a sample's model."""
    return {f"i{i}": operand for i, operand in enumerate(sample.operands) if operand is not None and i < sample.data}


@lru_cache(1000)
def results_of(case: Case, form: str) -> tuple[ModelProto, list[Any]]:
    """The model of a case with declared outputs, and its results, which callers share. Raises the errors of ONNX Runtime."""
    bare = model(case, form)
    made = session(bare)
    found = _run(made, _read(bare, case.sample))
    declared: list[ValueInfoProto] = []
    for value, output in zip(found, made.get_outputs(), strict=True):
        if output.type in _RAW:
            declared.append(helper.make_tensor_value_info(output.name, _RAW[output.type], None))
        elif output.type.startswith("tensor"):
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            declared.append(helper.make_tensor_value_info(output.name, kind, value.shape if form == "static" else None))
        else:
            return bare, found
    return model(case, form, declared), found


def _read(made: ModelProto, sample: Sample) -> dict[str, Array]:
    names = {value.name for value in made.graph.input}
    return {name: value for name, value in feeds(sample).items() if name in names}


def compare(check: str, case: Case, expected: Sequence[Any], made: ModelProto) -> list[Finding]:
    """Compares the results of a model with the expected values."""
    try:
        found = run(made, _read(made, case.sample))
    except Exception as error:  # as above
        missing = re.search(r"implementation for (\w+)\(", str(error))
        own = {case.sample.op_type, *(node.op_type for node in case.sample.before)}
        kinds = {node.op_type for node in made.graph.node} - own
        if missing is not None and missing[1] not in kinds:  # ONNX Runtime supports only earlier versions of the operator
            return []
        return [Finding(check, case, f"does not run: {' '.join(str(error).split())[:300]}")]
    for i, (want, got) in enumerate(zip(expected, found, strict=True)):
        reason = difference(want, got).reason
        if reason:
            return [Finding(check, case, f"output {i} {reason}")]
    return []


def check_round_trip(case: Case, form: str) -> list[Finding]:
    """Checks that each node, read and written in the same opset, gives the same values."""
    original, expected = results_of(case, form)
    try:
        made = to_onnx(rebuilt_module(from_onnx(original)))
    except OnnxError as error:
        return [Finding(f"read and written, {form}", case, str(error))]
    return compare(f"read and written, {form}", case, expected, made)


def check_raised(case: Case, form: str, target: int) -> list[Finding]:
    """Checks the conversion to a later opset. Models that are rejected with a sentence are findings of their own kind, `rejected`."""
    original, expected = results_of(case, form)
    try:
        made = in_opset(original, target)
    except OnnxError as error:
        right = not has_form(case, target) or not has_kernel(case, form, target)
        return [] if right else [Finding("rejected", case, f"to {target}, {form}: {error}")]
    name = f"to {target}, {form}"
    if not has_form(case, target):
        return [Finding(name, case, "is written with operands that the operator does not take there")]
    if made.opset_import[0].version != target:
        return [Finding(name, case, "is not in that opset")]
    return compare(name, case, expected, made)


def has_form(case: Case, target: int) -> bool:
    """True if an operator accepts the operand types of a sample in a later opset: a few versions accept fewer types than earlier ones."""
    schema = onnx.defs.get_schema(case.sample.op_type, target, "")
    kinds = [None if operand is None else helper.np_dtype_to_tensor_dtype(operand.dtype) for operand in case.sample.operands[:1]]
    return all(kind is None or f"tensor({TensorProto.DataType.Name(kind).lower()})" in schema.inputs[0].types for kind in kinds)


def has_kernel(case: Case, form: str, target: int) -> bool:
    """True if ONNX Runtime also has the operator for the types of a sample in a later opset."""
    try:
        session(model(replace(case, opset=target), form))
    except Exception as error:  # ONNX Runtime's errors have no common base class
        return "implementation for" not in str(error)
    return True


def targets(case: Case, *, every: bool = False) -> list[int]:
    """The target opsets: the next one that changes the operator and the newest one, or all that change it."""
    later = [first for _, first, _ in spans(case.sample.op_type) if first > case.opset]
    chosen = later if every else later[:1]
    return sorted({*chosen, runtime_opset()} - {case.opset})


def check_folded(group: Sequence[Case], math: str) -> list[Finding]:
    """Checks constant folding on cases of one opset in one model whose operands are all constant."""
    whole, expected = _together(group)
    try:
        made = passat.optimize(whole, passes="FoldConstant", opt_level=4, verify=False, config={"rules.math": math}).model
        found = run(made, {})
    except Exception as error:  # separate runs show which case it was
        if len(group) == 1:
            return [Finding(f"folded, {math}", group[0], f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")]
        middle = len(group) // 2
        return check_folded(group[:middle], math) + check_folded(group[middle:], math)
    values = iter(found)
    findings: list[Finding] = []
    for case, wanted in zip(group, expected, strict=True):
        for i, want in enumerate(wanted):
            reason = difference(want, next(values)).reason
            if reason:
                findings.append(Finding(f"folded, {math}", case, f"output {i} {reason}"))
    return findings


def _together(group: Sequence[Case]) -> tuple[ModelProto, list[list[Any]]]:
    nodes: list[NodeProto] = []
    fixed: list[TensorProto] = []
    outputs: list[ValueInfoProto] = []
    expected: list[list[Any]] = []
    for at, case in enumerate(group):
        shared, values = results_of(case, "static")
        expected.append(values)
        made = ModelProto()
        made.CopyFrom(shared)
        fixed += [numpy_helper.from_array(operand, f"c{at}_i{i}") for i, operand in enumerate(case.sample.operands) if operand is not None]
        for node in made.graph.node:
            for attribute in node.attribute:
                for inner in attribute.g.node:
                    inner.input[:] = [f"c{at}_{name}" if name[:1] == "i" else name for name in inner.input]
            node.input[:] = [f"c{at}_{name}" if name else "" for name in node.input]
            node.output[:] = [f"c{at}_{name}" for name in node.output]
            nodes.append(node)
        for value in made.graph.output:
            value.name = f"c{at}_{value.name}"
            outputs.append(value)
    return model_of(helper.make_graph(nodes, "g", [], outputs, fixed), group[0].opset), expected


def runnable(chosen: Iterable[Case]) -> tuple[list[Case], dict[Case, str]]:
    """The cases that ONNX Runtime runs, and why it rejects the others."""
    good: list[Case] = []
    bad: dict[Case, str] = {}
    for case in chosen:
        try:
            results_of(case, "static")
        except Exception as error:  # as above
            bad[case] = " ".join(str(error).split())
        else:
            good.append(case)
    return good, bad


def by_opset(chosen: Iterable[Case], most: int = 64) -> Iterator[list[Case]]:
    """Groups of limited size of the cases of one opset."""
    groups: dict[int, list[Case]] = {}
    for case in chosen:
        groups.setdefault(case.opset, []).append(case)
    for group in groups.values():
        yield from (group[at : at + most] for at in range(0, len(group), most))


def main() -> int:
    """Runs the whole audit; the exit code is 1 if there are findings."""
    start = time.perf_counter()
    onnx_runtime().set_default_logger_severity(4)
    good, bad = runnable(cases(all_samples(), last=True))
    print(f"{len(good)} cases run on ONNX Runtime, {len(bad)} do not", flush=True)
    findings: list[Finding] = []
    conversions = 0
    for case in good:
        for form in FORMS:
            findings += check_round_trip(case, form)
            for target in targets(case, every=True):
                conversions += 1
                findings += check_raised(case, form, target)
    print(f"{conversions} conversions, {time.perf_counter() - start:.0f} s", flush=True)
    for math in MATHS:
        for group in by_opset(good):
            findings += check_folded(group, math)
    rejected = [finding for finding in findings if finding.check == "rejected"]
    wrong = [finding for finding in findings if finding.check != "rejected"]
    for finding in (*rejected, *wrong):
        print(finding)
    print(f"{len(rejected)} rejected, {len(wrong)} wrong, {time.perf_counter() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
