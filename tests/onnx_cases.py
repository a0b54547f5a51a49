"""The test cases of the onnx package for its operators, which take it several seconds to create: created once in each process."""

import functools
import warnings
from collections.abc import Sequence

from onnx.backend.test.case.test_case import TestCase


@functools.cache
def collected() -> Sequence[TestCase]:
    """All cases of operators, as `onnx.backend.test.case.node.collect_testcases` returns them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it divides by zero and overflows
        from onnx.backend.test.case.node import collect_testcases

        return collect_testcases(None)
