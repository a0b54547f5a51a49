"""Invalid nodes are read, or rejected with a sentence; none crashes the process, and none keeps it busy forever."""

import contextlib

import pytest

from passat.ir.onnx import OnnxError, from_onnx, to_onnx
from tests.fuzz.absurd import distinct_cases, model_of, older_cases, spoiled
from tests.share import share

STEP = share(8, 1)


@pytest.mark.parametrize("block", range(4))
def test_nodes_that_make_no_sense(block: int) -> None:
    for node, inputs, opset in distinct_cases()[block :: 4 * STEP]:
        for broken in spoiled(node):
            with contextlib.suppress(OnnxError):
                to_onnx(from_onnx(model_of(broken, inputs, opset), lenient=True))


@pytest.mark.parametrize("block", range(4))
def test_nodes_of_older_opsets_that_make_no_sense(block: int) -> None:
    """Their operands are constants, which readers inspect."""
    for node, constants, opset in older_cases()[block :: 4 * share(16, 1)]:
        for broken in spoiled(node):
            with contextlib.suppress(OnnxError):
                to_onnx(from_onnx(model_of(broken, (), opset, constants), lenient=True))
