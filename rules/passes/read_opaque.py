"""The pass ReadOpaque: nodes that had no form of Passat's own when the model was read, and have one now.

What an operator does may hang on an operand that has to be a constant, such as the axes of a reduction. Exporters compute some of
these; shape arithmetic knows them. A model that is read and written keeps its nodes, so that this is left to a pass.

A walk: what an opaque node means is said by the readers of its ONNX operator (`ir/onnx_mapping.py`), which are functions, not equations.
"""

from dataclasses import dataclass

from passat.ir.expr import Call, Expr, Function
from passat.ir.infer import InferError, infer_type
from passat.ir.module import IRModule
from passat.ir.onnx.opaque import OpaqueOp
from passat.ir.traverse import post_order, rewrite
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass


@register_pass("relay._transform.ReadOpaque")
@dataclass(frozen=True)
class ReadOpaque(FunctionPass):
    """Opaque calls of ONNX operators become calls of Passat's own operators, where operands are known by now that have to be."""

    info = PassInfo(0, "ReadOpaque", ["InferType"], provides=("types",), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Reads the opaque calls of one function again. Modules that were not read from ONNX stay as they are."""
        return read_opaque(func) if "onnx" in mod.attrs else func


def read_opaque(function: Function) -> Function:
    """The function with calls of Passat's own operators where these do what opaque ones did; itself where there are none."""
    if not any(isinstance(node, Call) and isinstance(node.op, OpaqueOp) for node in post_order(function)):
        return function
    from passat.ir.onnx.read_again import read_again  # which needs onnx

    def read(old: Expr, new: Expr) -> Expr:
        if not isinstance(new, Call) or not isinstance(new.op, OpaqueOp):
            return new
        infer_type(new)
        return read_again(new) or new

    try:
        made = rewrite(function, read)
        result = function if made is function else infer_type(made)
    except InferError:  # what is known by now contradicts another node: such a model runs, if at all, as it is
        return function
    assert isinstance(result, Function)
    return result
