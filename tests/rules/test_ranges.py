"""No element leaves its known range: for any operator and any elements, computed by kernels and by ONNX Runtime."""

import math
from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from passat.ir.attrs import EMPTY_ATTRS
from passat.ir.dtypes import to_numpy
from passat.ir.evaluate import EvaluateError, Value, evaluate_call
from passat.ir.expr import Constant
from passat.ir.known import known_value
from passat.ir.op import Op, OpTypeError, get_op, list_ops
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.rules.analysis import Made
from passat.rules.range_guards import RANGES
from passat.rules.ranges import Range, limits_of
from passat.runner import Runner

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

FLOATS = ("float16", "bfloat16", "float32", "float64")
WHOLE = ("int8", "uint8", "int32", "int64", "uint64", "bool")
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.5, -3.25, 7.0, 90.0, -90.0, 1e-40, -1e-40, 6e4, -6e4, 3e38, -3e38)
POOL = {"pool_size": (2,), "strides": (1,)}
ATTRS: dict[str, list[dict[str, AnyValue]]] = {
    "cast": [{"dtype": dtype} for dtype in (*FLOATS, *WHOLE)],
    "clip": [{}, {"a_min": 0, "a_max": 6}, {"a_min": 6, "a_max": 0}, {"a_max": -3}],
    **{name: [{"axis": 1}, {}, {"axis": (0,), "keepdims": True}] for name in ("max", "min", "sum", "mean", "prod")},
    **{
        f"nn.max_pool{rank}d": [{"pool_size": (2,) * rank, "padding": pad} for pad in ((0,) * 2 * rank, (1,) * 2 * rank)]
        for rank in (1, 2, 3)
    },
    **{name: [{"axis": 0}, {"axis": 1}] for name in ("argmax", "argmin", "concatenate", "stack", "reverse", "gather", "take")},
    "broadcast_to": [{"shape": (2, 3, 4)}],
    "nn.depth_to_space": [{"block_size": 2}],
    "nn.space_to_depth": [{"block_size": 2}],
    "nn.space_to_batch_nd": [{"block_shape": (2,), "paddings": ((1, 1),), "pad_value": 3.0}, {"block_shape": (4,), "paddings": ((0, 0),)}],
    "nn.batch_to_space_nd": [{"block_shape": (3,), "crops": ((1, 0),)}],
    "expand_dims": [{"axis": 0}],
    "layout_transform": [{"src_layout": "NC", "dst_layout": "NC2c"}, {"src_layout": "NC", "dst_layout": "CN"}],
    "full": [{"shape": (2, 3), "dtype": "float32"}, {"shape": (2, 3), "dtype": "int8"}],
    "nn.pad": [
        {"pad_width": ((1, 1), (0, 2)), "pad_value": 2.0},
        {"pad_width": ((1, 0), (0, 0)), "pad_value": 0.0},
        {"pad_width": ((1, 1), (1, 1)), "pad_mode": "reflect"},
    ],
    "ones": [{"shape": (2,), "dtype": dtype} for dtype in ("float32", "int64", "bool")],
    "zeros": [{"shape": (2,), "dtype": dtype} for dtype in ("float32", "int64", "bool")],
    "repeat": [{"repeats": 2, "axis": 0}],
    "reshape": [{"newshape": (-1,)}],
    "split": [{"indices_or_sections": 2, "axis": 1}],
    "squeeze": [{"axis": ()}],
    "strided_slice": [{"begin": (1,), "end": (3,)}],
    "tile": [{"reps": (2, 1)}],
}
SHAPES = {1: (2, 3, 4), 2: (1, 1, 4, 4), 3: (1, 1, 3, 3, 3)}
READ = [op for op in list_ops() if RANGES.reads(op)]


def drawn(dtype: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Elements between two numbers: special values, and random bits."""
    if dtype == "bool":
        return random.choice([[False], [True], [False, True]][random.integers(3)], size=shape)
    kind = to_numpy(dtype)
    bits = np.frombuffer(random.bytes(16 * kind.itemsize), kind)
    if dtype in FLOATS:
        some = np.concatenate([np.asarray(SPECIAL, np.float64).astype(kind), bits])
        some = some[~np.isnan(some.astype(np.float64))]
        low, high = sorted(random.choice(len(some), 2).tolist())
        some = some[np.argsort(some.astype(np.float64), kind="stable")][low : high + 1]
        if random.random() < 0.3:
            some = np.append(some, kind.type(np.nan))
    else:
        limits = np.iinfo(dtype)
        some = np.sort(np.concatenate([np.asarray([limits.min, limits.max, 0, 1, 2, 3, 100], kind), bits]))
        low, high = sorted(random.choice(len(some), 2).tolist())
        some = some[low : high + 1]
    return np.asarray(random.choice(some, size=shape))


def operands_of(op: Op, dtype: str, random: np.random.Generator) -> list[Value]:
    """Operands that the operator accepts."""
    name = op.name
    rank = int(name[-2]) if name.endswith("d") and name[-2].isdigit() else 0
    shape = SHAPES[rank] if rank else (1, 4, 2, 2) if "depth" in name else (3, 4)

    def tensor(of: str = dtype, shape: tuple[int, ...] = shape) -> Tensor:
        return Tensor.dense(drawn(of, shape, random))

    if name.startswith("elemwise_") or name in ("concatenate", "stack"):
        return [(tensor(), tensor())]
    if name == "where":
        return [tensor("bool"), tensor(), tensor()]
    indices = {"take": (2,), "gather": (3, 4), "gather_nd": (1, 2)}
    if name in indices:
        return [tensor(), Tensor.dense(random.integers(0, 3, indices[name]))]
    wanted = {"dyn.reshape": [4, 3], "dyn.broadcast_to": [2, 3, 4], "dyn.tile": [2, 1], "full": None}
    if name in wanted:
        return [tensor(), Tensor.dense(np.asarray(wanted[name], np.int64))] if wanted[name] else [tensor(shape=())]
    if name == "dyn.strided_slice":
        return [tensor(), *(Tensor.dense(np.asarray([at], np.int64)) for at in (0, 2, 1, 0))]
    if name == "dyn.full":
        return [tensor(shape=()), Tensor.dense(np.asarray([2, 3], np.int64))]
    if name == "full_like":
        return [tensor(), tensor(shape=())]
    made: list[Value] = [tensor() for _ in range(op.arity)]
    return [made[0]] * 2 if op.arity == 2 and random.random() < 0.2 else made


def type_of(value: Value) -> Type:
    return TupleType(map(type_of, value)) if isinstance(value, tuple) else TensorType(value.shape, value.dtype)


def fact_of(value: Value) -> AnyValue:
    return tuple(map(fact_of, value)) if isinstance(value, tuple) else RANGES.known(TensorType(value.shape, value.dtype), value)


def known_of(op: Op, operands: Sequence[Value], attrs: AnyValue, result: Type) -> AnyValue:
    same = {id(operand): i for i, operand in enumerate(operands)}
    call = Made(op, attrs, result, list(map(type_of, operands)), [same[id(operand)] for operand in operands])
    return RANGES.make(call, list(map(fact_of, operands)))


def left(value: Value, fact: AnyValue) -> str:
    """The elements outside of a range."""
    if isinstance(value, tuple):
        return "" if fact is None else "".join(map(left, value, fact))
    if fact is None:
        return ""
    found = RANGES.known(TensorType(value.shape, value.dtype), value)
    if found is None or not value.size or np.isnan(value.numpy().astype(np.float64)).all():
        return ""

    def order(bound: float) -> tuple[float, float]:
        return bound, math.copysign(1.0, bound)

    inside = order(fact.low) <= order(found.low) and order(found.high) <= order(fact.high) and (fact.nan or not found.nan)
    return "" if inside else f"{found} leaves {fact}"


@pytest.mark.parametrize("op", READ, ids=lambda op: op.name)
def test_elements_stay_in_their_range(op: Op) -> None:
    computed = told = 0
    random = np.random.default_rng(len(op.name))
    for attempt in range(60):
        dtype = (*FLOATS, *WHOLE)[attempt % 10]
        every = ATTRS.get(op.name, [{}])
        attrs = op.bind_attrs(every[random.integers(len(every))])
        operands = operands_of(op, dtype, random)
        try:
            known = [known_value(Constant(operand)) if isinstance(operand, Tensor) else None for operand in operands]
            result = op.infer(list(map(type_of, operands)), attrs, known)
            value = evaluate_call(op, operands, attrs, result)
        except (OpTypeError, EvaluateError):
            continue
        fact = known_of(op, operands, attrs, result)
        assert left(value, fact) == "", (operands, attrs)
        computed += 1
        told += fact is not None and (isinstance(result, TupleType) or fact != limits_of(getattr(result, "dtype", "bool")))
    assert computed
    assert told, "nothing is known about any result"


APPROXIMATED = {"sigmoid": "Sigmoid", "tanh": "Tanh", "erf": "Erf", "exp": "Exp", "nn.softplus": "Softplus", "cos": "Cos", "sinh": "Sinh"}


@settings(max_examples=5)
@given(bounds=st.tuples(st.floats(-100, 100, width=32), st.floats(-100, 100, width=32)))
@example(bounds=(-100.0, 100.0))
@example(bounds=(8.0, 10.0))
def test_elements_stay_in_their_range_on_onnx_runtime(bounds: tuple[float, float]) -> None:
    x = np.linspace(min(bounds), max(bounds), 4099, dtype=np.float32)
    names = list(APPROXIMATED)
    info = helper.make_tensor_value_info
    nodes = [helper.make_node(APPROXIMATED[name], ["x"], [name]) for name in names]
    results = [info(name, TensorProto.FLOAT, None) for name in names]
    graph = helper.make_graph(nodes, "all", [info("x", TensorProto.FLOAT, x.shape)], results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    found = Runner(model, threads=1).run({"x": x})
    for name, value in zip(names, found, strict=True):
        assert left(Tensor.dense(value), known_of(get_op(name), [Tensor.dense(x)], EMPTY_ATTRS, TensorType(x.shape, "float32"))) == "", name


def test_ranges_of_constants() -> None:
    known = {
        (1.0, -2.0): Range(-2.0, 1.0),
        (0.0, 3.0): Range(0.0, 3.0),
        (math.nan, 5.0): Range(5.0, 5.0, True),
        (-0.0, 0.0): Range(-0.0, 0.0),
    }
    for elements, wanted in known.items():
        found = RANGES.known(TensorType((2,), "float32"), Tensor.dense(np.asarray(elements, np.float32)))
        assert found == wanted
        assert found.signed == (math.copysign(1, wanted.low) < 0)
    assert RANGES.known(TensorType((2,), "uint8"), None) == Range(0, 255)
    assert RANGES.known(TensorType((2,), "string"), None) is None
    assert RANGES.known(TensorType((0,), "float32"), Tensor.dense(np.zeros(0, np.float32))) == Range(-math.inf, math.inf, True)
