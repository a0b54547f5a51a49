"""Arguments that are not expressions are rejected when an expression is built."""

from collections.abc import Callable

import numpy as np
import pytest

from passat.ir.dim_text import parse_dim
from passat.ir.expr import Call, Function, GlobalVar, If, Let, const, var
from passat.ir.module import IRModule
from passat.ir.shape import Any, SymDim
from passat.ir.text import parse, parse_expr
from passat.ir.types import TensorType
from passat.runtime import create_executor

x = var("x", shape=(2,))
f = Function([x], x)


# each line is a mistake, which type checkers detect, too
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: f(1), r"an argument of a call must be an expression, not a int; write relay.const\(1\)"),  # type: ignore[arg-type]
        (lambda: Function(x, x), "the parameters of a function must be a list of variables, not an expression"),
        (lambda: Function([const(1)], x), "a parameter of a function must be a variable, not a Constant"),  # type: ignore[list-item]
        (lambda: Function([x], None), "the body of a function must be an expression, not a NoneType"),  # type: ignore[arg-type]
        (lambda: Let("a", x, x), "the variable of a let must be a variable, not a str"),  # type: ignore[arg-type]
        (lambda: Let(x, 1.5, x), r"the value of a let must be an expression, not a float; write relay.const\(1.5\)"),  # type: ignore[arg-type]
        (lambda: Let(x, x, None), "the body of a let must be an expression"),  # type: ignore[arg-type]
        (lambda: If(True, x, x), r"the condition of an if must be an expression, not a bool; write relay.const\(True\)"),  # type: ignore[arg-type]
        (lambda: If(x, None, x), "a branch of an if must be an expression"),  # type: ignore[arg-type]
        (lambda: If(x, x, [x]), "a branch of an if must be an expression, not a list"),  # type: ignore[arg-type]
        (lambda: var("x", (1, 2)), r"type_annotation must be a type or the name of an element type, not \(1, 2\); use shape="),  # type: ignore[arg-type]
        (lambda: var("x", shape=3), "shape must be a list of dimensions, not 3"),  # type: ignore[arg-type]
        (lambda: var("x", shape="2,3"), r"shape must be a list of dimensions, not the text '2,3'; write shape=\(2, 3,\)"),
        (lambda: TensorType("23"), "shape must be a list of dimensions, not the text '23'"),  # type: ignore[arg-type]
        (lambda: TensorType({2, 3}), "shape must be a list of dimensions, not {2, 3}"),
        (lambda: TensorType((2.0, 3)), r"a dimension must be an integer, a name or Any\(\), not 2.0"),  # type: ignore[arg-type]
        (lambda: var(None), "the name of a variable must be a text, not None"),  # type: ignore[arg-type]
        (lambda: GlobalVar(3), "the name of a function must be a text, not 3"),  # type: ignore[arg-type]
        (lambda: Call("add", [x, x]), r"a call needs an operator or a function, not the text 'add'; write relay.op.get\('add'\)"),  # type: ignore[arg-type]
        (lambda: parse(None), "a program is parsed from a text, not from a NoneType"),  # type: ignore[arg-type]
        (lambda: parse_expr(b"1"), "a program is parsed from a text, not from a bytes; decode it first"),  # type: ignore[arg-type]
        (lambda: var("x", shape=(1.5,)), r"a dimension must be an integer, a name or Any\(\), not 1.5"),
        (lambda: IRModule(f), "the functions of a module must be a mapping from names, not a Function; see IRModule.from_expr"),  # type: ignore[arg-type]
        (lambda: IRModule([f]), "the functions of a module must be a mapping from names, not a list"),  # type: ignore[arg-type]
        (lambda: IRModule({1: f}), "a function is identified by a string or a GlobalVar, not by a int"),  # type: ignore[dict-item]
        (lambda: IRModule.from_expr(None), "a module is created from an expression, not from a NoneType"),  # type: ignore[arg-type]
        (lambda: IRModule.from_expr(IRModule()), "a module is created from an expression, not from a IRModule"),  # type: ignore[arg-type]
        (lambda: create_executor(mod=f), "the executor takes an IRModule, not a Function"),  # type: ignore[arg-type]
    ],
)
def test_values_that_are_not_expressions(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: var("x", shape=(2, -1)), r"a dimension must not be negative, but is -1; use Any\(\) for an unknown size"),
        (lambda: var("x", shape=("-3",)), r"a dimension must not be negative, but is -3; use Any\(\) for an unknown size"),
        (lambda: var("x", shape=(2,), dtype="flot32"), "unknown element type 'flot32'; known: bfloat16, bool"),
        (lambda: var("x", "flot32"), "unknown element type 'flot32'; known: .*; did you mean float32"),
        (lambda: var("x", shape=(2,), dtype=np.float32), "unknown element type .*; write 'float32'"),  # type: ignore[arg-type]
        (lambda: var("x", shape=("",)), "the name of a dimension must not be empty"),
    ],
)
def test_types_of_unknown_variables(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_dimensions_of_every_kind() -> None:
    sizes, symbol = np.array([2, 3]), parse_dim("m")
    made = var("x", shape=(*sizes, Any(), "n", symbol), dtype="uint1").checked_type
    assert repr(made) == "Tensor[(2, 3, ?, n, m), bool]"
    assert isinstance(made, TensorType)
    assert [type(dim) for dim in made.shape] == [int, int, Any, SymDim, SymDim]
    assert var("x", "uint1").checked_type == TensorType((), "bool")


def test_the_repr_of_an_executor() -> None:
    assert repr(create_executor()) == "Executor(llvm on cpu(0))"
