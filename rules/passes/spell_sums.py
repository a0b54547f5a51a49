"""The pass SpellSums: sums under layer normalisation are written so that ONNX Runtime does not fuse the two.

ONNX Runtime makes SkipLayerNormalization of an Add of two tensors of one shape in three dimensions that only a LayerNormalization
reads; on the CPU its kernel takes four times as long as the two that it stands for. Sum is the same addition, and is not looked for. Who
reads a value is what rules do not see, so this is a walk.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from passat.ir.dtypes import FLOATS
from passat.ir.expr import Call, Expr, Function, Tuple
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, post_order, rewrite
from passat.ir.types import TensorType
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass

_NORMS: Final = ("nn.layer_norm", "nn.rms_norm")


@register_pass("relay._transform.SpellSums")
@dataclass(frozen=True)
class SpellSums(FunctionPass):
    """Writes sums that nothing but a layer normalisation reads as `elemwise_sum`: the same values, bit for bit."""

    info = PassInfo(3, "SpellSums", ["InferType"], provides=("types",), preserves=("types",), after=["Spell"])

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Respells the sums of one function."""
        return spell_sums(func)


def spell_sums(function: Function) -> Function:
    """The function with `elemwise_sum` for each sum that SkipLayerNormalization would take; itself where there is none."""
    order = post_order(function, into=lambda node: not is_sealed(node))
    read = Counter(id(part) for node in order for part in children(node))
    found = {
        id(node.args[0])
        for node in order
        if isinstance(node, Call) and _is_norm(node) and read[id(node.args[0])] == 1 and _is_skip(node.args[0])
    }
    if not found:
        return function

    def respell(old: Expr, new: Expr) -> Expr:
        if id(old) not in found:
            return new
        assert isinstance(new, Call)
        return Call(get_op("elemwise_sum"), (Tuple(new.args),), span=new.span)

    result = infer_type(rewrite(function, respell))
    assert isinstance(result, Function)
    return result


def _is_norm(call: Call) -> bool:
    return isinstance(call.op, Op) and call.op.name in _NORMS


def _is_skip(expr: Expr) -> bool:
    """Whether an expression is the sum of two float tensors of one shape, of rank three."""
    if not isinstance(expr, Call) or expr.op is not get_op("add"):
        return False
    a, b = (arg.checked_type for arg in expr.args)
    return isinstance(a, TensorType) and isinstance(b, TensorType) and a.ndim == 3 and a.shape == b.shape and a.dtype in FLOATS
