"""Views before operators with one operand: each rule on a program that it rewrites, and on one that it does not match."""

from typing import Any as AnyValue
from typing import Final

import pytest

from passat.ir.expr import Expr
from passat.ir.op import get_op, list_ops
from passat.rules.library import Commute
from passat.rules.rule import Rule
from tests.rules.building import ops, var
from tests.rules.library.cases import Case, case, check_makes_nothing, check_rewrites

ATTRS: Final[dict[str, dict[str, AnyValue]]] = {"cast": {"dtype": "float64"}, "clip": {"a_min": -1.0, "a_max": 1.0}}
KINDS: Final = {"logical_not": "bool", "bitwise_not": "int32"}


def turned(of: Expr) -> Expr:
    made: Expr = ops.transpose(of, axes=(2, 0, 1))
    return made


def viewed(of: Expr) -> Expr:
    made: Expr = ops.reshape(of, newshape=(6, 4))
    return made


def squeezed(a: Expr) -> Expr:
    return ops.squeeze(ops.expand_dims(a, axis=0), axis=(0,))  # type: ignore[no-any-return]  # as above


def passage(view: str, name: str) -> Case:
    """An operator after a view, and the same after a view that another rule handles."""
    of = get_op(name)
    cube = var("cube", (2, 3, 4), KINDS.get(of.name, "float32"))
    views = {"transpose": turned, "reshape": viewed, "squeeze": squeezed}
    before, other = views[view], viewed if view == "transpose" else turned
    attrs = ATTRS.get(of.name, {})
    return case(of(before(cube), **attrs), of(other(cube), **attrs), "")


TABLE: Final = [
    (Commute, direction, passage(*direction.name.partition("[")[2].removesuffix("]").split(", ")))
    for direction in Commute.unary.directions()
]


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rule: Rule, example: Case) -> None:
    check_rewrites(rule, example)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_rejects(rule: Rule, example: Case) -> None:
    check_makes_nothing(rule, example)


def test_every_elementwise_operator_of_one_operand_is_passed() -> None:
    elementwise = {op.name for op in list_ops() if op.elementwise and op.arity == 1} - {"copy"}
    elementwise = {name for name in elementwise if not name.startswith("elemwise_")}  # which take a tuple
    names = {direction.name for direction in Commute.unary.directions()}
    assert names == {f"Commute.unary[{view}, {name}]" for view in ("transpose", "reshape", "squeeze") for name in elementwise}
