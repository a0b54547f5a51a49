"""Passes on functions with partly unknown types: none raises an error, and none changes values."""

from random import Random

import numpy as np
import pytest

from passat import relay
from passat.ir.expr import Expr, Function, Var
from passat.ir.functor import ExprMutator
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.shape import ANY
from passat.ir.types import TensorType
from passat.passmgr import PassContext, get_pass, list_passes
from passat.relay import nn
from passat.rules.guards import Term, same_type
from tests.rules.program_strategies import build
from tests.rules.running import difference, feeds_of, run

OPTIONS = {"ConvertLayout": {"desired_layouts": {"nn.conv2d": ["NHWC", "default"]}}}
PASSES = [
    found.name
    for found in list_passes()
    if found.name not in ("PrintIR", "FirstOrderGradient", "LazyGradientInit", "ToCPS", "UnCPS")
    and found.factory.__module__.startswith("passat.")
]
"""The passes of Passat that keep the value of a function. Gradients and continuations change it."""


class Forget(ExprMutator):
    """Replaces parameters: some without a type, some with unknown sizes."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = Random(seed)

    def visit_var(self, var: Var) -> Expr:
        kind, type_ = self._random.randrange(4), var.type_annotation
        if kind == 1 and isinstance(type_, TensorType):
            type_ = type_.with_shape(ANY if self._random.random() < 0.6 else dim for dim in type_.shape)
        return Var(var.name_hint, None if kind == 0 else type_)


def forgetful(function: Function, seed: int) -> Function:
    made = Forget(seed).visit(function)
    assert isinstance(made, Function)
    return made


def networks() -> list[Function]:
    """Functions that rules about products, normalizations and branches match; their weights are parameters."""
    x, image = relay.var("x", shape=(2, 4)), relay.var("x", shape=(1, 4, 6, 6))
    w, v, b = relay.var("w", shape=(3, 4)), relay.var("v", shape=(3, 4)), relay.var("b", shape=(3,))
    kernel = relay.var("w", shape=(4, 4, 3, 3))
    scale = relay.const(np.arange(1, 5, dtype=np.float32).reshape(4, 1, 1))
    gamma, beta, mean, variance = (relay.var(name, shape=(4,)) for name in ("gamma", "beta", "mean", "variance"))
    product = nn.bias_add(nn.dense(x * relay.const(2.0), w), b)
    attention = nn.batch_matmul(
        nn.softmax(nn.batch_matmul(y := relay.var("q", shape=(2, 3, 4)), y) * relay.const(0.5)), y, transpose_b=False
    )
    return [
        Function([x, w], nn.dense(x + relay.const(0.0), w)),
        Function([x, w, b], nn.relu(product) * relay.const(3.0)),
        Function([x, w, v, b], relay.Tuple([nn.bias_add(nn.dense(x, each), b) for each in (w, v, w, v)])),
        Function([image, kernel], nn.relu(nn.conv2d(image * scale, kernel, padding=1)) * scale),
        Function([image, kernel, gamma, beta, mean, variance], nn.batch_norm(nn.conv2d(image, kernel), gamma, beta, mean, variance)[0]),
        Function([image, kernel, w], relay.Tuple([nn.conv2d(image, kernel, padding=1)] * 3)),
        Function([y], attention),
        Function([x], relay.split(relay.stack([x, x], 0), 2, 0)[1] + relay.zeros_like(x)),
        Function([x], x * relay.const(1.0) / relay.const(2.0) + (x - x) + relay.zeros((2, 4), "float32")),
    ]


PROGRAMS = [*networks(), *(build(seed, 8, tame=True) for seed in (2, 14, 18, 32, 57, 61, 77, 90))]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_no_pass_raises_or_changes_values(number: int) -> None:
    function = PROGRAMS[number]
    infer_type(function)
    feeds = feeds_of(function, np.random.default_rng(number))
    expected = run(function, feeds)
    for seed in range(2):
        assert difference(run(forgetful(function, seed), feeds), expected, exact=True) is None
        for name in PASSES:
            module = IRModule.from_expr(forgetful(function, seed))
            before = module["main"]
            with PassContext(opt_level=4):
                made = get_pass(name, **OPTIONS.get(name, {}))(module)["main"]
            assert made is before or difference(run(made, feeds), expected, exact=False, tolerance=1e-3) is None, (name, seed)


@pytest.mark.parametrize("name", ["SimplifyExpr", "FoldScaleAxis"])
def test_parameters_without_a_type_have_a_price(name: str) -> None:
    module = relay.parse("def @main(%x: Tensor[(2, 2), float32], %w) { nn.dense(%x + 0f, %w) }")
    made = get_pass(name)(module)
    assert relay.astext(made["main"]).count("add") == (0 if name == "SimplifyExpr" else 1)


def test_two_unknown_types_may_be_two_types() -> None:
    unknown = Term(relay.IncompleteType())
    for known in (unknown, Term(relay.TupleType([relay.IncompleteType()])), Term(TensorType((ANY,)))):
        assert same_type(known, known).function(known, known) is not True
    function = relay.parse("def @main(%x, %y) { where(True, broadcast_to(%x, shape=[3, 2]), %x) }")["main"]
    feeds = feeds_of(Function([relay.var("x", shape=(2,)), relay.var("y", shape=(2,))], relay.const(1)), np.random.default_rng(0))
    made = get_pass("SimplifyExpr")(IRModule.from_expr(function))["main"]
    assert run(made, feeds)[0].shape == (3, 2)
