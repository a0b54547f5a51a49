"""Passes that explore: linear algebra and attention, and the exchange rules of the TASO family. Each is bounded by the budgets of its rules
and by few rounds, so that what is exponentially large is not looked at in full.
"""

from typing import Final

from passat.passmgr import register_pass
from passat.rules.library.arithmetic import Arithmetic, Constants, Sums, Units
from passat.rules.library.batch_norm import ScaleAxis
from passat.rules.library.commuting import CommuteBinary, CommuteUnary
from passat.rules.library.exchanges import ConvolutionChains, FloatConstants, TasoExchanges
from passat.rules.library.factoring import Cancellations, Factoring, Reassociate, Reductions
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.masks import MaskArithmetic
from passat.rules.library.matmul_algebra import MatmulAlgebra
from passat.rules.library.products import Products, Weights
from passat.rules.library.views import ChainedViews, Concatenations, Copies, Transposes, Views
from passat.rules.rule import JOINING
from passat.rules.rule_pass import RulePass
from passat.rules.schedule import phase

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
    return RulePass(phases, name="Explore", opt_level=4, merge=True, joint=False, doc=doc, after=["FlattenHiddenState"])
