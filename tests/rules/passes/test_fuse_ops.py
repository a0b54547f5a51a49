"""FuseOps: which calls are fused, and the form of the functions. The programs are those of TVM's own tests."""

from typing import Any as AnyValue

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings

from passat import optimize, relay
from passat.ir.analysis import free_vars, well_formed
from passat.ir.equality import structural_equal
from passat.ir.evaluate import EvaluateError
from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.op_attributes import OpPattern
from passat.ir.sealed import is_sealed
from passat.ir.text import astext, parse
from passat.ir.traverse import evaluation_parts, post_order, rewrite
from passat.passmgr import PassContext, Sequential, list_configs, parse_pipeline, pipeline_text
from passat.rules.passes.fuse_ops import LINK_PARAMS, MAX_DEPTH, DefuseOps, FuseOps, fuse_ops
from tests.rules.building import func, numbers, ops, tup, var
from tests.rules.passes.golden import program, run
from tests.rules.program_strategies import programs
from tests.rules.running import assert_equal_in_value, feeds_of
from tests.rules.running import run as value_of
from tests.share import share


def typed(params: str) -> str:
    """Parameters in text such as `%p0: (10, 20), %p1: () int32` (float32 by default)."""
    found = []
    for param in filter(None, map(str.strip, params.split("%"))):
        name, _, type_ = param.rstrip(",").partition(":")
        shape, _, dtype = type_.strip().rpartition(")")
        found.append(f"%{name}: Tensor[{shape}), {dtype.strip() or 'float32'}]")
    return ", ".join(found)


def prim(params: str, result: str, body: str, *, reshape_only: bool = False) -> str:
    """A function of fused calls, in text form. The result is `(10, 20)` or a type."""
    type_ = result if result.startswith("Tensor") or "Tensor" in result else f"Tensor[{result}, float32]"
    attrs = ", relay.reshape_only=1" if reshape_only else ""
    start = f"{typed(params)}, " if params else ""
    return f"fn ({start}Primitive=1{attrs}) -> {type_} {{ {body} }}"


def primitives(function: Function) -> list[Function]:
    """The fused functions of a function, in the order of their calls."""
    order = post_order(function, parts_of=evaluation_parts)
    return [node for node in order if isinstance(node, Function) and node.attrs.get("Primitive")]


def calls(expr: Expr) -> list[str]:
    return [node.op.name for node in post_order(expr) if isinstance(node, Call) and isinstance(node.op, Op)]


def check(signature: str, before: str, after: str, *, level: int = 1, values: bool = True, **config: AnyValue) -> None:
    """Checks that fusion turns one program into the other, that both have the same value, and that defusing restores the first."""
    module = program(signature, before)
    infer_type(module["main"])
    apart = run(FuseOps(0), module)
    assert not free_vars(apart["main"])
    assert all(len(calls(made.body)) == 1 for made in primitives(apart["main"]))
    found = run(FuseOps(level), module, **config)
    wanted = program(signature, after)
    assert structural_equal(found["main"], wanted["main"], sharing=True), f"{found}\nis not\n{wanted}"
    assert run(FuseOps(level), found, **config)["main"] is found["main"]
    for made in (found, apart):
        check_sound(module["main"], made["main"], values=values)


def check_sound(before: Function, after: Function, *, values: bool = True) -> None:
    """Checks that a fused function is well formed, has the value of the original, round-trips through text, and can be defused."""
    assert well_formed(after)
    again = parse(astext(IRModule.from_expr(after)))
    assert structural_equal(again["main"], after, sharing=True)
    if values:
        assert_equal_in_value(before, after, exact=True, special=False)
        reread = Function(before.params, relay.expr.bind(again["main"].body, dict(zip(again["main"].params, before.params, strict=True))))
        assert_equal_in_value(before, reread, exact=True, special=False, rounds=1)
    apart = run(DefuseOps(), IRModule.from_expr(after))["main"]
    wanted = stopless(before)
    assert structural_equal(apart, wanted, sharing=True), f"{apart}\nis not\n{wanted}"


def stopless(function: Function) -> Function:
    """The function without `annotation.stop_fusion`, which fusion removes."""

    def drop(old: Expr, new: Expr) -> Expr:
        stops = isinstance(new, Call) and isinstance(new.op, Op) and new.op.name == "annotation.stop_fusion"
        return new.args[0] if stops and isinstance(new, Call) else new

    return rewrite(function, drop)


BIG = "(1, 4, 8, 8)"


def test_simple() -> None:
    body = prim("%p0: (10, 20)", "(10, 20)", "squeeze(exp(add(%p0, 1f)))")
    check("%x: (10, 20)", "squeeze(exp(add(%x, 1f)))", f"%0 = {body}; %0(%x)")


def test_at_level_0_each_call_is_a_function() -> None:
    check(
        "%x: (2, 3)",
        "squeeze(exp(add(%x, 1f)))",
        f"%0 = {prim('%p0: (2, 3), %p1: ()', '(2, 3)', 'add(%p0, %p1)')}; %1 = {prim('%p0: (2, 3)', '(2, 3)', 'exp(%p0)')};"
        f"%2 = {prim('%p0: (2, 3)', '(2, 3)', 'squeeze(%p0)', reshape_only=True)}; %2(%1(%0(%x, 1f)))",
        level=0,
    )


def test_convolutions_and_their_consumers() -> None:
    """The sum of two convolutions is fused with one of them. An elementwise operator before a convolution is not fused with it."""
    check(
        f"%x: {BIG}, %w1: (4, 4, 3, 3), %w2: (4, 4, 1, 1), %w3: (4, 4, 3, 3)",
        """%0 = add(%x, 1f); %1 = nn.conv2d(%0, %w1, padding=[1, 1]); %2 = add(1f, %1); %3 = add(%1, %2);
           %4 = nn.conv2d(%3, %w2); %5 = nn.conv2d(%3, %w3, padding=[1, 1]); add(%4, %5)""",
        f"""%0 = {prim(f"%p0: {BIG}", BIG, "add(%p0, 1f)")}; %1 = %0(%x);
            %5 = {prim(f"%p0: {BIG}, %p1: (4, 4, 3, 3)", BIG, "%3 = nn.conv2d(%p0, %p1, padding=[1, 1]); add(%3, add(1f, %3))")};
            %6 = %5(%1, %w1);
            %7 = {prim(f"%p0: {BIG}, %p1: (4, 4, 3, 3)", BIG, "nn.conv2d(%p0, %p1, padding=[1, 1])")};
            %8 = {prim(f"%p0: {BIG}, %p1: (4, 4, 1, 1), %p2: {BIG}", BIG, "add(nn.conv2d(%p0, %p1), %p2)")};
            %8(%6, %w2, %7(%6, %w3))""",
    )


def test_bias_and_activation_follow_a_convolution() -> None:
    """Broadcasts to the shape of the result count as elementwise operators of the convolution, including where branches meet again."""
    check(
        f"%x: {BIG}, %w: (4, 4, 1, 1), %b: (4)",
        "%0 = nn.bias_add(nn.conv2d(%x, %w), %b); multiply(nn.relu(%0), sigmoid(%0))",
        f"""%0 = {prim(f"%p0: {BIG}, %p1: (4, 4, 1, 1), %p2: (4)", BIG,
                       "%0 = nn.bias_add(nn.conv2d(%p0, %p1), %p2); multiply(nn.relu(%0), sigmoid(%0))")}; %0(%x, %w, %b)""",
    )  # fmt: skip


def test_shape_changes_are_not_fused_after_a_convolution() -> None:
    check(
        f"%x: {BIG}, %w: (4, 4, 1, 1)",
        "exp(transpose(nn.conv2d(%x, %w), axes=[0, 2, 3, 1]))",
        f"""%0 = {prim(f"%p0: {BIG}, %p1: (4, 4, 1, 1)", BIG, "nn.conv2d(%p0, %p1)")};
            %1 = {prim(f"%p0: {BIG}", "(1, 8, 8, 4)", "exp(transpose(%p0, axes=[0, 2, 3, 1]))")}; %1(%0(%x, %w))""",
    )


def test_a_broadcast_to_a_larger_shape_does_not_follow_a_convolution() -> None:
    check(
        f"%x: {BIG}, %w: (4, 4, 1, 1), %y: (2, 4, 8, 8)",
        "add(nn.conv2d(%x, %w), %y)",
        f"""%0 = {prim(f"%p0: {BIG}, %p1: (4, 4, 1, 1)", BIG, "nn.conv2d(%p0, %p1)")};
            %1 = {prim(f"%p0: {BIG}, %p1: (2, 4, 8, 8)", "(2, 4, 8, 8)", "add(%p0, %p1)")}; %1(%0(%x, %w), %y)""",
    )


def test_concatenate() -> None:
    """The tuple of a concatenation, and injective operators before it, are fused with it; a pooling is not."""
    check(
        "%x: (1, 2, 4, 4)",
        "%0 = nn.max_pool2d(%x, pool_size=[1, 1]); %1 = reverse(%0, axis=2); %2 = (%1, %x); add(concatenate(%2, axis=1), 1f)",
        f"""%0 = {prim("%p0: (1, 2, 4, 4)", "(1, 2, 4, 4)", "nn.max_pool2d(%p0, pool_size=[1, 1])")};
            %1 = {prim("%p0: (1, 2, 4, 4), %p1: (1, 2, 4, 4)", "(1, 4, 4, 4)",
                       "%1 = (reverse(%p0, axis=2), %p1); add(concatenate(%1, axis=1), 1f)")}; %1(%0(%x), %x)""",
    )  # fmt: skip


def test_a_tuple_that_is_the_result_stays_outside() -> None:
    check(
        "%x: (1, 2, 4, 4)",
        "%0 = nn.max_pool2d(%x, pool_size=[1, 1]); (reverse(%0, axis=2), %x)",
        f"""%0 = {prim("%p0: (1, 2, 4, 4)", "(1, 2, 4, 4)", "nn.max_pool2d(%p0, pool_size=[1, 1])")};
            %1 = {prim("%p0: (1, 2, 4, 4)", "(1, 2, 4, 4)", "reverse(%p0, axis=2)")}; (%1(%0(%x)), %x)""",
    )


def test_stop_fusion() -> None:
    check(
        "%x: (10, 20)",
        "exp(annotation.stop_fusion(add(%x, 1f)))",
        f"""%0 = {prim("%p0: (10, 20)", "(10, 20)", "add(%p0, 1f)")}; %1 = {prim("%p0: (10, 20)", "(10, 20)", "exp(%p0)")}; %1(%0(%x))""",
    )


def test_functions_in_branches() -> None:
    """The condition of a branch is fused by itself; closures stay."""
    check(
        "%x: () int64, %y: () int64",
        "%0 = greater(%x, %y); %1 = if (%0) { fn () { %x } } else { fn () { %y } }; %1()",
        f"""%0 = {prim("%p0: () int64, %p1: () int64", "Tensor[(), bool]", "greater(%p0, %p1)")}; %1 = %0(%x, %y);
            %2 = if (%1) {{ fn () {{ %x }} }} else {{ fn () {{ %y }} }}; %2()""",
    )


def test_nothing_is_fused_over_a_branch() -> None:
    """Calls inside of a branch are fused. A value outside of it is an argument, since both branches use it."""
    check(
        "%x: (3), %c: () bool",
        "%0 = exp(%x); if (%c) { negative(tanh(%0)) } else { abs(%0) }",
        f"""%0 = {prim("%p0: (3)", "(3)", "exp(%p0)")}; %1 = %0(%x);
            if (%c) {{ %2 = {prim("%p0: (3)", "(3)", "negative(tanh(%p0))")}; %2(%1) }}
            else {{ %3 = {prim("%p0: (3)", "(3)", "abs(%p0)")}; %3(%1) }}""",
    )


def test_nothing_is_fused_over_a_let() -> None:
    check(
        "%x: (3)",
        "let %y = exp(negative(%x)); tanh(add(%y, %y))",
        f"""%0 = {prim("%p0: (3)", "(3)", "exp(negative(%p0))")}; let %y = %0(%x);
            %1 = {prim("%p0: (3)", "(3)", "tanh(add(%p0, %p0))")}; %1(%y)""",
    )


def test_match_arms_are_fused_separately() -> None:
    check(
        "%x: (3)",
        "match? ((exp(%x), %x)) { (%a, %b) => { exp(add(%a, %b)) } }",
        f"""%0 = {prim("%p0: (3)", "(3)", "exp(%p0)")};
            match? ((%0(%x), %x)) {{ (%a, %b) => {{ %1 = {prim("%p0: (3), %p1: (3)", "(3)", "exp(add(%p0, %p1))")}; %1(%a, %b) }} }}""",
    )


def test_inside_of_functions() -> None:
    """The body of a closure is fused; captured values are arguments."""
    check(
        "%x: (3)",
        "let %f = fn (%y: Tensor[(3), float32]) { exp(add(%y, %x)) }; %f(%f(%x))",
        f"""let %f = fn (%y: Tensor[(3), float32]) {{ %0 = {prim("%p0: (3), %p1: (3)", "(3)", "exp(add(%p0, %p1))")}; %0(%y, %x) }};
            %f(%f(%x))""",
    )


def test_functions_that_are_sealed_stay() -> None:
    body = "%0 = fn (%y: Tensor[(3), float32], {}) {{ exp(negative(%y)) }}; %0(%x)"
    for attrs in ("Primitive=1", 'Composite="a.b"', 'Compiler="other"'):
        module = program("%x: (3)", body.format(attrs))
        assert run(FuseOps(1), module)["main"] is module["main"]
    module = program("%x: (3)", body.format("Primitive=0"))
    assert len(primitives(run(FuseOps(1), module)["main"])) == 1


def test_fields_of_a_tuple_are_fused_with_its_producer() -> None:
    """Gates of an LSTM: the split is fused with the users of its fields; the product before it is not."""
    body = "%0 = split({}, indices_or_sections=3, axis=1); add(sigmoid(%0.0), multiply(tanh(%0.1), exp(%0.2)))"
    check(
        "%x: (1, 4), %w: (12, 4)",
        body.format("nn.dense(%x, %w)"),
        f"""%8 = {prim("%p0: (1, 4), %p1: (12, 4)", "(1, 12)", "nn.dense(%p0, %p1)")};
            %9 = {prim("%p0: (1, 12)", "(1, 4)", body.format("%p0"))}; %9(%8(%x, %w))""",
    )


def test_a_field_is_the_result_of_a_function() -> None:
    check(
        "%x: (1, 12), %w: (4, 4)",
        "%0 = split(%x, indices_or_sections=3, axis=1); nn.dense(%0.0, %w)",
        f"""%8 = {prim("%p0: (1, 12)", "(1, 4)", "%0 = split(%p0, indices_or_sections=3, axis=1); %0.0")};
            %9 = {prim("%p0: (1, 4), %p1: (4, 4)", "(1, 4)", "nn.dense(%p0, %p1)")}; %9(%8(%x), %w)""",
    )


def test_a_field_of_an_opaque_call() -> None:
    """A single field is projected outside; a fused function receives the tuple."""
    result = "(Tensor[(4), float32], Tensor[(4), float32])"
    dropout = prim("%p0: (4)", result, "nn.dropout(%p0)")
    check("%x: (4)", "%0 = nn.dropout(%x); (%0.0, %0.0)", f"%0 = {dropout}; %1 = %0(%x); (%1.0, %1.0)")
    exp = f"fn (%p0: {result}, Primitive=1) -> Tensor[(4), float32] {{ exp(%p0.0) }}"
    check("%x: (4)", "%0 = nn.dropout(%x); exp(%0.0)", f"%0 = {dropout}; %1 = {exp}; %1(%0(%x))")


def test_fields_of_new_tuples_are_not_fused() -> None:
    check("%x: (3), %y: (3)", "%0 = (%x, %y); %1 = (%0.1, %0.0); (%1.0, %1.1)", "%0 = (%x, %y); %1 = (%0.1, %0.0); (%1.0, %1.1)")
    body = "%0 = (exp({0}), {0}); %0.0"
    check("%x: (3)", body.format("%x"), f"%9 = {prim('%p0: (3)', '(3)', body.format('%p0'))}; %9(%x)")


def test_a_tuple_in_the_middle() -> None:
    """Branches of injective operators that meet in a tuple, with the operators after the concatenation."""
    body = """%0 = squeeze({0}); %1 = add(%0, 1f); %2 = add(add(squeeze(%0), 1f), 1f); %3 = add(%0, 1f); %4 = (%1, %2, %3);
              add(squeeze(concatenate(%4, axis=1)), 1f)"""
    check("%x: (1, 2, 4, 4)", body.format("%x"), f"%0 = {prim('%p0: (1, 2, 4, 4)', '(2, 12, 4)', body.format('%p0'))}; %0(%x)")


def _consecutive(x: str) -> str:
    parts = []
    for i in range(3):
        a, b, c, t, u = (f"%{10 * i + j}" for j in range(5))
        parts.append(f"{a} = add({x}, 1f); {b} = add({x}, 1f); {c} = add({x}, 1f); {t} = ({a}, {b}, {c}); {u} = concatenate({t}, axis=1);")
    sums = "".join(f"%{40 + i} = add(%{10 * i + 4}, 1f);" for i in range(3))
    return f"{' '.join(parts)} {sums} %50 = (%40, %41, %42);"


def test_tuples_one_after_the_other() -> None:
    """Concatenations of concatenations are one function. An elementwise result with two readers is not fused with its reader."""
    shape, wide = "(1, 2, 4, 4)", "(1, 18, 4, 4)"
    check(
        f"%x: {shape}",
        f"{_consecutive('%x')} %60 = concatenate(%50, axis=1); %61 = nn.max_pool2d(%60, pool_size=[1, 1]); %62 = add(%61, 1f);"
        "%63 = add(%62, 1f); (%62, %63)",
        f"""%70 = {prim(f"%p0: {shape}", wide, _consecutive("%p0") + " concatenate(%50, axis=1)")};
            %71 = {prim(f"%p0: {wide}", wide, "add(nn.max_pool2d(%p0, pool_size=[1, 1]), 1f)")};
            %72 = {prim(f"%p0: {wide}", wide, "add(%p0, 1f)")}; %73 = %71(%70(%x)); (%73, %72(%73))""",
    )


def test_like_inception() -> None:
    """Branches that end in convolutions are not fused with the concatenation after them."""
    conv = "nn.relu(nn.conv2d(%p0, %p1, padding=[1, 1]))"
    first, second = (prim(f"%p0: (1, {n}, 4, 4), %p1: (2, {n}, 3, 3)", "(1, 2, 4, 4)", conv) for n in (2, 4))
    concat = prim("%p0: (1, 2, 4, 4), %p1: (1, 2, 4, 4)", "(1, 4, 4, 4)", "%9 = (%p0, %p1); concatenate(%9, axis=1)")
    check(
        "%x: (1, 2, 4, 4), %w1: (2, 2, 3, 3), %w2: (2, 2, 3, 3), %w3: (2, 4, 3, 3), %w4: (2, 4, 3, 3)",
        """%0 = nn.relu(nn.conv2d(%x, %w1, padding=[1, 1])); %1 = nn.relu(nn.conv2d(%x, %w2, padding=[1, 1])); %2 = (%0, %1);
           %3 = concatenate(%2, axis=1);
           %4 = nn.relu(nn.conv2d(%3, %w3, padding=[1, 1])); %5 = nn.relu(nn.conv2d(%3, %w4, padding=[1, 1])); %6 = (%4, %5);
           concatenate(%6, axis=1)""",
        f"""%0 = {first}; %1 = {first}; %2 = {concat}; %3 = %2(%0(%x, %w1), %1(%x, %w2));
            %4 = {second}; %5 = {second}; %6 = {concat}; %6(%4(%3, %w3), %5(%3, %w4))""",
    )


def test_parallel_injective_operators() -> None:
    """An elementwise operator is fused with a later one across the injective operators between them."""
    body = "%0 = add({0}, 1i32); left_shift(squeeze(%0), transpose(%0, axes=[0, 1]))"
    int32 = "Tensor[(10, 20), int32]"
    check("%x: (10, 20) int32", body.format("%x"), f"%0 = {prim('%p0: (10, 20) int32', int32, body.format('%p0'))}; %0(%x)", values=False)


def test_elementwise_operators_into_reductions() -> None:
    check("%x: (4, 5)", "min(add(%x, 1f))", f"%0 = {prim('%p0: (4, 5)', '()', 'min(add(%p0, 1f))')}; %0(%x)")
    int32 = "Tensor[(), int32]"
    check("%x: () int32", "min(add(%x, 10i32))", f"%0 = {prim('%p0: () int32', int32, 'min(add(%p0, 10i32))')}; %0(%x)")
    check(
        "%x: (4, 5)",
        "exp(min(%x))",
        f"%0 = {prim('%p0: (4, 5)', '()', 'min(%p0)')}; %1 = {prim('%p0: ()', '()', 'exp(%p0)')}; %1(%0(%x))",
    )


def test_injective_operators_stay_before_reductions() -> None:
    check(
        "%x: (4, 5)",
        "min(transpose(%x, axes=[1, 0]))",
        f"%0 = {prim('%p0: (4, 5)', '(5, 4)', 'transpose(%p0, axes=[1, 0])')}; %1 = {prim('%p0: (5, 4)', '()', 'min(%p0)')}; %1(%0(%x))",
    )


def test_a_product_is_not_fused_into_a_reduction() -> None:
    check(
        "%x: (4, 5), %w: (3, 5)",
        "min(add(nn.dense(%x, %w), 1f))",
        f"""%0 = {prim("%p0: (4, 5), %p1: (3, 5)", "(4, 3)", "add(nn.dense(%p0, %p1), 1f)")};
            %1 = {prim("%p0: (4, 3)", "()", "min(%p0)")}; %1(%0(%x, %w))""",
    )


def test_softmax_fuses_its_consumers() -> None:
    body = "cast(nn.softmax({}), dtype='float16')".replace("'", '"')
    check("%x: (4, 5)", body.format("%x"), f"%0 = {prim('%p0: (4, 5)', 'Tensor[(4, 5), float16]', body.format('%p0'))}; %0(%x)")


def test_nonscalar_constants_become_arguments() -> None:
    """This includes operands that select elements: TVM's tests of take and gather_nd."""
    x, index = var("x", (10, 1)), numbers((2,), "int64")
    for made in (
        ops.take(ops.concatenate(tup(x, x), axis=-1), numbers((1,), "int64"), axis=0),
        ops.gather_nd(ops.concatenate(tup(x, x), axis=-1), index),
    ):
        before = func(made)
        after = fuse_ops(before)
        (function,) = primitives(after)
        assert calls(function.body) == calls(before.body)
        assert [param.name_hint for param in function.params] == ["p0", "p1"]
        assert isinstance(after.body, Call)
        assert after.body.args[0] is x
        assert isinstance(after.body.args[1], Constant)


def test_an_argument_is_given_once() -> None:
    check(
        "%x: (3), %y: (3)",
        "add(multiply(%x, %y), %x)",
        f"%0 = {prim('%p0: (3), %p1: (3)', '(3)', 'add(multiply(%p0, %p1), %p0)')}; %0(%x, %y)",
    )


def test_a_scalar_that_two_functions_use_is_an_argument() -> None:
    """A constant that is one node for both functions belongs to neither. If its users are fused, it is part of that function."""
    one = Constant(relay.const(1.0).data)
    x, w = var("x", (4, 4)), var("w", (4, 4))
    before = func(ops.nn.dense(ops.add(x, one), w) + one)
    after = fuse_ops(before)
    assert [len(function.params) for function in primitives(after)] == [2, 3]
    check_sound(before, after)
    (whole,) = primitives(fuse_ops(func(ops.exp(ops.add(x, one)) + one)))
    assert len(whole.params) == 1


def test_split_with_a_reference_between() -> None:
    """Based on TVM's test_split: the result is well formed, although a field passes through a reference."""
    from passat.ir.expr import RefCreate, RefRead

    x = var("x", (6, 9))
    parts = ops.split(x, indices_or_sections=3)
    a, b, c = (TupleGetItem(parts, i) for i in range(3))
    before = func(a + RefRead(RefCreate(b)) + c, x)
    after = fuse_ops(before)
    check_sound(before, after, values=False)
    assert [calls(function.body) for function in primitives(after)] == [["split"], ["add", "add"]]


def test_unknown_dimensions() -> None:
    """Based on TVM's test_fuse_dynamic_squeeze_slice_take: unknown sizes do not prevent the fusion of injective operators."""
    x, y = var("x", ("?", "?", 4)), var("y", ("?",), "int64")
    before = func(ops.take(ops.strided_slice(ops.squeeze(x, axis=(0,)), begin=(0, 0), end=(15130, 4), strides=(1, 1)), y, axis=0), x, y)
    after = fuse_ops(before)
    assert [calls(function.body) for function in primitives(after)] == [["squeeze", "strided_slice", "take"]]
    check_sound(before, after, values=False)


def test_sizes_that_are_computed() -> None:
    """An operator that reads its sizes from an operand is opaque unless that is a constant. A constant stays with it, so that the text
    determines the type of the function."""
    x = var("x", (2, 3))
    sizes = ops.reverse(ops.shape_of(x, dtype="int64"), axis=0)
    before = func(ops.squeeze(ops.dyn.reshape(x, sizes)))
    after = fuse_ops(before)
    assert [calls(made.body) for made in primitives(after)] == [["shape_of"], ["reverse"], ["dyn.reshape"], ["squeeze"]]
    check_sound(before, after)
    constant = func(ops.exp(ops.dyn.reshape(x, relay.const([6], "int64"))))
    (function,) = primitives(fuse_ops(constant))
    assert calls(function.body) == ["dyn.reshape", "exp"]
    assert len(function.params) == 1
    check_sound(constant, fuse_ops(constant))


class TestDepth:
    """`relay.FuseOps.max_depth`."""

    @pytest.mark.parametrize(("length", "limit"), [(300, 256), (20, 10)])
    def test_of_chains(self, length: int, limit: int) -> None:
        body, first, then = "%x", "%p0", "%p0"
        for i in range(length):
            body = f"exp({body})"
            first, then = (f"exp({first})", then) if i < limit else (first, f"exp({then})")
        module = program("%x: (2)", body)
        found = run(FuseOps(1), module, **{MAX_DEPTH.replace(".", "__"): limit})
        wanted = program("%x: (2)", f"%0 = {prim('%p0: (2)', '(2)', first)}; %1 = {prim('%p0: (2)', '(2)', then)}; %1(%0(%x))")
        assert structural_equal(found, wanted, sharing=True)
        if limit == 256:  # the default
            assert structural_equal(run(FuseOps(1), module), wanted)

    def test_of_diamonds(self) -> None:
        """A diamond is fused in full or not at all: its paths count together."""
        long = 5

        def diamond(x: Expr) -> Expr:
            a = b = x
            for _ in range(long):
                a, b = ops.exp(a), ops.exp(b)
            made: Expr = ops.add(a, b)
            return made

        x = var("x", (2,))
        before = func(diamond(diamond(diamond(x))))
        for limit, sizes in ((2 * long + 1, [11, 11, 11]), (2 * long, [5, 6] * 3), (1, [1] * 33), (33, [33])):
            after = fuse_ops(before, max_depth=limit)
            assert [len(calls(made.body)) for made in primitives(after)] == sizes, limit

    def test_option(self) -> None:
        assert list_configs()[MAX_DEPTH]["default"] == 256
        with pytest.raises(AttributeError, match=r"expect config relay.FuseOps.max_depth to be at least 1 but get 0"):
            PassContext(config={MAX_DEPTH: 0})


@pytest.mark.parametrize("linked", [False, True])
def test_linked_constants_are_part_of_functions(linked: bool) -> None:
    """`relay.FuseOps.link_params`, for constants that are not scalars."""
    before = func(ops.add(ops.exp(var("x", (2,))), numbers((2,))))
    found = run(FuseOps(1), IRModule.from_expr(before), **{LINK_PARAMS.replace(".", "__"): linked})["main"]
    (function,) = primitives(found)
    assert len(function.params) == (1 if linked else 2)
    check_sound(before, found)


class TestPass:
    """Level, text, statistics."""

    def test_the_level_is_the_contexts(self) -> None:
        module = program("%x: (3)", "exp(exp(%x))")
        assert [len(primitives(run(FuseOps(), module, opt_level=level)["main"])) for level in (0, 1, 3)] == [2, 1, 1]
        assert len(primitives(run(FuseOps(0), module, opt_level=3)["main"])) == 2
        assert len(primitives(run(FuseOps(2), module, opt_level=0)["main"])) == 1

    def test_info(self) -> None:
        info = relay.transform.FuseOps().info
        assert (info.opt_level, info.name, list(info.required)) == (0, "FuseOps", ["InferType"])

    def test_pipeline_text(self) -> None:
        text = "FuseOps{fuse_opt_level=2},DefuseOps"
        assert pipeline_text(parse_pipeline(text)) == text
        assert pipeline_text(Sequential([relay.transform.FuseOps()])) == "FuseOps"

    def test_groups_are_counted(self) -> None:
        module = program("%x: (3)", "exp(annotation.stop_fusion(exp(%x)))")
        with PassContext(opt_level=2) as context:
            FuseOps()(module)
        assert context.statistics.counters["FuseOps"]["groups"] == 2

    def test_expressions_without_calls_stay(self) -> None:
        module = program("%x: (3)", "(%x, (%x, 1f))")
        assert run(FuseOps(), module)["main"] is module["main"]

    def test_a_global_function_that_is_primitive_stays(self) -> None:
        module = IRModule.from_expr(func(ops.exp(var("x"))).with_attr("Primitive", 1))
        assert run(FuseOps(), module)["main"] is module["main"]


def _kinds(function: Function) -> list[OpPattern]:
    return [OpPattern(get_op(name).pattern) for name in calls(function.body)]


def runs(function: Function) -> bool:
    """True if a random program has a value: some programs pad empty tensors."""
    try:
        value_of(function, feeds_of(function, np.random.default_rng(0), special=False))
    except EvaluateError:
        return False
    return True


@settings(max_examples=share(25, 150))
@given(programs(tame=True, stateful=True))
def test_laws(function: Function) -> None:
    """Values stay the same, defusing restores the program, and each function satisfies the rules on kinds."""
    assume(runs(function))
    for fuse in (True, False):
        after = fuse_ops(function, fuse=fuse)
        check_sound(function, after)
        for made in primitives(after):
            kinds = _kinds(made)
            assert kinds
            assert fuse or len(kinds) == 1
            if len(kinds) > 1:
                assert OpPattern.OPAQUE not in kinds
                # At most one product, followed by elementwise operators; at most one reduction, which is last.
                assert sum(kind in (OpPattern.OUT_ELEMWISE_FUSABLE, OpPattern.COMM_REDUCE) for kind in kinds) <= 1
                assert OpPattern.COMM_REDUCE not in kinds[:-1]
            assert not any(isinstance(node, Constant) and node.data.shape for node in post_order(made))
            assert not isinstance(made.body, Tuple)
        outside = post_order(after, into=lambda node: not is_sealed(node))
        assert all(isinstance(node.op, Function) for node in outside if isinstance(node, Call))


def test_a_long_chain() -> None:
    made: Expr = var("x", (2,))
    negative = get_op("negative")
    count = share(5_000, 20_000)
    for _ in range(count):
        made = negative(made)
    before = func(made)
    after = fuse_ops(before)
    assert len(primitives(after)) == -(-count // 256)
    assert structural_equal(run(DefuseOps(), IRModule.from_expr(after))["main"], before)


@pytest.mark.parametrize("passes", ["FuseOps, SimplifyExpr", "FuseOps, DefuseOps, EliminateCommonSubexpr"])
def test_passes_with_rules_follow_on_branches(passes: str) -> None:
    """The branches of an `If` of ONNX are nested functions, which have types, too."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[3] x, bool c) => (float[3] y, float[3] z) { t = Exp (x) y = If (c)
        <then_branch = a () => (float[3] r) { r = Add (t, t) }, else_branch = b () => (float[3] s) { s = Neg (t) }> z = Neg (t) }"""
    )
    assert [node.op_type for node in optimize(model, passes=passes).model.graph.node] == ["Exp", "If", "Neg"]
