"""Passes about gradients: FirstOrderGradient, LazyGradientInit."""

from dataclasses import dataclass

from passat.ir.expr import Function, GlobalVar
from passat.ir.gradients.first_order import first_order_gradient
from passat.ir.gradients.lazy import lazy_gradient_init
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import ModulePass
from passat.passmgr.registry import register_pass


@register_pass("relay._transform.FirstOrderGradient")
@dataclass(frozen=True, repr=False)
class FirstOrderGradient(ModulePass):
    """Replaces each function by one that returns its result and the gradients of its parameters (`relay.transform.gradient`).

    Supports functions without control flow, and raises GradientError for others. Functions of other back ends stay, with a remark.
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


@register_pass("relay._transform.LazyGradientInit")
@dataclass(frozen=True, repr=False)
class LazyGradientInit(ModulePass):
    """Computes zeros and ones where they are used, and neither adds zeros nor multiplies by them.

    Supports the functions that `relay.transform.gradient` returns. Adds the functions of the standard library's `gradient.rly` to the
    module, and does not transform them. Zero times infinity or NaN becomes zero. Raises GradientError for functions whose values are not
    tensors.
    """

    info = PassInfo(2, "LazyGradientInit", required=("InferType",))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function."""
        updated = mod.shallow_copy()
        updated.import_from_std("gradient.rly")
        own = IRModule()
        own.import_from_std("gradient.rly")
        for var, function in mod.functions.items():
            if isinstance(function, Function) and var.name_hint not in own:
                updated.functions[var] = lazy_gradient_init(function, updated)
        return infer_module(updated)
