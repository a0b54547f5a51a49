"""Passat's kernels in ONNX Runtime against other compilers of the same computation, on one thread.

    python benchmarks/kernel_compilers.py        # needs numba, and the extra jit (llvmlite)

Columns: ONNX Runtime's own nodes; Passat's kernel as a custom operator of ONNX Runtime; the same loops in C without ONNX Runtime
(`target="c"` of relay.build) and by LLVM (`target="llvm"`, llvmlite); and a NumPy function by numba (no fast math, not parallel). Times are
CPU times of the thread in milliseconds, the median over rounds in which all take turns on the same inputs.
"""

import hashlib
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any as AnyValue

import numba
import numpy as np
import onnx
from native_kernels import OWN, parsed

from passat.choose import choose_feed, take_turns
from passat.kernels import left_by_runtime
from passat.runner import Runner, custom_operators
from passat.runtime.jit.c_library import compile_with_c
from passat.runtime.jit.engine import compile_functions
from passat.runtime.jit.signature import NATIVE
from passat.runtime.kernels import build_library, compiler, fuse, library_source
from passat.runtime.kernels.whole import whole_model
from passat.verify import Comparing

_F = np.float32


@numba.njit
def _cheap(x):
    b = x * _F(1.1) + _F(0.3)
    return np.abs(np.sqrt(np.maximum(b * b, _F(0.1))) - _F(0.7)) * x


@numba.njit
def _functions(x):
    b = x * _F(1.1) + _F(0.3)
    return np.exp(np.tanh(x / (_F(1) + np.exp(-b))) + _F(0.5)) * x


@numba.vectorize
def _erf(x):
    return _F(math.erf(x))


@numba.njit
def _gelu(x):
    return x * _F(0.5) * (_erf(x * _F(0.70710678)) + _F(1))


@numba.njit
def _softmax(x):
    y = np.empty_like(x)
    for row in range(x.shape[0]):
        e = np.exp(x[row] - x[row].max())
        y[row] = e / e.sum()
    return y


@numba.njit
def _features(x, m, s):
    c = np.minimum(np.maximum((x - m) / s, _F(-3)), _F(3))
    return np.sqrt(np.abs(c) + _F(1)) * c + c


@numba.njit
def _gates(f, x):
    return np.tanh(f) * (_F(1) / (_F(1) + np.exp(-x))) + x


CASES: dict[str, Callable[..., AnyValue]] = {
    "8 cheap operators": _cheap,
    "8 with sigmoid, tanh, exp": _functions,
    "gelu as 5 nodes": _gelu,
    "softmax as 5 nodes": _softmax,
    "features of a table": _features,
    "audio gates": _gates,
}


def main() -> None:
    """Prints the table."""
    print("| case | ONNX Runtime | kernel | loops in C | loops by LLVM | numba |\n| :-- | --: | --: | --: | --: | --: |")
    for name, function in CASES.items():
        full, text = next((each, text) for each, text in OWN.items() if each.startswith(name))
        row(full, parsed(text), function)


def row(name: str, model: onnx.ModelProto, function: Callable[..., AnyValue]) -> None:
    """Measures one case, after comparing all results."""
    kernels = fuse(model, left_by_runtime(model, None).keys())
    assert kernels is not None
    library = build_library(library_source(kernels.kernels, kernels.domain), compiler())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{hashlib.sha256(library).hexdigest()}.so")
        path.write_bytes(library)
        plain = Runner(model, threads=1, optimize="all", arena=True)
        with custom_operators([path]):
            own = Runner(kernels.model, threads=1, optimize="all", arena=True)
        feed = choose_feed(plain, Comparing())
        runs = [
            lambda: plain.run(feed)[0],
            lambda: own.run(feed)[0],
            native(model, feed, compile_with_c),
            native(model, feed, compile_functions),
            lambda: function(*feed.values()),
        ]
        expected = runs[0]()
        for run in runs[1:]:
            np.testing.assert_allclose(run(), expected, rtol=1e-4, atol=1e-5)

        def measure(which: int, repeat: int) -> float:
            start = time.thread_time()
            for _ in range(repeat):
                runs[which]()
            return (time.thread_time() - start) / repeat

        times = take_turns(measure, len(runs), rounds=(7, 101), seconds=6.0, turn=0.002)
    print(f"| {name} | {' | '.join(f'{median(each) * 1e3:.3g}' for each in times)} |", flush=True)


def native(model: onnx.ModelProto, feed: dict[str, AnyValue], compile_loops: Callable[..., AnyValue]) -> Callable[[], AnyValue]:
    """The loops of a model's only kernel, compiled and called without ONNX Runtime."""
    whole = whole_model(model)
    assert whole is not None
    [kernel] = whole.kernels
    compiled = compile_loops({"kernel": kernel.function})["kernel"]
    [(result, (dtype, shape))] = whole.made.items()

    def run() -> AnyValue:
        made = np.empty(shape, dtype)
        memory = {**whole.constants, **feed, result: made}
        compiled.__dict__[NATIVE](*[memory[name].ctypes.data for name in kernel.values])
        return made

    return run


if __name__ == "__main__":
    main()
