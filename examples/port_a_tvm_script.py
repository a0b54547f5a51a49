"""A script written for TVM's Relay, which runs here once its imports are changed.

The script's own imports were

    import tvm
    from tvm import relay
    from tvm.relay import transform as _transform
    from tvm.relay.expr_functor import ExprMutator
"""

import numpy as np

import passat as tvm
from passat import relay
from passat.relay import ExprMutator
from passat.relay import transform as _transform


def get_net(batch: int) -> relay.Function:
    """A convolution, batch normalization, a classifier."""
    data = relay.var("data", shape=(batch, 3, 8, 8))
    weight = relay.var("weight", shape=(4, 3, 3, 3))
    gamma, beta, mean, var = (relay.var(name, shape=(4,)) for name in ("gamma", "beta", "mean", "var"))
    body: relay.Expr = relay.nn.conv2d(data, weight, channels=4, kernel_size=(3, 3), padding=(1, 1))
    body, _, _ = relay.nn.batch_norm(body, gamma, beta, mean, var)
    body = relay.nn.relu(body)
    body = relay.nn.dropout(body, rate=0.2)
    left, right = relay.split(body, indices_or_sections=2, axis=1)
    body = relay.concatenate((left * relay.const(2.0), right + relay.const(0.0)), axis=1)
    body = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(body))
    return relay.Function([data, weight, gamma, beta, mean, var], relay.nn.softmax(body))


class TwiceTheConstants(ExprMutator):
    """Doubles every constant."""

    def visit_constant(self, const: relay.Constant) -> relay.Expr:
        return relay.const(2 * const.data.numpy())


@tvm.transform.module_pass(opt_level=1, name="Report")
def report(mod: tvm.IRModule, ctx: tvm.transform.PassContext) -> tvm.IRModule:
    print("functions:", ", ".join(gv.name_hint for gv in mod.get_global_vars()))
    return mod


@relay.transform.function_pass(opt_level=1)
class DoubleConstants:
    """A user-defined pass, as a class."""

    def transform_function(self, func: relay.Function, mod: tvm.IRModule, ctx: tvm.transform.PassContext) -> relay.Function:
        doubled = TwiceTheConstants().visit(func)
        assert isinstance(doubled, relay.Function)
        return doubled


@tvm.instrument.pass_instrument
class PassCounter(tvm.instrument.PassInstrument):
    """Records the passes that run."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def run_before_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        self.names.append(info.name)


def main() -> None:
    rng = np.random.default_rng(0)
    mod = tvm.IRModule.from_expr(get_net(2))
    params = {
        name: np.abs(rng.standard_normal(shape)).astype("float32")
        for name, shape in (("weight", (4, 3, 3, 3)), ("gamma", 4), ("beta", 4), ("mean", 4), ("var", 4))
    }
    data = rng.standard_normal((2, 3, 8, 8)).astype("float32")
    expected = relay.create_executor("graph", mod=mod, device=tvm.cpu(0), target="llvm", params=params).evaluate()(data)

    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    seq = tvm.transform.Sequential(
        [
            report,
            _transform.SimplifyInference(),
            _transform.FoldConstant(),
            _transform.SimplifyExpr(),
            _transform.EliminateCommonSubexpr(),
            _transform.DeadCodeElimination(),
            _transform.InferType(),
        ]
    )
    counter, timing = PassCounter(), tvm.instrument.PassTimingInstrument()
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["DeadCodeElimination"], instruments=[counter, timing]):
        optimized = seq(mod)
        profile = timing.render()
    print("passes:  ", ", ".join(counter.names))
    assert "FoldConstant" in profile

    result = relay.create_executor("vm", mod=optimized, device=tvm.cpu(), target="llvm").evaluate()(data)
    tvm.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-5)
    print("result:  ", result.shape, result.dtype, "as before")

    text = optimized.astext()
    tvm.ir.assert_structural_equal(tvm.parser.parse(text), optimized)
    double = DoubleConstants()  # a type checker takes a decorated class for the original class, which cannot be called
    doubled = double(tvm.IRModule.from_expr(relay.add(relay.var("x", shape=(2,)), relay.const([1.0, 2.0]))))  # type: ignore[operator]
    print("doubled: ", relay.create_executor(mod=doubled).evaluate()(np.zeros(2, "float32")).numpy())


if __name__ == "__main__":
    main()
