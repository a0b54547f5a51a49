"""FoldScaleAxis: scales and shifts become part of the weights of the products before and behind them."""

from typing import Final

from passat.passmgr import Sequential, get_pass, register_pass
from passat.rules.library.batch_norm import ScaleAxis
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.powers import Sums
from passat.rules.library.scale_axis import BackwardScaleAxis, Biases, ForwardScaleAxis
from passat.rules.library.scale_movement import ScalesDown, ScalesUp
from passat.rules.rule_pass import RulePass

_PREFIX: Final = "relay._transform."


@register_pass(_PREFIX + "BackwardFoldScaleAxis")
def backward_fold_scale_axis() -> RulePass:
    """Scales go up, past rectifiers, poolings, transposes and sums, into the weights of the products before them."""
    sets = (ConstantFolding, ScalesUp, ScaleAxis, BackwardScaleAxis, Sums, Biases)
    return RulePass(sets, name="BackwardFoldScaleAxis", opt_level=3, doc=backward_fold_scale_axis.__doc__ or "")


@register_pass(_PREFIX + "ForwardFoldScaleAxis")
def forward_fold_scale_axis() -> RulePass:
    """Scales go down, past rectifiers, poolings, transposes and sums, into the weights of the products behind them; shifts go into their
    biases where nothing is padded."""
    sets = (ConstantFolding, ScalesDown, ForwardScaleAxis, Biases)
    return RulePass(sets, name="ForwardFoldScaleAxis", opt_level=3, doc=forward_fold_scale_axis.__doc__ or "")


@register_pass(_PREFIX + "FoldScaleAxis")
def fold_scale_axis() -> Sequential:
    """BackwardFoldScaleAxis, ForwardFoldScaleAxis and FoldConstant."""
    members = [backward_fold_scale_axis(), forward_fold_scale_axis(), get_pass(_PREFIX + "FoldConstant")]
    return Sequential(members, opt_level=0, name="FoldScaleAxis", after=["EliminateCommonSubexpr"])
