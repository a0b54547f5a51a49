"""Substitution into rules: terms that hide their operands, numbers, types of sides."""

import pytest

from passat.ir.shape import ANY, SymDim
from passat.ir.types import FuncType, IncompleteType, TensorType, TupleType
from passat.rules.guards import Reject, has_rank
from passat.rules.pattern import attribute, op, tensors
from passat.rules.rule import Rule
from passat.rules.substitution import bound_keys, same_type, scalar_for

x, y = tensors("x y")


def bound(rule: Rule) -> set[object]:
    return set(bound_keys(rule))


def test_holes_roots_and_terms_of_guards_are_opaque() -> None:
    inner = op.exp(x)
    deep = op.negative(op.abs(inner)) >> op.abs(inner)
    assert bound(deep.exploring()) == {deep.lhs.key, x.key}, "nodes that the right side creates again have their own attributes"
    assert bound(deep) == {deep.lhs.key, op.abs(inner).key, x.key}, "operands of a reducing rule exist"
    assert bound(deep.exploring().when(has_rank(inner, 2))) == {deep.lhs.key, inner.key, x.key}
    a = attribute("a")
    named = op.sum(op.exp(x), axis=a) >> op.sum(op.exp(x), axis=a, keepdims=True)
    assert op.exp(x).key in bound(named)


def test_a_number_has_the_element_type_of_the_left_side_or_none() -> None:
    assert scalar_for(2.0, TensorType((3,), "int8")).dtype == "int8"
    assert scalar_for(float("inf"), TensorType((), "float16")).uniform() == float("inf")
    for value, dtype in ((0.5, "int32"), (300.0, "int8"), (1e30, "float16"), (2.0, "bool"), (0.0, "string")):
        with pytest.raises(Reject, match=f"{dtype} cannot represent"):
            scalar_for(value, TensorType((3,), dtype))
    with pytest.raises(Reject, match="a number on the right side needs a left side that is a tensor"):
        scalar_for(1.0, TupleType([]))


def test_when_types_may_stand_for_each_other() -> None:
    n = SymDim.named("n")
    full, half = TensorType((2, n)), TensorType((2, ANY))
    assert same_type(full, full)
    assert same_type(full, half)
    assert same_type(half, TensorType((2, 5)))
    assert not same_type(full, TensorType((2, 5)))
    assert not same_type(full, TensorType((2, n), "int8"))
    assert not same_type(full, TensorType((2, n, 1)))
    assert same_type(TupleType([full]), TupleType([half]))
    assert not same_type(TupleType([full]), TupleType([full, full]))
    assert not same_type(TupleType([full]), full)
    assert same_type(IncompleteType(), full)
    assert not same_type(FuncType([], full), full)
