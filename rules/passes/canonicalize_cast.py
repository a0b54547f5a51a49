"""Casts beside their uses: Relay's CanonicalizeCast."""

from typing import Final

from passat.ir.dtypes import itemsize
from passat.ir.expr import Call, Expr, Function
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, post_order, with_children
from passat.ir.types import TensorType
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass

_BROADCAST: Final = 1
"""Operators of this pattern or below are fused with a cast before them."""


@register_pass("relay._transform.CanonicalizeCast")
class CanonicalizeCast(FunctionPass):
    """Each elementwise use of a value that was cast to a wider element type gets a cast of its own, so that fusion takes the cast along
    and the narrow value is what is kept. Passes that are made of rules share the casts again."""

    info = PassInfo(3, "CanonicalizeCast", ["InferType"], provides=("types",), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Copies the casts of one function."""
        infer_type(func)
        used: set[int] = set()
        made: dict[int, Expr] = {}
        for node in post_order(func, into=lambda part: not is_sealed(part)):
            if is_sealed(node):
                made[id(node)] = node
                continue
            parts = [made[id(part)] for part in children(node)]
            if isinstance(node, Call) and isinstance(node.op, Op) and node.op.pattern <= _BROADCAST:
                for i, part in enumerate(node.args, 1):
                    if _is_widening(part):
                        parts[i] = _copied(parts[i]) if id(part) in used else parts[i]
                        used.add(id(part))
            made[id(node)] = with_children(node, parts)
        result = made[id(func)]
        assert isinstance(result, Function)
        infer_type(result)
        return result


def _is_widening(node: Expr) -> bool:
    if not (isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "cast"):
        return False
    source, result = node.args[0].checked_type, node.checked_type
    return isinstance(source, TensorType) and isinstance(result, TensorType) and itemsize(source.dtype) < itemsize(result.dtype)


def _copied(cast: Expr) -> Expr:
    assert isinstance(cast, Call)
    return Call(cast.op, cast.args, cast.attrs, span=cast.span)
