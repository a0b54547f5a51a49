"""MergeComposite: which subgraphs become functions, and the form of the functions. The programs are those of TVM's own tests."""

from collections.abc import Iterator
from typing import Any as AnyValue

import pytest

from passat import relay
from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Expr, Function
from passat.ir.infer import infer_type
from passat.ir.inline import inline_calls
from passat.ir.module import IRModule
from passat.ir.text import astext, parse
from passat.ir.traverse import post_order
from passat.passmgr import PassContext, get_pass, parse_pipeline, pipeline_text
from passat.rules.guards import has_dtype, has_rank, is_all, is_constant, shape_of
from passat.rules.guards import same_type as same
from passat.rules.passes import merge_composite
from passat.rules.passes.merge_composite import MergeComposite, PatternTable, get_pattern_table, register_pattern_table
from passat.rules.pattern import RuleError, attributes, constant, op, tensors
from tests.rules.building import func, numbers, ops, splat, var
from tests.rules.passes.golden import program, run
from tests.rules.passes.test_fuse_ops import typed
from tests.rules.running import assert_equal_in_value

x, y, w, b = tensors("x y w b")
c = constant("c")
p, q = attributes("p q")

ADD_RELU = ("add_relu", op.nn.relu(x + y))
CONV_BIAS_RELU = ("conv2d_bias_relu", op.nn.relu(op.nn.bias_add(op.nn.conv2d(x, w), b)))


def composite(name: str, pattern: str, params: str, result: str, body: str, at: int = 0) -> str:
    """A composite function in text form; `params` are the types of its parameters."""
    given = " ".join(f"%FunctionVar_{at}_{i}: {type_}," for i, type_ in enumerate(filter(None, map(str.strip, params.split(";")))))
    for i in range(given.count(":")):
        body = body.replace(f"%{i}%", f"%FunctionVar_{at}_{i}")
    attrs = f'PartitionedFromPattern="{pattern}", Composite="{name}"'
    return f"fn ({typed(given)}, {attrs}) -> Tensor[{result}, float32] {{ {body} }}"


def check(table: PatternTable, signature: str, before: str, after: str, *, values: bool = True) -> None:
    """Checks that the table turns one program into the other, with the same value, and that inlining the functions restores the first."""
    module = program(signature, before)
    found = run(MergeComposite(table), module)
    wanted = program(signature, after)
    assert structural_equal(found["main"], wanted["main"], sharing=True), f"{found}\nis not\n{wanted}"
    assert structural_equal(parse(astext(found)), found, sharing=True)
    assert run(MergeComposite(table), found)["main"] is found["main"]
    apart = inline_calls(found["main"], lambda function: "Composite" in function.attrs)
    assert structural_equal(apart, module["main"], sharing=True)
    if values:
        assert_equal_in_value(module["main"], found["main"], exact=True, special=False)


def composites(function: Function) -> list[str]:
    """The names of the composite functions that are called, in post-order."""
    called = [node.op for node in post_order(function) if isinstance(node, Call)]
    return [str(callee.attrs["Composite"]) for callee in called if isinstance(callee, Function)]


def merged(table: PatternTable, function: Function) -> Function:
    infer_type(function)
    return run(MergeComposite(table), IRModule.from_expr(function))["main"]


def test_simple() -> None:
    body = composite("add_relu", "add_nn.relu_", "(10, 10); (10, 10)", "(10, 10)", "nn.relu(add(%0%, %1%))")
    check([ADD_RELU], "%a: (10, 10), %b: (10, 10)", "nn.relu(add(%a, %b))", f"%0 = {body}; %0(%a, %b)")


def test_branches() -> None:
    """A pattern with branches that meet again in a product of three; it matches twice."""
    table = [("add_sub_mul", (x + y) * (x - y))]
    body = "multiply(add(%0%, %1%), subtract(%0%, %1%))"
    first, second = (composite("add_sub_mul", "add_subtract_multiply_", "(3); (3)", "(3)", body, at) for at in (1, 0))
    check(
        table,
        "%a: (3), %b: (3), %c: (3)",
        "%0 = multiply(add(%a, %b), subtract(%a, %b)); %1 = multiply(add(%c, %0), subtract(%c, %0)); nn.relu(%1)",
        f"%0 = {first}; %1 = %0(%a, %b); %2 = {second}; %3 = %2(%c, %1); nn.relu(%3)",
    )


def test_a_call_that_is_used_twice_inside() -> None:
    table = [("add_add_add", (x + y + x) + (x + y))]
    check(
        table,
        "%a: (3), %b: (3)",
        "%0 = add(%a, %b); add(add(%0, %a), %0)",
        f"%0 = {composite('add_add_add', 'add_add_add_', '(3); (3)', '(3)', '%9 = add(%0%, %1%); add(add(%9, %0%), %9)')}; %0(%a, %b)",
    )


def test_several_patterns_in_the_order_of_the_table() -> None:
    signature = "%a: (1, 4, 5, 5), %w: (4, 4, 1, 1), %b: (4), %d: (1, 4, 5, 5)"
    before = "%0 = nn.relu(nn.bias_add(nn.conv2d(%a, %w), %b)); nn.relu(add(%0, %d))"
    first = composite(
        "conv2d_bias_relu",
        "nn.conv2d_nn.bias_add_nn.relu_",
        "(1, 4, 5, 5); (4, 4, 1, 1); (4)",
        "(1, 4, 5, 5)",
        "nn.relu(nn.bias_add(nn.conv2d(%0%, %1%), %2%))",
    )
    second = composite("add_relu", "add_nn.relu_", "(1, 4, 5, 5); (1, 4, 5, 5)", "(1, 4, 5, 5)", "nn.relu(add(%0%, %1%))")
    for table in ([CONV_BIAS_RELU, ADD_RELU], [ADD_RELU, CONV_BIAS_RELU]):
        check(table, signature, before, f"%0 = {first}; %1 = {second}; %1(%0(%a, %w, %b), %d)")


def test_the_first_pattern_wins() -> None:
    function = func(ops.nn.relu(ops.abs(ops.add(var("a"), var("b")))))
    small, middle, large = ("S", op.abs(x)), ("M", op.abs(x + y)), ("L", op.nn.relu(op.abs(x + y)))
    assert composites(merged([large, middle, small], function)) == ["L"]
    assert composites(merged([middle, large, small], function)) == ["M"]
    assert composites(merged([small, middle, large], function)) == ["S"]


def test_of_matches_that_overlap_the_later_one_is_taken() -> None:
    """Matches are searched from the results upwards."""
    body = composite("twice", "negative_negative_", "(3)", "(3)", "negative(negative(%0%))")
    check([("twice", op.negative(-x))], "%a: (3)", "negative(negative(negative(%a)))", f"%0 = {body}; %0(negative(%a))")


def test_parallel_matches() -> None:
    table = [("add_relu", op.nn.relu(x + y))]
    one, two = (composite("add_relu", "add_nn.relu_", "(3); (3)", "(3)", "nn.relu(add(%0%, %1%))", at) for at in (1, 0))
    check(
        table,
        "%a: (3), %b: (3)",
        "multiply(nn.relu(add(%a, %b)), nn.relu(add(%b, %a)))",
        f"%0 = {one}; %1 = {two}; multiply(%0(%a, %b), %1(%b, %a))",
    )


def test_the_inside_of_a_match_is_not_used_elsewhere() -> None:
    module = program("%a: (3), %b: (3)", "%0 = add(%a, %b); (nn.relu(%0), exp(%0))")
    assert run(MergeComposite([ADD_RELU]), module)["main"] is module["main"]
    # the root may be read outside
    check(
        [ADD_RELU],
        "%a: (3), %b: (3)",
        "%0 = nn.relu(add(%a, %b)); (%0, exp(%0))",
        f"%0 = {composite('add_relu', 'add_nn.relu_', '(3); (3)', '(3)', 'nn.relu(add(%0%, %1%))')}; %1 = %0(%a, %b); (%1, exp(%1))",
    )


def test_a_diamond_through_the_outside_is_not_merged() -> None:
    """Based on TVM's test_diamond_not_merge: an operand of the root depends on the inside by another path, too."""
    table = [("sigmoid_mul", x * op.sigmoid(op.clip(x, a_min=p, a_max=q)))]
    module = program("%a: (3)", "%0 = clip(%a, a_min=0f, a_max=6f); %1 = sigmoid(%0); multiply(exp(%0), %1)")
    assert run(MergeComposite(table), module)["main"] is module["main"]


def test_fields_of_tuples() -> None:
    signature = "%a: (2, 3, 4, 4), %g: (3), %b: (3), %m: (3), %v: (3)"
    gamma, beta, mean, variance = tensors("gamma beta mean variance")
    table = [("bn_relu", op.nn.relu(op.nn.batch_norm(x, gamma, beta, mean, variance)[0]))]
    body = "%9 = nn.batch_norm(%0%, %1%, %2%, %3%, %4%); nn.relu(%9.0)"
    made = composite("bn_relu", "nn.batch_norm_TupleGetItem0_nn.relu_", "(2, 3, 4, 4); (3); (3); (3); (3)", "(2, 3, 4, 4)", body)
    check(
        table,
        signature,
        "%0 = nn.batch_norm(%a, %g, %b, %m, %v); nn.relu(%0.0)",
        f"%0 = {made}; %0(%a, %g, %b, %m, %v)",
        values=False,
    )


def test_tuples_and_attributes() -> None:
    table = [("stacked", op.concatenate((x, op.exp(x)), axis=1))]
    check(
        table,
        "%a: (2, 3), %b: (2, 3)",
        "%0 = (%a, exp(%a)); %1 = (%b, exp(%b)); add(concatenate(%0, axis=1), sum(concatenate(%1, axis=0)))",
        f"""%8 = {composite("stacked", "exp_Tuple_concatenate_", "(2, 3)", "(2, 6)", "%9 = (%0%, exp(%0%)); concatenate(%9, axis=1)")};
            %1 = (%b, exp(%b)); add(%8(%a), sum(concatenate(%1, axis=0)))""",
    )


def test_constants_that_are_asked_for_go_inside() -> None:
    """A number or a `constant` hole of the pattern is part of the function; a constant that matches another hole is an argument."""
    a = var("a", (2, 3))
    function = func(ops.multiply(ops.add(a, numbers((3,))), splat(2.0)))
    inside, outside = merged([("n", (x + c) * 2.0)], function), merged([("n", (x + y) * w)], function)
    for made, count in ((inside, 1), (outside, 3)):
        assert isinstance(made.body, Call)
        assert isinstance(made.body.op, Function)
        assert (len(made.body.op.params), len(made.body.args)) == (count, count)
        assert_equal_in_value(function, made, exact=True, special=False)
    assert composites(merged([("n", (x + c) * 3.0)], function)) == []
    assert composites(merged([("n", (x + c) * c)], function)) == []  # two different constants
    assert composites(merged([("n", (x + c) * c)], func(ops.multiply(ops.add(a, splat(2.0)), splat(2.0))))) == ["n"]


def test_operands_of_commutative_operators_may_be_swapped() -> None:
    a, d = var("a"), var("d")
    table = [("n", op.exp(x) + y)]
    assert composites(merged(table, func(d + ops.exp(a)))) == ["n"]
    assert composites(merged([("n", op.exp(x) - y)], func(d - ops.exp(a)))) == []


def test_conditions() -> None:
    table = [("n", op.exp(x + c), (has_rank(x, 2), is_all(c, 1)))]
    one, two = splat(1.0), splat(2.0)
    assert composites(merged(table, func(ops.exp(var("a", (2, 3)) + one)))) == ["n"]
    assert composites(merged(table, func(ops.exp(var("a", (2, 3)) + two)))) == []
    assert composites(merged(table, func(ops.exp(var("a", (3,)) + one)))) == []
    assert composites(merged([("n", op.exp(x), has_dtype(x, "float32"))], func(ops.exp(var("a"))))) == ["n"]
    assert composites(merged([("n", op.exp(x), is_constant(x))], func(ops.exp(var("a"))))) == []
    # about terms that the pattern does not name, and their results
    assert composites(merged([("n", op.exp(x - y), same(x - y, x))], func(ops.exp(var("a") - var("d"))))) == ["n"]
    assert composites(merged([("n", op.exp(x - y), same(x - y, x))], func(ops.exp(var("a", (3,)) - var("d"))))) == []
    static = [("n", op.reshape(x, newshape=p), same(x, op.reshape(x, newshape=shape_of(x))))]
    assert composites(merged(static, func(ops.reshape(var("a"), newshape=(6,))))) == ["n"]


def test_why_a_condition_rejected_is_a_remark() -> None:
    with PassContext(opt_level=0) as context:
        MergeComposite([("n", op.exp(x), has_rank(x, 1))])(program("%a: (2, 3)", "exp(%a)"))
    assert list(context.statistics.remarks["MergeComposite"]) == ["n: has_rank(x, 1): the rank of the tensor is 2, not 1"]


def test_a_check_receives_the_match() -> None:
    def small(found: Expr) -> bool:
        return found.checked_type == relay.TensorType((2, 3), "float32")

    table = [("n", op.exp(x), small)]
    assert composites(merged(table, func(ops.exp(var("a", (2, 3)))))) == ["n"]
    assert composites(merged(table, func(ops.exp(var("a", (3,)))))) == []


def test_inside_of_branches_and_functions() -> None:
    body = """if (%t) { nn.relu(add(%a, %a)) }
              else { let %f = fn (%z: Tensor[(3), float32]) { nn.relu(add(%z, %a)) }; %f(%a) }"""
    made = merged([ADD_RELU], program("%a: (3), %t: () bool", body)["main"])
    assert sum("Composite" in node.attrs for node in post_order(made) if isinstance(node, Function)) == 2


def test_functions_that_are_sealed_stay() -> None:
    for attrs in ("Primitive=1", 'Composite="other"', 'Compiler="other"'):
        module = program("%a: (3)", f"%0 = fn (%z: Tensor[(3), float32], {attrs}) {{ nn.relu(add(%z, %z)) }}; %0(%a)")
        assert run(MergeComposite([ADD_RELU]), module)["main"] is module["main"]


@pytest.fixture
def named() -> Iterator[str]:
    name = "a_device_of_the_tests"
    yield name
    merge_composite._TABLES.pop(name, None)


class TestNamedTables:
    """`register_pattern_table`, and tables in pipelines."""

    def test_by_name(self, named: str) -> None:
        assert register_pattern_table(named, [ADD_RELU]) == [ADD_RELU]
        assert get_pattern_table(named) == [ADD_RELU]
        made = run(relay.transform.MergeComposite(named), program("%a: (3)", "nn.relu(add(%a, %a))"))
        assert composites(made["main"]) == ["add_relu"]
        text = f"MergeComposite{{pattern_table={named}}}"
        assert pipeline_text(parse_pipeline(text)) == text

    def test_by_a_function(self, named: str) -> None:
        @relay.op.contrib.register_pattern_table(named)  # type: ignore[untyped-decorator]  # what TVM has is a decorator and no decorator
        def table() -> PatternTable:
            return [ADD_RELU]

        assert relay.op.contrib.get_pattern_table(named) == [ADD_RELU]
        assert table() == [ADD_RELU]
        register_pattern_table(named, [CONV_BIAS_RELU])  # as in TVM, later entries take precedence
        assert get_pattern_table(named) == [CONV_BIAS_RELU]

    def test_an_unknown_name(self) -> None:
        with pytest.raises(RuleError, match="unknown pattern table 'none'; registered: "):
            MergeComposite("none")
        with pytest.raises(RuleError, match="unknown pattern table 'none'"):
            parse_pipeline("MergeComposite{pattern_table=none_such}".replace("none_such", '"none"'))


@pytest.mark.parametrize(
    ("table", "kind", "message"),
    [
        ([("n",)], TypeError, r"a row of a pattern table is \(name, pattern\)"),
        ([op.exp(x)], TypeError, r"a row of a pattern table is \(name, pattern\)"),
        ([("n", x)], RuleError, "must apply an operator; a bare hole would match everything"),
        ([("n", "exp")], TypeError, "a pattern is a term of the rule language"),
        ([("n", op.exp(x), has_rank(y, 1))], RuleError, "uses 'y', which the pattern does not bind"),
        ([("n", op.reshape(x, newshape=shape_of(x)))], RuleError, "the pattern computes a value"),
        ([("n", op.exp(x), ["no"])], TypeError, "'no' is not a guard"),
    ],
)
def test_tables_that_are_rejected(table: AnyValue, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        MergeComposite(table)


def test_info() -> None:
    info = get_pass("MergeComposite").info
    assert (info.opt_level, info.name, list(info.required)) == (0, "MergeComposite", [])


def test_merged_functions_are_counted() -> None:
    with PassContext(opt_level=0) as context:
        MergeComposite([ADD_RELU])(program("%a: (3)", "nn.relu(add(nn.relu(add(%a, %a)), 1f))"))
    assert context.statistics.counters["MergeComposite"] == {"merged:add_relu": 2}
