"""Times of programs with algebraic redundancies on ONNX Runtime: adapters beside the weights that they adapt, chains of linear maps, affine
maps, weights on the left with transposes around them, adjacent convolutions, summed branches.

    python benchmarks/algebra.py --work WORK                                   # all programs, one thread; about 10 s each
    python benchmarks/algebra.py --work WORK --only lora chain --peers         # some of them, without the other optimizers
    python benchmarks/algebra.py --work WORK --threads 1 2 --seconds 20        # a quieter measurement

The models are written to WORK, with random weights of a fixed seed. The rest is as in `latency.py`: all optimizations of ONNX Runtime are
on, contestants take turns, tables show medians of the ratios to the input, and results whose values differ from the input's are marked `!`.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import latency
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from optimize import OURS

ROWS: Final = 64
WIDTH: Final = 256
RANK: Final = 8
HEADS: Final = 4


class Network:
    """An ONNX graph under construction: calls return the name of their result."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.input = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)

    def __call__(self, op: str, *operands: str, **attributes: Any) -> str:
        """Applies an operator with one result."""
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [name], name, **attributes))
        return name

    def constant(self, value: np.ndarray | np.float32) -> str:
        """A weight with these elements."""
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape: int) -> str:
        """A random weight that preserves the magnitude of numbers."""
        inputs = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        return self.constant((self.random.normal(size=shape) / np.sqrt(max(inputs, 1))).astype(np.float32))

    def linear(self, of: str, outputs: int = WIDTH) -> str:
        """A product with a weight, and a bias."""
        return self("Add", self("MatMul", of, self.weight(WIDTH, outputs)), self.weight(outputs))

    def convolution(self, of: str, channels: int, kernel: int) -> str:
        """A convolution with a bias that keeps the size of the image."""
        weight = self.weight(channels, channels, kernel, kernel)
        return self("Conv", of, weight, self.weight(channels), pads=[kernel // 2] * 4)

    def model(self, result: str) -> onnx.ModelProto:
        """The model with this result."""
        output = helper.make_empty_tensor_value_info(result)
        graph = helper.make_graph(self.nodes, "slack", [self.input], [output], self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made, strict_mode=True)


def _adapted(net: Network, of: str) -> str:
    """A linear layer with a LoRA adapter, as PEFT exports it."""
    inner = net("MatMul", net("MatMul", of, net.weight(WIDTH, RANK)), net.weight(RANK, WIDTH))
    return net("Add", net.linear(of), net("Mul", inner, net.constant(np.float32(2.0))))


def lora(layers: int = 12) -> onnx.ModelProto:
    """A transformer with an adapter at each projection of its attention and its perceptrons."""
    net = Network((1, ROWS, WIDTH))
    hidden, apart = "x", net.constant(np.array([1, ROWS, HEADS, WIDTH // HEADS]))
    together, scale = net.constant(np.array([1, ROWS, WIDTH])), net.constant(np.float32((WIDTH // HEADS) ** 0.5))
    for _ in range(layers):
        normal = _normalized(net, hidden)
        q, k, v = (
            net("Transpose", net("Reshape", _adapted(net, normal), apart), perm=perm) for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        shares = net("Softmax", net("Div", net("MatMul", q, k), scale), axis=-1)
        heads = net("Reshape", net("Transpose", net("MatMul", shares, v), perm=[0, 2, 1, 3]), together)
        hidden = net("Add", hidden, _adapted(net, heads))
        hidden = net("Add", hidden, _adapted(net, net("Relu", _adapted(net, _normalized(net, hidden)))))
    return net.model(hidden)


def _normalized(net: Network, of: str) -> str:
    return net("LayerNormalization", of, net.weight(WIDTH), net.weight(WIDTH), axis=-1)


def chain(length: int = 8) -> onnx.ModelProto:
    """A chain of products with weights."""
    net = Network((ROWS, WIDTH))
    result = "x"
    for _ in range(length):
        result = net("MatMul", result, net.weight(WIDTH, WIDTH))
    return net.model(net("Relu", result))


def affine(length: int = 6) -> onnx.ModelProto:
    """Linear layers with biases, and scales and shifts between them."""
    net = Network((ROWS, WIDTH))
    result = "x"
    for _ in range(length):
        result = net("Add", net("Mul", net.linear(result), net.weight(WIDTH)), net.weight(WIDTH))
    return net.model(net("Relu", result))


def columns(length: int = 6) -> onnx.ModelProto:
    """Linear layers with weights on the left, for features in rows, between two transposes."""
    net = Network((ROWS, WIDTH))
    result = net("Transpose", "x", perm=[1, 0])
    for _ in range(length):
        result = net("Add", net("MatMul", net.weight(WIDTH, WIDTH), result), net.weight(WIDTH, 1))
    return net.model(net("Relu", net("Transpose", result, perm=[1, 0])))


def transposed(length: int = 6) -> onnx.ModelProto:
    """Linear layers with weights on the left, each between two transposes."""
    net = Network((ROWS, WIDTH))
    result = "x"
    for _ in range(length):
        product = net("MatMul", net.weight(WIDTH, WIDTH), net("Transpose", result, perm=[1, 0]))
        result = net("Add", net("Transpose", product, perm=[1, 0]), net.weight(WIDTH))
    return net.model(net("Relu", result))


def pointwise(length: int = 6) -> onnx.ModelProto:
    """A convolution followed directly by convolutions that only mix channels."""
    net = Network((1, 32, 56, 56))
    result = net.convolution("x", 32, 3)
    for _ in range(length):
        result = net.convolution(result, 32, 1)
    return net.model(net("Relu", result))


def branches(length: int = 6) -> onnx.ModelProto:
    """Blocks with a large and a small kernel in parallel (RepVGG in its training form)."""
    net = Network((1, 32, 28, 28))
    result = "x"
    for _ in range(length):
        result = net("Relu", net("Add", net.convolution(result, 32, 3), net.convolution(result, 32, 1)))
    return net.model(result)


def experts(count: int = 6) -> onnx.ModelProto:
    """The sum of many linear layers of one tensor."""
    net = Network((ROWS, WIDTH))
    result = net.linear("x")
    for _ in range(count - 1):
        result = net("Add", result, net.linear("x"))
    return net.model(net("Relu", result))


def kernel(rows: int = 512, width: int = 16) -> onnx.ModelProto:
    """Attention without softmax: the product of queries and keys is the largest tensor, and is not needed."""
    net = Network((rows, width))
    q, k, v = (net("Relu", net("MatMul", "x", net.weight(width, width))) for _ in range(3))
    return net.model(net("MatMul", net("MatMul", q, net("Transpose", k, perm=[1, 0])), v))


PROGRAMS: Final[Mapping[str, Callable[[], onnx.ModelProto]]] = {
    program.__name__: program for program in (lora, chain, affine, columns, transposed, pointwise, branches, experts, kernel)
}


def arguments() -> argparse.Namespace:
    """The settings of the command line."""
    parser = argparse.ArgumentParser(description="Compare the latency of programs with algebraic redundancies on ONNX Runtime.")
    parser.add_argument("--work", type=Path, required=True, help="where the models are kept")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME", help="some of the programs")
    parser.add_argument("--peers", nargs="*", choices=[name for name in latency.CONTESTANTS if name != OURS], default=list(latency.PEERS))
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--runs", type=int, default=300, help="rounds for each program, at most")
    parser.add_argument("--seconds", type=float, default=6, help="for each program and number of threads")
    parser.add_argument("--sessions", type=int, default=2, help="sets of sessions that share the rounds")
    parser.set_defaults(turn=0.0006, sizes={}, limit=120, feed=None)
    return parser.parse_args()


def main() -> int:
    """Writes the models, optimizes, measures and prints the tables; returns 1 if Passat's result is missing or wrong."""
    options = arguments()
    warnings.simplefilter("ignore")
    options.work.mkdir(parents=True, exist_ok=True)
    names = [name for name in options.peers if latency.installed(name)]
    results: dict[int, dict[str, dict[str, latency.Ratio]]] = {threads: {} for threads in options.threads}
    failed = False
    for name in options.only:
        path = options.work / f"{name}.onnx"
        onnx.save(PROGRAMS[name](), path)
        made = {each: latency.made(each, path, options.work, options.limit, keep=False) for each in (OURS, *names)}
        paths = {latency.INPUT: path, latency.CONTROL: path, **{each: found for each, found in made.items() if isinstance(found, Path)}}
        nodes = {each: len(onnx.load(found).graph.node) for each, found in paths.items() if each != latency.CONTROL}
        print(f"{name}: {', '.join(f'{each} {count} nodes' for each, count in nodes.items())}", file=sys.stderr)
        for threads in options.threads:
            ratios, wrong = latency.race(paths, threads, options)
            results[threads][name] = ratios
            for each, reason in {**{each: found for each, found in made.items() if isinstance(found, str)}, **wrong}.items():
                print(f"{name}: {each}: {reason}", file=sys.stderr)
            failed |= OURS not in ratios or not ratios[OURS].equal
    for threads, found in results.items():
        print(latency.table(found, names, threads))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
