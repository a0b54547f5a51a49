"""Ctrl-C: saturation stops with the best program so far; a second Ctrl-C interrupts as usual; handlers of other code are kept."""

import signal
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

import pytest

from passat.ir.expr import Function
from passat.rules import RuleSet, op, rule_pass, tensors
from passat.rules.engine import limits
from passat.rules.engine.graph import Graph
from passat.rules.engine.limits import interrupted, interruptible
from passat.rules.engine.matching import Matcher
from tests.rules.building import func, ops, var
from tests.rules.running import apply, assert_equal_in_value

x, y, z = tensors("x y z")


class Sums(RuleSet):
    """Sums in every order, which is exponential."""

    commute = (x + y >> y + x).exploring()
    associate = ((x + y) + z >> x + (y + z)).exploring()
    negate = op.negative(op.negative(x)) >> x


@pytest.fixture(autouse=True)
def _usual_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "the handler is restored"
    assert not limits._open
    signal.signal(signal.SIGINT, before)


def long_sum(leaves: int = 14) -> Function:
    parts = [var(f"v{i}", (2,), "int64") for i in range(leaves)]
    total = ops.negative(ops.negative(parts[0]))
    for part in parts[1:]:
        total = total + part
    return func(total)


def interrupt_at(monkeypatch: pytest.MonkeyPatch, *matches: int) -> list[int]:
    """Simulates Ctrl-C while these matches are decided. Returns the matches decided before."""
    decide, seen = Matcher.decide, [0]

    def pressed(self: Matcher, graph: Graph, row: Sequence[int]) -> tuple[int, int]:
        seen[0] += 1
        if seen[0] in matches:
            signal.raise_signal(signal.SIGINT)
        return decide(self, graph, row)

    monkeypatch.setattr(Matcher, "decide", pressed)
    return seen


def test_the_best_so_far_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = interrupt_at(monkeypatch, 1000)
    function = long_sum()
    outcome = apply(rule_pass(Sums), function)
    assert outcome.remarks == ["interrupted; the best program so far was extracted"]
    assert 1000 <= seen[0] < 1300
    assert_equal_in_value(function, outcome.function, exact=True)
    assert "negative" not in str(outcome.function)


def test_the_second_one_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, 1000, 1001)
    with pytest.raises(KeyboardInterrupt):
        apply(rule_pass(Sums), long_sum())


def test_later_saturations_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, 1000)
    with interruptible() as asked:
        apply(rule_pass(Sums), long_sum())
        assert asked.requested
        second = long_sum()
        outcome = apply(rule_pass(Sums), second)
        assert outcome.function is second
        assert outcome.remarks == ["interrupted; the best program so far was extracted"]
    outcome = apply(rule_pass(Sums), second, rules__nodes=100)
    assert outcome.function is not second, "the interruption ends with the region"


def test_handlers_of_others_stay() -> None:
    caught = []

    def handler(number: int, frame: FrameType | None) -> None:
        caught.append(number)

    signal.signal(signal.SIGINT, handler)
    with interruptible() as asked:
        assert signal.getsignal(signal.SIGINT) is handler
        signal.raise_signal(signal.SIGINT)
        assert caught == [signal.SIGINT]
        assert not asked.requested
        assert not interrupted()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_other_threads_open_nothing_and_stop_all_the_same() -> None:
    said: list[bool] = []

    def work() -> None:
        with interruptible():
            said.append(interrupted())

    for asked_before in (False, True):
        with interruptible() as asked:
            asked.requested = asked_before
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    assert said == [False, True]


def test_an_exception_leaves_nothing_behind() -> None:
    with pytest.raises(ValueError, match="on purpose"), interruptible():
        raise ValueError("on purpose")
    assert not interrupted()
