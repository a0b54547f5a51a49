"""Long chains of one block: the work grows with the number of links, not with the number of forms."""

from collections.abc import Callable

import pytest

from passat.ir.expr import Expr
from passat.rules.passes.algebra import linear_algebra
from tests.rules.building import func, numbers, ops, splat, var
from tests.rules.running import Outcome, apply, operators

LINKS = 20


def matches(outcome: Outcome) -> float:
    """The matches of all rules."""
    counters = outcome.statistics.counters[outcome.name]
    return sum(count for key, count in counters.items() if key.startswith("matched:"))


def narrowing(links: int) -> Expr:
    body: Expr = var("x", (4, links + 8))
    for i in range(links):
        body = ops.nn.matmul(body, numbers((links + 8 - i, links + 7 - i), seed=i))
    return body


def divided(links: int) -> Expr:
    body: Expr = var("x", (4, 3))
    for i in range(links):
        body = splat(1.0 + i / 700) / body
    return body


@pytest.mark.parametrize(("chain", "after"), [(narrowing, ["nn.matmul"]), (divided, ["multiply"])], ids=["narrowing", "divided"])
def test_a_chain_with_constants_becomes_one_call(chain: Callable[[int], Expr], after: list[str]) -> None:
    outcome = apply(linear_algebra(), func(chain(LINKS)))
    assert operators(outcome.function) == after
    assert matches(outcome) < 60 * LINKS  # 5,500 and 71,000 while each pair of links had a form


def quotients(links: int) -> Expr:
    body, other = var("x", (4, 3)), var("y", (4, 3))
    whole: Expr = body
    for _ in range(links):
        whole = whole / other
    return whole


def weights_on_the_left(links: int) -> Expr:
    body: Expr = var("x", (2, 4, 3))
    for i in range(links):
        body = ops.nn.matmul(numbers((4, 4), seed=i), body)
    return body


def products(links: int) -> Expr:
    x = var("x", (2, 4, 4))
    body: Expr = x
    for _ in range(links):
        body = ops.nn.matmul(body, x)
    return body


@pytest.mark.parametrize("chain", [quotients, weights_on_the_left, products], ids=lambda chain: chain.__name__)
def test_a_chain_with_many_forms_takes_bounded_work(chain: Callable[[int], Expr]) -> None:
    """Each of these has a form for each pair or triple of links, and took 6 to 20 s for 80 links."""
    outcome = apply(linear_algebra(), func(chain(60)))
    assert matches(outcome) < 20_000
    assert len(operators(outcome.function)) < 20
