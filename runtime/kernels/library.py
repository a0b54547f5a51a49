"""The C source of a library of custom operators: scalar functions, kernels, and the interface that ONNX Runtime calls."""

import re
from collections.abc import Sequence
from typing import Final

from passat.ir.tir.types import PointerType
from passat.runtime.kernels.axes import Block
from passat.runtime.kernels.c_expressions import TYPES
from passat.runtime.kernels.emit_c import emit, name_of
from passat.runtime.kernels.fusing import Kernel
from passat.runtime.kernels.interface import HEAD, LEVELS, PROCESSOR, REGISTER, RUNTIME
from passat.runtime.kernels.scalars import SCALARS

_ELEMENTS: Final = {
    "float32": (1, 4), "uint8": (2, 1), "int8": (3, 1), "int32": (6, 4), "int64": (7, 8), "bool": (9, 1), "float16": (10, 2),
    "float64": (11, 8),
}  # fmt: skip
"""The ONNX number and the size in bytes of each element type."""

_BEGIN: Final = r"""
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("{0}"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("{0}")
#endif
#undef FMAF
#undef FMA
#undef F16C
#define F16C 1
#define FMAF(x, y, z) __builtin_fmaf(x, y, z)
#define FMA(x, y, z) __builtin_fma(x, y, z)
"""
_END: Final = r"""
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
"""

_BOOKKEEPING: Final = f"""
#if !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif
{RUNTIME}
#if !defined(__clang__)
#pragma GCC pop_options
#endif
"""
"""GCC would spend a third of a second more on code that has no loops over elements."""
_LEVELS: Final = """
#if defined(__x86_64__)
#define LEVELS {}
#else
#define LEVELS 1
#endif
"""
_INTRINSICS: Final = r"""
#if defined(__x86_64__)
#include <immintrin.h>
#endif
"""
"""The compiler takes a third of a second to read them."""
_HALVES: Final = r"""
static void k_read_halves(const uint16_t* restrict x, float* restrict y, int64_t n) {
  int64_t i = 0;
#if F16C
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(x + i))));
#endif
  for (; i < n; ++i) y[i] = k_half(x[i]);
}
static void k_write_halves(const float* restrict x, uint16_t* restrict y, int64_t n) {
  int64_t i = 0;
#if F16C
  for (; i + 8 <= n; i += 8) _mm_storeu_si128((__m128i*)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
#endif
  for (; i < n; ++i) y[i] = k_to_half(x[i]);
}
"""
"""Conversions of float16, which compilers do not vectorize."""
_TABLES: Final = r"""
static void (*const read_halves[])(const uint16_t* restrict, float* restrict, int64_t) = LEVELS_OF(read_halves);
static void (*const write_halves[])(const float* restrict, uint16_t* restrict, int64_t) = LEVELS_OF(write_halves);
"""


def library_source(kernels: Sequence[Kernel], domain: str, level: int | None = None) -> str:
    """The C source of a library of kernels for an operator domain. Processors of x86-64 run the code for the instructions that they have.
    With `level`, a position in LEVELS, the library has that code alone, which the processor must be able to run."""
    has_halves = any(kernel.program.has_halves for kernel in kernels)
    functions = "\n".join([SCALARS, *([_HALVES] if has_halves else []), *(_functions(kernel) for kernel in kernels)])
    (first, target), *others = LEVELS.items() if level is None else list(LEVELS.items())[level : level + 1]
    parts = [f"#define HAS_HALVES {int(has_halves)}", *([_INTRINSICS] if has_halves else []), HEAD]
    parts += [_LEVELS.format(1 + len(others)), _for_level(functions, first, target), "#if LEVELS > 1"]
    parts += [_for_level(functions, prefix, target) for prefix, target in others]
    by_level = (", ".join(f"{prefix}_##name" for prefix in prefixes) for prefixes in ((first, *(name for name, _ in others)), (first,)))
    parts.append("#define LEVELS_OF(name) {{{}}}\n#else\n#define LEVELS_OF(name) {{{}}}\n#endif".format(*by_level))
    parts += [f"#define FLOAT16 {_ELEMENTS['float16'][0]}", *([_TABLES] if has_halves else []), _BOOKKEEPING]
    parts += [f"static const Tensor {kernel.name}_tensors[] = {{{_tensors(kernel)}}};" for kernel in kernels]
    rows = ",\n".join(
        f'  {{OP, "{kernel.name}", {len(kernel.program.inputs)}, {len(kernel.forms)}, {kernel.rank}, {_reduced(kernel)}, '
        f"{kernel.name}_tensors, LEVELS_OF({kernel.name}_rows)}}"
        for kernel in kernels
    )
    parts += [f"static const Kernel kernels[] = {{\n{rows}\n}};", f'#define DOMAIN_NAME "{domain}"', PROCESSOR, REGISTER]
    return "\n".join(parts)


def _for_level(functions: str, prefix: str, target: str) -> str:
    return "\n".join((_BEGIN.format(target), _again(functions, prefix), _END)) if target else functions


def _again(functions: str, prefix: str) -> str:
    """Functions renamed with a different prefix."""
    return re.sub(r"(?m)^#define (\w+)", r"#undef \1\n#define \1", re.sub(r"\bk_", f"{prefix}_", functions))


def _reduced(kernel: Kernel) -> str:
    block = kernel.block or Block(0, 0)
    flags = kernel.program.reduces, kernel.program.columns, kernel.program.has_halves
    return ", ".join(map(str, (*map(int, flags), block.first, block.last, *block.outer)))


def _tensors(kernel: Kernel) -> str:
    forms = [0] * len(kernel.program.inputs) + list(kernel.forms)
    kinds = [kind for kind, _ in kernel.program.inputs] + [kind for _, kind in kernel.program.outputs]
    return ", ".join("{{{}, {}, {}}}".format(*_ELEMENTS[kind], form) for kind, form in zip(kinds, forms, strict=True))


def _functions(kernel: Kernel) -> str:
    """The C functions of a kernel, and the one that selects a variant by the strides along the row."""
    count = len(kernel.program.inputs)
    mask = " | ".join(f"(int)(s[{number}] != 0) << {number}" for number in range(count))
    lines = [
        f"static void k_{kernel.name}_rows(const char* const* x, const int64_t* r, const int64_t* s, "
        "char* const* y, int64_t m, int64_t n, int64_t w, const int64_t* o, int64_t p, int64_t q) {",
        f"switch ({mask}) {{",
    ]
    for which, function in kernel.functions:
        args = []
        for param in function.params:
            kind, number = param.name[0], param.name[1:]
            if isinstance(param.type_annotation, PointerType):
                element = TYPES[param.type_annotation.element_type.dtype]
                args.append(f"({'' if kind == 'y' else 'const '}{element}*){'y' if kind == 'y' else 'x'}[{number}]")
            else:
                args.append(param.name if kind in "mnwpq" else f"{kind}[{number}]")
        lines.append(f"{'default' if which is None else f'case {which}'}: k_{name_of(function)}({', '.join(args)}); break;")
    return "\n".join([*(emit(function) for _, function in kernel.functions), *lines, "}\n}"])
