"""Functions of the loop IR as C compute the values of the loops."""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passat.ir.tir.arithmetic import Add, And, FloorDiv, FloorMod, Max, Min
from passat.ir.tir.buffer import decl_buffer
from passat.ir.tir.expr import BINARY, Call, Cast, FloatImm, IntImm, PrimExpr, Var, const
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.stmt import Allocate, For, ForKind, IfThenElse, LetStmt, SeqStmt, Stmt, Store, While
from passat.ir.tir.types import PointerType, PrimType, TirError
from passat.ir.tir.values import BufferLoad, Let, Load, Ramp, Select, true
from passat.runtime.kernels import NoCompilerError, build_library, compiler
from passat.runtime.kernels.emit_c import emit, module_source
from passat.runtime.kernels.functions import call
from tests.ir.tir.programs import functions

try:
    COMMAND = compiler()
except NoCompilerError as error:
    pytest.skip(str(error), allow_module_level=True)


def memory(name: str, dtype: str = "float32", scope: str = "global") -> Var:
    return Var(name, PointerType(PrimType(dtype), scope))


def compiled(made: Sequence[PrimFunc], folder: Path) -> list[AnyValue]:
    path = folder / "m.so"
    path.write_bytes(build_library(module_source(made), COMMAND))
    library = ctypes.CDLL(str(path))
    return [getattr(library, str(function.attrs["global_symbol"])) for function in made]


def run(function: AnyValue, *args: AnyValue) -> None:
    function(*(each.ctypes.data_as(ctypes.c_void_p) if isinstance(each, np.ndarray) else ctypes.c_int(each) for each in args))


def elementwise(name: str, value: Callable[..., PrimExpr], dtype: str, kind: ForKind = ForKind.SERIAL, result: str = "") -> PrimFunc:
    x, y, z, n, i = memory("x", dtype), memory("y", dtype), memory("z", result or dtype), Var("n"), Var("i")
    body = Store(z, value(Load(dtype, x, i), Load(dtype, y, i)), i)
    return PrimFunc([x, y, z, n], For(i, 0, n, kind, body), attrs={"global_symbol": name})


SPECIAL = [-7, -6, -1, 0, 1, 6, 7, 100]
QUOTIENTS: dict[str, Callable[[AnyValue, AnyValue], AnyValue]] = {
    "/": lambda x, y: np.trunc(x / y),
    "%": np.fmod,
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
}


def test_quotients_round_down_or_towards_zero(tmp_path: Path) -> None:
    x, y = (each.ravel() for each in np.meshgrid(SPECIAL, [-3, -2, -1, 1, 2, 3]))
    kinds = ("int32", "int64", "int8", "int16")
    made = [elementwise(f"f{number}_{kind}", BINARY[symbol], kind) for number, symbol in enumerate(QUOTIENTS) for kind in kinds]
    results = iter(compiled(made, tmp_path))
    for symbol, expected in QUOTIENTS.items():
        for kind in kinds:
            a, b = x.astype(kind), y.astype(kind)
            z = np.zeros_like(a)
            run(next(results), a, b, z, len(a))
            np.testing.assert_array_equal(z, expected(a, b), f"{symbol} {kind}")


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.UNROLLED])
def test_kinds_of_loops(kind: ForKind, tmp_path: Path) -> None:
    x, y = np.arange(101, dtype=np.float32), np.ones(101, np.float32)
    z = np.zeros_like(x)
    [function] = compiled([elementwise("f", lambda a, b: call("sqrt", Add(a, b)), "float32", kind)], tmp_path)
    run(function, x, y, z, len(x))
    np.testing.assert_array_equal(z, np.sqrt(x + 1))


def test_statements(tmp_path: Path) -> None:
    """A branch, a binding, memory on the stack and on the heap, a local variable, a loop with a condition, and a buffer of two dimensions."""
    n, i, j, half = Var("n"), Var("i"), Var("j"), Var("half", "float32")
    x, z = decl_buffer((n, 4), "float32", "x"), memory("z")
    rows, few, total, k = memory("rows"), memory("few"), memory("total", scope="local"), memory("k", "int32", "local")
    body: Stmt = For(
        i, 0, n, ForKind.SERIAL,
        Allocate(total, "float32", [1], true(), SeqStmt([
            Store(total, FloatImm("float32", 0), 0),
            For(j, 0, 4, ForKind.UNROLLED, LetStmt(
                half, BufferLoad(x, [i, j]) * 0.5,
                IfThenElse(j < 2, Store(total, Load("float32", total, 0) + half, 0), Store(few, half, j)),
            )),
            Store(rows, Load("float32", total, 0) + Load("float32", few, 3), i),
        ])),
    )  # fmt: skip
    count_down = Allocate(k, "int32", [1], true(), SeqStmt([
        Store(k, n, 0),
        While(Load("int32", k, 0) > 0, SeqStmt([
            Store(k, Load("int32", k, 0) - 1, 0),
            Store(z, Load("float32", rows, Load("int32", k, 0)), Load("int32", k, 0)),
        ])),
    ]))  # fmt: skip
    body = Allocate(few, "float32", [4], true(), Allocate(rows, "float32", [n], true(), SeqStmt([body, count_down])))
    [function] = compiled([PrimFunc([x, z, n], body, attrs={"global_symbol": "f", "tir.noalias": True})], tmp_path)
    given_ = np.random.default_rng(0).standard_normal((5, 4), np.float32)
    found = np.zeros(5, np.float32)
    run(function, given_, found, 5)
    np.testing.assert_allclose(found, given_[:, 0] * 0.5 + given_[:, 1] * 0.5 + given_[:, 3] * 0.5, rtol=1e-6)


def test_expressions(tmp_path: Path) -> None:
    v = Var("int", "float32")  # a word of C
    values: dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
        "select": lambda a, b: Select(And(a < b, a > 0), a, b),
        "let": lambda a, b: Let(v, a * b, v + v),
        "guarded": lambda a, b: Call("float32", "tir.if_then_else", [a > b, call("tanh", a), Call("float32", "tir.fabs", [b])]),
        "cast": lambda a, b: Cast(
            "float32", FloorMod(Cast("int32", a), const(5, "int32")) + FloorDiv(Cast("int32", b), const(-2, "int32"))
        ),
        "extremes": lambda a, b: Max(Min(a, b), const(0.5, "float32")),
    }
    x, y = np.meshgrid(np.linspace(-4, 4, 9, dtype=np.float32), np.linspace(-3, 3, 9, dtype=np.float32))
    a, b = x.ravel(), y.ravel()
    expected = {
        "select": np.where((a < b) & (a > 0), a, b),
        "let": a * b * 2,
        "guarded": np.where(a > b, np.tanh(a), np.abs(b)),
        "cast": (np.mod(a.astype(int), 5) + np.floor_divide(b.astype(int), -2)).astype(np.float32),
        "extremes": np.maximum(np.minimum(a, b), 0.5),
    }
    made = [elementwise(f"f_{name}", value, "float32") for name, value in values.items()]
    for name, function in zip(values, compiled(made, tmp_path), strict=True):
        z = np.zeros_like(a)
        run(function, a, b, z, len(a))
        np.testing.assert_allclose(z, expected[name], rtol=1e-6, err_msg=name)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(functions(), min_size=20, max_size=20))
def test_any_function_is_valid_c_or_rejected(made: Sequence[PrimFunc]) -> None:
    texts = []
    for number, function in enumerate(made):
        try:
            texts.append(emit(function.with_attr("global_symbol", f"f{number}")))
        except TirError:
            continue
    build_library("\n".join([module_source([]), *texts]), COMMAND)


def test_what_c_cannot_express_is_an_error() -> None:
    x, i = memory("x"), Var("i")
    vector = Store(x, Load("float32x4", x, Ramp(i, 1, 4)), Ramp(i, 1, 4))
    for body, message in (
        (vector, "print loops before they are vectorized"),
        (Store(x, FloatImm("float32", 1), Var("unknown")), "unknown is neither a parameter of the function nor bound in it"),
        (Store(x, Call("float32", "tir.call_extern", []), IntImm("int32", 0)), "C code has no tir.call_extern"),
    ):
        with pytest.raises(TirError, match=message):
            emit(PrimFunc([x, i], body))
