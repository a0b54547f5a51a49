"""Passes that write programs in other operators, for the target.

Some recover operators from what exporters make of them, also operators of a later opset or of another domain than ONNX's own. Others write
programs in the forms that the target runs fastest. The rest replace calls at any cost: Legalize and its like, CanonicalizeCast, which moves
casts to their uses, and AvoidSkipLayerNorm, for sums that ONNX Runtime is not to fuse.
"""

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Unpack

from passat.ir.dtypes import FLOATS, itemsize
from passat.ir.expr import Call, Expr, Function, Tuple
from passat.ir.infer import InferError, infer_type
from passat.ir.module import IRModule
from passat.ir.onnx.opaque import OpaqueOp
from passat.ir.op import Op, get_op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, post_order, rewrite, with_children
from passat.ir.types import TensorType
from passat.passmgr import ConfigError, FunctionPass, Pass, PassContext, PassInfo, Place, list_passes, register_option, register_pass
from passat.rules import library
from passat.rules.library.arithmetic import Constants, Units
from passat.rules.library.attention import AttentionInputs, Attentions
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.hidden_state import HiddenStates, TransformerWeights
from passat.rules.library.lowering import CanonicalOps, ContribForms, TargetForms
from passat.rules.library.lowering import FastMath as FastMathRules
from passat.rules.library.masks import AttentionMasks, BatchTransposes
from passat.rules.library.raising import RaiseOps, RootForms
from passat.rules.library.views import Broadcasts, Copies, Transposes, Views
from passat.rules.pass_options import written_opset
from passat.rules.passes.legalize import LegalizeByAttribute
from passat.rules.pattern import RuleError
from passat.rules.rule import EXACT, FINITE, LOWERING, RuleSetMeta
from passat.rules.rule_pass import Phase, RulePass, phase

register_option(
    "rules.domains",
    list[str],
    [],
    "Domains beside ONNX's own whose operators the target has, such as com.microsoft (ONNX Runtime); those that the model imports it has.",
)


def target_domains(mod: IRModule, ctx: PassContext) -> frozenset[str]:
    """The domains of operators that a target has: `rules.domains`, and those that the ONNX model itself imports."""
    asked: list[str] = ctx.get_config("rules.domains")
    return frozenset(asked) | _imported(mod)


def _imported(mod: IRModule) -> frozenset[str]:
    return frozenset(getattr(mod.attrs.get("onnx"), "versions", ()))


class TargetPass(RulePass):
    """A rule pass that does nothing where the target's opset is before `since`, or where it has not the operators of a domain. It says so
    in a remark."""

    def __init__(
        self,
        sets: Sequence[RuleSetMeta | Phase],
        *,
        name: str,
        since: int = 1,
        domain: str = "",
        opt_level: int = 2,
        doc: str = "",
        **place: Unpack[Place],
    ) -> None:
        super().__init__(sets, name=name, opt_level=opt_level, doc=doc, **place)
        self.since = since
        self.domain = domain

    def applies(self, mod: IRModule, ctx: PassContext) -> bool:
        """Whether the target has what the pass makes."""
        opset = written_opset(mod, ctx) or 1
        if opset < self.since:
            ctx.remark(self.info.name, f"the target has opset {opset}, before {self.since}: nothing was raised")
        elif self.domain and self.domain not in target_domains(mod, ctx):
            ctx.remark(self.info.name, f"the target has no operators of {self.domain} (rules.domains): none was made")
        else:
            return True
        return False


def check_domains(mod: IRModule, ctx: PassContext, passes: Iterable[Pass]) -> None:
    """Raises ConfigError with the nearest name where `rules.domains` names a domain that the model does not import, and of which neither
    one of these passes nor a registered one makes operators."""
    asked = frozenset(ctx.get_config("rules.domains")) - _imported(mod)
    if not asked:
        return
    made = [entry.make({}) for entry in list_passes() if all(option.default is not option.empty for option in entry.options.values())]
    known = sorted({pass_.domain for pass_ in (*passes, *made) if isinstance(pass_, TargetPass)} - {""})
    for domain in sorted(asked.difference(known)):
        near = difflib.get_close_matches(domain, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"passes do of {', '.join(known)}"
        raise ConfigError(f"config rules.domains names {domain!r}, of which no pass makes operators; {hint}")


_PREFIX: Final = "relay._transform."
RAISING: Final = (RootForms, RaiseOps, Views)
"""Rules that recover an operator from the nodes that it is written as where a target, or its opset, does not have it."""
_MERGED: Final = (Transposes, Views, Copies, Broadcasts, Units)


@register_pass(_PREFIX + "CollapseBatchDims")
def collapse_batch_dims() -> RulePass:
    """Stacks of rows become matrices where reshapes cancel: products take their biases, and what is between them works on matrices. Before
    that masks, guards of softmax, experts and layer scale."""
    before = phase(ConstantFolding, TransformerWeights, BatchTransposes, AttentionMasks, *_MERGED)
    after = phase(HiddenStates, BatchTransposes, *_MERGED)
    doc = collapse_batch_dims.__doc__ or ""
    return RulePass((before, after), name="CollapseBatchDims", opt_level=3, doc=doc, after=["RaiseAttention"])


@register_pass(_PREFIX + "TargetForms")
def target_forms() -> RulePass:
    """Of two ways to write the same, the one that the target's kernels run faster: global pooling, and reshapes that count."""
    return RulePass((TargetForms,), name="TargetForms", opt_level=3, doc=target_forms.__doc__ or "", after=["ContribOperators"])


@register_pass(_PREFIX + "RaiseOps")
def raise_operators() -> RulePass:
    """Recovers normalizations, activations and softmax from the nodes that exporters make of them."""
    # In the stage of the passes that take programs apart, which so decides between their forms and its own.
    return RulePass((ConstantFolding, *RAISING), name="RaiseOps", opt_level=3, doc=raise_operators.__doc__ or "", after=["LinearAlgebra"])


@register_pass(_PREFIX + "RaiseAttention")
def raise_attention() -> RulePass:
    """Recovers attention and rotary positions, for targets that have both (ONNX from opset 23 on)."""
    first = phase(ConstantFolding, BatchTransposes, AttentionMasks, AttentionInputs, Constants, *_MERGED)
    then = phase(Attentions, BatchTransposes, *_MERGED)
    doc = raise_attention.__doc__ or ""
    return TargetPass((first, then), since=23, name="RaiseAttention", opt_level=3, doc=doc, after=["RaiseOps"])


@register_pass(_PREFIX + "ContribOperators")
def contrib_operators() -> TargetPass:
    """Biased Gelu, Swish and products with factors or transposed operands as ONNX Runtime's own operators, for targets that have them."""
    sets = (ConstantFolding, ContribForms)
    doc = contrib_operators.__doc__ or ""
    return TargetPass(sets, domain="com.microsoft", name="ContribOperators", opt_level=3, doc=doc, after=["CollapseBatchRegions"])


@register_pass("relay._transform.ReadOpaque")
@dataclass(frozen=True)
class ReadOpaque(FunctionPass):
    """Opaque calls of ONNX operators become calls of Passat's own operators, where operands are known by now that have to be."""

    info = PassInfo(0, "ReadOpaque", ["InferType"], provides=("types",), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Reads the opaque calls of one function again. Modules that were not read from ONNX stay as they are."""
        return read_opaque(func) if "onnx" in mod.attrs else func


def read_opaque(function: Function) -> Function:
    """The function with calls of Passat's own operators where these do what opaque ones did; itself where there are none."""
    if not any(isinstance(node, Call) and isinstance(node.op, OpaqueOp) for node in post_order(function)):
        return function
    from passat.ir.onnx.read_again import read_again  # which needs onnx

    def read(old: Expr, new: Expr) -> Expr:
        if not isinstance(new, Call) or not isinstance(new.op, OpaqueOp):
            return new
        infer_type(new)
        return read_again(new) or new

    try:
        made = rewrite(function, read)
        result = function if made is function else infer_type(made)
    except InferError:  # what is known by now contradicts another node: such a model runs, if at all, as it is
        return function
    assert isinstance(result, Function)
    return result


class LoweringPass(RulePass):
    """A rule pass whose rules lower, after everything else has been chosen, so that no other pass shares its e-graph. They also run
    where they assume finite values, unless `rules.math` is `exact`: a pass that is asked for by name, and then does nothing by default,
    would be of no use."""

    def __init__(self, sets: Sequence[RuleSetMeta], *, name: str, opt_level: int, doc: str) -> None:
        super().__init__(sets, name=name, opt_level=opt_level, joint=False, doc=doc)

    def _math(self, ctx: PassContext) -> str:
        return EXACT if super()._math(ctx) == EXACT else FINITE


@register_pass(_PREFIX + "FastMath")
def fast_math() -> RulePass:
    """Exponential functions of 32-bit floats become approximations by polynomials (fast_exp, fast_tanh, fast_erf, nn.fast_softmax)."""
    return LoweringPass((FastMathRules,), name="FastMath", opt_level=4, doc=fast_math.__doc__ or "")


@register_pass(_PREFIX + "CanonicalizeOps")
def canonicalize_ops() -> RulePass:
    """Biases are added as what they are: nn.bias_add becomes expand_dims and add."""
    return LoweringPass((CanonicalOps,), name="CanonicalizeOps", opt_level=3, doc=canonicalize_ops.__doc__ or "")


@register_pass(_PREFIX + "Legalize")
def legalize(sets: tuple[str | RuleSetMeta, ...] = (), attribute: str = "FTVMLegalize") -> RulePass | LegalizeByAttribute:
    """Operators become what rules say that they are made of: `sets` are rule sets, or names of sets of the library, all of whose rules
    lower here. Without sets, what functions return that are registered for operators as `attribute`. Raises RuleError for what is no such
    set, and for rules that cannot lower (several roots, both directions)."""
    if not sets:
        return LegalizeByAttribute(attribute)
    return LoweringPass([_set(each).of_kind(LOWERING) for each in sets], name="Legalize", opt_level=1, doc=legalize.__doc__ or "")


def _set(given: str | RuleSetMeta) -> RuleSetMeta:
    if isinstance(given, RuleSetMeta):
        return given
    known = library.rule_sets()
    if given not in known:
        raise RuleError(f"Legalize: there is no rule set {given!r} in the library; there are {', '.join(known)}")
    return known[given]


_BROADCAST: Final = 1
"""Operators of this pattern or below are fused with a cast before them."""


@register_pass("relay._transform.CanonicalizeCast")
class CanonicalizeCast(FunctionPass):
    """Each elementwise use of a value that was cast to a wider element type gets a cast of its own, so that fusion takes the cast along
    and the narrow value is what is kept. Passes that are made of rules share the casts again."""

    info = PassInfo(3, "CanonicalizeCast", ["InferType"], provides=("types",), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Copies the casts of one function."""
        infer_type(func)
        used: set[int] = set()
        made: dict[int, Expr] = {}
        for node in post_order(func, into=lambda part: not is_sealed(part)):
            if is_sealed(node):
                made[id(node)] = node
                continue
            parts = [made[id(part)] for part in children(node)]
            if isinstance(node, Call) and isinstance(node.op, Op) and node.op.pattern <= _BROADCAST:
                for i, part in enumerate(node.args, 1):
                    if _is_widening(part):
                        parts[i] = _copied(parts[i]) if id(part) in used else parts[i]
                        used.add(id(part))
            made[id(node)] = with_children(node, parts)
        result = made[id(func)]
        assert isinstance(result, Function)
        infer_type(result)
        return result


def _is_widening(node: Expr) -> bool:
    if not (isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "cast"):
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
    """Writes sums that nothing but a layer normalization reads as `elemwise_sum`: the same values, bit for bit."""

    info = PassInfo(3, "AvoidSkipLayerNorm", ["InferType"], provides=("types",), preserves=("types",), after=["TargetForms"])

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Respells the sums of one function."""
        return avoid_skip_layer_norm(func)


def avoid_skip_layer_norm(function: Function) -> Function:
    """The function with `elemwise_sum` for each sum that SkipLayerNormalization would take; itself where there is none."""
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

    result = infer_type(rewrite(function, respell))
    assert isinstance(result, Function)
    return result


def _is_norm(call: Call) -> bool:
    return isinstance(call.op, Op) and call.op.name in _NORMS


def _is_skip(expr: Expr) -> bool:
    """Whether an expression is the sum of two float tensors of one shape, of rank three."""
    if not isinstance(expr, Call) or expr.op is not get_op("add"):
        return False
    a, b = (arg.checked_type for arg in expr.args)
    return isinstance(a, TensorType) and isinstance(b, TensorType) and a.ndim == 3 and a.shape == b.shape and a.dtype in FLOATS
