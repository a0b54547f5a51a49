"""Types of variables from their uses, and results of recursive functions."""

from collections.abc import Callable

import pytest

from passat.ir.expr import Call, Expr, Function, GlobalVar, If, Let, RefCreate, RefRead, RefWrite, Tuple, Var, const
from passat.ir.infer import UNKNOWN, InferError, infer_module, infer_type
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.shape import ANY
from passat.ir.text import parse
from passat.ir.types import FuncType, IncompleteType, RefType, TensorType, TupleType, Type
from tests.share import share

i32, f32 = TensorType((), "int32"), TensorType(())
x, c = Var("x", i32), Var("c", TensorType((), "bool"))
f = Var("f")
takes_pair = Var("g", FuncType([TupleType([i32, f32])], f32))


def test_a_callee_is_a_function_of_its_arguments() -> None:
    function = Function([x, f], f(x), i32)
    infer_type(function)
    assert function.checked_type == FuncType([i32, FuncType([i32], i32)], i32)


def test_a_callee_of_unknown_result_stays_unknown() -> None:
    function = Function([x, Var("f")], Tuple([x]))
    infer_type(function)
    assert function.func_type.arg_types == (i32, UNKNOWN)


@pytest.mark.parametrize(
    ("body", "param", "type_"),
    [
        (lambda v: takes_pair(Tuple([x, v])), Var("v"), f32),
        (takes_pair, Var("v"), TupleType([i32, f32])),
        (lambda v: If(c, v, const(1)), Var("v"), i32),
        (lambda v: If(v, x, x), Var("v"), TensorType((), "bool")),
        (lambda v: RefWrite(v, x), Var("v"), RefType(i32)),
        (lambda v: Tuple([If(c, RefRead(v), x)]), Var("v"), RefType(i32)),
        (lambda v: Let(w := Var("w"), v, takes_pair(w)), Var("v"), TupleType([i32, f32])),
        (lambda v: RefWrite(RefCreate(x), v), Var("v"), i32),
    ],
)
def test_uses_determine_the_type_of_a_parameter(body: Callable[[Expr], Expr], param: Var, type_: Type) -> None:
    function = infer_type(Function([c, x, takes_pair, param], body(param)))
    assert function.func_type.arg_types[-1] == type_
    assert param.type_annotation is None


def test_what_depends_on_a_parameter_is_inferred_anew() -> None:
    v = Var("v")
    total = get_op("add")(v, v)
    infer_type(Function([c, v], Tuple([total, If(c, v, const(1.0))])))
    assert total.checked_type == f32


def test_an_annotation_of_unknown_type_stays_unknown() -> None:
    """An input of an ONNX model without a shape is one."""
    v = Var("v", IncompleteType())
    function = Function([c, v], If(c, v, const([1.0, 2.0])))
    infer_type(function)
    assert function.func_type.arg_types[1] == UNKNOWN


def test_uses_that_contradict_each_other_are_an_error() -> None:
    v = Var("v")
    g, h = Var("g", FuncType([i32], i32)), Var("h", FuncType([f32], f32))
    function = Function([g, h, v], Tuple([g(v), h(v)]))
    with pytest.raises(InferError, match="argument 1 has type int32, but the function expects float32"):
        infer_type(function)
    assert v._checked_type is None or v.checked_type == UNKNOWN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def @main(%f) { (%f(1), %f(1f)) }", "1:25: argument 1 has type float32, but its use here needs int32"),
        (
            "def @main(%f) { (%f(1), %f(1, 2)) }",
            r"1:25: the callee has type fn \(int32\) -> _, but its use here needs fn \(int32, int32\) -> _",
        ),
        ("def @main(%r) { (ref_read(%r), %r(1)) }", r"1:32: the callee has type ref\(_\), but its use here needs fn"),
        (
            "def @main(%f) { if (%f) { %f(1) } else { 1 } }",
            "1:17: the condition of an if must be a scalar bool, but has type fn",
        ),
        ("def @main(%f) { %f(%f) }", "1:17: the callee .* a type would contain itself"),
        (
            "def @main(%x: int32, %z: float32) { let %f = fn (%y) { %y }; (%f(%x), %f(%z)) }",
            "1:71: argument 1 has type float32, but the function expects int32",
        ),
        (
            "def @f(%c: bool) { if (%c) { 1 } else { @g(%c) } } def @g(%c: bool) { if (%c) { 1f } else { @f(%c) } }",
            "1:20: the function returns int32, but calls of it need float32",
        ),
    ],
)
def test_an_error_shows_expected_and_found_at_the_expression(text: str, message: str) -> None:
    with pytest.raises(InferError, match=message):
        infer_module(parse(text))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("let %f = fn (%y) { add(%y, %y) }; %f(%x)", "Tensor[(2), float32]"),
        ("let %f = fn (%y) { add(%y, %y) }; let %g = fn (%z) { %f(%z) }; %g(negative(%x))", "Tensor[(2), float32]"),
        ("let %f = fn (%y) { shape_of(%y) }; let %g = fn (%z) { negative(%z) }; %g(%f(%x))", "Tensor[(1), int64]"),
        ("let %f = fn (%y) { (%y, 1) }; let %g = fn (%z) { negative(%z) }; %g(%f(%x).1)", "int32"),
        ("let %f = fn (%n) { if (equal(%n, 0)) { 1f } else { %f(subtract(%n, 1)) } }; %f(2)", "float32"),
        ("let %apply = fn (%f, %v) { %f(%v) }; %apply(fn (%w) { add(%w, %w) }, %x)", "Tensor[(2), float32]"),
        ("@map(fn (%y) { (%y, %y) }, Cons(1, Nil))", "List[(int32, int32)]"),
    ],
)
def test_parameters_of_nested_functions_follow_from_their_uses(text: str, result: str) -> None:
    module = parse(
        f"""#[version = "0.0.5"]
        type List[A] {{ Cons(A, List[A]), Nil }}
        def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {{
            match (%xs) {{ Cons(%head, %tail) => {{ Cons(%f(%head), @map(%f, %tail)) }}, Nil => {{ Nil }} }}
        }}
        def @main(%x: Tensor[(2), float32]) {{ {text} }}"""
    )
    assert str(infer_module(module)["main"].func_type.ret_type) == result


def recursive(result: Expr, *given: Var) -> IRModule:
    return IRModule({GlobalVar("f"): Function(given, result)})


def test_the_result_of_a_recursive_function() -> None:
    data = Var("data", f32)
    body = If(get_op("equal")(x, const(0)), data, Call(GlobalVar("f"), [get_op("subtract")(x, const(1)), get_op("log")(data)]))
    module = infer_module(recursive(body, x, data))
    assert module["f"].checked_type == FuncType([i32, f32], f32)
    assert body.false_branch.checked_type == f32


def test_the_results_of_functions_that_call_each_other() -> None:
    module = parse(
        """#[version = "0.0.5"]
        def @main(%n: int32) { add(@a(%n), 1f) }
        def @a(%n) { @b(%n) }
        def @b(%n: int32) { @c(%n) }
        def @c(%n: int32) { if (equal(%n, 0)) { 1f } else { @a(subtract(%n, 1)) } }"""
    )
    infer_module(module)
    assert {function.checked_type for function in module.functions.values()} == {FuncType([i32], f32)}


def test_a_long_cycle_of_functions_is_inferred() -> None:
    count = share(1_200, 2_000)
    body = "if (equal(%n, 0)) {{ 1f }} else {{ @f{}(subtract(%n, 1)) }}"
    functions = [f"def @f{i}(%n: int32) {{ {body.format((i + 1) % count)} }}" for i in range(count)]
    module = infer_module(parse("\n".join(functions)))
    assert module["f7"].func_type.ret_type == f32


def test_a_chain_of_function_literals_is_inferred() -> None:
    count = share(1_200, 2_000)
    steps = "".join(f"let %f{i} = fn (%y) {{ negative(%y) }}; let %x{i + 1} = %f{i}(%x{i}); " for i in range(count))
    module = infer_module(parse(f"def @main(%x0: float32) {{ {steps} %x{count} }}"))
    assert module["main"].func_type.ret_type == f32


def test_a_recursive_function_whose_branches_have_other_sizes() -> None:
    """The innermost branch alone does not say what the calls return."""
    d2, d3 = Var("d2", TensorType((2,))), Var("d3", TensorType((3,)))
    body = If(c, d2, If(c, d3, Call(GlobalVar("f"), [c, d2, d3])))
    module = infer_module(recursive(body, c, d2, d3))
    result = module["f"].func_type.ret_type
    assert result in (UNKNOWN, TensorType((ANY,)))


def test_a_recursive_function_without_an_end_has_an_unknown_result() -> None:
    module = infer_module(recursive(Call(GlobalVar("f"), [x]), x))
    assert module["f"].func_type.ret_type == UNKNOWN


def test_a_pattern_determines_the_type_of_what_is_matched() -> None:
    module = parse(
        """#[version = "0.0.5"]
        type Box[A] { Full(A), Empty }
        def @main(%b) { match (%b) { Full(%v: int32) => { %v }, Empty => { 0 } } }
        """
    )
    infer_module(module)
    (box,) = module["main"].func_type.arg_types
    assert str(box) == "Box[int32]"


def test_depth_is_no_limit() -> None:
    v, body = Var("v"), const(0)
    last: Expr = v
    for _ in range(share(4_000, 20_000)):
        last = get_op("negative")(last)
    function = Function([c, v], Tuple([last, If(c, v, body)]))
    infer_type(function)
    assert last.checked_type == i32


def test_types_that_are_nested_too_deeply_determine_nothing() -> None:
    v = Var("v")
    nested: Expr = v
    for _ in range(share(4_000, 20_000)):
        nested = RefRead(nested)
    function = Function([v], nested)
    infer_type(function)
    assert function.func_type.arg_types == (UNKNOWN,)
