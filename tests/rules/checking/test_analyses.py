"""Rules whose guards ask an analysis of a user: what it says about calls is checked, too."""

from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np
import pytest

from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.rules.analysis import Analysis, Made
from passat.rules.checking.check_sets import check_rule
from passat.rules.checking.trying import tried
from passat.rules.guards import Term, guard
from passat.rules.pattern import op, tensors
from passat.rules.rule import Rule

x, y = tensors("x y")


class Whole(Analysis[bool]):
    """Whether all elements are whole numbers; some operators are said to keep them whole."""

    def __init__(self, *keep: str) -> None:
        self.keep = keep

    def known(self, type_: TensorType, constant: Tensor | None) -> bool | None:
        """Integers, and whole constants, are whole."""
        whole = (
            constant is not None
            and type_.dtype == "float32"
            and np.array_equal(constant.numpy(), np.floor(constant.numpy()), equal_nan=True)
        )
        return type_.dtype.startswith("int") or whole or None

    def reads(self, op: Op) -> bool:
        """The operators that keep numbers whole."""
        return op.name in self.keep

    def make(self, call: Made, facts: Sequence[AnyValue]) -> bool | None:
        """Whole if all operands are."""
        return all(facts) or None

    def merge(self, one: bool, other: bool) -> bool:
        """The fact of the older node."""
        return one


def rounding(*keep: str) -> Rule:
    whole = Whole(*keep)

    @guard
    def is_whole(x: Term) -> bool:
        return x.fact(whole) is True

    return (op.floor(x) >> x).when(is_whole(x)).named("Own.rounding")


@pytest.mark.parametrize(
    ("keep", "wrong"),
    [(("add", "multiply", "nn.relu"), False), (("add", "divide"), True), (("add", "exp"), True), (("concatenate",), True)],
    ids=repr,
)
def test_what_an_analysis_says_about_calls_is_checked(keep: tuple[str, ...], wrong: bool) -> None:
    """`all(facts)` is also true for the fact of a tuple, such as (None, True), of `concatenate`."""
    checked = tried(rounding(*keep), 0, 40)
    assert checked.report.compared >= 40
    assert bool(checked.wrong) is wrong


def test_the_counterexample_shows_the_call() -> None:
    found = check_rule(rounding("sqrt"), instances=20).report.counterexample
    assert found is not None
    assert any("floor(sqrt(x_x))" in line for line in found.lines)
