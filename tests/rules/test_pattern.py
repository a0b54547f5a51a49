"""Terms of rules: how they are built, displayed and compared, and which are rejected."""

import re
from typing import Any as AnyValue

import pytest

from passat.rules.guards import computed
from passat.rules.pattern import (
    AttrHole,
    Pattern,
    PCall,
    PConst,
    PLiteral,
    PTuple,
    PVar,
    RuleError,
    attribute,
    attributes,
    constant,
    constants,
    number,
    op,
    tensor,
    tensors,
    term,
)
from passat.rules.subterms import attr_holes, subterms, tensor_holes

x, y, z = tensors("x y z")
c = constant("c")
p, q = attributes("p q")
MISTAKE: AnyValue = "y"
HOLE: AnyValue = p


@computed
def double(value: int) -> int:
    """Twice the value."""
    return 2 * value


def test_makers_of_holes() -> None:
    assert [hole.name for hole in tensors("a b  c")] == ["a", "b", "c"]
    assert isinstance(tensor("a"), PVar)
    assert all(isinstance(hole, PConst) for hole in constants("a b"))
    assert isinstance(attribute("a"), AttrHole)
    assert [hole.name for hole in attributes("a b")] == ["a", "b"]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (x + y, "(x + y)"),
        (1 + x, "(1 + x)"),
        (x - 2.5, "(x - 2.5)"),
        (2 - x, "(2 - x)"),
        (x * c, "(x * c)"),
        (3 * x, "(3 * x)"),
        (x / y, "(x / y)"),
        (1 / x, "(1 / x)"),
        (x @ y, "(x @ y)"),
        (-x, "negative(x)"),
        (op.nn.matmul(x, y, transpose_a=True), "nn.matmul(x, y, transpose_a=True)"),
        (op.transpose(op.transpose(x, axes=p), axes=(1, 0)), "transpose(transpose(x, axes=p), axes=(1, 0))"),
        (op.concatenate((x, y), axis=1), "concatenate((x, y), axis=1)"),
        (op.concatenate([x]), "concatenate((x,))"),
        (op.concatenate([x], axis=0), "concatenate((x,))"),
        (op.concatenate([x], ...), "concatenate((x,), ...)"),
        (op.nn.pad(x, ..., pad_width=p), "nn.pad(x, ..., pad_width=p)"),
        (op.split(x, attrs=p)[1], "split(x, attrs=p)[1]"),
        (op.reshape(x, newshape=double(p)), "reshape(x, newshape=double(p))"),
        (op.full(number(double(p)), shape=()), "full(double(p), shape=())"),
        (op.zeros(shape=(1,)), "zeros(shape=(1,))"),
        (op.exp(x) + y * -1, "(exp(x) + (y * -1))"),
    ],
)
def test_terms_print_as_they_are_written(pattern: Pattern, text: str) -> None:
    assert repr(pattern) == text


def test_equal_terms_have_equal_keys() -> None:
    assert (x + y).key == (tensor("x") + tensor("y")).key
    assert (x + y).key != (y + x).key
    assert op.sum(x, axis=(0,), keepdims=True).key == op.sum(x, keepdims=True, axis=(0,)).key
    assert (x + c).key != (x + tensor("c")).key
    assert term(1).key != term(1.0).key != term(True).key
    assert op.split(x, ...)[0].key != op.split(x, ...)[1].key


def test_numbers_and_sequences_are_terms() -> None:
    assert isinstance(term(2.5), PLiteral)
    assert isinstance(term((x, [y, 1])), PTuple)
    assert term(x) is x


def test_subterms_come_wholes_first() -> None:
    whole = op.exp(x) + op.split(y, attrs=p)[0]
    assert [repr(part) for part in subterms(whole)] == [
        "(exp(x) + split(y, attrs=p)[0])",
        "exp(x)",
        "x",
        "split(y, attrs=p)[0]",
        "split(y, attrs=p)",
        "y",
    ]


def test_the_holes_of_a_term() -> None:
    whole = op.reshape(x + c, newshape=[double(p), (q, 1)]) + op.full(number(double(y)), shape=(3,))
    assert tensor_holes(whole) == {"x", "c", "y"}
    assert attr_holes(whole) == {"p", "q"}
    assert attr_holes(3) == tensor_holes("text") == set()


def test_deep_terms_are_supported() -> None:
    deep: Pattern = x
    for _ in range(500):
        deep = op.exp(deep)
    assert sum(1 for _ in subterms(deep)) == 501


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: op.transpos(x), "there is no operator 'transpos'; did you mean transpose?"),
        (lambda: op.add(x), "add takes 2 operands (x, y), but the pattern gives 1"),
        (lambda: op.exp(x, axis=1), "exp has no attribute 'axis'; it has: none"),
        (lambda: op.transpose(x, axis=p), "transpose has no attribute 'axis'; it has: axes"),
        (
            lambda: op.transpose(x, attrs=(1, 0)),
            "transpose(attrs=...) takes a hole or a computed mapping for all attributes, not (1, 0)",
        ),
        (lambda: op.split(x, ...)[-1], "split(x, ...)[-1]: fields are counted from 0; parts of a tensor are op.strided_slice(...)"),
        (lambda: op.split(..., x), "split: `...` may occur once, after the operands; it stands for all attributes that are not named"),
        (
            lambda: op.split(x, ..., attrs=p),
            "split: `...` may occur once, after the operands; it stands for all attributes that are not named",
        ),
        (lambda: term(MISTAKE), "'y' cannot occur in a pattern; use tensors(), constant(), op.<operator>(...) or a number"),
        (lambda: op.exp(HOLE), "p is an attribute, not a tensor; on a right side, number(p) makes a constant of it"),
    ],
)
def test_rejected_nodes(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(RuleError) as caught:
        build()
    assert str(caught.value) == message


def test_a_pattern_does_not_unpack() -> None:
    with pytest.raises(RuleError, match=r"has no known length: take its parts with pattern\[i\]"):
        list(op.split(x, ...))


def test_operators_are_looked_up_when_they_are_called() -> None:
    assert isinstance(op.nn, type(op))
    assert isinstance(op.onnx.ai.mine.Thing(x, y), PCall)  # unknown operators are a namespace
    with pytest.raises(AttributeError):
        op.__wrapped__  # what tools ask of any object


def test_a_rule_error_is_a_value_error() -> None:
    assert issubclass(RuleError, ValueError)


def test_a_tensor_is_not_an_attribute() -> None:
    with pytest.raises(RuleError, match=r"transpose\(axes=...\) is an attribute: write attribute\('axes'\) for a hole, not x"):
        op.transpose(x, axes=x)
    with pytest.raises(RuleError, match=r"for a hole, or scalar_of\(c\) \(passat.rules.guards\) for its number, not c"):
        op.nn.leaky_relu(x, alpha=constant("c"))


@pytest.mark.parametrize("axis", [(p,), (0, p), (p + 1,), (x.ndim,)])
def test_a_hole_stands_for_a_whole_attribute(axis: object) -> None:
    with pytest.raises(RuleError, match=re.escape(f"the left side has axis={axis!r}; a hole stands for the whole attribute")):
        op.squeeze(op.abs(x), axis=axis) >> op.reshape(x, newshape=(-1,))
