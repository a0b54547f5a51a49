"""Attributes: a mapping that is compared by exact content, in any order."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.tensor import Tensor
from tests.share import share
from tests.strategies import attribute_values


@settings(max_examples=share(40, 100))
@given(st.dictionaries(st.text(max_size=3), attribute_values(), max_size=3))
def test_attributes_are_equal_by_content_in_any_order(values: dict[str, object]) -> None:
    attrs, again = Attrs(values), Attrs(dict(reversed(values.items())))
    assert attrs == again == pickle.loads(pickle.dumps(attrs))
    assert hash(attrs) == hash(again)
    assert dict(attrs) == values or any(value != value for value in values.values()) or repr(dict(attrs)) == repr(values)
    assert list(attrs) == list(values)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (0.0, -0.0),
        (1, 1.0),
        (1, True),
        (0, False),
        ((1,), (1.0,)),
        ((), None),
        ("a", b"a"),
        ((1, (2,)), (1, (2.0,))),
        (Tensor.dense(np.zeros(2)), Tensor.dense(np.zeros(2, np.float32))),
        (Tensor.dense(np.int64(1)), 1),
    ],
)
def test_values_that_are_equal_in_python_are_distinguished(a: object, b: object) -> None:
    assert Attrs(value=a) != Attrs(value=b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (float("nan"), float("nan")),
        (Tensor.dense(np.ones(2)), Tensor.splat(1.0, (2,), "float64")),
        (Tensor.dense(np.ones(2)), Tensor.lazy("float64", (2,), lambda: np.ones(2), key=("file", 0))),
        ([1, 2], (1, 2)),
    ],
)
def test_values_that_are_the_same(a: object, b: object) -> None:
    assert Attrs(value=a) == Attrs(value=b)
    assert hash(Attrs(value=a)) == hash(Attrs(value=b))


def test_attributes_are_read_as_fields_and_as_a_mapping() -> None:
    attrs = Attrs({"axis": 1}, name="x")
    assert (attrs.axis, attrs["name"], len(attrs), "axis" in attrs) == (1, "x", 2, True)
    assert attrs != {"axis": 1, "name": "x"}
    assert repr(attrs) == "Attrs(axis=1, name='x')"
    with pytest.raises(AttributeError, match="no attribute 'axes'; there are: axis, name"):
        attrs.axes
    with pytest.raises(AttributeError, match="no attribute 'axes'; there are: none"):
        EMPTY_ATTRS.axes


def test_private_names_are_not_attributes() -> None:
    assert not hasattr(Attrs(a=1), "_nothing")
