"""The executor with TVM's arguments: arguments and results of evaluate, bindings, positional and keyword arguments, errors."""

from typing import Any

import numpy as np
import pytest

from passat.ir.expr import Function, GlobalVar, Tuple, const, var
from passat.ir.infer import InferError
from passat.ir.module import IRModule
from passat.ir.types import TensorType, TupleType
from passat.runtime import Device, Executor, ExecutorError, NDArray, TupleValue, cpu, create_executor, device

x, y = var("x", shape=(2,)), var("y", shape=(2,))
ONES = np.ones(2, np.float32)


def difference() -> Function:
    return Function([x, y], x - y)


def test_integers_of_numpys_default_type_become_narrower_ones_that_hold_them() -> None:
    f = Function([x := var("x", TensorType((2,), "uint8"))], x)
    assert create_executor().evaluate(f)(np.array([0, 255])).dtype == "uint8"
    with pytest.raises(TypeError, match=r"got a value of type Tensor\[\(2,\), int64\]"):
        create_executor().evaluate(f)(np.array([0, 256]))


@pytest.mark.parametrize("kind", ["debug", "graph", "vm"])
def test_every_kind_computes_the_same(kind: str) -> None:
    executor = create_executor(kind, mod=IRModule.from_expr(difference()), device=cpu(0), target="llvm")
    assert isinstance(executor, Executor)
    result = executor.evaluate()(3 * ONES, ONES)
    assert result.numpy().tolist() == result.asnumpy().tolist() == [2, 2]


def test_an_unknown_kind() -> None:
    with pytest.raises(RuntimeError, match="unknown execution strategy: aot; known: debug, graph, vm"):
        create_executor("aot")


def test_other_devices_and_targets() -> None:
    with pytest.raises(ValueError, match="unsupported device cuda"):
        create_executor(device=Device("cuda"))
    with pytest.raises(ValueError, match="unsupported target 'cuda'"):
        create_executor(target="cuda")
    assert create_executor(target="llvm -mcpu=core-avx2").device == device("cpu") == cpu()


def test_an_expression_has_a_value_at_once() -> None:
    assert create_executor().evaluate(const(2.0) * const(3.0)) == NDArray(np.float32(6))


def test_a_function_becomes_a_callable() -> None:
    run = create_executor().evaluate(difference())
    assert run(2 * ONES, ONES) == run(x=2 * ONES, y=ONES) == run(2 * ONES, y=ONES) == NDArray(ONES)


def test_a_global_function_is_converted_too() -> None:
    mod = IRModule({"main": difference(), "other": Function([x], x + x)})
    executor = create_executor(mod=mod)
    assert executor.evaluate(mod.get_global_var("other"))(ONES) == NDArray(2 * ONES)
    assert executor.evaluate(GlobalVar("other"))(ONES) == NDArray(2 * ONES)
    with pytest.raises(TypeError, match=r"can only supply keyword parameters for a relay.Function, found @other"):
        executor.evaluate(GlobalVar("other"))(x=ONES)
    with pytest.raises(KeyError, match="the module has no function 'third'"):
        executor.evaluate(GlobalVar("third"))


def test_an_expression_that_calls_the_module() -> None:
    mod = IRModule({"double": Function([x], x + x)})
    assert create_executor(mod=mod).evaluate(mod.get_global_var("double")(const([1.0, 2.0]))).numpy().tolist() == [2, 4]


def test_the_module_is_not_changed() -> None:
    mod = IRModule.from_expr(difference())
    main = mod["main"]
    create_executor(mod=mod, params={"y": ONES}).evaluate()(ONES)
    assert (mod["main"], list(mod)) == (main, [mod.get_global_var("main")])


def test_params_are_bound_by_name() -> None:
    run = create_executor(mod=IRModule.from_expr(difference()), params={"y": ONES}).evaluate()
    assert run(3 * ONES) == NDArray(2 * ONES)
    with pytest.raises(TypeError, match="the parameter %y has type"):
        create_executor(mod=IRModule.from_expr(difference()), params={"y": (ONES, ONES)})


def test_without_a_main() -> None:
    with pytest.raises(KeyError, match="the module has no function 'main'"):
        create_executor().evaluate()


@pytest.mark.parametrize("given", [ONES, NDArray(ONES), const([1.0, 1.0]), [1, 1]])
def test_binds(given: Any) -> None:
    assert create_executor().evaluate(x + x, binds={x: given}) == NDArray(2 * ONES)


def test_binds_may_use_each_other() -> None:
    assert create_executor().evaluate(y + y, binds={x: ONES, y: x + x}) == NDArray(4 * ONES)


def test_a_function_with_binds() -> None:
    run = create_executor().evaluate(Function([x], x + y), binds={y: ONES})
    assert run(ONES) == NDArray(2 * ONES)


def test_binds_without_an_expression() -> None:
    with pytest.raises(ExecutorError, match="binds requires an expression"):
        create_executor().evaluate(binds={x: ONES})


def test_free_variables() -> None:
    with pytest.raises(ExecutorError, match=r"the expression has free variables: %x, %y; pass values with binds"):
        create_executor().evaluate(x + y)
    with pytest.raises(ExecutorError, match=r"free variables: %y"):
        create_executor().evaluate(Function([x], x + y))


def test_a_program_without_a_type() -> None:
    with pytest.raises(InferError):
        create_executor().evaluate(Function([x], x + const([1.0, 2.0, 3.0])))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((ONES,), {}, "^insufficient arguments, expected 2, provided 1; missing: %y$"),
        ((), {"x": ONES}, "^insufficient arguments, expected 2, provided 1; missing: %y$"),
        ((ONES, ONES, ONES), {}, "^too many arguments, expected 2, provided 3$"),
        (
            (ONES, ONES),
            {"x": ONES},
            r"^duplicate argument supplied in both positional args \(at position: 0\), and keyword argument \(with name: x\)$",
        ),
        ((ONES, ONES), {"z": ONES}, "^the function has no parameter %z; it has: %x, %y$"),
        (
            (ONES, np.ones(3, np.float32)),
            {},
            r"^the argument %y has type Tensor\[\(2,\), float32\], but got a value of type Tensor\[\(3,\), float32\]",
        ),
        ((ONES, np.ones(2)), {}, "got a value of type .*float64."),
        ((ONES, "text"), {}, "the argument %y has element type float32, but got 'text'"),
        ((ONES, {}), {}, "the argument %y cannot be a dict"),
        ((ONES, (ONES, ONES)), {}, "the argument %y has type"),
    ],
)
def test_wrong_arguments(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        create_executor().evaluate(difference())(*args, **kwargs)


def test_numbers_take_the_element_type_of_the_parameter() -> None:
    n = var("n", "float64")
    assert create_executor().evaluate(Function([n], n))(2).dtype == "float64"
    assert create_executor().evaluate(Function([x], x))([1, 2]).dtype == "float32"
    k = var("k", "int8")
    with pytest.raises(TypeError, match=r"the argument %k has element type int8, but got 1.5"):
        create_executor().evaluate(Function([k], k))(1.5)
    with pytest.raises(TypeError, match="but got 300"):
        create_executor().evaluate(Function([k], k))(300)


def test_tuples_go_in_and_come_out() -> None:
    pair = var("p", TupleType([TensorType((2,)), TupleType([TensorType((), "bool")])]))
    run = create_executor().evaluate(Function([pair], Tuple([pair[1], pair])))
    result = run((ONES, [True]))
    assert isinstance(result, TupleValue)
    assert result[0][0].numpy()
    assert run(result[1]) == result
    with pytest.raises(TypeError, match="the argument %p is a tuple of 2, but got 1 value"):
        run((ONES,))
    with pytest.raises(TypeError, match="field 0 of field 1 of the argument %p"):
        run((ONES, (ONES,)))


def test_a_result_that_is_a_function() -> None:
    n = var("n", "int32")
    outer = create_executor().evaluate(Function([n], Function([x], x + x)))
    assert outer(1)(ONES) == outer(1)(x=ONES) == NDArray(2 * ONES)


def test_arrays_are_copied_on_the_way_in_and_out() -> None:
    given = ONES.copy()
    result = create_executor().evaluate(Function([x], x))(given)
    given[:] = 5
    result.numpy()[:] = 6
    assert result == NDArray(ONES)
