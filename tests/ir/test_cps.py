"""Continuation-passing style."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings

from passat import relay
from passat.error import TVMError
from passat.ir.cps import CpsError, cps_type, to_cps, un_cps
from passat.ir.expr import Call, Expr, Function, GlobalVar, If, Let, Match, Var, const
from passat.ir.infer import infer_module, infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx
from passat.ir.op import Op, get_op
from passat.ir.shape import evaluate_dim
from passat.ir.text import parse
from passat.ir.traverse import children, post_order
from passat.ir.types import FuncType, RefType, TensorType, TupleType, TypeVar, occurring
from passat.runtime import ExecutorError, NDArray, TupleValue, create_executor
from tests.share import share
from tests.strategies import programs

f32 = TensorType(())
answer = TypeVar("answer")


def test_the_type_of_a_function_that_takes_functions() -> None:
    inner = FuncType([f32], f32)
    converted = FuncType([f32, FuncType([f32], answer)], answer)
    assert cps_type(inner, answer) == converted
    assert cps_type(TupleType([RefType(inner), f32]), answer) == TupleType([RefType(converted), f32])
    assert cps_type(FuncType([inner], f32), answer) == FuncType([converted, FuncType([f32], answer)], answer)


def test_a_function_gets_a_continuation() -> None:
    x = Var("x", f32)
    made = infer_type(to_cps(Function([x], x)))
    assert made.checked_type == FuncType([f32, FuncType([f32], answer)], answer, [answer])


def calls_last(body: Expr) -> bool:
    """Whether functions are called in tail position only, and nothing else is returned."""
    stack = [body]
    while stack:
        part = stack.pop()
        while isinstance(part, Let):
            if isinstance(part.value, Call) and not isinstance(part.value.op, Op):
                return False
            part = part.body
        if isinstance(part, (If, Match)):
            stack += children(part)[1:]
        elif not isinstance(part, Call):
            return False
    return True


def argument_for(param: Var) -> NDArray:
    type_ = param.checked_type
    assert isinstance(type_, TensorType)
    shape = [evaluate_dim(dim, {}, 2) for dim in type_.shape]
    return NDArray(np.linspace(-1, 1, int(np.prod(shape))).reshape(shape).astype(type_.dtype))


def assert_same(left: object, right: object) -> None:
    """Whether two results are the same, as far as they are tensors."""
    assert type(left) is type(right)
    if isinstance(left, NDArray) and isinstance(right, NDArray):
        np.testing.assert_array_equal(left.numpy(), right.numpy())
    elif isinstance(left, TupleValue) and isinstance(right, TupleValue):
        for a, b in zip(left, right, strict=True):
            assert_same(a, b)


@settings(max_examples=share(30, 200))
@given(programs(effects=True))
def test_random_programs_compute_the_same(function: Function) -> None:
    infer_type(function)
    converted = to_cps(function)
    assert all(calls_last(node.body) for node in post_order(converted) if isinstance(node, Function))
    if answer in occurring(cps_type(function.func_type.ret_type, answer)):
        with pytest.raises(CpsError, match="has functions in continuation-passing style"):
            un_cps(converted)
        return
    returned = un_cps(converted)
    infer_type(returned)
    arguments = [argument_for(param) for param in function.params]
    try:
        expected = create_executor().evaluate(function)(*arguments)
    except ExecutorError:
        return  # unknown sizes do not fit
    assert_same(expected, create_executor().evaluate(returned)(*arguments))


SUM = """#[version = "0.0.5"]
def @main(%n: int32) -> int32 { @sum(%n, 0) }
def @sum(%n: int32, %total: int32) -> int32 {
  if (equal(%n, 0)) { %total } else { @sum(subtract(%n, 1), add(%total, %n)) }
}
"""


def test_recursive_functions_of_a_module() -> None:
    module = infer_module(parse(SUM))
    module["main"] = to_cps(module["main"], module)
    infer_module(module)
    assert "sum_cps" in module
    module["main"] = un_cps(module["main"])
    infer_module(module)
    assert create_executor(mod=module).evaluate()(4).numpy() == 10


def test_the_passes() -> None:
    module = relay.transform.ToCPS()(infer_module(parse(SUM)))
    assert [var.name_hint for var in module.functions] == ["main", "sum", "sum_cps"]
    returning = relay.transform.UnCPS()(module)
    assert create_executor(mod=returning).evaluate()(4).numpy() == 10
    assert returning["main"].func_type == FuncType([TensorType((), "int32")], TensorType((), "int32"))


def test_the_passes_in_turn() -> None:
    """Parameters that are in continuation-passing style return the answer, too, so their types change with it."""
    module = infer_module(parse(SUM))
    for _ in range(2):
        module = relay.transform.UnCPS()(infer_module(relay.transform.ToCPS()(module)))
        assert create_executor(mod=infer_module(module)).evaluate()(4).numpy() == 10


def test_a_long_program() -> None:
    x = Var("x", f32)
    body: Expr = x
    length = share(3_000, 5_000)
    for _ in range(length):
        body = get_op("add")(body, const(1.0))
    made = un_cps(to_cps(Function([x], body)))
    assert create_executor().evaluate(made)(np.float32(1)).numpy() == length + 1


def test_a_name_that_is_taken() -> None:
    x = Var("x", answer)
    made = infer_type(to_cps(Function([x], x, answer, [answer])))
    other = TypeVar("answer_")
    assert made.checked_type == FuncType([answer, FuncType([answer], other)], other, [answer, other])


def test_what_has_no_continuation_passing_style() -> None:
    x, y, f = Var("x", f32), Var("y", f32), Var("f")
    with pytest.raises(TVMError, match="sqrt is used as a value; make it a function"):
        to_cps(Function([x], Let(f, get_op("sqrt"), f(x))))
    branch = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 20]> g (bool c, float[4] x) => (float[4] y) {'
        "y = If (c) <then_branch = t () => (float[4] p) { p = Neg(x) }, else_branch = e () => (float[4] q) { q = Abs(x) }> }"
    )
    with pytest.raises(CpsError, match="If calls functions that return their results"):
        to_cps(from_onnx(branch)["main"])
    with pytest.raises(CpsError, match="the program calls @g, which the module does not have"):
        to_cps(Function([x], GlobalVar("g", FuncType([f32], f32))(x)))
    with pytest.raises(CpsError, match="its last parameter must be a continuation"):
        un_cps(Function([x], x))
    with pytest.raises(CpsError, match="has functions in continuation-passing style"):
        un_cps(to_cps(Function([x], Function([y], y))))


def test_functions_of_other_code_generators_are_called_as_they_are() -> None:
    x, y = Var("x", f32), Var("y", f32)
    sealed = Function([y], get_op("exp")(y), attrs={"Primitive": 1})
    made = un_cps(to_cps(Function([x], sealed(x))))
    infer_type(made)
    assert any(node is sealed for node in post_order(made))
    assert IRModule.from_expr(made)["main"].func_type.ret_type == f32
