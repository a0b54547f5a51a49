"""The rules themselves, grouped by what they are about.

A few sets are not listed here, since no random program is ever one that they match; tests of their own run them: Attentions, SharedHeads,
Rotations (`attention`), GroupNorms (`normalisation_forms`), ThirdParts and TakenRows (`hidden_state`).
"""

from passat.rules.library.arithmetic import Arithmetic, Constants, Repetitions, Units
from passat.rules.library.attention import ScoreScales
from passat.rules.library.attention_forms import BatchTransposes, Masks, SoftmaxGuards
from passat.rules.library.batch_norm import Normalisations, ScaleAxis
from passat.rules.library.clips import Clips
from passat.rules.library.combine_parallel import ParallelBatches, ParallelConvolutions, ParallelHeads, ParallelProducts, ParallelStacks
from passat.rules.library.concats import ConcatsOfSlices, Gathers, NestedConcats, SlicesOfConcats, SplitsOfConcats
from passat.rules.library.convolution_chains import ConvolutionChains, ConvolutionSums, NormalisedConvolutions
from passat.rules.library.dynamic import DynamicToStatic
from passat.rules.library.factoring import Associativity, Cancellations, Commutativity, Distribution, Factoring, Inverses, Reassociation
from passat.rules.library.fast_math import FastMath
from passat.rules.library.full_like import Fills, LikeForms
from passat.rules.library.gelu_forms import Gelus, Swishes
from passat.rules.library.grouped_query import GroupedQueries
from passat.rules.library.hidden_state import Embeddings, HiddenStates, Rows
from passat.rules.library.inference import Inference
from passat.rules.library.layer_scale import LayerScale
from passat.rules.library.linear import Products, Scales
from passat.rules.library.masks import MaskArithmetic, MaskConstants, NegatedComparisons
from passat.rules.library.matmul_chains import AffineBefore, AttentionScale, Grouping, MatmulChains, MatmulSums, TransposedOperands
from passat.rules.library.normalisation_forms import LayerNorms, RootMeanSquares, Roots, Softmaxes
from passat.rules.library.passages import BinaryPassages, RowPassages, UnaryPassages
from passat.rules.library.powers import Binomials, Doubles, Powers, Sums
from passat.rules.library.reductions import ReducedConcats, ReducedCopies, ReducedViews, RepeatedReductions, ScaledReductions, SoftmaxShifts
from passat.rules.library.scale_axis import BackwardScaleAxis, Biases, ForwardScaleAxis
from passat.rules.library.scale_movement import ScalesDown, ScalesUp
from passat.rules.library.spelling import GlobalPools
from passat.rules.library.taso import TasoConcatenations, TasoConvolutions, TasoElementwise, TasoProducts
from passat.rules.library.unpacking import CanonicalOps, Unpacking
from passat.rules.library.views import Broadcasts, Casts, Copies, NewAxes, Slices, Transposes, Views

__all__ = [
    "AffineBefore",
    "Arithmetic",
    "Associativity",
    "AttentionScale",
    "BackwardScaleAxis",
    "BatchTransposes",
    "Biases",
    "BinaryPassages",
    "Binomials",
    "Broadcasts",
    "Cancellations",
    "CanonicalOps",
    "Casts",
    "Clips",
    "Commutativity",
    "ConcatsOfSlices",
    "Constants",
    "ConvolutionChains",
    "ConvolutionSums",
    "Copies",
    "Distribution",
    "Doubles",
    "DynamicToStatic",
    "Embeddings",
    "Factoring",
    "FastMath",
    "Fills",
    "ForwardScaleAxis",
    "Gathers",
    "Gelus",
    "GlobalPools",
    "GroupedQueries",
    "Grouping",
    "HiddenStates",
    "Inference",
    "Inverses",
    "LayerNorms",
    "LayerScale",
    "LikeForms",
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
    "RowPassages",
    "Rows",
    "ScaleAxis",
    "ScaledReductions",
    "Scales",
    "ScalesDown",
    "ScalesUp",
    "ScoreScales",
    "Slices",
    "SlicesOfConcats",
    "SoftmaxGuards",
    "SoftmaxShifts",
    "Softmaxes",
    "SplitsOfConcats",
    "Sums",
    "Swishes",
    "TasoConcatenations",
    "TasoConvolutions",
    "TasoElementwise",
    "TasoProducts",
    "TransposedOperands",
    "Transposes",
    "UnaryPassages",
    "Units",
    "Unpacking",
    "Views",
]
