"""`InferType` as a pass."""

from dataclasses import dataclass

from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import EVERYTHING, PassInfo
from passat.passmgr.passes import ModulePass
from passat.passmgr.registry import register_pass


@register_pass("relay._transform.InferType")
@dataclass(frozen=True, repr=False)
class InferType(ModulePass):
    """Infers the type of every expression that has none yet. Types are kept on the nodes, so the module comes back itself.

    Establishes the fact "types". Raises passat.ir.infer.InferError for a program that has no type.
    """

    info = PassInfo(0, "InferType", provides=("types",), preserves=EVERYTHING)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Infers what is new; where every function has its type nothing is walked."""
        for var, function in mod.functions.items():
            type_ = function._checked_type
            if type_ is None or (type_ is not var._checked_type and type_ != var._checked_type):
                return infer_module(mod)
        return mod
