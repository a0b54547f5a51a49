"""Parsing: printed programs are read back exactly, handwritten ones are accepted, and errors are one sentence with a location."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.equality import assert_structural_equal, structural_equal
from passat.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var, const, var
from passat.ir.infer import InferError, infer_module, infer_type
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.tensor import Tensor
from passat.ir.text import ParseError, astext, fromtext, parse, parse_expr
from passat.ir.traverse import post_order
from passat.ir.types import FuncType, IncompleteType, TensorType, Type
from tests.share import share
from tests.strategies import attribute_values, modules, programs, tensors, type_definitions, types

x, y, c = var("x", shape=(2, 3)), var("y", shape=("n",)), var("c", "bool")
FREE = "free_var %x: Tensor[(2, 3), float32]; free_var %c: bool; "


@settings(max_examples=share(25, 150))
@given(programs(effects=True))
def test_a_program_that_is_printed_and_parsed_is_the_same(program: Function) -> None:
    module = infer_module(IRModule({"main": program}))
    text = astext(module)
    again = parse(text)
    assert_structural_equal(again, module, sharing=True)
    assert astext(again) == text


@settings(max_examples=share(10, 50))
@given(modules())
def test_a_module_that_is_printed_and_parsed_is_the_same(module: IRModule) -> None:
    text = astext(infer_module(module))
    again = parse(text)
    assert_structural_equal(again, module, sharing=True)
    assert astext(again) == text


@settings(max_examples=share(10, 60))
@given(programs(effects=True))
def test_an_expression_with_free_variables_comes_back(program: Function) -> None:
    again = parse_expr(astext(program.body))
    assert_structural_equal(again, program.body, map_free_vars=True, sharing=True)


@settings(max_examples=share(25, 150))
@given(tensors())
def test_constants_come_back(tensor: Tensor) -> None:
    again = parse_expr(astext(Constant(tensor)))
    assert isinstance(again, Constant)
    assert again.data == tensor
    assert again.data.numpy().dtype == tensor.numpy().dtype


@settings(max_examples=share(25, 150))
@given(st.text(max_size=5), attribute_values())
def test_attributes_come_back(name: str, value: object) -> None:
    call = Call(GlobalVar("f"), [], {name: value})
    again = parse_expr(astext(call))
    assert isinstance(again, Call)
    assert again.attrs == Attrs({name: value})


@settings(max_examples=share(18, 100))
@given(types())
def test_types_come_back(type_: Type) -> None:
    again = parse_expr(astext(Function([Var("x", type_)], const(1), type_)), module=type_definitions())
    assert isinstance(again, Function)
    wanted = None if isinstance(type_, IncompleteType) else type_
    assert (again.params[0].type_annotation, again.ret_type) == (wanted, wanted)


@settings(max_examples=share(18, 100))
@given(st.floats(width=32) | st.floats(), st.sampled_from(["float16", "bfloat16", "float32", "float64"]))
def test_floats_come_back_to_the_bit(value: float, dtype: str) -> None:
    with np.errstate(over="ignore"):
        tensor = Tensor.dense(value, dtype)
    again = parse_expr(astext(Constant(tensor)))
    assert isinstance(again, Constant)
    assert again.data == tensor


def test_names_come_back() -> None:
    hints = ["x", "x1", "input:0", "a/b", "1", "", 'q"\n\\', "é"]
    again = parse_expr(astext(Function(list(map(Var, hints)), const(1))))
    assert isinstance(again, Function)
    assert [param.name_hint for param in again.params] == hints


def test_opaque_operators_come_back_with_their_attributes() -> None:
    attrs = {"opset": 1, "outputs": "11", "value": Tensor.dense(np.eye(2)), "data": b"\x00", "self": (1.5, 2.5), "span": "a"}
    call = Call(get_op("onnx.my-domain.Odd%2EName"), [x, Function([c], c), Tuple([])], attrs)
    again = parse_expr(astext(call))
    assert structural_equal(again, call, map_free_vars=True)


def test_the_metadata_section_keeps_big_splats_small() -> None:
    text = astext(Constant(Tensor.splat(2.5, (1 << 20, 1 << 20), "float32")))
    assert len(text) < 300
    again = parse_expr(text)
    assert isinstance(again, Constant)
    assert again.data.is_splat


def same(text: str, expr: Expr) -> None:
    assert_structural_equal(parse_expr(text), expr, map_free_vars=True)


@pytest.mark.parametrize(
    ("text", "expr"),
    [
        ("%x + %x * %x", x + x * x),
        ("%x - %x - %x", (x - x) - x),
        ("(%x - %x) / %x", (x - x) / x),
        ("%x - (%x - %x)", x - (x - x)),
        ("%x + %x < %x * %x", (x + x) < (x * x)),
        ("%x <= %x == %x > %x", get_op("equal")(x <= x, x > x)),
        ("%x >= %x != %c", get_op("not_equal")(x >= x, c)),
        ("%x-1f", x - 1.0),
        ("%x - -1f", x - -1.0),
        ("--1", const(1)),
        ("- inff", const(float("-inf"))),
        ("2147483647", const(2147483647)),
        ("-2147483648", const(-2147483648)),
        ("2147483648", const(np.int64(2147483648), "int64")),
        ("1.5", const(1.5)),
        ("1e3", const(1000.0)),
        ("1.5f32", const(1.5)),
        ("1f16", const(1.0, "float16")),
        ("True", const(True)),
        ("()", Tuple([])),
        ("(%x)", x),
        ("(%x,)", Tuple([x])),
        ("(%x, %c,)", Tuple([x, c])),
        ("{ { %x } }", x),
        ("(%x, %c).1", TupleGetItem(Tuple([x, c]), 1)),
        ("%x.0.1", TupleGetItem(TupleGetItem(x, 0), 1)),
        ("%x . 0 . 1", TupleGetItem(TupleGetItem(x, 0), 1)),
        ("%0 = -1; %1 = (%0, %0); %1.0", TupleGetItem(Tuple([const(-1), const(-1)]), 0)),
        ("%x; %c", Let(Var("_"), x, c)),
        ("%x; %c; %x", Let(Var("_"), x, Let(Var("_"), c, x))),
        ("(let %v = %x; %v, %c)", Tuple([Let((v := Var("v")), x, v), c])),
        ("add(let %v = %x; %v, %c)", get_op("add")(Let((w := Var("w")), x, w), c)),
        ("if (%c) { %x } else { -%c; %x }".replace("-%c", "%c"), If(c, x, Let(Var("_"), c, x))),
        ("fn (%a,) { %a }", Function([(a := Var("a"))], a)),
        ("fn () { 1 }()", Function([], const(1))()),
        ('nn.softmax(%x, "axis"=1)', get_op("nn.softmax")(x, axis=1)),
        ('"nn.relu"(%x)', get_op("nn.relu")(x)),
        ("nn.pad(%x, pad_width=[[0, 1], [2, 3]])", get_op("nn.pad")(x, pad_width=((0, 1), (2, 3)))),
        ("@f(a=nullptr, b=1.5, c=1.5f64, d=- -1, e=2i64)", Call(GlobalVar("f"), [], {"a": None, "b": 1.5, "c": 1.5, "d": 1, "e": 2})),
        ("// a comment\n%x /* and /* nested */ */ //", x),
        ("%x/**/", x),
    ],
)
def test_common_notations(text: str, expr: Expr) -> None:
    same(FREE + text, expr)


def test_inner_variables_hide_outer_ones_until_their_scope_ends() -> None:
    program = parse_expr("fn (%x: int8) { let %x = (%x, 1); (fn (%x) { %x }, { let %x = 2; %x }, %x) }")
    assert isinstance(program, Function)
    let = program.body
    assert isinstance(let, Let)
    assert isinstance(let.body, Tuple)
    function, inner, outer = let.body
    assert isinstance(let.value, Tuple)
    assert let.value[0] is program.params[0]
    assert function.body is function.params[0]
    assert inner.body is inner.var
    assert outer is let.var


def test_the_value_of_a_let_sees_its_variable_only_in_a_function() -> None:
    let = parse_expr("let %f = fn () { %f() }; %f")
    assert isinstance(let, Let)
    assert isinstance(let.value, Function)
    assert isinstance(let.value.body, Call)
    assert let.value.body.op is let.var


def test_shared_numbers_are_shared_nodes() -> None:
    pair = parse_expr("%0 = (1, 2); (%0, %0)")
    assert isinstance(pair, Tuple)
    assert pair[0] is pair[1]


def test_expressions_have_spans() -> None:
    call = parse_expr("free_var %x: int8;\n  add(%x,\n    negative(%x))", "my.relay")
    assert call.span == ("my.relay", 2, 3, 3, 18, ())
    assert isinstance(call, Call)
    assert call.args[1].span == ("my.relay", 3, 3, 5, 17, ())


def test_type_errors_name_the_place() -> None:
    with pytest.raises(InferError, match=r"^from_string:2:3: add\(int8, int16\): operands have different element types int8 and int16"):
        parse("def @main(%x: int8, %y: int16) {\n  add(%x, %y)\n}")


def test_given_modules_resolve_names() -> None:
    module = parse("type Option[A] { Some(A), None_ }\ndef @f(%x: int8) { %x }")
    call = infer_type(parse_expr("Some(@f(1i8))", module=module))
    assert isinstance(call, Call)
    assert repr(call.checked_type) == "Option[int8]"
    assert isinstance(call.args[0], Call)
    assert call.args[0].op is module.get_global_var("f")


def test_the_version_may_be_left_out_and_is_checked() -> None:
    assert fromtext is parse
    assert structural_equal(parse('#[version = "0.0.5"] def @main() { 1 }'), parse("def @main() { 1 }"))
    assert len(parse("")) == 0
    for text in ('#[version = "0.0.4"]', "v0.0.4\ndef @main() { 1 }"):  # the second one as TVM 0.6 wrote it
        with pytest.raises(ParseError, match=r"^from_string:1:1: the text has version 0\.0\.4; only version 0\.0\.5 is supported$"):
            parse(text)


def test_types_as_people_write_them() -> None:
    program = parse_expr("fn (%a: Tensor[(2,), float32], %b: (int8), %c: fn () -> (int8,), %d: Tensor[(2*(n + 1) - 1), bool]) { 1 }")
    assert isinstance(program, Function)
    types_ = [param.type_annotation for param in program.params]
    assert types_[:2] == [TensorType((2,)), TensorType((), "int8")]
    assert isinstance(types_[2], FuncType)
    assert repr(types_[3]) == "Tensor[(2*n + 1,), bool]"


ERRORS = [
    ("%x", "1:1: the variable '%x' is not defined here; declare free variables with free_var"),
    ("%0", "1:1: %0 is not defined here"),
    ("(", "1:2: expected an expression, found the end of the text"),
    ("@f(", "1:4: expected an expression, found the end of the text"),
    ("\x1f", "1:1: unexpected character '\\x1f'"),
    ("(1, 2", "1:6: expected ')' after the expression in parentheses, found the end of the text"),
    ("add(1 2)", "1:7: expected ')' after the arguments of the call, found '2'"),
    ("add(1, 2) 3", "1:11: expected the end of the text, found '3'"),
    ("let %x = 1", "1:11: expected ';' after the value of %x, found the end of the text"),
    ("let x = 1; x", "1:5: expected a variable %name after let, found 'x'"),
    ("let %x = let %y = 1; %y; %x", "1:10: a let as the value of a let must be in braces"),
    ("%0 = 1", "1:7: expected ';' after the definition of %0, found the end of the text"),
    ("nn.rellu(1f)", "1:1: there is no operator 'nn.rellu'; did you mean "),
    ("nn.softmax(1f, axes=1)", "1:1: nn.softmax has no attribute 'axes'; it has: axis"),
    ("nn.softmax(1f, axis=1, axis=2)", "1:24: the attribute 'axis' is given twice"),
    ("nn.softmax(axis=1, 1f)", "1:20: expected an attribute name=value, found '1f'"),
    ("nn.softmax(1f, axis=)", "1:21: expected the value of an attribute, found ')'"),
    ("@f(a=[1 2])", "1:9: expected ']' after the elements of the list, found '2'"),
    ("@f(a=1f16)", "1:6: the attribute 1f16 has an unsupported suffix; use f or f64 for floats"),
    ("@f(a=-x)", "1:7: x is not a number"),
    ("@f(a=dim(+))", "1:10: expected a dimension, found '+'"),
    ("fn (%x: int7) { 1 ", "1:19: expected '}' after the result of the block, found the end of the text"),
    ("fn (%x: Tensor[(2), int7]) { 1 }", "1:21: unknown element type 'int7'; known: bfloat16, bool"),
    ("fn (%x: Tensor[2, int8]) { 1 }", "1:16: expected '(' before the dimensions, found '2'"),
    ("fn (%x: Tensor[(1.5), int8]) { 1 }", "1:17: expected a dimension, found '1.5'"),
    ("fn (%x: 3) { 1 }", "1:9: expected a type, found '3'"),
    ("fn (%x, %x) { 1 }", "1:9: the function has two parameters called %x"),
    ("fn (x) { 1 }", "1:5: expected a variable %name for a parameter, found 'x'"),
    ("fn () 1", "1:7: expected '{' before the body of the function, found '1'"),
    ("if (True) { 1 }", "1:16: expected else after the first branch, found the end of the text"),
    ("if True { 1 } else { 2 }", "1:4: expected '(' before the condition, found 'True'"),
    ("match (1) { Foo => 1 }", "1:13: there is no constructor 'Foo'"),
    ("match (1) { 1 => 1 }", "1:13: expected a pattern, found '1'"),
    ("match (1) { _ 1 }", "1:15: expected '=>' after the pattern, found '1'"),
    ("ref(1", "1:6: expected ')' after the operands of ref, found the end of the text"),
    ("ref_write(1)", "1:12: expected ',' between the operands of ref_write, found ')'"),
    ("(1, 2).x", "1:8: expected a number of a field, found 'x'"),
    ("(1, 2).1f", "1:8: expected the number of a field, found '1f'"),
    ("-%x", "1:2: expected a number after the minus sign, found '%x'"),
    ("1g", "1:1: the number 1g has an unknown suffix; known: f16, bf16, f, f64, i2"),
    ("1.5i8", "1:1: the number 1.5i8 has an unknown suffix"),
    ("300u8", "1:1: the number 300 does not fit uint8"),
    ("-1u8", "1:2: the number -1 does not fit uint8"),
    ("99999999999999999999", "1:1: the number 99999999999999999999 does not fit int64"),
    ("1 +", "1:4: expected an expression, found the end of the text"),
    ("+ 1", "1:1: expected an expression, found '+'"),
    ('"abc', "1:1: this string is not closed"),
    ('@f(a="\\q")', '1:6: "\\q" has an invalid escape sequence; use JSON escapes'),
    ("1 /* 2", "1:3: this comment is not closed"),
    ("1 $ 2", "1:3: unexpected character '$'"),
    ("\n\n  (1,\n  ]", "4:3: expected an expression, found ']'"),
    ("constructor(1)", "1:13: expected a constructor, found '1'"),
    ("constructor(Nil)", "1:13: there is no constructor 'Nil'"),
    ("meta[relay.Constant][0]", "1:1: meta[relay.Constant][0] refers to the metadata section, but the text has none"),
    ('meta[relay.Constant][1] #[metadata] {"relay.Constant": [{}]}', "1:1: meta[relay.Constant][1] is not in the metadata section"),
    ('meta[Foo][0] #[metadata] {"Foo": [{}]}', "1:1: meta[Foo][0] is not a constant; other objects cannot be read back"),
    ('meta[relay.Constant][0] #[metadata] {"relay.Constant": [{}]}', "1:1: meta[relay.Constant][0] cannot be read: KeyError: 'dtype'"),
    (
        'meta[relay.Constant][0] #[metadata] {"relay.Constant": [{"dtype": "int8", "shape": [2], "data": "AA=="}]}',
        "1:1: meta[relay.Constant][0] cannot be read: ValueError: cannot reshape array of size 1 into shape (2,)",
    ),
    ("1 #[metadata] {", "1:3: the metadata section is not valid JSON: Expecting property name enclosed in double quotes in its line 1"),
    ("@f(a=" + "[" * 100_000, "types, patterns or lists are nested too deeply here"),
    ("x" * 100, "1:1: there is no operator 'xxxx"),
    ("1 " + '"' + "y" * 100 + '"', f"1:3: expected the end of the text, found '\"{'y' * 56}...'"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_errors_of_expressions(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_expr(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"from_string:{caught.value.line}:{caught.value.column}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1", "1:1: expected def, type or extern type, found '1'"),
        ("def main() { 1 }", "1:5: expected a function name @name after def, found 'main'"),
        ("def @f() { 1 } def @f() { 2 }", "1:20: the function @f is defined twice"),
        ("def @main() {\n  @f(@g(1))\n}", "2:3: the function @f is used but not defined"),
        ("type { A }", "1:6: expected a name of the type, found '{'"),
        ("type T { 1 }", "1:10: expected a name of a constructor, found '1'"),
        ("type T { A", "1:11: expected '}' after the constructors, found the end of the text"),
        ("type T[1]", "1:8: expected a name of a type parameter, found '1'"),
        ("def @f() { %0 = 1; %0 } def @g() { %0 }", "1:36: %0 is not defined here"),
        ("def @f(%x: int8) { %x } def @g() { %x }", "1:36: the variable '%x' is not defined here"),
    ],
)
def test_errors_of_modules(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text, "file.relay")
    assert str(caught.value).startswith(f"file.relay:{message}")


@settings(max_examples=share(18, 100))
@given(programs(effects=True, size=4), st.data())
def test_damaged_texts_are_rejected_or_read_but_never_crash(program: Function, data: st.DataObject) -> None:
    text = astext(program)
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 5)))
    damaged = (
        text[:at] + data.draw(st.sampled_from(["", "(", "}", ";", "%", '"', "=", ",", "let", "/*", "[", "0", "-", "."])) + text[until:]
    )
    with contextlib.suppress(ParseError):
        parse_expr(damaged)


@settings(max_examples=share(18, 100))
@given(st.text())
def test_any_text_is_rejected_or_read(text: str) -> None:
    for read in (parse, parse_expr):
        with contextlib.suppress(ParseError, InferError):
            read(text)


def test_long_chains_are_printed_and_parsed() -> None:
    expr: Expr = x
    length = share(4_000, 20_000)
    for _ in range(length):
        expr = expr + x
    text = astext(Function([x], expr))
    assert text.count("\n") == length + 2
    assert len(post_order(parse_expr(text))) == length + 3


def test_long_chains_of_lets_are_printed_and_parsed() -> None:
    length = share(4_000, 20_000)
    body: Expr = x
    for _ in range(length):
        body = Let(Var("v"), x, body)
    text = astext(body)
    assert text.count("let ") == length
    again = parse_expr(text)
    assert isinstance(again, Let)
    assert again.body is not again.value


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(", ")"),
        ("{ ", "}"),
        ("negative(", ")"),
        ("(1, ", ")"),
        ("1 + (", ")"),
        ("fn () { ", "}"),
        ("ref(", ")"),
        ("if (", ") { 1 } else { 2 }"),
    ],
)
def test_nesting_costs_no_stack(before: str, after: str) -> None:
    depth = share(4_000, 20_000)
    parse_expr(before * depth + "1" + after * depth)


DEVICES = """
#[metadata]
{"root": 1, "nodes": [{"type_key": ""}, {"type_key": "Map", "keys": ["VirtualDevice"], "data": [2]}, {"type_key": "Array", "data": [3]},
{"type_key": "VirtualDevice", "attrs": {"device_type_int": "1", "virtual_device_id": "0", "target": "0", "memory_scope": ""}}]}"""


@pytest.mark.parametrize(
    "text",
    [
        "def @main(%x {virtual_device=VirtualDevice(device_type=1)}: Tensor[(3), float32]) { %x }",
        "def @main(%x: Tensor[(3), float32], virtual_device=meta[VirtualDevice][0]) { %x }",
        "def @main(%x: Tensor[(3), float32]) { on_device(%x, device_type=1) }",
        "def @main(%x: Tensor[(3), float32]) { device_copy(%x, src_dev_type=1, dst_dev_type=2) }",
        "def @main(%x: Tensor[(3), float32]) { %x }" + DEVICES,
    ],
)
def test_a_text_with_virtual_devices_is_rejected_in_one_sentence(text: str) -> None:
    with pytest.raises(ParseError, match="virtual devices are not supported: write the program without"):
        parse(f'#[version = "0.0.5"]\n{text}')
