"""Random tensor programs under random schedules, compiled in this process, compute what NumPy does."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat import nd, register_func, te, tir
from passat.driver import build, lower
from passat.ir.te.bounds import infer_bound
from passat.ir.te.schedule import Schedule, Stage
from passat.ir.te.tensor import Tensor
from passat.ir.tir.expr import IntImm
from passat.ir.tir.parser import parse_function
from passat.ir.tir.stmt import ForKind
from passat.ir.tir.types import TirError
from passat.passmgr import PassContext
from passat.runtime.jit.c_library import compile_with_c
from passat.runtime.jit.engine import compile_functions
from passat.runtime.jit.expressions import UnsupportedError
from tests.share import share

pytest.importorskip("llvmlite")
UNARY: dict[str, tuple[Callable[[AnyValue], AnyValue], Callable[[AnyValue], AnyValue]]] = {
    "exp": (te.exp, np.exp),
    "tanh": (te.tanh, np.tanh),
    "neg": (lambda x: -x, np.negative),
    "abs": (te.abs, np.abs),
    "floor": (te.floor, np.floor),
    "sqrt": (lambda x: te.sqrt(te.abs(x)), lambda x: np.sqrt(np.abs(x))),
    "sigmoid": (te.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
}
BINARY: dict[str, tuple[Callable[[AnyValue, AnyValue], AnyValue], Callable[[AnyValue, AnyValue], AnyValue]]] = {
    "add": (lambda x, y: x + y, np.add),
    "sub": (lambda x, y: x - y, np.subtract),
    "mul": (lambda x, y: x * y, np.multiply),
    "max": (te.max, np.maximum),
    "min": (te.min, np.minimum),
    "less": (lambda x, y: te.if_then_else(x < y, x, y * 2), lambda x, y: np.where(x < y, x, y * 2)),
}
REDUCE: dict[str, tuple[Callable[..., AnyValue], Callable[..., AnyValue]]] = {
    "sum": (te.sum, np.sum),
    "max": (te.max, np.max),
    "min": (te.min, np.min),
}


@dataclass
class Program:
    """Tensors of one size: two placeholders, and others with the functions that compute their values from those before."""

    tensors: list[Tensor]
    values: "list[Callable[[Values], AnyValue]]"


Values = list[AnyValue]
Step = tuple[Callable[[AnyValue, AnyValue], AnyValue], Callable[[Values], AnyValue]]
"""The element of a tensor, and the value of the tensor from those before it."""


def unary(name: str, a: Tensor, x: int) -> Step:
    ours, theirs = UNARY[name]
    return lambda i, j: ours(a(i, j)), lambda known: theirs(known[x])


def binary(name: str, a: Tensor, b: Tensor, x: int, y: int) -> Step:
    ours, theirs = BINARY[name]
    return lambda i, j: ours(a(i, j), b(i, j)), lambda known: theirs(known[x], known[y])


def turned(a: Tensor, b: Tensor, x: int, y: int) -> Step:
    rows, columns = a.shape
    return (
        lambda i, j: a[i, j] + b[rows - 1 - i, tir.indexmod(j + 1, columns)],
        lambda known: known[x] + np.roll(known[y][::-1], -1, axis=1),
    )


def reduction(name: str, a: Tensor, x: int) -> Step:
    ours, theirs = REDUCE[name]
    k = te.reduce_axis((0, a.shape[1]), "k")

    def value(known: Values) -> AnyValue:
        return np.stack([theirs(known[x] * np.float32(j + 1), axis=1) for j in range(known[x].shape[1])], axis=1)

    return lambda i, j: ours(a[i, k] * (j + 1), axis=k), value


@st.composite
def programs(draw: st.DrawFn, rows: AnyValue, columns: AnyValue) -> Program:
    """A program over two matrices and, as its other tensors, elementwise functions, turned reads, and reductions."""
    tensors = [te.placeholder((rows, columns), name=name) for name in "ab"]
    values: list[Callable[[Values], AnyValue]] = []
    for number in range(draw(st.integers(1, 5))):
        x, y = (draw(st.integers(0, len(tensors) - 1)) for _ in range(2))
        form = draw(st.sampled_from(("unary", "binary", "turned", "reduction")))
        if form == "unary":
            element, value = unary(draw(st.sampled_from(sorted(UNARY))), tensors[x], x)
        elif form == "binary":
            element, value = binary(draw(st.sampled_from(sorted(BINARY))), tensors[x], tensors[y], x, y)
        elif form == "turned":
            element, value = turned(tensors[x], tensors[y], x, y)
        else:
            element, value = reduction(draw(st.sampled_from(sorted(REDUCE))), tensors[x], x)
        tensors.append(te.compute((rows, columns), element, name=f"t{number}"))
        values.append(value)
    return Program(tensors, values)


def change(draw: st.DrawFn, stage: Stage) -> None:
    """Changes the loops of a stage at random."""
    for _ in range(draw(st.integers(0, 4))):
        loops = stage.leaf_iter_vars
        place = draw(st.integers(0, len(loops) - 1))
        form = draw(st.sampled_from(("split", "nparts", "fuse", "reorder", "kind")))
        if form == "split":
            stage.split(loops[place], factor=draw(st.sampled_from((1, 2, 3, 8))))
        elif form == "nparts":
            stage.split(loops[place], nparts=draw(st.sampled_from((1, 2, 5))))
        elif form == "fuse" and place + 1 < len(loops) and loops[place].iter_type == loops[place + 1].iter_type:
            stage.fuse(loops[place], loops[place + 1])
        elif form == "reorder":
            stage.reorder(*draw(st.permutations(loops)))
        elif loops[place].iter_type == tir.IterVar.DataPar:
            getattr(stage, draw(st.sampled_from(("vectorize", "parallel", "unroll"))))(loops[place])


@st.composite
def cases(draw: st.DrawFn) -> tuple[Program, Schedule, tuple[int, int]]:
    """A program, a schedule of it, and the sizes of its matrices."""
    sizes = (draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    rows = te.size_var("n") if draw(st.booleans()) else sizes[0]
    program = draw(programs(rows, sizes[1]))
    s = te.create_schedule(program.tensors[-1].op)
    for tensor in program.tensors[2:]:
        if s.bodies.get(id(tensor.op)) is not None and draw(st.integers(0, 3)) == 0:
            s.cache_write(tensor, "local")
    for tensor in program.tensors[:2]:
        readers = [stage.op for stage in s.stages if isinstance(stage.op, te.ComputeOp) and tensor in stage.op.input_tensors]
        readers = [op for op in readers if s.bodies[id(op)] == op.body]  # those that no cache changed
        if readers and draw(st.integers(0, 3)) == 0:
            s.cache_read(tensor, "local", draw(st.sampled_from(readers)))
    stages = [stage for stage in s.stages if stage.op.axis]
    for place, stage in enumerate(stages):
        change(draw, stage)
        if draw(st.integers(0, 3)) == 0:
            stage.storage_align(draw(st.sampled_from(stage.op.axis)), draw(st.integers(1, 8)), draw(st.integers(0, 3)))
        later = stages[place + 1 :]
        form = draw(st.sampled_from(("root", "inline", "at")))
        users = [other for other in later if any(tensor.op is stage.op for tensor in other.op.input_tensors)]
        if form == "inline" and later and not stage.op.reduce_axis:
            stage.compute_inline()
        elif form == "at" and len(users) == 1 and not any(other.is_inline for other in stages[:place]):
            stage.attached = (users[0], users[0].leaf_iter_vars[0])
    for stage in stages:  # loops that were split later than this
        if stage.attached is not None:
            stage.compute_at(stage.attached[0], stage.attached[0].leaf_iter_vars[0])
            if stage.attached[0].is_inline:
                stage.compute_root()
    domains = infer_bound(s)
    for stage in stages:  # vectors and unrolled loops have constant sizes
        for loop, kept in stage.loops.items():
            if loop in domains and not isinstance(domains[loop].extent, IntImm) and kept.kind != ForKind.PARALLEL:
                kept.kind = ForKind.SERIAL
    return program, s, sizes


Case = tuple[Program, Schedule, tuple[int, int]]


@settings(max_examples=share(8, 300))
@given(cases(), st.integers(0, 2**31))
def test_llvm_computes_what_numpy_does(case: Case, seed: int) -> None:
    check(case, seed, compile_functions)


@settings(max_examples=share(6, 60))
@given(cases(), st.integers(0, 2**31))
def test_c_computes_what_numpy_does(case: Case, seed: int) -> None:
    with PassContext(config={"tir.disable_vectorize": True}):
        check(case, seed, compile_with_c)


def check(case: Case, seed: int, compile_: Callable[..., AnyValue]) -> None:
    """Compares a program with NumPy on random matrices."""
    program, schedule, sizes = case
    rng = np.random.default_rng(seed)
    known: Values = [rng.uniform(-2, 2, sizes).astype("float32") for _ in range(2)]
    arrays, result = known[:2], np.full(sizes, np.nan, "float32")
    with np.errstate(all="ignore"):
        for value in program.values:
            known.append(np.asarray(value(known), "float32"))
    module = lower(schedule, [*program.tensors[:2], program.tensors[-1]])
    compile_({"main": module["main"]})["main"](*arrays, result)
    np.testing.assert_allclose(result, known[-1], rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_programs_are_built_and_called_with_arrays(target: str) -> None:
    n = te.size_var("n")
    x = te.placeholder((n,), name="x", dtype="int8")
    y = te.compute((n,), lambda i: x[i].astype("int32") // 3, name="y")
    module = build(te.create_schedule(y.op), [x, y], target, name="third")
    result = nd.array(np.zeros(5, np.int32))
    module["third"](nd.array(np.array([-7, -1, 0, 5, 127], np.int8)), result)
    assert list(result.numpy()) == [-3, -1, 0, 1, 42]
    for args, message in (
        ((nd.array(np.zeros(5, np.int8)),), "third takes 2 arguments, not 1"),
        ((nd.array(np.zeros(5, np.int8)), nd.array(np.zeros(4, np.int32))), "dimension 0 of y is 5 in third, but the array has 4"),
        ((nd.array(np.zeros(5, np.float32)), result), "elements of type int8, not float32"),
        ((nd.array(np.zeros((5, 1), np.int8)), result), "has 1 dimension, not 2"),
        ((3, result), "is an array, not a int"),
    ):
        with pytest.raises(ValueError, match=message):
            module["third"](*args)


def test_registered_functions_are_called() -> None:
    seen: list[AnyValue] = []

    def scaled(x: AnyValue, factor: float, times: int, out: AnyValue) -> int:
        if times < 0:
            raise KeyError("negative")
        seen.append((x.shape, factor, times))
        out.copyfrom(x.numpy() * factor * times)
        return 7

    register_func("tests.jit.scaled", scaled, override=True)
    n, times = te.size_var("n"), te.var("times")
    x = te.placeholder((n, 2), name="x")
    y = te.extern((n, 2), [x], lambda ins, outs: tir.call_packed("tests.jit.scaled", ins[0], 1.5, times, outs[0]), name="y")
    module = build(te.create_schedule(y.op), [x, y, times], "llvm")
    given_array, result = nd.array(np.ones((3, 2), np.float32)), nd.array(np.zeros((3, 2), np.float32))
    module(given_array, result, 2)
    assert seen == [((3, 2), 1.5, 2)]
    assert (result.numpy() == 3).all()
    with pytest.raises(KeyError, match="negative"):
        module(given_array, result, -1)
    with pytest.raises(TirError, match="StringImm"):
        build(te.create_schedule(y.op), [x, y, times], "c")


def test_assertions_and_memory() -> None:
    function = parse_function(
        """primfn(a: handle, n: int32) buffers a -> A: Buffer(p: Pointer(global int32), int32, [8]) {
          assert((n < 8), "n is below 8")
          allocate(t: Pointer(global int64), int64, [(n + 1)])
          let k: int32 = floordiv(n, 2)
          for (i: int32, 0, n) { t[i] = cast(int64, (i*i)) }
          while ((p_is_small(n) && False)) { evaluate(0) }
          for (j: int32, k, (n - k)) "unrolled" { p[j] = cast(int32, (int64*)t[j]) }
          p[ramp(0, 1, 2) where broadcast((n > 6), 2)] = broadcast(9, 2)
        }""".replace("p_is_small(n)", "(n < 4)")
    )
    run = compile_functions({"f": function})["f"]
    array = np.zeros(8, np.int32)
    run(array, 5)
    assert array.tolist() == [0, 0, 4, 9, 16, 0, 0, 0]
    run(array, 7)
    assert array.tolist() == [9, 9, 4, 9, 16, 25, 36, 0]
    with pytest.raises(AssertionError, match="n is below 8"):
        run(array, 8)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_prefetches_change_nothing(target: str) -> None:
    function = parse_function(
        """primfn(a: handle, b: handle) buffers a -> A: Buffer(p: Pointer(global float32), float32, [3, 40]),
          b -> B: Buffer(q: Pointer(global float32), float32, [3, 40]) {
          for (i: int32, 0, 3) {
            prefetch(A, [range(min=i, ext=1), range(min=0, ext=40)])
            for (j: int32, 0, 40) { B[i, j] = (A[i, j]*2.0f32) }
          }
        }"""
    )
    x, out = np.arange(120, dtype="float32").reshape(3, 40), nd.array(np.zeros((3, 40), "float32"))
    build(function, target=target)(nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), x * 2)


def test_an_array_of_one_repeated_number_is_an_argument() -> None:
    x = te.placeholder((4,), "float32", name="x")
    y = te.compute((4,), lambda i: x[i] + 1, name="y")
    function = build(te.create_schedule(y.op), [x, y], target="llvm", name="increment")
    repeated, out = nd.array(np.broadcast_to(np.float32(2), (4,))), nd.array(np.zeros(4, np.float32))
    function(repeated, out)
    np.testing.assert_array_equal(out.numpy(), np.full(4, 3, np.float32))


@pytest.mark.parametrize("name", ["int", "a b", "exp"])
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_functions_have_any_name(target: str, name: str) -> None:
    y = te.compute((4,), lambda i: tir.exp(i.astype("float32")), name="y")
    result = nd.empty((4,))
    built = build(te.create_schedule(y.op), [y], target, name=name)
    built[name](result)
    np.testing.assert_allclose(result.numpy(), np.exp(np.arange(4, dtype="float32")), rtol=1e-5)


def test_what_is_not_built() -> None:
    with pytest.raises(TypeError, match="a schedule, a function or a module is built, not a NoneType"):
        build(None, [])
    with pytest.raises(TypeError, match="the name of a function is a str, not a int"):
        build(te.create_schedule(te.compute((4,), lambda i: i).op), [], name=3)  # type: ignore[arg-type]  # what the test is about


ODD = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        2.5,
        -2.5,
        0.5,
        -1.0,
        2.0**31,
        -(2.0**63),
        2.0**64,
        1e300,
        5e-324,
        65519.99,
        65520.0,
        1 + 2.0**-11 + 2.0**-40,
    ]
)


@pytest.mark.parametrize("vectorized", [False, True])
def test_doubles_become_halves_rounded_once(vectorized: bool) -> None:
    """LLVM calls a function for it that does not exist, at address 0."""
    halves = np.arange(0x7BFF, dtype=np.uint16).view(np.float16).astype("float64")
    middle = (halves[1:] + halves[:-1]) / 2
    given = np.concatenate([ODD, halves, middle, -middle, *(np.nextafter(middle, end) for end in (np.inf, -np.inf))])
    given = given[: len(given) // 8 * 8]
    x = te.placeholder(given.shape, "float64", name="x")
    y = te.compute(given.shape, lambda i: x[i].astype("float16"), name="y")
    s = te.create_schedule(y.op)
    if vectorized:
        s[y].vectorize(s[y].split(y.op.axis[0], 8)[1])
    result = nd.empty(given.shape, "float16")
    build(s, [x, y], "llvm")(nd.array(given), result)
    with np.errstate(all="ignore"):
        wanted = given.astype("float16")
    np.testing.assert_array_equal(result.numpy(), wanted)
    np.testing.assert_array_equal(np.signbit(result.numpy()[~np.isnan(wanted)]), np.signbit(wanted[~np.isnan(wanted)]))


@pytest.mark.parametrize(
    ("dtype", "function"),
    [
        ("float64", tir.round),
        ("float32", tir.round),
        ("float64", lambda x: x.astype("uint64")),
        ("float32", lambda x: x.astype("uint64")),
        ("bool", lambda x: ~x),
        ("bool", lambda x: x + x),
        ("bool", lambda x: tir.const(False, "bool") - x),
    ],
)
def test_llvm_and_c_agree(dtype: str, function: Callable[[AnyValue], AnyValue]) -> None:
    with np.errstate(all="ignore"):
        given = ODD.astype(dtype) if dtype != "bool" else np.array([False, True])
    x = te.placeholder(given.shape, dtype, name="x")
    y = te.compute(given.shape, lambda i: function(x[i]), name="y")
    results = [nd.empty(given.shape, y.dtype) for _ in range(2)]
    for target, result in zip(("llvm", "c"), results, strict=True):
        build(te.create_schedule(y.op), [x, y], target)(nd.array(given), result)
    np.testing.assert_array_equal(results[0].numpy(), results[1].numpy())


def test_calls_of_functions_that_do_not_exist_are_errors() -> None:
    def built(element: Callable[[AnyValue], AnyValue]) -> AnyValue:
        y = te.compute((4,), element, name="y")
        return build(te.create_schedule(y.op), [y], "llvm")

    with pytest.raises(UnsupportedError, match="no library of this process has the C function missing, which is called"):
        built(lambda i: tir.call_pure_extern("int32", "missing", i))
    with pytest.raises(UnsupportedError, match=r"tir\.popcount of float32 is not compiled"):
        built(lambda i: tir.popcount(i.astype("float32")))
    result = nd.empty((4,), "int32")
    built(lambda i: tir.call_pure_extern("int32", "abs", i - 2))(result)
    assert result.numpy().tolist() == [2, 1, 0, 1]
