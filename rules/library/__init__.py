"""The rules themselves, grouped by what they are about."""

from typing import TYPE_CHECKING
from typing import Any as AnyValue

from passat.rules.library.arithmetic import Arithmetic, Constants, Repetitions, Units
from passat.rules.library.attention import Attentions, Rotations, ScoreScales, SharedHeads
from passat.rules.library.attention_forms import BatchTransposes, Masks, SoftmaxGuards
from passat.rules.library.batch_norm import Normalisations, ScaleAxis
from passat.rules.library.clips import Clips
from passat.rules.library.combine_parallel import ParallelBatches, ParallelConvolutions, ParallelHeads, ParallelProducts, ParallelStacks
from passat.rules.library.concats import ConcatsOfSlices, Gathers, NestedConcats, SlicesOfConcats, SplitsOfConcats
from passat.rules.library.contrib import ContribGelus, ContribProducts
from passat.rules.library.convolution_chains import ConvolutionChains, ConvolutionSums, NormalisedConvolutions
from passat.rules.library.dynamic import DynamicToStatic
from passat.rules.library.dynamic_views import DynamicCopies, DynamicViews, Fulls, TurnedBatches
from passat.rules.library.experts import Experts
from passat.rules.library.factoring import (
    Associativity,
    Cancellations,
    Commutativity,
    Distribution,
    Factoring,
    Inverses,
    Outwards,
    Reassociation,
)
from passat.rules.library.fast_math import FastMath
from passat.rules.library.full_like import Fills, LikeForms
from passat.rules.library.gelu_forms import Gelus, Swishes
from passat.rules.library.grouped_query import GroupedQueries
from passat.rules.library.hidden_state import Embeddings, HiddenStates, Rows, TakenRows, ThirdParts
from passat.rules.library.inference import Inference
from passat.rules.library.layer_scale import LayerScale
from passat.rules.library.layouts import ChannelsFirst, ChannelsLast
from passat.rules.library.linear import Products, Scales
from passat.rules.library.lookups import Lookups
from passat.rules.library.masks import MaskArithmetic, MaskConstants, NegatedComparisons
from passat.rules.library.matmul_chains import AffineBefore, AttentionScale, Grouping, MatmulChains, MatmulSums
from passat.rules.library.normalisation_forms import GroupNorms, LayerNorms, RootMeanSquares, Roots, Softmaxes
from passat.rules.library.passages import BinaryPassages, RowPassages, UnaryPassages
from passat.rules.library.powers import Binomials, Doubles, Powers, Sums
from passat.rules.library.reductions import ReducedConcats, ReducedCopies, ReducedViews, RepeatedReductions, ScaledReductions, SoftmaxShifts
from passat.rules.library.scale_axis import BackwardScaleAxis, Biases, ForwardScaleAxis
from passat.rules.library.scale_movement import ScalesDown, ScalesUp
from passat.rules.library.selections import Thresholds
from passat.rules.library.spelling import GlobalPools, OpenSizes
from passat.rules.library.taso import TasoConcatenations, TasoConvolutions, TasoElementwise, TasoProducts
from passat.rules.library.transposed_products import TransposedOperands, TransposedProducts, WeightsLast
from passat.rules.library.unpacking import CanonicalOps, Unpacking
from passat.rules.library.views import Broadcasts, Casts, Copies, NewAxes, Slices, Transposes, Views

if TYPE_CHECKING:
    from passat.rules.library.layout_passages import LayoutsDown, LayoutsUp, TurnedViews

__all__ = [
    "AffineBefore",
    "Arithmetic",
    "Associativity",
    "AttentionScale",
    "Attentions",
    "BackwardScaleAxis",
    "BatchTransposes",
    "Biases",
    "BinaryPassages",
    "Binomials",
    "Broadcasts",
    "Cancellations",
    "CanonicalOps",
    "Casts",
    "ChannelsFirst",
    "ChannelsLast",
    "Clips",
    "Commutativity",
    "ConcatsOfSlices",
    "Constants",
    "ContribGelus",
    "ContribProducts",
    "ConvolutionChains",
    "ConvolutionSums",
    "Copies",
    "Distribution",
    "Doubles",
    "DynamicCopies",
    "DynamicToStatic",
    "DynamicViews",
    "Embeddings",
    "Experts",
    "Factoring",
    "FastMath",
    "Fills",
    "ForwardScaleAxis",
    "Fulls",
    "Gathers",
    "Gelus",
    "GlobalPools",
    "GroupNorms",
    "GroupedQueries",
    "Grouping",
    "HiddenStates",
    "Inference",
    "Inverses",
    "LayerNorms",
    "LayerScale",
    "LayoutsDown",
    "LayoutsUp",
    "LikeForms",
    "Lookups",
    "MaskArithmetic",
    "MaskConstants",
    "Masks",
    "MatmulChains",
    "MatmulSums",
    "NegatedComparisons",
    "NestedConcats",
    "NewAxes",
    "Normalisations",
    "NormalisedConvolutions",
    "OpenSizes",
    "Outwards",
    "ParallelBatches",
    "ParallelConvolutions",
    "ParallelHeads",
    "ParallelProducts",
    "ParallelStacks",
    "Powers",
    "Products",
    "Reassociation",
    "ReducedConcats",
    "ReducedCopies",
    "ReducedViews",
    "RepeatedReductions",
    "Repetitions",
    "RootMeanSquares",
    "Roots",
    "Rotations",
    "RowPassages",
    "Rows",
    "ScaleAxis",
    "ScaledReductions",
    "Scales",
    "ScalesDown",
    "ScalesUp",
    "ScoreScales",
    "SharedHeads",
    "Slices",
    "SlicesOfConcats",
    "SoftmaxGuards",
    "SoftmaxShifts",
    "Softmaxes",
    "SplitsOfConcats",
    "Sums",
    "Swishes",
    "TakenRows",
    "TasoConcatenations",
    "TasoConvolutions",
    "TasoElementwise",
    "TasoProducts",
    "ThirdParts",
    "Thresholds",
    "TransposedOperands",
    "TransposedProducts",
    "Transposes",
    "TurnedBatches",
    "TurnedViews",
    "UnaryPassages",
    "Units",
    "Unpacking",
    "Views",
    "WeightsLast",
]


def __getattr__(name: str) -> AnyValue:
    """The sets that move transposes for layouts: hundreds of rules, made when they are first asked for."""
    if name in ("LayoutsDown", "LayoutsUp", "TurnedViews"):
        from passat.rules.library import layout_passages

        found = globals()[name] = getattr(layout_passages, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
