"""`module_pass`, `function_pass` and `prim_func_pass`: create passes from functions and classes, as in TVM."""

import copy
import inspect
import sys
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any as AnyValue
from typing import Final, ParamSpec, Protocol, TypeVar, Unpack, overload

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.ir.similar_names import did_you_mean
from passat.passmgr.context import PassContext
from passat.passmgr.options import given_options, without_defaults
from passat.passmgr.pass_info import Declarations, PassInfo, declare_counters
from passat.passmgr.passes import FunctionPass, ModulePass, Pass, PrimFuncPass

P = ParamSpec("P")
ModuleFunction = Callable[[IRModule, PassContext], IRModule]
FunctionFunction = Callable[[Function, IRModule, PassContext], Function]
PrimFuncFunction = Callable[[PrimFunc, IRModule, PassContext], PrimFunc | None]


class TransformsModule(Protocol):
    """The interface of classes that `module_pass` decorates."""

    def transform_module(self, mod: IRModule, ctx: PassContext, /) -> IRModule:
        """Returns the transformed module."""


class TransformsFunction(Protocol):
    """The interface of classes that `function_pass` decorates."""

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext, /) -> Function:
        """Returns the transformed function."""


class TransformsPrimFunc(Protocol):
    """The interface of classes that `prim_func_pass` decorates."""

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext, /) -> PrimFunc | None:
        """Returns the transformed function; None removes it."""


Transforms_contra = TypeVar("Transforms_contra", contravariant=True)
Plain_contra = TypeVar("Plain_contra", contravariant=True)
Made_co = TypeVar("Made_co", covariant=True)


class PassDecorator(Protocol[Transforms_contra, Plain_contra, Made_co]):
    """Turns a function into a pass, or a class into a class of passes."""

    @overload
    def __call__(self, pass_func: Callable[P, Transforms_contra], /) -> Callable[P, Made_co]: ...
    @overload
    def __call__(self, pass_func: Plain_contra, /) -> Made_co: ...


class MakesPasses(Protocol[Transforms_contra, Plain_contra, Made_co]):
    """The type of `module_pass` and its siblings: the result depends on whether a class, a function or neither is given."""

    @overload
    def __call__(
        self,
        pass_func: None = None,
        opt_level: int | None = None,
        name: str | None = None,
        required: Iterable[str] | None = None,
        traceable: bool = False,
        **declared: Unpack[Declarations],
    ) -> PassDecorator[Transforms_contra, Plain_contra, Made_co]: ...
    @overload
    def __call__(
        self,
        pass_func: Callable[P, Transforms_contra],
        opt_level: int | None = None,
        name: str | None = None,
        required: Iterable[str] | None = None,
        traceable: bool = False,
        **declared: Unpack[Declarations],
    ) -> Callable[P, Made_co]: ...
    @overload
    def __call__(
        self,
        pass_func: Plain_contra,
        opt_level: int | None = None,
        name: str | None = None,
        required: Iterable[str] | None = None,
        traceable: bool = False,
        **declared: Unpack[Declarations],
    ) -> Made_co: ...


class _PassOfFunction(Pass):
    """Common base of the passes created from functions."""

    def __init__(self, info: PassInfo, method: str, pass_func: Callable[..., AnyValue]) -> None:
        self.info = info
        setattr(self, method, pass_func)  # set on the instance, so that it is called without self
        self.__doc__ = pass_func.__doc__
        self.__module__ = getattr(pass_func, "__module__", __name__)
        self.__qualname__ = getattr(pass_func, "__qualname__", "")

    def __reduce__(self) -> str | tuple[AnyValue, ...]:
        # A pass that replaced its function by decoration is pickled by that function's name.
        return self.__qualname__ if _named(self.__module__, self.__qualname__) is self else super().__reduce__()


class _ModulePassOfFunction(_PassOfFunction, ModulePass):
    pass


class _FunctionPassOfFunction(_PassOfFunction, FunctionPass):
    pass


class _PrimFuncPassOfFunction(_PassOfFunction, PrimFuncPass):
    pass


_KINDS: Final[dict[str, tuple[str, type[Pass], type[_PassOfFunction]]]] = {
    "Module": ("transform_module", ModulePass, _ModulePassOfFunction),
    "Function": ("transform_function", FunctionPass, _FunctionPassOfFunction),
    "PrimFunc": ("transform_function", PrimFuncPass, _PrimFuncPassOfFunction),
}


def _maker(own_name: str, kind: str, documentation: str) -> AnyValue:
    """`module_pass` or one of its siblings."""
    noun = "module" if kind == "Module" else "function"

    def make(
        pass_func: AnyValue = None,
        opt_level: int | None = None,
        name: str | None = None,
        required: Iterable[str] | None = None,
        traceable: bool = False,
        **declared: Unpack[Declarations],
    ) -> AnyValue:
        for key in declared:
            if key not in Declarations.__annotations__:
                known = [*Declarations.__annotations__, "opt_level", "name", "required"]
                raise TypeError(f"{own_name}() got an unexpected keyword argument {key!r}{did_you_mean(key, known)}")
        if opt_level is None:
            raise ValueError(f"Please provide opt_level for the {noun} pass.")
        return _decorator(kind, pass_func, PassInfo(opt_level, name or "", required, traceable, **declared))

    make.__name__ = make.__qualname__ = own_name
    make.__doc__ = documentation
    return make


module_pass: MakesPasses[TransformsModule, ModuleFunction, ModulePass] = _maker(
    "module_pass",
    "Module",
    """Creates a module pass from `pass_func(mod, ctx) -> mod`, or from a class with `transform_module(self, mod, ctx)`.

    Without `pass_func` the result is a decorator. A class becomes a class of passes: each pass holds an instance of the decorated class,
    created from the same arguments, and delegates unknown attributes to it. The name defaults to that of the function or class; the other
    parameters are those of `PassInfo`. Type checkers treat a decorated class as the original class; derive from ModulePass where that
    matters.

    Raises ValueError without an opt_level, and TypeError for objects that are not callable.

    >>> @module_pass(opt_level=1)
    ... def Tidy(mod, ctx):
    ...     return mod
    >>> Tidy
    Run Module pass: Tidy at the optimization level 1
    """,
)
function_pass: MakesPasses[TransformsFunction, FunctionFunction, FunctionPass] = _maker(
    "function_pass",
    "Function",
    """Creates a function pass from `pass_func(func, mod, ctx) -> func`, or from a class with `transform_function(self, func, mod, ctx)`.

    Otherwise like `module_pass`.
    """,
)
prim_func_pass: MakesPasses[TransformsPrimFunc, PrimFuncFunction, PrimFuncPass] = _maker(
    "prim_func_pass",
    "PrimFunc",
    """Creates a PrimFuncPass from `pass_func(func, mod, ctx) -> func or None`, or from a class with `transform_function(self, func, mod,
    ctx)`.

    Otherwise like `module_pass`.

    >>> @prim_func_pass(opt_level=0)
    ... def RemoveAll(func, mod, ctx):
    ...     return None
    >>> RemoveAll
    PrimFuncPass(RemoveAll, opt_level=0)
    """,
)


def _decorator(kind: str, pass_func: AnyValue, info: PassInfo) -> AnyValue:
    method, base, of_function = _KINDS[kind]

    def decorate(pass_func: AnyValue) -> AnyValue:
        if not callable(pass_func):
            raise TypeError(f"pass_func must be a callable for {kind} pass")
        named = copy.copy(info)  # a decorator may be reused
        named.name = info.name or getattr(pass_func, "__name__", type(pass_func).__name__)
        if named.counters:
            declare_counters(named.name, named.counters)
        return _pass_class(pass_func, named, method, base) if isinstance(pass_func, type) else of_function(named, method, pass_func)

    return decorate if pass_func is None else decorate(pass_func)


def _pass_class(cls: type, info: PassInfo, method: str, base: type[Pass]) -> type[Pass]:
    if not callable(getattr(cls, method, None)):
        raise TypeError(f"the class {cls.__name__} must define {method} to be a pass")
    signature = inspect.signature(cls)

    class PassOfClass(base):  # type: ignore[valid-type, misc]  # the base is one of three classes
        def __init__(self, *args: AnyValue, **kwargs: AnyValue) -> None:
            self._inner = cls(*args, **kwargs)
            self._arguments = args, kwargs
            self.given_options = given_options(self._inner) or without_defaults(cls, signature.bind(*args, **kwargs).arguments)
            setattr(self, method, getattr(self._inner, method))

        def __getattr__(self, name: str) -> AnyValue:
            if name == "_inner":  # not set yet while the object is being copied
                raise AttributeError(name)
            return getattr(self._inner, name)

        def __reduce__(self) -> tuple[AnyValue, ...]:
            # The decorated class cannot be pickled, since its name refers to this class now.
            return (_made_again, (type(self), *self._arguments))

    update_wrapper(PassOfClass.__init__, cls.__init__)  # type: ignore[misc]  # the __init__ of an unknown class
    PassOfClass.info = info
    PassOfClass.__signature__ = signature
    PassOfClass.__name__, PassOfClass.__qualname__ = cls.__name__, cls.__qualname__
    PassOfClass.__module__, PassOfClass.__doc__ = cls.__module__, cls.__doc__
    return PassOfClass


def _made_again(cls: type[Pass], args: tuple[AnyValue, ...], kwargs: dict[str, AnyValue]) -> Pass:
    return cls(*args, **kwargs)


def _named(module: str, qualname: str) -> object:
    """The object with a qualified name in a module; None if there is none."""
    found: object = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found
