"""ONNX's backend interface: models and nodes are computed by the kernels, opaque nodes in the ways that the module names."""

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.base import Backend

from passat import onnx_backend
from passat.ir.tensor import Array
from passat.onnx_backend import PassatBackend
from passat.runtime import ExecutorError


def float32(values: list[float]) -> Array:
    return np.array(values, np.float32)


def int64(values: list[int]) -> Array:
    return np.array(values, np.int64)


def model(nodes: str, opset: int = 21) -> onnx.ModelProto:
    """The model of a graph in ONNX's text form."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {nodes}')


def test_the_module_and_the_class_have_the_interface_of_backends() -> None:
    assert issubclass(PassatBackend, Backend)
    assert onnx_backend.supports_device("CPU")
    assert not onnx_backend.supports_device("CUDA:0")
    with pytest.raises(ValueError, match="Passat computes on the CPU"):
        onnx_backend.prepare(model("g (float[2] x) => (float[2] y) { y = Relu(x) }"), "CUDA")


def test_a_model_is_run_again_with_other_values() -> None:
    prepared = onnx_backend.prepare(model("g (float[n] x) => (float[n] y, float[n] z) { y = Relu(x) z = Neg(y) }"))
    for values in ([-1.0, 2.0], [3.0]):
        x = float32(values)
        y, z = prepared.run([x])
        np.testing.assert_array_equal(y, np.maximum(x, 0))
        np.testing.assert_array_equal(z, -y)
    assert not prepared.by_reference


def test_initializers_are_the_defaults_of_inputs() -> None:
    added = model("g (float[2] x, float[2] b) => (float[2] y) { y = Add(x, b) }")
    with pytest.raises(TypeError, match="the input 'b' has no value"):
        onnx_backend.run_model(added, [float32([1, 2])])
    added.graph.initializer.append(onnx.numpy_helper.from_array(float32([10, 20]), "b"))
    (found,) = onnx_backend.run_model(added, [float32([1, 2])])
    assert found.tolist() == [11, 22]
    (found,) = onnx_backend.run_model(added, [float32([1, 2]), float32([0, 0])])
    assert found.tolist() == [1, 2]
    with pytest.raises(TypeError, match="has 2 inputs, but got 3 values"):
        onnx_backend.run_model(added, [float32([1, 2])] * 3)


def test_one_node_is_run() -> None:
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    (found,) = onnx_backend.run_node(node, [float32([1, 9]), np.float32(5)], opset_version=13)
    assert found.tolist() == [1, 5]
    with pytest.raises(TypeError, match="has 2 inputs, but got 1 value"):
        onnx_backend.run_node(node, [float32([1, 9])])


def test_a_node_that_is_opaque_for_lack_of_types_is_computed_by_kernels() -> None:
    opaque = model("g (float[2, 3] x, int64[k] axes) => (y) { y = ReduceSum <keepdims = 0> (x, axes) }", 18)
    prepared = onnx_backend.prepare(opaque)
    (found,) = prepared.run([np.ones((2, 3), np.float32), int64([1])])
    assert found.tolist() == [3, 3]
    assert not prepared.by_reference


def test_an_operator_is_computed_by_its_body() -> None:
    prepared = onnx_backend.prepare(model("g (float[2, 3, 1, 4] x) => (float[2, 3, 1, 4] y) { y = MeanVarianceNormalization(x) }"))
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 1, 4)
    (found,) = prepared.run([x])
    expected = (x - x.mean((0, 2, 3), keepdims=True)) / x.std((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert not prepared.by_reference


def test_what_the_reference_implementation_computes_is_named() -> None:
    prepared = onnx_backend.prepare(model("g (int32[2] x) => (float[2] y) { y = BitCast <to = 1> (x) }", 26))
    (found,) = prepared.run([np.array([0, 1 << 30], np.int32)])
    assert found.tolist() == [0, 2]
    assert prepared.by_reference == {"BitCast"}


def test_branches_and_loops_call_their_subgraphs() -> None:
    branching = model(
        """g (bool c, float[2] x) => (float[2] y) {
             y = If (c) <then_branch = a () => (float[2] p) { p = Neg(x) }, else_branch = b () => (float[2] q) { q = Abs(x) }>
           }"""
    )
    for taken, expected in ((True, [1, -2]), (False, [1, 2])):
        (found,) = onnx_backend.run_model(branching, [np.bool_(taken), float32([-1, 2])])
        assert found.tolist() == expected
    looping = model(
        """g (int64 n, bool c, int64[1] s) => (int64[1] total, int64[?, 1] all) {
             total, all = Loop (n, c, s) <body = b (int64 i, bool go, int64[1] t) => (bool again, int64[1] u, int64[1] v) {
               again = Identity(go) u = Add(t, i) v = Identity(u)
             }>
           }"""
    )
    for count, total, every in ((4, [6], [[0], [1], [3], [6]]), (0, [0], [])):
        found, stacked = onnx_backend.run_model(looping, [np.int64(count), np.bool_(True), int64([0])])
        assert (found.tolist(), stacked.tolist()) == (total, every)
        assert stacked.shape == (count, 1)


def test_sequences_are_lists() -> None:
    places = model(
        "g (seq(float[k]) s, int64 at, float[k] x) => (seq(float[k]) t, int64 n) { t = SequenceInsert(s, x, at) n = SequenceLength(t) }"
    )
    first, second, new = float32([1]), float32([2]), float32([3])
    found, count = onnx_backend.run_model(places, [[first, second], np.int64(-1), new])
    assert [each.tolist() for each in found] == [[1], [3], [2]]
    assert count == 3
    with pytest.raises(ExecutorError, match="position 7 is out of range in a sequence of 2"):
        onnx_backend.run_model(places, [[first, second], np.int64(7), new])
    there = model("g (optional(float[1]) o) => (bool b) { b = OptionalHasElement(o) }")
    assert [onnx_backend.run_model(there, [value])[0].item() for value in (None, first)] == [False, True]
