"""Helpers that tests of passes share: types, passes on expressions, attributes of operators, natural numbers."""

from passat.ir.expr import Constructor, Expr, Function
from passat.ir.module import IRModule
from passat.ir.types import FuncType
from passat.passmgr import InferType, Pass
from passat.relay.prelude import Prelude
from passat.runtime import ConstructorValue

__all__ = ["count", "make_nat_expr", "make_nat_value", "run_infer_type", "run_opt_pass"]


def run_infer_type(expr: Expr) -> Expr:
    """The expression with types inferred; a function without a declared result gets the inferred one."""
    found = run_opt_pass(expr, InferType())
    type_ = found._checked_type
    if isinstance(found, Function) and found.ret_type is None and isinstance(type_, FuncType):
        declared = Function(found.params, found.body, type_.ret_type, found.type_params, found.attrs, found.span)
        return run_opt_pass(declared, InferType())
    return found


def run_opt_pass(expr: Expr, opt_pass: Pass, import_prelude: bool = False) -> Expr:
    """The result of a pass on an expression: a function for a function, otherwise the body of a function of its free variables.

    `import_prelude` adds the standard library to the module.
    """
    if not isinstance(opt_pass, Pass):
        raise TypeError(f"opt_pass must be a pass, not {opt_pass!r}")
    module = IRModule.from_expr(expr)
    if import_prelude:
        module.import_from_std("prelude.rly")
    entry = opt_pass(module)["main"]
    return entry if isinstance(expr, Function) else entry.body


def count(prelude: Prelude, n: ConstructorValue) -> int:
    """Converts a value of the type `nat` to a number."""
    number = 0
    while n.fields:
        number, n = number + 1, n.fields[0]
    return number


def make_nat_value(prelude: Prelude, n: int) -> ConstructorValue:
    """A number as a value of the type `nat`."""
    zero, succ = _of_nat(prelude)
    value = ConstructorValue(zero.tag, (), zero)
    for _ in range(n):
        value = ConstructorValue(succ.tag, (value,), succ)
    return value


def make_nat_expr(prelude: Prelude, n: int) -> Expr:
    """A number as an expression of the type `nat`."""
    zero, succ = _of_nat(prelude)
    expr: Expr = zero()
    for _ in range(n):
        expr = succ(expr)
    return expr


def _of_nat(prelude: Prelude) -> list[Constructor]:
    return [part for part in prelude.get_type("nat") if isinstance(part, Constructor)]
