"""FoldScaleAxis: scales and shifts become part of the weights of the products before and behind them."""

from typing import Final

from passat.passmgr import register_pass
from passat.rules.library.arithmetic import Sums
from passat.rules.library.batch_norm import ScaleAxis
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.scale_axis import BackwardScaleAxis, BiasSums, ForwardScaleAxis
from passat.rules.rule_pass import RulePass
from passat.rules.schedule import phase

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
