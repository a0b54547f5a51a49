"""The arithmetic of reshape compared with NumPy, on integers, and on symbols that are then given values."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from passat.ir.op import OpTypeError, get_op
from passat.ir.ops.newshape import is_identity_reshape, reshaped, static_newshape
from passat.ir.shape import ANY, Dim, Shape, SymDim, product
from passat.ir.types import TensorType
from tests.share import share

if TYPE_CHECKING:
    from tests.ir.ops.movement.conftest import Bench

N, M = SymDim.named("n"), SymDim.named("m")


def test_relay_and_onnx_entries() -> None:
    assert reshaped((2, 3, 4), (4, 0, 2)) == (4, 3, 2)
    assert reshaped((2, 3, 4), (-3, 4)) == (6, 4)
    assert reshaped((2, 3, 4), (-2, 1, 1)) == (2, 3, 4, 1, 1)
    assert reshaped((2, 3, 4), (-4, 1, 2, -2)) == (1, 2, 3, 4)
    assert reshaped((2, 3, 4), (2, -4, -1, 3, -2)) == (2, 1, 3, 4)
    assert reshaped((2, 3, 4, 5), (-3, -3)) == (6, 20)
    assert reshaped((2, 3, 4, 5), (0, -3, -1)) == (2, 12, 5)
    assert reshaped((0, 3), (3, 0), True) == (3, 0)


@pytest.mark.parametrize(
    ("shape", "newshape", "expected"),
    [
        ((N, 768), (0, -1, 64), (N, 12, 64)),
        ((N, M, 768), (N, M, 12, -1), (N, M, 12, 64)),
        ((N, M, 768), (-1, 768), (N * M, 768)),
        ((N + 1, 4), (-1,), (4 * N + 4,)),
        ((N + 1, 4, M), (M, -1), (M, 4 * N + 4)),
        ((ANY, 4), (0, -1), (ANY, 4)),
        ((ANY, ANY, 8), (0, 0, 2, -1), (ANY, ANY, 2, 4)),
        ((ANY, 4), (-1, 2), (ANY, 2)),
        ((N, 3), (2, -1), (2, (3 * N) // 2)),
        ((N, 64), (M, ANY), (M, (64 * N) // M)),
        ((N, 64), (ANY, ANY), (ANY, ANY)),
        ((N, 64), (ANY, 64), (N, 64)),
        ((0, N), (0, ANY), (0, ANY)),
        ((N, 6), (M, 6), (M, 6)),
        ((N, M), (-3,), (N * M,)),
        ((N * 4, M), (-4, -1, 4, 0), (N, 4, M)),
    ],
)
def test_symbols(shape: Shape, newshape: Sequence[Dim], expected: Shape) -> None:
    assert reshaped(shape, newshape) == expected


@pytest.mark.parametrize(
    ("shape", "newshape", "message"),
    [
        ((2, 3), (4, 2), r"\(2, 3\) has 6 elements, but \(4, 2\) has 8"),
        ((2, 3), (4, -1), "6 elements cannot be divided by 4"),
        ((0, 3), (0, -1), "-1 cannot be inferred next to a size of 0"),
        ((2, 3), (-1, -1), r"newshape=\(-1, -1\) has more than one -1"),
        ((2, 3), (2, 3, 0), r"newshape=\(2, 3, 0\) uses more sizes than the 2 of the operand"),
        ((2, 3), (2, -5), r"newshape=\(2, -5\) has the invalid entry -5; use a size, 0, -1, -2, -3 or -4"),
        ((6, 3), (-4, 4, -1, 0), r"a size of 6 does not split in \(4, -1\)"),
        ((6, 3), (-4, 2, 2, 0), r"a size of 6 does not split in \(2, 2\)"),
        ((6, 3), (-4, 2), "-4 must be followed by the two sizes"),
    ],
)
def test_impossible_variants(shape: Shape, newshape: tuple[int, ...], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        reshaped(shape, newshape)


def test_the_operator_is_named_with_its_types() -> None:
    op = get_op("reshape")
    with pytest.raises(OpTypeError) as error:
        op.infer([TensorType((2, 3))], op.bind_attrs({"newshape": (4,)}))
    expected = "reshape(Tensor[(2, 3), float32]; newshape=(4,), allowzero=False): (2, 3) has 6 elements, but (4,) has 4"
    assert str(error.value) == expected


@st.composite
def factorings(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes with the same number of elements."""
    factors = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))

    def grouped() -> tuple[int, ...]:
        groups: list[list[int]] = [[]]
        for factor in draw(st.permutations(factors)):
            if draw(st.booleans()):
                groups.append([])
            groups[-1].append(factor)
        return tuple(math.prod(group) for group in groups)

    return grouped(), grouped()


@settings(max_examples=share(25, 150))
@given(shapes=factorings(), data=st.data())
def test_reshape_agrees_with_numpy(shapes: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject) -> None:
    source, target = shapes
    entries = list(target)
    for i in range(min(len(source), len(target))):
        if source[i] == target[i] and data.draw(st.booleans()):
            entries[i] = 0
    if data.draw(st.booleans()):
        entries[data.draw(st.integers(0, len(entries) - 1))] = -1
    array = np.arange(math.prod(source)).reshape(source)
    op = get_op("reshape")
    attrs = op.bind_attrs({"newshape": tuple(entries)})
    assert op.kernel is not None
    value = op.kernel(array, **attrs)
    assert op.infer([TensorType(source, "int64")], attrs) == TensorType(target, "int64")
    np.testing.assert_array_equal(value, array.reshape(target))


@settings(max_examples=share(35, 200))
@given(shapes=factorings(), data=st.data())
def test_normal_forms_do_the_same_for_every_size(
    bench: "Bench", shapes: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject
) -> None:
    """Some sizes become symbols in both shapes; the static newshape of the symbolic shapes then has to fit the numbers."""
    source, target = shapes
    sizes = {"a": data.draw(st.integers(2, 4)), "b": data.draw(st.integers(2, 4))}
    names = {sizes["a"]: SymDim.named("a"), sizes["b"]: SymDim.named("b")}
    hidden: list[Dim] = [names.get(size, size) for size in source]
    aim: list[Dim] = [names.get(size, size) for size in target]
    form = static_newshape(tuple(hidden), tuple(aim))
    assume(form is not None)
    assert form is not None
    array = np.arange(math.prod(source)).reshape(source)
    np.testing.assert_array_equal(bench.value("reshape", [array], **form), array.reshape(target))
    back = reshaped(tuple(hidden), form["newshape"], form["allowzero"])
    assert [bench.run_dim(dim, sizes) for dim in back] == list(target)


def test_normal_forms() -> None:
    assert static_newshape((2, 3), (3, 2)) == {"newshape": (3, 2), "allowzero": False}
    assert static_newshape((N, M, 8), (N, M * 8)) == {"newshape": (0, -1), "allowzero": False}
    assert static_newshape((N, 8), (N, 2, 4)) == {"newshape": (0, 2, 4), "allowzero": False}
    assert static_newshape((0, N), (0, N)) == {"newshape": (0, 0), "allowzero": False}
    assert static_newshape((0, 4), (4, 0)) == {"newshape": (4, 0), "allowzero": True}
    assert static_newshape((0, N), (N, 0)) is None
    assert static_newshape((0, N), (0, 2 * N)) is None
    assert static_newshape((N * M,), (N, M)) is None
    assert static_newshape((ANY, 4), (ANY, 2, 2)) == {"newshape": (-1, 2, 2), "allowzero": False}
    assert static_newshape((ANY, ANY, 4), (ANY, ANY, 2, 2), (0, 1)) == {"newshape": (0, 0, 2, 2), "allowzero": False}


def test_identities() -> None:
    assert is_identity_reshape(TensorType((N, 4)), TensorType((N, 4)))
    assert is_identity_reshape(TensorType((N, ANY, 4)), TensorType((N, M, 4)))
    assert not is_identity_reshape(TensorType((ANY, ANY)), TensorType((ANY, ANY)))
    assert not is_identity_reshape(TensorType((0, ANY)), TensorType((0, M)))
    assert not is_identity_reshape(TensorType((4, N)), TensorType((4, N, 1)))


def test_the_number_of_elements_stays(bench: "Bench") -> None:
    for newshape in ((0, -1), (-1, 2), (-3, 0), (-2, 1), (0, -4, 2, -1, 0)):
        shape = (N, 4, M)
        result = reshaped(shape, newshape)
        assert bench.run_dim(product(result), {"n": 3, "m": 2}) == 24
