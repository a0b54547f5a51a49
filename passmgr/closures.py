"""Passes about functions as values: EtaExpand, LambdaLift."""

from dataclasses import dataclass

from passat.ir.closures import eta_expand, lambda_lift
from passat.ir.module import IRModule
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import ModulePass, convert_functions
from passat.passmgr.registry import register_pass


@register_pass("relay._transform.EtaExpand")
@dataclass(frozen=True, repr=False)
class EtaExpand(ModulePass):
    """Wraps constructors and global functions that are used as values in functions that call them; each kind is optional."""

    expand_constructor: bool = False
    expand_global_var: bool = False

    info = PassInfo(1, "EtaExpand", required=("InferType",))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function; returns the same module if nothing is expanded."""
        types = {var.name_hint: function.checked_type for var, function in mod.functions.items()} if self.expand_global_var else {}
        return convert_functions(mod, lambda function: eta_expand(function, constructors=self.expand_constructor, functions=types))


@register_pass("relay._transform.LambdaLift")
@dataclass(frozen=True, repr=False)
class LambdaLift(ModulePass):
    """Makes each nested function a global function. Captured variables become parameters of a global function that returns it."""

    info = PassInfo(1, "LambdaLift", required=("InferType",))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Returns the same module if there are no nested functions."""
        return lambda_lift(mod)
