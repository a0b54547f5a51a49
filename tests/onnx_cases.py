"""The test cases of the onnx package for its operators, which take it several seconds to create: created once, then read from `build/`."""

import functools
import os
import pickle
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx.backend.test.case.test_case import TestCase

BUILD = Path(__file__).resolve().parents[1] / "build"


@functools.cache
def collected() -> Sequence[TestCase]:
    """All cases of operators, as `onnx.backend.test.case.node.collect_testcases` returns them."""
    path = BUILD / f"onnx-cases-{onnx.__version__}-{np.__version__}.pickle"
    try:
        found: list[TestCase] = pickle.loads(path.read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError):
        found = created()
        path.parent.mkdir(exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(pickle.dumps(found))
        part.replace(path)  # at once: other processes may read it
    return found


def created() -> list[TestCase]:
    """The cases, computed by the package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it divides by zero and overflows
        from onnx.backend.test.case.node import collect_testcases

        return collect_testcases(None)
