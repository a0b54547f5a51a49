"""Relay's variables, constants, scopes, tuples, analyses and helpers."""

import numpy as np
import pytest

from passat import relay
from passat.passmgr import PassContext
from passat.runtime import NDArray

x = relay.var("x", shape=(2,))


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, None, "int32"),
        (1.0, None, "float32"),
        (True, None, "bool"),
        ([1.0], None, "float32"),
        (np.ones(2), None, "float32"),
        (np.int64(3), "int64", "int64"),
        (NDArray(np.ones(2)), None, "float64"),
        (NDArray(np.ones(2)), "float16", "float16"),
    ],
)
def test_element_types_of_constants(value: object, dtype: str | None, expected: str) -> None:
    assert relay.const(value, dtype).data.dtype == expected


def test_constants_are_copies() -> None:
    given = np.ones(2, np.float32)
    constant = relay.const(given)
    given[:] = 7
    assert constant.data.numpy().tolist() == [1, 1]


def test_values_that_are_not_constants() -> None:
    with pytest.raises(ValueError, match="value has to be scalar or NDArray"):
        relay.const("text")
    with pytest.raises(ValueError, match=r"Can only specify either type_annotation or shape\."):
        relay.var("x", "int8", shape=(2,))


def test_tuple_wrapper() -> None:
    call = relay.split(x, 2)
    assert relay.TupleWrapper(call, 2) is call
    with pytest.raises(ValueError, match="the tuple has 2 fields, not 3"):
        relay.TupleWrapper(call, 3)
    pair = relay.TupleWrapper(relay.var("p"), 2)
    assert isinstance(pair, relay.Tuple)
    assert [type(field) for field in pair] == [relay.TupleGetItem] * 2
    assert isinstance(relay.TupleWrapper(relay.GlobalVar("f")(x), 2), relay.Tuple)


def test_functions_take_none_for_omitted_operands() -> None:
    function = relay.Function([x], x, None, None, None)
    assert (function.type_params, dict(function.attrs)) == ((), {})
    assert relay.Call(relay.op.get("add"), [x, x], None, None).type_args == ()


def test_attributes_of_functions() -> None:
    function = relay.Function([x], x).with_attr("Primitive", 1).with_attr({"Inline": 1, "Compiler": "dnnl"})
    assert dict(function.attrs) == {"Primitive": 1, "Inline": 1, "Compiler": "dnnl"}
    assert dict(function.without_attr("Inline").attrs) == {"Primitive": 1, "Compiler": "dnnl"}


def test_operators_and_constants_as_tvm_reads_them() -> None:
    call = relay.nn.softmax(x, axis=0)
    assert call.op is relay.op.get("nn.softmax") is relay.Op.get("nn.softmax")
    assert call.attrs.axis == 0
    assert relay.const([1.0]).data.asnumpy().tolist() == relay.const([1.0]).data.numpy().tolist() == [1.0]


def test_bind() -> None:
    relay.assert_structural_equal(relay.bind(x + x, {x: relay.const(1.0)}), relay.const(1.0) + relay.const(1.0))


def test_bind_params_by_name() -> None:
    bound = relay.build_module.bind_params_by_name(relay.Function([x], x + x), {"x": np.ones(2, np.float32)})
    assert bound.params == ()
    assert relay.analysis.free_vars(bound) == []


def test_build_config_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context = relay.build_config(opt_level=3, disabled_pass=["FuseOps"])
    assert (context.opt_level, context.disabled_pass) == (3, ["FuseOps"])


def test_build_config_makes_a_context_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="^build_config is deprecated: use PassContext") as caught:
        ctx = relay.build_config(3, ["A"], {"B"})
    assert caught[0].filename == __file__
    assert isinstance(ctx, PassContext)
    assert (ctx.opt_level, ctx.required_pass, ctx.disabled_pass) == (3, ["A"], ["B"])
    with pytest.warns(DeprecationWarning, match="build_config"), relay.build_config(opt_level=1) as entered:
        assert PassContext.current() is entered
    with pytest.warns(DeprecationWarning, match="build_config"):
        assert relay.build_config().opt_level == 2


def test_build_config_sets_the_level_of_passes() -> None:
    assert relay.build_config.__doc__ is not None
    assert "FoldScaleAxis                3" in relay.build_config.__doc__


def test_a_scope_with_lets() -> None:
    builder = relay.ScopeBuilder()
    one = builder.let("one", x + x)
    two = builder.let(("two", relay.TensorType((2,))), one)
    three = builder.let(relay.var("three"), two)
    builder.ret(three)
    expr = builder.get()
    assert isinstance(expr, relay.Let)
    assert (expr.var, one.name_hint, two.type_annotation) == (one, "one", relay.TensorType((2,)))
    assert relay.create_executor().evaluate(expr, {x: np.ones(2, np.float32)}).numpy().tolist() == [2, 2]


def test_a_scope_with_branches() -> None:
    condition, other = relay.var("c", "bool"), relay.var("d", "bool")
    builder = relay.ScopeBuilder()
    with builder.if_scope(condition):
        builder.ret(builder.let("a", x + x))
    with builder.else_scope():
        with builder.if_scope(other):
            builder.ret(x)
        with builder.else_scope():
            builder.ret(relay.negative(x))
    run = relay.create_executor().evaluate(relay.Function([condition, other, x], builder.get()))
    found = [run(c, d, [1, 1]).numpy()[0] for c, d in ((True, True), (False, True), (False, False))]
    assert found == [2, 1, -1]


def test_scopes_that_are_wrong() -> None:
    condition = relay.const(True)
    builder = relay.ScopeBuilder()
    with pytest.raises(RuntimeError, match="no return value set in scope"):
        builder.get()
    with pytest.raises(RuntimeError, match="else_scope must follow by if_scope"), builder.else_scope():
        pass
    with pytest.raises(ValueError, match=r"Expect var to be Tuple\[str, type\]"):
        builder.let(("a", "int8", 3), x)  # type: ignore[arg-type]
    with builder.if_scope(condition):
        with pytest.raises(RuntimeError, match="can only call get at the outmost scope"):
            builder.get()
        builder.ret(x)
    with pytest.raises(RuntimeError, match="an if_scope needs an else_scope"):
        builder.get()
    with pytest.raises(RuntimeError, match="this scope is an if without an else"):
        builder.let("a", x)
    with builder.else_scope():
        builder.ret(x)
    with pytest.raises(RuntimeError, match=r"ret value is already set in this scope\."):
        builder.ret(x)
    assert isinstance(builder.get(), relay.If)


def test_the_type_of_an_expression_in_a_scope() -> None:
    builder = relay.ScopeBuilder()
    assert builder.type_of(x) == relay.TensorType((2,))
    assert builder.type_of(x < x) == relay.TensorType((2,), "bool")


def test_analyses() -> None:
    y = relay.var("y", shape=(2,))
    function = relay.Function([x], relay.Let(y, x + x, y))
    assert relay.analysis.free_vars(function) == []
    assert set(relay.analysis.all_vars(function)) == set(relay.analysis.bound_vars(function)) == {x, y}
    assert relay.analysis.well_formed(function)
    assert relay.analysis.check_constant(relay.const(1))
    assert not relay.analysis.check_constant(function)
    a = relay.TypeVar("a")
    generic = relay.Function([z := relay.var("z", a)], z, a, [a])
    assert relay.analysis.all_type_vars(generic, None) == relay.analysis.bound_type_vars(generic) == [a]
    assert relay.analysis.free_type_vars(generic) == []
    seen: list[relay.Expr] = []
    relay.analysis.post_order_visit(function, seen.append)
    assert seen[-1] is function
    assert relay.analysis.all_dtypes(relay.testing.run_infer_type(relay.Tuple([x, x < x, relay.Tuple([relay.const(1)])]))) == {
        "float32",
        "bool",
        "int32",
    }


def test_helpers_of_tests() -> None:
    total = relay.testing.run_infer_type(x + x)
    assert total.checked_type == relay.TensorType((2,))
    function = relay.testing.run_infer_type(relay.Function([x], x))
    assert isinstance(function, relay.Function)
    lets = relay.testing.run_opt_pass((x + x) * x, relay.transform.ToANormalForm())
    assert isinstance(lets, relay.Let)
    with pytest.raises(TypeError, match="opt_pass must be a pass"):
        relay.testing.run_opt_pass(x, relay.transform.InferType)  # type: ignore[arg-type]
