"""The test cases of the onnx package for its operators, which take it several seconds to create: a file below `build` keeps them for other
processes."""

import functools
import os
import pickle
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx.backend.test.case.test_case import TestCase

_FILE: Final = (
    Path(__file__).resolve().parents[1] / "build" / f"onnx-{onnx.__version__}-numpy-{np.__version__}.{sys.implementation.cache_tag}.cases"
)


@functools.cache
def collected() -> Sequence[TestCase]:
    """All cases of operators, as `onnx.backend.test.case.node.collect_testcases` returns them."""
    if _FILE.exists():
        kept: Sequence[TestCase] = pickle.loads(_FILE.read_bytes())
        return kept
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it divides by zero and overflows
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    _FILE.parent.mkdir(exist_ok=True)
    written = _FILE.with_suffix(f".{os.getpid()}.tmp")
    written.write_bytes(pickle.dumps(cases))
    written.replace(_FILE)  # other processes see the whole file or none
    return cases
