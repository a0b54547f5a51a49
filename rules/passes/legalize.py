"""Legalize by functions that are registered for operators. They are arbitrary Python, so this is a walk and not a rule set."""

from dataclasses import dataclass

from passat.ir.expr import Call, Expr, Function
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import rewrite
from passat.ir.types import compatible
from passat.passmgr import FunctionPass, PassContext, PassInfo


@dataclass(frozen=True)
class LegalizeByAttribute(FunctionPass):
    """Calls become what the function returns that is registered for their operator as the attribute `attribute`
    (`tvm.ir.register_op_attr`). It gets the attributes of the call, its arguments, and their types with that of the call at the end;
    with None the call stays. Raises TypeError for other values, and for an expression of another type.
    """

    attribute: str = "FTVMLegalize"

    info = PassInfo(1, "Legalize", required=("InferType",), provides=("types",), counters={"legalized": "calls that were replaced"})

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Legalizes one function."""
        count = 0

        def legal(old: Expr, made: Expr) -> Expr:
            nonlocal count
            function = old.op.get_attr(self.attribute) if isinstance(old, Call) and isinstance(old.op, Op) else None
            if function is None or not isinstance(made, Call) or not isinstance(old, Call):
                return made
            found = function(made.attrs, list(made.args), [*(arg.checked_type for arg in old.args), old.checked_type])
            if found is None:
                return made
            if not isinstance(found, Expr):
                raise TypeError(f"{self.attribute} of {made.op!r} returns an expression or None, not a {type(found).__name__}")
            if not compatible(infer_type(found).checked_type, old.checked_type):
                raise TypeError(f"{self.attribute} of {made.op!r} made {found.checked_type!r} of {old.checked_type!r}")
            count += 1
            return found

        made = rewrite(infer_type(func), legal)
        assert isinstance(made, Function)
        if count:
            ctx.record(self.info.name, "legalized", count)
        return made
