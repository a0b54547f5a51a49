"""Modules: functions by name, type definitions, and what belongs to the program as a whole."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any as AnyValue
from typing import cast

from passat.ir.expr import BaseFunc, Constructor, Expr, Function, GlobalVar
from passat.ir.types import GlobalTypeVar, TypeVar


class TypeData:
    """The definition of an algebraic data type: its name, parameters and constructors."""

    __slots__ = ("constructors", "header", "type_vars")

    def __init__(self, header: GlobalTypeVar, type_vars: tuple[TypeVar, ...], constructors: tuple[Constructor, ...]) -> None:
        self.header = header
        self.type_vars = type_vars
        self.constructors = constructors


class IRModule:
    """A program: functions by `GlobalVar`, in insertion order. Indexing takes a name or a GlobalVar.

    Functions are `Function`s, or functions of other back ends (`passat.ir.prim_func.PrimFunc`), which everything here passes over.
    Indexing is typed for the first kind, which is what a reader who names a function wants; `functions` is typed for both.
    `attrs` holds facts about the whole, such as the frame of the ONNX model it was read from.

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
        """A module whose `main` is the expression: a function as it is, anything else as the body of a function of its free variables.

        `functions` and `type_defs` are there besides.
        """
        from passat.ir.analysis import free_vars

        module = cls(functions, type_defs)
        module["main"] = expr if isinstance(expr, BaseFunc) else Function(free_vars(expr), expr)
        return module

    def get_global_var(self, name: str) -> GlobalVar:
        """The variable of a function. Raises KeyError that lists the functions there are."""
        for var in self.functions:
            if var.name_hint == name:
                return var
        raise KeyError(f"the module has no function {name!r}; it has: {', '.join(var.name_hint for var in self.functions) or 'none'}")

    def get_global_vars(self) -> list[GlobalVar]:
        """The variables of all functions, in insertion order."""
        return list(self.functions)

    def _var(self, name: GlobalVar | str) -> GlobalVar:
        return (
            name
            if isinstance(name, GlobalVar) and name in self.functions
            else self.get_global_var(name if isinstance(name, str) else name.name_hint)
        )

    def __getitem__(self, name: GlobalVar | str) -> Function:
        return cast(Function, self.functions[self._var(name)])

    def __setitem__(self, name: GlobalVar | str, function: BaseFunc) -> None:
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
        """Adds the functions of another module; of equal names the other's wins."""
        for name, function in (other.functions if isinstance(other, IRModule) else other).items():
            self[name] = function

    def update_func(self, var: GlobalVar | str, function: BaseFunc) -> None:
        """Puts a function in the place of another, as `mod[var] = function` does."""
        self[var] = function

    def shallow_copy(self) -> "IRModule":
        """A module of the same functions that can be changed without changing this one."""
        copy = IRModule(attrs=self.attrs)
        copy.functions = dict(self.functions)
        copy.type_definitions = dict(self.type_definitions)
        return copy

    def __reduce__(self) -> tuple[AnyValue, ...]:
        from passat.ir.serialize import module_state, restore_module

        return (restore_module, (type(self), module_state(self)[0]))

    def astext(self, show_meta_data: bool = True, annotate: Callable[[Expr], str] | None = None) -> str:
        """The module in Relay's text format (`passat.ir.text.astext`)."""
        from passat.ir.text import astext

        return astext(self, show_meta_data, annotate)

    def __str__(self) -> str:
        from passat.ir.text import pretty_print

        return pretty_print(self)
