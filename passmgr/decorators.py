"""`module_pass` and `function_pass`: passes from functions and from classes, as in TVM."""

import copy
import inspect
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any as AnyValue
from typing import ParamSpec, Protocol, overload

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr.context import PassContext
from passat.passmgr.options import given_options, without_defaults
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import FunctionPass, ModulePass, Pass

P = ParamSpec("P")
ModuleFunction = Callable[[IRModule, PassContext], IRModule]
FunctionFunction = Callable[[Function, IRModule, PassContext], Function]


class TransformsModule(Protocol):
    """What a class that `module_pass` decorates must have."""

    def transform_module(self, mod: IRModule, ctx: PassContext, /) -> IRModule:
        """The module that takes the place of this one."""


class TransformsFunction(Protocol):
    """What a class that `function_pass` decorates must have."""

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext, /) -> Function:
        """The function that takes the place of this one."""


class ModulePassDecorator(Protocol):
    """Makes a module pass of a function, or a class of module passes of a class."""

    @overload
    def __call__(self, pass_func: Callable[P, TransformsModule], /) -> Callable[P, ModulePass]: ...
    @overload
    def __call__(self, pass_func: ModuleFunction, /) -> ModulePass: ...


class FunctionPassDecorator(Protocol):
    """Makes a function pass of a function, or a class of function passes of a class."""

    @overload
    def __call__(self, pass_func: Callable[P, TransformsFunction], /) -> Callable[P, FunctionPass]: ...
    @overload
    def __call__(self, pass_func: FunctionFunction, /) -> FunctionPass: ...


class _PassOfFunction(Pass):
    """What the passes made of plain functions share."""

    def __init__(self, info: PassInfo, method: str, pass_func: Callable[..., AnyValue]) -> None:
        self.info = info
        setattr(self, method, pass_func)  # on the object, where it is called without a self
        self.__doc__ = pass_func.__doc__


class _ModulePassOfFunction(_PassOfFunction, ModulePass):
    pass


class _FunctionPassOfFunction(_PassOfFunction, FunctionPass):
    pass


@overload
def module_pass(
    pass_func: None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Iterable[str] | None = None,
    traceable: bool = False,
    *,
    provides: Iterable[str] = (),
    preserves: Iterable[str] = (),
) -> ModulePassDecorator: ...
@overload
def module_pass(
    pass_func: Callable[P, TransformsModule],
    opt_level: int | None = None,
    name: str | None = None,
    required: Iterable[str] | None = None,
    traceable: bool = False,
    *,
    provides: Iterable[str] = (),
    preserves: Iterable[str] = (),
) -> Callable[P, ModulePass]: ...
@overload
def module_pass(
    pass_func: ModuleFunction,
    opt_level: int | None = None,
    name: str | None = None,
    required: Iterable[str] | None = None,
    traceable: bool = False,
    *,
    provides: Iterable[str] = (),
    preserves: Iterable[str] = (),
) -> ModulePass: ...
def module_pass(
    pass_func: AnyValue = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Iterable[str] | None = None,
    traceable: bool = False,
    *,
    provides: Iterable[str] = (),
    preserves: Iterable[str] = (),
) -> AnyValue:
    """Makes a module pass of `pass_func(mod, ctx) -> mod`, or of a class with `transform_module(self, mod, ctx)`.

    Without `pass_func` the result is a decorator. A class gives a class: its objects are passes that hold an object of the decorated
    class, made from the same arguments; unknown attributes are looked up there. The name is that of the function or class unless
    given; the rest is as in `PassInfo`. Type checkers take a decorated class for the class it was: derive from ModulePass where that
    matters.

    Raises ValueError without an opt_level, TypeError for what cannot be called.

    >>> @module_pass(opt_level=1)
    ... def Tidy(mod, ctx):
    ...     return mod
    >>> Tidy
    Run Module pass: Tidy at the optimization level 1
    """
    if opt_level is None:
        raise ValueError("Please provide opt_level for the module pass.")
    info = PassInfo(opt_level, name or "", required, traceable, provides=provides, preserves=preserves)
    return _decorator("module", pass_func, info)


@overload
def function_pass(
    pass_func: None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Iterable[str] | None = None,
    traceable: bool = False,
    *,
    provides: Iterable[str] = (),
    preserves: Iterable[str] = (),
) -> FunctionPassDecorator: ...
@overload
def function_pass(
    pass_func: Callable[P, TransformsFunction],
    opt_level: int | None = None,
    name: str | None = None,
    required: Iterable[str] | None = None,
    traceable: bool = False,
    *,
    provides: Iterable[str] = (),
    preserves: Iterable[str] = (),
) -> Callable[P, FunctionPass]: ...
@overload
def function_pass(
    pass_func: FunctionFunction,
    opt_level: int | None = None,
    name: str | None = None,
    required: Iterable[str] | None = None,
    traceable: bool = False,
    *,
    provides: Iterable[str] = (),
    preserves: Iterable[str] = (),
) -> FunctionPass: ...
def function_pass(
    pass_func: AnyValue = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Iterable[str] | None = None,
    traceable: bool = False,
    *,
    provides: Iterable[str] = (),
    preserves: Iterable[str] = (),
) -> AnyValue:
    """Makes a function pass of `pass_func(func, mod, ctx) -> func`, or of a class with `transform_function(self, func, mod, ctx)`.

    In all else like `module_pass`.
    """
    if opt_level is None:
        raise ValueError("Please provide opt_level for the function pass.")
    info = PassInfo(opt_level, name or "", required, traceable, provides=provides, preserves=preserves)
    return _decorator("function", pass_func, info)


def _decorator(kind: str, pass_func: AnyValue, info: PassInfo) -> AnyValue:
    def decorate(pass_func: AnyValue) -> AnyValue:
        if not callable(pass_func):
            raise TypeError(f"pass_func must be a callable for {kind.capitalize()} pass")
        named = copy.copy(info)  # one decorator may be used more than once
        named.name = info.name or getattr(pass_func, "__name__", type(pass_func).__name__)
        method = f"transform_{kind}"
        if isinstance(pass_func, type):
            return _pass_class(pass_func, named, method, ModulePass if kind == "module" else FunctionPass)
        return (_ModulePassOfFunction if kind == "module" else _FunctionPassOfFunction)(named, method, pass_func)

    return decorate if pass_func is None else decorate(pass_func)


def _pass_class(cls: type, info: PassInfo, method: str, base: type[Pass]) -> type[Pass]:
    if not callable(getattr(cls, method, None)):
        raise TypeError(f"the class {cls.__name__} must define {method} to be a pass")
    signature = inspect.signature(cls)

    class PassOfClass(base):  # type: ignore[valid-type, misc]  # the base is one of two classes
        def __init__(self, *args: AnyValue, **kwargs: AnyValue) -> None:
            self._inner = cls(*args, **kwargs)
            self.given_options = given_options(self._inner) or without_defaults(cls, signature.bind(*args, **kwargs).arguments)
            setattr(self, method, getattr(self._inner, method))

        def __getattr__(self, name: str) -> AnyValue:
            if name == "_inner":  # not there yet: a copy that is being made
                raise AttributeError(name)
            return getattr(self._inner, name)

    update_wrapper(PassOfClass.__init__, cls.__init__)  # type: ignore[misc]  # the __init__ of an unknown class
    PassOfClass.info = info
    PassOfClass.__signature__ = signature
    PassOfClass.__name__, PassOfClass.__qualname__ = cls.__name__, cls.__qualname__
    PassOfClass.__module__, PassOfClass.__doc__ = cls.__module__, cls.__doc__
    return PassOfClass
