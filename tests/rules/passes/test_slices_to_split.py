"""SlicesToSplit: slices that are all the parts of a tensor become one split."""

import onnx
import pytest

from passat.optimizer import optimize
from passat.rules.passes.slices_to_split import SlicesToSplit
from tests.rules.passes.golden import becomes, stays

DATA = "%x: (4, 6)"
HALVES = "%0 = strided_slice(%x, begin=[3], end=[9223372036854775807], axes=[1]); %1 = strided_slice(%x, begin=[0], end=[3], axes=[-1]);"


def test_halves() -> None:
    becomes(
        SlicesToSplit(),
        DATA,
        HALVES + "divide(%0, %1)",
        "%0 = split(%x, indices_or_sections=2, axis=1); divide(%0.1, %0.0)",
        sharing=True,
    )


def test_parts_of_different_sizes_and_one_that_is_read_twice() -> None:
    becomes(
        SlicesToSplit(),
        DATA,
        "%0 = strided_slice(%x, begin=[0], end=[2], axes=[1]); %1 = strided_slice(%x, begin=[2], end=[-1], strides=[1], axes=[1]);"
        "%2 = strided_slice(%x, begin=[-1], end=[6], axes=[1]); (%0, %1, %2, strided_slice(%x, begin=[0], end=[-4], axes=[1]))",
        "%0 = split(%x, indices_or_sections=[2, 5], axis=1); (%0.0, %0.1, %0.2, %0.0)",
    )


def test_slices_of_slices() -> None:
    becomes(
        SlicesToSplit(),
        DATA,
        HALVES + "%2 = strided_slice(%0, begin=[0], end=[1], axes=[0]); %3 = strided_slice(%0, begin=[1], end=[4], axes=[0]); (%1, %2, %3)",
        "%0 = split(%x, indices_or_sections=2, axis=1); %1 = split(%0.1, indices_or_sections=[1], axis=0); (%0.0, %1.0, %1.1)",
    )


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        (DATA, "strided_slice(%x, begin=[0], end=[3], axes=[1])"),  # only one part
        (DATA, "(strided_slice(%x, begin=[0], end=[3], axes=[1]), strided_slice(%x, begin=[4], end=[6], axes=[1]))"),  # a gap
        (DATA, "(strided_slice(%x, begin=[0], end=[4], axes=[1]), strided_slice(%x, begin=[3], end=[6], axes=[1]))"),  # an overlap
        (DATA, "(strided_slice(%x, begin=[0], end=[2], axes=[0]), strided_slice(%x, begin=[2], end=[6], axes=[1]))"),  # other axes
        (
            DATA,
            "(strided_slice(%x, begin=[0], end=[6], strides=[2], axes=[1]), strided_slice(%x, begin=[1], end=[6], strides=[2], axes=[1]))",
        ),
        (DATA, "(strided_slice(%x, begin=[0, 0], end=[2, 6]), strided_slice(%x, begin=[2, 0], end=[4, 6]))"),  # two axes at once
        ("%x: (4, n)", "(strided_slice(%x, begin=[0], end=[2], axes=[1]), strided_slice(%x, begin=[2], end=[9], axes=[1]))"),
        ("%x: (4, 6), %y: (4, 6)", "(strided_slice(%x, begin=[0], end=[3], axes=[1]), strided_slice(%y, begin=[3], end=[6], axes=[1]))"),
    ],
)
def test_unchanged_programs(signature: str, body: str) -> None:
    stays(SlicesToSplit(), signature, body)


KEPT = {"SplitToSequence", "SequenceAt", "Sub"}


@pytest.mark.parametrize(
    ("split", "shape", "wanted"),
    [
        ("SplitToSequence<axis = 1>(x)", "a, b", {"Split", "Sub"}),  # parts of one element each
        ("SplitToSequence<axis = 1, keepdims = 0>(x)", "a", KEPT),  # parts with one axis less
        ("SplitToSequence<axis = 1>(x, one)", "a, b", {"Split", "Sub"}),
        ("SplitToSequence<axis = 1, keepdims = 0>(x, one)", "a", KEPT),  # as in ONNX Runtime
        ("SplitToSequence<axis = 1>(x, n)", "a, b", KEPT),  # parts of unknown length
    ],
)
def test_elements_of_sequences(split: str, shape: str, wanted: set[str]) -> None:
    model = onnx.parser.parse_model(
        f"""
        <ir_version: 9, opset_import: ["": 18]>
        main (float[3, 2] x, int64 n) => (float[{shape}] y) <int64 one = {{1}}, int64 zero = {{0}}>
        {{ q = {split} a = SequenceAt(q, zero) b = SequenceAt(q, one) y = Sub(a, b) }}
        """
    )
    result = optimize(model, passes="SlicesToSplit", verify=wanted != KEPT)
    assert {node.op_type for node in result.model.graph.node} == wanted
