"""The forms of different exporters become the same program: blocks of networks, each in several forms."""

from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import passat

HEADER = '<ir_version: 9, opset_import: ["": 20]> block '


class Block(NamedTuple):
    """One computation: its inputs and outputs, constants that the forms share, and the forms, each with its own constants."""

    inputs: str
    outputs: str
    spellings: dict[str, tuple[str, str]]
    math: str = "reassociate"


def model(block: Block, spelling: str) -> onnx.ModelProto:
    """The model of one form, in ONNX's text format."""
    constants, nodes = block.spellings[spelling]
    return parser.parse_model(f"{HEADER}({block.inputs}) => ({block.outputs}) {f'<{constants}>' if constants else ''} {{ {nodes} }}")


def meaning(made: onnx.ModelProto) -> list[str]:
    """The outputs of a model, expanded to operators, attributes, inputs and constants. (Programs here are small.)"""
    told = {value.name: f"input {i}" for i, value in enumerate(made.graph.input)}
    for tensor in made.graph.initializer:
        told[tensor.name] = written(tensor)
    for node in made.graph.node:
        attrs = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        attrs = {name: written(value) if isinstance(value, onnx.TensorProto) else value for name, value in attrs.items()}
        operands = [told[name] if name else "" for name in node.input]
        if node.op_type in ("Add", "Mul"):
            operands.sort()
        for i, name in enumerate(node.output):
            told[name] = f"{node.op_type}.{i}{sorted(attrs.items())}({', '.join(operands)})"
    return [told[value.name] for value in made.graph.output]


def written(tensor: onnx.TensorProto) -> str:
    """A constant; a scalar equals a vector of one element."""
    array = numpy_helper.to_array(tensor)
    return f"{array.dtype}{list(array.shape) if array.size != 1 else ''}{np.round(array.reshape(-1), 6).tolist()}"


MASKED = "float[batch, 2, sequence, sequence] scores, bool[batch, sequence] mask"
CHOICE = "float zero = {0.0}, float low = {-9.0}"
COUNTS = "int64 none = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] last = {1}"
RANGES = """
    whole = Shape(mask)  b = Gather(whole, none)  s = Gather(whole, one)
    samples = Range(none, b, one)  places = Range(none, s, one)
"""
END = "kept = Where(wide, zero, low)  y = Add(scores, kept)"
NORMS = "float e = {0.00001}, float two = {2.0}, float half = {0.5}, float[4] g = {1.5, 2.5, 3.5, 4.5}"
CONV = "float[2, 2, 1, 1] w = {1.0, 2.0, 3.0, 4.0}"
LAST = "float[1, 1, 1, 2] m = {1.0, -2.0}, float[1, 1, 1, 2] s = {0.5, 2.0}, float[1, 1, 1, 2] b = {3.0, 5.0}"
BLOCKS = {
    "batch norms": Block(
        "float[batch, 2, 3, 3] x",
        "float[batch, 2, 3, 3] y",
        {
            "operator": (
                f"{CONV}, float[2] m = {{1.0, -2.0}}, float[2] v = {{4.0, 16.0}}, float[2] g = {{1.0, 8.0}}, float[2] b = {{3.0, 5.0}}",
                "c = Conv(x, w)  n = BatchNormalization<epsilon=0.0>(c, g, b, m, v)  y = Relu(n)",
            ),
            "difference": (
                f"{CONV}, {LAST.replace('1, 1, 1, 2', '1, 2, 1, 1')}",
                "c = Conv(x, w)  d = Sub(c, m)  n = Mul(d, s)  a = Add(n, b)  y = Relu(a)",
            ),
            "channels last": (
                f"{CONV}, {LAST}",
                """c = Conv(x, w)  t = Transpose<perm=[0, 2, 3, 1]>(c)  d = Sub(t, m)  n = Mul(d, s)  a = Add(n, b)  r = Relu(a)
                y = Transpose<perm=[0, 3, 1, 2]>(r)""",
            ),
            "quotient": (
                f"{CONV}, {LAST.replace('1, 1, 1, 2', '1, 2, 1, 1').replace('0.5, 2.0', '2.0, 0.5')}",
                "c = Conv(x, w)  d = Sub(c, m)  n = Div(d, s)  a = Add(n, b)  y = Relu(a)",
            ),
        },
    ),
    "chunks": Block(
        "float[2, 6] x",
        "float[2, 3] y",
        {
            "split": ("int64[2] sizes = {3, 3}", "a, b = Split<axis=1>(x, sizes)  s = Sigmoid(a)  y = Sub(s, b)"),
            "slices": (
                "int64[1] start = {0}, int64[1] half = {3}, int64[1] end = {9223372036854775807}, int64[1] axis = {-1}",
                "b = Slice(x, half, end, axis)  a = Slice(x, start, half, axis)  s = Sigmoid(a)  y = Sub(s, b)",
            ),
            "sequence": (
                "int64 size = {3}, int64 none = {0}, int64 last = {-1}",
                "q = SplitToSequence<axis=-1>(x, size)  a = SequenceAt(q, none)  b = SequenceAt(q, last)  s = Sigmoid(a)  y = Sub(s, b)",
            ),
        },
    ),
    "masks of known sizes": Block(
        "float[2, 2, 3, 3] scores, bool[2, 3] mask",
        "float[2, 2, 3, 3] y",
        {
            "new axes": (f"{CHOICE}, int64[2] axes = {{1, 2}}", f"wide = Unsqueeze(mask, axes)  {END}"),
            "flat indices": (
                f"{CHOICE}, int64[2, 1, 1, 3] at = {{0, 1, 2, 3, 4, 5}}, int64[4] shape = {{2, 1, 1, 3}}",
                f"flat = Flatten<axis=2>(mask)  found = Gather(flat, at)  wide = Reshape(found, shape)  {END}",
            ),
            "pairs": (f"{CHOICE}, int64[2, 1, 1, 3, 2] at = {{0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2}}", f"wide = GatherND(mask, at)  {END}"),
        },
    ),
    "masks of any size": Block(
        MASKED,
        "float[batch, 2, sequence, sequence] y",
        {
            "new axes": (f"{CHOICE}, int64[2] axes = {{1, 2}}", f"wide = Unsqueeze(mask, axes)  {END}"),
            "flat indices": (
                f"{CHOICE}, {COUNTS}, int64[1] all = {{-1}}, int64[3] behind = {{1, 2, 3}}, int64[3] before = {{0, 1, 2}}",
                RANGES
                + """flat = Flatten<axis=2>(mask)  step = Slice(whole, last, whole_end, first)
                far = Unsqueeze(samples, behind)  near = Unsqueeze(places, before)  scaled = Mul(far, step)  at = Add(near, scaled)
                found = Gather(flat, at)  row = Reshape(found, all)  shape = Shape(at)  wide = Reshape(row, shape) """.replace(
                    "whole_end", "all_of_it"
                )
                + END,
            ),
            "pairs": (
                f"{CHOICE}, {COUNTS}, int64[3] behind = {{1, 2, 3}}, int64[3] before = {{0, 1, 2}}, int64[1] column = {{4}}",
                RANGES
                + """far = Unsqueeze(samples, behind)  near = Unsqueeze(places, before)  both = Max(far, near)  shape = Shape(both)
                fars = Expand(far, shape)  nears = Expand(near, shape)  left = Unsqueeze(fars, column)  right = Unsqueeze(nears, column)
                at = Concat<axis=-1>(left, right)  wide = GatherND(mask, at) """
                + END,
            ),
            "pairs, and numbers that are not negative": (
                f"{CHOICE}, {COUNTS}, int64[3] behind = {{1, 2, 3}}, int64[3] before = {{0, 1, 2}}, int64[1] column = {{4}},"
                "int64[3] around = {0, 1, 3}",
                RANGES
                + """far = Unsqueeze(samples, behind)  near = Unsqueeze(places, before)  both = Max(far, near)  shape = Shape(both)
                fars = Expand(far, shape)  nears = Expand(near, shape)  left = Unsqueeze(fars, column)  right = Unsqueeze(nears, column)
                at = Concat<axis=-1>(left, right)  found = GatherND(mask, at)  rows = Unsqueeze(places, around)
                true = GreaterOrEqual(rows, none)  wide = And(true, found) """
                + END,
            ),
        },
    ),
    "keys of any size": Block(
        "float[batch, 4, sequence, 8] q, float[batch, 4, sequence, 8] k",
        "float[batch, 4, sequence, sequence] y",
        {
            "transpose": ("", "t = Transpose<perm=[0, 1, 3, 2]>(k)  y = MatMul(q, t)"),
            "in batches": (
                "int64[1] open = {-1}, int64[1] eight = {8}, int64[1] two = {2}, int64[1] three = {3}, int64[1] first = {0}",
                """shape = Shape(k)  s = Slice(shape, two, three)  front = Slice(shape, first, two)  in = Concat<axis=0>(open, s, eight)
                batches = Reshape(k, in)  turned = Transpose<perm=[0, 2, 1]>(batches)  out = Concat<axis=0>(front, eight, s)
                t = Reshape(turned, out)  y = MatMul(q, t)""",
            ),
            "in batches, of sizes read one by one": (
                "int64[1] eight = {8}, int64 none = {0}, int64 one = {1}, int64 two = {2}, int64 heads = {4}, int64[1] first = {0}",
                """shape = Shape(k)  s0 = Gather(shape, two)  s = Unsqueeze(s0, first)  b0 = Gather(shape, none)  b = Unsqueeze(b0, first)
                h0 = Gather(shape, one)  h = Unsqueeze(h0, first)  n = Mul(b0, heads)  m = Unsqueeze(n, first)
                in = Concat<axis=0>(m, s, eight)  batches = Reshape(k, in)  turned = Transpose<perm=[0, 2, 1]>(batches)
                out = Concat<axis=0>(b, h, eight, s)  t = Reshape(turned, out)  y = MatMul(q, t)""",
            ),
        },
    ),
    "root mean squares": Block(
        "float[2, 3, 4] x",
        "float[2, 3, 4] y",
        {
            "quotient": (
                f"{NORMS}, int64[1] axis = {{-1}}",
                "p = Pow(x, two)  m = ReduceMean(p, axis)  v = Add(m, e)  r = Sqrt(v)  n = Div(x, r)  y = Mul(n, g)",
            ),
            "reciprocal": (
                f"{NORMS}, int64[1] axis = {{2}}",
                "p = Mul(x, x)  m = ReduceMean(p, axis)  v = Add(m, e)  r = Sqrt(v)  i = Reciprocal(r)  n = Mul(x, i)  y = Mul(g, n)",
            ),
            "power, and axes that are computed": (
                f"{NORMS}, int64 axis = {{-1}}, int64[1] flat = {{-1}}",
                """axes = Reshape(axis, flat)  p = Pow(x, two)  m = ReduceMean<noop_with_empty_axes=0>(p, axes)  v = Add(m, e)
                r = Pow(v, half)  n = Div(x, r)  y = Mul(g, n)""",
            ),
        },
    ),
    "sizes": Block(
        "float[batch, 6] x",
        "float[batch, 2, 3] y",
        {
            "of the input": (
                "int64[2] rest = {2, 3}",
                "b = Shape<start=0, end=1>(x)  s = Concat<axis=0>(b, rest)  r = Reshape<allowzero=1>(x, s)  y = Relu(r)",
            ),
            "of what is computed, one by one": (
                "int64 none = {0}, int64[1] first = {0}, int64[1] two = {2}, int64[1] three = {3}",
                """c = Relu(x)  w = Shape(c)  b0 = Gather(w, none)  b = Unsqueeze(b0, first)  s = Concat<axis=0>(b, two, three)
                r = Reshape(x, s)  y = Relu(r)""",
            ),
            "copied": ("int64[3] s = {0, 2, 3}", "r = Reshape(x, s)  y = Relu(r)"),
            "counted": ("int64[3] s = {-1, 2, 3}", "r = Reshape<allowzero=1>(x, s)  y = Relu(r)"),
        },
    ),
    "softplus": Block(
        "float[2, 3] x",
        "float[2, 3] y",
        {
            "plain": ("", "y = Softplus(x)"),
            "with a threshold": ("float twenty = {20.0}", "s = Softplus(x)  far = Greater(x, twenty)  y = Where(far, x, s)"),
        },
    ),
    "buckets of distances": Block(
        "float[4, 2] table",
        "float[3, 2] y",
        {
            "constant": ("int64[3] at = {0, 1, 3}", "y = Gather<axis=0>(table, at)"),
            "logarithms": (
                "bool[3] near = {1, 1, 0}, int64[3] exact = {0, 1, 2}, float[3] far = {0.0, 1.0, 13000.0}, int64 two = {2}, int64[3] most = {3, 3, 3}",
                "l = Log(far)  c = Cast<to=7>(l)  s = Add(c, two)  m = Min(s, most)  at = Where(near, exact, m)  y = Gather(table, at)",
            ),
        },
    ),
    "normalization of convolutions": Block(
        "float[batch, 2, 4, 4] x",
        "float[batch, 1, 4, 4] y",
        {
            "constants": (
                "float[1, 2, 1, 1] w = {0.5, -1.5}, float[1] g = {1.5}, float[1] b = {0.25}, float[1] m = {0.5}, float[1] v = {2.0}",
                "c = Conv(x, w)  y = BatchNormalization(c, g, b, m, v)",
            ),
            "cast and expanded": (
                "float[1, 2, 1, 1] w = {0.5, -1.5}, double[1] g = {1.5}, float b = {0.25}, double[1] m = {0.5}, float v = {2.0}, int64[1] n = {1}",
                """c = Conv(x, w)  g1 = CastLike(g, c)  m1 = CastLike(m, c)  b1 = Expand(b, n)  v1 = Expand(v, n)
                y = BatchNormalization(c, g1, b1, m1, v1)""",
            ),
        },
    ),
    "means over the plane": Block(
        "float[batch, 3, 4, 4] x",
        "float[batch, 3] y",
        {
            "pooling": ("", "p = GlobalAveragePool(x)  y = Flatten(p)"),
            "mean": ("int64[2] axes = {2, 3}, int64[2] s = {0, 3}", "p = ReduceMean(x, axes)  y = Reshape(p, s)"),
            "mean, looked up in its own order": (
                """int64[2] axes = {2, 3}, int64[1] all = {-1}, int64[2] s = {-1, 3}, int64 none = {0}, int64 one = {1}, int64 three = {3},
                int64[1, 3, 1, 1] channels = {0, 1, 2}, int64[3] behind = {1, 2, 3}""",
                """p = ReduceMean(x, axes)  w = Shape(x)  b = Gather(w, none)  n = Range(none, b, one)  m = Mul(n, three)
                u = Unsqueeze(m, behind)  at = Add(u, channels)  f = Reshape(p, all)  q = Gather(f, at)  y = Reshape(q, s)""",
            ),
        },
    ),
    "numbers of any shape": Block(
        "float[batch, 3] x",
        "float[batch, 3] y",
        {
            "number": ("float two = {2.0}", "y = Mul(x, two)"),
            "expanded": ("float two = {2.0}", "s = Shape(x)  t = Expand(two, s)  y = Mul(x, t)"),
            "filled": ("", "s = Shape(x)  t = ConstantOfShape<value = float[1] {2.0}>(s)  y = Mul(t, x)"),
        },
    ),
    "guards of softmax, where all is finite": Block(
        "float[2, 3, 4] q, float[2, 4, 5] k",
        "float[2, 3, 5] y",
        {
            "plain": ("", "s = MatMul(q, k)  y = Softmax(s)"),
            "guarded": ("float zero = {0.0}", "s = MatMul(q, k)  p = Softmax(s)  n = IsNaN(p)  y = Where(n, zero, p)"),
        },
        math="finite",
    ),
}
FLAT = BLOCKS["masks of any size"].spellings
FLAT["flat indices"] = (FLAT["flat indices"][0] + ", int64[1] all_of_it = {2}", FLAT["flat indices"][1])
AS_GOOD = {"chunks", "masks of known sizes", "root mean squares", "sizes", "means over the plane"}
"""Blocks of which one form stays unchanged because it has no more nodes than the common form: these need not be the same."""


@pytest.mark.parametrize("name", BLOCKS)
def test_all_spellings_end_at_one_number_of_nodes(name: str) -> None:
    block = BLOCKS[name]
    made = {spelling: passat.optimize(model(block, spelling), config={"rules.math": block.math}) for spelling in block.spellings}
    counts = {spelling: result.report.node_count_after for spelling, result in made.items()}
    assert len(set(counts.values())) == 1, (counts, {spelling: meaning(result.model) for spelling, result in made.items()})
    if name not in AS_GOOD:
        meanings = {spelling: meaning(result.model) for spelling, result in made.items()}
        assert len({tuple(told) for told in meanings.values()}) == 1, meanings


def test_a_guard_that_may_matter_stays() -> None:
    """If a row of scores has an infinite element, guarded results are 0 and others are NaN: only `finite` makes them the same."""
    block = BLOCKS["guards of softmax, where all is finite"]
    made = [[node.op_type for node in passat.optimize(model(block, spelling)).model.graph.node] for spelling in block.spellings]
    assert made == [["MatMul", "Softmax"], ["MatMul", "Softmax", "ThresholdedRelu"]]
