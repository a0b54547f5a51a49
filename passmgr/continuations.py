"""Passes to and from continuation-passing style: ToCPS, UnCPS."""

from dataclasses import dataclass

from passat.ir.cps import Renamed, to_cps, un_cps
from passat.ir.expr import Function, GlobalVar
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import ModulePass
from passat.passmgr.registry import register_pass


@register_pass("relay._transform.ToCPS")
@dataclass(frozen=True, repr=False)
class ToCPS(ModulePass):
    """Converts each function to continuation-passing style (`relay.transform.to_cps`).

    Global functions that are called get a converted form, whose name has the suffix `_cps`. Functions of other back ends stay.
    """

    info = PassInfo(1, "ToCPS", required=("InferType",))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Converts every function."""
        updated = mod.shallow_copy()
        renamed: Renamed = {}
        for var, function in mod.functions.items():
            if isinstance(function, Function):
                callees = mod.shallow_copy()
                updated.functions[var] = to_cps(function, callees, renamed)
                updated.update({name: made for name, made in callees.functions.items() if name not in mod})
        return infer_module(updated)


@register_pass("relay._transform.UnCPS")
@dataclass(frozen=True, repr=False)
class UnCPS(ModulePass):
    """Makes functions in continuation-passing style return their result (`relay.transform.un_cps`).

    Functions that are called stay, because their callers pass a continuation. Raises CpsError for functions that are not in this style.
    """

    info = PassInfo(1, "UnCPS", required=("InferType",))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Converts every function that no function of the module calls."""
        updated = mod.shallow_copy()
        called = {node.name_hint for node in post_order(*mod.functions.values()) if isinstance(node, GlobalVar)}
        for var, function in mod.functions.items():
            if isinstance(function, Function) and var.name_hint not in called:
                updated.functions[var] = un_cps(function)
        return infer_module(updated)
