"""Type inference raises only InferError for any program."""

from random import Random

import numpy as np
import pytest

from passat import relay
from passat.ir.dtypes import NAMES
from passat.ir.expr import Call, Expr, If, Tuple, TupleGetItem, Var, const, var
from passat.ir.infer import InferError, infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.shape import Any, SymDim
from passat.ir.traverse import post_order
from passat.ir.type_check import type_flaws
from passat.ir.types import TensorType, TupleType, Type
from passat.relay import Function
from tests.arbitrary import program
from tests.share import share

x = var("x", shape=(2, 3))


@pytest.mark.parametrize("first", range(0, share(500, 1000), 250))
def test_any_program_has_a_type_or_an_infer_error(first: int) -> None:
    for seed in range(first, first + 250):
        tried = program(Random(seed))
        shown = _error_of(tried)
        assert shown or tried._checked_type is not None, seed
        for node in post_order(tried):
            if node._checked_type is not None and isinstance(node, Call):
                assert _is_type(node._checked_type), (seed, node._checked_type)
        type_flaws(IRModule.from_expr(Function([], tried)))


def _error_of(tried: Expr) -> str:
    """The error of inference for a program; nothing if it is well typed."""
    try:
        infer_type(tried)
    except InferError as error:
        return error.render()
    return ""


def _is_type(type_: Type) -> bool:
    if isinstance(type_, TupleType):
        return all(map(_is_type, type_.fields))
    if not isinstance(type_, TensorType):
        return True
    return type_.dtype in NAMES and all(
        isinstance(dim, (SymDim, Any)) or (isinstance(dim, (int, np.integer)) and not isinstance(dim, bool) and dim >= 0)
        for dim in type_.shape
    )


def test_the_condition_of_an_if_that_is_the_result_of_a_closure() -> None:
    condition = Call(Var("f"), [x])
    condition._checked_type = x.checked_type
    with pytest.raises(InferError, match="must be a scalar bool") as caught:
        infer_type(If(condition, x, x))
    assert caught.value.render().splitlines()[2:] == [
        "  | if (%0) { %x } else { %x }",
        "  |   %0: Tensor[(2, 3), float32], of %f",
        "  |   %x: Tensor[(2, 3), float32]",
    ]


@pytest.mark.parametrize(
    ("op", "attrs", "message"),
    [
        ("split", {"indices_or_sections": (0, 10**30, float("inf"))}, "split"),
        ("split", {"indices_or_sections": 10**9, "axis": 0}, "cannot be split into 1000000000 equal parts"),
        ("expand_dims", {"axis": 0, "num_newaxis": 10**9}, "num_newaxis must be from 0 to 64, not 1000000000"),
        ("reshape", {"newshape": (2.0, 3)}, "a dimension must be an integer, a name or Any.., not 2.0"),
        ("reshape", {"newshape": {1}}, "unsupported type of an attribute value"),
        ("cast", {"dtype": "nope"}, "nope"),
    ],
)
def test_attributes_of_any_kind(op: str, attrs: dict[str, object], message: str) -> None:
    declared = get_op(op)
    operand = var("x", shape=(0, "n"))
    with pytest.raises(InferError, match=message):
        infer_type(Call(declared, [operand], declared.bind_attrs(attrs)))


def test_a_type_relation_may_raise_lookup_and_arithmetic_errors() -> None:
    def relation(data: TensorType, *, table: int = 0) -> TensorType:
        return data.with_shape([{0: 1}[table] // data.ndim])

    careless = Op("test.careless", relation)
    with pytest.raises(InferError, match=r"test.careless\(Tensor\[\(2, 3\), float32\]; table=7\)"):
        infer_type(careless(x, table=7))
    with pytest.raises(InferError, match="division"):
        infer_type(careless(TupleGetItem(Tuple([const(1.0)]), 0)))


def test_a_known_tuple_without_the_field() -> None:
    """Shape arithmetic reads the shape before the type of the field is inferred."""
    shape = TupleGetItem(Tuple([const(np.array([2, 3]))]), 3)
    with pytest.raises(InferError, match="field 3 is out of range for a tuple of 1 field"):
        infer_type(relay.reshape(x, shape))


def test_types_that_nest_too_deep_are_an_infer_error() -> None:
    deep: Expr = x
    for _ in range(5000):
        deep = Tuple([deep])
    assert isinstance(infer_type(deep).checked_type, TupleType)
    with pytest.raises(InferError, match="types are nested too deeply here"):
        infer_type(get_op("add")(deep, x))
