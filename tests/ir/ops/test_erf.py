"""The error function compared with the C library's."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from passat.ir.ops.erf import erf
from passat.ir.tensor import Array
from tests.share import share


@settings(max_examples=share(80, 200))
@given(arrays(np.float64, 20, elements=st.floats(allow_nan=False) | st.floats(-7, 7) | st.floats(-1e-3, 1e-3)))
def test_two_units_in_the_last_place(x: Array) -> None:
    expected = np.array([math.erf(value) for value in x])
    assert np.all(np.abs(erf(x) - expected) <= 2 * np.spacing(np.abs(expected)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_shape_and_special_values(dtype: type) -> None:
    found = erf(np.array([[np.nan, np.inf, -np.inf], [0.0, -0.0, 6.5]], dtype))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.array([[np.nan, 1, -1], [0.0, -0.0, 1]], dtype))
    assert np.signbit(found[1, 1])
    assert erf(np.zeros((0, 3), dtype)).shape == (0, 3)
    assert erf(np.zeros((), dtype)).shape == ()
