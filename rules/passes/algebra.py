"""Passes for linear algebra: products, attention and the exchange rules of the TASO family, which explore within the budgets of their
rules; Relay's FoldScaleAxis, and its passes that combine parallel branches."""

from collections.abc import Sequence
from typing import Final, Literal, Unpack, overload

from passat.passmgr import Place, Sequential, register_pass
from passat.rules.engine.directions import Stage
from passat.rules.engine.grouping import Grouper
from passat.rules.library.arithmetic import Arithmetic, Constants
from passat.rules.library.batch_norm import ScaleAxis
from passat.rules.library.commuting import Commute
from passat.rules.library.data_movement import Concatenations, Copies
from passat.rules.library.exchanges import ConvolutionChains, Exchanges
from passat.rules.library.factoring import Factoring, Reassociate
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.grouped_heads import GroupedHeads
from passat.rules.library.hidden_state import HiddenStates
from passat.rules.library.layouts import has_several
from passat.rules.library.lowering import FastMath, c, x
from passat.rules.library.masks import Masks
from passat.rules.library.matmul_algebra import MatmulAlgebra
from passat.rules.library.products import Parallel, Products
from passat.rules.library.reductions import Reductions
from passat.rules.library.scale_axis import BackwardScaleAxis, ForwardScaleAxis, is_first_divided
from passat.rules.library.views import DynamicViews, Transposes, Views
from passat.rules.passes.fold_scale_axis import FoldScales, fold_backward, fold_forward
from passat.rules.passes.parallel_branches import Joined, ParallelBranches, Stacked
from passat.rules.passes.simplify import FOLDING, fold_constant
from passat.rules.rule import EXPLORING, JOINING
from passat.rules.rule_pass import RulePass, phase
from passat.rules.rule_set import RuleSetMeta

TIDY: Final = (Arithmetic, Constants, Transposes, Views, DynamicViews, Copies, Masks, Reductions, Concatenations)
"""Rules that never make a program worse."""
ALGEBRA: Final = (
    Products,
    ScaleAxis,
    Factoring,
    MatmulAlgebra,
    GroupedHeads,
    ConvolutionChains,
    HiddenStates.only("scaled", "gathered_experts"),
    Commute,
    Reassociate.of_kind(JOINING),
)
"""Rules that add alternatives, one direction each."""
EXCHANGES: Final = (Exchanges, Reassociate)
"""Rules that form cycles and may find exponentially many programs."""


@register_pass("relay._transform.LinearAlgebra")
def linear_algebra() -> RulePass:
    """Merges chained linear maps, factors common subexpressions out of sums, reductions and concatenations, simplifies masks and attention,
    and moves views and scales to positions where they cost nothing."""
    phases = (phase(*FOLDING, *TIDY, *ALGEBRA, rule_matches=200),)  # a single phase, which ends without egglog if there is little to do
    return RulePass(phases, name="LinearAlgebra", opt_level=3, merge=True, after=["FoldScaleAxis"])


@register_pass("relay._transform.MergeProducts")
def merge_products() -> RulePass:
    """Merges products, biases, scales and reshapes that other passes have made neighbors: HoistSelections moves the selections between
    them, and CollapseBatchDims the reshapes."""
    products = MatmulAlgebra.only("meet", "scaled_rows", "shifted_rows", "transposed_operand")
    moved = (Concatenations.only("take_run"), Views.only("to_same", "fuse"))
    sets = (ConstantFolding, products, Products.only("bias", "unflatten", "unflatten_biased"), ScaleAxis, *moved)
    return RulePass(sets, name="MergeProducts", opt_level=3, after=["CollapseBatchDims"])


@register_pass("relay._transform.Explore")
def explore() -> RulePass:
    """Like LinearAlgebra, but reassociates all sums and products, and adds the exchange rules of the TASO family."""
    phases = (
        phase(*FOLDING, *TIDY, rounds=4),
        phase(*TIDY, *ALGEBRA, rounds=5, rule_matches=200),
        phase(*EXCHANGES, rounds=1, rule_matches=200),
        phase(*TIDY, *ALGEBRA, rounds=2, rule_matches=200),
    )
    return RulePass(phases, name="Explore", opt_level=4, merge=True, joint=False, after=["RaiseAttention"])


class CombineParallel(RulePass):
    """Merges calls that share an operand, if there are at least `min_num_branches` and the result is cheaper."""

    def __init__(self, sets: Sequence[RuleSetMeta], *, name: str, min_num_branches: int = 3, **place: Unpack[Place]) -> None:
        super().__init__((ConstantFolding, *sets), name=name, opt_level=4, joint=False, **place)
        self.min_num_branches = min_num_branches

    def _stages(self, math: str, disabled: Sequence[str]) -> list[Stage]:
        return [self._with_branches(stage) for stage in super()._stages(math, disabled)]

    def _with_branches(self, stage: Stage) -> Stage:
        groupers = tuple(Grouper(grouper.rule.branches(self.min_num_branches)) for grouper in stage.groupers)
        return stage._replace(groupers=groupers)


@register_pass("relay._transform.CombineParallelConv2D")
def combine_parallel_conv2d(min_num_branches: int = 3, always: bool = False) -> CombineParallel | ParallelBranches:
    """Merges convolutions of one tensor, and the biases, scales and ReLUs that all branches have. Weights must have one group and equal
    kernel sizes. With `always`, merges them regardless of cost, together with the operators that follow every branch, and slices the
    result, as in Relay."""
    name = "CombineParallelConv2D"
    if always:
        return ParallelBranches(name, Joined("nn.conv2d"), min_num_branches)
    sets = (Parallel.only("convolutions", "convolutions_per_channel"),)
    return CombineParallel(sets, name=name, min_num_branches=min_num_branches, after=["Explore"])


@register_pass("relay._transform.CombineParallelDense")
def combine_parallel_dense(min_num_branches: int = 3, to_batch: bool = False, always: bool = False) -> CombineParallel | ParallelBranches:
    """Merges products of one operand with several weights, and the biases, ReLUs, reshapes and transposes to attention heads that follow.
    With `to_batch`, merges products with weights of one shape into a batched product. With `always`, merges dense layers regardless of
    cost, together with the operators that follow every branch, as in Relay."""
    name = "CombineParallelDense"
    if always:
        return ParallelBranches(name, Stacked() if to_batch else Joined("nn.dense", spreads=True), min_num_branches)
    sets = (Parallel.only("stacks"),) if to_batch else (Parallel.only("products", "heads"),)
    return CombineParallel(sets, name=name, min_num_branches=min_num_branches, after=["CombineParallelConv2D"])


@register_pass("relay._transform.CombineParallelBatchMatmul")
def combine_parallel_batch_matmul(min_num_branches: int = 3, always: bool = False) -> CombineParallel | ParallelBranches:
    """Merges products of one stack of matrices with several stacks; with `always`, regardless of cost, together with the operators that
    follow every branch, as in Relay."""
    name = "CombineParallelBatchMatmul"
    if always:
        return ParallelBranches(name, Joined("nn.batch_matmul"), min_num_branches)
    sets = (Parallel.only("batches"),)
    return CombineParallel(sets, name=name, min_num_branches=min_num_branches, after=["CombineParallelDense"])


_PREFIX: Final = "relay._transform."
_DIVISORS: Final = FastMath.only("reciprocal").of_kind(EXPLORING).when(has_several(c), is_first_divided(x))
"""Divisors of channels are scales, as in normalizations that exporters write out. (Scalar ones belong to patterns, such as Gelu's.)"""
_BACKWARD: Final = (ConstantFolding, BackwardScaleAxis, ScaleAxis, Constants, _DIVISORS)
_FORWARD: Final = (ConstantFolding, ForwardScaleAxis, ScaleAxis.only("biases"), _DIVISORS)


@overload
def backward_fold_scale_axis(always: Literal[False] = False) -> RulePass: ...
@overload
def backward_fold_scale_axis(always: bool) -> RulePass | FoldScales: ...
@register_pass(_PREFIX + "BackwardFoldScaleAxis")
def backward_fold_scale_axis(always: bool = False) -> RulePass | FoldScales:
    """Hoists scales past rectifiers, poolings, transposes and sums, and folds them into the weights of the preceding products. With
    `always`, folds scales into convolutions and dense layers regardless of cost, if the tensors in between have no other uses, as in
    Relay."""
    if always:
        return FoldScales("BackwardFoldScaleAxis", fold_backward)
    return RulePass(_BACKWARD, name="BackwardFoldScaleAxis", opt_level=3)


@overload
def forward_fold_scale_axis(always: Literal[False] = False) -> RulePass: ...
@overload
def forward_fold_scale_axis(always: bool) -> RulePass | FoldScales: ...
@register_pass(_PREFIX + "ForwardFoldScaleAxis")
def forward_fold_scale_axis(always: bool = False) -> RulePass | FoldScales:
    """Sinks scales past rectifiers, poolings, transposes and sums, and folds them into the weights of the following products. Folds shifts
    into their biases if nothing is padded. With `always`, folds scales into convolutions and dense layers regardless of cost, if all uses
    of the scaled tensor lead to such products, as in Relay."""
    if always:
        return FoldScales("ForwardFoldScaleAxis", fold_forward)
    return RulePass(_FORWARD, name="ForwardFoldScaleAxis", opt_level=3)


@overload
def fold_scale_axis(always: Literal[False] = False) -> RulePass: ...
@overload
def fold_scale_axis(always: bool) -> RulePass | Sequential: ...
@register_pass(_PREFIX + "FoldScaleAxis")
def fold_scale_axis(always: bool = False) -> RulePass | Sequential:
    """Runs BackwardFoldScaleAxis, then ForwardFoldScaleAxis; with `always`, in the forms that move scales regardless of cost, as in Relay,
    and then FoldConstant."""
    if always:
        members = [backward_fold_scale_axis(always=True), forward_fold_scale_axis(always=True), fold_constant()]
        return Sequential(members, opt_level=3, name="FoldScaleAxis")
    phases = (phase(*_BACKWARD), phase(*_FORWARD, rule_matches=1000))
    return RulePass(phases, name="FoldScaleAxis", opt_level=3, after=["EliminateCommonSubexpr"])
