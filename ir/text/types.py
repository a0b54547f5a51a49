"""Types and dimensions as text, both ways: `Tensor[(1, ?, 2*n + 1), float32]`, `(int8, fn (A) -> A)`, `List[float32]`, `ref(bool)`, `_`.

Over Relay's grammar go named dimensions, integer polynomials over names (in quotes where a name is no word: `"(n + 1)//2"`), the type
parameters of function types, `fn [A](A) -> A`, and the type of references.
"""

from collections.abc import Iterable
from typing import Final

from passat.ir.dtypes import NAMES
from passat.ir.shape import ANY, Dim, SymDim
from passat.ir.text.lexer import Tokens
from passat.ir.text.literals import show_name
from passat.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    write_type,
)

_RESERVED: Final = NAMES | {"Tensor", "fn", "ref", "_"}


def show_dim(dim: Dim) -> str:
    """A dimension as it stands in a shape.

    >>> n = SymDim.named("n")
    >>> show_dim(2 * n + 1), show_dim((n + 1) // 2 * 3), show_dim(ANY)
    ('2*n + 1', '3*"(n + 1)//2"', '?')
    """
    if not isinstance(dim, SymDim):
        return str(dim)
    parts: list[str] = []
    for monomial, coefficient in sorted(dim.terms, key=lambda term: (-len(term[0]), term[0])):
        factors = [show_name(name) for name in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = ("-" if coefficient < 0 else "") if not parts else (" - " if coefficient < 0 else " + ")
        parts.append(sign + "*".join(factors))
    return "".join(parts)


def show_type(type_: Type, limit: int | None = None) -> str:
    """A type in Relay's text format, cut off behind `limit` characters."""
    return write_type(type_, _leaf, limit)


def _leaf(type_: Type) -> str:
    if isinstance(type_, TensorType):
        shape = ", ".join(map(show_dim, type_.shape))
        return f"Tensor[({shape}), {type_.dtype}]" if type_.shape else type_.dtype
    return show_name(type_.name, _RESERVED) if isinstance(type_, (TypeVar, GlobalTypeVar)) else "_"


def show_type_params(params: Iterable[Type]) -> str:
    """The type parameters of a function or definition: `[A, B]`, nothing where there are none."""
    listed = ", ".join(map(show_type, params))
    return f"[{listed}]" if listed else ""


class TypeReader:
    """Reads types from tokens. `type_vars` are the type parameters in scope; every other name that is no element type is a definition's."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.type_vars: dict[str, TypeVar] = {}

    def read(self) -> Type:
        """A type. Raises ParseError."""
        tokens = self.tokens
        if tokens.accept("("):
            fields, comma = self.read_list(")", "after the fields of the tuple type")
            return fields[0] if len(fields) == 1 and not comma else TupleType(fields)
        if tokens.accept("string"):
            return self._applied(tokens.texts[tokens.at - 1])
        if tokens.kind != "name":
            raise tokens.error(f"expected a type, found {tokens.shown()}")
        name = tokens.take()
        if name == "_":
            return IncompleteType()
        if name == "Tensor":
            return self._tensor()
        if name == "fn":
            return self._function()
        if name == "ref":
            tokens.expect("(", "after ref")
            value = self.read()
            tokens.expect(")", "after the type of the reference")
            return RefType(value)
        if name in NAMES:
            return TensorType((), name)
        return self._applied(name)

    def read_params(self) -> list[TypeVar]:
        """The type parameters of a function or definition, where there are any; they are in scope from here on. Raises ParseError."""
        tokens = self.tokens
        params: list[TypeVar] = []
        if tokens.accept("["):
            while True:
                name = tokens.expect_name("of a type parameter")
                params.append(self.type_vars.setdefault(name, TypeVar(name)))
                if not tokens.accept(","):
                    break
            tokens.expect("]", "after the type parameters")
        return params

    def _applied(self, name: str) -> Type:
        head = self.type_vars.get(name) or GlobalTypeVar(name)
        return TypeCall(head, self.read_list("]", "after the arguments of the type")[0]) if self.tokens.accept("[") else head

    def read_list(self, closing: str, purpose: str) -> tuple[list[Type], bool]:
        """Types up to the closing bracket, and whether a comma stands before it. Raises ParseError."""
        found: list[Type] = []
        comma = False
        while self.tokens.kind != closing:
            found.append(self.read())
            comma = self.tokens.accept(",")
            if not comma:
                break
        self.tokens.expect(closing, purpose)
        return found, comma

    def _tensor(self) -> TensorType:
        tokens = self.tokens
        tokens.expect("[", "after Tensor")
        tokens.expect("(", "before the dimensions")
        shape: list[Dim] = []
        while tokens.kind != ")":
            shape.append(self.read_dim())
            if not tokens.accept(","):
                break
        tokens.expect(")", "after the dimensions")
        tokens.expect(",", "between shape and element type")
        if tokens.kind == "name" and tokens.text not in NAMES:
            raise tokens.error(f"there is no element type {tokens.shown()}; there are: {', '.join(sorted(NAMES))}")
        dtype = tokens.expect("name", "of an element type")
        tokens.expect("]", "after the element type")
        return TensorType(shape, dtype)

    def _function(self) -> FuncType:
        tokens = self.tokens
        outer = dict(self.type_vars)
        params = self.read_params()
        tokens.expect("(", "before the types of the arguments")
        arguments = self.read_list(")", "after the types of the arguments")[0]
        tokens.expect("->", "before the type of the result")
        result = self.read()
        self.type_vars = outer
        return FuncType(arguments, result, params)

    def read_dim(self) -> Dim:
        """A dimension: `?`, an integer, or an integer polynomial over names. Raises ParseError."""
        tokens = self.tokens
        if tokens.accept("?"):
            return ANY
        negative = tokens.accept("-")
        total = self._product()
        if negative:
            total = -total
        while tokens.kind in ("+", "-"):
            minus = tokens.take() == "-"
            term = self._product()
            total = total - term if minus else total + term
        return total

    def _product(self) -> Dim:
        total = self._factor()
        while self.tokens.accept("*"):
            total = total * self._factor()
        return total

    def _factor(self) -> Dim:
        tokens = self.tokens
        if tokens.kind == "number" and tokens.text.isdigit():
            return int(tokens.take())
        if tokens.kind in ("name", "string"):
            return SymDim.named(tokens.take())
        if tokens.accept("("):
            dim = self.read_dim()
            tokens.expect(")", "after the dimension")
            return dim
        raise tokens.error(f"expected a dimension, found {tokens.shown()}")
