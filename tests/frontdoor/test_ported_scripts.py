"""Scripts as TVM's users write them, with changed imports: tutorials on passes and instruments, tests of passes and of the executor."""

from collections.abc import Callable
from typing import Any as AnyValue

import numpy as np
import pytest

import passat as tvm
from passat import relay
from passat.relay import transform
from passat.relay.scope_builder import ScopeBuilder
from passat.relay.testing import run_infer_type, run_opt_pass

SCALAR = relay.TensorType((), "float32")


def example() -> relay.Function:
    """A convolution, constants to fold, and a common subexpression."""
    c = relay.const(np.ones((1, 4, 6, 6), "float32"))
    x, weight = relay.var("x", relay.TensorType((1, 4, 8, 8), "float32")), relay.var("weight", shape=(4, 4, 3, 3))
    y = relay.add(relay.nn.conv2d(x, weight), relay.multiply(relay.add(c, c), relay.const(2, "float32")))
    z, z1 = relay.add(y, c), relay.add(y, c)
    return relay.Function([x, weight], relay.add(z, z1))


@tvm.instrument.pass_instrument
class CallDiffer(tvm.instrument.PassInstrument):
    """The change in the number of calls by each pass, with nested passes before the enclosing one."""

    def __init__(self) -> None:
        self.before: list[tuple[str, int]] = []
        self.changes: list[tuple[int, str, int]] = []

    def enter_pass_ctx(self) -> None:
        self.changes = []

    def exit_pass_ctx(self) -> None:
        assert not self.before, "The stack is not empty. Something wrong."

    def run_before_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        self.before.append((info.name, self.count(mod)))

    def run_after_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        name, count = self.before.pop()
        assert name == info.name
        self.changes.append((len(self.before), name, self.count(mod) - count))

    @staticmethod
    def count(mod: tvm.IRModule) -> int:
        return sum(relay.analysis.list_op_freqs(mod).values())


def test_the_tutorial_on_passes() -> None:
    @relay.transform.function_pass(opt_level=1)
    class CustomPipeline:
        def __init__(self, multiplier: relay.Expr) -> None:
            self.multiplier = multiplier

        def transform_function(self, func: relay.Function, mod: tvm.IRModule, ctx: tvm.transform.PassContext) -> relay.Function:
            outer = self

            class ReplaceConstant(tvm.relay.ExprMutator):
                def visit_constant(self, const: relay.Constant) -> relay.Expr:
                    return relay.multiply(outer.multiplier, const)

            made = ReplaceConstant().visit(func)
            assert isinstance(made, relay.Function)
            return made

    mod = tvm.IRModule.from_expr(example())
    seq = tvm.transform.Sequential([transform.FoldConstant(), transform.EliminateCommonSubexpr()])
    differ = CallDiffer()
    with tvm.transform.PassContext(opt_level=3, instruments=[differ]), tvm.target.Target("llvm"):
        folded = seq(mod)
    assert relay.analysis.list_op_freqs(folded) == {"nn.conv2d": 1, "add": 3}
    assert differ.changes[-1] == (0, "sequential", -3)
    custom: AnyValue = CustomPipeline(multiplier=relay.const(3, "float32"))  # a type checker takes it for the original class
    assert custom.info.name == "CustomPipeline"
    assert relay.analysis.list_op_freqs(custom(mod)) == {"nn.conv2d": 1, "add": 5, "multiply": 3}


def test_a_pass_that_replaces_every_call() -> None:
    class DoubleValues(relay.ExprFunctor[relay.Expr]):
        def visit_call(self, call: relay.Call) -> relay.Expr:
            args = [self.visit(arg) for arg in call.args]
            op = self.visit(call.op)
            return relay.add(relay.Call(op, args), relay.Call(op, args))

        def visit_op(self, op: relay.Op) -> relay.Expr:
            return op

        def visit_var(self, var: relay.Var) -> relay.Expr:
            return var

        def visit_function(self, function: relay.Function) -> relay.Expr:
            return relay.Function(list(function.params), self.visit(function.body), function.ret_type, function.type_params, function.attrs)

    x, y = relay.var("x", shape=(10,)), relay.var("y", shape=(10,))
    doubled = run_infer_type(DoubleValues().visit(relay.Function([x, y], x + y)))
    expected = relay.Function([x, y], relay.add(x + y, x + y))
    assert tvm.ir.structural_equal(doubled, run_infer_type(expected))
    values = np.random.default_rng(1).random((2, 10), np.float32)
    for target, dev in tvm.testing.enabled_targets():
        result = relay.create_executor("graph", device=dev, target=target).evaluate(doubled)(*values)
        tvm.testing.assert_allclose(result.numpy(), 2 * (values[0] + values[1]), rtol=1e-5)


def test_errors_of_callbacks() -> None:
    @tvm.transform.module_pass(opt_level=2)
    def broken(mod: tvm.IRModule, ctx: tvm.transform.PassContext) -> tvm.IRModule:
        raise RuntimeError("Just a dummy error")

    differ = CallDiffer()
    with pytest.raises(tvm.error.TVMError, match="Just a dummy error"), tvm.transform.PassContext():
        broken(tvm.IRModule())
    with pytest.raises(AssertionError, match="The stack is not empty"), tvm.transform.PassContext(instruments=[differ]):
        broken(tvm.IRModule.from_expr(example()))
    assert not tvm.transform.PassContext.current().instruments


def loop(name: str, accumulate: bool) -> tuple[tvm.IRModule, relay.GlobalVar]:
    """The sum of the numbers up to one, by recursion, with or without an accumulator."""
    mod, sum_up = tvm.IRModule({}), relay.GlobalVar(name)
    i, total = relay.var("i", shape=[], dtype="int32"), relay.var("accum", shape=[], dtype="int32")
    sb = ScopeBuilder()
    with sb.if_scope(relay.equal(i, relay.const(0, dtype="int32"))):
        sb.ret(total if accumulate else i)
    with sb.else_scope():
        less = relay.subtract(i, relay.const(1, dtype="int32"))
        sb.ret(sum_up(less, relay.add(total, i)) if accumulate else relay.add(sum_up(less), i))
    mod[sum_up] = relay.Function([i, total] if accumulate else [i], sb.get(), ret_type=relay.TensorType([], "int32"))
    return mod, sum_up


@pytest.mark.parametrize("passes", [[], [transform.ToANormalForm], [transform.ToANormalForm, transform.ToGraphNormalForm]])
@pytest.mark.parametrize("accumulate", [False, True])
def test_loops(accumulate: bool, passes: list[Callable[[], tvm.transform.Pass]]) -> None:
    mod, sum_up = loop("sum_up", accumulate)
    mod = tvm.transform.Sequential([make() for make in passes])(mod)
    result = relay.create_executor("debug", mod=mod, device=tvm.cpu(), target="llvm").evaluate(sum_up)
    assert result(*[np.array(n, "int32") for n in ([10, 0] if accumulate else [10])]).numpy() == 55


def test_binds_and_parameters_by_name() -> None:
    x, y = relay.var("x"), relay.var("y", shape=(1, 10))
    ones = np.ones((10, 20), "float32")
    tvm.testing.assert_allclose(relay.create_executor().evaluate(relay.add(x, x), binds={x: ones}), ones + ones)
    z = relay.var("z", shape=(1, 10))
    given = {"y": np.full((1, 10), 2, "float32")}
    f = relay.Function([z, y], z + y)
    assert relay.create_executor().evaluate(f)(np.zeros((1, 10), "float32"), **given).numpy().tolist() == given["y"].tolist()


@pytest.mark.parametrize("dead", [True, False])
def test_dead_code(dead: bool) -> None:
    a, b = relay.Var("a", SCALAR), relay.Var("b", SCALAR)
    chain = relay.Let(a, relay.const(1.0), relay.Let(b, a + a, relay.const(3.0) if dead else b + b))
    found = run_opt_pass(chain, transform.DeadCodeElimination())
    expected = relay.const(3.0) if dead else run_infer_type(relay.Let(a, relay.const(1.0), relay.Let(b, a + a, b + b)))
    tvm.ir.assert_structural_equal(found, expected)


def test_reshapes_and_broadcast_types() -> None:
    x, w = relay.var("x", shape=(1, 16, 16, 16)), relay.var("w", shape=(32, 16, 3, 3))
    y = relay.nn.conv2d(x, w, padding=(1, 1))
    before = relay.reshape(relay.reshape(relay.reshape(y, newshape=(1, 16, -1)), newshape=(4, 8, -1, 16)), newshape=(32, 16, 16))
    after = run_opt_pass(relay.Function([x, w], before), transform.SimplifyExpr())
    tvm.ir.assert_structural_equal(after, run_infer_type(relay.Function([x, w], relay.reshape(y, newshape=(32, 16, 16)))))
    a, b = relay.TensorType((10, 4)), relay.TensorType((5, 10, 1))
    sum_of = relay.Function([p := relay.var("p", a), q := relay.var("q", b)], p + q)
    assert run_infer_type(sum_of).checked_type == relay.FuncType([a, b], relay.TensorType((5, 10, 4)))
