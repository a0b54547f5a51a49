"""`relay.testing`: small helpers that tests of passes share."""

from passat.ir.expr import Expr, Function
from passat.ir.module import IRModule
from passat.passmgr import InferType, Pass

__all__ = ["run_infer_type", "run_opt_pass"]


def run_infer_type(expr: Expr) -> Expr:
    """The expression with types inferred."""
    return run_opt_pass(expr, InferType())


def run_opt_pass(expr: Expr, opt_pass: Pass, import_prelude: bool = False) -> Expr:
    """What a pass makes of an expression: of a function a function, of anything else the body of a function of its free variables.

    `import_prelude` adds the standard library to the module.
    """
    if not isinstance(opt_pass, Pass):
        raise TypeError(f"opt_pass is a pass, not {opt_pass!r}")
    module = IRModule.from_expr(expr)
    if import_prelude:
        module.import_from_std("prelude.rly")
    entry = opt_pass(module)["main"]
    return entry if isinstance(expr, Function) else entry.body
