"""Passes about gradients: FirstOrderGradient."""

from dataclasses import dataclass

from passat.ir.expr import Function, GlobalVar
from passat.ir.gradients.first_order import first_order_gradient
from passat.ir.module import IRModule
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import ModulePass
from passat.passmgr.registry import register_pass


@register_pass("relay._transform.FirstOrderGradient")
@dataclass(frozen=True, repr=False)
class FirstOrderGradient(ModulePass):
    """Replaces each function by one that returns its result and the gradients of its parameters (`relay.transform.gradient`).

    The functions are of dataflow alone. Raises GradientError for others. Functions of other back ends stay, with a remark.
    """

    info = PassInfo(0, "FirstOrderGradient", required=("InferType",))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Differentiates every function."""
        made: dict[GlobalVar, Function] = {}
        for var, function in mod.functions.items():
            if isinstance(function, Function):
                made[var] = first_order_gradient(function)
            else:
                ctx.remark(self.info.name, f"@{var.name_hint} belongs to another back end and is not differentiated")
        updated = mod.shallow_copy()
        updated.functions.update(made)
        return updated
