"""Executors of expressions that build what they evaluate."""

from typing import Any

import numpy as np
import pytest

from passat import relay
from passat.instrument import PassInstrument
from passat.ir.module import IRModule
from passat.runtime import NDArray, TupleValue, create_executor
from passat.runtime.graph import GraphError
from passat.transform import PassContext, PassInfo

KINDS = ("debug", "graph", "vm")
BUILDING = ("graph", "vm")
X = np.array([[1.0, -2.0, 3.0]], np.float32)
ROW = relay.TensorType((1, 3))
x, y = relay.var("x", ROW), relay.var("y", ROW)


@pytest.mark.parametrize("kind", KINDS)
def test_tuples_are_given_and_returned(kind: str) -> None:
    pair = relay.var("pair", relay.TupleType([ROW, relay.TupleType([ROW])]))
    nested = relay.TupleGetItem(relay.TupleGetItem(pair, 1), 0)
    function = relay.Function([pair], relay.Tuple([nested, relay.Tuple([relay.nn.relu(relay.TupleGetItem(pair, 0)), nested])]))
    found = create_executor(kind).evaluate(function)((X, (2 * X,)))
    assert found == TupleValue(NDArray(2 * X), TupleValue(NDArray(np.maximum(X, 0)), NDArray(2 * X)))


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_agree(kind: str) -> None:
    module = IRModule.from_expr(relay.Function([x, y], relay.exp(x) - y * y))
    executor = create_executor(kind, module, params={"y": X})
    np.testing.assert_allclose(executor.evaluate()(X).numpy(), np.exp(X) - X * X, rtol=1e-6)
    assert executor.evaluate(relay.const([1.0]) + relay.const([2.0])) == NDArray(np.array([3.0], np.float32))
    assert executor.evaluate(x + x, binds={x: X}) == NDArray(2 * X)


@pytest.mark.parametrize(("kind", "built"), [("debug", False), ("graph", True), ("vm", True)])
def test_programs_are_built(kind: str, built: bool) -> None:
    ran: list[str] = []

    class Names(PassInstrument):
        def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
            ran.append(info.name)

    with PassContext(opt_level=3, instruments=[Names()]):
        evaluated = create_executor(kind).evaluate(relay.Function([x], relay.exp(x) + x))
    assert ("FuseOps" in ran) == built
    np.testing.assert_allclose(evaluated(X).numpy(), np.exp(X) + X, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "insufficient arguments, expected 2, provided 0; missing: %x, %y"),
        ((X,), "insufficient arguments, expected 2, provided 1; missing: %y"),
        ((X, X, X), "too many arguments, expected 2, provided 3"),
        ((X, X.astype("float64")), "the argument %y has type .* but got a value of type .*float64"),
    ],
)
def test_wrong_arguments_are_the_same_errors(kind: str, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        create_executor(kind).evaluate(relay.Function([x, y], x + y))(*args)


def test_graphs_have_neither_control_flow_nor_unknown_sizes() -> None:
    condition, z = relay.var("c", "bool"), relay.var("z", shape=("n",))
    choice = relay.Function([condition, x], relay.If(condition, x, x + x))
    with pytest.raises(GraphError, match=r"graphs have no control flow: use executor='vm', or create_executor\('vm'\)"):
        create_executor("graph").evaluate(choice)
    with pytest.raises(GraphError, match="n"):
        create_executor("graph").evaluate(relay.Function([z], z + z))
    assert create_executor("vm").evaluate(choice)(False, X) == NDArray(2 * X)
    assert create_executor("vm").evaluate(relay.Function([z], z + z))(X[0]) == NDArray(2 * X[0])


@pytest.mark.parametrize("kind", BUILDING)
def test_functions_that_call_main_are_not_built(kind: str) -> None:
    module = IRModule.from_expr(relay.Function([x], x + x))
    function = relay.Function([y], relay.Call(module.get_global_var("main"), [y]))
    assert create_executor("debug", module).evaluate(function)(X) == NDArray(2 * X)
    with pytest.raises(GraphError, match="a function that calls @main is not built: name the module's main otherwise"):
        create_executor(kind, module).evaluate(function)


def test_global_functions_run_in_the_virtual_machine() -> None:
    module = IRModule.from_expr(relay.Function([x], x + x))
    module["twice"] = relay.Function([y], y * relay.const(2.0))
    call = relay.Function([y], relay.Call(module.get_global_var("twice"), [y]))
    assert create_executor("vm", module).evaluate(call)(X) == NDArray(2 * X)
    assert create_executor("vm", module).evaluate(module.get_global_var("twice"))(X) == NDArray(2 * X)
    assert module["main"].params[0] is x
