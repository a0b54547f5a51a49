"""Texts as TVM writes them: attributes in a different form from Passat's, names of types, metadata."""

import json

import numpy as np
import pytest

from passat.ir import save_json
from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Constant, Expr, Let, const
from passat.ir.infer import infer_type
from passat.ir.text import ParseError, parse, parse_expr
from passat.ir.types import TensorType

FREE = """
free_var %x: Tensor[(1, 4, 8, 8), float32]; free_var %w: Tensor[(4, 4, 3, 3), float32];
free_var %m: Tensor[(2, 4), float32]; free_var %n: Tensor[(3, 4), float32]; free_var %i: Tensor[(2), int64];
free_var %u: Tensor[(?, 4), float32];
"""


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("nn.dense(%m, %n, units=3)", "nn.dense(%m, %n)"),
        ("nn.dense(%m, %n, units=None)", "nn.dense(%m, %n)"),
        ("nn.dense(%m, %u, units=7)", "nn.dense(%m, %u)"),
        ('nn.dense(%m, %n, units=3, out_dtype="float32")', "nn.dense(%m, %n)"),
        ("nn.matmul(%m, %n, units=3, transpose_b=True)", "nn.matmul(%m, %n, transpose_b=True)"),
        ('nn.conv2d(%x, %w, padding=[1, 1, 1, 1], out_layout="", out_dtype="")', "nn.conv2d(%x, %w, padding=[1, 1, 1, 1])"),
        ('nn.conv2d(%x, %w, out_layout="NCHW", out_dtype="float32")', "nn.conv2d(%x, %w)"),
        ('nn.conv2d(%x, %w, auto_scheduler_rewritten_layout="", meta_schedule_original_shape=None)', "nn.conv2d(%x, %w)"),
        ('take(%m, %i, axis=0, mode="clip", batch_dims=0)', "take(%m, clip(%i, a_min=0f64), axis=0)"),
        ('take(%m, %i, axis=0, mode="fast", batch_dims=0)', "take(%m, %i, axis=0)"),
        (
            'strided_slice(%m, begin=[0], end=[1], strides=[1], slice_mode="end", axes=[0])',
            "strided_slice(%m, begin=[0], end=[1], strides=[1], axes=[0])",
        ),
        (
            "strided_slice(%m, begin=[0, 0], end=[1, 2], strides=[1], axes=None)",
            "strided_slice(%m, begin=[0, 0], end=[1, 2], strides=[1, 1])",
        ),
        (
            'strided_slice(%m, begin=[0, 1], end=[1, -1], strides=[1], slice_mode="size", axes=None)',
            "strided_slice(%m, begin=[0, 1], end=[1, 9223372036854775807])",
        ),
        ("nn.pad(%m, 2f, pad_width=[[0, 0], [1, 1]])", "nn.pad(%m, pad_width=[[0, 0], [1, 1]], pad_value=2f)"),
        ('layout_transform(%x, src_layout="NCHW", dst_layout="NHWC")', "transpose(%x, axes=[0, 2, 3, 1])"),
        ("argmax(%m, axis=[1], keepdims=True, exclude=False)", "argmax(%m, axis=1, keepdims=True)"),
    ],
)
def test_attributes_in_another_form(text: str, own: str) -> None:
    found, wanted = parse_expr(FREE + text), parse_expr(FREE + own)
    assert isinstance(found, Call)
    assert isinstance(wanted, Call)
    assert (len(found.args), found.attrs) == (len(wanted.args), wanted.attrs)
    assert infer_type(found).checked_type == infer_type(wanted).checked_type


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nn.dense(%m, %n, units=4)", "nn.dense has no attribute 'units'"),
        ('nn.conv2d_transpose(%x, %w, out_dtype="int32")', "nn.conv2d_transpose has no attribute 'out_dtype'"),
        ('nn.conv2d(%x, %w, out_layout="NHWC")', "nn.conv2d has no attribute 'out_layout'"),
        ('take(%m, %i, mode="other")', "take has no attribute 'mode'"),
        ("add(%m, %m, units=None)", "add has no attribute 'units'"),
    ],
)
def test_what_means_something_else_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_expr(FREE + text)


def test_attributes_of_calls_of_functions_have_one_class() -> None:
    call = parse_expr('fn (%f) { %f(1, name="a", attrs_type_key="attrs.TestAttrs") }')
    assert isinstance(call, Expr)
    assert call.body.attrs == Attrs(name="a")  # type: ignore[attr-defined]  # a function


def test_names_of_scalars() -> None:
    let = parse_expr("let %a: int = 1; let %b: float = 1f; let %c: uint = 1u32; %a")
    found = []
    while isinstance(let, Let):
        found.append(let.var.type_annotation)
        let = let.body
    assert found == [TensorType((), dtype) for dtype in ("int32", "float32", "uint32")]
    with pytest.raises(ParseError, match="int is a built-in type; quote it to use it as a name"):
        parse("type int { A }")
    assert "int" in str(parse('type "int" { A }\ndef @f(%x: "int") { %x }')["f"].params[0].type_annotation)


def test_metadata_of_tvm() -> None:
    weight = const(np.array([[1, 2]], np.float32))
    section = save_json({"relay.Constant": [weight, const([3, 4], "int64")]})
    text = f"def @main() {{ (meta[relay.Constant][0], meta[relay.Constant][1]) }}\n\n#[metadata]\n{section}"
    fields = parse(text)["main"].body.fields  # type: ignore[attr-defined]  # a tuple
    assert all(isinstance(field, Constant) for field in fields)
    assert [field.data.numpy().tolist() for field in fields] == [[[1, 2]], [3, 4]]
    broken = json.loads(section)
    broken["nodes"][-1]["type_key"] = "relay.Nothing"
    with pytest.raises(ParseError, match=r"the metadata section cannot be read: node .* is a 'relay.Nothing'"):
        parse(text.replace(section, json.dumps(broken)))
