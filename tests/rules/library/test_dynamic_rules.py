"""Operators that take their shapes as operands become operators with attributes, as far as the shapes are known."""

from passat.ir.expr import Expr
from passat.rules.library import DynamicToStatic
from passat.rules.passes.simplify import FOLDING
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import const, func, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import assert_equal_in_value, operators, saturate

x = var("x", (4, 6))
integers = var("integers", (4, 6), "int32")
indices = var("indices", (3,), "int64")


def vector(*elements: int) -> Expr:
    return const(elements, "int64")


def unknown(size: int) -> Expr:
    return var("unknown", (size,), "int64")


on, off = splat(1.0), splat(0.0)
CASES: dict[str, Case] = {
    "DynamicToStatic.reshape": case(ops.dyn.reshape(x, vector(3, -1)), ops.dyn.reshape(x, unknown(2)), "shape of dyn.reshape"),
    "DynamicToStatic.broadcast_to": case(
        ops.dyn.broadcast_to(x, vector(2, 1, 6)), ops.dyn.broadcast_to(x, unknown(3)), "shape of dyn.broadcast_to"
    ),
    "DynamicToStatic.full": case(ops.dyn.full(var("v", ()), vector(2, 3)), ops.dyn.full(var("v", ()), unknown(2)), "shape of dyn.full"),
    "DynamicToStatic.strided_slice": case(
        ops.dyn.strided_slice(x, vector(1), vector(5), vector(2), vector(1)),
        ops.dyn.strided_slice(x, unknown(1), vector(5), vector(2), vector(1)),
        "begin of dyn.strided_slice",
    ),
    "DynamicToStatic.tile": case(ops.dyn.tile(x, vector(1, 2)), ops.dyn.tile(x, unknown(2)), "reps of dyn.tile"),
    "DynamicToStatic.pad": case(
        ops.dyn.pad(x, vector(0, 1, 2, 0), splat(7.0)), ops.dyn.pad(x, vector(0, 1, 2, 0), var("v", ())), "pad_value of dyn.pad"
    ),
    "DynamicToStatic.one_hot": case(
        ops.dyn.one_hot(indices, vector(4), on, off, axis=0),
        ops.dyn.one_hot(indices, unknown(1), var("on", ()), off),
        "unknown before run time: depth of dyn.one_hot",
    ),
    "DynamicToStatic.topk": case(
        tup(*(ops.dyn.topk(integers, vector(2), axis=0, largest=False)[i] for i in (0, 1))),
        ops.dyn.topk(x, unknown(1))[0],
        "k of dyn.topk",
    ),
    "DynamicToStatic.cast_like": case(ops.onnx.CastLike(integers, x), ops.onnx.CastLike(x, var("text", (2,), "string")), "onnx.CastLike"),
}
TABLE = pairs(CASES, DynamicToStatic)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def test_nothing_dynamic_is_left_of_a_known_shape() -> None:
    for name, example in CASES.items():
        left = operators(saturate(example.positive, *FOLDING).function)
        assert not [op for op in left if op.startswith("dyn.")], name


def flatten_heads() -> Expr:
    """The form that exporters write to merge the last axes of a tensor: shape, gather, concat, reshape."""
    data = var("data", ("batch", "seq", 12, 64))
    shape = ops.shape_of(data, dtype="int64")
    batch, seq = (ops.expand_dims(ops.take(shape, const(i, "int64"), axis=0), axis=0) for i in (0, 1))
    return ops.dyn.reshape(data, ops.concatenate(tup(batch, seq, vector(768))))  # type: ignore[no-any-return]  # no static type


def test_a_chain_of_shape_arithmetic_becomes_one_reshape() -> None:
    function = func(flatten_heads())
    outcome = saturate(function, *FOLDING)
    assert operators(outcome.function) == ["reshape"]
    assert outcome.applied(DynamicToStatic) == 1
    assert_equal_in_value(function, outcome.function, exact=True, sizes={"batch": 2, "seq": 3})


def test_types_get_better_on_the_way() -> None:
    """The second reshape becomes known only after the first."""
    data = var("data", (2, 12))
    inner = ops.dyn.reshape(data, ops.cast(ops.cast(vector(4, 6), dtype="float32"), dtype="int64"))
    function = func(ops.dyn.reshape(inner, ops.shape_of(inner, dtype="int64")))
    outcome = saturate(function, *FOLDING)
    assert all(op == "reshape" for op in operators(outcome.function))
    assert_equal_in_value(function, outcome.function, exact=True)
