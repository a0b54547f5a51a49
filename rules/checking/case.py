"""An instance of a pattern: what its holes, literals and calls are, as plain data that can be built, changed and shrunk."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any as AnyValue
from typing import NamedTuple

import numpy as np

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.evaluate import Value
from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from passat.ir.infer import InferError, infer_type
from passat.ir.op import OpTypeError, get_op
from passat.ir.shape import ANY, Dim, SymDim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.rules.pattern import Pattern, PCall, PConst, PGet, PLiteral, PTuple, PVar

Key = tuple[AnyValue, ...]


class Unfit(Exception):
    """An instance that is not well typed; the text says why."""


class Case(NamedTuple):
    """An instance of a pattern.

    `types`: the type of each hole and literal, by `name_of`, static; `constants`: the values of those that are constants; `inputs`: the
    values of the others; `attrs`: the attributes of each call, by its key; `unknown`: the axes of inputs whose sizes the program does not
    know as numbers, with the name they have there (`?` for none); `computed`: lists of sizes that the program reads off its inputs, as the
    input and axis that each element comes from, None for those that are constant; `asked`: holes whose elements a condition has said, or
    the operator that has to know them.
    """

    types: Mapping[str, Type]
    constants: Mapping[str, Value]
    inputs: Mapping[str, Value]
    attrs: Mapping[Key, Attrs]
    unknown: Mapping[tuple[str, int], str] = {}
    computed: Mapping[str, Sequence[tuple[str, int] | None]] = {}
    asked: frozenset[str] = frozenset()


class Program(NamedTuple):
    """A case as a program: the variables by name, the expression of the whole, the expressions of all terms."""

    params: Mapping[str, Var]
    body: Expr
    terms: Mapping[Key, Expr]


def name_of(leaf: Pattern) -> str | None:
    """The name of a hole or a literal; None for other patterns."""
    if isinstance(leaf, (PVar, PConst)):
        return leaf.name
    return repr(leaf.value) if isinstance(leaf, PLiteral) else None


def build(pattern: Pattern, case: Case) -> Program:
    """The program that a case is. Raises Unfit."""
    params: dict[str, Var] = {}
    terms: dict[Key, Expr] = {}

    def visit(node: Pattern) -> Expr:
        found = terms.get(node.key)
        if found is not None:
            return found
        name = name_of(node)
        made: Expr
        if name is not None:
            if name in case.computed and name in case.constants:
                made = sizes(case, name, visit)
            elif name in case.constants:
                made = constant(case.constants[name])
            else:
                made = params[name] = Var(name, declared(case, name))
        elif isinstance(node, PTuple):
            made = Tuple([visit(field) for field in node.fields])
        elif isinstance(node, PGet):
            whole = visit(node.of)
            type_ = whole.checked_type
            if not isinstance(type_, TupleType) or node.index >= len(type_.fields):
                raise Unfit(f"{type_!r} has no field {node.index}")
            made = TupleGetItem(whole, node.index)
        else:
            assert isinstance(node, PCall)
            made = Call(node.op, [visit(arg) for arg in node.args], case.attrs.get(node.key, EMPTY_ATTRS))
        try:
            terms[node.key] = infer_type(made)
        except (InferError, OpTypeError, ValueError) as error:
            raise Unfit(str(error)) from None
        return made

    body = visit(pattern)
    return Program(params, body, terms)


def constant(value: Value) -> Expr:
    """A constant, or a tuple of constants."""
    return Tuple([constant(part) for part in value]) if isinstance(value, tuple) else Constant(value)


def sizes(case: Case, name: str, visit: Callable[[Pattern], Expr]) -> Expr:
    """A list of sizes as the program computes it. Raises Unfit where it is no list any more."""
    value = case.constants[name]
    if isinstance(value, tuple) or value.shape != (len(case.computed[name]),):
        raise Unfit(f"{name} is no list of {len(case.computed[name])} sizes")
    parts: list[Expr] = []
    for element, source in zip(value.numpy(), case.computed[name], strict=True):
        if source is None:
            parts.append(Constant(Tensor.dense(np.asarray([element]))))
        else:
            shape = get_op("shape_of")(visit(PVar(source[0])), dtype="int64")
            parts.append(get_op("strided_slice")(shape, begin=(source[1],), end=(source[1] + 1,)))
    return get_op("concatenate")(Tuple(parts))


def declared(case: Case, name: str) -> Type:
    """The type that the program says of an input."""
    type_ = case.types[name]
    if not case.unknown or not isinstance(type_, TensorType):
        return type_
    dims: list[Dim] = list(type_.shape)
    for (hole, axis), symbol in case.unknown.items():
        if hole == name and axis < len(dims):
            dims[axis] = ANY if symbol == "?" else SymDim.named(symbol)
    return type_.with_shape(dims)
