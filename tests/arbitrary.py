"""Programs that need not be well typed: every operator and construct of the language on arbitrary operands, with arbitrary attributes.

`program(random, size)` makes a tuple of all expressions that it made, while the programs of `tests.strategies` are well typed. `type_`
makes types, `literal` valid and invalid attribute values, `nodes` one node of each kind.
"""

import inspect
import warnings
from random import Random
from typing import Any as AnyValue

import numpy as np

from passat.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.op import Op, list_ops
from passat.ir.shape import ANY, Dim, SymDim
from passat.ir.tensor import Tensor
from passat.ir.types import FuncType, GlobalTypeVar, IncompleteType, RefType, TensorType, TupleType, Type, TypeCall, TypeVar

_N = SymDim.named("n")
_DIMS: list[Dim] = [0, 1, 2, 3, 4, 5, 1, 2, 3, _N, _N + 1, 2 * _N, ANY]
_DTYPES = ["float32"] * 3 + ["int64", "int32", "bool", "float16", "string", "uint8", "int8", "float64", "bfloat16"]
LIST, ELEMENT = GlobalTypeVar("List"), TypeVar("A")
_OF = TypeCall(LIST, [ELEMENT])
CONS, NIL = Constructor("Cons", [ELEMENT, _OF], _OF, 0), Constructor("Nil", [], _OF, 1)
_OPS = [op for op in list_ops() if not op.name.startswith("onnx.")]


def type_(random: Random, depth: int = 0) -> Type:
    """A type of any kind, mostly a tensor's."""
    kind = random.randrange(14)
    if kind == 0:
        return IncompleteType()
    if kind == 1:
        return ELEMENT
    if kind > 6 or depth > 2:
        return TensorType([random.choice(_DIMS) for _ in range(random.choice([0, 1, 2, 3, 4, 4, 5]))], random.choice(_DTYPES))
    if kind == 2:
        return TupleType([type_(random, depth + 1) for _ in range(random.randrange(3))])
    if kind == 3:
        return FuncType([type_(random, depth + 1)], type_(random, depth + 1))
    if kind == 4:
        return FuncType([ELEMENT], type_(random, depth + 1), [ELEMENT])
    return RefType(type_(random, depth + 1)) if kind == 5 else LIST(type_(random, depth + 1))


def constant(random: Random) -> Constant:
    """A constant, often of integers that could be a shape, axes or indices."""
    shape = tuple(random.choice([0, 1, 2, 3, 4]) for _ in range(random.choice([0, 1, 1, 1, 2, 3])))
    elements = [random.choice([-1, 0, 1, 2, 3, 5, -2, (1 << 31) - 1]) for _ in range(int(np.prod(shape)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that do not fit the element type
        return Constant(
            Tensor.dense(np.array(elements).reshape(shape).astype(random.choice(["float32", "int64", "int64", "int32", "bool"])))
        )


def literal(random: Random, depth: int = 0) -> AnyValue:
    """A value for an attribute: of any type and size, including invalid ones."""
    kind = random.randrange(32)
    if kind < 10:
        return random.choice([-1, 0, 1, 2, 3, 4, -7, 100, 1 << 31, 10**30, 10**400])
    if kind < 18 and depth < 3:
        return tuple(literal(random, depth + 1) for _ in range(random.choice([0, 1, 2, 2, 4, 4])))
    words = ["", "same", "NCHW", "OIHW", "constant", "float32", "int64", "nope", "ij,jk->ik", b"x"]
    others: list[AnyValue] = [
        None,
        True,
        False,
        0.5,
        -1.5,
        float("nan"),
        float("inf"),
        ANY,
        _N,
        Tensor.dense(np.ones(2, np.float32)),
        {},
        [[1], [2]],
    ]
    return random.choice(words if kind < 22 else others)


def _attributes(random: Random, op: Op) -> dict[str, AnyValue]:
    required = inspect.Parameter.empty
    return {name: literal(random) for name, default in op.defaults.items() if default is required or random.random() < 0.4}


def _call(random: Random, pool: list[Expr]) -> Expr:
    op = random.choice(_OPS)
    count = random.randrange(4) if op.variadic or random.random() < 0.05 else op.arity
    return Call(op, [random.choice(pool) for _ in range(count)], op.bind_attrs(_attributes(random, op)))


def _pattern(random: Random, var: Var) -> Pattern:
    return random.choice(
        [
            PatternWildcard(),
            PatternVar(var),
            PatternTuple([PatternVar(var)]),
            PatternConstructor(CONS, [PatternVar(var)]),
            PatternConstructor(CONS, [PatternVar(var), PatternWildcard()]),
            PatternConstructor(NIL),
        ]
    )


def _other(random: Random, pool: list[Expr]) -> Expr:
    """Anything but a call of an operator."""
    a, b, c = (random.choice(pool) for _ in range(3))
    variable = Var("v", type_(random) if random.random() < 0.4 else None)
    arms = [Clause(_pattern(random, var), random.choice([var, b])) for var in (Var("a"), Var("b"))]
    declared = type_(random) if random.random() < 0.3 else None
    function = Function([variable], random.choice([variable, a, Tuple([variable, a])]), declared, [ELEMENT] * random.randrange(2))
    return random.choice(
        [
            Tuple([a, b, c][: random.randrange(4)]),
            TupleGetItem(a, random.randrange(-2, 4)),
            If(a, b, c),
            Let(variable, a, Tuple([variable, b])),
            function,
            Call(a, [b, c][: random.randrange(3)]),
            Call(function, [b, c][: random.randrange(3)]),
            RefCreate(a),
            RefRead(a),
            RefWrite(a, b),
            Match(a, arms[: random.randrange(3)]),
            random.choice([CONS, NIL, GlobalVar("g"), random.choice(_OPS)]),
            constant(random),
        ]
    )


def program(random: Random, size: int = 12) -> Tuple:
    """A tuple of `size` expressions, which use each other and free variables."""
    pool: list[Expr] = [Var(f"p{i}", type_(random) if random.random() < 0.9 else None) for i in range(4)]
    pool.append(constant(random))
    start = len(pool)
    for _ in range(size):
        pool.append(_call(random, pool) if random.random() < 0.5 else _other(random, pool))
    return Tuple(pool[start:])
