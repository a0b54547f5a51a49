"""Models with native kernels against the same models without, on ONNX Runtime with all optimizations.

    python benchmarks/native_kernels.py                           # own cases, rich in chains: upper bounds, not a sample
    python benchmarks/native_kernels.py --only FOLDER/*.onnx      # exports, as Passat optimizes them
    python benchmarks/native_kernels.py --threads 2               # ONNX Runtime's threads

In each round the input, the input once more (the control) and the model with kernels take turns. Shown are the time of the input, and for
the control and for the model with kernels how many times as fast as the input they are: the median over the rounds, and in parentheses the
middle half of them. Parameters are the numbers in floating-point initializers, and MB those of the model. With one thread, times are CPU
times of that thread. With more threads they are wall times, which need an idle machine; in each turn a session is made and ended, because
the threads of a session that waits keep a core busy. The kernels are measured whether or not `passat optimize --kernels` would keep them;
that is the last column.
"""

import argparse
import hashlib
import math
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any as AnyValue

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper, parser

import passat
from passat.choose import MARGIN, choose_feed, take_turns, time_of
from passat.kernels import fusions, left_by_runtime
from passat.runner import Runner, custom_operators
from passat.runtime.kernels import build_library, compiler, fuse, library_source
from passat.verify import Comparing

OWN = {
    "8 cheap operators, 4M": "g (float[2048,2048] x) => (float[2048,2048] y) <float h={1.1}, float k={0.3}, float lo={0.1}, float "
    "q={0.7}> "
    "{ a = Mul(x, h) b = Add(a, k) c = Mul(b, b) d = Max(c, lo) e = Sqrt(d) f = Sub(e, q) i = Abs(f) y = Mul(i, x) }",
    "8 with sigmoid, tanh, exp, 4M": "g (float[2048,2048] x) => (float[2048,2048] y) <float h={1.1}, float k={0.3}, float q={0.5}> "
    "{ a = Mul(x, h) b = Add(a, k) c = Sigmoid(b) d = Mul(c, x) e = Tanh(d) f = Add(e, q) i = Exp(f) y = Mul(i, x) }",
    "gelu as 5 nodes, 4M": "g (float[2048,2048] x) => (float[2048,2048] y) <float h={0.70710678}, float k={1}, float q={0.5}> "
    "{ a = Mul(x, h) b = Erf(a) c = Add(b, k) d = Mul(x, q) y = Mul(d, c) }",
    "bias + gelu, 1024x3072": "g (float[1024,3072] v, float[3072] w) => (float[1024,3072] y) "
    "<float h={0.70710678}, float k={1}, float q={0.5}> { x = Add(v, w) a = Mul(x, h) b = Erf(a) c = Add(b, k) d = Mul(x, q) y = "
    "Mul(d, c) }",
    "residual + RMS norm + SiLU, 4096x768": "g (float[4096,768] v, float[4096,768] u, float[768] w) => "
    "(float[4096,768] y, float[4096,768] x) <int64[1] ax={-1}, float e={1e-6}, float two={2}> { x = Add(v, u) a = Pow(x, two) b = "
    "ReduceMean<keepdims=1>(a, ax) c = Add(b, e) "
    "d = Sqrt(c) f = Reciprocal(d) h = Mul(x, f) i = Mul(h, w) j = Sigmoid(i) y = Mul(i, j) }",
    "log-sum-exp, 4096x512": "g (float[4096,512] x) => (float[4096,1] y) <int64[1] ax={-1}> "
    "{ m = ReduceMax<keepdims=1>(x, ax) d = Sub(x, m) e = Exp(d) s = ReduceSum<keepdims=1>(e, ax) l = Log(s) y = Add(l, m) }",
    "softmax as 5 nodes, 4096x512": "g (float[4096,512] x) => (float[4096,512] y) <int64[1] ax={-1}> "
    "{ m = ReduceMax<keepdims=1>(x, ax) d = Sub(x, m) e = Exp(d) s = ReduceSum<keepdims=1>(e, ax) y = Div(e, s) }",
    "features of a table, 100000x16": "g (float[100000,16] x, float[16] m, float[16] s) => (float[100000,16] y) "
    "<float lo={-3}, float hi={3}, float one={1}> "
    "{ a = Sub(x, m) b = Div(a, s) c = Clip(b, lo, hi) d = Abs(c) e = Add(d, one) f = Sqrt(e) k = Mul(f, c) y = Add(k, c) }",
    "scores of a detector, 8400x80": "g (float[8400,80] x, float[80] w) => (float[8400,80] y) "
    "<int64[1] ax={-1}, float h={1.02}, float q={0.5}> { a = Mul(x, h) b = Add(a, w) c = Sigmoid(b) m = ReduceMax<keepdims=1>(c, "
    "ax) d = Sub(c, q) e = Abs(d) f = Neg(e) i = Exp(f) "
    "j = Mul(c, m) y = Mul(j, i) }",
    "audio gates, 64x16000": "g (float[64,16000] f, float[64,16000] x) => (float[64,16000] y) "
    "{ a = Tanh(f) b = Sigmoid(x) c = Mul(a, b) y = Add(c, x) }",
    "SwiGLU gate, 512x2048": "g (float[512,2048] u, float[512,2048] v, float[512,2048] r) => (float[512,2048] y) "
    "{ a = Sigmoid(u) b = Mul(u, a) c = Mul(b, v) y = Add(c, r) }",
    "float16 chain, 1M": "g (float16[1024,1024] x, float16[1024] w) => (float16[1024,1024] y) "
    "{ a = Mul(x, w) b = Add(a, x) c = Sigmoid(b) y = Mul(b, c) }",
    "Fourier features, 2048x1024": "g (float[2048,1024] x) => (float[2048,1024] y) <float w={30}> "
    "{ a = Mul(x, w) b = Sin(a) c = Cos(a) d = Mul(b, x) y = Add(d, c) }",
    "masked mean of a sequence, 8x256x768": "g (float[8,256,768] x, float[8,256,1] m) => (float[8,1,768] y) "
    "<int64[1] ax={1}> { a = Mul(x, m) y = ReduceSum<keepdims=1>(a, ax) }",
    "layer norm of channels, 4x96x56x56": "g (float[4,96,56,56] x) => (float[4,96,56,56] y) <int64[1] ax={1}, float e={1e-6}> "
    "{ m = ReduceMean<keepdims=1>(x, ax) c = Sub(x, m) q = Mul(c, c) v = ReduceMean<keepdims=1>(q, ax) h = Add(v, e) d = Sqrt(h) y = "
    "Div(c, d) }",
    "instance norm as 7 nodes, 8x64x56x56": "g (float[8,64,56,56] x) => (float[8,64,56,56] y) <int64[2] ax={2,3}, float e={1e-6}> "
    "{ m = ReduceMean<keepdims=1>(x, ax) c = Sub(x, m) q = Mul(c, c) v = ReduceMean<keepdims=1>(q, ax) h = Add(v, e) d = Sqrt(h) y = "
    "Div(c, d) }",
    "softmax along axis 1, 16x128x512": "g (float[16,128,512] x) => (float[16,128,512] y) <int64[1] ax={1}> "
    "{ m = ReduceMax<keepdims=1>(x, ax) d = Sub(x, m) e = Exp(d) s = ReduceSum<keepdims=1>(e, ax) y = Div(e, s) }",
    "global response norm, 4x56x56x96": "g (float[4,56,56,96] x, float[96] g) => (float[4,56,56,96] y) "
    "<int64[2] ax={1,2}, int64[1] al={-1}, float e={1e-6}> { n = ReduceL2<keepdims=1>(x, ax) m = ReduceMean<keepdims=1>(n, al) "
    "h = Add(m, e) f = Div(n, h) p = Mul(x, f) q = Mul(p, g) y = Add(q, x) }",
    "tanh MLP, 4096x64": "g (float[4096,64] x, float[64,64] w, float[64] b) => (float[4096,64] y) <float s={1.5}> "
    "{ a = MatMul(x, w) c = Add(a, b) d = Mul(c, s) e = Tanh(d) f = MatMul(e, w) h = Add(f, b) i = Mul(h, s) j = Tanh(i) y = Add(j, e) }",
}  # fmt: skip


def block() -> onnx.ModelProto:
    """Four layers of a Llama-like feed-forward block: RMS norm, and a SwiGLU with its products."""
    steps, weights, x = [], [], "x"
    random = np.random.default_rng(0)
    for k in range(4):
        for name, shape in ((f"w{k}", (256,)), (f"g{k}", (256, 688)), (f"u{k}", (256, 688)), (f"d{k}", (688, 256))):
            weights.append(numpy_helper.from_array((random.standard_normal(shape) / 16).astype(np.float32), name))
        steps.append(
            f"a{k} = Mul({x}, {x}) b{k} = ReduceMean<keepdims=1>(a{k}, ax) c{k} = Add(b{k}, e) d{k}_ = Sqrt(c{k}) f{k} = Reciprocal(d{k}_) "
            f"h{k} = Mul({x}, f{k}) i{k} = Mul(h{k}, w{k}) j{k} = MatMul(i{k}, g{k}) k{k} = MatMul(i{k}, u{k}) l{k} = Sigmoid(j{k}) "
            f"m{k} = Mul(j{k}, l{k}) n{k} = Mul(m{k}, k{k}) o{k} = MatMul(n{k}, d{k}) x{k} = Add({x}, o{k})"
        )
        x = f"x{k}"
    found = parsed(f"g (float[1,128,256] x) => (float[1,128,256] {x}) <int64[1] ax={{-1}}, float e={{1e-6}}> {{ {' '.join(steps)} }}")
    found.graph.initializer.extend(weights)
    return found


def parsed(text: str) -> onnx.ModelProto:
    """A model from text."""
    return parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {text}')


def main() -> None:
    """Prints the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", nargs="+", type=Path, metavar="MODEL")
    arguments.add_argument("--seconds", type=float, default=4.0)
    arguments.add_argument("--threads", type=int, default=1)
    asked = arguments.parse_args()
    print("| model | nodes | parameters | MB | nodes in kernels | ms | control | with kernels | kept |")
    print("| :-- | --: | --: | --: | --: | --: | --: | --: | :-- |")
    if asked.only:
        for path in asked.only:
            row(path.stem, passat.optimize(path, verify=False).model, asked.seconds, asked.threads)
        return
    for name, text in OWN.items():
        row(name, parsed(text), asked.seconds, asked.threads)
    row("4 layers of SwiGLU with RMS norms, 128x256", block(), asked.seconds, asked.threads)


def row(name: str, model: onnx.ModelProto, seconds: float, threads: int) -> None:
    """Measures one model."""
    size = f"{len(model.graph.node)} | {parameters(model):,} | {model.ByteSize() / 1e6:.1f}"
    before = left_by_runtime(model, None)
    kernels = fuse(model, before.keys())
    if kernels is None:
        print(f"| {name} | {size} | 0 | | | | nothing to fuse |", flush=True)
        return
    library = build_library(library_source(kernels.kernels, kernels.domain), compiler())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{hashlib.sha256(library).hexdigest()}.so")
        path.write_bytes(library)
        with custom_operators([path]):
            lost = fusions(before) - fusions(left_by_runtime(kernels.model, None))

        def runner(which: int) -> Runner:
            with custom_operators([path] if which == 2 else []):
                return Runner(kernels.model if which == 2 else model, threads=threads, optimize="all", arena=True)

        if threads == 1:
            runners = [runner(which) for which in range(3)]
            feed = choose_feed(runners[0], Comparing())

            def measure(which: int, repeat: int) -> float:
                return time_of(runners[which], feed, repeat, time.thread_time)

            base, *others = take_turns(measure, 3, rounds=(11, 301), seconds=seconds, turn=0.002)
        else:
            feed = choose_feed(runner(0), Comparing())
            base, *others = take_turns(lambda which, _: alone(runner(which), feed), 3, rounds=(7, 31), seconds=2 * seconds, turn=0.0)
    gains = [[one / other for one, other in zip(base, times, strict=True)] for times in others]
    control, gain = map(median, gains)
    spreads = [" ({0:.2f} to {2:.2f})".format(*quantiles(each, n=4)) for each in gains]
    kept = f"no, they prevent {', '.join(lost)}" if lost else "yes" if gain * (1 - MARGIN) > 1 else "no"
    print(
        f"| {name} | {size} | {kernels.nodes} | {median(base) * 1e3:.3g} | {control:.2f}{spreads[0]} | {gain:.2f}{spreads[1]} | {kept} |",
        flush=True,
    )


def parameters(model: onnx.ModelProto) -> int:
    """The number of elements in the floating-point initializers of a model."""
    floats = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
    return sum(math.prod(tensor.dims) for tensor in model.graph.initializer if tensor.data_type in floats)


def alone(runner: Runner, feed: dict[str, AnyValue]) -> float:
    """The median wall time of a run of a session, in at least 50 ms and five runs after two that are not counted."""
    times: list[float] = []
    for _ in range(2):
        runner.run(feed)
    while len(times) < 5 or sum(times) < 0.05:
        times.append(time_of(runner, feed, 1))
    return median(times)


if __name__ == "__main__":
    main()
