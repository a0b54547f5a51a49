"""The pass UnfoldConstant: undoes the folding of large constants whose operands the program has anyway.

An embedding that Gather reads and a product reads transposed would be in the file twice. The costs are the same: ONNX Runtime folds the
calls when it loads the model.

A walk, not a guard of folding: whether the first form stays is known only when all other passes have run, and rules need folded constants.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from passat.ir.evaluate import Value
from passat.ir.expr import Call, Constant, Expr, Function, Tuple
from passat.ir.folding import FEWEST_BYTES, Origin
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.tensor import Tensor, look
from passat.ir.traverse import post_order, rewrite
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass

_DEEPEST: Final = 8
"""Maximum number of nested calls that a constant becomes."""


@register_pass("relay._transform.UnfoldConstant")
@dataclass(frozen=True)
class UnfoldConstant(FunctionPass):
    """Replaces folded constants by the calls that they are the values of, where that saves more than `rules.max_growth` bytes: a weight
    that is read as it is, and also transposed or multiplied, is stored once. ONNX Runtime folds such calls when it loads a model."""

    info = PassInfo(2, "UnfoldConstant", ["InferType"], provides=("types",), preserves=("types",), after=["DeadCodeElimination"])

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Unfolds the constants of one function."""
        return unfold_constants(func, ctx.get_config("rules.max_growth"))


def unfold_constants(function: Function, least: int) -> Function:
    """The function without folded constants that can be computed from its others, each of which saves more than `least` bytes; itself if
    there are none."""
    constants = [node for node in post_order(function) if isinstance(node, Constant) and node.data.nbytes >= FEWEST_BYTES]
    if not any(isinstance(node.data.origin, Origin) and node.data.nbytes > least for node in constants):
        return function
    made = _Unfolding(constants).calls(least)
    return infer_type(rewrite(function, made.get)) if made else function


@dataclass
class _Plan:
    """Calls for constants, the stored constants that they read, and the tensors that they add. `parts` has what became of each tensor."""

    leaving: Sequence[Constant]
    sources: list[Constant] = field(default_factory=list)
    added: list[Tensor] = field(default_factory=list)
    parts: dict[int, Expr] = field(default_factory=dict)

    def saves(self, least: int) -> bool:
        """True if the calls save more than `least` bytes for each constant."""
        stored = sum(node.data.nbytes for node in self.leaving)
        return stored - sum(tensor.nbytes for tensor in self.added) > least * len(self.leaving)


class _Unfolding:
    """Chooses the constants of a function that become calls on the others."""

    def __init__(self, constants: Sequence[Constant]) -> None:
        self.constants = constants
        self.made: dict[Expr, Expr] = {}
        self._stored: dict[object, list[Constant]] = {}
        self._sources: set[Expr] = set()
        for node in constants:
            self._stored.setdefault(_look(node.data), []).append(node)

    def calls(self, least: int) -> dict[Expr, Expr]:
        """The calls for constants, each of which saves more than `least` bytes. Calls that add the same tensor, such as the relative
        positions that each layer multiplies by its weights, share its bytes."""
        waiting: dict[int, list[Constant]] = {}
        for node in self.constants:
            if node.data.nbytes > least and node not in self._sources and isinstance(node.data.origin, Origin):
                added = self._try([node], least)
                if added:
                    waiting.setdefault(id(max(added, key=lambda tensor: tensor.nbytes)), []).append(node)
        for nodes in waiting.values():
            self._try([node for node in nodes if node not in self._sources], least)
        return self.made

    def _try(self, nodes: Sequence[Constant], least: int) -> Sequence[Tensor]:
        """Makes the calls for constants if that saves enough; otherwise returns the tensors that these add."""
        plan = _Plan(nodes)
        calls: dict[Expr, Expr] = {node: self._call(node.data, plan, 0) for node in nodes}
        if not plan.saves(least):
            return plan.added
        self.made.update(calls)
        self._sources.update(plan.sources)
        return ()

    def _call(self, tensor: Tensor, plan: _Plan, depth: int) -> Expr:
        """The call that a tensor is the value of."""
        origin = tensor.origin
        assert isinstance(origin, Origin)
        return Call(origin.op, [self._value(arg, plan, depth + 1) for arg in origin.args], origin.attrs)

    def _value(self, value: Value, plan: _Plan, depth: int) -> Expr:
        if isinstance(value, tuple):
            return Tuple([self._value(each, plan, depth) for each in value])
        if id(value) not in plan.parts:
            plan.parts[id(value)] = self._part(value, plan, depth)
        return plan.parts[id(value)]

    def _part(self, tensor: Tensor, plan: _Plan, depth: int) -> Expr:
        for node in self._stored.get(_look(tensor), ()):
            if node not in self.made and node not in plan.leaving and node.data == tensor:
                plan.sources.append(node)
                return node
        if isinstance(tensor.origin, Origin) and depth < _DEEPEST:
            return self._call(tensor, plan, depth)
        if not tensor.is_splat:
            plan.added.append(tensor)
        return Constant(tensor)


def _look(tensor: Tensor) -> object:
    return tensor.dtype, tensor.shape, look(tensor)
