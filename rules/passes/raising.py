"""Passes that recover operators from what exporters make of them, and write programs as the target runs them fastest."""

from typing import Final

from passat.passmgr import register_pass
from passat.rules.library.arithmetic import Constants, Units
from passat.rules.library.attention import AttentionInputs, Attentions
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.hidden_state import HiddenStates, TransformerWeights
from passat.rules.library.lowering import ContribForms, TargetForms
from passat.rules.library.masks import AttentionMasks, BatchTransposes
from passat.rules.library.raising import RaiseOps, RootForms
from passat.rules.library.views import Broadcasts, Copies, Transposes, Views
from passat.rules.passes.target import TargetPass
from passat.rules.rule_pass import RulePass
from passat.rules.schedule import phase

_PREFIX: Final = "relay._transform."
RAISING: Final = (RootForms, RaiseOps, Views)
"""Rules that recover an operator from the nodes that it is written as where a target, or its opset, does not have it."""
_MERGED: Final = (Transposes, Views, Copies, Broadcasts, Units)


@register_pass(_PREFIX + "FlattenHiddenState")
def flatten_hidden_state() -> RulePass:
    """Stacks of rows become matrices where reshapes cancel: products take their biases, and what is between them works on matrices. Before
    that masks, guards of softmax, experts and layer scale."""
    before = phase(ConstantFolding, TransformerWeights, BatchTransposes, AttentionMasks, *_MERGED)
    after = phase(HiddenStates, BatchTransposes, *_MERGED)
    doc = flatten_hidden_state.__doc__ or ""
    return RulePass((before, after), name="FlattenHiddenState", opt_level=3, doc=doc, after=["RaiseAttention"])


@register_pass(_PREFIX + "Spell")
def spell() -> RulePass:
    """Of two ways to write the same, the one that the target's kernels run faster: global pooling, and reshapes that count."""
    return RulePass((TargetForms,), name="Spell", opt_level=3, doc=spell.__doc__ or "", after=["ContribOperators"])


@register_pass(_PREFIX + "Raise")
def raise_operators() -> RulePass:
    """Recovers normalisations, activations and softmax from the nodes that exporters make of them."""
    # In the stage of the passes that take programs apart, which so decides between their forms and its own.
    return RulePass((ConstantFolding, *RAISING), name="Raise", opt_level=3, doc=raise_operators.__doc__ or "", after=["LinearAlgebra"])


@register_pass(_PREFIX + "RaiseAttention")
def raise_attention() -> RulePass:
    """Recovers attention and rotary positions, for targets that have both (ONNX from opset 23 on)."""
    first = phase(ConstantFolding, BatchTransposes, AttentionMasks, AttentionInputs, Constants, *_MERGED)
    then = phase(Attentions, BatchTransposes, *_MERGED)
    doc = raise_attention.__doc__ or ""
    return TargetPass((first, then), since=23, name="RaiseAttention", opt_level=3, doc=doc, after=["Raise"])


@register_pass(_PREFIX + "ContribOperators")
def contrib_operators() -> TargetPass:
    """Biased Gelu, Swish and products with factors or transposed operands as ONNX Runtime's own operators, for targets that have them."""
    sets = (ConstantFolding, ContribForms)
    doc = contrib_operators.__doc__ or ""
    return TargetPass(sets, domain="com.microsoft", name="ContribOperators", opt_level=3, doc=doc, after=["FlattenRegions"])
