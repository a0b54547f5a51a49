"""Structural equality and hashing of every kind of node: nothing raises, and names of type parameters do not count."""

import numpy as np
import pytest

from passat.ir.attrs import Attrs
from passat.ir.equality import assert_structural_equal, structural_equal, structural_hash
from passat.ir.expr import (
    Clause,
    Function,
    GlobalVar,
    Let,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    Tuple,
    Var,
    const,
    var,
)
from passat.ir.hashing import Comparable
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.prim_func import PrimFunc
from passat.ir.text import parse, parse_expr
from passat.ir.types import (
    EnvFunc,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    TypeCall,
    TypeVar,
)
from passat.runtime.values import NDArray

LIST = "type List[A] { Cons(A, List[A]), Nil }\n"
x, y = var("x", shape=(2,)), var("y", shape=(2,))
LISTS = parse(LIST).type_definitions
CONS, NIL = next(iter(LISTS.values())).constructors
KINDS: list[Comparable] = [
    x,
    GlobalVar("f"),
    get_op("add"),
    const(1.0),
    Tuple([]),
    Tuple([x])[0],
    x + y,
    x,
    CONS,
    NIL,
    Function([x], x),
    Let(x, y, x),
    parse_expr("if (True) { 1 } else { 2 }"),
    parse_expr("ref(1)"),
    parse_expr("ref_read(ref(1))"),
    parse_expr("ref_write(ref(1), 2)"),
    Match(x, [Clause(PatternWildcard(), x)]),
    PrimFunc([x], "body"),
    PatternWildcard(),
    PatternVar(x),
    PatternVar(Var("z")),
    PatternTuple([PatternVar(x)]),
    PatternConstructor(NIL),
    PatternConstructor(CONS, [PatternWildcard(), PatternVar(y)]),
    Clause(PatternVar(x), x),
    Clause(PatternVar(y), x),
    *LISTS,
    *LISTS.values(),
    IRModule(),
    parse(LIST + "def @main() { Nil }"),
    Attrs(a=1),
    Attrs(),
    TensorType((2,)),
    TensorType((), "string"),
    TupleType([]),
    FuncType([TypeVar("A")], TypeVar("A"), [TypeVar("A")]),
    FuncType([], TypeVar("A")),
    TypeVar("A"),
    TypeCall(GlobalTypeVar("List"), [TypeVar("A")]),
    RefType(IncompleteType()),
    IncompleteType(),
]


@pytest.mark.parametrize("map_free_vars", [False, True])
@pytest.mark.parametrize("sharing", [False, True])
def test_everything_can_be_compared_with_everything(map_free_vars: bool, sharing: bool) -> None:
    for a in KINDS:
        assert structural_equal(a, a, map_free_vars, sharing)
        for b in KINDS:
            equal = structural_equal(a, b, map_free_vars, sharing)
            assert equal == structural_equal(b, a, map_free_vars, sharing)
            if equal:
                assert structural_hash(a, map_free_vars) == structural_hash(b, map_free_vars)
                assert type(a) is type(b)
            else:
                with pytest.raises(ValueError, match=r"^the left side differs from the right one (as|in|at) "):
                    assert_structural_equal(a, b, map_free_vars, sharing)


def test_patterns_clauses_and_definitions() -> None:
    p, q = Var("p"), Var("q")
    assert structural_equal(PatternVar(p), PatternVar(q))
    assert structural_equal(Clause(PatternVar(p), p), Clause(PatternVar(q), q))
    assert not structural_equal(Clause(PatternVar(p), p), Clause(PatternVar(q), p))
    assert not structural_equal(PatternTuple([PatternVar(p)]), PatternTuple([]))
    with pytest.raises(ValueError, match="in kind: an expression against a pattern"):
        assert_structural_equal(p, PatternVar(p))
    with pytest.raises(TypeError, match="a set cannot be compared"):
        structural_equal({p}, {p})  # type: ignore[arg-type]  # that is the point
    with pytest.raises(TypeError, match="a int cannot be compared"):
        structural_hash(7)  # type: ignore[arg-type]  # that is the point


def test_names_of_type_parameters_do_not_count() -> None:
    other = LIST.replace("A", "B")
    assert structural_equal(parse(LIST), parse(other))
    assert structural_hash(parse(LIST)) == structural_hash(parse(other))
    (a,), (b,) = (parse(text).type_definitions.values() for text in (LIST, other))
    assert structural_equal(a, b)
    assert structural_equal(a.constructors[0], b.constructors[0])
    assert structural_equal(PatternConstructor(a.constructors[1]), PatternConstructor(b.constructors[1]))
    assert not structural_equal(a, next(iter(parse("type List[A] { Cons(List[A], A), Nil }").type_definitions.values())))
    one, two = TypeVar("A"), TypeVar("B")
    p, q = Var("p", FuncType([one], two)), Var("q", FuncType([two], two))
    free, bound = Function([p], p, type_params=[one]), Function([q], q, type_params=[two])
    assert not structural_equal(free, bound)
    assert not structural_equal(bound, free)
    assert not structural_equal(free, bound, map_free_vars=True)


def test_free_type_parameters_are_mapped_one_to_one_on_request() -> None:
    a, b, c = map(TypeVar, "ABC")
    assert not structural_equal(TupleType([a, b]), TupleType([b, c]))
    assert structural_equal(TupleType([a, b]), TupleType([b, c]), map_free_vars=True)
    assert not structural_equal(TupleType([a, b]), TupleType([c, c]), map_free_vars=True)
    assert not structural_equal(TupleType([c, c]), TupleType([a, b]), map_free_vars=True)
    assert structural_equal(FuncType([a], b, [a]), FuncType([b], c, [b]), map_free_vars=True)
    assert not structural_equal(FuncType([a], b, [a]), FuncType([b], b, [b]), map_free_vars=True)


def test_arrays_maps_and_names_of_functions() -> None:
    arrays = [NDArray(np.arange(size, dtype=np.int8)) for size in (3, 3, 4)]
    maps = [{"x": (1, 2), "y": 2}, {"y": 2, "x": (1, 2)}, {"x": (1, 2, 3), "y": 2}]
    functions = [EnvFunc.get(name) for name in "aab"]
    for one, same, other in (arrays, maps, functions):
        assert structural_equal(one, same)  # type: ignore[arg-type]  # values of the runtime
        assert structural_hash(one) == structural_hash(same)  # type: ignore[arg-type]  # likewise
        assert not structural_equal(one, other)  # type: ignore[arg-type]  # likewise
        assert structural_hash(one) != structural_hash(other)  # type: ignore[arg-type]  # likewise
