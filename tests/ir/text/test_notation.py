"""The notation of values: names, attributes, scalars, types, strings."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Expr, Function, GlobalVar, Tuple, Var, var
from passat.ir.op import get_op
from passat.ir.shape import SymDim
from passat.ir.tensor import Tensor
from passat.ir.text import astext, fromtext, pretty_print
from passat.ir.text.literals import show_scalar, show_string
from passat.ir.text.types import show_type
from passat.ir.types import GlobalTypeVar, TensorType, Type
from tests.share import share

x = var("x", shape=(2, 3))


def test_names_are_unique_and_quoted_if_necessary() -> None:
    hints = ["x", "x", "x1", "x", "input:0", "a/b", "/a", "1", "", "a.b", 'q"\n', "/", "a//b", "é", "_"]
    variables = [Var(hint) for hint in hints]
    text = pretty_print(Function(variables, GlobalVar("g 1")()))
    assert text.startswith(
        'fn (%x, %x1, %x11, %x2, %"input:0", %a/b, %/a, %"1", %"", %"a.b", %"q\\"\\n", %"/", %"a//b", %"é", %_) {\n  @"g 1"()'
    )


def test_operators_whose_names_are_not_identifiers() -> None:
    assert pretty_print(Call(get_op("onnx.my-domain.Op"), [])).startswith('"onnx.my-domain.Op"(')
    assert pretty_print(get_op("nn.relu")) == "nn.relu"


def test_attributes_at_their_default_are_left_out() -> None:
    call = get_op("nn.softmax")(x, axis=-1)
    assert "softmax(%x)" in repr(call)
    assert "softmax(%x, axis=1)" in repr(get_op("nn.softmax")(x, axis=1))
    assert "leaky_relu(%x)" in repr(get_op("nn.leaky_relu")(x, alpha=0.01))
    assert "leaky_relu(%x, alpha=-0f)" in repr(get_op("nn.leaky_relu")(x, alpha=-0.0))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (-3, "-3"),
        (10**30, "1" + "0" * 30),
        (1.0, "1f"),
        (0.1, "0.1f64"),
        (float(np.float32(0.1)), "0.1f"),
        (1e-45, "1e-45f64"),
        (1e300, "1e+300f64"),
        (float("inf"), "inff"),
        (float("-inf"), "-inff"),
        (float("nan"), "nanf"),
        (-0.0, "-0f"),
        ('a "b" \\ \n é', '"a \\"b\\" \\\\ \\n é"'),
        ("\udc80", '"\\udc80"'),
        (b'\x00a"\\\xff', 'b"\\x00a\\x22\\x5c\\xff"'),
        ((), "[]"),
        ((1,), "[1]"),
        ((1, (2.0, ()), "x"), '[1, [2f, []], "x"]'),
        ((SymDim.named("n") * 2, SymDim.named("a b") + SymDim.named("n") * -1), '[dim(2*n), dim("a b" - n)]'),
        (Tensor.dense(np.int64(1)), "meta[relay.Constant][0]"),
    ],
)
def test_attributes(value: object, text: str) -> None:
    assert pretty_print(Call(GlobalVar("f"), [], Attrs(a=value))).startswith(f"@f(a={text})")


def test_names_of_attributes() -> None:
    assert pretty_print(Call(GlobalVar("f"), [], {"let": 1, "odd name": 2, "a.b": 3})) == '@f(let=1, "odd name"=2, a.b=3)'


def test_things_without_a_notation_can_at_least_be_looked_at() -> None:
    text = astext(Call(GlobalVar("f"), [], {"what": frozenset({1})}))
    assert "@f(what=meta[frozenset][0])" in text
    assert '"frozenset": [\n    {"repr": "frozenset({1})"}\n  ]' in text

    class Strange(Expr):
        pass

    with pytest.raises(TypeError, match="Strange cannot be printed in the text format"):
        astext(Tuple([Strange()]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int32(-1), "-1"),
        (np.int64(1), "1i64"),
        (np.uint8(255), "255u8"),
        (np.float32(0.1), "0.1f"),
        (np.float32(16777217.0), "1.6777216e+07f"),
        (np.float64(0.1), "0.1f64"),
        (np.float16(0.1), "0.1f16"),
        (np.float32(np.inf), "inff"),
        (np.float64(-np.inf), "-inff64"),
        (np.float16(np.nan), "nanf16"),
        (np.array(0x7FC00001, np.uint32).view(np.float32), None),
        (np.bool_(True), "True"),
        (np.complex64(1), None),
        (np.array("text", np.object_), None),
        (np.zeros(1), None),
    ],
)
def test_scalars(value: object, text: str | None) -> None:
    assert show_scalar(Tensor.dense(value)) == text  # type: ignore[arg-type]  # scalars of NumPy


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (TensorType((3,)), "Tensor[(3), float32]"),
        (TensorType((SymDim.named("n"), SymDim.named("let"))), "Tensor[(n, let), float32]"),
        (TensorType(((SymDim.named("n") + 1) // 2 * 3 - 1,)), 'Tensor[(3*"(n + 1)//2" - 1), float32]'),
        (GlobalTypeVar("onnx.Sequence"), "onnx.Sequence"),
        (GlobalTypeVar("float32"), '"float32"'),
        (GlobalTypeVar("my type"), '"my type"'),
    ],
)
def test_types(type_: Type, text: str) -> None:
    assert show_type(type_) == text


def test_quotients_in_a_text_of_an_earlier_version_have_their_normal_form() -> None:
    parameter = fromtext('#[version = "0.0.5"] def @main(%x: Tensor[(2*"((n + 1)//2 + 1)//2"), float32]) { %x }')["main"].params[0]
    assert parameter.type_annotation == TensorType(((SymDim.named("n") + 3) // 4 * 2,))


@settings(max_examples=share(40, 100))
@given(st.text())
def test_strings_are_json(text: str) -> None:
    assert json.loads(show_string(text)) == text
