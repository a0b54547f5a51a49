"""Einstein summation."""

from collections.abc import Sequence
from functools import lru_cache
from string import ascii_letters

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, nbytes
from passat.ir.counting import counted
from passat.ir.expr import Call, Expr, Tuple
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, need_opset, to_onnx
from passat.ir.op import OpTypeError, define_op
from passat.ir.ops.accumulate import Array, check_dtypes, narrow, wide
from passat.ir.ops.emitting import only
from passat.ir.shape import Dim, broadcast, may_equal, static_size
from passat.ir.types import TensorType, TupleType, Type, tensor_type

Labels = tuple[str, ...]
"""The labels of an operand's dimensions: letters, and `.0`, `.1` ... for the dimensions of an ellipsis."""


@lru_cache(1000)
def labels_of(equation: str, ranks: tuple[int, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """Parses an equation for operands of these ranks into the labels of the operands and the result. Raises OpTypeError.

    >>> labels_of("...ij, jk", (3, 2))
    ((('.0', 'i', 'j'), ('j', 'k')), ('.0', 'i', 'k'))
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise OpTypeError(f"the equation has {counted(len(terms), 'operand')}, but got {len(ranks)}")
    dots = {rank - len(term) + 3 for term, rank in zip(terms, ranks, strict=True) if "..." in term}
    if len(dots) > 1 or any(count < 0 for count in dots):
        raise OpTypeError("the ellipsis represents different numbers of dimensions in different operands")
    skipped = tuple(f".{i}" for i in range(dots.pop() if dots else 0))
    operands = tuple(_labels(term, skipped) for term in terms)
    for term, labels, rank in zip(terms, operands, ranks, strict=True):
        if len(labels) != rank:
            raise OpTypeError(f"the term {term!r} has {counted(len(labels), 'dimension')}, but its operand has {rank}")
    every = [label for labels in operands for label in labels]
    if arrow:
        result = _labels(right, skipped)
    else:
        result = (*skipped, *sorted(label for label in set(every) if label.isalpha() and every.count(label) == 1))
    if len(set(result)) != len(result) or not set(result) <= set(every) or not set(skipped) <= set(result):
        raise OpTypeError(f"the result {right!r} repeats a dimension, names one that no operand has, or lacks the ellipsis")
    return operands, result


def as_equation(terms: Sequence[Labels], result: Labels) -> str:
    """The equation of these labels; those of an ellipsis get unused letters.

    >>> as_equation([(".0", "i"), ("i", "j")], (".0", "j"))
    'ai,ij->aj'
    """
    every = list(dict.fromkeys(label for labels in (*terms, result) for label in labels))
    unused = iter(letter for letter in ascii_letters if letter not in every)
    letters = {label: label if label.isalpha() else next(unused) for label in every}
    written = ["".join(letters[label] for label in labels) for labels in (*terms, result)]
    return f"{','.join(written[:-1])}->{written[-1]}"


def _labels(term: str, skipped: Labels) -> Labels:
    head, dots, tail = term.partition("...")
    if not all(letter.isascii() and letter.isalpha() for letter in head + tail):
        raise OpTypeError(f"the term {term!r} must consist of letters and at most one ellipsis")
    return (*head, *(skipped if dots else ()), *tail)


def _sizes(operands: Sequence[TensorType], terms: Sequence[Labels]) -> dict[str, Dim]:
    """The size of each label; size 1 broadcasts."""
    sizes: dict[str, Dim] = {}
    for operand, labels in zip(operands, terms, strict=True):
        own: dict[str, Dim] = {}
        for label, dim in zip(labels, operand.shape, strict=True):
            if not may_equal(own.setdefault(label, dim), dim):
                raise OpTypeError(f"{label!r} has the sizes {own[label]!r} and {dim!r} in the same operand")
            try:
                sizes[label] = broadcast((sizes.get(label, 1),), (dim,))[0]
            except ValueError:
                what = "the ellipsis" if label[0] == "." else repr(label)
                raise OpTypeError(f"{what} has the size {sizes[label]!r} in one operand and {dim!r} in another") from None
    return sizes


def _operands(data: TupleType) -> list[TensorType]:
    operands = [tensor_type(field, "operand") for field in data.fields]
    if not operands:
        raise OpTypeError("at least one operand is required")
    for operand in operands:
        check_dtypes("the first operand", operands[0], "another", operand)
    return operands


def _cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    assert isinstance(args[0], TupleType)
    operands = _operands(args[0])
    terms, _ = labels_of(attrs["equation"], tuple(operand.ndim for operand in operands))
    places = static_size(tuple(_sizes(operands, terms).values()))
    return Cost(float(len(operands) * places), nbytes(args[0]) + nbytes(result))


def _einsum(data: tuple[Array, ...], *, equation: str) -> Array:
    return narrow(np.einsum(equation, *map(wide, data), optimize=len(data) > 1), data[0].dtype)


@define_op("einsum", kernel=_einsum, cost=_cost, pattern=2)
def einsum(data: TupleType, *, equation: str) -> TensorType:
    """The Einstein summation of a tuple of tensors, with ONNX and NumPy notation: `"bij, bjk -> bik"`, ellipses, implicit results.

    ONNX: Einsum (12, 28).
    """
    operands = _operands(data)
    terms, result = labels_of(equation, tuple(operand.ndim for operand in operands))
    sizes = _sizes(operands, terms)
    return TensorType(tuple(sizes[label] for label in result), operands[0].dtype)


@from_onnx("Einsum")
def _read(node: OnnxNode) -> Expr | None:
    if not only(node, "equation") or not all(node.has(i) for i in range(len(node.inputs))):
        return None
    return einsum(Tuple(node.input(i) for i in range(len(node.inputs))), equation=node.attrs["equation"], span=node.span)


@to_onnx(einsum)
def _write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 12, einsum)
    return emit.node("Einsum", inputs, {"equation": call.attrs.equation})
