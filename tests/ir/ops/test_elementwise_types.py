"""Types of elementwise operators and reductions on symbolic dimensions, and error messages."""

from collections.abc import Sequence
from typing import Any as AnyValue

import pytest

from passat.ir.expr import Call, Tuple, var
from passat.ir.infer import infer_type
from passat.ir.onnx_mapping import OnnxVersionError
from passat.ir.op import OpTypeError, get_op
from passat.ir.types import IncompleteType, TensorType, TupleType, Type

T = TensorType
F = TensorType((2, 3), "float32")
INT = TensorType((2, 3), "int32")

ERRORS: list[tuple[str, Sequence[Type], dict[str, AnyValue], str]] = [
    (
        "add",
        [F, INT],
        {},
        "add(Tensor[(2, 3), float32], Tensor[(2, 3), int32]): operands have different element types float32 and int32; cast one",
    ),
    ("add", [F, T((4,))], {}, "shapes (2, 3) and (4,) do not broadcast: 3 against 4"),
    ("add", [F], {}, "takes 2 operands, but got 1"),
    ("add", [F, TupleType([F])], {}, "the operand must be a tensor, but has type (Tensor[(2, 3), float32],)"),
    ("sqrt", [INT], {}, "sqrt(Tensor[(2, 3), int32]): takes floating-point elements of 16 to 64 bits, not int32"),
    ("logical_and", [F, F], {}, "takes bool, not float32"),
    ("bitwise_not", [F], {}, "takes integer elements of 8 to 64 bits, not float32"),
    ("negative", [T((), "uint8")], {}, "takes signed numbers of 8 to 64 bits, not uint8"),
    ("where", [F, F, F], {}, "takes bool, not float32"),
    ("where", [T((), "bool"), F, INT], {}, "operands have different element types float32 and int32; cast one"),
    ("cast", [F], {"dtype": "string"}, "can convert to numbers of 8 to 64 bits or bool, not to string"),
    ("cast", [T((), "string")], {"dtype": "int8"}, "takes numbers of 8 to 64 bits, or bool, not string"),
    ("clip", [INT], {"a_min": 0.5}, "a bound of 0.5 is not a valid int32"),
    ("clip", [INT], {"a_max": float("inf")}, "a bound of inf is not a valid int32"),
    ("clip", [F], {"a_max": float("nan")}, "a bound of nan is not a valid float32"),
    ("nn.prelu", [F, T((4, 2, 3))], {}, "alpha of shape (4, 2, 3) does not broadcast to (2, 3)"),
    ("nn.prelu", [T((2, 1)), T((3,))], {}, "alpha of shape (3,) does not broadcast to (2, 1)"),
    ("nn.gelu", [F], {"approximate": "fast"}, "approximate must be 'none' or 'tanh', not 'fast'"),
    ("elemwise_sum", [TupleType([])], {}, "takes at least one operand"),
    (
        "sum",
        [F],
        {"axis": 2},
        "sum(Tensor[(2, 3), float32]; axis=2, keepdims=False, exclude=False): axis=2 is out of range for 2 dimensions",
    ),
    ("sum", [F], {"axis": (0, -2)}, "axis=(0, -2) names an axis twice"),
    ("sum", [F], {"axis": ()}, "axis=() leaves no axis to reduce"),
    ("sum", [F], {"axis": (0, 1), "exclude": True}, "axis=(0, 1) leaves no axis to reduce"),
    ("sum", [F], {"exclude": True}, "exclude=True requires an axis"),
    ("sum", [T((2,), "int8")], {}, "takes numbers: floating-point ones, or integers of 32 or 64 bits, not int8"),
    ("argmax", [F], {"axis": 2}, "Tensor[(2, 3), float32] has no axis 2"),
    ("cumsum", [F], {"axis": -3}, "Tensor[(2, 3), float32] has no axis -3"),
]


@pytest.mark.parametrize(("name", "types", "attrs", "message"), ERRORS, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(ERRORS)])
def test_errors_name_the_operator_the_types_and_the_reason(
    name: str, types: Sequence[Type], attrs: dict[str, AnyValue], message: str
) -> None:
    op = get_op(name)
    with pytest.raises(OpTypeError) as caught:
        op.infer(types, op.bind_attrs(attrs))
    assert str(caught.value).startswith(f"{name}(")
    assert message in str(caught.value)


def infer(call: Call) -> Type:
    return infer_type(call).checked_type


def test_symbolic_dimensions() -> None:
    x = var("x", shape=("n", 3, 1))
    y = var("y", shape=("n", 1, "m"))
    add, sum_, argmax = get_op("add"), get_op("sum"), get_op("argmax")
    assert repr(infer(add(x, y))) == "Tensor[(n, 3, m), float32]"
    assert repr(infer(add(x, var("z", shape=("k", 1, 1))))) == "Tensor[(?, 3, 1), float32]"
    assert repr(infer(add(x, var("z", shape=(5, 1, 1))))) == "Tensor[(5, 3, 1), float32]"
    assert repr(infer(sum_(add(x, y), axis=1))) == "Tensor[(n, m), float32]"
    assert repr(infer(sum_(add(x, y), axis=1, keepdims=True, exclude=True))) == "Tensor[(1, 3, 1), float32]"
    assert repr(infer(argmax(x, axis=-2, keepdims=True))) == "Tensor[(n, 1, 1), int64]"
    assert repr(infer(get_op("nn.prelu")(x, var("a", shape=(3, 1))))) == "Tensor[(n, 3, 1), float32]"
    assert repr(infer(get_op("elemwise_max")(Tuple([x, y])))) == "Tensor[(n, 3, m), float32]"
    assert repr(infer(get_op("less")(x, y))) == "Tensor[(n, 3, m), bool]"
    assert repr(infer(sum_(var("s", shape=())))) == "float32"


def test_results_of_operands_of_unknown_type_are_unknown() -> None:
    unknown, x = var("u"), var("x", shape=(2,))
    for call in (get_op("add")(unknown, x), get_op("exp")(unknown), get_op("sum")(unknown, axis=0)):
        assert isinstance(infer(call), IncompleteType)


class OldOpset:
    """An emitter of opset 7, for operators that it lacks."""

    opset = 7


@pytest.mark.parametrize(("name", "since"), [("erf", 9), ("round", 11), ("nn.thresholded_relu", 10), ("bitwise_and", 18), ("where", 9)])
def test_an_operator_that_the_opset_lacks_is_named(name: str, since: int) -> None:
    op = get_op(name)
    variables = [var(f"x{i}", shape=(2,), dtype="int32" if name == "bitwise_and" else "float32") for i in range(op.arity)]
    if name == "where":
        variables[0] = var("c", shape=(2,), dtype="bool")
    call = op(*variables)
    infer_type(call)
    assert op.to_onnx is not None
    with pytest.raises(OnnxVersionError, match=rf"^{name} needs ONNX opset {since} or later; the model is written in opset 7$"):
        op.to_onnx(call, ["x"] * op.arity, OldOpset())  # type: ignore[arg-type]  # no node is put anywhere
