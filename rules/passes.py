"""The passes of the rule library under Relay's names, and the default pipeline."""

from dataclasses import dataclass
from typing import Final

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import FunctionPass, PassContext, PassInfo, Sequential, register_pass
from passat.rules.engine.dead_code import drop_dead_lets
from passat.rules.library import (
    Arithmetic,
    Broadcasts,
    Casts,
    Constants,
    Copies,
    Inference,
    NewAxes,
    Normalisations,
    Products,
    Repetitions,
    ScaleAxis,
    Scales,
    Slices,
    Transposes,
    Units,
    Views,
)
from passat.rules.library import DynamicToStatic as DynamicToStaticRules
from passat.rules.rule_pass import RulePass

_PREFIX: Final = "relay._transform."
SIMPLIFY: Final = (Units, Repetitions, Arithmetic, Transposes, Views, NewAxes, Casts, Slices, Copies, Broadcasts, Constants, Products)


@register_pass(_PREFIX + "FoldConstant")
def fold_constant() -> RulePass:
    """Computes what follows from constants and shapes alone. Stateful calls, calls without operands, and results that would
    enlarge the file too much (`rules.max_growth`) stay; a constant that is one value repeated stays one."""
    return RulePass((), name="FoldConstant", opt_level=2, fold=True, doc=fold_constant.__doc__ or "")


@register_pass(_PREFIX + "SimplifyTupleGet")
def simplify_tuple_get() -> RulePass:
    """The field of a tuple that was just made is that field."""
    return RulePass((), name="SimplifyTupleGet", opt_level=1, doc=simplify_tuple_get.__doc__ or "")


@register_pass(_PREFIX + "SimplifyInference")
def simplify_inference() -> RulePass:
    """Removes what only training needs: dropout."""
    return RulePass((Inference,), name="SimplifyInference", opt_level=0)


@register_pass(_PREFIX + "DynamicToStatic")
def dynamic_to_static() -> RulePass:
    """Folds constants and shape arithmetic, and gives operators their shapes as attributes where these are known."""
    return RulePass((DynamicToStaticRules,), name="DynamicToStatic", opt_level=2, fold=True, static=True)


@register_pass(_PREFIX + "SimplifyExpr")
def simplify_expr() -> RulePass:
    """Identities of arithmetic, chains of reshapes, transposes, casts and slices, copies that copy nothing."""
    return RulePass(SIMPLIFY, name="SimplifyExpr", opt_level=0, fold=True, static=True, doc=simplify_expr.__doc__ or "")


@register_pass(_PREFIX + "FoldBatchNorm")
def fold_batch_norm() -> RulePass:
    """Batch normalisations, scales and shifts become part of the convolution or product before them."""
    sets = (ScaleAxis, Normalisations, Scales, *SIMPLIFY)  # a copy, or a sum with 0, may stand between the two
    return RulePass(sets, name="FoldBatchNorm", opt_level=2, fold=True, doc=fold_batch_norm.__doc__ or "")


@register_pass(_PREFIX + "EliminateCommonSubexpr")
def eliminate_common_subexpr() -> RulePass:
    """Equal expressions become one. (Stateful calls never do.)"""
    return RulePass((), name="EliminateCommonSubexpr", opt_level=3, merge=True, doc=eliminate_common_subexpr.__doc__ or "")


@register_pass(_PREFIX + "DeadCodeElimination")
@dataclass(frozen=True)
class DeadCodeElimination(FunctionPass):
    """Drops bindings that nobody uses, unless their value does more than compute."""

    info = PassInfo(1, "DeadCodeElimination", provides=("types",), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Drops dead lets of one function."""
        return drop_dead_lets(func)


def default_pipeline() -> Sequential:
    """What `optimize` runs; the context's level decides which of it."""
    return Sequential(
        [
            simplify_inference(),
            dynamic_to_static(),
            fold_batch_norm(),
            simplify_expr(),
            eliminate_common_subexpr(),
            DeadCodeElimination(),
        ],
        name="default",
    )
