"""Models with kernels beside the same without, on ONNX Runtime without optimizations."""

import ctypes
import functools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import onnx
import pytest
from onnx import parser

from passat.ir.onnx_runtime import onnx_runtime
from passat.runtime.kernels import Kernels, NoCompilerError, build_library, compiler, fuse, library_source
from passat.runtime.kernels.fusing import key
from passat.runtime.kernels.interface import PROCESSOR, RUNTIME
from tests.share import SOAK

try:
    COMMAND = compiler()
except NoCompilerError as error:
    pytest.skip(str(error), allow_module_level=True)
NOT_OPTIMIZED = f'#pragma GCC push_options\n#pragma GCC optimize("O0")\n{RUNTIME}\n#pragma GCC pop_options\n'


@functools.cache
def built_as_always(source: str, command: tuple[str, ...] = tuple(COMMAND)) -> bytes:
    """The library of a source: tests have some in common."""
    return build_library(source, command)


def built(source: str) -> bytes:
    """The library of a source whose kernels are compiled as always, while in CI the code around them, on which GCC spends as much time as
    on a kernel, is not optimized; tests of `--kernels` have it as always."""
    return built_as_always(source if SOAK else source.replace(RUNTIME, NOT_OPTIMIZED))


@functools.cache
def most_level() -> int:
    """The level of instructions that this processor has."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "processor.so"
        library.write_bytes(
            built(f'{PROCESSOR}\n__attribute__((visibility("default"))) int most_level(void) {{ return level_of_processor(); }}')
        )
        return int(ctypes.CDLL(str(library)).most_level())


DOMAIN = f"passat.kernels.{'0' * 32}"
"""The domain of all kernels here, as long as those of libraries that are bound to one model. Models of the same kernels have one library."""
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 2.5, -2.5, 1e-40, -1e-40, 3.4e38, -3.4e38, 88.8, -104, 7], np.float32)
DTYPES = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "int32": np.int32, "int64": np.int64, "int8": np.int8, "uint8": np.uint8,
    "bool": np.bool_,
}  # fmt: skip


def model(text: str, opset: int = 20) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> {text}')


def fused(proto: onnx.ModelProto) -> Kernels:
    found = fuse(proto, {key(node) for node in proto.graph.node})
    assert found is not None
    return found


def session(proto: onnx.ModelProto, library: Path | None = None, threads: int = 1) -> AnyValue:
    onnxruntime = onnx_runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    if library is not None:
        options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def own_session(proto: onnx.ModelProto, folder: Path, threads: int = 1, level: int | None = None, kernels: int | None = 1) -> AnyValue:
    """The model with its kernels, whose number is checked unless it is None. They are compiled only for a level of instructions, by default
    that of this processor, or that if it lacks some. A library for all levels takes three times as long; tests of `--kernels` make such."""
    found = fused(proto)
    assert kernels in (None, sum(node.domain == found.domain for node in found.model.graph.node))
    onnx.checker.check_model(found.model)
    level = most_level() if level is None else min(level, most_level())
    library = folder / f"{found.domain}-{level}.so"
    library.write_bytes(built(library_source(found.kernels, DOMAIN, level)))
    renamed = found.model.SerializeToString().replace(found.domain.encode(), DOMAIN.encode())
    return session(onnx.ModelProto.FromString(renamed), library, threads)


def both(
    text: str,
    folder: Path,
    feeds: Sequence[Mapping[str, AnyValue]],
    kernels: int = 1,
    threads: int = 1,
    level: int | None = None,
    output: int = 0,
) -> list[tuple[AnyValue, AnyValue]]:
    """An output on ONNX Runtime, and with kernels."""
    proto = model(text)
    plain, own = session(proto), own_session(proto, folder, threads, level, kernels)
    return [(plain.run(None, dict(feed))[output], own.run(None, dict(feed))[output]) for feed in feeds]


def assert_same_bits(one: AnyValue, other: AnyValue, name: str = "") -> None:
    assert one.shape == other.shape
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(other, one, name)
    if one.dtype.kind == "f":
        known = ~np.isnan(one)
        np.testing.assert_array_equal(np.signbit(other[known]), np.signbit(one[known]), name)
