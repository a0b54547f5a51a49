"""Programs and rules for the comparison of two engines: as Passat's functions and rule sets, and as plain rows and egglog text.

A program is a list of rows `(operator, payload, operands)`; operands are numbers of earlier rows. Every value is a float32 matrix of SIDE x
SIDE, so any two of them combine.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from passat.ir.expr import Constant, Expr, Function, Tuple, Var
from passat.ir.infer import infer_type
from passat.ir.op import get_op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.rules.guards import compose, is_all, is_identity, same_type
from passat.rules.pattern import attributes, constant, op, tensors
from passat.rules.rule_set import RuleSet

SIDE: Final = 4
VARIABLES: Final = 8
CONSTANTS: Final = 16
ZERO, ONE = 0, 1
"""Payloads of the constants whose elements are all 0, and all 1; the others are random."""
PERMUTATIONS: Final = ((0, 1), (1, 0))
"""The axes of a transpose, by its payload; composing two of them is `^` of the payloads."""

BINARY: Final = ("add", "subtract", "multiply", "maximum")
UNARY: Final = ("negative", "abs", "nn.relu", "transpose", "tanh", "exp", "sigmoid")
ARITY: Final = {"var": 0, "const": 0, **dict.fromkeys(UNARY, 1), **dict.fromkeys(BINARY, 2)}
WEIGHTS: Final = {
    "add": 16, "subtract": 10, "multiply": 16, "maximum": 6, "negative": 8, "abs": 6, "nn.relu": 8, "transpose": 8,
    "tanh": 7, "exp": 8, "sigmoid": 7,
}  # fmt: skip
"""How often each operator is drawn. With these rules fire about 15 times in 100 nodes."""
WITH_CONSTANT: Final = 0.35
"""The share of binary calls whose second operand is a constant."""


class Row(NamedTuple):
    """One node: payload is the number of a variable, constant or permutation, otherwise 0."""

    op: str
    payload: int
    operands: tuple[int, ...]


class Program(NamedTuple):
    """A program in both forms. `calls` counts the calls, `outputs` are the unread rows."""

    rows: list[Row]
    outputs: list[int]
    calls: int
    function: Function


def dag(calls: int, *, seed: int = 0) -> Program:
    """A random graph with sharing: operands are drawn from the 48 values made last."""
    return _program(calls, seed, lambda draw, made: made[-1 - draw.randrange(min(48, len(made)))])


def chain(calls: int, *, seed: int = 0) -> Program:
    """A random chain: every call reads the previous one, and binary calls also a constant or a variable."""
    return _program(calls, seed, lambda draw, made: made[-1])


def _program(calls: int, seed: int, first: Callable[[random.Random, Sequence[int]], int]) -> Program:
    draw = random.Random(seed)
    rows = [Row("var", i, ()) for i in range(VARIABLES)] + [Row("const", i, ()) for i in range(CONSTANTS)]
    made = list(range(VARIABLES))
    for name in draw.choices(list(WEIGHTS), list(WEIGHTS.values()), k=calls):
        operands = [first(draw, made)]
        if name in BINARY:
            if draw.random() < WITH_CONSTANT:
                operands.append(VARIABLES + draw.randrange(CONSTANTS))
            else:
                operands.append(draw.randrange(VARIABLES) if operands[0] == made[-1] else first(draw, made))
        rows.append(Row(name, draw.randrange(2) if name == "transpose" else 0, tuple(operands)))
        made.append(len(rows) - 1)
    read = {operand for row in rows for operand in row.operands}
    outputs = [node for node in made[VARIABLES:] if node not in read]
    return Program(rows, outputs, calls, _function(rows, outputs))


def _function(rows: Sequence[Row], outputs: Sequence[int]) -> Function:
    numbers = np.random.default_rng(0)
    type_ = TensorType((SIDE, SIDE), "float32")
    exprs: list[Expr] = []
    params: list[Var] = []
    for row in rows:
        if row.op == "var":
            params.append(Var(f"x{row.payload}", type_))
            exprs.append(params[-1])
        elif row.op == "const":
            values = {ZERO: np.zeros((SIDE, SIDE)), ONE: np.ones((SIDE, SIDE))}.get(row.payload, numbers.normal(size=(SIDE, SIDE)))
            exprs.append(Constant(Tensor.dense(values.astype(np.float32))))
        else:
            attrs: dict[str, Any] = {"axes": PERMUTATIONS[row.payload]} if row.op == "transpose" else {}
            exprs.append(get_op(row.op)(*[exprs[operand] for operand in row.operands], **attrs))
    function = Function(params, Tuple([exprs[node] for node in outputs]))
    infer_type(function)
    return function


x, y, z = tensors("x y z")
c = constant("c")
p, q = attributes("p q")


class Twenty(RuleSet):
    """Twenty cheap rules: some depend on a constant or an attribute, most only on the structure of the graph."""

    add_zero = (x + c >> x).when(is_all(c, 0), same_type(x, x + c))
    subtract_zero = (x - c >> x).when(is_all(c, 0), same_type(x, x - c))
    multiply_one = (x * c >> x).when(is_all(c, 1), same_type(x, x * c))
    negate_twice = op.negative(op.negative(x)) >> x
    add_negated = x + op.negative(y) >> x - y
    subtract_negated = x - op.negative(y) >> x + y
    negate_difference = op.negative(x - y) >> y - x
    multiply_negated = op.negative(x) * op.negative(y) >> x * y
    relu_twice = op.nn.relu(op.nn.relu(x)) >> op.nn.relu(x)
    abs_twice = op.abs(op.abs(x)) >> op.abs(x)
    abs_of_negated = op.abs(op.negative(x)) >> op.abs(x)
    abs_of_relu = op.abs(op.nn.relu(x)) >> op.nn.relu(x)
    relu_of_abs = op.nn.relu(op.abs(x)) >> op.abs(x)
    relu_of_sigmoid = op.nn.relu(op.sigmoid(x)) >> op.sigmoid(x)
    maximum_of_same = op.maximum(x, x) >> x
    transpose_twice = op.transpose(op.transpose(x, axes=p), axes=q) >> op.transpose(x, axes=compose(p, q, x))
    transpose_nothing = (op.transpose(x, axes=p) >> x).when(is_identity(p, x))
    relu_of_transposed = op.nn.relu(op.transpose(x, axes=p)) >> op.transpose(op.nn.relu(x), axes=p)
    common_factor = (x * y + x * z >> x * (y + z)).inexact("distributes")
    product_of_powers = (op.exp(x) * op.exp(y) >> op.exp(x + y)).inexact("joins exponents")


NATIVE: Final[dict[str, tuple[str, ...]]] = {
    "add_zero": ("(Add x (Const 0)) => x", "(Add (Const 0) x) => x"),
    "subtract_zero": ("(Subtract x (Const 0)) => x",),
    "multiply_one": ("(Multiply x (Const 1)) => x", "(Multiply (Const 1) x) => x"),
    "negate_twice": ("(Negative (Negative x)) => x",),
    "add_negated": ("(Add x (Negative y)) => (Subtract x y)", "(Add (Negative y) x) => (Subtract x y)"),
    "subtract_negated": ("(Subtract x (Negative y)) => (Add x y)",),
    "negate_difference": ("(Negative (Subtract x y)) => (Subtract y x)",),
    "multiply_negated": ("(Multiply (Negative x) (Negative y)) => (Multiply x y)",),
    "relu_twice": ("(Relu (Relu x)) => (Relu x)",),
    "abs_twice": ("(Abs (Abs x)) => (Abs x)",),
    "abs_of_negated": ("(Abs (Negative x)) => (Abs x)",),
    "abs_of_relu": ("(Abs (Relu x)) => (Relu x)",),
    "relu_of_abs": ("(Relu (Abs x)) => (Abs x)",),
    "relu_of_sigmoid": ("(Relu (Sigmoid x)) => (Sigmoid x)",),
    "maximum_of_same": ("(Maximum x x) => x",),
    "transpose_twice": ("(Transpose (Transpose x p) q) => (Transpose x (^ p q))",),
    "transpose_nothing": ("(Transpose x 0) => x",),
    "relu_of_transposed": ("(Relu (Transpose x p)) => (Transpose (Relu x) p)",),
    "common_factor": (
        "(Add (Multiply x y) (Multiply x z)) => (Multiply x (Add y z))",
        "(Add (Multiply x y) (Multiply z x)) => (Multiply x (Add y z))",
        "(Add (Multiply y x) (Multiply x z)) => (Multiply x (Add y z))",
        "(Add (Multiply y x) (Multiply z x)) => (Multiply x (Add y z))",
    ),
    "product_of_powers": ("(Multiply (Exp x) (Exp y)) => (Exp (Add x y))",),
}
"""The same rules for egglog, with each order of commutative operands separately."""
