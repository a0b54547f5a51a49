"""Structural equality and hashing: laws on random programs, and which differences count."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.equality import assert_structural_equal, structural_equal, structural_hash
from passat.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, Var, const, var
from passat.ir.functor import ExprMutator
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.shape import SymDim
from passat.ir.tensor import Tensor
from passat.ir.text import parse, parse_expr
from passat.ir.traverse import children, post_order, rewrite, with_children
from passat.ir.types import TensorType
from tests.share import share
from tests.strategies import modules, programs

x, y = var("x", shape=(2,)), var("y", shape=(2,))


class Renaming(ExprMutator):
    """Replaces every variable, and everything that depends on one."""

    def visit_var(self, var: Var) -> Expr:
        return Var("renamed", var.type_annotation)


def unshared(expr: Expr) -> Expr:
    """The same tree with separate copies of shared calls and tuples. For small programs."""
    if isinstance(expr, Function):
        return expr.with_body(unshared(expr.body))
    if isinstance(expr, Let):
        return Let(expr.var, unshared(expr.value), unshared(expr.body))
    if isinstance(expr, (Call, Tuple)) and children(expr):
        parts = [unshared(part) for part in children(expr)]
        return Call(parts[0], parts[1:], expr.attrs) if isinstance(expr, Call) else Tuple(parts)
    return expr


@settings(max_examples=share(15, 80))
@given(programs(effects=True), programs(effects=True))
def test_equality_is_an_equivalence_and_the_hash_agrees(a: Function, b: Function) -> None:
    renamed = Renaming().visit(a)
    twice = Renaming().visit(renamed)
    for sharing in (False, True):
        assert structural_equal(a, a, sharing=sharing)
        assert_structural_equal(a, renamed, sharing=sharing)
        assert structural_equal(renamed, a, sharing=sharing)
        assert structural_equal(a, twice, sharing=sharing)
        assert structural_equal(a, b, sharing=sharing) == structural_equal(renamed, b, sharing=sharing)
        assert structural_equal(a, b, sharing=sharing) == structural_equal(b, twice, sharing=sharing)
    assert structural_hash(a) == structural_hash(renamed)
    if structural_equal(a, b):
        assert structural_hash(a) == structural_hash(b)


@settings(max_examples=share(15, 80))
@given(programs(size=5))
def test_sharing_counts_only_on_request(program: Function) -> None:
    apart = unshared(program)
    assert structural_equal(program, apart)
    assert structural_equal(apart, program)
    assert structural_hash(program) == structural_hash(apart)


def test_a_let_that_is_copied_hashes_like_the_one_let() -> None:
    """Both copies bind the same variable."""
    x, y, z = (var(name, shape=(2,)) for name in "xyz")
    called = Call(Function([y], Let(z, get_op("negative")(x), get_op("exp")(x))), [x])
    program = Function([x], Tuple([called, called]))
    apart = unshared(program)
    assert structural_equal(program, apart)
    assert structural_hash(program) == structural_hash(apart)


@settings(max_examples=share(15, 80))
@given(programs(), st.data())
def test_a_change_anywhere_is_found(program: Function, data: st.DataObject) -> None:
    nodes: list[Expr] = [node for node in post_order(program) if isinstance(node, (Tuple, Call, If))]
    victim = data.draw(st.sampled_from(nodes or [program]))
    changed = rewrite(program, lambda old, new: Tuple([new, Tuple([])]) if old is victim else new)
    assert not structural_equal(program, changed)
    assert not structural_equal(changed, program)
    with pytest.raises(ValueError, match=r"^the left side differs from the right one "):
        assert_structural_equal(program, changed)


@settings(max_examples=share(8, 40))
@given(modules(), modules())
def test_modules_are_equal_function_by_function(a: IRModule, b: IRModule) -> None:
    copy = IRModule(dict(reversed(a.functions.items())), a.type_definitions)
    assert structural_equal(a, copy)
    assert structural_hash(a) == structural_hash(copy)
    assert structural_equal(a, b) == structural_equal(b, a)
    if structural_equal(a, b):
        assert structural_hash(a) == structural_hash(b)


LIST = "type List[A] { Cons(A, List[A]), Nil }\n"


def matching(arms: str, mark: str = "") -> str:
    return f"{LIST}def @main(%x: List[int8]) {{ match{mark} (%x) {{ {arms} }} }}"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("fn (%x: int8) { %x }", "fn (%y: int8) { %y }"),
        ("fn (%x: int8, %y: int8) { (%y, %x) }", "fn (%y: int8, %x: int8) { (%x, %y) }"),
        ("fn (%x: int8) { let %y = %x; %y }", "fn (%a: int8) { let %x = %a; %x }"),
        ("fn [A](%x: A) -> A { %x }", "fn [B](%x: B) -> B { %x }"),
        ("fn (%x: int8) { %0 = (%x,); (%0, %0) }", "fn (%x: int8) { ((%x,), (%x,)) }"),
        ("let %f = fn (%n: int8) { %f(%n) }; %f", "let %g = fn (%m: int8) { %g(%m) }; %g"),
        ("nn.softmax(1f)", "nn.softmax(1f, axis=-1)"),
        ("fn (%x: int8) { fn (%y: int8) { (%x, %y) } }", "fn (%y: int8) { fn (%x: int8) { (%y, %x) } }"),
    ],
)
def test_ignored_differences(a: str, b: str) -> None:
    left, right = parse_expr(a), parse_expr(b)
    assert_structural_equal(left, right)
    assert structural_hash(left) == structural_hash(right)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("fn (%x: int8) { %x }", "fn (%x: int16) { %x }", "as a whole: %x is annotated int8, %x int16"),
        ("fn (%x: int8) { %x }", "fn (%x) { %x }", "as a whole: %x is annotated int8, %x None"),
        ("fn (%x: int8) { %x }", "fn () { 1 }", "as a whole: Function of 2 parts against 1"),
        ("fn () { 1 }", "fn () -> int64 { 1 }", "as a whole: the declared result None against int64"),
        ("fn (P=1) { 1 }", "fn (P=2) { 1 }", "as a whole: the attribute P is 1 against 2"),
        ("fn [A]() { 1 }", "fn () { 1 }", "as a whole: 1 type parameter against 0"),
        ("fn [A, B](%x: A) { 1 }", "fn [A, B](%x: B) { 1 }", "as a whole: %x is annotated A, %x B"),
        ("fn () { 1 }", "fn () { 2 }", "at .body: the constant Tensor(int32[], 1) against Tensor(int32[], 2)"),
        ("(1, (2, 3))", "(1, (2, 3f))", "at .fields[1].fields[1]: the constant Tensor(int32[], 3) against Tensor(float32[], 3.0)"),
        ("(1, 2)", "(1, 2, 3)", "as a whole: Tuple of 2 parts against 3"),
        ("(1, 2).0", "(1, 2).1", "as a whole: field 0 against field 1"),
        ("add(1, 2)", "subtract(1, 2)", "at .op: the operator add against subtract"),
        ("nn.softmax(1f)", "nn.softmax(1f, axis=1)", "as a whole: the attribute axis is -1 against 1"),
        ("@f(1, a=1)", "@f(1, b=1)", "as a whole: the attribute a is 1 against absent"),
        ("@f(1)", "@g(1)", "at .op: the function @f against @g"),
        ("@f[int8](1)", "@f[bool](1)", "as a whole: the type arguments (int8,) against (bool,)"),
        ("@f(1)", "(1,)", "as a whole: Call against Tuple"),
        ("add(1, 2)", "(1,)", "as a whole: Call of add against Tuple"),
        ("add(1, 2)", "add", "as a whole: Call of add against the operator add"),
        ("fn (%x, %y) { %x }", "fn (%x, %y) { %y }", "at .body: the variable %x against %y, which is bound elsewhere"),
        ("let %x = 1; (%x, 2)", "let %x = 1; (2, %x)", "at .body.fields[0]: Var against Constant"),
        (
            "if (True) { 1 } else { 2 }",
            "if (True) { 1 } else { 3 }",
            "at .false_branch: the constant Tensor(int32[], 2) against Tensor(int32[], 3)",
        ),
        (
            "if (True) { 1 } else { 2 }",
            "if (True) { 0 } else { 2 }",
            "at .true_branch: the constant Tensor(int32[], 1) against Tensor(int32[], 0)",
        ),
        ("ref_write(ref(1), 2)", "ref_write(ref(1), 3)", "at .value: the constant Tensor(int32[], 2) against Tensor(int32[], 3)"),
        ("ref_read(ref(1))", "ref_read(ref(2))", "at .ref.value: the constant Tensor(int32[], 1) against Tensor(int32[], 2)"),
        ("let %x: int8 = 1; %x", "let %x = 1; %x", "as a whole: %x is annotated int8, %x None"),
        ("free_var %x; %x", "free_var %x; %x", "as a whole: the free variables %x and %x are different"),
    ],
)
def test_the_first_difference_is_named(a: str, b: str, message: str) -> None:
    left, right = parse_expr(a), parse_expr(b)
    assert not structural_equal(right, left)
    with pytest.raises(ValueError, match=f"^the left side differs from the right one {re.escape(message)}$"):
        assert_structural_equal(left, right)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (matching("Cons(%a, _) => %a, Nil => 1i8"), matching("Cons(%a, _) => %a, Nil => 1i8", "?"), "at @main.body: a complete match"),
        (matching("Cons(%a, _) => %a", "?"), matching("Cons(_, %a) => 1i8", "?"), "at @main.body: the patterns of two arms differ"),
        (matching("Cons(%a, _) => %a", "?"), matching("Cons(%a, _) => 1i8", "?"), "at @main.body.clauses[0]: Var against Constant"),
        (matching("%a => %a"), matching("%a => %x"), "at @main.body.clauses[0]: the variable %a against %x, which is bound elsewhere"),
        (matching("_ => 1, Nil => 2"), matching("_ => 1"), "at @main.body: Match of 3 parts against 2"),
        ("def @f() { 1 }", "def @g() { 1 }", "in its functions: f against g"),
        (LIST + "def @f() { 1 }", "def @f() { 1 }", "in the definition of the type List"),
        (LIST, "type List[A] { Cons(A), Nil }", "in the constructors of the type List"),
        (LIST + "def @f() { Cons }", LIST + "def @f() { constructor(Nil) }", "at @f.body: the constructor Cons against Nil"),
    ],
)
def test_differences_of_modules_are_named(a: str, b: str, message: str) -> None:
    left, right = parse(a), parse(b)
    assert structural_equal(left, parse(a))
    assert not structural_equal(right, left)
    with pytest.raises(ValueError, match=re.escape(message)):
        assert_structural_equal(left, right)


def test_things_of_different_kinds_differ() -> None:
    assert not structural_equal(IRModule(), x)
    assert not structural_equal(TensorType(()), x)
    assert structural_equal(TensorType(()), TensorType(()))
    assert structural_hash(TensorType(())) == structural_hash(TensorType(()))
    assert structural_hash(TensorType(())) != structural_hash(TensorType((1,)))
    with pytest.raises(ValueError, match="in kind: a module against an expression"):
        assert_structural_equal(IRModule(), x)


def test_free_variables_are_mapped_one_to_one_on_request() -> None:
    a, b = x + y, Var("p", x.type_annotation) + Var("q", y.type_annotation)
    assert structural_equal(a, a)
    assert not structural_equal(a, b)
    assert structural_equal(a, b, map_free_vars=True)
    assert structural_hash(a, map_free_vars=True) == structural_hash(b, map_free_vars=True)
    assert structural_hash(a) != structural_hash(b)
    assert not structural_equal(x + y, x + x, map_free_vars=True)
    assert not structural_equal(x + x, x + y, map_free_vars=True)
    assert not structural_equal(x, var("x", shape=(3,)), map_free_vars=True)


def test_sharing_is_compared_in_both_directions() -> None:
    once, again = x + x, x + x
    shared, copied = Tuple([once, once]), Tuple([once, again])
    assert structural_equal(shared, copied)
    assert not structural_equal(shared, copied, sharing=True)
    assert not structural_equal(copied, shared, sharing=True)
    with pytest.raises(ValueError, match=r"at .fields\[1\]: this Call of add is shared differently"):
        assert_structural_equal(shared, copied, sharing=True)
    one, two, nothing = const(1), const(1), Tuple([])
    assert structural_equal(Tuple([one, one, nothing, nothing]), Tuple([one, two, nothing, Tuple([])]), sharing=True)
    pair = Tuple([x])
    assert structural_equal(Tuple([pair[0], pair[0]]), Tuple([pair[0]] * 2), sharing=True)


def test_constants_are_compared_by_value() -> None:
    dense, splat = Constant(np.ones((2, 2), np.float32)), Constant(Tensor.splat(1.0, (2, 2), "float32"))
    lazy = Constant(Tensor.lazy("float32", (2, 2), lambda: np.ones((2, 2), np.float32), key=("file",)))
    for other in (splat, lazy):
        assert structural_equal(dense, other)
        assert structural_hash(dense) == structural_hash(other)
    big = Constant(Tensor.lazy("float32", (1000,), lambda: np.ones(1000, np.float32), key=("file",)))
    assert structural_hash(big) == structural_hash(Constant(Tensor.splat(1.0, (1000,), "float32")))


def test_one_variable_may_be_bound_in_two_places() -> None:
    a, p, q = Var("a"), Var("p"), Var("q")
    twice = Tuple([Function([a], a), Function([a], Tuple([a]))])
    apart = Tuple([Function([p], p), Function([q], Tuple([q]))])
    assert structural_equal(twice, apart)
    assert structural_equal(apart, twice)
    inner = Function([p], p)(q)
    assert structural_equal(Function([q], Tuple([inner, q])), Function([p], Tuple([Function([p], p)(p), p])))
    assert not structural_equal(Function([q], Tuple([inner, q])), Function([p], Tuple([Function([q], q)(p), Function([q], q)])))
    reused = Tuple([a])
    both = Tuple([Function([a], reused), Function([a], reused)])
    assert structural_equal(both, Tuple([Function([p], Tuple([p])), Function([q], Tuple([q]))]))
    assert not structural_equal(both, Tuple([Function([p], Tuple([p])), Function([q], Tuple([p]))]))


def test_spans_and_types_do_not_count() -> None:
    typed, untyped = infer_type(x + x), x + x
    assert structural_equal(typed, untyped)
    assert structural_hash(typed) == structural_hash(untyped)


def test_a_declared_result_equals_an_inferred_one() -> None:
    declared = parse_expr("fn (%x: int8) -> int8 { %x }")
    inferred, other = infer_type(parse_expr("fn (%x: int8) { %x }")), infer_type(parse_expr("fn (%x: int16) { %x }"))
    assert structural_equal(declared, inferred)
    assert structural_equal(inferred, declared)
    assert structural_hash(declared) == structural_hash(inferred)
    assert not structural_equal(declared, other)
    x = var("x", shape=(2,))
    assert structural_equal(Function([x], x, x.checked_type), Function([x], infer_type(x))), "the type of the body is known"
    with pytest.raises(ValueError, match=r"the declared result Tensor\[\(2,\), float32\] against None"):
        assert_structural_equal(Function([x], x + x, x.checked_type), Function([x], x + x))


def test_the_hash_does_not_change_from_run_to_run() -> None:
    text = 'fn (%x: Tensor[(2, n), float32]) { let %y = nn.softmax(%x, axis=1); (%y, 1f, @f(%y, mode="a", f=0.5f)) }'
    code = f"""
from passat.ir.equality import structural_hash
from passat.ir.text import parse_expr
print(structural_hash(parse_expr({text!r})))
"""
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert int(run.stdout) == structural_hash(parse_expr(text))


def long_chain(length: int = share(4_000, 20_000)) -> Function:
    param = var("p", shape=(2,))
    expr: Expr = param
    for _ in range(length):
        expr = expr + param
    return Function([param], expr)


def test_depth_is_data() -> None:
    a, b = long_chain(), long_chain()
    assert structural_equal(a, b, sharing=True)
    assert structural_hash(a) == structural_hash(b)
    with pytest.raises(ValueError, match=r"at \.body\.args\[0\].* \.\.\. 3977 steps \.\.\. .*args\[0\]: Var against Call of add"):
        assert_structural_equal(long_chain(4_000), long_chain(4_001))


def test_lets_nest_deep() -> None:
    one = const(1)

    def lets() -> Expr:
        body: Expr = one
        for _ in range(share(4_000, 20_000)):
            body = Let(Var("v"), one, body)
        return body

    a, b = lets(), lets()
    assert structural_equal(a, b)
    assert structural_hash(a) == structural_hash(b)


def test_paths_are_not_nodes() -> None:
    def diamond(shared: bool, depth: int = 100) -> Function:
        param = var("p", shape=(2,))
        a: Expr = param
        b: Expr = param
        for _ in range(depth):
            a, b = (a + b, a + b) if not shared else ((s := a + b), s)
        return Function([param], a)

    assert structural_equal(diamond(True), diamond(False))
    assert structural_equal(diamond(False), diamond(True))
    assert structural_hash(diamond(True)) == structural_hash(diamond(False))
    assert not structural_equal(diamond(True), diamond(False), sharing=True)
    assert not structural_equal(diamond(True), diamond(True, 99))


def test_operators_and_globals_as_values() -> None:
    assert structural_equal(Tuple([get_op("add"), GlobalVar("f")]), Tuple([get_op("add"), GlobalVar("f")]))
    assert not structural_equal(get_op("add"), get_op("subtract"))
    assert not structural_equal(get_op("add"), GlobalVar("add"))


def test_rebuilding_does_not_count() -> None:
    total = x + y
    assert structural_equal(total, with_children(total, [get_op("add"), x, y]))


def test_sequences_are_compared_element_by_element() -> None:
    a, b = TensorType((2,)), TensorType((3,))
    assert structural_equal([a, 1, SymDim.named("n")], (a, 1, SymDim.named("n")))
    assert_structural_equal([const(1)], (const(1),))
    for left, right, found in (
        ([a], [b], "in element 0 as a type"),
        ([a], [], "in length: 1 element against 0"),
        ([1], [2], "in element 0 as a whole: 1 against 2"),
        ([a], [1], "in element 0 as a whole"),
        ([a], a, "one of them is a sequence"),
    ):
        with pytest.raises(ValueError, match=found):
            assert_structural_equal(left, right)


def test_the_difference_is_shown_where_the_first_pair_differs() -> None:
    a, b, c = (var(name, shape=(2,)) for name in "abc")
    with pytest.raises(ValueError, match=r"at \.body\.args\[1\]: the variable %a against %c"):
        assert_structural_equal(Function([a, b], a + a), Function([b, c], b + c))
    shared = a + a
    with pytest.raises(ValueError, match=r"at \.body\.args\[1\]\.args\[0\]: the variable %a against %c"):
        assert_structural_equal(Function([a, b], shared + shared), Function([b, c], (b + b) + (c + b)))


def test_all_empty_attributes_hash_alike() -> None:
    assert structural_equal(Call(get_op("add"), [x, x], Attrs()), x + x)
    assert structural_hash(Call(get_op("add"), [x, x], Attrs())) == structural_hash(x + x)


def test_a_call_without_arguments_does_not_hash_like_its_callee() -> None:
    assert structural_hash(Call(GlobalVar("f"), [])) != structural_hash(GlobalVar("f"))
