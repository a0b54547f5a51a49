"""For each rule of the library a model on which it fires: an instance of its left side, drawn as `passat rules check` does, as ONNX."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from onnx import GraphProto, ModelProto, helper

from passat.catalog import library_subjects
from passat.ir.attrs import Attrs
from passat.ir.evaluate import Value
from passat.ir.expr import Call, Expr, Function
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.onnx.frame import Frame
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, Type, tensor_type
from passat.rules.checking.case import Case as Instance
from passat.rules.checking.case import Unfit
from passat.rules.checking.draw import SamplingHints, draw
from passat.rules.checking.sampler import PLAIN, Sampler
from passat.rules.checking.trial import Trial, Trier
from passat.rules.checking.trying import checks_passed, oddness, triers
from passat.rules.engine.directions import expanded
from passat.rules.pattern import PCall
from passat.rules.rule import Rule
from passat.rules.rule_pass import RulePass
from passat.rules.rule_set import RuleSet, RuleSetMeta

PRODUCTS: Final = frozenset({"nn.matmul", "nn.dense", "nn.batch_matmul", "contrib.fused_matmul", "einsum"})
NORMALIZATIONS: Final = frozenset({"nn.instance_norm", "nn.group_norm"})
"""Operators whose mean over nothing reads invalid memory, which sometimes crashes the process."""
DRAWS: Final = 300
"""Maximum number of instances that are drawn until one is accepted."""


@cache
def rules() -> dict[str, Rule]:
    """The rules of the library by name, without those on quantized operators, which ONNX does not have."""
    found = (rule for subject in library_subjects() for each in subject.sets for rule in each)
    return {rule.name: rule for rule in found if not is_quantized(rule)}


def is_quantized(rule: Rule) -> bool:
    """True for a rule that matches calls of quantized operators."""
    left = expanded(rule)[0].lhs
    return isinstance(left, PCall) and left.op.name.startswith("qnn.")


def pass_of(name: str) -> RulePass:
    """A pass that runs one rule of any kind."""
    body: dict[str, Any] = {"__doc__": f"{name} alone."}
    alone = RuleSetMeta("Alone", (RuleSet,), body)
    alone.rules = (rules()[name],)
    return RulePass([alone], name="Alone", opt_level=0)


class Prices:
    """A cost model with random prices for calls, depending on the operator, its types and attributes. With it, extraction takes results of
    rules at random. If a model is given, its own calls are expensive, so that all other results of rules are extracted.
    """

    def __init__(self, seed: int, model: ModelProto | None = None) -> None:
        self.seed = seed
        self.dear = set(_calls(model)) if model is not None else set()

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """The price of a call."""
        text = _text(op, types, result, attrs)
        digest = hashlib.blake2b(f"{self.seed} {text}".encode(), digest_size=4).digest()
        return 1e-6 + int.from_bytes(digest, "little") / 2**32 + (1000 if text in self.dear else 0)

    def __repr__(self) -> str:
        return f"random prices {self.seed}"


def _calls(model: ModelProto) -> Iterator[str]:
    """The keys of the prices of a model's calls."""
    for function in from_onnx(model).functions.values():
        for call in post_order(infer_type(function)):
            if isinstance(call, Call) and isinstance(call.op, Op):
                yield _text(call.op, [arg.checked_type for arg in call.args], call.checked_type, call.attrs)


def _text(op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> str:
    return f"{op.name} {list(types)!r} {result!r} {attrs!r}"


def instance(rule: Rule, random: np.random.Generator) -> Trial | None:
    """An instance that the rule accepts, in one of its directions; None if many draws give none."""
    ways = list(triers(rule))
    trier: Trier = ways[int(random.integers(len(ways)))]
    hints, sampler = SamplingHints(trier.pattern, trier.guards, [trier.rule.rhs]), Sampler(random)
    odd = int(random.integers(2))
    for turn in range(DRAWS):
        hints.asking = turn > DRAWS // 6
        try:
            case, dtype = draw(hints, sampler, odd=oddness(trier, odd) if turn % 3 else PLAIN, unknown=turn % 4 == 3)
        except Unfit:
            continue
        trial = trier.try_case(case)
        if trial.needs_constant:
            hints.want_constants()
        if trial.right is not None:
            return trial
        hints.note(dtype, checks_passed(trier.rule, trial))
    return None


def exported(trial: Trial, opset: int, *, right: bool = False) -> ModelProto:
    """A side of an instance as ONNX. Raises OnnxError if it has no form in ONNX."""
    assert trial.program is not None
    assert trial.right is not None
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    frame = Frame(ModelProto(ir_version=10, opset_import=imports), GraphProto(name="side"))
    function = Function(list(trial.program.params.values()), trial.right if right else trial.program.body)
    return to_onnx(IRModule({"main": function}, attrs={"onnx": frame}))


def sums_nothing(program: Expr, feed: Mapping[str, Any]) -> bool:
    """True if ONNX Runtime has to reduce an empty axis and does not handle it: a matrix product leaves its elements uninitialized, and a
    normalization reads invalid memory."""
    fed_empty = any(0 in array.shape for array in feed.values())  # unless types tell
    for call in post_order(program):
        if isinstance(call, Call) and isinstance(call.op, Op) and call.op.name in PRODUCTS | NORMALIZATIONS:
            types = [arg.checked_type for arg in call.args]
            empty = fed_empty or any(isinstance(type_, TensorType) and 0 in type_.shape for type_ in types)
            if empty and (call.op.name in NORMALIZATIONS or 0 not in tensor_type(call.checked_type).shape):
                return True
    return False


def feed_of(model: ModelProto, case: Instance) -> dict[str, Any] | None:
    """The inputs of an instance; None if one of them is not a tensor."""
    found: dict[str, Any] = {}
    for value in model.graph.input:
        tensor: Value = case.inputs[value.name]
        if not isinstance(tensor, Tensor):
            return None
        found[value.name] = tensor.numpy()
    return found
