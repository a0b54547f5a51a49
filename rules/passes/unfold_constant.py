"""The pass UnfoldConstant: undoes the folding of large constants whose operands the program has anyway.

An embedding that Gather reads and a product reads transposed would be in the file twice. The costs are the same: ONNX Runtime folds the
calls when it loads the model.

A walk, not a guard of folding: whether the first form stays is known only when all other passes have run, and rules need folded constants.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
    if not made:
        return function
    result = infer_type(rewrite(function, made.get))
    assert isinstance(result, Function)
    return result


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
        """The calls for constants, each of which saves more than `least` bytes."""
        for node in self.constants:
            if node.data.nbytes > least and node not in self._sources and isinstance(node.data.origin, Origin):
                sources: list[Constant] = []
                call, added = self._call(node.data.origin, sources, 0)
                if node.data.nbytes - added > least:
                    self.made[node] = call
                    self._sources.update(sources)
        return self.made

    def _call(self, origin: Origin, sources: list[Constant], depth: int) -> tuple[Expr, int]:
        """The call of an origin, and the bytes of the constants that it adds; `sources` gets those that it reads."""
        parts = [self._value(arg, sources, depth + 1) for arg in origin.args]
        return Call(origin.op, [part for part, _ in parts], origin.attrs), sum(added for _, added in parts)

    def _value(self, value: Value, sources: list[Constant], depth: int) -> tuple[Expr, int]:
        if isinstance(value, tuple):
            parts = [self._value(each, sources, depth) for each in value]
            return Tuple([part for part, _ in parts]), sum(added for _, added in parts)
        for node in self._stored.get(_look(value), ()):
            if node not in self.made and node.data == value:
                sources.append(node)
                return node, 0
        if isinstance(value.origin, Origin) and depth < _DEEPEST:
            return self._call(value.origin, sources, depth)
        return Constant(value), 0 if value.is_splat else value.nbytes


def _look(tensor: Tensor) -> object:
    return tensor.dtype, tensor.shape, look(tensor)
