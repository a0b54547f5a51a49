"""SimplifyTupleGet: fields of tuples that were just constructed."""

import pytest

from passat.rules.passes.simplify import simplify_tuple_get
from tests.rules.passes.golden import becomes, stays

X = "%x: (2, 4)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("%0 = (%x, exp(%x)); %0.1", "exp(%x)", id="a field"),
        pytest.param("%0 = (exp(%x), %x); %0.1", "%x", id="a parameter"),
        pytest.param("%0 = (%x, (exp(%x), tanh(%x))); %1 = %0.1; (%1.1, %0.0)", "(tanh(%x), %x)", id="tuples in tuples"),
        pytest.param(
            "%0 = split(%x, indices_or_sections=2); %1 = (%0.1, %0.0); %1.0", "%0 = split(%x, indices_or_sections=2); %0.1", id="both"
        ),
        pytest.param("%0 = (%x, nn.relu(%x)); tanh(add(%0.0, %0.1))", "tanh(add(%x, nn.relu(%x)))", id="within"),
    ],
)
def test_fields_of_tuples(before: str, after: str) -> None:
    becomes(simplify_tuple_get(), X, before, after)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("%0 = split(%x, indices_or_sections=2); %0.1", id="of a call"),
        pytest.param("%0 = if (True) { (%x, %x) } else { (%x, exp(%x)) }; %0.1", id="of a branch"),
        pytest.param("(%x, exp(%x))", id="a tuple that is the result"),
    ],
)
def test_other_fields_stay(body: str) -> None:
    stays(simplify_tuple_get(), X, body)


def test_it_runs_from_the_first_level_on() -> None:
    stays(simplify_tuple_get(), X, "%x", rules__math="exact")
    becomes(simplify_tuple_get(), X, "%0 = (%x, exp(%x)); %0.1", "exp(%x)", rules__math="exact")
    assert simplify_tuple_get().info.opt_level == 1
