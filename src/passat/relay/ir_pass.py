"""`relay.ir_pass`: passes over single expressions, as before TVM 0.6. `relay.transform` has the same over modules."""

from passat.ir.equality import structural_equal
from passat.ir.expr import Expr, Function
from passat.ir.module import IRModule
from passat.ir.types import Type
from passat.passmgr import InferType, Pass, ToGraphNormalForm
from passat.relay import transform
from passat.relay.analysis import (
    CallGraph,
    all_type_vars,
    all_vars,
    bound_type_vars,
    bound_vars,
    check_kind,
    detect_feature,
    free_type_vars,
    free_vars,
    post_order_visit,
    structural_hash,
    well_formed,
)

__all__ = [
    "CallGraph",
    "all_type_vars",
    "all_vars",
    "alpha_equal",
    "alter_op_layout",
    "bound_type_vars",
    "bound_vars",
    "check_kind",
    "combine_parallel_conv2d",
    "dead_code_elimination",
    "detect_feature",
    "eliminate_common_subexpr",
    "fold_constant",
    "free_type_vars",
    "free_vars",
    "fuse_ops",
    "graph_equal",
    "infer_type",
    "post_order_visit",
    "simplify_inference",
    "structural_hash",
    "to_a_normal_form",
    "to_anf",
    "to_graph_normal_form",
    "well_formed",
]


def _applied(pass_: Pass, expr: Expr, mod: IRModule | None = None) -> Expr:
    """The expression after a pass over a module of it and the functions of `mod`: its body again, if it is no function."""
    module = IRModule.from_expr(expr)
    for name, function in {} if mod is None else mod.functions.items():
        if name not in module:
            module[name] = function
    module.type_definitions.update({} if mod is None else mod.type_definitions)
    result: Function = pass_(module)["main"]
    return result if isinstance(expr, Function) else result.body


def infer_type(expr: Expr, mod: IRModule | None = None) -> Expr:
    """The expression with types."""
    return _applied(InferType(), expr, mod)


def simplify_inference(expr: Expr) -> Expr:
    """Replaces batch normalizations and dropouts by their form in inference."""
    return _applied(transform.SimplifyInference(), expr)


def dead_code_elimination(expr: Expr) -> Expr:
    """Removes lets whose variable is not used."""
    return _applied(transform.DeadCodeElimination(), expr)


def fold_constant(expr: Expr) -> Expr:
    """Computes calls on constants."""
    return _applied(transform.FoldConstant(), expr)


def eliminate_common_subexpr(expr: Expr) -> Expr:
    """Merges equal calls."""
    return _applied(transform.EliminateCommonSubexpr(), expr)


def fuse_ops(expr: Expr, opt_level: int = 1) -> Expr:
    """Outlines calls that are computed together as primitive functions; at level 0, each call."""
    return _applied(transform.FuseOps(opt_level), expr)


def combine_parallel_conv2d(expr: Expr) -> Expr:
    """Merges convolutions of one input."""
    return _applied(transform.CombineParallelConv2D(), expr)


def alter_op_layout(expr: Expr) -> Expr:
    """Replaces operators as their registered functions say."""
    return _applied(transform.AlterOpLayout(), expr)


def to_anf(expr: Expr, mod: IRModule | None = None) -> Expr:
    """The expression with a let for each call."""
    return _applied(transform.ToANormalForm(), expr, mod)


to_a_normal_form = to_anf


def to_graph_normal_form(expr: Expr) -> Expr:
    """The expression without lets."""
    return _applied(ToGraphNormalForm(), expr)


def alpha_equal(lhs: Expr | Type, rhs: Expr | Type) -> bool:
    """Whether two expressions or types are equal up to the names of bound variables."""
    return structural_equal(lhs, rhs)


def graph_equal(lhs: Expr | Type, rhs: Expr | Type) -> bool:
    """Whether two expressions are equal up to the names of all variables."""
    return structural_equal(lhs, rhs, map_free_vars=True)
