"""The functions that calls of the loop IR name: what they do to memory, and whether they apply to vectors."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from passat.ir.tir.types import TirError


class CallEffectKind(IntEnum):
    """What a call does, from annotations to control flow. Calls up to `Pure` depend on their arguments only."""

    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    Opaque = 3
    SpecialCallArg = 4
    EmbedInfo = 5
    ControlJump = 6


@dataclass(frozen=True)
class Intrinsic:
    """A function that calls name. `vectorizable` functions apply to each lane of a vector."""

    name: str
    effect: CallEffectKind = CallEffectKind.Pure
    vectorizable: bool = False

    def same_as(self, other: object) -> bool:
        """Whether this is the other function."""
        return self == other

    def __str__(self) -> str:
        return f"Op({self.name})"


_VECTORIZABLE: Final = (
    *("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "ceil", "cos", "cosh", "exp", "exp10", "exp2", "fabs", "floor", "fma"),
    *("if_then_else", "isnan", "large_uint_imm", "log", "log2", "popcount", "pow", "q_multiply_shift", "reinterpret", "round"),
    *("shift_left", "shift_right", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)
_PURE: Final = (
    *("acos", "acosh", "address_of", "asin", "asinh", "atan", "atan2", "atanh", "call_llvm_pure_intrin", "call_pure_extern", "clz"),
    *("copysign", "erf", "fmod", "hypot", "isnullptr", "ldexp", "log10", "log1p", "nearbyint", "nextafter", "rsqrt", "sigmoid"),
    *("tvm_static_handle", "type_annotation", "vectorcombine", "vectorhigh", "vectorlow"),
)
_EFFECTS: Final = {
    CallEffectKind.ExprAnnotation: ("likely",),
    CallEffectKind.ReadState: ("tvm_struct_get",),
    CallEffectKind.UpdateState: (
        *("call_extern", "call_llvm_intrin", "call_spirv_pure_glsl450", "prefetch", "tvm_call_packed", "tvm_call_trace_packed"),
        *("tvm_stack_alloca", "tvm_stack_make_array", "tvm_stack_make_shape", "tvm_storage_sync", "tvm_struct_set"),
        *("tvm_throw_last_error", "tvm_tuple", "tvm_warp_shuffle"),
    ),
    CallEffectKind.SpecialCallArg: ("tvm_access_ptr",),
    CallEffectKind.ControlJump: ("ret",),
}

INTRINSICS: Final[dict[str, Intrinsic]] = {
    **{f"tir.{name}": Intrinsic(f"tir.{name}", vectorizable=True) for name in _VECTORIZABLE},
    **{f"tir.{name}": Intrinsic(f"tir.{name}") for name in _PURE},
    **{f"tir.{name}": Intrinsic(f"tir.{name}", effect) for effect, names in _EFFECTS.items() for name in names},
}
"""The functions by name."""


def intrinsic(name: str) -> Intrinsic:
    """The function with a name. Raises TirError if there is none.

    >>> intrinsic("tir.exp").vectorizable
    True
    """
    if name not in INTRINSICS:
        raise TirError(f"calls name a function of the loop IR, such as 'tir.exp'; there is no {name!r}")
    return INTRINSICS[name]
