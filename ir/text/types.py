"""Prints and parses types and dimensions: `Tensor[(1, ?, 2*n + 1), float32]`, `(int8, fn (A) -> A)`, `List[float32]`, `ref(bool)`, `_`.

Extends Relay's grammar by named dimensions, integer polynomials over names (quoted if a name is not an identifier: `"(n + 1)//2"`), type
parameters of function types, `fn [A](A) -> A`, and reference types.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from passat.ir.counting import counted
from passat.ir.dim_text import parse_dim
from passat.ir.dtypes import NAMES
from passat.ir.shape import ANY, Dim, SymDim
from passat.ir.similar_names import did_you_mean
from passat.ir.text.lexer import ParseError, Tokens
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

ALIASES: Final = {"int": "int32", "uint": "uint32", "float": "float32"}
"""Other names of scalar types that TVM accepts."""
RESERVED: Final = NAMES | ALIASES.keys() | {"Tensor", "fn", "ref", "_", "meta"}
"""Words that must be quoted as names of types."""
ONNX_TYPES: Final = {"onnx.Sequence": 1, "onnx.Optional": 1, "onnx.Map": 2, "onnx.SparseTensor": 1}
"""Built-in types, with the number of their parameters."""
_COMPUTED: Final = re.compile(r"//|\b(min|max)\(")
"""What quotients and extremes have in their text; other strings are names."""
_LARGEST: Final = (1 << 63) - 1


def show_dim(dim: Dim) -> str:
    """Prints a dimension of a shape.

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
    """Prints a type in Relay's text format, cut off after `limit` characters."""
    return write_type(type_, _leaf, limit)


def _leaf(type_: Type) -> str:
    if isinstance(type_, TensorType):
        shape = ", ".join(map(show_dim, type_.shape))
        return f"Tensor[({shape}), {type_.dtype}]" if type_.shape else type_.dtype
    return show_name(type_.name, RESERVED) if isinstance(type_, (TypeVar, GlobalTypeVar)) else "_"


def show_type_params(params: Iterable[Type]) -> str:
    """Prints the type parameters of a function or definition: `[A, B]`; empty if there are none."""
    listed = ", ".join(map(show_type, params))
    return f"[{listed}]" if listed else ""


class TypeReader:
    """Parses types. `type_vars` are the type parameters in scope; any other name that is not an element type refers to a definition.

    `first_uses` maps each used definition to its number of arguments and its first use.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.type_vars: dict[str, TypeVar] = {}
        self.first_uses: dict[tuple[str, int], int] = {}

    def read(self) -> Type:
        """Reads a type. Raises ParseError."""
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
        if name in ALIASES and name not in self.type_vars:
            return TensorType((), ALIASES[name])
        return self._applied(name)

    def read_params(self) -> list[TypeVar]:
        """Reads optional type parameters of a function or definition and adds them to the scope. Raises ParseError."""
        tokens = self.tokens
        params: list[TypeVar] = []
        if tokens.accept("["):
            while True:
                name = self.new_name("of a type parameter")
                params.append(TypeVar(name))
                if params[-1] in params[:-1]:
                    raise tokens.error_at(tokens.starts[tokens.at - 1], f"the type parameter {name} is given twice")
                self.type_vars[name] = params[-1]
                if not tokens.accept(","):
                    break
            tokens.expect("]", "after the type parameters")
        return params

    def new_name(self, purpose: str) -> str:
        """Reads the name of a new type or type parameter. Raises ParseError, also for built-in names without quotes."""
        tokens = self.tokens
        if tokens.kind == "name" and tokens.text in RESERVED:
            raise tokens.error(f"{tokens.text} is a built-in type; quote it to use it as a name")
        return tokens.expect_name(purpose)

    def _applied(self, name: str) -> Type:
        tokens = self.tokens
        at = tokens.at - 1
        head = self.type_vars.get(name)
        args = self.read_list("]", "after the arguments of the type")[0] if tokens.accept("[") else []
        if head is None:
            self.first_uses.setdefault((name, len(args)), tokens.starts[at])
        elif args:
            raise tokens.error_at(tokens.starts[at], f"{name} is a type parameter, which takes no arguments")
        made = GlobalTypeVar(name) if head is None else head
        return TypeCall(made, args) if args else made

    def undefined(self, defined: Mapping[str, int]) -> Iterator[ParseError]:
        """Yields errors for types that are used but not defined, or used with a wrong number of arguments."""
        for (name, count), at in self.first_uses.items():
            wanted = defined.get(name, ONNX_TYPES.get(name))
            if wanted is None:
                yield self.tokens.error_at(at, f"unknown type {name!r}{did_you_mean(name, [*defined, *NAMES, 'Tensor'])}")
            elif wanted != count:
                yield self.tokens.error_at(at, f"the type {name} takes {counted(wanted, 'argument')}, but got {count}")

    def read_list(self, closing: str, purpose: str) -> tuple[list[Type], bool]:
        """Reads types up to the closing bracket. Returns them and whether a trailing comma was present. Raises ParseError."""
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
            at = tokens.at
            dim = self.read_dim()
            if isinstance(dim, int) and not 0 <= dim <= _LARGEST:
                raise tokens.error_at(
                    tokens.starts[at], f"a dimension must be at least 0 and at most {_LARGEST}; write ? for an unknown one"
                )
            shape.append(dim)
            if not tokens.accept(","):
                break
        tokens.expect(")", "after the dimensions")
        tokens.expect(",", "between shape and element type")
        if tokens.kind == "name" and tokens.text not in NAMES:
            raise tokens.error(f"unknown element type {tokens.shown()}; known: {', '.join(sorted(NAMES))}")
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
        """Reads a dimension: `?`, an integer, or an integer polynomial over names. Raises ParseError."""
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
        at = self.tokens.at
        total = self._factor()
        while self.tokens.accept("*"):
            total = total * self._factor()
            if total is ANY or (isinstance(total, int) and total > _LARGEST**4):
                raise self.tokens.error_at(self.tokens.starts[at], "the product is too large for a dimension")
        return total

    def _factor(self) -> Dim:
        tokens = self.tokens
        if tokens.kind == "number" and tokens.text.isdigit():
            if len(tokens.text) > len(str(_LARGEST)):
                raise tokens.error("the number is too large for a dimension")
            return int(tokens.take())
        if tokens.kind in ("name", "string"):
            computed = tokens.kind == "string" and _COMPUTED.search(tokens.text)
            return parse_dim(tokens.take()) if computed else SymDim.named(tokens.take())
        if tokens.accept("("):
            dim = self.read_dim()
            tokens.expect(")", "after the dimension")
            return dim
        raise tokens.error(f"expected a dimension, found {tokens.shown()}")
