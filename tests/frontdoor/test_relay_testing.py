"""`tvm.testing`: the functions that users' tests import."""

import pytest

from passat import testing

size = testing.parameter(2, 3, ids=["two", "three"])


def test_a_parameter_is_a_fixture(size: int, request: pytest.FixtureRequest) -> None:
    assert request.node.name == f"test_a_parameter_is_a_fixture[{ {2: 'two', 3: 'three'}[size] }]"
