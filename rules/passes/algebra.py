"""Passes that regroup products: linear algebra, attention and the exchange rules of the TASO family, which explore within the budgets
of their rules; Relay's FoldScaleAxis and its passes that combine parallel branches."""

from collections.abc import Sequence
from typing import Final, Unpack

from passat.passmgr import Place, register_pass
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.matching import Matcher
from passat.rules.engine.stage import Stage
from passat.rules.library.arithmetic import Arithmetic, Constants, Sums, Units
from passat.rules.library.batch_norm import ScaleAxis
from passat.rules.library.commuting import CommuteBinary, CommuteUnary
from passat.rules.library.exchanges import ConvolutionChains, FloatConstants, TasoExchanges
from passat.rules.library.factoring import Cancellations, Factoring, Reassociate, Reductions
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.masks import MaskArithmetic
from passat.rules.library.matmul_algebra import MatmulAlgebra
from passat.rules.library.products import ParallelBatches, ParallelConvolutions, ParallelProducts, ParallelStacks, Products, Weights
from passat.rules.library.scale_axis import BackwardScaleAxis, BiasSums, ForwardScaleAxis
from passat.rules.library.views import ChainedViews, Concatenations, Copies, Transposes, Views
from passat.rules.rule import JOINING, RuleSetMeta
from passat.rules.rule_pass import RulePass, phase

TIDY: Final = (
    *(Units, Arithmetic, Constants, Transposes, Views, ChainedViews, Copies),
    *(Cancellations, MaskArithmetic, Reductions, Concatenations),
)
"""What makes programs no worse."""
ALGEBRA: Final = (
    *(Products, Weights, ScaleAxis, Sums, Factoring, MatmulAlgebra, ConvolutionChains),
    *(CommuteUnary, CommuteBinary, Reassociate.of_kind(JOINING)),
)
"""What offers alternatives, in one direction each."""
EXCHANGES: Final = (FloatConstants, Reassociate, TasoExchanges)
"""What goes in circles, and finds exponentially many programs if it is let."""


@register_pass("relay._transform.LinearAlgebra")
def linear_algebra() -> RulePass:
    """Linear maps, sums, reductions, concatenations, masks and attention: what composes does, what is common is computed once, and views
    and scales move to where they cost nothing."""
    phases = (
        phase(ConstantFolding, *TIDY, *ALGEBRA, rounds=8, rule_matches=200),
    )  # one, which ends without egglog where little is to be done
    doc = linear_algebra.__doc__ or ""
    return RulePass(phases, name="LinearAlgebra", opt_level=3, merge=True, doc=doc, after=["FoldScaleAxis"])


@register_pass("relay._transform.Explore")
def explore() -> RulePass:
    """What LinearAlgebra does, with sums and products in all orders and groups, and the exchange rules of the TASO family."""
    phases = (
        phase(ConstantFolding, *TIDY, rounds=4),
        phase(*TIDY, *ALGEBRA, rounds=5, rule_matches=200),
        phase(*EXCHANGES, rounds=1, rule_matches=200),
        phase(*TIDY, *ALGEBRA, rounds=2, rule_matches=200),
    )
    doc = explore.__doc__ or ""
    return RulePass(phases, name="Explore", opt_level=4, merge=True, joint=False, doc=doc, after=["CollapseBatchDims"])


class CombineParallel(RulePass):
    """Calls that share an operand run as one, where there are at least `min_num_branches` of them and that is cheaper."""

    def __init__(self, sets: Sequence[RuleSetMeta], *, name: str, min_num_branches: int = 3, doc: str = "", **place: Unpack[Place]) -> None:
        super().__init__((ConstantFolding, *sets), name=name, opt_level=4, joint=False, doc=doc, **place)
        self.min_num_branches = min_num_branches

    def _stages(self, math: str, disabled: Sequence[str]) -> list[Stage | Matcher | Grouper]:
        return [self._with_branches(stage) for stage in super()._stages(math, disabled)]

    def _with_branches(self, stage: Stage | Matcher | Grouper) -> Stage | Matcher | Grouper:
        if not isinstance(stage, Stage):
            return stage
        groupers = tuple(Grouper(grouper.rule.branches(self.min_num_branches)) for grouper in stage.groupers)
        return stage._replace(groupers=groupers)


@register_pass("relay._transform.CombineParallelConv2D")
def combine_parallel_conv2d(min_num_branches: int = 3) -> CombineParallel:
    """Convolutions of one tensor become one, with the biases, scales and relus of the branches where all have the same. Weights have one
    group and kernels of one size."""
    doc = combine_parallel_conv2d.__doc__ or ""
    return CombineParallel(
        (ParallelConvolutions,), name="CombineParallelConv2D", min_num_branches=min_num_branches, doc=doc, after=["Explore"]
    )


@register_pass("relay._transform.CombineParallelDense")
def combine_parallel_dense(min_num_branches: int = 3, to_batch: bool = False) -> CombineParallel:
    """Products of one operand with several weights become one, with biases and relus, and the reshapes and transposes to heads of
    attention. With `to_batch`, products with weights of one shape become the product of two stacks."""
    sets = (ParallelStacks,) if to_batch else (ParallelProducts,)
    doc = combine_parallel_dense.__doc__ or ""
    return CombineParallel(sets, name="CombineParallelDense", min_num_branches=min_num_branches, doc=doc, after=["CombineParallelConv2D"])


@register_pass("relay._transform.CombineParallelBatchMatmul")
def combine_parallel_batch_matmul(min_num_branches: int = 3) -> CombineParallel:
    """Products of one stack of matrices with several stacks become one."""
    doc = combine_parallel_batch_matmul.__doc__ or ""
    return CombineParallel(
        (ParallelBatches,), name="CombineParallelBatchMatmul", min_num_branches=min_num_branches, doc=doc, after=["CombineParallelDense"]
    )


_PREFIX: Final = "relay._transform."
_BACKWARD: Final = (ConstantFolding, BackwardScaleAxis, ScaleAxis, Sums, BiasSums)
_FORWARD: Final = (ConstantFolding, ForwardScaleAxis, BiasSums)


@register_pass(_PREFIX + "BackwardFoldScaleAxis")
def backward_fold_scale_axis() -> RulePass:
    """Scales go up, past rectifiers, poolings, transposes and sums, into the weights of the products before them."""
    return RulePass(_BACKWARD, name="BackwardFoldScaleAxis", opt_level=3, doc=backward_fold_scale_axis.__doc__ or "")


@register_pass(_PREFIX + "ForwardFoldScaleAxis")
def forward_fold_scale_axis() -> RulePass:
    """Scales go down, past rectifiers, poolings, transposes and sums, into the weights of the products behind them; shifts go into their
    biases where nothing is padded."""
    return RulePass(_FORWARD, name="ForwardFoldScaleAxis", opt_level=3, doc=forward_fold_scale_axis.__doc__ or "")


@register_pass(_PREFIX + "FoldScaleAxis")
def fold_scale_axis() -> RulePass:
    """What BackwardFoldScaleAxis does, and then what ForwardFoldScaleAxis does with that."""
    phases = (phase(*_BACKWARD), phase(*_FORWARD))
    doc = fold_scale_axis.__doc__ or ""
    return RulePass(phases, name="FoldScaleAxis", opt_level=3, doc=doc, after=["EliminateCommonSubexpr"])
