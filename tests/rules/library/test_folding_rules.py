"""Rules that the engine applies to each node when it is added: constants, sizes, fields of tuples."""

import numpy as np
import pytest

from passat.ir.expr import Constant, TupleGetItem
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.passmgr import PassContext
from passat.rules.library.folding import ConstantFolding, DynamicToStatic, QuantizedFolding, TupleProjection
from passat.rules.passes.simplify import fold_constant
from passat.rules.pattern import op, tensors
from passat.rules.rule import EAGER, Rule
from passat.rules.rule_set import RuleSet, RuleSetMeta
from passat.rules.why_not.answer import Kind
from passat.rules.why_not.ask import why_not
from tests.rules.building import const, func, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import apply, operators, saturate

x, open_ = var("x", (4, 6)), var("open", ("n", 6))
open_pieces = ops.split(ops.shape_of(open_, dtype="int64"), indices_or_sections=2)
enlarging = ops.tile(const(np.arange(6.0)), reps=(200_000,))
EXACT_CASE = case(x + (splat(1.0) + splat(2.0)), x + ops.exp(splat(1.0)), "exp rounds")
real_weight = ops.qnn.dequantize(const(np.arange(3), "int8"), splat(0.5), splat(1, (), "int32"))
CASES: dict[str, Case] = {
    "ConstantFolding.call": case(x + ops.exp(splat(1.0)), enlarging, "adds 4,799,976 bytes, limit 1,048,576 (rules.max_growth)"),
    "ConstantFolding.exact": EXACT_CASE,
    "ConstantFolding.sizes": case(ops.shape_of(x, dtype="int64"), ops.shape_of(open_, dtype="int64"), ""),
    "ConstantFolding.field": case(open_pieces[1], open_pieces[0], ""),
    "QuantizedFolding.call": case(real_weight, ops.exp(splat(1.0)), "exp is not a quantized operator"),
    "TupleProjection.field": case(TupleGetItem(tup(x, ops.exp(x)), 1), ops.split(x, indices_or_sections=2)[1], ""),
}
CASES_OF_ALL = pairs(CASES, ConstantFolding, QuantizedFolding, TupleProjection)
TABLE = [row for row in CASES_OF_ALL if row[1] is not ConstantFolding.exact]


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def test_exact_math_folds_only_exact_kernels() -> None:
    made = saturate(EXACT_CASE.positive, ConstantFolding, rules__math="exact")
    assert operators(made.function) == ["add"]
    assert (made.fired("ConstantFolding.exact"), made.fired("ConstantFolding.call")) == (1, 0)
    left = saturate(EXACT_CASE.negative, ConstantFolding, rules__math="exact")
    assert operators(left.function) == ["exp", "add"]
    assert any(str(EXACT_CASE.reason) in remark for remark in left.remarks)


@pytest.mark.parametrize("name", ["ConstantFolding", "ConstantFolding.call"])
def test_folding_is_switched_off_by_name(name: str) -> None:
    function = func(x + ops.exp(splat(1.0)))
    assert apply(fold_constant(), function, rules__disabled=[name]).function is function


def test_fields_of_tuples_are_switched_off_by_name() -> None:
    function = func(TupleGetItem(tup(x, ops.exp(x)), 1))
    assert saturate(function).function is not function
    assert saturate(function, rules__disabled=["TupleProjection.field"]).function is function


def test_a_tuple_with_more_fields_than_the_hole_allows() -> None:
    function = func(TupleGetItem(tup(*[ops.exp(x)] * 40, x), 40))
    assert saturate(function).function.body is x


def test_all_of_them_are_eager() -> None:
    assert {rule.kind for rules in (ConstantFolding, TupleProjection, DynamicToStatic) for rule in rules} == {EAGER}


def test_why_something_was_not_folded() -> None:
    module = IRModule.from_expr(func(tup(enlarging, ops.exp(x))))
    with PassContext(opt_level=3):
        answer = why_not("ConstantFolding.call", module, pipeline=fold_constant())
    assert answer.verdict is Kind.REJECTED
    assert "is_small(tile(cs1, attrs=a)): adds 4,799,976 bytes, limit 1,048,576 (rules.max_growth)" in answer.findings[0].text


def test_a_rule_of_ones_own_is_applied_as_nodes_are_added() -> None:
    (y,) = tensors("y")
    again = (op.abs(op.abs(y)) >> op.abs(y)).named("Own.again")
    with pytest.raises(Exception, match="one operator over holes"):
        again.eager()
    rule = (op.negative(y) >> y * -1.0).eager().named("Own.minus")
    rules = RuleSetMeta("Own", (RuleSet,), {"minus": rule})
    outcome = saturate(func(ops.negative(ops.exp(x))), rules, rules__cost="nodes")
    assert outcome.fired("Own.minus") == 1
    assert operators(outcome.function) == ["exp", "multiply"]


def test_maxima_of_windows_with_nan_are_not_folded() -> None:
    """ONNX Runtime passes NaN on or skips it, depending on the position in the window."""
    for value, folded in ((1.0, True), (np.nan, False)):
        image = np.array([[[[0.0, value], [0.0, 0.0]]]], np.float32)
        for maximum in (ops.nn.max_pool2d(const(image), pool_size=(2, 2)), ops.nn.global_max_pool2d(const(image))):
            assert isinstance(apply(fold_constant(), func(maximum)).function.body, Constant) == folded


def test_choices_among_constants_are_folded() -> None:
    """Their sizes depend on values, but have a limit."""
    for dtype, condition in (("float32", np.array([0.0, 2.0, 0.0, 3.0], np.float32)), ("bool", np.array([False, True, False, True]))):
        made = apply(fold_constant(), func(get_op("onnx.NonZero")(const(condition, dtype)))).function.body
        assert isinstance(made, Constant)
        assert made.data.numpy().tolist() == [[1, 3]]
    compressed = get_op("onnx.Compress")(const(np.arange(4.0)), const(np.array([True, False, True]), "bool"))
    made = apply(fold_constant(), func(compressed)).function.body
    assert isinstance(made, Constant)
    assert made.data.numpy().tolist() == [0, 2]
    unique = get_op("onnx.Unique")(const(np.array([3.0, 1.0, 3.0])), outputs="1001", opset=20)
    outcome = apply(fold_constant(), func(TupleGetItem(unique, 1)))
    assert isinstance(outcome.function.body, Constant)
    assert outcome.function.body.data.numpy().tolist() == [1, 2]


def test_choices_among_many_constants_are_not_folded() -> None:
    large = func(get_op("onnx.NonZero")(splat(1.0, (1 << 10, 1 << 10))))
    outcome = saturate(large, ConstantFolding)
    assert operators(outcome.function) == ["onnx.NonZero"]
    assert any("adds 16,777,216 bytes, limit 1,048,576" in remark for remark in outcome.remarks), outcome.remarks
