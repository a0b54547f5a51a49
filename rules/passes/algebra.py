"""Passes that explore: linear algebra and attention, and the exchange rules of the TASO family. Each is bounded by the budgets of its rules
and by few rounds, so that what is exponentially large is not looked at in full.
"""

from typing import Final

from passat.passmgr import register_pass
from passat.rules.library import (
    AffineBefore,
    Arithmetic,
    Associativity,
    AttentionScale,
    BinaryPassages,
    Cancellations,
    Casts,
    Commutativity,
    ConcatsOfSlices,
    Constants,
    ConvolutionChains,
    ConvolutionSums,
    Copies,
    Distribution,
    Factoring,
    Gathers,
    GroupedQueries,
    Grouping,
    Inverses,
    MaskArithmetic,
    MaskConstants,
    MatmulChains,
    MatmulSums,
    NegatedComparisons,
    NestedConcats,
    NewAxes,
    NormalisedConvolutions,
    Outwards,
    Products,
    Reassociation,
    ReducedConcats,
    ReducedCopies,
    ReducedViews,
    RepeatedReductions,
    Repetitions,
    RowPassages,
    ScaleAxis,
    ScaledReductions,
    Scales,
    Slices,
    SlicesOfConcats,
    SoftmaxShifts,
    SplitsOfConcats,
    Sums,
    TasoConcatenations,
    TasoConvolutions,
    TasoElementwise,
    TasoProducts,
    TransposedOperands,
    TransposedProducts,
    Transposes,
    UnaryPassages,
    Units,
    Views,
    WeightsLast,
)
from passat.rules.rule_pass import RulePass
from passat.rules.schedule import phase

TIDY: Final = (
    *(Units, Repetitions, Arithmetic, Constants, Transposes, Views, NewAxes, Casts, Slices, Copies, Cancellations, Inverses),
    *(MaskArithmetic, MaskConstants, NegatedComparisons, SoftmaxShifts, RepeatedReductions, ReducedViews, ReducedCopies),
    *(ConcatsOfSlices, NestedConcats, SlicesOfConcats, SplitsOfConcats, Gathers),
)
"""What makes programs no worse."""
ALGEBRA: Final = (
    *(Products, Scales, ScaleAxis, Sums, Factoring, Distribution, Reassociation, ScaledReductions, ReducedConcats),
    *(MatmulChains, MatmulSums, Grouping, AffineBefore, AttentionScale, GroupedQueries),
    *(TransposedOperands, TransposedProducts, WeightsLast),
    *(ConvolutionChains, ConvolutionSums, NormalisedConvolutions, UnaryPassages, BinaryPassages, RowPassages),
)
"""What offers alternatives, in one direction each."""
EXCHANGES: Final = (Outwards, Commutativity, Associativity, TasoElementwise, TasoConcatenations, TasoProducts, TasoConvolutions)
"""What goes in circles, and finds exponentially many programs if it is let."""


@register_pass("relay._transform.LinearAlgebra")
def linear_algebra() -> RulePass:
    """Linear maps, sums, reductions, concatenations, masks and attention: what composes does, what is common is computed once, and views
    and scales move to where they cost nothing."""
    phases = (phase(*TIDY, *ALGEBRA, rounds=8, rule_matches=200),)  # one, which ends without egglog where little is to be done
    return RulePass(phases, name="LinearAlgebra", opt_level=3, fold=True, merge=True, doc=linear_algebra.__doc__ or "")


@register_pass("relay._transform.Explore")
def explore() -> RulePass:
    """What LinearAlgebra does, with sums and products in all orders and groups, and the exchange rules of the TASO family."""
    phases = (
        phase(*TIDY, rounds=4),
        phase(*TIDY, *ALGEBRA, rounds=5, rule_matches=200),
        phase(*EXCHANGES, rounds=1, rule_matches=200),
        phase(*TIDY, *ALGEBRA, rounds=2, rule_matches=200),
    )
    return RulePass(phases, name="Explore", opt_level=4, fold=True, merge=True, doc=explore.__doc__ or "")
