"""Names: every word of the format may be a name. Undefined types and duplicate definitions are errors with a location."""

import pytest

from passat.ir.dtypes import NAMES
from passat.ir.equality import assert_structural_equal
from passat.ir.expr import (
    Call,
    Clause,
    Constructor,
    Function,
    GlobalVar,
    Let,
    Match,
    PatternConstructor,
    PatternVar,
    PatternWildcard,
    Tuple,
    Var,
    const,
)
from passat.ir.infer import infer_module
from passat.ir.module import IRModule, TypeData
from passat.ir.shape import SymDim
from passat.ir.text import ParseError, astext, parse, parse_expr, pretty_print
from passat.ir.text.literals import EXPRESSION_WORDS, KEYWORDS
from passat.ir.text.types import ONNX_TYPES, RESERVED
from passat.ir.types import FuncType, GlobalTypeVar, IncompleteType, RefType, TensorType, TupleType, TypeCall, TypeVar

WORDS = sorted(KEYWORDS | EXPRESSION_WORDS | RESERVED | NAMES)
NAMES_OF_ALL_KINDS = [
    *WORDS,
    *(
        "add",
        "nn.relu",
        "onnx.my-domain.Op",
        "two words",
        "",
        '"',
        "\\",
        "0",
        "1x",
        "a.b",
        "a/b",
        "%x",
        "@f",
        "#",
        "//",
        "/*",
        "b",
        "?",
        "größe",
    ),
    *ONNX_TYPES,
]


def program(name: str) -> IRModule:
    """A module in which everything that has a name has this one, or one derived from it."""
    header = GlobalTypeVar(f"{name}'" if name in ONNX_TYPES else name)
    param = TypeVar(f"{name}''")
    of = TypeCall(header, [param])
    empty, full, other = Constructor(name, [], of, 0), Constructor(f"{name}'", [param], of, 1), Constructor(f"{name}.x", [], of, 2)
    module = IRModule(type_definitions={header: TypeData(header, (param,), (empty, full, other))})
    dimension, type_var = SymDim.named(name), TypeVar(f"{name}.T")
    x = Var(name, TensorType((dimension, 2 * dimension + 1), "int8"))
    generic = FuncType([type_var, RefType(TypeCall(header, [type_var]))], TupleType([type_var]), [type_var])
    bound, inner = Var(name), Var(name)
    made = Tuple([Call(empty, []), empty, Call(full, [x]), full, Call(other, []), bound])
    arms = [
        Clause(PatternConstructor(empty), x),
        Clause(PatternConstructor(full, [PatternVar(inner)]), inner),
        Clause(PatternConstructor(other), x),
        Clause(PatternWildcard(), x),
    ]
    attrs = {name or "_": name, f"{name}=": (name, 1)}
    body = Let(bound, Match(Call(full, [x]), arms), made)
    first, second = GlobalVar(name), GlobalVar(f"{name}.f")
    other_x = Var(name, x.type_annotation)
    module[first] = Function([x, Var(f"{name}2", generic)], body, None, [param], attrs)
    module[second] = Function([other_x, generic_argument := Var(name, generic)], Call(first, [other_x, generic_argument], {name or "_": 1}))
    return module


@pytest.mark.parametrize("name", NAMES_OF_ALL_KINDS)
def test_any_word_may_name_anything(name: str) -> None:
    module = program(name)
    again = parse(astext(module))
    assert_structural_equal(module, again)
    assert pretty_print(again) == pretty_print(infer_module(module))


@pytest.mark.parametrize("name", ["add", "constructor", "None", "two words", "_", "Plain"])
def test_constructors_and_operators_of_the_same_name_are_distinguished(name: str) -> None:
    module = parse(f'type T {{ "{name}"(int8), "{name}0" }} def @f(%x: int8) {{ (constructor("{name}")(%x), constructor("{name}0")()) }}')
    made = next(iter(module.type_definitions.values())).constructors
    fields = module["f"].body
    assert isinstance(fields, Tuple)
    assert [field.op for field in fields.fields if isinstance(field, Call)] == list(made)
    assert_structural_equal(parse(astext(module)), module)
    if name == "add":
        added = parse('type T { "add"(int8, int8) } def @f(%x: int8) { add(%x, %x) }')["f"].body
        assert added.checked_type == TensorType((), "int8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("type A { B } type A { C } def @f() { 1 }", "1:19: the type A is defined twice"),
        ("extern type A extern type A", "1:27: the type A is defined twice"),
        ('type A { B } type "A" { C }', "1:19: the type A is defined twice"),
        ("type A { B, B }", "1:13: the constructor B is defined twice"),
        ("type A { B } type C { B }", "1:23: the constructor B is defined twice"),
        ("extern type onnx.Sequence", "1:13: onnx.Sequence is a built-in type of ONNX and cannot be defined"),
        ("def @f() { 1 }\ndef @f() { 2 }", "2:5: the function @f is defined twice"),
        ("def @f(%x: int8, %x: int8) { 1 }", "1:18: the function has two parameters called %x"),
        ("def @f[A, A](%x: A) { 1 }", "1:11: the type parameter A is given twice"),
        ("type T[A, A]", "1:11: the type parameter A is given twice"),
        ("def @f(%x: fn [A, A](A) -> A) { 1 }", "1:19: the type parameter A is given twice"),
        ("def @f(%x: (int8, int8)) { match (%x) { (%a, %a) => %a } }", "1:41: the pattern has two variables called %a"),
        ("def @f() { @g(a=1, a=2) } def @g() { 1 }", "1:20: the attribute 'a' is given twice"),
        ("def @f(a=1, a=2) { 1 }", "1:13: the attribute 'a' is given twice"),
        ("def @f() { free_var %x; free_var %x; %x }", "1:34: the variable '%x' is declared twice"),
        ("def @f(%x: imt8) { %x }", "1:12: unknown type 'imt8'; did you mean int8 or uint8?"),
        ("def @f(%x: NoSuch[int8]) { %x }", "1:12: unknown type 'NoSuch'"),
        ("def @f() -> Tensr { 1 }", "1:13: unknown type 'Tensr'; did you mean Tensor?"),
        ("def @f(%x: fn (ref((A, int8))) -> A) { 1 }", "1:21: unknown type 'A'"),
        ("def @f() { let %x: A = 1; %x }", "1:20: unknown type 'A'"),
        ("def @f(%g: fn(int8) -> int8) { %g[A](1i8) }", "1:35: unknown type 'A'"),
        ("def @f() { match (1) { %x: A => %x } }", "1:28: unknown type 'A'"),
        ("type T { C(A) }", "1:12: unknown type 'A'"),
        ("type T[A] { C(A) } def @f(%x: A) { %x }", "1:31: unknown type 'A'"),
        ("def @f[A](%x: A) { %x } def @g(%x: A) { %x }", "1:36: unknown type 'A'"),
        ("type T[A] { C(A) } def @f(%x: T) { %x }", "1:31: the type T takes 1 argument, but got 0"),
        ("def @f(%x: T[int8]) { %x } type T { C }", "1:12: the type T takes 0 arguments, but got 1"),
        ("def @f(%x: onnx.Map[int8]) { %x }", "1:12: the type onnx.Map takes 2 arguments, but got 1"),
        ("def @f[A](%x: A[int8]) { %x }", "1:15: A is a type parameter, which takes no arguments"),
        ("type int8 { A }", "1:6: int8 is a built-in type; quote it to use it as a name"),
        ("def @f[ref](%x: ref) { 1 }", "1:8: ref is a built-in type; quote it to use it as a name"),
        ("type T { if }", "1:10: if is a keyword; quote it to use it as the name of a constructor"),
        ("type T { A, True }", "1:13: True is a keyword; quote it to use it as the name of a constructor"),
        ("type T { _ }", "1:10: _ is a keyword; quote it to use it as the name of a constructor"),
        ("type T { add }", "1:10: add is an operator; quote it to use it as the name of a constructor"),
    ],
)
def test_undefined_and_duplicate_names(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text, "f")
    assert str(caught.value).splitlines()[0] == f"f:{message}"
    line, column = (int(number) for number in message.split(":")[:2])
    shown = caught.value.render().splitlines()
    assert any(set(shown_line.partition("|")[2].strip()) == {"^"} for shown_line in shown), shown
    assert (caught.value.line, caught.value.column) == (line, column)


def test_types_may_be_used_before_they_are_defined_and_come_from_elsewhere() -> None:
    later = parse("def @f(%x: Pair[int8]) { %x } type Pair[A] { Two(A, A) }")
    assert later["f"].checked_type == FuncType(
        [GlobalTypeVar("Pair")(TensorType((), "int8"))], GlobalTypeVar("Pair")(TensorType((), "int8"))
    )
    assert parse("def @g(%x: Pair[bool]) { Two(True, True) }", init_module=later)["g"].checked_type is not None
    assert parse_expr("fn (%x: Pair[bool]) { %x }", module=later) is not None
    with pytest.raises(ParseError, match="f:1:9: unknown type 'Pair'"):
        parse_expr("fn (%x: Pair[bool]) { %x }", "f")
    with pytest.raises(ParseError, match="1:6: the type Pair is defined twice"):
        parse("type Pair { One }", init_module=later)
    with pytest.raises(ParseError, match="1:10: the constructor Two is defined twice"):
        parse("type P { Two }", init_module=later)


def test_an_annotation_with_the_unknown_type_is_none() -> None:
    assert_structural_equal(parse_expr("let %x: _ = (); %x"), parse_expr("let %x = (); %x"))
    assert_structural_equal(parse_expr("fn (%x: _) -> _ { %x }"), parse_expr("fn (%x) { %x }"))
    assert_structural_equal(parse_expr("match (1) { %x: _ => %x }"), parse_expr("match (1) { %x => %x }"))
    assert Var("x", IncompleteType()).type_annotation is None
    assert Function([], const(1), IncompleteType()).ret_type is None
    assert parse("def @f() -> _ { let %x: _ = (); %x }")["f"].checked_type == FuncType([], TupleType([]))
    assert parse("def @f(%y: (int8,)) { match (%y) { (%x: _,) => %x } }")["f"].checked_type == FuncType(
        [TupleType([TensorType((), "int8")])], TensorType((), "int8")
    )


@pytest.mark.parametrize("negative", ["", "-", "- -"])
@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("1e400", "the number 1e400 does not fit float32; write inff for infinity"),
        ("3.5e38f", "the number 3.5e38 does not fit float32; write inff for infinity"),
        ("1e400f64", "the number 1e400 does not fit float64; write inff64 for infinity"),
        ("65520f16", "the number 65520 does not fit float16; write inff16 for infinity"),
        ("4e38bf16", "the number 4e38 does not fit bfloat16; write infbf16 for infinity"),
        ("300i8", "300 does not fit int8"),
        ("9223372036854775809", "9223372036854775809 does not fit int64"),
        ("1" * 5000, "too many digits: 5000"),
    ],
)
def test_numbers_beyond_their_type_are_errors(negative: str, number: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse_expr(f"(1, {negative}{number})", "f")
    assert (caught.value.line, caught.value.column) == (1, 5 + len(negative))


@pytest.mark.parametrize("number", ["1e400", "1e400f64", "3.5e38f", "-1e39f", "1" * 5000])
def test_numbers_of_attributes_beyond_their_type_are_errors(number: str) -> None:
    with pytest.raises(ParseError, match=r"f:1:\d+: the (number|integer) 1*3?\.?"):
        parse_expr(f"clip(1f, a_min={number}, a_max=1f)", "f")
    assert parse_expr("(3.4028235e38f, 1.7976931348623157e308f64, 65504f16, 1e-400f, -inff, -inff64)") is not None


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("-1", "f:1:17: a dimension must be at least 0"),
        ("2, 3 - 7", "f:1:20: a dimension must be at least 0"),
        ("9223372036854775808", "f:1:17: a dimension must be at least 0 and at most 9223372036854775807"),
        ("1" * 5000, "f:1:17: the number is too large for a dimension"),
        (" * ".join(["(a + b + c + d + e + f + g + h)"] * 30), "f:1:17: the product is too large for a dimension"),
    ],
)
def test_invalid_dimensions(shape: str, message: str) -> None:
    with pytest.raises(ParseError, match=f"^{message}"):
        parse_expr(f"fn (%x: Tensor[({shape}), int8]) {{ 1 }}", "f")


def test_fields_beyond_all_tuples() -> None:
    with pytest.raises(ParseError, match="f:1:6: the number of the field is too large"):
        parse_expr(f"(1,).{'9' * 5000}", "f")
