"""Passes that put other operators in the place of some, whatever that costs: who names such a pass asks for that."""

from collections.abc import Sequence
from typing import Final

from passat.passmgr import PassContext, register_pass
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
