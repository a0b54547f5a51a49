"""The pipelines of `optimize` and of `relay.build`."""

from typing import Final

from passat.ir.expr import Call, Expr
from passat.ir.op import get_op
from passat.passmgr import InferType, Pass, RemoveUnusedFunctions, Sequential, in_order, register_pass
from passat.rules.passes.algebra import (
    combine_parallel_batch_matmul,
    combine_parallel_conv2d,
    combine_parallel_dense,
    explore,
    fold_scale_axis,
    linear_algebra,
    merge_products,
)
from passat.rules.passes.collapse_batch_dims import CollapseBatchDims
from passat.rules.passes.hoist_selections import HoistSelections, HoistSelectionsAgain
from passat.rules.passes.layouts import alter_op_layout
from passat.rules.passes.read_opaque import ReadOpaque
from passat.rules.passes.simplify import (
    DeadCodeElimination,
    dynamic_to_static,
    eliminate_common_subexpr,
    fold_batch_norm,
    fold_constant,
    simplify_expr,
    simplify_inference,
)
from passat.rules.passes.simplify_shapes import SimplifyShapes
from passat.rules.passes.slices_to_split import SlicesToSplit
from passat.rules.passes.target import (
    AvoidSkipLayerNorm,
    CanonicalizeCast,
    canonicalize_ops,
    contrib_operators,
    fast_math,
    flatten_atrous_conv,
    legalize,
    raise_attention,
    raise_operators,
    target_forms,
)
from passat.rules.passes.unfold_constant import UnfoldConstant

_CAST: Final = get_op("cast")


def default_pipeline() -> Sequential:
    """The passes that `optimize` runs, in the order that they declare (`after`, `before`), up to the optimization level of the context.
    Level 0 applies identities; 1 removes dead code; 2 folds constants and normalizations; 3 adds linear algebra, raises decomposed
    operators and chooses target forms; 4 explores alternatives and merges parallel branches."""
    return Sequential(in_order(default_passes()), name="default")


def default_passes() -> list[Pass]:
    """The passes of the default pipeline, in its order: sorting them would load networkx."""
    return [
        ReadOpaque(),
        simplify_inference(),
        fold_constant(),
        dynamic_to_static(),
        fold_batch_norm(),
        simplify_expr(),
        SimplifyShapes(),
        HoistSelections(),
        SlicesToSplit(),
        eliminate_common_subexpr(),
        fold_scale_axis(),
        linear_algebra(),
        raise_operators(),
        raise_attention(),
        explore(),
        combine_parallel_conv2d(),
        combine_parallel_dense(),
        combine_parallel_batch_matmul(),
        HoistSelectionsAgain(),
        CollapseBatchDims(),
        merge_products(),
        contrib_operators(),
        target_forms(),
        AvoidSkipLayerNorm(),
        DeadCodeElimination(),
        UnfoldConstant(),
    ]


def is_cast_to_int32(expr: Expr) -> bool:
    """True for casts to int32, which CSE keeps separate, so that fusion absorbs each."""
    return isinstance(expr, Call) and expr.op is _CAST and expr.attrs.dtype == "int32"


@register_pass("relay._transform.GetPassPrefix")
def get_pass_prefix() -> Sequential:
    """The passes that `relay.build` runs before fusion and code generation (TVM v0.8), without ToBasicBlockNormalForm and qnn.Legalize. The
    pipeline of `optimize` does more, and targets ONNX Runtime."""
    return Sequential(
        [
            RemoveUnusedFunctions(),
            legalize(),
            simplify_inference(unpack=True),
            dynamic_to_static(),
            eliminate_common_subexpr(is_cast_to_int32),
            simplify_expr(),
            combine_parallel_conv2d(),
            combine_parallel_dense(),
            combine_parallel_batch_matmul(),
            fold_constant(),
            fold_scale_axis(),
            CanonicalizeCast(),
            canonicalize_ops(),
            flatten_atrous_conv(),
            InferType(),
            alter_op_layout(),
            fast_math(),
            fold_constant(),
        ],
        name="GetPassPrefix",
    )
