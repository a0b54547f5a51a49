"""Certificates prove what HoistSelections did, and nothing else about selections."""

from collections.abc import Callable

import pytest

from passat.ir.expr import Expr, Function
from passat.ir.module import IRModule
from passat.passmgr import FunctionPass, PassContext, PassInfo
from passat.rules.passes.hoist_selections import HoistSelections, hoist_selections
from passat.rules.provenance.verdict import gaps_of
from tests.rules.building import const, func, ops, var
from tests.rules.passes.test_hoist_selections import drawn
from tests.rules.provenance.proving import written
from tests.share import share

FIRST = const([0], "int64")
x, mask = var("x", ("batch", 6, 4)), var("mask", ("batch", 1, 4))


@pytest.mark.parametrize("seed", range(share(25, 1000)))
def test_random_programs(seed: int) -> None:
    before = drawn(seed)
    found = written(before, [HoistSelections()], **{"rules.cost": "roofline"})
    assert gaps_of(found.certificate) == []
    assert found.check().complete


def test_most_of_these_programs_change() -> None:
    programs = list(map(drawn, range(20)))
    assert sum(hoist_selections(program) is not program for program in programs) > 10


def first(of: Expr, axis: int = 1) -> Expr:
    made: Expr = ops.take(of, FIRST, axis=axis)
    return made


@pytest.mark.parametrize(
    ("before", "after", "proved"),
    [
        pytest.param(lambda: first(ops.nn.softmax(x, axis=2)), lambda: ops.nn.softmax(first(x), axis=2), True, id="along another axis"),
        pytest.param(lambda: first(ops.nn.softmax(x, axis=1)), lambda: ops.nn.softmax(first(x), axis=1), False, id="along the axis"),
        pytest.param(lambda: first(ops.add(x, mask)), lambda: ops.add(first(x), mask), True, id="an operand without the axis"),
        pytest.param(lambda: first(ops.add(x, x)), lambda: ops.add(first(x), x), False, id="an operand of which all is left"),
        pytest.param(
            lambda: first(ops.transpose(x, axes=(0, 2, 1)), 2), lambda: ops.transpose(first(x), axes=(0, 2, 1)), True, id="a view"
        ),
        pytest.param(lambda: first(ops.transpose(x, axes=(0, 2, 1))), lambda: ops.transpose(first(x), axes=(0, 2, 1)), False, id="columns"),
    ],
)
def test_other_passes(before: Callable[[], Expr], after: Callable[[], Expr], proved: bool) -> None:
    class Claim(FunctionPass):
        """Replaces the program by another one."""

        info = PassInfo(0, "Claim")

        def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
            return claimed

    claimed = func(after(), x, mask)
    found = written(func(before(), x, mask), [Claim()])
    assert found.check().complete is proved
