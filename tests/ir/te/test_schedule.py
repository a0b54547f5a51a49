"""Schedules of tensors: the loops that they lower to, and wrong uses."""

from collections.abc import Callable
from typing import Any as AnyValue

import pytest

from passat import te
from passat.driver import lower, schedule_to_module
from passat.ir import assert_structural_equal
from passat.ir.te.schedule import Schedule
from passat.ir.te.tensor import Tensor
from passat.ir.tir.parser import parse_function
from passat.ir.tir.types import TirError


def lowered(schedule: Schedule, args: list[Tensor], expected: str) -> None:
    """Asserts that a schedule becomes a body."""
    function = schedule_to_module(schedule, args)["main"]
    params = str(function).partition("{\n")[0].partition("\n  with")[0]
    assert_structural_equal(function, parse_function(f"{params}\n  with {WITH} {{ {expected} }}"))


WITH = '{"global_symbol": "main", "from_legacy_te_schedule": true, "tir.noalias": true}'


def test_reductions_start_with_the_neutral_element() -> None:
    x = te.placeholder((8, 10), name="x")
    k = te.reduce_axis((0, 10), "k")
    y = te.compute((8,), lambda i: te.max(x[i, k], axis=k, where=k.var > 1), name="y")
    lowered(
        te.create_schedule(y.op),
        [x, y],
        """
        for (i: int32, 0, 8) {
          y_1[i] = -3.4028234663852886e38f32
          for (k: int32, 0, 10) { if ((k > 1)) { y_1[i] = max(y_1[i], x_1[i, k]) } }
        }""",
    )


def test_split_loops_are_guarded_unless_the_size_is_divisible() -> None:
    x = te.placeholder((10, 8), name="x")
    y = te.compute((10, 8), lambda i, j: x[i, j] + 1, name="y")
    s = te.create_schedule(y.op)
    io, ii = s[y].split(y.op.axis[0], factor=4)
    jo, ji = s[y].split(y.op.axis[1], nparts=2)
    s[y].reorder(io, jo, ii, ji)
    s[y].parallel(io)
    s[y].vectorize(ji)
    lowered(
        s,
        [x, y],
        """
        for (io: int32, 0, 3) "parallel" { for (jo: int32, 0, 2) { for (ii: int32, 0, 4) { for (ji: int32, 0, 4) "vectorized" {
          if (@tir.likely(((ii + (io*4)) < 10), dtype=bool)) {
            y_1[(ii + (io*4)), (ji + (jo*4))] = (x_1[(ii + (io*4)), (ji + (jo*4))] + 1.0f32)
          }
        } } } }""",
    )


def test_stages_are_computed_where_the_schedule_says() -> None:
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: x[i] * 2, name="y")
    z = te.compute((62,), lambda i: y[i] + y[i + 2], name="z")
    s = te.create_schedule(z.op)
    s[y].compute_inline()
    lowered(s, [x, z], "for (i: int32, 0, 62) { z_1[i] = ((x_1[i]*2.0f32) + (x_1[(i + 2)]*2.0f32)) }")
    s = te.create_schedule(z.op)
    outer, _ = s[z].split(z.op.axis[0], factor=31)
    s[y].compute_at(s[z], outer)
    lowered(
        s,
        [x, z],
        """
        for (outer: int32, 0, 2) {
          realize(y: Buffer(y_1: Pointer(global float32), float32, [64]), [range(min=(outer*31), ext=33)])
          for (i: int32, 0, 33) {
            if (@tir.likely(((i + (outer*31)) >= 0), dtype=bool)) { if (@tir.likely(((i + (outer*31)) < 64), dtype=bool)) {
              y[(i + (outer*31))] = (x_1[(i + (outer*31))]*2.0f32)
            } }
          }
          for (inner: int32, 0, 31) {
            z_1[(inner + (outer*31))] = (y[(inner + (outer*31))] + y[((inner + (outer*31)) + 2)])
          }
        }""",
    )


def _text() -> AnyValue:
    return "y"


def _bad_compute() -> object:
    k = te.reduce_axis((0, 4), "k")
    x = te.placeholder((4,), name="x")
    return te.compute((1,), lambda i: te.sum(x[k], axis=k) + 1)


def _reversed(s: Schedule, y: Tensor, z: Tensor) -> object:
    s[z].compute_at(s[y], y.op.axis[0])
    return lower(s, [*y.op.input_tensors, z])


def _huge_fuse(*_: object) -> object:
    y = te.compute((2**16, 2**16), lambda i, j: i, name="y")
    s = te.create_schedule(y.op)
    s[y].fuse(*y.op.axis)
    return lower(s, [y])


def _huge_split(factor: int) -> object:
    n = te.size_var("n")
    y = te.compute((n,), lambda i: i, name="y")
    s = te.create_schedule(y.op)
    s[y].split(y.op.axis[0], factor=factor)
    return lower(s, [y])


def _of_schedule(function: Callable[[AnyValue, Tensor, Tensor], object]) -> Callable[[], object]:
    def run() -> object:
        x = te.placeholder((8, 8), name="x")
        k = te.reduce_axis((0, 8), "k")
        y = te.compute((8,), lambda i: te.sum(x[i, k], axis=k), name="y")
        z = te.compute((8,), lambda i: y[i] + y[0], name="z")
        return function(te.create_schedule(z.op), y, z)

    return run


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_bad_compute, "reduces inside another expression"),
        (lambda: te.placeholder((4,), name="x")[0, 1] + 1, "x has 1 dimension, and the index 2"),
        (lambda: te.compute((4, 4), lambda i: i), "1 parameter, and its shape 2 dimensions"),
        (_of_schedule(lambda s, y, z: s[y].split(z.op.axis[0], factor=2)), "i is not a loop of y, which has i, k"),
        (_of_schedule(lambda s, y, z: s[z].split(z.op.axis[0], factor=0)), "i is split by a positive integer, not by 0"),
        (_of_schedule(lambda s, y, z: s[z].split(z.op.axis[0], factor=2.5)), "i is split by a positive integer, not by 2.5"),
        (_of_schedule(lambda s, y, z: s[z].split("i", factor=2)), "a loop of z is a variable such as z.op.axis.0., not a str"),
        (_of_schedule(lambda s, y, z: s[z].bind(z.op.axis[0], "threadIdx.x")), "a thread that te.thread_axis makes, not to a str"),
        (_of_schedule(lambda s, y, z: s["z"]), "a schedule has stages of tensors and operations, not of a str"),
        (lambda: te.create_schedule(_text()), r"made of operations, as in te.create_schedule\(y.op\), not of a str"),
        (_of_schedule(lambda s, y, z: s[z].compute_at(s[z], z.op.axis[0])), "z cannot be computed inside its own loop"),
        (_of_schedule(lambda s, y, z: s[z].compute_at(s, z.op.axis[0])), "inside a loop of a stage, not of a Schedule"),
        (_of_schedule(lambda s, y, z: s[y.op.input_tensors[0]].compute_at(s[z], z.op.axis[0])), "x is an argument"),
        (_of_schedule(_reversed), "z is computed inside the loop i of y, where nothing reads it"),
        (_of_schedule(_huge_fuse), r"the loop i.j.fused has \(65536\*65536\) iterations, more than int32 counts"),
        (lambda: _huge_split(2**31), "i of y is split by 2147483648, which is too large for its type int32"),
        (lambda: _huge_split(2**31 - 1), "i of y is split by 2147483647, which is too large for its type int32"),
        (_of_schedule(lambda s, y, z: lower(s, [*y.op.input_tensors, *y.op.input_tensors, z])), "x is an argument twice"),
        (_of_schedule(lambda s, y, z: lower(s, [_text(), z])), "tensors, buffers and variables, not a str"),
        (_of_schedule(lambda s, y, z: lower(s, _text())), "a list of tensors, buffers and variables, not a str"),
        (lambda: te.placeholder((-4,)), "the sizes of a tensor are integers from 0 on, not -4"),
        (lambda: te.placeholder((2.5,)), "the sizes of a tensor are integers from 0 on, not 2.5"),
        (lambda: te.placeholder((4,), "float33"), "no array has elements of type float33; .* float16, float32, float64"),
        (lambda: te.placeholder((4,))[1.5] + 1, "an index is an integer, not 1.5"),
        (lambda: te.compute((4,), lambda i: te.sum(te.placeholder((4,))[i], axis=i)), "the axes of a reduction are made by reduce_axis"),
        (lambda: te.sum(te.var("x")), "sum takes a value and axes"),
        (_of_schedule(lambda s, y, z: s[y].vectorize(y.op.reduce_axis[0])), "k reduces, so it cannot be vectorized"),
        (_of_schedule(lambda s, y, z: s[y].fuse(y.op.axis[0], y.op.reduce_axis[0])), "one reduces and the other does not"),
        (_of_schedule(lambda s, y, z: s[y].compute_inline()), "y cannot be computed where it is used"),
        (_of_schedule(lambda s, y, z: lower(s, [z])), "the tensor x is read, but it is not an argument"),
        (_of_schedule(lambda s, y, z: s[te.placeholder((1,), name="w")]), "w is not part of the schedule of z"),
    ],
)
def test_wrong_use(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises((TirError, TypeError, ValueError), match=message):
        wrong()


@pytest.mark.parametrize("size", [{"factor": 10**12}, {"nparts": 10**12}, {"factor": 2**31 - 1}])
def test_splits_beyond_the_size_have_no_empty_iterations(size: dict[str, int]) -> None:
    x = te.placeholder((10,), name="x")
    y = te.compute((10,), lambda i: x[i] + 1, name="y")
    s = te.create_schedule(y.op)
    s[y].split(y.op.axis[0], **size)
    lowered(s, [x, y], "for (i: int32, 0, 10) { y_1[i] = (x_1[i] + 1.0f32) }")


def test_extern_stages_are_computed_before_they_are_read() -> None:
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] + 1, name="y")
    z = te.extern((4,), [y], lambda ins, outs: outs[0].vstore(0, ins[0].vload(0)), name="z")
    s = te.create_schedule(z.op)
    s[z].compute_at(s[y], y.op.axis[0])
    with pytest.raises(TirError, match="z is computed inside the loop i of y, where nothing reads it"):
        lower(s, [x, z])


def test_caches_are_stages_of_their_own() -> None:
    x = te.placeholder((8, 4), name="x")
    k = te.reduce_axis((0, 4), "k")
    y = te.compute((8,), lambda i: te.sum(x[i, k], axis=k), name="y")
    s = te.create_schedule(y.op)
    cached = s.cache_write(y, "local")
    copied = s.cache_read(x, "shared", [cached])
    outer, _ = s[y].split(y.op.axis[0], factor=4)
    s[cached].compute_at(s[y], outer)
    assert [stage.op.name for stage in s.stages] == ["x", "x.shared", "y.local", "y"]
    s[copied].compute_at(s[y], outer)
    lowered(
        s,
        [x, y],
        """
        for (outer: int32, 0, 2) {
          realize(xs: Buffer(xs_1: Pointer(shared float32), float32, [8, 4]), [range(min=(outer*4), ext=4), range(min=0, ext=4)])
          for (a: int32, 0, 4) { for (b: int32, 0, 4) {
            if (@tir.likely(((a + (outer*4)) >= 0), dtype=bool)) { if (@tir.likely(((a + (outer*4)) < 8), dtype=bool)) {
              xs[(a + (outer*4)), b] = x_1[(a + (outer*4)), b]
            } }
          } }
          realize(yl: Buffer(yl_1: Pointer(local float32), float32, [8]), [range(min=(outer*4), ext=4)])
          for (c: int32, 0, 4) {
            if (@tir.likely(((c + (outer*4)) >= 0), dtype=bool)) { if (@tir.likely(((c + (outer*4)) < 8), dtype=bool)) {
              yl[(c + (outer*4))] = 0.0f32
            } }
            for (k: int32, 0, 4) {
              if (@tir.likely(((c + (outer*4)) >= 0), dtype=bool)) { if (@tir.likely(((c + (outer*4)) < 8), dtype=bool)) {
                yl[(c + (outer*4))] = (yl[(c + (outer*4))] + xs[(c + (outer*4)), k])
              } }
            }
          }
          for (inner: int32, 0, 4) { y_1[(inner + (outer*4))] = yl[(inner + (outer*4))] }
        }""",
    )


def test_memory_is_aligned_where_the_schedule_says() -> None:
    x = te.placeholder((8, 16), name="x")
    y = te.compute((8, 16), lambda i, j: x[i, j] + 1, name="y")
    z = te.compute((8, 16), lambda i, j: y[i, j] * 2, name="z")
    s = te.create_schedule(z.op)
    s[y].storage_align(y.op.axis[0], 2, 1)
    s[y].double_buffer()
    assert "float32, [136])" in str(lower(s, [x, z])["main"])
    assert '"double_buffer_scope" = 1' in str(lower(s, [x, z])["main"])
    with pytest.raises(TirError, match="i is not a dimension of y"):
        s[y].storage_align(z.op.axis[0], 2, 1)
    with pytest.raises(TirError, match="by a positive factor and an offset, not by 0 and 1"):
        s[y].storage_align(y.op.axis[0], 0, 1)
