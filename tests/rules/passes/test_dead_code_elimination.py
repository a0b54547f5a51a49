"""DeadCodeElimination: bindings that nobody uses."""

import pytest

from passat.passmgr import parse_pipeline
from passat.rules.passes import DeadCodeElimination
from tests.rules.passes.golden import becomes, stays

X = "%x: (3)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("let %a = exp(%x); %x", "%x", id="unused"),
        pytest.param("let %a = exp(%x); let %b = tanh(%a); %x", "%x", id="used by what is unused"),
        pytest.param("let %a = exp(%x); let %b = tanh(%x); %a", "let %a = exp(%x); %a", id="one of two"),
        pytest.param(
            "let %f = fn (%y: Tensor[(3), float32]) { let %c = exp(%y); %y }; %f(%x)",
            "let %f = fn (%y: Tensor[(3), float32]) { %y }; %f(%x)",
            id="within a function",
        ),
        pytest.param("let %f = fn (%y: Tensor[(3), float32]) { exp(%y) }; %x", "%x", id="a function that is not called"),
        pytest.param(
            "if (True) { let %a = exp(%x); %x } else { let %b = tanh(%x); %b }",
            "if (True) { %x } else { let %b = tanh(%x); %b }",
            id="within a branch",
        ),
    ],
)
def test_dead_bindings_go(before: str, after: str) -> None:
    becomes(DeadCodeElimination(), X, before, after)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("let %a = exp(%x); let %b = tanh(%a); add(%a, %b)", id="all are used"),
        pytest.param("let %a = nn.dropout(%x); %x", id="stateful"),
        pytest.param("let %a = ref(%x); let %b = ref_write(%a, exp(%x)); ref_read(%a)", id="a reference that is written to"),
        pytest.param("add(exp(%x), %x)", id="no bindings"),
    ],
)
def test_used_or_effectful_bindings_stay(body: str) -> None:
    stays(DeadCodeElimination(), X, body)


def test_bindings_are_not_inlined() -> None:
    """TVM's `inline_once` does; ToGraphNormalForm is there for that."""
    stays(parse_pipeline("DeadCodeElimination"), X, "let %a = exp(%x); tanh(%a)")
