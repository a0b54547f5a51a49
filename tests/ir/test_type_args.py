"""`Call.type_args`: given types, and those that follow from inferred types."""

import pytest

from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Function, Var
from passat.ir.graph_json import load_json, save_json
from passat.ir.infer import InferError, infer_type
from passat.ir.op import get_op
from passat.ir.text import parse
from passat.ir.types import TensorType, TupleType

F32, I32 = TensorType(()), TensorType((), "int32")
GENERIC = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil }
def @first[A, B](%x: A, %y: B) -> A { %x }
def @twice[A](%x: A, %y: A) -> A { %x }
"""


def call_in(body: str) -> Call:
    found = parse(f"{GENERIC} def @main(%x: float32, %n: int32) {{ {body} }}")["main"]
    assert isinstance(found, Function)
    assert isinstance(found.body, Call)
    return found.body


def test_an_operator_has_the_types_of_its_arguments() -> None:
    x, y = Var("x", TensorType((10, 10))), Var("y", TensorType((1, 10)))
    call = get_op("add")(x, y)
    assert isinstance(call, Call)
    assert infer_type(call).checked_type == TensorType((10, 10))
    assert call.type_args == (TensorType((10, 10)), TensorType((1, 10)))


def test_they_are_empty_before_inference() -> None:
    call = get_op("add")(x := Var("x"), x)
    assert isinstance(call, Call)
    assert call.type_args == ()


@pytest.mark.parametrize(
    ("body", "types"),
    [
        ("@first(%x, %n)", (F32, I32)),
        ("@first((%x, %n), %n)", (TupleType([F32, I32]), I32)),
        ("Cons(%n, Nil)", (I32,)),
        ("@first[float32, int32](%x, %n)", (F32, I32)),
        ("(fn (%y: float32) { %y })(%x)", ()),
    ],
)
def test_a_generic_function_has_the_types_of_its_parameters(body: str, types: tuple[TensorType, ...]) -> None:
    assert call_in(body).type_args == types


def test_given_types_are_checked() -> None:
    with pytest.raises(InferError, match="argument 1 has type float32, but the function expects int32"):
        call_in("@first[int32, int32](%x, %n)")
    with pytest.raises(InferError, match="a function with 1 type parameter is given 2 types"):
        call_in("@twice[int32, int32](%n, %n)")


def test_an_error_shows_the_type_that_earlier_arguments_determine() -> None:
    with pytest.raises(InferError, match="argument 2 has type int32, but the function expects float32"):
        call_in("@twice(%x, %n)")


def test_types_that_follow_are_not_content() -> None:
    """Two programs that differ in them alone are equal, and texts and files omit them."""
    call = call_in("@first(%x, %n)")
    plain = Call(call.op, call.args)
    assert call.type_args
    assert not plain.type_args
    assert structural_equal(call, plain)
    assert "[" not in repr(call)
    loaded = load_json(save_json(call))
    assert isinstance(loaded, Call)
    assert loaded._type_args == ()


def test_given_types_are_content() -> None:
    call = call_in("@first[float32, int32](%x, %n)")
    assert not structural_equal(call, Call(call.op, call.args))
    assert "@first[float32, int32](%x, %n)" in repr(call)
