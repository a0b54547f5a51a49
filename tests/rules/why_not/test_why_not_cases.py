"""Programs on which a rule does not fire, each with the reason that a person would give."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue
from typing import NamedTuple

import numpy as np
import pytest

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Expr, If, Let, RefCreate, RefRead, Span
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.types import Type
from passat.passmgr import Pass, PassContext, PassInfo, PassInstrument, Sequential
from passat.rules.guards import Term, guard, has_rank, is_constant
from passat.rules.library import Arithmetic, ConstantFolding
from passat.rules.multi_pattern import each, joined, parts
from passat.rules.passes.layouts import convert_layout
from passat.rules.passes.simplify import (
    dynamic_to_static,
    eliminate_common_subexpr,
    fold_batch_norm,
    fold_constant,
    simplify_expr,
    simplify_inference,
)
from passat.rules.passes.target import contrib_operators, fast_math, raise_attention
from passat.rules.pattern import attributes, constants, op, tensors
from passat.rules.rule_pass import phase, rule_pass
from passat.rules.rule_set import RuleSet
from passat.rules.why_not import Answer, Inquiry, Kind, WhyNotError, set_text, why_not, why_not_set
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.share import share

x, y, z, w = tensors("x y z w")
c, d = constants("c d")
p, q = attributes("p q")


class Own(RuleSet):
    """Left sides of many forms."""

    half = x * 0.5 >> 0.5 * x
    square = x * x >> op.power(x, 2)
    turned = op.transpose(x, axes=(0, 2, 1)) >> op.copy(op.transpose(x, axes=(0, 2, 1)))
    scaled = op.nn.relu(x * c) >> op.nn.relu(x) * c
    together = op.transpose(x, axes=p) + op.transpose(y, axes=p) >> op.transpose(x + y, axes=p)
    pair = op.concatenate((x, y), axis=0) >> op.copy(op.concatenate((x, y), axis=0))
    second = op.split(x, indices_or_sections=2)[1] >> op.copy(op.split(x, indices_or_sections=2)[1])
    deep = op.exp(op.nn.relu(x) @ y) >> op.exp(op.nn.relu(x @ y))
    sum_of_scaled = x * c + y * d >> y * d + x * c
    drop = x - c >> x
    matrix = (op.tanh(x) >> op.tan(x)).when(has_rank(x, 2))


class Dear(RuleSet):
    """Rules whose results are not cheaper."""

    apart = (x - y >> x + op.negative(y)).exploring()
    opposite = (op.negative(x - y) >> y - x).inexact("zeros")
    swap = (x + y >> y + x).exploring()


class Chain(RuleSet):
    """A rule that needs the result of another."""

    apart = (x - y >> x + op.negative(y)).exploring()
    then = (x + op.negative(op.exp(y)) >> op.negative(op.exp(y) - x)).exploring()


class Sums(RuleSet):
    """Sums in any order, with many matches."""

    regroup = ((x + y) + z >> x + (y + z)).exploring()
    swap = (x + y >> y + x).exploring()


class First(RuleSet):
    """Runs before the other sets."""

    exp = op.exp(x) >> op.tanh(x)
    log = op.log(x) >> op.sqrt(x)
    relus = op.nn.relu(op.nn.relu(x)) >> op.nn.relu(x)
    late = op.exp(op.sqrt(x)) >> op.abs(x)


class Second(RuleSet):
    """Runs after First."""

    twice = op.nn.relu(op.nn.relu(x)) >> op.nn.relu(op.copy(x))
    logs = op.sqrt(op.log(x)) >> op.log(op.sqrt(x))


class Third(RuleSet):
    """Runs before Fourth in one e-graph."""

    once = (op.exp(op.log(x)) >> x).exploring()


class Fourth(RuleSet):
    """Has the rules of Third."""

    again = op.exp(op.log(x)) >> x


class Congruent(RuleSet):
    """A rule whose result another one makes equal to its left side."""

    outer = op.exp(op.negative(op.negative(x))) >> op.exp(x)
    inner = op.negative(op.negative(x)) >> x


class Busy(Sums):
    """A rule that is banned."""

    sigmoid = (x + (op.exp(y) + z) >> op.exp(y) + (x + z)).exploring().budget(1)


class Same(RuleSet):
    """Rules after which a node is equal to its operand, one that matches two such nodes, and one that only a later phase lets match."""

    nothing = op.nn.relu(x) >> x
    twice = op.nn.relu(op.nn.relu(x)) >> op.nn.relu(x)
    exps = (op.exp(x) * op.exp(y) >> op.exp(x + y)).exploring()


class Around(RuleSet):
    """A rule whose left side another one makes equal to a part of its right side."""

    wrap = (op.tanh(op.nn.relu(x)) >> op.copy(op.tanh(x))).exploring()
    nothing = op.nn.relu(x) >> x


class Copied(RuleSet):
    """Makes what Same.exps matches."""

    power = (op.power(op.exp(x), 2.0) >> op.exp(x) * op.exp(x)).exploring()


class Views(RuleSet):
    """A copy that is a copy of its copy, which retires it where its result already is, and a rule that matches one."""

    drop = (op.copy(x) >> x).exploring()
    merge = op.copy(op.copy(x)) >> op.copy(x)


class Behind(RuleSet):
    """Runs after Views."""

    tanh = (op.tanh(op.copy(x)) >> op.copy(op.tanh(x))).exploring()
    pair = (op.copy(op.copy(x)) >> op.negative(op.negative(x))).exploring()


class Groups(RuleSet):
    """Rules with several roots."""

    products = each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)
    convolutions = (each(op.nn.conv2d(x, w, attrs=p), sharing=x) >> parts(op.nn.conv2d(x, joined(w, axis=0), attrs=p), axis=1)).when(
        is_constant(w)
    )
    sums = each(x + w, sharing=x, at_least=3) >> parts(x + joined(w, axis=-1), axis=-1)


def at(name: str, call: AnyValue) -> AnyValue:
    """A call that has a name in the ONNX file."""
    assert isinstance(call, Call)
    call.span = Span(name, outputs=(f"{name}_output",))
    return call


class Cheap:
    """A cost model in which tanh and sqrt are almost free."""

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        return 0.001 if op.name in ("tanh", "sqrt") else 1.0


SQUARE = var("square", (3, 3))
X, Y, Z = var("x"), var("y"), var("z")
IMAGE = var("image", (1, 2, 6, 6))
NEGATED = at("Add", ops.add(X, at("Neg", ops.negative(Y))))
SUBTRACTED = at("Sub", ops.subtract(X, Y))
DIFFERENCE = at("Sub", ops.subtract(X, at("Exp", ops.exp(Y))))


def product(name: str, left: Expr, seed: int = 0) -> AnyValue:
    return at(name, ops.nn.matmul(left, numbers((3, 4), seed=seed)))


def conv(name: str, weight: Expr, **attrs: AnyValue) -> AnyValue:
    return at(name, ops.nn.conv2d(IMAGE, weight, **attrs))


def permuted(name: str, axes: tuple[int, ...]) -> AnyValue:
    return at(name, ops.transpose(var("cube", (2, 2, 2)), axes=axes))


def long_sum(first: Expr) -> Expr:
    whole = first
    for i in range(1, 6):
        whole = at(f"Add_{i}", ops.add(whole, var(f"v{i}")))
    return whole


class NoInference(PassInstrument):
    """Vetoes a pass."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        return info.name != "SimplifyInference"


class Case(NamedTuple):
    """A rule, a program, the pipeline (None: the default one), further arguments, and the answer without its first line."""

    rule: str
    body: Expr
    pipeline: Callable[[], Pass] | None
    answer: str
    kind: Kind
    node: str | None = None
    config: Mapping[str, AnyValue] = {}
    level: int = 3
    disabled: Sequence[str] = ()
    instruments: Sequence[PassInstrument] = ()


def own() -> Pass:
    return rule_pass(Own)


def dear() -> Pass:
    return rule_pass(Dear)


def groups() -> Pass:
    return rule_pass(Groups)


def small() -> Pass:
    """A few passes that stay the same."""
    return Sequential([simplify_inference(), dynamic_to_static(), fold_batch_norm(), simplify_expr(), eliminate_common_subexpr()])


NEAREST = "nothing matches its left side; the nearest:\n  "
CASES: dict[str, Case] = {
    "a result that became the original": Case(
        "Congruent.outer",
        at("Exp", ops.exp(at("Neg", ops.negative(at("Negative", ops.negative(X)))))),
        lambda: rule_pass(Congruent),
        "it fired at 'Exp' (in Congruent), but its result was not extracted: other rules made it equal to the original",
        Kind.COSTLIER,
    ),
    "an operator that the model does not have": Case(
        "Arithmetic.add_negative",
        at("Add", ops.add(X, at("Relu", ops.nn.relu(Y)))),
        None,
        "there is no negative in the model\nthe nearest to its left side:\n  at add 'Add' neither operand is negative(y): they are the input 'x' and nn.relu 'Relu' (1 of 2 parts agree)",
        Kind.ABSENT,
    ),
    "an operator that stands elsewhere": Case(
        "Arithmetic.add_negative",
        tup(at("Add", ops.add(X, at("Relu", ops.nn.relu(Y)))), at("Neg", ops.negative(Y))),
        None,
        NEAREST + "at add 'Add' neither operand is negative(y): they are the input 'x' and nn.relu 'Relu' (1 of 2 parts agree)",
        Kind.NEAR,
    ),
    "an operand of another operator": Case(
        "Own.deep",
        at("Exp", ops.exp(at("MatMul", ops.nn.matmul(at("Tanh", ops.tanh(X)), var("y", (3, 3)))))),
        own,
        "there is no nn.relu in the model\nthe nearest to its left side:\n  at exp 'Exp' the first operand of nn.matmul 'MatMul' is tanh 'Tanh', not nn.relu(x) (5 of 6 parts agree)",
        Kind.ABSENT,
    ),
    "a root of another operator": Case(
        "Own.deep",
        at("Sqrt", ops.sqrt(at("MatMul", ops.nn.matmul(at("Relu", ops.nn.relu(X)), var("y", (3, 3)))))),
        own,
        "there is no exp in the model\nthe nearest to its left side:\n  sqrt 'Sqrt' is not exp (5 of 6 parts agree)",
        Kind.ABSENT,
    ),
    "another number": Case(
        "Own.half",
        at("Mul", ops.multiply(X, splat(0.45))),
        own,
        NEAREST + "at multiply 'Mul' the second operand is the constant 0.45, not 0.5 (1 of 2 parts agree)",
        Kind.NEAR,
    ),
    "a constant of several numbers": Case(
        "Own.half",
        at("Mul", ops.multiply(X, numbers((3,)))),
        own,
        NEAREST + "at multiply 'Mul' the second operand is a constant float32[3] of several values, not 0.5 (1 of 2 parts agree)",
        Kind.NEAR,
    ),
    "the number on the other side, and another one": Case(
        "Own.half",
        at("Mul", ops.multiply(splat(3.0), X)),
        own,
        NEAREST + "at multiply 'Mul' the first operand is the constant 3.0, not 0.5 (1 of 2 parts agree)",
        Kind.NEAR,
    ),
    "no number": Case(
        "Own.half",
        at("Mul", ops.multiply(X, Y)),
        own,
        NEAREST + "at multiply 'Mul' neither operand is the number 0.5: they are the input 'x' and the input 'y' (1 of 2 parts agree)",
        Kind.NEAR,
    ),
    "two different values for one hole": Case(
        "Own.square",
        at("Mul", ops.multiply(at("Relu", ops.nn.relu(X)), Y)),
        own,
        NEAREST
        + "at multiply 'Mul' x is nn.relu 'Relu' in one place and the input 'y' in the other: not the same value (1 of 2 parts agree)",
        Kind.NEAR,
    ),
    "an attribute of another value": Case(
        "Own.turned",
        permuted("Transpose", (0, 1, 2)),
        own,
        NEAREST + "at transpose 'Transpose' axes is (0, 1, 2), not (0, 2, 1) (1 of 2 parts agree)",
        Kind.NEAR,
    ),
    "an attribute that differs between two calls": Case(
        "Own.together",
        at("Add", ops.add(permuted("First", (0, 2, 1)), permuted("Second", (1, 0, 2)))),
        own,
        NEAREST
        + "at add 'Add' the attribute p is (0, 2, 1) in one place and (1, 0, 2) in the other (transpose 'Second') (3 of 4 parts agree)",
        Kind.NEAR,
    ),
    "no constant below": Case(
        "Own.scaled",
        at("Relu", ops.nn.relu(at("Mul", ops.multiply(X, Y)))),
        own,
        NEAREST
        + "at nn.relu 'Relu' neither operand of multiply 'Mul' is a constant (c): they are the input 'x' and the input 'y' (2 of 3 parts agree)",
        Kind.NEAR,
    ),
    "neither operand in any order": Case(
        "Own.sum_of_scaled",
        tup(at("Add", ops.add(at("Relu", ops.nn.relu(X)), at("Tanh", ops.tanh(Y)))), ops.multiply(X, Y)),
        own,
        NEAREST + "at add 'Add' the operands are nn.relu 'Relu' and tanh 'Tanh', not x * c and y * d (1 of 5 parts agree)",
        Kind.NEAR,
    ),
    "a tuple of another length": Case(
        "Own.pair",
        at("Concat", ops.concatenate(tup(X, Y, Z), axis=0)),
        own,
        NEAREST + "at concatenate 'Concat' the operand is a tuple of 3, not of 2 (2 of 3 parts agree)",
        Kind.NEAR,
    ),
    "another output": Case(
        "Own.second",
        ops.exp(at("Split", ops.split(var("x", (4, 3)), indices_or_sections=2, axis=0))[0]),
        own,
        NEAREST + "output 0 of split 'Split' is used, not output 1 (4 of 5 parts agree)",
        Kind.NEAR,
    ),
    "a guard": Case(
        "Arithmetic.unit[multiply]",
        at("Mul", ops.multiply(X, splat(2.0))),
        small,
        "it matches at 'Mul' (in FoldBatchNorm and SimplifyExpr) and is rejected: is_unit(c, multiply): the elements of the constant are 2.0, "
        "not 1",
        Kind.REJECTED,
    ),
    "a guard on the element type": Case(
        "Arithmetic.quotient_of_negatives",
        at("Div", ops.divide(ops.negative(var("i", dtype="int32")), ops.negative(var("j", dtype="int32")))),
        small,
        "it matches at 'Div' (in FoldBatchNorm and SimplifyExpr) and is rejected: is_float(x): the elements are int32, not floating-point numbers",
        Kind.REJECTED,
    ),
    "a guard at two of three places": Case(
        "Own.matrix",
        tup(*(at(f"Tanh_{n}", ops.tanh(var(f"t{n}", (2,) * n))) for n in (1, 2, 3))),
        own,
        "it fired at 'Tanh_2' (in Own), but its result was not extracted: the program costs the same with it (3.018 us), so the original is kept\nit matches at 'Tanh_1' (in Own) and is rejected: has_rank(x, 2): the rank of the tensor is 1, not 2\nit matches at 'Tanh_3' (in Own) and is rejected: has_rank(x, 2): the rank of the tensor is 3, not 2",
        Kind.COSTLIER,
    ),
    "a right side of another type": Case(
        "Own.drop",
        at("Sub", ops.subtract(X, numbers((4, 2, 3)))),
        own,
        "it matches at 'Sub' (in Own) and is rejected: the right side has type Tensor[(2, 3), float32], the left side Tensor[(4, 2, 3), float32]",
        Kind.REJECTED,
    ),
    "a set that is switched off": Case(
        "Arithmetic.add_negative",
        NEGATED,
        None,
        "it is disabled: rules.disabled names Arithmetic",
        Kind.NOT_RUN,
        config={"rules.disabled": ["Arithmetic"]},
    ),
    "a rule that is switched off": Case(
        "Arithmetic.add_negative",
        NEGATED,
        None,
        "it is disabled: rules.disabled names Arithmetic.add_negative",
        Kind.NOT_RUN,
        config={"rules.disabled": ["Arithmetic.add_negative"]},
    ),
    "more exactness than it has": Case(
        "Arithmetic.multiply_reciprocal",
        at("Mul", ops.multiply(X, ops.reciprocal(Y))),
        None,
        "it is excluded by rules.math = exact: it needs reassociate (one rounding instead of two)",
        Kind.NOT_RUN,
        config={"rules.math": "exact"},
    ),
    "a pass above the level": Case(
        "ScaleAxis.scaled[none, dense]", X, small, "FoldBatchNorm does not run: its level 2 > 1", Kind.NOT_RUN, level=1
    ),
    "a pass that is disabled": Case(
        "Decompositions.dropout", X, None, "SimplifyInference does not run: it is disabled", Kind.NOT_RUN, disabled=["SimplifyInference"]
    ),
    "a pass that is vetoed": Case(
        "Decompositions.dropout",
        X,
        None,
        "SimplifyInference does not run: an instrument vetoed it",
        Kind.NOT_RUN,
        instruments=[NoInference()],
    ),
    "a pass that is not in the pipeline": Case(
        "Decompositions.dropout", X, fold_constant, "no pass of the pipeline has it; SimplifyInference does", Kind.NOT_RUN
    ),
    "two passes that are not in the pipeline": Case(
        "HiddenStates.scaled[none]", X, fold_constant, "no pass of the pipeline has it; Explore and LinearAlgebra do", Kind.NOT_RUN
    ),
    "a limit of rounds": Case(
        "Chain.then",
        DIFFERENCE,
        lambda: rule_pass(Chain),
        "it matches at 'Sub' (in Chain), but saturation stopped at the limit of rounds: more than 0 before it was processed",
        Kind.CUT,
        config={"rules.rounds": 0},
    ),
    "a limit before the match was made": Case(
        "Chain.then",
        DIFFERENCE,
        lambda: rule_pass(Chain),
        "saturation stopped at the limit of unions: more than 0 (in Chain); it might have matched later",
        Kind.CUT,
        config={"rules.unions": 0},
    ),
    "a limit of time": Case(
        "Own.square",
        at("Mul", ops.multiply(X, X)),
        own,
        "it matches at 'Mul' (in Own), but saturation stopped at the limit of time: more than 0 s before it was processed",
        Kind.CUT,
        config={"rules.seconds": 0.0},
    ),
    "a budget of matches": Case(
        "Busy.sigmoid",
        ops.tanh(long_sum(at("Exp", ops.exp(X)))),
        lambda: rule_pass(Busy),
        "it fired at 'Add_2' (in Busy), but its result was not extracted: the program costs the same with it (7.059 us), so the original is kept\nit matches at 'Add_3', 'Add_4' and 'Add_5' (in Busy), but it exceeded its budget of 1 match in an iteration, was banned (back-off), and saturation stopped at the limit of rounds: more than 2 before it ran again\nit matches at 'Add_3' (in Busy), but its right side already exists: Sums.regroup and Sums.swap created it",
        Kind.COSTLIER,
        config={"rules.rounds": 2},
    ),
    "a phase that ended": Case(
        "Chain.then",
        DIFFERENCE,
        lambda: rule_pass(phase(Chain, rounds=1), name="Short"),
        "it matches at 'Sub' (in Short), but its phase ended after one iteration, before it was processed",
        Kind.CUT,
    ),
    "a more expensive program, in calls": Case(
        "Dear.apart",
        SUBTRACTED,
        dear,
        "it fired at 'Sub' (in Dear), but its result was not extracted: the program costs one call, and would cost one call more with it",
        Kind.COSTLIER,
        config={"rules.cost": "nodes"},
    ),
    "a more expensive program, in seconds": Case(
        "Dear.apart",
        SUBTRACTED,
        dear,
        "it fired at 'Sub' (in Dear), but its result was not extracted: the program costs 1.01 us, and would cost 1.006 us more with it",
        Kind.COSTLIER,
    ),
    "a program that costs as much": Case(
        "Dear.swap",
        at("Add", ops.add(X, Y)),
        dear,
        "it fired at 'Add' (in Dear), but its result was not extracted: the program costs the same with it (1.01 us), so the original is kept",
        Kind.COSTLIER,
    ),
    "a place that another rule took away": Case(
        "Dear.apart",
        at("Neg", ops.negative(SUBTRACTED)),
        dear,
        "it fired at 'Sub' (in Dear), but its result was not extracted: that node is no longer part of the program: Dear.opposite rewrote 'Neg'",
        Kind.COSTLIER,
        node="Sub",
    ),
    "what another rule of the pass rewrote first": Case(
        "First.late",
        at("Exp", ops.exp(at("Log", ops.log(X)))),
        lambda: rule_pass(First),
        "it matches at 'Exp' (in First), but First.exp rewrote it first, and matches of reducing rules are not matched again",
        Kind.RETIRED,
    ),
    "what a pass before rewrote": Case(
        "Second.twice",
        at("Outer", ops.nn.relu(at("Inner", ops.nn.relu(X)))),
        lambda: Sequential([rule_pass(First), rule_pass(Second)]),
        "it would match the input model at 'Outer', but First.relus (in First) rewrote it before Second ran",
        Kind.RETIRED,
    ),
    "what a pass before rewrote at several places, which come in the order of the program": Case(
        "Second.twice",
        tup(*(at(name, ops.nn.relu(ops.nn.relu(f(X)))) for name, f in (("D", ops.sin), ("A", ops.cos), ("C", ops.tan), ("B", ops.abs)))),
        lambda: Sequential([rule_pass(First), rule_pass(Second)]),
        "it would match the input model at 'D', 'A', 'C' and 'B', but First.relus (in First) rewrote it before Second ran",
        Kind.RETIRED,
    ),
    "what an eager rule of the pass replaced": Case(
        "First.exp",
        at("Add", ops.add(X, at("Exp", ops.exp(numbers((2, 3)))))),
        lambda: rule_pass(First, ConstantFolding),
        "it would match at 'Exp' (in First), but ConstantFolding.call, which is eager, came first",
        Kind.RETIRED,
    ),
    "what an eager rule of the pass replaced, behind a pass that changes nothing": Case(
        "First.exp",
        at("Add", ops.add(X, at("Exp", ops.exp(numbers((2, 3)))))),
        lambda: Sequential([rule_pass(Groups), rule_pass(First, ConstantFolding)]),
        "it would match at 'Exp' (in First), but ConstantFolding.call, which is eager, came first",
        Kind.RETIRED,
    ),
    "what the second of three passes folded": Case(
        "First.exp",
        at("Add", ops.add(X, at("Exp", ops.exp(numbers((2, 3)))))),
        lambda: Sequential([rule_pass(Groups), fold_constant(), rule_pass(First)]),
        "it would match the input model at 'Exp', but ConstantFolding.call (in FoldConstant) rewrote it before First ran",
        Kind.RETIRED,
    ),
    "an operator that the opset of the result lacks": Case(
        "Attention.divided_scores",
        at("Div", ops.divide(product("MatMul", X), splat(2.0))),
        raise_attention,
        "RaiseAttention does not run: the target has opset 17, before 23: nothing was raised",
        Kind.NOT_RUN,
        config={"rules.opset": 17},
    ),
    "operators that the model does not have": Case(
        "Commute.concat[1]",
        at("Concat", ops.concatenate(tup(permuted("One", (0, 2, 1)), permuted("Two", (0, 2, 1))), axis=0)),
        lambda: convert_layout({"nn.conv2d": ["NHWC", "default"]}),
        "ConvertLayout does not run: there is no call of nn.conv2d: nothing was changed",
        Kind.NOT_RUN,
    ),
    "a rule that the pass has no use for, of a set of which it runs others": Case(
        "Masks.softmax_guard[nan, plain]",
        X,
        simplify_expr,
        "no pass of the pipeline has it; Explore, LinearAlgebra and RaiseAttention do",
        Kind.NOT_RUN,
    ),
    "a rule that a pass runs by an option": Case(
        "RelayForms.twice",
        X,
        simplify_expr,
        "no pass of the pipeline has it; SimplifyExpr{relay=True} does",
        Kind.NOT_RUN,
    ),
    "a rule of a pass that is not a rule pass": Case(
        "IndexSums.negative",
        X,
        simplify_expr,
        "no pass of the pipeline has it; tir.Simplify does",
        Kind.NOT_RUN,
    ),
    "a conversion to a layout that is not wanted": Case(
        "ChannelsFirst.convolution[nn.conv2d]",
        X,
        lambda: convert_layout({"nn.conv2d": ["NHWC", "default"]}),
        "ConvertLayout leaves it out: it converts to a layout that is not wanted",
        Kind.NOT_RUN,
    ),
    "a domain that the model does not import": Case(
        "ContribForms.quick_gelu",
        at("Mul", ops.multiply(X, at("Sigmoid", ops.sigmoid(ops.multiply(X, splat(1.702)))))),
        contrib_operators,
        "ContribOperators does not run: the target has no operators of com.microsoft (rules.domains): none was created",
        Kind.NOT_RUN,
    ),
    "what another rule made, too": Case(
        "First.relus",
        at("Outer", ops.nn.relu(at("Inner", ops.nn.relu(X)))),
        lambda: rule_pass(Arithmetic, First),
        "it fired at 'Outer' (in Arithmetic), but its result was not extracted: the program costs the same with it (1.007 us), and the result of Arithmetic.idempotent_twice[nn.relu] is kept",
        Kind.COSTLIER,
    ),
    "an operator that a pass before removed": Case(
        "Second.logs",
        at("Sqrt", ops.sqrt(at("Log", ops.log(X)))),
        lambda: Sequential([rule_pass(First), rule_pass(Second)]),
        "it would match the input model at 'Sqrt', but First.log (in First) rewrote it before Second ran",
        Kind.RETIRED,
        config={"rules.cost": Cheap()},
    ),
    "what was folded before": Case(
        "Second.twice",
        ops.exp(at("Relu", ops.nn.relu(numbers((3,))))),
        lambda: Sequential([fold_constant(), rule_pass(Second)]),
        "there is no nn.relu left when Second runs: FoldConstant folded it before",
        Kind.ABSENT,
    ),
    "what stands there already": Case(
        "Fourth.again",
        at("Exp", ops.exp(at("Log", ops.log(X)))),
        lambda: rule_pass(phase(Third), phase(Fourth), name="Both"),
        "it matches at 'Exp' (in Both), but its right side already exists: Third.once created it",
        Kind.NOTHING_NEW,
    ),
    "a result that would be a part of itself": Case(
        "Around.wrap",
        at("Tanh", ops.tanh(at("Relu", ops.nn.relu(X)))),
        lambda: rule_pass(Around),
        "it fired at 'Tanh' (in Around), but its result was not extracted: it would make the program cyclic: Around.nothing made it equal to a part of its result",
        Kind.COSTLIER,
    ),
    "a node that became its own operand": Case(
        "Same.twice",
        at("Relu", ops.nn.relu(X)),
        lambda: rule_pass(Same),
        NEAREST + "at nn.relu 'Relu' the operand is the input 'x', not nn.relu(x) (1 of 2 parts agree)",
        Kind.NEAR,
    ),
    "nodes that became equal": Case(
        "Behind.pair",
        at("Tanh", ops.tanh(at("Second", ops.copy(at("First", ops.copy(X)))))),
        lambda: rule_pass(phase(Views), phase(Behind, rounds=2), name="Both"),
        "it matches at 'Second' (in Both), but Views.merge rewrote it first, and matches of reducing rules are not matched again",
        Kind.RETIRED,
    ),
    "a match that a later phase made": Case(
        "Same.exps",
        at("Pow", ops.power(at("Exp", ops.exp(X)), splat(2.0))),
        lambda: rule_pass(phase(Same), phase(Copied), name="Both"),
        "it matches at 'Pow' (in Both), but its phase had ended when Copied.power made what it matches",
        Kind.CUT,
    ),
    "what a rule retired without a new result": Case(
        "Behind.tanh",
        at("Tanh", ops.tanh(at("Copy", ops.copy(X)))),
        lambda: rule_pass(phase(Views), phase(Behind, rounds=2), name="Both"),
        "it matches at 'Tanh' (in Both), but Views.merge matched it first, where its result already was, and matches of reducing rules are not matched again",
        Kind.RETIRED,
    ),
    "one call alone": Case(
        "Groups.products",
        product("MatMul", X),
        groups,
        "there are no calls to merge:\n  only 'MatMul' matches with this x (the input 'x'): no other call can be merged with it",
        Kind.NEAR,
    ),
    "calls on different operands": Case(
        "Groups.products",
        tup(product("First", X), product("Second", Y)),
        groups,
        "there are no calls to merge:\n  only 'First' matches with this x (the input 'x'): no other call can be merged with it\n  only 'Second' matches with this x (the input 'y'): no other call can be merged with it",
        Kind.NEAR,
    ),
    "calls of different attributes": Case(
        "Groups.convolutions",
        tup(conv("First", numbers((2, 2, 3, 3))), conv("Second", numbers((2, 2, 3, 3), seed=1), strides=(2, 2))),
        groups,
        "there are no calls to merge:\n  'First' and 'Second' share x (the input 'image'), but their attributes differ: strides is (1, 1) and (2, 2)",
        Kind.NEAR,
    ),
    "fewer calls than a group needs": Case(
        "Groups.sums",
        tup(at("First", ops.add(X, Y)), at("Second", ops.add(X, Z))),
        groups,
        "there are no calls to merge:\n  'First' and 'Second' share x (the input 'x'), but a group has at least 3 calls",
        Kind.NEAR,
    ),
    "calls that depend on each other": Case(
        "Groups.products",
        at("Second", ops.nn.matmul(SQUARE, at("First", ops.nn.matmul(SQUARE, SQUARE)))),
        groups,
        "there are no calls to merge:\n  'First' and 'Second' share x (the input 'square'), but a group has at least 2 calls, and one of them depends on another",
        Kind.NEAR,
    ),
    "operands that cannot be concatenated": Case(
        "Groups.products",
        tup(at("First", ops.nn.matmul(SQUARE, SQUARE)), at("Second", ops.nn.matmul(SQUARE, var("v", (2, 3, 3))))),
        groups,
        "there are no calls to merge:\n  'First' and 'Second' share x (the input 'square'), but Tensor[(3, 3), float32] and Tensor[(2, 3, 3), float32] do not fit in joined(w, axis=-1)",
        Kind.NEAR,
    ),
    "parts of unknown sizes": Case(
        "Groups.products",
        tup(at("First", ops.nn.matmul(SQUARE, var("v", (3, "m")))), at("Second", ops.nn.matmul(SQUARE, var("u", (3, "n"))))),
        groups,
        "there are no calls to merge:\n  'First' and 'Second' share x (the input 'square'), but the size of axis 1 is unknown",
        Kind.NEAR,
    ),
    "one of two calls rejected": Case(
        "Groups.convolutions",
        tup(conv("First", numbers((2, 2, 3, 3))), conv("Second", var("k", (2, 2, 3, 3)))),
        groups,
        "it matches at 'Second' (in Groups) and is rejected: is_constant(w): is not a constant\nthere are no calls to merge:\n  only 'First' matches with this x (the input 'image'): no other call can be merged with it",
        Kind.REJECTED,
    ),
    "calls that are more expensive together": Case(
        "Groups.convolutions",
        tup(conv("First", numbers((2, 2, 3, 3))), conv("Second", numbers((2, 2, 3, 3), seed=1))),
        groups,
        "it fired at 'First' and 'Second' (in Groups), but its result was not extracted: the program costs 2.118 us, and would cost 1.026 us more with it",
        Kind.COSTLIER,
    ),
    "none of such calls": Case("Groups.products", X, groups, "there is no nn.matmul in the model", Kind.ABSENT),
    "nothing at all": Case("Own.half", X, own, "there is no multiply in the model", Kind.ABSENT),
    "another operator at the node": Case(
        "Own.half",
        at("Relu", ops.nn.relu(at("Mul", ops.multiply(X, splat(0.25))))),
        own,
        "it does not match at 'Relu':\n  at the multiply that Own.scaled made at 'Relu' the second operand is the constant 0.25, not 0.5 (1 of 2 parts agree)",
        Kind.NEAR,
        node="Relu",
    ),
    "a node named by its output": Case(
        "Own.half",
        at("Relu", ops.nn.relu(at("Mul", ops.multiply(X, splat(0.25))))),
        own,
        "it does not match at 'Mul_output':\n  at multiply 'Mul' the second operand is the constant 0.25, not 0.5 (1 of 2 parts agree)",
        Kind.NEAR,
        node="Mul_output",
    ),
    "a node that is gone by then": Case(
        "Second.logs",
        at("Outer", ops.nn.relu(at("Inner", ops.nn.relu(X)))),
        lambda: Sequential([rule_pass(First), rule_pass(Second)]),
        "'Outer' no longer exists when Second runs: First.relus (in First) had rewritten it",
        Kind.NOTHING,
        node="Outer",
    ),
    "a branch": Case(
        "Own.half",
        If(var("flag", (), "bool"), at("Mul", ops.multiply(X, splat(0.25))), X),
        own,
        NEAREST + "at multiply 'Mul' the second operand is the constant 0.25, not 0.5 (1 of 2 parts agree)",
        Kind.NEAR,
    ),
    "references": Case(
        "Own.half",
        RefRead(RefCreate(at("Mul", ops.multiply(X, splat(0.5))))),
        own,
        "Own has functions that it skipped: it creates, reads or writes references",
        Kind.LEFT,
    ),
    "a rule that fired": Case(
        "Arithmetic.add_negative", NEGATED, None, "it fired once, and its result was extracted: at 'Add' (in FoldBatchNorm)", Kind.TAKEN
    ),
}


@pytest.mark.parametrize("title", CASES)
def test_the_reason_is_that_of_a_person(title: str) -> None:
    case = CASES[title]
    found = ask(case)
    first, _, rest = str(found).partition("\n")
    assert first == f"{case.rule}: {found.text}"
    assert rest == case.answer
    assert found.verdict is case.kind


def ask(case: Case) -> Answer:
    module = IRModule.from_expr(func(case.body))
    config = {"rules.joint": False, **(case.config or {})}  # so that passes run one after the other
    with PassContext(case.level, disabled_pass=case.disabled, instruments=case.instruments, config=config):
        return why_not(case.rule, module, pipeline=case.pipeline and case.pipeline(), node=case.node)


def test_both_directions_of_a_rule() -> None:
    class Both(RuleSet):
        """A bidirectional rule."""

        spread = (x * (y + z) >> x * y + x * z).inexact("distributes").and_back()

    module = IRModule.from_expr(func(at("Mul", ops.multiply(X, at("Add", ops.add(Y, Z))))))
    there, back = why_not_set(Both, module, pipeline=rule_pass(Both), config={"rules.cost": "nodes"})
    assert (there.rule, back.rule) == ("Both.spread", "Both.spread.back")
    assert there.findings[0].text == (
        "it fired at 'Mul' (in Both), but its result was not extracted: the program costs 2 calls, and would cost one call more with it"
    )
    assert back.text == "((x * y) + (x * z)) -> (x * (y + z))"


def test_one_of_two_matches_at_a_node_is_extracted() -> None:
    """The operands match in both orders, and both results cost the same."""

    class Roots(RuleSet):
        """Products of roots need one root."""

        one = (op.sqrt(x) * op.sqrt(y) >> op.sqrt(x * y)).finite("both may be negative")

    module = IRModule.from_expr(func(at("Mul", ops.multiply(ops.sqrt(X), ops.sqrt(Y)))))
    found = why_not("Roots.one", module, pipeline=rule_pass(Roots), config={"rules.math": "finite"})
    assert found.line == "Roots.one: it fired once, and its result was extracted: at 'Mul' (in Roots)"


def test_rules_banned_in_the_first_round_run_in_the_end() -> None:
    class Patient(RuleSet):
        """A rule whose budget is smaller than the program."""

        free = (op.exp(x) >> op.tanh(x)).exploring().budget(1)

    module = IRModule.from_expr(func(tup(*(at(f"Exp_{i}", ops.exp(var(f"v{i}"))) for i in range(3)))))
    found = why_not("Patient.free", module, pipeline=rule_pass(Patient), config={"rules.cost": Cheap()})
    assert [(finding.kind, finding.times) for finding in found.findings] == [(Kind.TAKEN, 3)]


def test_guards_that_compute_with_signaling_nan() -> None:
    """Matches that the engine did not process are decided here, also without a warning of NumPy."""

    @guard
    def is_large(c: Term) -> bool | str:
        return bool(c.value().numpy().astype(np.float64).max() > 1e30) or "an element is small"

    class Guarded(RuleSet):
        """A rule whose guard computes with constants."""

        large = (x * c >> x).when(is_large(c))

    signaling = const(np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32))
    module = IRModule.from_expr(func(at("Mul", ops.multiply(var("v", (2,)), signaling))))
    found = why_not("Guarded.large", module, pipeline=rule_pass(Guarded), config={"rules.seconds": 0.0})
    assert found.line == "Guarded.large: it matches at 'Mul' (in Guarded) and is rejected: is_large(c): an element is small"


def test_a_rule_that_has_used_up_its_share() -> None:
    """The others go on, so that the saturation did not stop for them."""
    total = long_sum(at("Exp", ops.exp(X)))
    for i in range(2):
        total = ops.add(total, var(f"u{i}"))
    found = why_not("Sums.regroup", IRModule.from_expr(func(total)), pipeline=rule_pass(Sums))
    [cut] = [finding.text for finding in found.findings if finding.kind is Kind.CUT]
    assert cut.endswith("(in Sums), but it ended at its share of 5000 matches (rules.rule_matches), and the other rules went on")


def test_a_rule_that_lowers() -> None:
    class Lower(RuleSet):
        """A rule for a target that lacks an operator."""

        tan = (op.tan(x) >> op.sin(x) / op.cos(x)).lowering()

    passes = rule_pass(Lower)
    fired = why_not("Lower.tan", IRModule.from_expr(func(at("Tan", ops.tan(X)))), pipeline=passes)
    assert fired.line == "Lower.tan: it fired once, and its result was extracted: at 'Tan' (in Lower)"
    none = why_not(Lower.tan, IRModule.from_expr(func(at("Tanh", ops.tanh(X)))), pipeline=passes)
    assert none.line == "Lower.tan: there is no tan in the model"


def test_a_rule_that_lowers_to_what_it_matches() -> None:
    class Endless(RuleSet):
        """A rule whose result has the operator that it replaces."""

        exp = (op.exp(x) >> op.abs(op.exp(x))).lowering()

    found = why_not("Endless.exp", IRModule.from_expr(func(at("Exp", ops.exp(X)))), pipeline=rule_pass(Endless))
    assert found.line == (
        "Endless.exp: it fired at 'Exp' (in Endless), but its result was not extracted: the results of the rules depend on the calls that "
        "they match"
    )


def test_an_operator_that_the_model_never_had_is_named_before_one_that_was_folded() -> None:
    class Tangent(RuleSet):
        """A rule with two operators, one of which occurs in the model."""

        of_relu = op.tan(op.nn.relu(x)) >> op.tan(x)

    module = IRModule.from_expr(func(ops.exp(at("Relu", ops.nn.relu(numbers((3,)))))))
    found = why_not("Tangent.of_relu", module, pipeline=Sequential([fold_constant(), rule_pass(Tangent)]))
    assert found.line == "Tangent.of_relu: there is no tan in the model"


def test_the_form_of_an_absent_operator_is_named() -> None:
    class Doubled(RuleSet):
        """Rules that miss other forms of what they match."""

        product = (op.exp(x @ y) >> op.exp(x @ y) * 1.0).exploring()
        softmax = op.nn.softmax(x, axis=1) >> op.exp(op.nn.log_softmax(x, axis=1))

    made = ops.exp(ops.nn.dense(numbers((2, 3)), ops.nn.softmax(numbers((4, 3)), axis=-1)))
    pipeline = Sequential([rule_pass(Doubled)])
    module = IRModule.from_expr(func(made))
    said = "there is no nn.matmul in the model, but nn.dense: a product with a weight stored transposed, which op.nn.dense(x, w) matches"
    assert why_not("Doubled.product", module, pipeline=pipeline).findings[0].text == said
    found = why_not("Doubled.softmax", module, pipeline=pipeline).findings[0].text
    assert "axis is -1, not 1, which is the same axis: axis=a with is_axis(a, 1, ...) as a guard accepts both" in found


def test_rules_of_passes_that_share_one_e_graph() -> None:
    module = IRModule.from_expr(func(NEGATED))
    found = why_not("Arithmetic.product_of_negatives", module, pipeline=small(), config={"rules.joint": True})
    assert found.passes == ("FoldBatchNorm", "SimplifyExpr"), "those of the stage that have the rule"
    assert found.findings[0].text == "there is no multiply in the model"


def test_bindings_and_several_functions_are_looked_into() -> None:
    v = var("v")
    module = IRModule.from_expr(func(Let(v, at("Mul", ops.multiply(X, splat(0.25))), ops.add(v, v))))
    module["other"] = func(at("Other", ops.multiply(Y, splat(3.0))))
    found = why_not("Own.half", module, pipeline=rule_pass(Own))
    assert [finding.nodes for finding in found.findings] == [("Mul",), ("Other",)]


def test_the_nearest_come_first_and_are_as_many_as_are_asked_for() -> None:
    sums = [at(f"Add_{i}", ops.add(at(f"Mul_{i}", ops.multiply(X, numbers((3,), seed=i))), var(f"v{i}"))) for i in range(3)]
    module = IRModule.from_expr(func(tup(at("Far", ops.add(X, Y)), *sums)))
    inquiry = Inquiry(module, rule_pass(Own))
    found = inquiry.answer("Own.sum_of_scaled", nearest=2)
    assert [(finding.nodes, finding.agreed, finding.parts) for finding in found.findings] == [(("Add_0",), 3, 5), (("Add_1",), 3, 5)]
    assert len(inquiry.answer("Own.sum_of_scaled", nearest=9).findings) == 4


def test_long_programs() -> None:
    whole: Expr = X
    for i in range(share(1_500, 3_000)):
        whole = at(f"Relu_{i}", ops.nn.relu(at(f"Add_{i}", ops.add(whole, Y))))
    found = why_not("Own.scaled", IRModule.from_expr(func(whole)), pipeline=rule_pass(Own), nearest=1)
    assert [finding.text for finding in found.findings] == ["there is no multiply in the model"]


def test_data_for_programs() -> None:
    found = ask(CASES["a more expensive program, in calls"]).to_dict()
    assert (found["rule"], found["verdict"], found["passes"], found["node"]) == ("Dear.apart", "costlier", ["Dear"], None)
    (finding,) = found["findings"]
    assert finding["nodes"] == ["Sub"]
    assert (round(finding["extra_cost"]), round(finding["cost"])) == (1, 1)
    near = ask(CASES["another number"]).to_dict()["findings"][0]
    assert (near["kind"], near["agreed"], near["parts"]) == ("near", 1, 2)
    assert near["cost"] is None


ARITHMETIC = [direction for rule in Arithmetic for direction in rule.directions()]


def test_a_set_without_applications() -> None:
    module = IRModule.from_expr(func(at("Add", ops.add(X, at("Relu", ops.nn.relu(Y))))))
    text = set_text("Arithmetic", why_not_set("Arithmetic", module))
    first, *lines = text.split("\n")
    assert first == "no rule of Arithmetic contributed to the result"
    assert len(lines) < len(ARITHMETIC) // 2
    assert "  Arithmetic.idempotent_twice[ceil] and 4 similar forms: there is no ceil in the model" in lines
    assert (
        "  Arithmetic.add_negative: there is no negative in the model; at add 'Add' neither operand is negative(y): they are the input 'x' and "
        "nn.relu 'Relu' (1 of 2 parts agree)"
    ) in lines


def test_a_set_with_one_application() -> None:
    text = set_text("Arithmetic", why_not_set("Arithmetic", IRModule.from_expr(func(NEGATED)), pipeline=simplify_expr()))
    assert text.startswith(f"1 of the {len(ARITHMETIC)} rules of Arithmetic contributed to the result\n")


@pytest.mark.parametrize(
    ("rule", "node", "sentence"),
    [
        ("Arithmetic.add_negativ", None, "unknown rule 'Arithmetic.add_negativ'; did you mean Arithmetic.add_negative"),
        ("add_negative", None, "unknown rule 'add_negative'; did you mean Arithmetic.add_negative?"),
        ("Nothing.like_it", None, "unknown rule 'Nothing.like_it'; for a rule of a file, name the file with --rules"),
        (
            "Mine.add_negative",
            None,
            "unknown rule 'Mine.add_negative'; did you mean Arithmetic.add_negative or Factoring.scaled_negative or Factoring.of_negative?; for a rule of a file, name the file with --rules",
        ),
        ("Arithmetic", None, "'Arithmetic' stands for "),
        ("Arithmetic.unit", None, "'Arithmetic.unit' stands for "),
        ("Arithmetic.add_negative", "Ad", "there is no node 'Ad'; did you mean Add"),
        ("Arithmetic.add_negative", "quite other", "there is no node 'quite other'; there are 'Neg', 'Add'"),
    ],
)
def test_unknown_names(rule: str, node: str | None, sentence: str) -> None:
    with pytest.raises(WhyNotError) as caught:
        why_not(rule, IRModule.from_expr(func(NEGATED)), node=node)
    assert str(caught.value).startswith(sentence)


def test_an_unknown_set() -> None:
    with pytest.raises(WhyNotError, match="unknown rule set 'Arithmetics'; did you mean Arithmetic"):
        why_not_set("Arithmetics", IRModule.from_expr(func(NEGATED)))


def test_lowering_passes_run_rules_for_finite_values_unless_exact() -> None:
    module = IRModule.from_expr(func(at("Exp", ops.exp(X))))
    with PassContext(4):
        assert why_not("FastMath.exp", module, pipeline=fast_math()).verdict is Kind.TAKEN
        exact = why_not("FastMath.exp", module, pipeline=fast_math(), config={"rules.math": "exact"})
    assert exact.verdict is Kind.NOT_RUN
    assert exact.line.startswith("FastMath.exp: it is excluded by rules.math = exact: it needs finite (")


class Later(RuleSet):
    """Operators that opset 8 lacks, by themselves or below an operator that it has."""

    erf = (op.exp(op.exp(op.exp(x))) >> op.erf(x)).inexact("for the test")
    sign = (op.log(op.log(op.log(x))) >> op.negative(op.sign(x))).inexact("for the test")
    triangle = (op.sqrt(op.sqrt(op.sqrt(x))) >> op.trilu(x, k=0, upper=True)).inexact("for the test")


@pytest.mark.parametrize(
    ("rule", "program", "why"),
    [
        ("erf", ops.exp, "the model is written in opset 8, and erf needs ONNX opset 9 or later"),
        ("sign", ops.log, "the model is written in opset 8, and sign needs ONNX opset 9 or later"),
        ("triangle", ops.sqrt, "the model is written in opset 8, and trilu of Tensor[(2, 3), float32] needs ONNX opset 14 or later"),
    ],
)
def test_operators_missing_in_the_opset_of_the_result_are_named(rule: str, program: Callable[[Expr], Expr], why: str) -> None:
    module = IRModule.from_expr(func(at("Top", program(program(program(X))))))
    config = {"rules.cost": "nodes", "rules.opset": 8}
    (finding,) = why_not(f"Later.{rule}", module, pipeline=rule_pass(Later), config=config).findings
    assert finding.text == f"it fired at 'Top' (in Later), but its result was not extracted: {why}"
    assert why_not(f"Later.{rule}", module, pipeline=rule_pass(Later), config={**config, "rules.opset": 14}).verdict is Kind.TAKEN


class Merging(RuleSet):
    """A rule that makes nodes equal, and one that matches one of them."""

    twice = op.negative(op.negative(x)) >> x
    relu = (op.nn.relu(op.negative(x)) >> op.negative(op.minimum(x, 0))).exploring()


def test_an_answer_about_a_node_names_no_equal_node() -> None:
    other = at("Other", ops.nn.relu(ops.negative(ops.negative(X))))
    inquiry = Inquiry(IRModule.from_expr(func(ops.concatenate(tup(at("One", ops.nn.relu(X)), other)))), rule_pass(Merging))
    fired, matched = (inquiry.answer("Merging.relu", node).line for node in ("Other", "One"))
    assert fired.startswith("Merging.relu: it fired at 'Other' (in Merging), but its result was not extracted")
    assert matched == "Merging.relu: it matches at 'One' (in Merging), but its right side already exists: Merging.relu created it"
