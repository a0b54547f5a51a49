"""Passes that put other calls in the place of some, whatever that costs: Legalize and its like, CanonicalizeCast, which puts casts
beside their uses, and SpellSums, for what ONNX Runtime does not fuse then."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from passat.ir.dtypes import FLOATS, itemsize
from passat.ir.expr import Call, Expr, Function, Tuple
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, post_order, rewrite, with_children
from passat.ir.types import TensorType
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass
from passat.rules import library
from passat.rules.library.lowering import CanonicalOps
from passat.rules.library.lowering import FastMath as FastMathRules
from passat.rules.pattern import RuleError
from passat.rules.rule import EXACT, FINITE, LOWERING, RuleSetMeta
from passat.rules.rule_pass import RulePass

_PREFIX: Final = "relay._transform."


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
def legalize(sets: tuple[str | RuleSetMeta, ...] = ()) -> RulePass:
    """Operators become what rules say that they are made of: `sets` are rule sets, or names of sets of the library, all of whose rules
    lower here. Raises RuleError for what is no such set, and for rules that cannot lower (several roots, both directions)."""
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


@register_pass("relay._transform.SpellSums")
@dataclass(frozen=True)
class SpellSums(FunctionPass):
    """Writes sums that nothing but a layer normalisation reads as `elemwise_sum`: the same values, bit for bit."""

    info = PassInfo(3, "SpellSums", ["InferType"], provides=("types",), preserves=("types",), after=["Spell"])

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Respells the sums of one function."""
        return spell_sums(func)


def spell_sums(function: Function) -> Function:
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
