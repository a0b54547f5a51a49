"""Type inference for every kind of expression, and values that are known before a run."""

import numpy as np
import pytest
from hypothesis import given, settings

from passat.ir.expr import (
    Call,
    Clause,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Span,
    Tuple,
    TupleGetItem,
    Var,
    const,
    var,
)
from passat.ir.infer import UNKNOWN, InferError, infer_module, infer_type, join, known_value
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.shape import ANY, SymDim
from passat.ir.tensor import Tensor
from passat.ir.text import astext, parse, parse_expr
from passat.ir.traverse import post_order
from passat.ir.types import FuncType, GlobalTypeVar, RefType, TensorType, TupleType, Type, TypeCall, TypeVar
from tests.share import share
from tests.strategies import modules, programs

n = SymDim.named("n")
f32 = TensorType((2, 3))
BOX = GlobalTypeVar("Box")
x, y, c = var("x", shape=(2, 3)), var("y", shape=(3,)), var("c", "bool")
pair = Tuple([x, y])
ref = RefCreate(x)


@pytest.mark.parametrize(
    ("expr", "type_"),
    [
        (x + y, f32),
        (var("a", shape=("n", 3)) + y, TensorType((n, 3))),
        (pair, TupleType([f32, TensorType((3,))])),
        (Tuple([]), TupleType([])),
        (TupleGetItem(pair, 1), TensorType((3,))),
        (Function([x, y], x + y), FuncType([f32, TensorType((3,))], f32)),
        (Function([x], x, TensorType((ANY, 3))), FuncType([f32], TensorType((ANY, 3)))),
        (Function([x], x)(x), f32),
        (If(c, x, x + y), f32),
        (If(c, x, var("b", shape=(4, 3))), TensorType((ANY, 3))),
        (If(c, pair, Tuple([var("b", shape=(2, "k")), y])), TupleType([TensorType((2, ANY)), TensorType((3,))])),
        (ref, RefType(f32)),
        (RefRead(ref), f32),
        (RefWrite(ref, x), TupleType([])),
        (Let(Var("v"), x, x + y), f32),
        (const(1), TensorType((), "int32")),
        (Var("unknown") + x, UNKNOWN),
        (Var("unknown")[0], UNKNOWN),
        (RefRead(Var("unknown")), UNKNOWN),
        (Var("unknown")(x), UNKNOWN),
        (If(c, x, Var("unknown")), UNKNOWN),
        (Match(pair, [Clause(PatternWildcard(), x), Clause(PatternWildcard(), x + x)]), f32),
        (Match(x, []), UNKNOWN),
    ],
)
def test_types_of_expressions(expr: Expr, type_: Type) -> None:
    assert infer_type(expr) is expr
    assert expr.checked_type == type_


def test_variables_of_lets_and_patterns_take_the_types_of_their_values() -> None:
    v, a, b = Var("v"), Var("a"), Var("b")
    infer_type(Let(v, pair, Match(v, [Clause(PatternTuple([PatternVar(a), PatternVar(b)]), a + b)])))
    assert (v.checked_type, a.checked_type, b.checked_type) == (pair.checked_type, f32, TensorType((3,)))


at = Span("model.onnx", line=3, column=14)


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (
            Call(get_op("add"), [x, var("b", shape=(4,))], span=at),
            r"model.onnx:3:14: add\(Tensor\[\(2, 3\), float32\], Tensor\[\(4,\), float32\]\): shapes \(2, 3\) and \(4,\) do not broadcast",
        ),
        (Call(x, [y], span=Span("node7")), r"node7: a value of type Tensor\[\(2, 3\), float32\] cannot be called"),
        (Function([x], x)(), "a function with 1 parameter is called with 0 arguments"),
        (Function([x], x)(y), r"argument 1 has type Tensor\[\(3,\), float32\], but the function expects Tensor\[\(2, 3\), float32\]"),
        (Function([x], x, TensorType((), "int8")), "the function is declared to return int8, but its body has type"),
        (x[0], r"field 0 is taken from a value of type Tensor\[\(2, 3\), float32\], which is not a tuple"),
        (TupleGetItem(pair, 2), "field 2 is out of range for a tuple of 2 fields"),
        (If(x, x, x), r"the condition of an if must be a scalar bool, but has type Tensor\[\(2, 3\), float32\]"),
        (If(c, x, y), "the branches of an if have incompatible types .* and .*"),
        (RefRead(x), "ref_read needs a reference, but its operand has type .*"),
        (
            RefWrite(RefCreate(x), y),
            r"a value of type Tensor\[\(3,\), float32\] cannot be written to a ref\(Tensor\[\(2, 3\), float32\]\)",
        ),
        (RefWrite(x, x), "a value of type .* cannot be written to a Tensor"),
        (Let(var("v", "int8", None), x, y), r"%v is declared as int8, but its value has type Tensor\[\(2, 3\), float32\]"),
        (Match(x, [Clause(PatternWildcard(), x), Clause(PatternWildcard(), y)]), "the arms of a match have different types"),
        (Match(pair, [Clause(PatternTuple([PatternWildcard()]), x)]), "a pattern of 1 field is matched against a value of type"),
        (Match(x, [Clause(PatternTuple([]), x)]), "a pattern of 0 fields is matched against a value of type Tensor"),
    ],
)
def test_programs_without_a_type(expr: Expr, message: str) -> None:
    with pytest.raises(InferError, match=f"^{message}"):
        infer_type(expr)


LIST = "type List[A] { Cons(A, List[A]), Nil }\n"


def test_constructors_are_polymorphic() -> None:
    module = parse(f"{LIST}def @main() {{ (Cons(1f, Cons(2f, Nil)), Cons(Nil, Nil), constructor(Nil)) }}")
    assert repr(module["main"].body.checked_type) == "(List[float32], List[List[_]], fn [A]() -> List[A])"


def test_branches_may_know_different_parts_of_a_type() -> None:
    module = parse(f"{LIST}def @main(%c: bool) -> List[int32] {{ if (%c) {{ Nil }} else {{ Cons(1, Nil) }} }}")
    assert repr(module["main"].body.checked_type) == "List[int32]"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("match (1) { Nil => 1 }", "the pattern Nil is matched against a value of type int32"),
        ("match (Nil) { Cons(%x) => 1 }", "the constructor Cons has 2 fields"),
        ("Cons(1f, Cons(2, Nil))", r"from_string:2:15: argument 2 has type List\[int32\], but the function expects List\[float32\]"),
    ],
)
def test_wrong_uses_of_constructors(body: str, message: str) -> None:
    with pytest.raises(InferError, match=message):
        parse(f"{LIST}def @main() {{ {body} }}")


def test_polymorphic_functions() -> None:
    module = parse("def @first[A, B](%x: A, %y: B) -> A { %x } def @main(%z: int8) { (@first(%z, 1f), @first(1f, %z)) }")
    assert module["main"].body.checked_type == TupleType([TensorType((), "int8"), TensorType(())])
    assert repr(module["first"].checked_type) == "fn [A, B](A, B) -> A"


def test_callees_are_inferred_before_callers_in_any_order() -> None:
    module = parse("def @main(%x: int8) { @second(%x) } def @second(%x: int8) { @third(%x) } def @third(%x: int8) { (%x, 1) }")
    assert repr(module["main"].body.checked_type) == "(int8, int32)"


def test_recursive_functions_have_their_declared_types() -> None:
    module = parse("def @f(%x: int8) -> int32 { @g(%x) } def @g(%x: int8) { @f(%x) } def @h(%x: int8) { @h(%x) }")
    assert repr(module["g"].body.checked_type) == "int32"
    assert module["h"].body.checked_type == UNKNOWN


def test_a_global_of_the_same_name_is_the_same_function() -> None:
    module = IRModule({"f": Function([x], x), "main": Function([x], GlobalVar("f")(x)), "wild": Function([x], GlobalVar("nowhere")(x))})
    infer_module(module)
    assert module["main"].body.checked_type == f32
    assert module["wild"].body.checked_type == UNKNOWN


def test_a_long_chain_of_functions_is_inferred() -> None:
    module = IRModule({f"f{i}": Function([y], GlobalVar(f"f{i + 1}")(y)) for i in range(3000)})
    module["f3000"] = Function([y], y)
    assert infer_module(module)["f0"].body.checked_type == TensorType((3,))


@settings(max_examples=share(10, 60))
@given(programs(effects=True))
def test_inferring_twice_changes_nothing(program: Function) -> None:
    infer_type(program)
    first = [(node, node.checked_type) for node in post_order(program)]
    infer_type(program)
    assert all(node.checked_type is type_ for node, type_ in first)
    assert infer_type(parse_expr(astext(program))).checked_type == program.checked_type


@settings(max_examples=share(8, 30))
@given(modules())
def test_modules_have_types(module: IRModule) -> None:
    infer_module(module)
    assert all(var.checked_type == function.checked_type for var, function in module.functions.items())


def test_depth_is_data() -> None:
    expr: Expr = x
    for _ in range(share(4_000, 20_000)):
        expr = expr + y
    assert infer_type(expr).checked_type == f32
    lets: Expr = x
    for _ in range(share(4_000, 20_000)):
        lets = Let(Var("v"), x, lets)
    assert infer_type(lets).checked_type == f32
    doubled: Expr = x
    for _ in range(100):
        doubled = doubled + doubled
    assert infer_type(doubled).checked_type == f32


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        (f32, f32, f32),
        (f32, TensorType((2, n)), TensorType((2, ANY))),
        (f32, UNKNOWN, UNKNOWN),
        (TupleType([f32]), TupleType([TensorType((n, 3))]), TupleType([TensorType((ANY, 3))])),
        (TypeCall(BOX, [f32]), TypeCall(BOX, [TensorType((n, 3))]), TypeCall(BOX, [TensorType((ANY, 3))])),
        (TypeCall(BOX, [f32]), TypeCall(BOX, [UNKNOWN]), TypeCall(BOX, [f32])),
        (TypeCall(BOX, [f32]), TypeCall(BOX, [TensorType((2,))]), None),
        (TypeCall(BOX, [f32]), f32, None),
        (f32, TensorType((2,)), None),
        (f32, TensorType((2, 3), "int8"), None),
        (TupleType([f32]), TupleType([]), None),
        (TupleType([f32]), TupleType([TensorType(())]), None),
    ],
)
def test_the_type_of_a_value_of_one_of_two_types(a: Type, b: Type, joined: Type | None) -> None:
    assert join(a, b) == joined
    assert join(b, a) == joined


def shape_of(expr: Expr) -> Expr:
    return get_op("shape_of")(expr)


def test_shapes_are_followed_through_arithmetic() -> None:
    data = var("data", shape=("n", 4, ANY))
    shape = shape_of(data)
    first = get_op("take")(shape, const(0, "int64"), axis=0)
    total = get_op("multiply")(first, const(4, "int64"))
    infer_type(Tuple([shape, total]))
    known = known_value(total)
    assert isinstance(known, np.ndarray)
    assert known.tolist() == 4 * n
    vector = known_value(shape)
    assert isinstance(vector, np.ndarray)
    assert vector.tolist() == [n, 4, ANY]
    whole = Tuple([shape, total])
    infer_type(whole)
    assert isinstance(known_value(whole), tuple)
    assert known_value(infer_type(TupleGetItem(whole, 1))) is known


def test_values_of_floats_and_large_tensors_are_not_followed() -> None:
    assert known_value(const(1.0)) is None
    assert known_value(Constant(Tensor.splat(1, (1000,), "int64"))) is None
    assert known_value(infer_type(x + x)) is None


def test_values_are_followed_through_long_chains() -> None:
    expr: Expr = const(0, "int64")
    one = const(1, "int64")
    length = share(4_000, 20_000)
    for _ in range(length):
        expr = expr + one
    known = known_value(infer_type(expr))
    assert isinstance(known, np.ndarray)
    assert known.tolist() == length


def test_a_function_of_any_type_is_an_argument() -> None:
    a, b = TypeVar("a"), TypeVar("b")
    x, y, f = Var("x", a), Var("y", b), Var("f", FuncType([b], b))
    identity = Function([x], x, a, [a])
    apply = Function([f, y], f(y), b, [b])
    assert infer_type(apply(identity, const(1))).checked_type == TensorType((), "int32")


@pytest.mark.parametrize("branches", ["{ @id } else { fn (%x: A) -> A { %x } }", "{ fn (%x: A) -> A { %x } } else { @id }"])
def test_a_function_of_any_type_is_one_of_a_certain_type(branches: str) -> None:
    text = f"def @id[A](%x: A) -> A {{ %x }} def @either[A](%c: bool) -> fn (A) -> A {{ if (%c) {branches} }}"
    module = infer_module(parse(text))
    assert repr(module["either"].checked_type) == "fn [A](bool) -> fn (A) -> A"
    with pytest.raises(InferError, match="is declared to return"):
        infer_module(parse("def @all() -> fn [A](A) -> A { fn (%x: int8) -> int8 { %x } }"))


def _calling(results: int) -> tuple[IRModule, GlobalVar]:
    """A module of a function whose result has the shape of `@g`, through as many other functions."""
    module, callee = IRModule(), GlobalVar("g")
    x = Var("x", TensorType((2, 3)))
    for place in range(results):
        caller = GlobalVar(f"f{place}")
        module[caller] = Function([x], Call(callee if place == 0 else GlobalVar(f"f{place - 1}"), [x]))
    module["main"] = Function([x], get_op("shape_of")(Call(GlobalVar(f"f{results - 1}") if results else callee, [x])))
    module[callee] = Function([x], get_op("nn.relu")(x))
    return module, callee


@pytest.mark.parametrize("results", [0, 1, 3])
def test_callers_of_a_function_that_is_replaced_are_inferred_again(results: int) -> None:
    module, callee = _calling(results)
    infer_module(module)
    shape = module["main"].body
    assert repr(known_value(shape)) == "array([2, 3], dtype=object)"
    x = Var("x", TensorType((2, 3)))
    module[callee] = Function([x], get_op("transpose")(x))
    infer_module(module)
    assert repr(known_value(shape)) == "array([3, 2], dtype=object)"
    module[callee] = Function([x], Tuple([x, x]))
    with pytest.raises(InferError, match=r"shape_of"):
        infer_module(module)


def test_functions_that_were_inferred_alone_are_inferred_again() -> None:
    module, _ = _calling(0)
    infer_type(module["main"])
    assert known_value(module["main"].body) is None
    infer_module(module)
    assert repr(known_value(module["main"].body)) == "array([2, 3], dtype=object)"


def test_functions_that_call_each_other_are_inferred_again() -> None:
    module = infer_module(parse("def @f(%x: int8) -> int8 { @g(%x) } def @g(%x: int8) -> int8 { @f(%x) } def @main(%x: int8) { @f(%x) }"))
    x = Var("x", TensorType((), "int8"))
    module["g"] = Function([x], Call(module.get_global_var("f"), [x]), TensorType((), "int16"))
    with pytest.raises(InferError, match="is declared to return"):
        infer_module(module)
