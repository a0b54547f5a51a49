"""The rules themselves, grouped by what they are about."""

from passat.rules.library.arithmetic import Arithmetic, Constants, Repetitions, Units
from passat.rules.library.batch_norm import Normalisations, ScaleAxis
from passat.rules.library.dynamic import DynamicToStatic
from passat.rules.library.inference import Inference
from passat.rules.library.linear import Products, Scales
from passat.rules.library.views import Broadcasts, Casts, Copies, NewAxes, Slices, Transposes, Views

__all__ = [
    "Arithmetic",
    "Broadcasts",
    "Casts",
    "Constants",
    "Copies",
    "DynamicToStatic",
    "Inference",
    "NewAxes",
    "Normalisations",
    "Products",
    "Repetitions",
    "ScaleAxis",
    "Scales",
    "Slices",
    "Transposes",
    "Units",
    "Views",
]
