"""Modules: functions by name, type definitions, and module attributes."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any as AnyValue
from typing import Final, cast, overload

from passat.ir.expr import BaseFunc, Constructor, Expr, Function, GlobalVar
from passat.ir.types import GlobalTypeVar, TypeVar

_OPENED: Final = 60
"""Maximum number of lines of a module that a notebook shows expanded."""


class TypeData:
    """The definition of an algebraic data type: its name, type parameters and constructors.

    Constructors that were created with only the name of the type get its parameters. Constructors without a tag get consecutive ones, with
    a hash of the name of the type in the upper half, so that tags differ between types.
    """

    __slots__ = ("constructors", "header", "type_vars")

    def __init__(self, header: GlobalTypeVar, type_vars: Iterable[TypeVar], constructors: Iterable[Constructor]) -> None:
        self.header = header
        self.type_vars = tuple(type_vars)
        self.constructors = tuple(constructors)
        first = (zlib.crc32(header.name.encode()) % 0x7FFF + 1) << 16
        for place, made in enumerate(self.constructors):
            if made.belong_to == header and not made.type_vars:
                made.type_vars = self.type_vars
                made._checked_type = None
            if made.tag < 0:
                made.tag = first + place

    def __repr__(self) -> str:
        from passat.ir.text.printer import show_type_data

        return show_type_data(self)


class IRModule:
    """A program: functions by `GlobalVar`, in insertion order. Can be indexed by name or by `GlobalVar`.

    Values are `Function`s or functions of other back ends (`passat.ir.prim_func.PrimFunc`), which passes skip. Indexing has the static type
    `Function`, the common case; `functions` has the static type of both. `attrs` holds data about the whole program, such as the frame of
    the ONNX model that it was imported from.

    >>> from passat.ir.expr import Function, var
    >>> x = var("x", shape=(2,))
    >>> IRModule.from_expr(Function([x], x + x)).get_global_vars()[0].name_hint
    'main'
    """

    __slots__ = ("attrs", "functions", "type_definitions")

    def __init__(
        self,
        functions: Mapping[GlobalVar | str, BaseFunc] | None = None,
        type_definitions: Mapping[GlobalTypeVar, TypeData] | None = None,
        attrs: Mapping[str, AnyValue] | None = None,
    ) -> None:
        if functions and not isinstance(functions, Mapping):
            raise TypeError(
                f"the functions of a module must be a mapping from names, not a {type(functions).__name__}; see IRModule.from_expr"
            )
        self.functions: dict[GlobalVar, BaseFunc] = {}
        self.type_definitions = dict(type_definitions or {})
        self.attrs = dict(attrs or {})
        for name, function in (functions or {}).items():
            self[name] = function

    @classmethod
    def from_expr(
        cls,
        expr: Expr,
        functions: Mapping[GlobalVar | str, BaseFunc] | None = None,
        type_defs: Mapping[GlobalTypeVar, TypeData] | None = None,
    ) -> "IRModule":
        """Creates a module with an expression as its `main`.

        A function becomes `main` itself; any other expression becomes the body of a function of its free variables. `functions` and
        `type_defs` are added to the module.
        """
        from passat.ir.analysis import free_vars

        if not isinstance(expr, Expr):
            raise TypeError(f"a module is created from an expression, not from a {type(expr).__name__}")
        module = cls(functions, type_defs)
        module["main"] = expr if isinstance(expr, BaseFunc) else Function(free_vars(expr), expr)
        return module

    def with_attr(self, name: str, value: AnyValue) -> "IRModule":
        """Returns a copy of the module with one attribute set."""
        copy = self.shallow_copy()
        copy.attrs[name] = value
        return copy

    def get_global_var(self, name: str) -> GlobalVar:
        """Returns the variable of a function. Raises KeyError with the list of functions."""
        for var in self.functions:
            if var.name_hint == name:
                return var
        raise KeyError(f"the module has no function {name!r}; it has: {', '.join(var.name_hint for var in self.functions) or 'none'}")

    def get_global_vars(self) -> list[GlobalVar]:
        """Returns the variables of all functions, in insertion order."""
        return list(self.functions)

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """Returns the name of a type definition. Raises KeyError with the list of types."""
        for var in self.type_definitions:
            if var.name == name:
                return var
        raise KeyError(f"the module has no type {name!r}; it has: {self._types()}")

    def get_global_type_vars(self) -> list[GlobalTypeVar]:
        """Returns the names of all type definitions, in insertion order."""
        return list(self.type_definitions)

    def get_type(self, name: str) -> tuple[GlobalTypeVar | Constructor, ...]:
        """Returns the name of a type definition and its constructors. Raises KeyError for an unknown name."""
        var = self.get_global_type_var(name)
        return (var, *self.type_definitions[var].constructors)

    def get_constructor(self, tag: int) -> Constructor:
        """Returns the constructor with a tag. Raises KeyError if no type of the module has one."""
        for data in self.type_definitions.values():
            for made in data.constructors:
                if made.tag == tag:
                    return made
        raise KeyError(f"the module has no constructor with the tag {tag}; it has the types {self._types()}")

    def same_as(self, other: object) -> bool:
        """Whether `other` is the same object."""
        return self is other

    def _types(self) -> str:
        return ", ".join(var.name for var in self.type_definitions) or "none"

    def _var(self, name: GlobalVar | str) -> GlobalVar:
        if not isinstance(name, (GlobalVar, str)):
            raise TypeError(f"a function is identified by a string or a GlobalVar, not by a {type(name).__name__}")
        return (
            name
            if isinstance(name, GlobalVar) and name in self.functions
            else self.get_global_var(name if isinstance(name, str) else name.name_hint)
        )

    @overload
    def __getitem__(self, name: GlobalVar | str) -> Function: ...
    @overload
    def __getitem__(self, name: GlobalTypeVar) -> TypeData: ...
    def __getitem__(self, name: GlobalVar | GlobalTypeVar | str) -> Function | TypeData:
        if isinstance(name, GlobalTypeVar):
            return self.type_definitions[self.get_global_type_var(name.name)]
        return cast(Function, self.functions[self._var(name)])

    @overload
    def __setitem__(self, name: GlobalVar | str, function: Expr) -> None: ...
    @overload
    def __setitem__(self, name: GlobalTypeVar, function: TypeData) -> None: ...
    def __setitem__(self, name: GlobalVar | GlobalTypeVar | str, function: Expr | TypeData) -> None:
        """Adds or replaces a function or a type. An expression becomes a function of its free variables."""
        if isinstance(name, GlobalTypeVar) or isinstance(function, TypeData):
            if not (isinstance(name, GlobalTypeVar) and isinstance(function, TypeData)):
                raise TypeError(
                    f"a GlobalTypeVar names a TypeData, and a GlobalVar or a string names a function; {name!r} cannot name {function!r}"
                )
            self.type_definitions[name] = function
            return
        if isinstance(function, Expr) and not isinstance(function, BaseFunc):
            from passat.ir.analysis import free_vars

            function = Function(free_vars(function), function)
        try:
            var = self._var(name)
        except KeyError:
            var = GlobalVar(name) if isinstance(name, str) else name
        self.functions[var] = function

    def __delitem__(self, name: GlobalVar | str) -> None:
        del self.functions[self._var(name)]

    def __contains__(self, name: GlobalVar | str) -> bool:
        text = name if isinstance(name, str) else name.name_hint
        return any(var.name_hint == text for var in self.functions)

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def update(self, other: "IRModule | Mapping[GlobalVar | str, BaseFunc]") -> None:
        """Adds the functions and type definitions of another module, which replace those of equal names."""
        if isinstance(other, IRModule):
            self.type_definitions.update(other.type_definitions)
        for name, function in (other.functions if isinstance(other, IRModule) else other).items():
            self[name] = function

    def import_from_std(self, file_to_import: str) -> None:
        """Adds the functions and types of a file of the standard library, unless they exist: `prelude.rly`, `nat.rly` (requires the
        prelude), `core.rly` or `gradient.rly`.

        Raises ValueError for an unknown name, and ParseError if the module defines one of these differently.
        """
        from passat.ir.text.std import standard_library

        self.update(standard_library(file_to_import, self))

    def update_func(self, var: GlobalVar | str, func: BaseFunc) -> None:
        """Replaces a function, as `mod[var] = function` does."""
        self[var] = func

    def shallow_copy(self) -> "IRModule":
        """Returns a copy that shares the functions and can be changed independently."""
        copy = IRModule(attrs=self.attrs)
        copy.functions = dict(self.functions)
        copy.type_definitions = dict(self.type_definitions)
        return copy

    def __reduce__(self) -> tuple[AnyValue, ...]:
        from passat.ir.serialize import module_state, restore_module

        return (restore_module, (type(self), module_state(self)))

    def astext(self, show_meta_data: bool = True, annotate: Callable[[Expr], str] | None = None) -> str:
        """Prints the module in Relay's text format (`passat.ir.text.astext`)."""
        from passat.ir.text import astext

        return astext(self, show_meta_data, annotate)

    def __str__(self) -> str:
        from passat.ir.text import pretty_print

        return pretty_print(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from passat.ir.markup import block, folded

        shown, names = str(self), ", ".join(f"@{var.name_hint}" for var in self.functions)
        return folded(f"IRModule: {names or 'no function'}", block(shown), opened=shown.count("\n") < _OPENED)
