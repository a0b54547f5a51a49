"""Relay's passes that combine parallel branches: CombineParallelConv2D, CombineParallelDense, CombineParallelBatchMatmul.

The rules say what may run together (`passat.rules.library.products`); here is how many branches it takes.
"""

from collections.abc import Sequence
from typing import Unpack

from passat.passmgr import Place, register_pass
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.matching import Matcher
from passat.rules.engine.stage import Stage
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.products import ParallelBatches, ParallelConvolutions, ParallelProducts, ParallelStacks
from passat.rules.rule import RuleSetMeta
from passat.rules.rule_pass import RulePass


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
