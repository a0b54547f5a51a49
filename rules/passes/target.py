"""Passes that write programs in other operators, for the target.

Some raise operators from the forms that exporters write, including operators of a later opset or of a domain other than ONNX's own. Others
write programs in the forms that the target runs fastest. The rest replace calls regardless of cost: passes such as Legalize,
CanonicalizeCast, which moves casts to their uses, and AvoidSkipLayerNorm, for sums that ONNX Runtime must not fuse.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Unpack

from passat.ir.analysis import is_call_of
from passat.ir.dtypes import FLOATS, itemsize
from passat.ir.expr import Call, Expr, Function, Tuple
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.sealed import is_sealed
from passat.ir.similar_names import did_you_mean
from passat.ir.traverse import children, post_order, rewrite, with_children
from passat.ir.types import TensorType, compatible
from passat.passmgr import ConfigError, FunctionPass, Pass, PassContext, PassInfo, Place, register_option, register_pass
from passat.rules import library
from passat.rules.library.arithmetic import Arithmetic, Constants
from passat.rules.library.attention import Attention
from passat.rules.library.data_movement import Copies
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.lowering import ContribForms, Decompositions, TargetForms
from passat.rules.library.lowering import FastMath as FastMathRules
from passat.rules.library.masks import Masks
from passat.rules.library.raising import Powers, RaiseOps
from passat.rules.library.relay_forms import CanonicalQuantized
from passat.rules.library.views import DynamicViews, Transposes, Views
from passat.rules.library.windows import Windows
from passat.rules.pattern import RuleError
from passat.rules.planned_rules import registered_passes
from passat.rules.rule import EXACT, FINITE, LOWERING
from passat.rules.rule_pass import Phase, RulePass, phase, written_opset
from passat.rules.rule_set import RuleSetMeta

register_option(
    "rules.domains",
    list[str],
    [],
    "Additional operator domains of the target, such as com.microsoft (ONNX Runtime); domains that the model imports are included.",
)


def target_domains(mod: IRModule, ctx: PassContext) -> frozenset[str]:
    """The operator domains of a target: `rules.domains`, and those that the ONNX model imports."""
    asked: list[str] = ctx.get_config("rules.domains")
    return frozenset(asked) | _imported(mod)


def _imported(mod: IRModule) -> frozenset[str]:
    return frozenset(getattr(mod.attrs.get("onnx"), "versions", ()))


class TargetPass(RulePass):
    """A rule pass that does nothing, and remarks on it, if the target's opset is before `since`, or if the target lacks the operators of a
    domain."""

    def __init__(
        self,
        sets: Sequence[RuleSetMeta | Phase],
        *,
        name: str,
        since: int = 1,
        domain: str = "",
        opt_level: int = 2,
        **place: Unpack[Place],
    ) -> None:
        super().__init__(sets, name=name, opt_level=opt_level, **place)
        self.since = since
        self.domain = domain

    def inapplicable(self, mod: IRModule, ctx: PassContext) -> str:
        """Which operators that the pass creates the target lacks."""
        opset = written_opset(mod, ctx) or 1
        if opset < self.since:
            return f"the target has opset {opset}, before {self.since}: nothing was raised"
        if self.domain and self.domain not in target_domains(mod, ctx):
            return f"the target has no operators of {self.domain} (rules.domains): none was created"
        return ""


def check_domains(mod: IRModule, ctx: PassContext, passes: Iterable[Pass]) -> None:
    """Raises ConfigError with the nearest name if `rules.domains` names a domain that the model does not import, and for which no pass,
    listed or registered, creates operators."""
    asked = frozenset(ctx.get_config("rules.domains")) - _imported(mod)
    if not asked:
        return
    made = (pass_ for _, pass_ in registered_passes())
    known = sorted({pass_.domain for pass_ in (*passes, *made) if isinstance(pass_, TargetPass)} - {""})
    for domain in sorted(asked.difference(known)):
        hint = did_you_mean(domain, known, 1) or f"; known domains: {', '.join(known)}"
        raise ConfigError(f"config rules.domains names {domain!r}, for which no pass creates operators{hint}")


_PREFIX: Final = "relay._transform."
RAISING: Final = (Powers, RaiseOps, Views)
"""Rules that raise decomposed operators."""
_MERGED: Final = (Transposes, Views, DynamicViews, Copies, Arithmetic)


@register_pass(_PREFIX + "TargetForms")
def target_forms() -> RulePass:
    """Chooses the form that the target's kernels run faster: global pooling, reshapes that infer a size, and windows that pad with 0."""
    sets = (ConstantFolding, TargetForms, Windows.only("convolution", "mean"))
    return RulePass(sets, name="TargetForms", opt_level=3, after=["ContribOperators"])


@register_pass(_PREFIX + "RaiseOps")
def raise_operators() -> RulePass:
    """Raises normalizations, activations and softmax that exporters have decomposed, except group normalization: ONNX Runtime has no kernel
    for it and decomposes it further, which takes 1.7 times as long."""
    # Belongs to the stage of the passes that decompose operators, so that cost decides between the forms.
    sets = (ConstantFolding, *RAISING)
    return RulePass(sets, name="RaiseOps", opt_level=3, without=("RaiseOps.group_norm",), after=["LinearAlgebra"])


@register_pass(_PREFIX + "RaiseAttention")
def raise_attention() -> RulePass:
    """Raises attention and rotary embeddings, for targets that have both (ONNX from opset 23)."""
    first = phase(ConstantFolding, Masks, Attention.only("rotary", "scaled_operand", "divided_scores"), Constants, *_MERGED)
    then = phase(Attention, *_MERGED)
    return TargetPass((first, then), since=23, name="RaiseAttention", opt_level=3, after=["RaiseOps"])


@register_pass(_PREFIX + "ContribOperators")
def contrib_operators() -> TargetPass:
    """Fuses biased Gelu, Swish, and products with factors or transposed operands into ONNX Runtime's own operators, for targets that have
    these."""
    sets = (ConstantFolding, ContribForms)
    return TargetPass(sets, domain="com.microsoft", name="ContribOperators", opt_level=3, after=["MergeProducts"])


class LoweringPass(RulePass):
    """A rule pass of lowering rules, which runs after all other choices and does not share its e-graph with other passes. It includes rules
    that assume finite values unless `rules.math` is `exact`: users request such a pass by name and expect it to work by default."""

    def __init__(self, sets: Sequence[RuleSetMeta], *, name: str, opt_level: int) -> None:
        super().__init__(sets, name=name, opt_level=opt_level, joint=False)

    def _math(self, ctx: PassContext) -> str:
        return EXACT if super()._math(ctx) == EXACT else FINITE


@register_pass(_PREFIX + "FastMath")
def fast_math() -> RulePass:
    """Approximates exponential functions of float32 by polynomials (fast_exp, fast_tanh, fast_erf, nn.fast_softmax)."""
    return LoweringPass((FastMathRules.only("exp", "approximated"),), name="FastMath", opt_level=4)


@register_pass(_PREFIX + "CanonicalizeOps")
def canonicalize_ops() -> RulePass:
    """Decomposes nn.bias_add into expand_dims and add."""
    return LoweringPass((Decompositions.only("bias_add"),), name="CanonicalizeOps", opt_level=3)


@register_pass(_PREFIX + "QnnCanonicalizeOps")
def qnn_canonicalize_ops() -> RulePass:
    """Decomposes quantized operators (qnn.*) into operators that can be written to ONNX."""
    return LoweringPass((CanonicalQuantized,), name="QnnCanonicalizeOps", opt_level=1)


@register_pass(_PREFIX + "DivToMul")
def div_to_mul() -> RulePass:
    """Multiplies floats by reciprocals of constants instead of dividing."""
    return LoweringPass((FastMathRules.only("reciprocal"),), name="DivToMul", opt_level=0)


@register_pass(_PREFIX + "FoldExplicitPadding")
def fold_explicit_padding() -> RulePass:
    """Makes paddings part of the convolutions and poolings behind them, where these pad with the same number."""
    sets = (Windows.only("convolution", "quantized", "mean", "maximum", "finite_maximum"),)
    return LoweringPass(sets, name="FoldExplicitPadding", opt_level=0)


@register_pass(_PREFIX + "FlattenAtrousConv")
def flatten_atrous_conv() -> RulePass:
    """Makes convolutions of blocks that are moved into the batch, and back, dilated convolutions."""
    return LoweringPass((Windows.only("dilated_convolution", "dilated_quantized"),), name="FlattenAtrousConv", opt_level=0)


@dataclass(frozen=True)
class LegalizeByAttribute(FunctionPass):
    """Replaces calls by the results of functions that are registered for their operators as the attribute `attribute`
    (`tvm.ir.register_op_attr`). A function gets the attributes of the call, its arguments, and a list of their types that ends with the
    type of the call. It returns an expression of the same type, or None to keep the call. Raises TypeError if it returns anything else.
    """

    attribute: str = "FTVMLegalize"

    info = PassInfo(1, "Legalize", required=("InferType",), provides=("types",), counters={"legalized": "calls that were replaced"})

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Legalizes one function."""
        count = 0

        def legal(old: Expr, made: Expr) -> Expr:
            nonlocal count
            function = old.op.get_attr(self.attribute) if isinstance(old, Call) and isinstance(old.op, Op) else None
            if function is None or not isinstance(made, Call) or not isinstance(old, Call):
                return made
            found = function(made.attrs, list(made.args), [*(arg.checked_type for arg in old.args), old.checked_type])
            if found is None:
                return made
            if not isinstance(found, Expr):
                raise TypeError(f"{self.attribute} of {made.op!r} must return an expression or None, not a {type(found).__name__}")
            if not compatible(infer_type(found).checked_type, old.checked_type):
                types = f"type {found.checked_type!r} for a call of type {old.checked_type!r}"
                raise TypeError(f"{self.attribute} of {made.op!r} returned {types}")
            count += 1
            return found

        made = rewrite(infer_type(func), legal)
        if count:
            ctx.record(self.info.name, "legalized", count)
        return made


@register_pass(_PREFIX + "Legalize")
def legalize(sets: tuple[str | RuleSetMeta, ...] = (), attribute: str = "FTVMLegalize") -> RulePass | LegalizeByAttribute:
    """Expands operators by rules: `sets` are rule sets, or names of sets of the library, whose rules all lower here. Without sets, expands
    operators by functions that are registered for them as `attribute`. Raises RuleError for unknown sets, and for rules that cannot lower
    (multi-pattern and bidirectional rules)."""
    if not sets:
        return LegalizeByAttribute(attribute)
    return LoweringPass([_set(each).of_kind(LOWERING) for each in sets], name="Legalize", opt_level=1)


def _set(given: str | RuleSetMeta) -> RuleSetMeta:
    if isinstance(given, RuleSetMeta):
        return given
    known = library.rule_sets()
    if given not in known:
        raise RuleError(f"Legalize: the library has no rule set {given!r}; it has {', '.join(known)}")
    return known[given]


_BROADCAST: Final = 1
"""Operators of this pattern or below fuse with a preceding cast."""


@register_pass("relay._transform.CanonicalizeCast")
class CanonicalizeCast(FunctionPass):
    """Gives each elementwise use of a widened value its own cast, so that fusion absorbs the casts and only the narrow value is stored.
    Rule passes share the casts again."""

    info = PassInfo(3, "CanonicalizeCast", ["InferType"], provides=("types",), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Duplicates the casts of one function."""
        used: set[int] = set()

        def copy(old: Expr, new: Expr) -> Expr:
            if not isinstance(old, Call) or not isinstance(old.op, Op) or old.op.pattern > _BROADCAST:
                return new
            parts = list(children(new))
            for i, part in enumerate(old.args, 1):
                if _is_widening(part):
                    parts[i] = _copied(parts[i]) if id(part) in used else parts[i]
                    used.add(id(part))
            return with_children(new, parts)

        return infer_type(rewrite(func, copy, into=lambda part: not is_sealed(part)))


def _is_widening(node: Expr) -> bool:
    if not is_call_of(node, "cast"):
        return False
    source, result = node.args[0].checked_type, node.checked_type
    return isinstance(source, TensorType) and isinstance(result, TensorType) and itemsize(source.dtype) < itemsize(result.dtype)


def _copied(cast: Expr) -> Expr:
    assert isinstance(cast, Call)
    return Call(cast.op, cast.args, cast.attrs, span=cast.span)


_NORMS: Final = ("nn.layer_norm", "nn.rms_norm")


@register_pass("relay._transform.AvoidSkipLayerNorm")
@dataclass(frozen=True)
class AvoidSkipLayerNorm(FunctionPass):
    """Rewrites sums that only a layer normalization reads as `elemwise_sum`, bit for bit equal, so that ONNX Runtime does not fuse
    SkipLayerNormalization. A walk, not a rule: an e-graph does not know which nodes of the result will read a sum."""

    info = PassInfo(3, "AvoidSkipLayerNorm", ["InferType"], provides=("types",), preserves=("types",), after=["TargetForms"])

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrites the sums of one function."""
        return avoid_skip_layer_norm(func)


def avoid_skip_layer_norm(function: Function) -> Function:
    """The function with `elemwise_sum` for each sum that SkipLayerNormalization would absorb; itself if there are none."""
    order = post_order(function, into=lambda node: not is_sealed(node))
    read = Counter(id(part) for node in order for part in children(node))
    found = {
        id(node.args[0])
        for node in order
        if isinstance(node, Call) and _is_norm(node) and read[id(node.args[0])] == 1 and _is_skip(node.args[0])
    }
    if not found:
        return function

    def respell(old: Expr, new: Expr) -> Expr:
        if id(old) not in found:
            return new
        assert isinstance(new, Call)
        return Call(get_op("elemwise_sum"), (Tuple(new.args),), span=new.span)

    return infer_type(rewrite(function, respell))


def _is_norm(call: Call) -> bool:
    return isinstance(call.op, Op) and call.op.name in _NORMS


def _is_skip(expr: Expr) -> bool:
    """True for the sum of two float tensors of one shape of rank three."""
    if not isinstance(expr, Call) or expr.op is not get_op("add"):
        return False
    a, b = (arg.checked_type for arg in expr.args)
    return isinstance(a, TensorType) and isinstance(b, TensorType) and a.ndim == 3 and a.shape == b.shape and a.dtype in FLOATS
