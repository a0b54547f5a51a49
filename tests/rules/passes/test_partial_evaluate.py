"""PartialEvaluate: what is known before a program runs is computed, and the rest computes the same."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat import relay
from passat.ir.analysis import well_formed
from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Constant, Expr, Function, If, Let, Match, RefCreate, RefRead, RefWrite, Var
from passat.ir.infer import InferError, infer_module, infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.partial_evaluation import evaluator
from passat.ir.text import parse
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, TupleType
from passat.passmgr import PassContext
from passat.runtime import ExecutorError, create_executor
from tests.ir.test_cps import argument_for, assert_same
from tests.rules.passes.effectful_programs import source
from tests.share import share
from tests.strategies import programs

LISTS = """
type List[A] { Cons(A, List[A]), Nil }
def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) { Cons(%x, %rest) => { Cons(%f(%x), @map(%f, %rest)) }, Nil => { Nil } }
}
def @sum(%xs: List[int32]) -> int32 { match (%xs) { Cons(%x, %rest) => { add(%x, @sum(%rest)) }, Nil => { 0 } } }
"""


def evaluated(module: IRModule | str) -> IRModule:
    """The module after the pass, with types."""
    made = relay.transform.PartialEvaluate()(parse(module) if isinstance(module, str) else module)
    assert well_formed(made)
    return infer_module(made)


def becomes(before: str, after: str) -> None:
    assert_structural_equal(evaluated(before)["main"], infer_module(parse(after))["main"])


def run(module: IRModule, *args: Any) -> Any:
    return create_executor(mod=module).evaluate()(*args)


def kinds(function: Expr) -> set[type]:
    return {type(node) for node in post_order(function)}


def test_fields_of_known_tuples() -> None:
    becomes("def @main(%x: int32) { let %t = ((%x, 1), 2); %t.0.0 }", "def @main(%x: int32) { %x }")


def test_functions_are_inlined_and_operators_on_constants_computed() -> None:
    becomes(
        "def @main(%x: int32) { let %f = fn (%a: int32, %b: int32) { add(%a, multiply(%b, 3)) }; (%f(%x, 2), %f(4, 5)) }",
        "def @main(%x: int32) { let %y = add(%x, 6); let %t = (%y, 19); %t }",
    )


def test_results_of_operators_that_are_tuples() -> None:
    body = evaluated("def @main() { split(tile(7, reps=[2]), indices_or_sections=2, axis=0).1 }")["main"].body
    assert isinstance(body, Constant)
    assert body.data.numpy().tolist() == [7]


def test_a_branch_whose_condition_is_known() -> None:
    becomes(
        "def @main(%x: int32) { if (less(1, 2)) { add(%x, 1) } else { multiply(%x, %x) } }",
        "def @main(%x: int32) { let %y = add(%x, 1); %y }",
    )


def test_references_that_nothing_else_can_reach_disappear() -> None:
    becomes(
        "def @main(%x: int32) { let %r = ref(%x); let %u = ref_write(%r, add(ref_read(%r), ref_read(%r))); ref_read(%r) }",
        "def @main(%x: int32) { let %y = add(%x, %x); %y }",
    )


def test_a_write_in_a_branch_is_not_known_behind_it() -> None:
    module = parse("def @main(%c: bool, %x: int32) { let %r = ref(%x); let %u = if (%c) { ref_write(%r, 1) } else { () }; ref_read(%r) }")
    made = evaluated(module)
    assert {RefCreate, RefRead, RefWrite} <= kinds(made["main"])
    assert [run(made, np.bool_(c), np.int32(5)).numpy() for c in (True, False)] == [1, 5]


def test_a_branch_that_writes_nothing_leaves_references_known() -> None:
    made = evaluated(
        "def @main(%c: bool, %x: int32) { let %r = ref(%x); let %y = if (%c) { ref_read(%r) } else { 2 }; add(%y, ref_read(%r)) }"
    )
    assert kinds(made["main"]).isdisjoint({RefCreate, RefRead, RefWrite})


def test_what_an_unknown_function_may_write_is_read_again() -> None:
    module = parse(
        """
def @main(%f: fn (ref(int32)) -> ()) { let %r = ref(1); let %s = ref(2); let %u = %f(%r); (ref_read(%r), ref_read(%s)) }
def @set(%r: ref(int32)) { ref_write(%r, 7) }
"""
    )
    made = evaluated(module)
    assert sum(isinstance(node, RefRead) for node in post_order(made["main"])) == 2
    made["main"] = Function([], made["main"](made.get_global_var("set")))
    assert [part.numpy() for part in run(infer_module(made))] == [7, 2]


def test_data_types_and_recursive_functions() -> None:
    text = LISTS + "def @main(%x: int32) { @sum(@map(fn (%a: int32) { multiply(%a, 2) }, Cons(%x, Cons(3, Nil)))) }"
    made = evaluated(text)
    assert_structural_equal(
        made["main"], infer_module(parse("def @main(%x: int32) { let %a = multiply(%x, 2); let %b = add(%a, 6); %b }"))["main"]
    )
    assert {"map", "sum"} <= {var.name_hint for var in made.functions}


def test_a_match_of_an_unknown_value_stays() -> None:
    made = evaluated(LISTS + "def @main(%xs: List[int32]) { @sum(%xs) }")
    assert Match in kinds(made["main"])
    module = infer_module(made)
    module["list"] = parse(LISTS + "def @main() { @sum(Cons(1, Cons(2, Nil))) }")["main"]
    assert run(IRModule({"main": module["list"], "sum": made["sum"]}, module.type_definitions)).numpy() == 3


@pytest.mark.parametrize(
    "text",
    [
        "def @loop[A](%x: A) -> A { @loop(%x) } def @main() -> int32 { @loop(1) }",
        "def @a(%x: int32) -> int32 { @b(%x) } def @b(%x: int32) -> int32 { @a(%x) } def @main() -> int32 { @a(1) }",
        "def @main() -> int32 { let %f = fn (%x: int32) -> int32 { %f(add(%x, 1)) }; %f(1) }",
        "def @main() { let %r = ref(fn () { 1 }); let %f = fn () { let %g = ref_read(%r); %g() }; let %u = ref_write(%r, %f); %f() }",
        "def @main() { let %f = fn () -> fn () -> int32 { fn () { let %g = %f(); %g() } }; %f() }",
    ],
    ids=["itself", "each other", "growing", "through a reference", "a result that calls"],
)
def test_programs_that_do_not_end_are_evaluated_in_finite_time(text: str) -> None:
    assert evaluated(text)["main"].func_type == infer_module(parse(text))["main"].func_type


def test_a_function_gets_only_so_large(monkeypatch: pytest.MonkeyPatch) -> None:
    doubling = "".join(f"def @f{i}(%x: int32) -> int32 {{ @f{i + 1}(@f{i + 1}(%x)) }}\n" for i in range(20))
    text = "def @main(%x: int32) { @f0(%x) }\n" + doubling + "def @f20(%x: int32) -> int32 { add(%x, 1) }"
    monkeypatch.setattr(evaluator, "MOST_INLINED", 1000)
    module = parse(text)
    assert 100 < len(post_order(evaluated(module)["main"])) < 3000
    monkeypatch.setattr(evaluator, "_MOST", 10)
    assert relay.transform.PartialEvaluate()(module)["main"] is module["main"]


def test_a_count_too_far_is_left_to_run_time(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
def @count(%n: int32, %x: int32) -> int32 { if (equal(%n, 0)) { %x } else { @count(subtract(%n, 1), add(%x, %n)) } }
def @main(%x: int32) { @count(1000, %x) }
"""
    monkeypatch.setattr(evaluator, "MOST_INLINED", 200)
    assert run(evaluated(text), np.int32(0)).numpy() == 500_500


def test_functions_that_stand_for_an_operation_stay_whole() -> None:
    x, y = Var("x", TensorType((), "int32")), Var("y", TensorType((), "int32"))
    sealed = Function([y], get_op("add")(y, x), attrs={"Primitive": 1})
    made = evaluated(IRModule.from_expr(Function([x], sealed(x))))
    assert [node.attrs.get("Primitive") for node in post_order(made["main"].body) if isinstance(node, Function)] == [1]
    assert run(made, np.int32(4)).numpy() == 8


def test_functions_that_passes_leave_alone() -> None:
    module = parse(
        'def @main(%x: int32) { add(@a(%x), @b(%x)) } def @a(%x: int32, SkipOptimization=1) { add(1, 2) } def @b(%x: int32, Compiler="c") { %x }'
    )
    made = evaluated(module)
    assert (made["a"], made["b"]) == (module["a"], module["b"])
    assert {node.name_hint for node in post_order(made["main"]) if isinstance(node, relay.GlobalVar)} == {"a", "b"}


def test_nothing_to_compute() -> None:
    module = infer_module(parse("def @main(%x: int32, %c: bool) { let %y = if (%c) { let %z = add(%x, 1); %z } else { %x }; %y }"))
    assert relay.transform.PartialEvaluate()(module) is module
    once = evaluated("def @main(%x: int32) { add(%x, add(%x, 1)) }")
    assert relay.transform.PartialEvaluate()(once) is once


def test_the_limits_of_constant_folding() -> None:
    text = "def @main() { let %f = fn (%x: float32) { (exp(%x), cumsum(broadcast_to(%x, shape=[50]), axis=0), nn.dropout(%x)) }; %f(200f) }"
    for config, kept in (
        ({}, {"nn.dropout"}),
        ({"rules.math": "exact"}, {"cumsum", "exp", "nn.dropout"}),
        ({"rules.max_growth": 0}, {"broadcast_to", "cumsum", "nn.dropout"}),
    ):
        with PassContext(config=config):
            made = evaluated(text)["main"]
        assert {node.name for node in post_order(made) if isinstance(node, Op)} == kept


def test_an_ill_typed_program_is_an_error() -> None:
    with pytest.raises(InferError):
        relay.transform.PartialEvaluate()(parse("def @main(%x: int32) { sqrt(%x) }"))


def test_type_parameters_of_inlined_functions() -> None:
    made = evaluated(
        """
def @keep[A](%x: A) -> fn () -> A { let %f = fn (%y: A) -> A { %y }; fn () -> A { %f(%x) } }
def @main(%c: bool, %x: int32) { let %f = if (%c) { @keep(%x) } else { @keep(2) }; %f() }
"""
    )
    assert [run(made, np.bool_(c), np.int32(5)).numpy() for c in (True, False)] == [5, 2]


def test_a_gradient_becomes_dataflow() -> None:
    d = Var("d", TensorType((2, 2)))
    body: Expr = d
    for _ in range(200):
        body = get_op("tanh")(body)
    gradient = relay.transform.gradient(Function([d], body))
    made = evaluated(IRModule.from_expr(gradient))["main"]
    assert kinds(made).isdisjoint({RefCreate, RefRead, RefWrite, If})
    assert sum(isinstance(node, Function) for node in post_order(made)) == 1
    data = np.full((2, 2), 0.5, np.float32)
    assert_same(create_executor().evaluate(gradient)(data), create_executor().evaluate(made)(data))


def test_deep_programs() -> None:
    x = Var("x", TensorType(()))
    chain: Expr = x
    count = share(4_000, 20_000)
    for _ in range(count):
        chain = get_op("add")(chain, x)
    assert run(evaluated(IRModule.from_expr(Function([x], chain))), np.float32(1)).numpy() == count + 1
    nested: Expr = x
    for _ in range(1000):
        param = Var("p", TensorType(()))
        nested = Function([param], get_op("add")(param, nested))(x)
    made = evaluated(IRModule.from_expr(Function([x], nested)))
    assert run(made, np.float32(1)).numpy() == 1001
    assert kinds(made["main"]) == {Function, Let, Var, relay.Call, Op}


@settings(max_examples=share(15, 400))
@given(programs(effects=True, size=12))
def test_random_programs_compute_the_same(function: Function) -> None:
    infer_type(function)
    made = evaluated(IRModule.from_expr(function))["main"]
    assert made.func_type.arg_types == function.func_type.arg_types
    arguments = [argument_for(param) for param in function.params]
    try:
        expected = create_executor().evaluate(function)(*arguments)
    except ExecutorError:
        return  # unknown sizes do not fit
    assert_same(expected, create_executor().evaluate(made)(*arguments))


@settings(max_examples=share(18, 1000))
@given(st.integers(0, 1 << 32))
def test_effects_are_kept_in_order(seed: int) -> None:
    module = infer_module(parse(source(Random(seed))))
    made = evaluated(module)
    assert isinstance(made["main"].func_type.ret_type, TupleType)
    for args in ((0, 0), (1, -1), (-3, 2), (5, 4)):
        assert [part.numpy() for part in run(made, *args)] == [part.numpy() for part in run(module, *args)]
