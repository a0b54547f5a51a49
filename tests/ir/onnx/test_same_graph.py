"""Models that differ only in names are distinguished from all others."""

import copy

import numpy as np
import numpy.typing as npt
import pytest
from onnx import ModelProto, helper, numpy_helper, parser

from passat.ir.onnx.same_graph import differs_in_names_only

HEAD = '<ir_version: 9, opset_import: ["" : 21]> '
BASE = "g (float[2, 3] x, float[3] z) => (float[2, 3] y) { a = Exp(x) b = Mul(a, z) c = Add(a, b) y = Softmax<axis = 1>(c) }"
CHOICE = """g (float[2] x, bool c) => (float[2] y) {{
    a = Exp(x)
    b = Sin(x)
    y = If (c) <then_branch = t () => (float[2] r) {{ {} }}, else_branch = e () => (float[2] s) {{ s = Cos(b) }}>
}}"""
LOOP = """g (float[2] x, int64 n, bool go) => (float[2] y) {{
    y = Loop (n, go, x) <body = b (int64 i, bool more, float[2] s) => (bool on, float[2] t) {{ on = Identity(more) {} }}>
}}"""


def parsed(text: str) -> ModelProto:
    return parser.parse_model(HEAD + text)


def same(one: str | ModelProto, other: str | ModelProto) -> bool:
    models = [parsed(model) if isinstance(model, str) else model for model in (one, other)]
    found = differs_in_names_only(*models)
    assert differs_in_names_only(*reversed(models)) is found
    return found


@pytest.mark.parametrize(
    "other",
    [
        BASE,
        "g (float[2, 3] x, float[3] z) => (float[2, 3] y) { q = Exp(x) b = Mul(q, z) a = Add(q, b) y = Softmax<axis = 1>(a) }",
        "g (float[2, 3] x, float[3] z) => (float[2, 3] y) { p = Exp(x) q = Mul(z, p) r = Add(q, p) y = Softmax<axis = 1>(r) }",
        "another_name (float[2, 3] x, float[3] z) => (float[2, 3] y) <float[2, 3] a> "
        "{ a = Exp(x) b = Mul(a, z) c = Add(a, b) y = Softmax<axis = 1>(c) }",
    ],
)
def test_names_order_declarations_and_swapped_operands_do_not_matter(other: str) -> None:
    assert same(BASE, other)


def test_the_order_of_nodes_does_not_matter() -> None:
    one = parsed("g (float[2] x) => (float[2] y) { a = Exp(x) b = Sin(x) y = Sub(a, b) }")
    other = parsed("g (float[2] x) => (float[2] y) { b = Sin(x) a = Exp(x) y = Sub(a, b) }")
    assert same(one, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("axis = 1", "axis = 0"),
        ("Exp", "Sin"),
        ("Mul(a, z)", "Mul(a, x)"),
        ("Mul(a, z)", "Sub(a, z)"),
        ("a = Exp(x)", "a = Exp(x) d = Exp(x)"),
        ("Add(a, b)", "Add(a, a)"),
        ("float[3] z", "float[3] w, float[3] z"),
        ("=> (float[2, 3] y)", "=> (float[2, 3] y, float[2, 3] c)"),
        ("y", "v"),
        ("y = Softmax<axis = 1>(c)", "d = Softmax<axis = 1>(c) y = Identity(d)"),
    ],
)
def test_computing_nodes_count(old: str, new: str) -> None:
    changed = BASE.replace(old, new)
    assert changed != BASE
    assert not same(BASE, changed)


def test_operands_of_noncommutative_operators_keep_their_order() -> None:
    text = "g (float[2] x, float[2] z) => (float[2] y) {{ y = {} }}"
    for operator in ("Sub", "Div", "Pow", "Less", "MatMul"):
        assert not same(text.format(f"{operator}(x, z)"), text.format(f"{operator}(z, x)"))


def test_a_node_that_is_there_twice_is_not_one() -> None:
    twice = "g (float[2] x) => (float[2] y) { a = Exp(x) b = Exp(x) y = Add(a, b) }"
    assert not same(twice, "g (float[2] x) => (float[2] y) { a = Exp(x) y = Add(a, a) }")
    assert same(twice, "g (float[2] x) => (float[2] y) { b = Exp(x) c = Exp(x) y = Add(b, c) }")


def test_the_opset_matters_and_that_of_no_node_does_not() -> None:
    model = parsed(BASE)
    later, more = copy.deepcopy(model), copy.deepcopy(model)
    later.opset_import[0].version = 22
    more.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert not same(model, later)
    assert same(model, more)


def weighted(value: float, *, raw: bool = True, name: str = "w", dtype: type = np.float32, node: bool = False) -> ModelProto:
    array: npt.NDArray[np.generic] = np.array([1, value, 3], dtype)
    model = parsed("g (float[3] x) => (float[3] y) { y = Add(x, W) }".replace("W", name))
    tensor = numpy_helper.from_array(array, name)
    if not raw:
        tensor = helper.make_tensor(name, tensor.data_type, [3], array.tolist())
    if node:
        model.graph.node.insert(0, helper.make_node("Constant", [], [name], value=tensor))
    else:
        model.graph.initializer.append(tensor)
    return model


def test_constants_matter_by_their_elements() -> None:
    assert same(weighted(2), weighted(2, raw=False, name="v"))
    assert same(weighted(2), weighted(2, node=True))
    assert not same(weighted(2), weighted(4))
    assert not same(weighted(2), weighted(2, dtype=np.float64))
    assert not same(weighted(0.0), weighted(-0.0))
    unused = weighted(2)
    unused.graph.initializer.append(numpy_helper.from_array(np.ones(5, np.float32), "unused"))
    assert same(weighted(2), unused)


def test_external_constants_matter_by_their_place() -> None:
    def placed(offset: int) -> ModelProto:
        model = weighted(2)
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = tensor.EXTERNAL
        for key, value in (("location", "w.bin"), ("offset", str(offset)), ("length", "12")):
            tensor.external_data.add(key=key, value=value)
        return model

    assert same(placed(0), placed(0))
    assert not same(placed(0), placed(4096))


def test_subgraphs_matter_and_their_names_do_not() -> None:
    model = CHOICE.format("r = Neg(a)")
    assert same(model, CHOICE.format("q = Neg(a)").replace("float[2] r", "float[2] q"))
    assert not same(model, CHOICE.format("r = Neg(b)"))
    assert not same(model, CHOICE.format("r = Abs(a)"))
    assert same(LOOP.format("t = Add(s, x)"), LOOP.format("u = Add(x, s)").replace("float[2] t", "float[2] u"))
    assert not same(LOOP.format("t = Sub(s, x)"), LOOP.format("t = Sub(x, s)"))
    assert not same(LOOP.format("t = Add(s, x)"), LOOP.format("t = Add(s, s)"))
