"""Models with native kernels against the same models without, on ONNX Runtime with all optimizations and one thread.

    python benchmarks/kernels.py                 # own models, rich in chains: upper bounds, not a sample
    python benchmarks/kernels.py MODELS          # those of a folder, too

In each round the input, the input again (the control) and the model with kernels take turns; the table shows medians of the thread's CPU
time. The kernels are measured even if `passat optimize --kernels` would not keep them; the last column says whether it would.
"""

import argparse
import hashlib
import tempfile
import time
from pathlib import Path
from statistics import median

import onnx
from onnx import parser

from passat.choose import MARGIN, choose_feed, take_turns, time_of
from passat.kernels import left_by_runtime
from passat.runner import Runner, custom_operators
from passat.runtime.kernels import build_library, compiler, fuse, library_source
from passat.verify import Comparing

OWN = {
    "cheap chain": "g (float[4096,512] x, float[512] b) => (float[4096,512] y) "
    "<float h={0.5}> "
    "{ a = Mul(x, h) c = Add(a, b) d = Abs(c) e = Sqrt(d) f = Sub(e, a) k = Relu(f) l = Mul(k, e) y = Add(l, h) }",
    "tabular featurizer": "g (float[100000,16] x, float[16] m, float[16] s) => (float[100000,16] y) "
    "<float lo={-3}, float hi={3}, float one={1}> "
    "{ a = Sub(x, m) b = Div(a, s) c = Clip(b, lo, hi) d = Abs(c) e = Add(d, one) f = Sqrt(e) k = Mul(f, c) y = Add(k, c) }",
    "detector boxes": "g (float[20000,2] t, float[20000,2] p, float[20000,2] w) => (float[20000,2] y) "
    "<float v={0.1}, float lo={0}, float hi={1}> "
    "{ a = Mul(t, v) b = Mul(a, w) c = Add(b, p) d = Sigmoid(c) y = Clip(d, lo, hi) }",
    "audio gates": "g (float[64,16000] f, float[64,16000] x) => (float[64,16000] y) "
    "{ a = Tanh(f) b = Sigmoid(x) c = Mul(a, b) y = Add(c, x) }",
    "SwiGLU gate": "g (float[512,2048] u, float[512,2048] v, float[512,2048] r) => (float[512,2048] y) "
    "{ a = Sigmoid(u) b = Mul(u, a) c = Mul(b, v) y = Add(c, r) }",
    "tanh MLP": "g (float[4096,64] x, float[64,64] w, float[64] b) => (float[4096,64] y) "
    "<float s={1.5}> "
    "{ a = MatMul(x, w) c = Add(a, b) d = Mul(c, s) e = Tanh(d) f = MatMul(e, w) h = Add(f, b) i = Mul(h, s) j = Tanh(i) y = Add(j, e) }",
}


def main() -> None:
    """Prints the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("models", nargs="?", type=Path)
    arguments.add_argument("--seconds", type=float, default=4.0)
    asked = arguments.parse_args()
    print("| model | nodes in kernels | ms | control | with kernels | kept |\n| :-- | --: | --: | --: | --: | :-- |")
    for name, text in OWN.items():
        row(name, parser.parse_model(f'<ir_version: 9, opset_import: ["": 17]> {text}'), asked.seconds)
    for path in sorted(asked.models.glob("*.onnx")) if asked.models else ():
        row(path.stem, onnx.load(path), asked.seconds)


def row(name: str, model: onnx.ModelProto, seconds: float) -> None:
    """Measures one model."""
    kernels = fuse(model, left_by_runtime(model, None).keys())
    if kernels is None:
        print(f"| {name} | 0 | | | | nothing to fuse |", flush=True)
        return
    library = build_library(library_source(kernels.kernels, kernels.domain), compiler())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{hashlib.sha256(library).hexdigest()}.so")
        path.write_bytes(library)
        plain = [Runner(model, threads=1, optimize="all", arena=True) for _ in range(2)]
        with custom_operators([path]):
            runners = [*plain, Runner(kernels.model, threads=1, optimize="all", arena=True)]
        feed = choose_feed(runners[0], Comparing())
        times = take_turns(
            lambda which, repeat: time_of(runners[which], feed, repeat, time.thread_time), 3, rounds=(11, 301), seconds=seconds, turn=0.002
        )
    base, control, ours = map(median, times)
    kept = "yes" if ours < base * (1 - MARGIN) else "no"
    print(f"| {name} | {kernels.nodes} | {base * 1e3:.3g} | {base / control:.2f} | {base / ours:.2f} | {kept} |", flush=True)


if __name__ == "__main__":
    main()
