"""Global functions: Python functions registered by name (TVM's PackedFunc registry), which Passat calls if they exist."""

from collections.abc import Callable
from typing import Any as AnyValue
from typing import TypeVar, overload

from passat.ir.passat_error import PassatError
from passat.ir.similar_names import did_you_mean

_F = TypeVar("_F", bound=Callable[..., AnyValue])
_FUNCTIONS: dict[str, Callable[..., AnyValue]] = {}


class GlobalFunctionError(PassatError, ValueError, RuntimeError):
    """A global function is unknown, or its name is already taken."""


@overload
def register_func(func_name: _F, f: None = None, override: bool = False) -> _F: ...
@overload
def register_func(func_name: str, f: _F, override: bool = False) -> _F: ...
@overload
def register_func(func_name: str, f: None = None, override: bool = False) -> Callable[[_F], _F]: ...
def register_func(func_name: AnyValue, f: AnyValue = None, override: bool = False) -> AnyValue:
    """Registers a function under a name, or under its own name. Returns the function; without `f`, a decorator.

    Raises GlobalFunctionError for an existing name, unless `override`; TypeError for objects that are not callable.

    >>> @register_func("example.twice")
    ... def twice(x):
    ...     return 2 * x
    >>> get_global_func("example.twice")(4)
    8
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)

    if not isinstance(func_name, str):
        raise TypeError(f"the name of a global function must be a text, not {func_name!r}")

    def register(function: _F) -> _F:
        if not callable(function):
            raise TypeError(f"the global function {func_name!r} must be callable, not a {type(function).__name__}")
        if func_name in _FUNCTIONS and not override:
            raise GlobalFunctionError(f"the global function {func_name!r} already exists; pass override=True to replace it")
        _FUNCTIONS[func_name] = function
        return function

    return register if f is None else register(f)


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., AnyValue] | None:
    """Returns the function with this name. For an unknown name, returns None with `allow_missing`, otherwise raises GlobalFunctionError."""
    found = _FUNCTIONS.get(name)
    if found is None and not allow_missing:
        known = list_global_func_names()
        raise GlobalFunctionError(
            f"Cannot find global function {name}; there are: {', '.join(known) or 'none'}{did_you_mean(str(name), known)}"
        )
    return found


def list_global_func_names() -> list[str]:
    """The names of all global functions, sorted."""
    return sorted(_FUNCTIONS)


def remove_global_func(name: str) -> None:
    """Removes a global function. Ignores an unknown name."""
    _FUNCTIONS.pop(name, None)
