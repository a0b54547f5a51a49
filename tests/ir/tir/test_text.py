"""The text of the loop IR."""

import pytest
from hypothesis import given

from passat.ir import assert_structural_equal, structural_equal, structural_hash
from passat.ir.tir.builder import create
from passat.ir.tir.expr import IntImm, Var
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.parser import parse_expr, parse_function, parse_stmt
from passat.ir.tir.printer import show
from passat.ir.tir.stmt import Allocate, Evaluate
from passat.ir.tir.tokens import TirParseError
from passat.ir.tir.types import PointerType, PrimType, TirError
from passat.ir.tir.values import true
from tests.ir.tir.programs import functions
from tests.share import share


@given(functions())
def test_functions_are_read_as_printed(function: PrimFunc) -> None:
    text = show(function)
    again = parse_function(text)
    assert show(again) == text
    assert_structural_equal(function, again)
    assert structural_hash(function) == structural_hash(again)


@pytest.mark.parametrize("text", ["seq {}", "seq {\n  seq {}\n}", "seq {\n  seq {}\n}\nseq {}"])
def test_sequences_within_sequences_stay(text: str) -> None:
    assert show(parse_stmt(text)) == text


@pytest.mark.parametrize("scope", ["global", "local.L1", "global:tag", "wmma.matrix_a:x.y", "with a space", "a:b:c", 'a "text"', "@a", "1"])
def test_any_scope_is_read_as_printed(scope: str) -> None:
    memory = Var("A", PointerType(PrimType("float32"), scope))
    text = show(Allocate(memory, "float32", [4], true(1), Evaluate(memory)))
    again = parse_stmt(text)
    assert show(again) == text
    assert isinstance(again, Allocate)
    assert again.buffer_var.type_annotation == memory.type_annotation


@pytest.mark.parametrize(
    "text",
    ["(float32*)A: Pointer(global float32)[i: int32]", "(int8x4*)A: Pointer(global int8)[ramp(0, 1, 4) where broadcast(n: bool, 4)]"],
)
def test_loads_are_expressions(text: str) -> None:
    assert show(parse_expr(text)) == text


def test_long_programs_do_not_use_the_stack() -> None:
    total = x = Var("x")
    for _ in range(share(4_000, 30_000)):
        total = total + x  # type: ignore[assignment]  # a sum
    again = parse_expr(show(total))
    assert structural_equal(total, again, map_free_vars=True)
    assert structural_hash(total, map_free_vars=True) == structural_hash(again, map_free_vars=True)
    ib = create()
    memory = ib.pointer("int32")
    for place in range(share(2_000, 5_000)):
        memory[place] = place
    stmt = ib.get()
    assert structural_equal(parse_stmt(show(stmt)), stmt, map_free_vars=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("primfn(n: int32) {\n  evaluate((n + 1f32))\n}", "line 2, column 22: Add has operands of one type, not int32 and float32"),
        ("primfn(n: int32) {\n  evaluate(m)\n}", "line 2, column 12: m is not declared; its first use names its type, such as m: int32"),
        ("primfn(n: int32, n: int32) { evaluate(n) }", "line 1, column 21: n is declared twice"),
        ("primfn(n: int33x) { evaluate(n) }", "line 1, column 11: 'int33x' is not an element type"),
        ("primfn(n: int32) { let k: int32 = n }", "line 1, column 37: expected a statement after the last one"),
        ('primfn(n: int32) { for (i: int32, 0, n) "fast" {} }', "line 1, column 41: loops are serial, parallel"),
        ("primfn(n: int32) { evaluate(@tir.foo(n, dtype=int32)) }", "line 1, column 29: there is no function tir.foo"),
        ("primfn(n: int32) { evaluate(1.5) }", "line 1, column 29: the integer 1.5 has a fraction"),
        ("primfn(n: int32) { evaluate(300i8) }", "int8 has the numbers from -128 to 127, not 300"),
        ("primfn(n: int32) { evaluate(n)", "line 1, column 31: expected '}', found 'the end of the text'"),
        ("primfn(n: int32) { evaluate(n) } #", "line 1, column 34: unexpected character '#'"),
        ("primfn(n: int32) with {1} { evaluate(n) }", "line 1, column 23: expected a value as JSON has it, found '{'"),
        (f"primfn(n: int32) {{ evaluate({'!' * 300}True) }}", "nested more than 100 levels deep"),
    ],
)
def test_errors_name_line_and_column(text: str, message: str) -> None:
    with pytest.raises(TirParseError) as caught:
        parse_function(text)
    assert message in str(caught.value)


def test_only_texts_are_read() -> None:
    with pytest.raises(TypeError, match="a program of loops is read from a str, not from a NoneType"):
        parse_function(None)  # type: ignore[arg-type]  # what the test is about


@pytest.mark.parametrize("text", ["{}", "-{}", "{}i64", "A[{}]", "int{}", "int8x{}"])
def test_an_integer_of_too_many_digits_is_one_short_sentence(text: str) -> None:
    for digits in (4300, 30_000):
        with pytest.raises(TirParseError) as caught:
            parse_expr(text.format("9" * digits))
        assert str(caught.value).count("\n") == 0
        assert len(str(caught.value)) < 1000


def test_a_number_of_too_many_digits_for_its_type_is_one_sentence() -> None:
    with pytest.raises(TirError, match=r"^int32 has the numbers from -2147483648 to 2147483647, not a number of 16610 bits$"):
        IntImm("int32", 10**5000)
