"""The passes of the rule library under Relay's names, and the default pipeline."""

from dataclasses import dataclass
from typing import Final, Literal, overload

import passat.rules.layout_passes  # noqa: F401  # registers its passes
from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import FunctionPass, PassContext, PassInfo, Sequential, register_pass
from passat.rules.canonical_cast import CanonicalizeCast
from passat.rules.combine_parallel import combine_parallel_batch_matmul, combine_parallel_conv2d, combine_parallel_dense
from passat.rules.common_subexpr import EliminateCommonSubexpr as SharedSubexpr
from passat.rules.common_subexpr import Skip
from passat.rules.engine.dead_code import drop_dead_lets
from passat.rules.folding import FoldConstantOf
from passat.rules.fusion.defuse_ops import DefuseOps
from passat.rules.fusion.fuse_ops import FuseOps
from passat.rules.fusion.merge_composite import MergeComposite
from passat.rules.joined_slices import JoinSlices
from passat.rules.library import (
    Arithmetic,
    Binomials,
    Broadcasts,
    Casts,
    Clips,
    Constants,
    Copies,
    Doubles,
    Fills,
    Inference,
    LikeForms,
    NewAxes,
    Normalisations,
    Powers,
    Products,
    Repetitions,
    ScaleAxis,
    Scales,
    Slices,
    Sums,
    Transposes,
    Units,
    Unpacking,
    Views,
)
from passat.rules.library import DynamicToStatic as DynamicToStaticRules
from passat.rules.library.attention import Attentions, Rotations, ScoreScales, SharedHeads
from passat.rules.library.attention_forms import BatchTransposes, Masks, SoftmaxGuards
from passat.rules.library.contrib import ContribGelus, ContribProducts
from passat.rules.library.dynamic_views import DynamicCopies, DynamicViews, Fulls, TurnedBatches
from passat.rules.library.experts import Experts
from passat.rules.library.gelu_forms import Gelus, Swishes
from passat.rules.library.hidden_state import Embeddings, HiddenStates, Rows, TakenRows, ThirdParts
from passat.rules.library.layer_scale import LayerScale
from passat.rules.library.lookups import CountedLookups, Countings, Lookups, TrueMasks
from passat.rules.library.normalisation_forms import GroupNorms, LayerNorms, RootMeanSquares, Roots, Softmaxes
from passat.rules.library.selections import Thresholds, UnreadCasts
from passat.rules.library.spelling import GlobalPools, OpenSizes
from passat.rules.linear_algebra import explore, linear_algebra
from passat.rules.lowering_passes import LoweringPass
from passat.rules.read_opaque import ReadOpaque
from passat.rules.rule_pass import RulePass
from passat.rules.scale_passes import fold_scale_axis
from passat.rules.schedule import phase
from passat.rules.shape_forms import SimplifyShapes
from passat.rules.spelling import SpellSums
from passat.rules.stack_regions import FlattenRegions
from passat.rules.target_pass import TargetPass

_PREFIX: Final = "relay._transform."
SIMPLIFY: Final = (Units, Repetitions, Arithmetic, Transposes, Views, NewAxes, Casts, Slices, Copies, Broadcasts, Constants, Products)
_LOOKUPS: Final = (Countings, Lookups, CountedLookups)
_SPELLINGS: Final = (DynamicViews, TurnedBatches, DynamicCopies, Fulls, TrueMasks, *_LOOKUPS, UnreadCasts, Thresholds)
SIMPLIFY_EXPR: Final = (*SIMPLIFY, LikeForms, Fills, Clips, Powers, Sums, Binomials, Roots, *_SPELLINGS)
_MERGED: Final = (Transposes, Views, Copies, Broadcasts, Units)


@overload
def fold_constant(version: Literal[""] = "") -> RulePass: ...
@overload
def fold_constant(version: str) -> RulePass | FoldConstantOf: ...
@register_pass(_PREFIX + "FoldConstant")
def fold_constant(version: str = "") -> RulePass | FoldConstantOf:
    """Computes what follows from constants and shapes alone. Stateful calls, calls without operands, and results that would
    enlarge the file too much (`rules.max_growth`) stay; a constant that is one value repeated stays one. With a `version` (v0.5, v0.7,
    v0.8, v0.18) what that version of TVM computes, and nothing else: equal expressions stay apart."""
    if version:
        return FoldConstantOf(version)
    return RulePass((), name="FoldConstant", opt_level=2, fold=True, doc=fold_constant.__doc__ or "")


@register_pass(_PREFIX + "SimplifyTupleGet")
def simplify_tuple_get() -> RulePass:
    """The field of a tuple that was just made is that field."""
    return RulePass((), name="SimplifyTupleGet", opt_level=1, doc=simplify_tuple_get.__doc__ or "")


@register_pass(_PREFIX + "SimplifyInference")
def simplify_inference(unpack: bool = False) -> RulePass:
    """Removes what only training needs: dropout. With `unpack`, as in TVM, normalisations fall into what they are made of, whatever that
    costs; without it they stay whole, which is what ONNX Runtime runs fast."""
    doc = simplify_inference.__doc__ or ""
    if unpack:
        return LoweringPass((Inference, Unpacking), name="SimplifyInference", opt_level=0, doc=doc)
    return RulePass((Inference,), name="SimplifyInference", opt_level=0, doc=doc)


@register_pass(_PREFIX + "DynamicToStatic")
def dynamic_to_static() -> RulePass:
    """Folds constants and shape arithmetic, and gives operators their shapes as attributes where these are known."""
    return RulePass((DynamicToStaticRules,), name="DynamicToStatic", opt_level=2, fold=True, static=True)


@register_pass(_PREFIX + "SimplifyExpr")
def simplify_expr(doubles: bool = False) -> RulePass:
    """Identities of arithmetic, chains of reshapes, transposes, casts, clips and slices, copies that copy nothing, tensors of one value,
    powers that are products or roots. With `doubles` x + x becomes x * 2, as in TVM from v0.18 on."""
    return RulePass(
        (*SIMPLIFY_EXPR, Doubles) if doubles else SIMPLIFY_EXPR,
        name="SimplifyExpr",
        opt_level=0,
        fold=True,
        static=True,
        doc=simplify_expr.__doc__ or "",
    )


@register_pass(_PREFIX + "FoldBatchNorm")
def fold_batch_norm() -> RulePass:
    """Batch normalisations, scales and shifts become part of the convolution or product before them."""
    sets = (ScaleAxis, Normalisations, Scales, *SIMPLIFY, DynamicViews, TurnedBatches)  # a copy, or a sum with 0, may stand between the two
    return RulePass(sets, name="FoldBatchNorm", opt_level=2, fold=True, doc=fold_batch_norm.__doc__ or "")


@overload
def eliminate_common_subexpr(fskip: None = None) -> RulePass: ...
@overload
def eliminate_common_subexpr(fskip: Skip | tuple[str, ...] | None) -> RulePass | SharedSubexpr: ...
@register_pass(_PREFIX + "EliminateCommonSubexpr")
def eliminate_common_subexpr(fskip: Skip | tuple[str, ...] | None = None) -> RulePass | SharedSubexpr:
    """Equal expressions become one. (Stateful calls never do.) With `fskip`, a function of an expression or names of operators, those that
    it is true of, or that call these, stay apart."""
    if fskip:
        return SharedSubexpr(fskip)
    return RulePass((), name="EliminateCommonSubexpr", opt_level=3, merge=True, doc=eliminate_common_subexpr.__doc__ or "")


@register_pass(_PREFIX + "DeadCodeElimination")
@dataclass(frozen=True)
class DeadCodeElimination(FunctionPass):
    """Drops bindings that nobody uses, unless their value does more than compute."""

    info = PassInfo(1, "DeadCodeElimination", provides=("types",), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Drops dead lets of one function."""
        return drop_dead_lets(func)


@register_pass(_PREFIX + "FlattenHiddenState")
def flatten_hidden_state() -> Sequential:
    """Stacks of rows become matrices where reshapes cancel: products take their biases, and what is between them works on matrices."""
    before = phase(LayerScale, Experts, BatchTransposes, Masks, SoftmaxGuards, *_MERGED)
    after = phase(Rows, HiddenStates, ThirdParts, Embeddings, TakenRows, BatchTransposes, *_MERGED)
    doc = "Stacks of rows become matrices where at most one size is open; before that masks, guards of softmax, experts and layer scale."
    stacks = RulePass((before, after), name="FlattenStacks", opt_level=3, fold=True, doc=doc)
    return Sequential([stacks, FlattenRegions()], opt_level=3, name="FlattenHiddenState")


@register_pass(_PREFIX + "Spell")
def spell() -> Sequential:
    """Of two ways to write the same, the one that the target's kernels run faster; the last of all passes."""
    pools = RulePass((GlobalPools, OpenSizes), name="SpellPools", opt_level=3, doc="Global pooling, and reshapes that count.")
    return Sequential([pools, SpellSums()], opt_level=3, name="Spell")


@register_pass(_PREFIX + "Raise")
def raise_operators() -> RulePass:
    """Recovers normalisations, activations and softmax from the nodes that exporters make of them."""
    sets = (Roots, LayerNorms, RootMeanSquares, GroupNorms, Softmaxes, Gelus, Swishes, Views)
    return RulePass(sets, name="Raise", opt_level=3, fold=True, doc=raise_operators.__doc__ or "")


register_pass(_PREFIX + "CanonicalizeCast", CanonicalizeCast)


@register_pass(_PREFIX + "RaiseAttention")
def raise_attention() -> RulePass:
    """Recovers attention and rotary positions, for targets that have both (ONNX from opset 23 on)."""
    first = phase(BatchTransposes, Masks, SoftmaxGuards, Rotations, ScoreScales, Constants, *_MERGED)
    then = phase(Attentions, SharedHeads, BatchTransposes, *_MERGED)
    return TargetPass((first, then), since=23, name="RaiseAttention", opt_level=3, fold=True, doc=raise_attention.__doc__ or "")


register_pass(_PREFIX + "LinearAlgebra", linear_algebra)
register_pass(_PREFIX + "Explore", explore)
register_pass(_PREFIX + "CombineParallelConv2D", combine_parallel_conv2d)
register_pass(_PREFIX + "CombineParallelDense", combine_parallel_dense)
register_pass(_PREFIX + "CombineParallelBatchMatmul", combine_parallel_batch_matmul)
register_pass(_PREFIX + "FoldScaleAxis", fold_scale_axis)
register_pass(_PREFIX + "FuseOps", FuseOps)
register_pass(_PREFIX + "DefuseOps", DefuseOps)
register_pass(_PREFIX + "MergeComposite", MergeComposite)


@register_pass(_PREFIX + "ContribOperators")
def contrib_operators() -> TargetPass:
    """Biased Gelu, Swish and products with factors or transposed operands as ONNX Runtime's own operators, for targets that have them."""
    sets = (ContribGelus, ContribProducts)
    doc = contrib_operators.__doc__ or ""
    return TargetPass(sets, domain="com.microsoft", name="ContribOperators", opt_level=3, fold=True, doc=doc)


def default_pipeline() -> Sequential:
    """What `optimize` runs; the context's level decides which of it. Level 0 has identities, 1 drops what is dead, 2 folds constants and
    normalisations, 3 has linear algebra, operators raised from what exporters make of them, and the spelling of the target, 4 searches and
    merges parallel branches. Passes that make operators come after those that take programs apart; spelling comes last."""
    return Sequential(
        [
            simplify_inference(),
            ReadOpaque(),
            dynamic_to_static(),
            fold_batch_norm(),
            simplify_expr(),
            SimplifyShapes(),
            JoinSlices(),
            eliminate_common_subexpr(),
            fold_scale_axis(),
            linear_algebra(),
            explore(),
            combine_parallel_conv2d(),
            combine_parallel_dense(),
            combine_parallel_batch_matmul(),
            raise_operators(),
            raise_attention(),
            flatten_hidden_state(),
            contrib_operators(),
            spell(),
            DeadCodeElimination(),
        ],
        name="default",
    )
