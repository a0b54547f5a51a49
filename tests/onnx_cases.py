"""The test cases of the onnx package for its operators, which take it several seconds to create: created once in each process."""

import functools
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from onnx.backend.test.case.test_case import TestCase

from tests.share import SOAK

_POOLINGS: Final = ("averagepool", "lppool", "maxpool")
"""The modules of 47 cases whose expected values take six of eight seconds."""


@functools.cache
def collected(*, poolings: bool = SOAK) -> Sequence[TestCase]:
    """The cases of operators, as `onnx.backend.test.case.node.collect_testcases` returns them; in CI without those of `_POOLINGS`, which
    have tests of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it divides by zero and overflows
        from onnx.backend.test.case import node

        left_out = [] if poolings else [name for module in _POOLINGS if (name := f"{node.__name__}.{module}") not in sys.modules]
        sys.modules.update((name, ModuleType(name)) for name in left_out)
        try:
            return tuple(node.collect_testcases(None))
        finally:
            for name in left_out:
                del sys.modules[name]
