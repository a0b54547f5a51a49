"""`ToANormalForm` and `ToGraphNormalForm` as passes: programs as sequences of lets, and as graphs without them."""

from dataclasses import dataclass
from typing import Final

from passat.ir.anf import to_anf, to_graph
from passat.ir.expr import Function, GlobalVar
from passat.ir.module import IRModule
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import FunctionPass, ModulePass
from passat.passmgr.registry import register_pass

ANF: Final = "anf"
"""The fact that the bodies of all functions that are optimised here are in A-normal form."""


@register_pass("relay._transform.ToANormalForm")
@dataclass(frozen=True, repr=False)
class ToANormalForm(ModulePass):
    """Makes of every function a sequence of lets, each of one operation on variables and constants, in the order of evaluation.

    Functions with the attribute `Compiler` are left alone, and what stands in functions with `Primitive`. Establishes the fact "anf".
    """

    info = PassInfo(1, "ToANormalForm", provides=(ANF,))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function; the module itself comes back where all are in this form."""
        changed: dict[GlobalVar, Function] = {}
        for var, function in mod.functions.items():
            if not isinstance(function, Function) or "Compiler" in function.attrs:
                continue
            made = to_anf(function)
            assert isinstance(made, Function)  # of a function
            if made is not function:
                changed[var] = made
        if not changed:
            return mod
        updated = mod.shallow_copy()
        updated.functions.update(changed)
        return updated


@register_pass("relay._transform.ToGraphNormalForm")
@dataclass(frozen=True, repr=False)
class ToGraphNormalForm(FunctionPass):
    """Puts the value of each let where its variable is used, once and shared. Values with effects, and recursive functions, keep theirs."""

    info = PassInfo(1, "ToGraphNormalForm")

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Transforms one function."""
        made = to_graph(func)
        assert isinstance(made, Function)  # of a function
        return made
