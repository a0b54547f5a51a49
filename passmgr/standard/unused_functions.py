"""`RemoveUnusedFunctions` as a pass."""

from collections.abc import Iterable
from dataclasses import dataclass

from passat.ir.expr import GlobalVar
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import EVERYTHING, PassInfo
from passat.passmgr.passes import ModulePass
from passat.passmgr.registry import register_pass


@register_pass("relay._transform.RemoveUnusedFunctions")
@dataclass(frozen=True, repr=False)
class RemoveUnusedFunctions(ModulePass):
    """Removes the functions that no entry function reaches, by calling them or by handing them on.

    Raises KeyError where the module has no function of the name of an entry.
    """

    entry_functions: tuple[str, ...] = ("main",)

    info = PassInfo(1, "RemoveUnusedFunctions", preserves=EVERYTHING, counters={"removed": "functions that nothing reached"})

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module of the functions that are reached, in their order; the module itself where that is all of them."""
        reached = reached_functions(mod, self.entry_functions)
        if len(reached) == len(mod.functions):
            return mod
        ctx.record(self.info.name, "removed", len(mod.functions) - len(reached))
        kept = mod.shallow_copy()
        kept.functions = {var: function for var, function in mod.functions.items() if var in reached}
        return kept


def reached_functions(mod: IRModule, entries: Iterable[str]) -> set[GlobalVar]:
    """The functions of a module that are named in some function reached from the entries, and the entries. Raises KeyError."""
    by_name = {var.name_hint: var for var in mod.functions}
    stack = [mod.get_global_var(name) for name in entries]
    reached = set(stack)
    while stack:
        for node in post_order(mod.functions[stack.pop()]):
            if isinstance(node, GlobalVar):
                callee = by_name.get(node.name_hint)
                if callee is not None and callee not in reached:
                    reached.add(callee)
                    stack.append(callee)
    return reached
