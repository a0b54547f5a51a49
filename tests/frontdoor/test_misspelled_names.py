"""Misspelled names of operators, passes, arguments and layouts."""

import re
import traceback
from collections.abc import Callable

import pytest

import passat
from passat import relay, transform

x, w, m = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3)), relay.var("m", shape=(2, 3))


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        (relay, "Relu", "relay has no 'Relu'; did you mean relay.nn.relu?"),
        (relay, "multiplyy", "relay has no 'multiplyy'; did you mean multiply?"),
        (relay.op, "Relu", "relay.op has no 'Relu'; did you mean relay.nn.relu?"),
        (relay.nn, "ReLU", "relay.nn has no 'ReLU'; did you mean relu?"),
        (relay.nn, "add", "relay.nn has no 'add'; did you mean relay.add or relay.qnn.op.add?"),
        (relay.image, "resize_2d", "relay.image has no 'resize_2d'; did you mean resize2d"),
        (relay.qnn.op, "quantise", "relay.qnn.op has no 'quantise'; did you mean quantize"),
        (relay.analysis, "free_var", "relay.analysis has no 'free_var'; did you mean free_vars"),
        (relay.testing, "resnet50", "relay.testing has no 'resnet50'; did you mean resnet"),
        (relay.transform, "FoldConstants", "relay.transform has no pass 'FoldConstants'; did you mean FoldConstant"),
        (transform, "FoldConstants", "transform has no 'FoldConstants'; did you mean relay.transform.FoldConstant"),
        (transform, "Sequental", "transform has no 'Sequental'; did you mean Sequential?"),
        (passat.instrument, "PassTiming", "instrument has no 'PassTiming'; did you mean PassTimingInstrument?"),
        (passat.nd, "arrays", "nd has no 'arrays'; did you mean array"),
        (passat, "IRModul", "passat has no attribute 'IRModul'; did you mean IRModule?"),
        (relay, "qqqqqq", "relay has no 'qqqqqq'"),
        (relay, "frontend", "relay has no 'frontend'; did you mean passat.ir.onnx.load?"),
        (relay, "quantize", "relay has no 'quantize', which calibrates: docs/coming-from/tvm.md lists what is not supported"),
        (passat, "topi", "passat has no attribute 'topi': docs/coming-from/tvm.md lists what is not supported"),
        (passat, "cuda", "passat has no attribute 'cuda'; did you mean cpu?"),
        (passat.target, "cuda", "target has no 'cuda'; Passat computes on the CPU: use Target('llvm')"),
    ],
)
def test_similar_names_are_suggested(module: object, name: str, message: str) -> None:
    with pytest.raises(AttributeError, match=f"^{re.escape(message)}") as raised:
        getattr(module, name)
    (line,) = traceback.format_exception_only(raised.value)
    assert "Did you mean" not in line  # Python's own hint, behind ours


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: relay.nn.conv2d(x, w, stride=1), "got an unexpected keyword argument 'stride'; did you mean strides?"),  # type: ignore[call-arg]  # a mistake
        (lambda: relay.nn.max_pool2d(x, pool=2), "got an unexpected keyword argument 'pool'; did you mean pool_size?"),  # type: ignore[call-arg]  # a mistake
        (
            lambda: relay.nn.softmax(m, axes=1),  # type: ignore[call-arg]  # a mistake
            "relay.nn.softmax(data, axis=-1): got an unexpected keyword argument 'axes'; did you mean axis?",
        ),
        (lambda: relay.reshape(m, shape=(6,)), "got an unexpected keyword argument 'shape'; did you mean newshape?"),  # type: ignore[call-arg]  # a mistake
        (lambda: relay.image.resize2d(x, sizes=(4, 4)), "relay.image.resize2d(data, size"),  # type: ignore[call-arg]  # a mistake
        (lambda: relay.qnn.op.quantize(x, w, w, axes=1), "relay.qnn.op.quantize(data, output_scale"),  # type: ignore[call-arg]  # a mistake
        (lambda: relay.nn.conv2d(x), "missing a required argument: 'weight'"),  # type: ignore[call-arg]  # a mistake
        (lambda: relay.clip(x, 1), "relay.clip(a, a_min, a_max): missing a required argument: 'a_max'"),  # type: ignore[call-arg]  # a mistake
        (lambda: relay.std(x, axes=1), "did you mean axis?"),  # type: ignore[call-arg]  # a mistake
    ],
)
def test_similar_arguments_are_suggested(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        call()


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("XYZ", "'NCHW' and 'XYZ' have different axes; both name the same capital letters"),
        ("nchw", "'nchw' is not a layout; write axes as capitals, and blocks as in NCHW4c; did you mean NCHW?"),
        (None, "a layout must be a text such as NCHW, not None"),
    ],
)
def test_unknown_layouts_of_layout_transform(layout: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"relay.layout_transform: {message}")):
        relay.layout_transform(x, "NCHW", layout)


@pytest.mark.parametrize(
    ("desired", "message"),
    [
        ({"nn.conv2d": ["NHCW", "default"]}, "no default kernel layout for the data layout NHCW; name one; did you mean NHWC or NCHW?"),
        ({"nn.conv2dd": ["NHWC", "default"]}, "nn.conv2dd has no layouts; "),
    ],
)
def test_similar_layouts_are_suggested(desired: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        relay.transform.ConvertLayout(desired)
