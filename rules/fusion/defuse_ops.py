"""The pass DefuseOps: what FuseOps made is taken apart again."""

from dataclasses import dataclass

from passat.ir.expr import Function
from passat.ir.infer import infer_type
from passat.ir.inline import inline_calls
from passat.ir.module import IRModule
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass


@register_pass("relay._transform.DefuseOps")
@dataclass(frozen=True)
class DefuseOps(FunctionPass):
    """Puts the bodies of functions with the attribute `Primitive` in the place of their calls."""

    info = PassInfo(3, "DefuseOps", ["InferType"], provides=("types",), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Takes one function apart."""
        made = inline_calls(func, lambda function: bool(function.attrs.get("Primitive")))
        assert isinstance(made, Function)  # of a function
        infer_type(made)
        return made
