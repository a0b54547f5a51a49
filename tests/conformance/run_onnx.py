"""Runs the backend tests of the onnx package against Passat's kernels and against `onnx.reference`: `python -m tests.conformance.run_onnx`.

Each test is run by both backends in the same process. A test passes by kernels if no operator was computed by the reference implementation,
which computes those that Passat does not model. Results are compared by ONNX's own test runner.
"""

import argparse
import os
import re
import unittest
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any as AnyValue
from typing import Final
from unittest import mock

import onnx
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest, loader
from onnx.reference import ReferenceEvaluator

from passat.onnx_backend import PassatBackend, PassatRep
from tests.onnx_cases import collected

GROUPS: Final = {
    "OnnxBackendNodeModelTest": "node",
    "OnnxBackendSimpleModelTest": "simple",
    "OnnxBackendPyTorchConvertedModelTest": "PyTorch, layers",
    "OnnxBackendPyTorchOperatorModelTest": "PyTorch, operators",
    "OnnxBackendRealModelTest": "models (weights are random)",
}
"""Classes of ONNX's test runner, and their names in the table."""
SKIPPED: Final = {
    re.compile("^test_image_decoder_"): "decoding images needs Pillow, also in onnx.reference",
    re.compile("^test_bernoulli"): "random results are compared with those of one generator; onnx.reference fails, too",
}
"""Tests that are not counted, and why."""


class _ReferenceRep(BackendRep):
    def __init__(self, model: onnx.ModelProto) -> None:
        self._evaluator = ReferenceEvaluator(model)
        fixed = {tensor.name for tensor in model.graph.initializer}
        self._names = [value.name for value in model.graph.input if value.name not in fixed]

    def run(self, inputs: AnyValue, **kwargs: AnyValue) -> tuple[AnyValue, ...]:
        return tuple(self._evaluator.run(None, dict(zip(self._names, inputs, strict=True))))


class Both(Backend):
    """The two backends, one of them current; keeps the model that Passat prepared last."""

    reference = False
    last: PassatRep | None = None

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: AnyValue) -> BackendRep:
        Both.last = None
        if Both.reference:
            return _ReferenceRep(model)
        Both.last = PassatBackend.prepare(model, device)
        return Both.last

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return PassatBackend.supports_device(device)


@dataclass
class Found:
    """The outcome of the tests of one group."""

    kernels: list[str] = field(default_factory=list)
    helped: dict[str, list[str]] = field(default_factory=dict)  # operators that the reference implementation computed
    failed: dict[str, str] = field(default_factory=dict)
    reference: set[str] = field(default_factory=set)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return len(self.kernels) + len(self.helped) + len(self.failed)

    @property
    def missing(self) -> list[str]:
        """Tests that only the reference implementation passes."""
        return [name for name in self.failed if name in self.reference]


def failure(case: unittest.TestCase, *, reference: bool) -> str:
    """Why a test fails with one of the backends; empty if it passes."""
    Both.reference = reference
    result = unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case.run(result)
    wrong = [text for _, text in (*result.errors, *result.failures)]
    return " ".join(wrong[0].split())[-300:] if wrong else ""


def run(pattern: str = "", every: int = 1, groups: Iterable[str] = GROUPS, *, compared: bool = True) -> dict[str, Found]:
    """Runs the CPU tests of some groups whose names match a pattern, or every n-th of them. Unless `compared`, the reference implementation
    runs only those that fail."""
    with mock.patch.object(loader, "load_node_model_tests", partial(collected, poolings=every == 1)):
        cases = BackendTest(Both).test_cases
    wanted = re.compile(pattern)
    results: dict[str, Found] = {}
    for group in groups:
        found = results[GROUPS[group]] = Found()
        names = [name for name in vars(cases[group]) if name.startswith("test_") and name.endswith("_cpu") and wanted.search(name)]
        for name in names[::every]:
            why = next((why for skipped, why in SKIPPED.items() if skipped.search(name)), None)
            if why is not None:
                found.skipped[name] = why
                continue
            problem = failure(cases[group](name), reference=False)
            helped = sorted(Both.last.by_reference) if Both.last else []
            if (compared or problem) and not failure(cases[group](name), reference=True):
                found.reference.add(name)
            if problem:
                found.failed[name] = problem
            elif helped:
                found.helped[name] = helped
            else:
                found.kernels.append(name)
    return results


def table(results: dict[str, Found]) -> Iterator[str]:
    """Lines of a Markdown table: how many tests pass, by group."""
    yield "| tests | of | by Passat's kernels | with nodes computed by onnx.reference | fail | onnx.reference passes | only onnx.reference passes | skipped |"
    yield "| :-- | --: | --: | --: | --: | --: | --: | --: |"
    whole: Counter[int] = Counter()
    for title, found in results.items():
        parts = (found.kernels, found.helped, found.failed, found.reference, found.missing, found.skipped)
        counts = [found.total, *map(len, parts)]
        whole += Counter(dict(enumerate(counts)))
        yield f"| {title} | {' | '.join(map(str, counts))} |"
    yield f"| **all** | {' | '.join(f'**{whole[i]}**' for i in range(7))} |"


def helping(results: Iterable[Found]) -> Iterator[str]:
    """The operators that the reference implementation computed, with the number of tests."""
    counted = Counter(name for found in results for names in found.helped.values() for name in names)
    yield ", ".join(f"{name} ({count})" for name, count in sorted(counted.items()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line, runs the tests, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="PATTERN", help="tests whose name matches")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each n-th test")
    parser.add_argument("--failures", action="store_true", help="say of each test that fails why")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        os.environ.setdefault("ONNX_MODELS", folder)  # where the runner writes inputs of models
        results = run(options.only, options.every)
    print("\n".join(table(results)))
    print("\nComputed by onnx.reference (tests):", *helping(results.values()))
    if options.failures:
        for found in results.values():
            for name, reason in found.failed.items():
                print(f"{name}{'' if name in found.reference else ' (onnx.reference, too)'}: {reason}")


if __name__ == "__main__":
    main()
