"""The values that calls on constants are folded to, compared with ONNX Runtime with its optimizations off: every operator, on values of
every kind.

CI tests one sample of each kind of values, in one opset; `make nightly` tests more.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any as AnyValue
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest

from passat import optimize
from passat.ir.dtypes import FLOATS, from_numpy
from passat.ir.evaluate import EvaluateError, Value, evaluate_call
from passat.ir.expr import Call, Constant, Function, Tuple
from passat.ir.folding import is_exact
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, to_onnx
from passat.ir.onnx.frame import Frame
from passat.ir.op import Op, OpTypeError, list_ops
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.rules.engine.eager import Eager
from passat.rules.engine.graph import Graph
from passat.rules.library.folding import ConstantFolding
from passat.rules.substitution import Environment
from passat.runner import Runner
from tests.ir.ops.kernel_examples import PAIR, Example, Operand, examples_of
from tests.ir.ops.kernel_values import DTYPES, EXTREME, FILLS, filled, same_bits, spread, up_to_rounding
from tests.share import SOAK

OPSETS = (8, 13, 18, 24) if SOAK else (24,)
SEEDS = range(2 if SOAK else 1)
OPS = [op for op in list_ops() if op.to_onnx is not None and op.kernel is not None and not op.stateful and op.operand_names]


def variants(example: Example) -> Iterator[Example]:
    """An example, and the same example with a dimension of size 0."""
    yield example
    shapes = [part for operand in example.operands for part in (operand if isinstance(operand, list) else [operand])]
    for size in sorted({dim for shape in shapes if isinstance(shape, tuple) for dim in shape}):

        def without(shape: Operand, size: int = size) -> Operand:
            if isinstance(shape, list):
                return [without(part) for part in shape]  # type: ignore[misc]  # of a list of shapes, shapes
            return tuple(0 if dim == size else dim for dim in shape) if isinstance(shape, tuple) else shape

        yield Example(tuple(map(without, example.operands)), example.attrs)


def arrays(op: Op, example: Example, dtype: str, fill: str, seed: int) -> list[AnyValue]:
    """The operands of an example; tuples stay tuples."""
    random = np.random.default_rng([seed, len(op.name)])
    width = max(len(example.operands), *(len(operand) for operand in example.operands if isinstance(operand, list)), 1)

    def fill_in(operand: Operand, place: int) -> AnyValue:
        if isinstance(operand, np.ndarray):
            return operand
        if isinstance(operand, list):
            return tuple(fill_in(part, i) for i, part in enumerate(operand))
        own = "bool" if op.name == "where" and place == 0 else dtype
        return spread(own, place, width, random) if operand == PAIR else filled(own, operand, fill, random)

    return [fill_in(operand, place) for place, operand in enumerate(example.operands)]


def call_on(op: Op, operands: Sequence[AnyValue], attrs: dict[str, AnyValue]) -> Call:
    """The call on constants."""

    def constant(operand: AnyValue) -> Constant | Tuple:
        return Tuple([constant(part) for part in operand]) if isinstance(operand, tuple) else Constant(Tensor.dense(operand))

    call = op(*map(constant, operands), **attrs)
    infer_type(call)
    return call


def run(call: Call, opset: int) -> list[Array] | str | None:
    """The result of ONNX Runtime for the call; the reason if it computes none; None if it has no kernel or ONNX has no form of the call."""
    model = onnx.ModelProto(ir_version=10)
    model.opset_import.add(domain="", version=opset)
    model.opset_import.add(domain="com.microsoft", version=1)
    module = IRModule({"main": infer_type(Function([], call))}, attrs={"onnx": Frame(model, onnx.GraphProto(name="g"))})
    try:
        runner = Runner(to_onnx(module), threads=1)
    except OnnxError:
        return None
    except Exception as error:  # ONNX Runtime's own, with no common base
        return None if type(error).__name__ in ("NotImplemented", "InvalidGraph") else str(error)
    try:
        return [np.asarray(result) for result in runner.run({})]
    except Exception as error:  # as above
        return str(error)


def tensors(value: Value | None) -> list[Array] | None:
    if value is None:
        return None
    return [array for part in value for array in tensors(part) or []] if isinstance(value, tuple) else [value.numpy()]


def values_of(call: Call) -> list[Value]:
    return [tuple(part.data for part in arg.fields) if isinstance(arg, Tuple) else arg.data for arg in call.args]  # type: ignore[union-attr, attr-defined]  # they are constants


def by_kernel(call: Call) -> list[Array] | None:
    assert isinstance(call.op, Op)
    try:
        return tensors(evaluate_call(call.op, values_of(call), call.attrs, call.checked_type))
    except EvaluateError:
        return None


def difference(found: Sequence[Array], expected: Sequence[Array], *, exact: bool) -> str:
    """The first element that differs, or nothing."""
    for one, other in zip(found, expected, strict=True):
        if from_numpy(one.dtype) != from_numpy(other.dtype) or one.shape != other.shape:
            return f"{one.dtype}{one.shape} for {other.dtype}{other.shape}"
        agree = (same_bits if exact else up_to_rounding)(one, other)
        if not agree.all():
            place = tuple(int(i) for i in np.argwhere(~agree)[0])
            return f"{one[place]!r} for {other[place]!r} at {place}, {int((~agree).sum())} of {agree.size} differ"
    return ""


class Comparison(NamedTuple):
    """The result of comparing an operator: where folded values differ from ONNX Runtime's, where those of the kernel differ by more than
    rounding, the element types that ONNX Runtime computes, and which of these are folded."""

    folded_otherwise: list[str]
    kernel_otherwise: list[str]
    computed: set[str]
    folded: set[str]


@functools.cache
def comparison(op: Op) -> Comparison:
    found = Comparison([], [], set(), set())
    for given, opset, seed in itertools.product(examples_of(op), OPSETS, SEEDS):
        for example in variants(given):
            # Tensors without elements are alike for all types of one kind, and operators that are exact on extreme values are exact on others.
            dtypes = (
                DTYPES if example.is_filled and (SOAK or example is given) else ("float32", "int64") if example.is_filled else DTYPES[:1]
            )
            for dtype in dtypes:
                if not takes(op, example, dtype):
                    continue
                plain = SOAK or not (op.exact == "always" or (op.exact == "integers" and dtype not in FLOATS))
                for fill in FILLS if plain and example is given and example.is_filled and not example.is_spread else FILLS[:1]:
                    call = call_on(op, arrays(op, example, dtype, fill, seed), example.attrs)
                    expected = None if is_left(call) else run(call, opset)
                    if expected is None:
                        break
                    if not isinstance(expected, str):
                        where = f"{op.name}, {dtype}, {fill}, {example}, opset {opset}"
                        # Sums and products of extreme values depend on the order of their terms.
                        compare(call, expected, found, opset, where, kernel=fill != EXTREME or example.is_spread)
    return found


def takes(op: Op, example: Example, dtype: str) -> bool:
    """True if an operator accepts operands of an element type."""

    def type_of(operand: Operand, place: int) -> Type:
        if isinstance(operand, np.ndarray):
            return TensorType(operand.shape, from_numpy(operand.dtype))
        if isinstance(operand, list):
            return TupleType([type_of(part, place) for part in operand])
        return TensorType([abs(dim) for dim in operand], "bool" if op.name == "where" and place == 0 else dtype)

    try:
        values = [np.array(operand, np.object_) if isinstance(operand, np.ndarray) else None for operand in example.operands]
        op.infer([type_of(operand, place) for place, operand in enumerate(example.operands)], op.bind_attrs(example.attrs), values)
    except OpTypeError:
        return False
    return True


def folded_value_of(call: Call, environment: Environment, *, exact: bool = False) -> Value | None:
    """The value that the rules of ConstantFolding give to a call on constants; None if they reject it."""
    infer_type(call)
    graph = Graph(Eager([ConstantFolding.exact if exact else ConstantFolding.call]), environment)
    return graph.constant_of(graph.load(call))


def is_left(call: Call) -> bool:
    """True if a call is not folded because it is empty: ONNX Runtime crashes on some empty calls."""
    assert isinstance(call.op, Op)
    values = values_of(call)
    operands = tensors(tuple(values)) or []
    return any(not operand.size for operand in operands) and folded_value_of(call, Environment()) is None


def compare(call: Call, expected: list[Array], found: Comparison, opset: int, where: str, *, kernel: bool) -> None:
    op, values, dtype = call.op, values_of(call), where.split(", ")[1]
    assert isinstance(op, Op)
    found.computed.add(dtype)
    for exact in (False, True):
        folded = tensors(folded_value_of(call, Environment(opset=opset), exact=exact))
        if folded is not None:
            assert not exact or is_exact(op, values)
            found.folded.add(dtype)
            if problem := difference(folded, expected, exact=True):
                found.folded_otherwise.append(f"{where}: {problem}")
    computed = by_kernel(call) if kernel and not is_exact(op, values) else None
    if computed is not None and (problem := difference(computed, expected, exact=False)):
        found.kernel_otherwise.append(f"{where}: {problem}")


@pytest.mark.parametrize("op", OPS, ids=repr)
def test_folded_values_are_those_of_onnx_runtime(op: Op) -> None:
    try:
        found = comparison(op)
    except KeyError:
        pytest.fail(f"{op.name} needs examples in tests/ir/ops/kernel_examples.py")
    assert not found.folded_otherwise, "\n".join(found.folded_otherwise[:9])
    assert found.folded == (set() if op.name in LEFT else found.computed)


@pytest.mark.parametrize("op", OPS, ids=repr)
def test_kernels_agree_with_onnx_runtime_up_to_rounding(op: Op) -> None:
    found = comparison(op)
    if op.name in OTHERWISE:
        assert found.kernel_otherwise, f"{op.name} need not be excused any more"
    else:
        assert not found.kernel_otherwise, "\n".join(found.kernel_otherwise[:9])


@pytest.mark.parametrize(
    "chain", ["t = Atan(c) y = Sqrt(t)", "t = Neg(c) y = Exp(t)", "t = Sqrt(c) y = Mul(t, x)", "t = Mul(c, c) y = Add(t, x)"]
)
def test_chains_of_16_bit_floats_are_rounded_where_onnx_runtime_rounds(chain: str) -> None:
    """ONNX Runtime computes most operators on them in float32, and rounds at the end of a chain of such nodes."""
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> g (float16[200] x) => (float16[200] y) {{ {chain} }}')
    given = np.random.default_rng(0).uniform(0.1, 3, 200).astype(np.float16)
    model.graph.initializer.append(onnx.numpy_helper.from_array(given, "c"))
    folded = optimize(model, verify=False, config={"rules.math": "exact"}).model
    assert difference(Runner(folded).run({"x": given}), Runner(model).run({"x": given}), exact=True) == ""


LEFT = {op.name for op in OPS if op.name.startswith("contrib.")}
"""Calls of ONNX Runtime's own operators on constants are not folded: the onnx package cannot check whether such a node is valid."""
RUNTIME = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
EXTREMA = ("elemwise_max", "elemwise_min", "maximum", "minimum")
IN_NIGHTLY_RUNS = {
    "logsumexp": "NaN counts or not, by its place",
    "nn.batch_norm": "another formula, in which an infinite mean or variance gives NaN",
    "nn.hard_swish": "the factor is narrowed to float32 on the way, in float64 and opset 18",
    "nn.softplus": "its exponential overflows, in float16, float64 and opset 18",
    "take": "strings of which only the first of each part is copied",
}
OTHERWISE = {
    **dict.fromkeys(("argmax", "argmin", "max", "min"), "NaN counts or not, by its place"),
    **{f"nn.{kind}_pool{rank}d": "NaN counts or not, by its place" for kind in ("max", "global_max") for rank in (1, 2, 3)},
    **{f"nn.contrib_{kind}_pool2d_nchwc": "NaN counts or not, by its place" for kind in ("max", "global_max")},
    **{f"image.resize{rank}d": "an infinity with the weight 0 counts or not, by its place" for rank in (1, 2, 3)},
    **dict.fromkeys(("clip", "sign"), "2**31 as int64 is taken for less than 0"),
    **dict.fromkeys(EXTREMA if RUNTIME < (1, 32) else (), "2**31 as int64 is taken for less than 0, before ONNX Runtime 1.32"),
    **dict.fromkeys(("prod",), "integers beyond the limits become the limits"),
    **dict.fromkeys(("contrib.fast_gelu", "nn.attention", "nn.shrink"), "float64 is narrowed to float32 on the way"),
    "nn.gelu": "float64 is narrowed to float32 on the way",
    "nn.instance_norm": "another formula, with less digits",
    "nn.log_softmax": "of infinities in float64, what the greatest element is not taken from",
    "nn.lrn": "an infinity spoils all channels",
    **(IN_NIGHTLY_RUNS if SOAK else {}),
}
"""Operators for which ONNX Runtime differs from ONNX and Passat's kernels by more than rounding. Folded values are ONNX Runtime's; rules
are checked with the kernels."""
