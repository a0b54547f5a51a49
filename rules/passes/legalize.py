"""Legalize by functions that are registered for operators. A walk, not rules: the functions are arbitrary Python."""

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
    """Replaces calls by the results of functions that are registered for their operators as the attribute `attribute`
    (`tvm.ir.register_op_attr`). A function gets the attributes of the call, its arguments, and a list of their types that ends with the
    type of the call. It returns an expression of the same type, or None to keep the call. Raises TypeError if it returns anything else.
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
                raise TypeError(f"{self.attribute} of {made.op!r} must return an expression or None, not a {type(found).__name__}")
            if not compatible(infer_type(found).checked_type, old.checked_type):
                types = f"type {found.checked_type!r} for a call of type {old.checked_type!r}"
                raise TypeError(f"{self.attribute} of {made.op!r} returned {types}")
            count += 1
            return found

        made = rewrite(infer_type(func), legal)
        assert isinstance(made, Function)
        if count:
            ctx.record(self.info.name, "legalized", count)
        return made
