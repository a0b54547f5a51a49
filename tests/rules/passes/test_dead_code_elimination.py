"""DeadCodeElimination: unused bindings."""

import pytest

from passat.ir.expr import Let
from passat.ir.text import parse
from passat.passmgr import parse_pipeline
from passat.rules.passes.simplify import DeadCodeElimination
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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("let %a = exp(%x); tanh(%a)", "tanh(exp(%x))", id="used once"),
        pytest.param("let %a = exp(%x); let %b = %a; tanh(%b)", "tanh(exp(%x))", id="by another name"),
        pytest.param("let %a = tanh(%x); let %b = exp(%a); %b", "exp(tanh(%x))", id="as the result"),
        pytest.param("let %a = exp(%x); add(%a, %a)", "let %a = exp(%x); add(%a, %a)", id="used twice"),
        pytest.param(
            "let %a = exp(%x); let %f = fn (%y: Tensor[(3), float32]) { let %b = tanh(%y); add(%a, %b) }; (%f(%x), %f(%x))",
            "let %a = exp(%x); let %f = fn (%y: Tensor[(3), float32]) { add(%a, tanh(%y)) }; (%f(%x), %f(%x))",
            id="in a function that is called twice",
        ),
        pytest.param(
            "let %r = ref(%x); let %a = ref_read(%r); let %b = ref_write(%r, exp(%x)); %a",
            "let %r = ref(%x); let %a = ref_read(%r); let %b = ref_write(%r, exp(%x)); %a",
            id="effects stay in order",
        ),
    ],
)
def test_values_used_once_stand_where_they_are_used(before: str, after: str) -> None:
    becomes(parse_pipeline("DeadCodeElimination{inline_once=true}"), X, before, after)


def test_calls_of_global_functions_without_effects() -> None:
    module = parse(
        """
def @even(%n: int32) -> bool { if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
def @odd(%n: int32) -> bool { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
def @set(%r: ref(int32)) -> () { ref_write(%r, 1) }
def @indirect(%r: ref(int32)) -> () { @set(%r) }
def @apply(%f: fn () -> ()) -> () { %f() }
def @main(%r: ref(int32), %f: fn () -> ()) {
  let %a = @even(3); let %b = @set(%r); let %c = @indirect(%r); let %d = @apply(%f); ()
}
"""
    )
    body, left = DeadCodeElimination()(module)["main"].body, []
    while isinstance(body, Let):
        left.append(body.var.name_hint)
        body = body.body
    assert left == ["b", "c", "d"]


def test_effects_may_count_for_nothing() -> None:
    becomes(DeadCodeElimination(ignore_impurity=True), X, "let %a = nn.dropout(%x); %x", "%x")


def test_bindings_are_not_inlined() -> None:
    stays(parse_pipeline("DeadCodeElimination"), X, "let %a = exp(%x); tanh(%a)")
