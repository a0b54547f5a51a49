"""Models with wrong or unusual declarations that ONNX Runtime runs: Passat reads all of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, TypeProto, ValueInfoProto, helper

import passat
from passat.ir.onnx import OnnxError
from passat.runner import Runner
from tests.corpus.optimizing import parse, run

Change = Callable[[ModelProto], object]

CHAIN = "g (float[2, 3] x) => (float[2, 3] y) { a = Relu(x) b = Neg(a) y = Neg(b) }"
PRODUCT = "g (float[2, 3] x) => (float[2, 4] y) <float[3, 4] w = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}> { y = MatMul(x, w) }"
LOOP = """g (float[2, 3] x) => (float[N, M] y) <int64 n = {{2}}> {{
    y = Loop(n, , x) <body = b (int64 i, bool c, {0} v) => (bool d, {0} w) {{ d = Identity(c) w = Concat<axis = 0>(v, v) }}>
}}"""
CHOICE = """g (float[2, 3] x, bool c) => (float{2} y) {{
    y = If(c) <then_branch = t () => (float{0} a) {{ a = Neg(x) }}, else_branch = e () => (float{1} b) {{ b = Relu(x) }}>
}}"""
FUNCTION = CHAIN.replace("Relu", "my.F") + ' <opset_import: ["" : 18], domain: "my"> F (p) => (q) { r = Neg(p) q = Neg(r) }'


def value(name: str, *shape: int | str | None, element: int = TensorProto.FLOAT) -> ValueInfoProto:
    made: ValueInfoProto = helper.make_tensor_value_info(name, element, shape)
    return made


def tensor(name: str, *dims: int) -> TensorProto:
    made: TensorProto = helper.make_tensor(name, TensorProto.FLOAT, dims, range(int(np.prod(dims))))
    return made


def declared(name: str, *shape: int | str | None) -> Change:
    return lambda model: model.graph.value_info.append(value(name, *shape))


def output(index: int, *shape: int | str | None) -> Change:
    return lambda model: model.graph.output[index].CopyFrom(value(model.graph.output[index].name, *shape))


def both(first: Change, second: Change) -> Change:
    def change(model: ModelProto) -> None:
        first(model)
        second(model)

    return change


def without_type(model: ModelProto) -> None:
    model.graph.output[0].ClearField("type")


def without_domains(model: ModelProto) -> None:
    kept = [entry for entry in model.opset_import if not entry.domain]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def old(version: int) -> Change:
    def change(model: ModelProto) -> None:
        model.ir_version = version
        model.opset_import[0].version = 7

    return change


def with_input(model: ModelProto) -> None:
    """An initializer that is also an input."""
    model.graph.input.append(value("w", 3, 4))


def odd_flag(model: ModelProto) -> None:
    model.graph.node[0].attribute.append(helper.make_attribute("keepdims", 2))


def sizes_in_rows(model: ModelProto) -> None:
    model.graph.initializer[0].dims[:] = [1, 4]


def sequence(model: ModelProto) -> None:
    model.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, [7]))


def sparse(model: ModelProto) -> None:
    indices = helper.make_tensor("", TensorProto.INT64, [2], [0, 5])
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2]), indices, [3, 4])
    )


def nothing(_: ModelProto) -> None:
    pass


MODELS: dict[str, tuple[str, Change]] = {
    "an output of other sizes": (CHAIN, output(0, 2, 7)),
    "an output of another rank": (CHAIN, output(0, 1, "s")),
    "an output of another rank, of a computed value": (CHAIN.replace("Neg(b)", "NonZero(b)").replace("(float[2, 3] y)", "(int64[7] y)"), nothing),
    "an output without a type": (CHAIN, without_type),
    "an output without a type, nothing to do": ("g (float[2] x) => (float[2] y) { y = Relu(x) }", without_type),
    "an output without a shape": (CHAIN, lambda model: model.graph.output[0].type.tensor_type.ClearField("shape")),
    "an output that is an initializer of other sizes": (PRODUCT, lambda model: model.graph.output.append(value("w", 9))),
    "an output that is an input": (CHAIN, lambda model: model.graph.output.append(value("x", 2, 3))),
    "an output twice": (CHAIN, lambda model: model.graph.output.append(model.graph.output[0])),
    "an input without a shape": (CHAIN, lambda model: model.graph.input[0].type.tensor_type.ClearField("shape")),
    "a negative size": (CHAIN, lambda model: model.graph.input[0].CopyFrom(value("x", -1, 3))),
    "a value of other sizes": (CHAIN, declared("a", 2, 9)),
    "a value of another rank": (CHAIN, declared("a", 9)),
    "a value without a type": (CHAIN, lambda model: model.graph.value_info.append(ValueInfoProto(name="a"))),
    "a value of an unknown type": (CHAIN, lambda model: model.graph.value_info.append(ValueInfoProto(name="a", type=TypeProto()))),
    "a value twice": (CHAIN, lambda model: model.graph.value_info.extend([value("a", 2, 3), value("a", 2, 4)])),
    "an input among the values": (CHAIN, declared("x", 5)),
    "an initializer among the values": (PRODUCT, declared("w", 5)),
    "an output among the values": (CHAIN, declared("y", 5)),
    "an empty name among the values": (CHAIN, declared("", 5)),
    "sizes of what depends on data": (CHAIN.replace("Relu(x)", "Compress<axis = 0>(x, k)").replace("float[2, 3] x", "float[2, 3] x, bool[2] k"), declared("a", 7, 7)),
    "a value of a function": (FUNCTION, declared("a", 5, 5)),
    "a value of an operator of ONNX Runtime": (CHAIN.replace("Relu", "com.microsoft.Gelu"), declared("a", 7)),
    "the same, and a shape is requested": (
        "g (float[3, 3] x) => (int64[2] y) { a = com.microsoft.Gelu(x) b = Neg(a) y = Shape(b) }",
        lambda model: model.graph.value_info.extend([value("a", 7, 7), value("b", 3, 3)]),
    ),
    "a domain that is not imported": (CHAIN.replace("Relu", "com.microsoft.Gelu"), without_domains),
    "the domain of ONNX by its other name": (CHAIN, lambda model: setattr(model.graph.node[0], "domain", "ai.onnx")),
    "imports that are unused": (CHAIN, lambda model: model.opset_import.append(helper.make_opsetid("foo.bar", 3))),
    "an import twice": (CHAIN, lambda model: model.opset_import.append(helper.make_opsetid("ai.onnx", 18))),
    "IR version 0": (CHAIN, old(0)),
    "IR version 1": (CHAIN, old(1)),
    "IR version 3": (PRODUCT, old(3)),
    "IR version 3, an initializer that is an input": (PRODUCT, both(old(3), with_input)),
    "an initializer that is an input": (PRODUCT, with_input),
    "an initializer twice": (PRODUCT, lambda model: model.graph.initializer.append(tensor("w", 3, 4))),
    "an initializer without a name": (CHAIN, lambda model: model.graph.initializer.append(tensor("", 2))),
    "a sparse initializer": (PRODUCT, both(lambda model: model.graph.ClearField("initializer"), sparse)),
    "a graph without a name": (CHAIN, lambda model: setattr(model.graph, "name", "")),
    "nodes out of order": ("g (float[2, 3] x) => (float[2, 3] y) { y = Neg(b) b = Neg(a) a = Relu(x) }", nothing),
    "no nodes": ("g (float[2] x) => (float[2] x) { }", nothing),
    "no inputs": (PRODUCT.replace("float[2, 3] x", "").replace("MatMul(x, w)", "Neg(w)").replace("[2, 4]", "[3, 4]"), nothing),
    "nothing in it": (CHAIN.replace("2, 3", "0, 3"), nothing),
    "an attribute with underscores": (CHAIN, lambda model: model.graph.node[0].attribute.append(helper.make_attribute("__x__", 3))),
    "a flag that is neither 0 nor 1": ("g (float[2, 3] x) => (float[N] y) { a = ReduceMax(x) y = Neg(a) }", odd_flag),
    "sizes in rows": ("g (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) <int64[4] s = {1, 1, 4, 4}> { y = Resize(x, , , s) }", sizes_in_rows),
    "a loop that grows": (LOOP.format("float[K, 3]"), nothing),
    "a loop that grows, declared to stay": (LOOP.format("float[2, 3]"), nothing),
    "a loop of another rank": (LOOP.format("float[3]"), nothing),
    "a branch of other sizes": (CHOICE.format("[2, 9]", "[2, 3]", "[2, 3]"), nothing),
    "a branch of another rank": (CHOICE.format("[9]", "[2, 3]", "[2, 3]"), nothing),
    "a choice of other sizes": (CHOICE.format("[2, 3]", "[2, 3]", "[4, 4]"), nothing),
    "a sequence of other tensors": ("g (float[2, 3] x) => (float[2] y) { y = SequenceConstruct(x, x) }", sequence),
    "windows that do not count": (
        "g (float[1, 1, 8] x) => (float[1, 1, 3] y, int64[1, 1, 4] i, int64[3] s) { y, i = MaxPool<kernel_shape = [2], pads = [1, 1], "
        "strides = [3], ceil_mode = 1>(x) s = Shape(i) }",
        nothing,
    ),
    "windows without indices that anybody reads": (
        "g (float[1, 1, 8] x) => (float[1, 1, 7] y) { r = Sqrt(x) n = Neg(r) m = Neg(n) y, i = MaxPool<kernel_shape = [2]>(m) }",
        nothing,
    ),
    "axes of new ones that count from the end": (
        "g (float[2, 3] x) => (float[2, 3, 5] y) <float[2, 1, 5] k = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}> "
        "{ a = Unsqueeze<axes = [-1]>(x) b = Neg(a) c = Add(b, k) d = Neg(c) y = Neg(d) }",
        both(old(8), declared("b", "p", "q", "r")),
    ),
    "axes that go, and count from the end": (
        "g (float[2, 1, 3] x) => (float[2, 8] y) <float[2, 5] k = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}> "
        "{ a = Squeeze<axes = [-2]>(x) b = Neg(a) c = Concat<axis = 1>(b, k) d = Neg(c) y = Neg(d) }",
        both(old(8), declared("b", "p", "q")),
    ),
    "a slope that is wider": ("g (float[3, 1, 5] x, float[3, 4, 5] w) => (int64[3] y) { a = PRelu(x, w) y = Shape(a) }", nothing),
}  # fmt: skip


def feed_of(model: ModelProto) -> Iterator[tuple[str, Any]]:
    random = np.random.default_rng(0)
    for spec in Runner(model, threads=1).inputs:
        shape = tuple(size if isinstance(size, int) else 2 for size in spec.shape or ((2, 3) if "float" in spec.type else ()))
        numbers = random.standard_normal(shape)
        yield spec.name, np.asarray(numbers > 0) if "bool" in spec.type else numbers.astype(np.float32)


@pytest.mark.parametrize("name", MODELS)
def test_models_that_onnx_runtime_runs_are_accepted(name: str, tmp_path: Path) -> None:
    text, change = MODELS[name]
    imports = "".join(f', "{domain}" : 1' for domain in ("com.microsoft", "my") if f" {domain}." in text)
    model = parse(text, imports=imports)
    change(model)
    feed = dict(feed_of(model))
    expected = run(model, feed)
    result = passat.optimize(model)
    assert result.report.verification is None or result.report.verification.equal
    result.save(tmp_path / "out.onnx")
    for found, wanted in zip(run(onnx.load(tmp_path / "out.onnx"), feed), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_warnings_are_in_the_report() -> None:
    model = parse(CHAIN)
    model.graph.output[0].CopyFrom(value("y", 1, "seqlen"))
    result = passat.optimize(model)
    sentence = "'y' is declared as float32[1, seqlen], but the Neg node that produces 'y' returns float32[2, 3]; the declaration is ignored"
    assert result.report.warnings == result.report.to_dict()["warnings"] == [sentence]
    assert f"! {sentence}" in " ".join(str(result.report).split())
    assert [node.op_type for node in result.model.graph.node] == ["Relu"]
    assert result.model.graph.output == model.graph.output


def test_many_warnings_are_counted() -> None:
    nodes = "".join(f"a{i + 1} = Relu(a{i}) " for i in range(30))
    model = parse(f"g (float[2] a0) => (float[2] a30) {{ {nodes} }}")
    model.graph.value_info.extend(value(f"a{i}", 9) for i in range(1, 30))
    assert passat.optimize(model).report.warnings[20:] == ["... and 9 more"]


def test_checker_errors_before_and_after_are_reported() -> None:
    model = parse(CHAIN)
    model.graph.name = ""
    (sentence,) = passat.optimize(model).report.warnings
    assert sentence.startswith("ONNX Runtime loads the input, but onnx.checker does not accept the model: Field 'name'")


def test_models_that_onnx_runtime_does_not_load_either_are_rejected() -> None:
    model = parse("g (float[2, 3] x) => (float[N, M] y) { y = MatMul(x, x) }")
    with pytest.raises(
        OnnxError, match=r"the MatMul node that produces 'y' does not accept operands of types float32\[2, 3\], float32\[2, 3\]"
    ):
        passat.optimize(model)
