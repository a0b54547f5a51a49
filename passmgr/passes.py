"""Passes over modules and functions: callables from module to module that run the context's instruments around them."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.expr import Function, GlobalVar
from passat.ir.infer import infer_module, is_inferred
from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.ir.walks import preorder
from passat.passmgr.context import PassContext
from passat.passmgr.options import convert_option, given_options, parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passat.ir.expr import Expr
    from passat.passmgr.pass_info import PassInfo


class Pass:
    """Base class of all passes. A kind of pass defines `info` and `run`; derive from ModulePass or FunctionPass, or use the decorators.

    The options of a pass are the fields of the class if it is a dataclass; pipeline text reads and prints them. A pass must not keep state
    between runs, nor change its options, info or members: plans are cached and reused.
    """

    members: "tuple[Pass, ...] | None" = None
    """The members of a Sequential; None for other passes."""
    joint_option: str | None = None
    """The config option that makes adjacent passes run as one stage (`run_jointly`); None if they never do."""

    def __post_init__(self) -> None:  # called by dataclasses
        """Converts the options to their types. Raises PassOptionError."""
        if given := given_options(self):
            known = parameters(type(self))
            for name, value in given.items():
                if name in known:
                    object.__setattr__(self, name, convert_option(type(self).__name__, known[name], value))

    if TYPE_CHECKING:
        info: PassInfo
        """The metadata of the pass, set by derived classes, in the class or in `__init__`."""
    else:  # type checkers take a property for one that a class attribute must not replace

        @cached_property
        def info(self) -> "PassInfo":
            """The metadata of the pass, set by derived classes."""
            raise NotImplementedError(f"{type(self).__name__} has no info; set `info = PassInfo(...)` in the class")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Executes the pass without instruments."""
        raise NotImplementedError(f"{type(self).__name__} does not define run")

    def run_jointly(self, passes: "Sequence[Pass]", mod: IRModule, ctx: PassContext, stage: str) -> IRModule:
        """Executes the passes of a stage, adjacent passes of one `joint_option`, without instruments; this pass is the first."""
        raise NotImplementedError(f"{type(self).__name__} does not define run_jointly")

    def __call__(self, mod: IRModule) -> IRModule:
        """Runs the pass in the current context. Ignores its level, `disabled_pass` and requirements, which only a Sequential evaluates."""
        if not isinstance(mod, IRModule):
            raise TypeError(f"a pass takes an IRModule, not {type(mod).__name__}; create one with IRModule.from_expr(...)")
        ctx = PassContext.current()
        return self.run(mod, ctx) if ctx.hooks is None else ctx.run_pass(self.info, self.run, mod)

    def __repr__(self) -> str:  # a dataclass replaces __repr__ (unless repr=False), but not __str__
        return str(self)

    def __str__(self) -> str:
        return f"Run pass: {self.info.name} at the optimization level {self.info.opt_level}"


def nested_passes(*passes: Pass) -> Iterator[Pass]:
    """Passes and the members of the pipelines among them, each pipeline before its members."""
    return preorder(passes, lambda pass_: pass_.members or ())


class ModulePass(Pass):
    """A pass that transforms the whole module and returns the same or another module. It must not modify its input.

    Derived classes define `transform_module`. Exceptions get a note with the name of the pass. Raises TypeError for a result that is not a
    module.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Returns the transformed module."""
        raise NotImplementedError(f"{type(self).__name__} does not define transform_module")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms the module."""
        with _Reported(ctx, "module", self):
            _infer_required(self.info, mod)
            result = self.transform_module(mod, ctx)
        if type(result) is not IRModule and not isinstance(result, IRModule):
            raise TypeError(
                "The return value of a module pass must be set. "
                f"The pass {self.info.name} must return an IRModule, it returned {_shown(result)}"
            )
        return result

    def __str__(self) -> str:
        return f"Run Module pass: {self.info.name} at the optimization level {self.info.opt_level}"


def _infer_required(info: "PassInfo", mod: IRModule) -> None:
    """Infers the types that a pass requires, if it runs by itself: a function alone does not say what those that it calls return."""
    if "InferType" in info.required and not is_inferred(mod):
        infer_module(mod)


def convert_functions(mod: IRModule, convert: "Callable[[Function], Expr]") -> IRModule:
    """Converts each Relay function of a module; returns the same module if all stay the same."""
    changed: dict[GlobalVar, Function] = {}
    for var, function in mod.functions.items():
        if isinstance(function, Function):
            made = convert(function)
            assert isinstance(made, Function)  # a function maps to a function
            if made is not function:
                changed[var] = made
    if not changed:
        return mod
    updated = mod.shallow_copy()
    updated.functions.update(changed)
    return updated


class FunctionPass(Pass):
    """A pass that transforms one function at a time. It may look up other functions in the module.

    Derived classes define `transform_function`. All functions are transformed with the module as it was before the pass. If none of them
    changed (by identity), the same module is returned. Functions with the attribute `Compiler`, or with `SkipOptimization` or `Extern` set,
    are skipped, and so are those of other back ends (PrimFunc). Exceptions get a note with the names of the pass and the function.

    Unlike in TVM, InferType does not run afterward: types are kept on the nodes, and passes that need them require InferType. They also
    infer types if they are called by themselves.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Returns the transformed function."""
        raise NotImplementedError(f"{type(self).__name__} does not define transform_function")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function. Raises TypeError for a result that is not a function, and RuntimeError if functions are added or
        removed."""
        changed: list[tuple[GlobalVar, Function]] = []
        with _Reported(ctx, "function", self) as at:
            _infer_required(self.info, mod)
            transform = self.transform_function
            functions = tuple(mod.functions.items())
            for var, func in functions:
                if not isinstance(func, Function) or (func.attrs is not EMPTY_ATTRS and is_left_alone(func.attrs)):
                    continue
                at.function = var
                result = transform(func, mod, ctx)
                if result is not func:
                    changed.append((var, _checked(result)))
            at.function = None
            if len(mod.functions) != len(functions):
                raise RuntimeError("a function pass cannot add or remove functions; use a module pass")
        if not changed:
            return mod
        updated = mod.shallow_copy()
        updated.functions.update(changed)
        return updated

    def __str__(self) -> str:
        return f"Run Function pass: {self.info.name} at the optimization level {self.info.opt_level}"


class PrimFuncPass(Pass):
    """A pass that transforms one function of another back end (PrimFunc) at a time.

    Derived classes define `transform_function`, which returns the transformed function, or None to remove it. As in TVM, the module is
    updated during the pass: `mod`, a shallow copy of the input module, contains the results of earlier calls (removed functions stay until
    the end). If nothing changed, the same module is returned. No attribute disables the pass, and no types are inferred.
    """

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc | None:
        """Returns the transformed function; None removes it."""
        raise NotImplementedError(f"{type(self).__name__} does not define transform_function")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function of another back end. Raises TypeError for a result that is not a PrimFunc."""
        prim_funcs = [(var, func) for var, func in mod.functions.items() if isinstance(func, PrimFunc)]
        if not prim_funcs:
            return mod
        updated = mod.shallow_copy()
        removed: list[GlobalVar] = []
        with _Reported(ctx, "PrimFunc", self) as at:
            for var, func in prim_funcs:
                at.function = var
                result = self.transform_function(func, updated, ctx)
                if result is None:
                    removed.append(var)
                elif not isinstance(result, PrimFunc):
                    raise TypeError(f"a PrimFunc pass must return a PrimFunc or None, but returned {_shown(result)}")
                else:
                    updated.functions[var] = result
            at.function = None
        for var in removed:
            updated.functions.pop(var, None)
        same = updated.functions.keys() == mod.functions.keys() and all(
            mod.functions[var] is func for var, func in updated.functions.items()
        )
        return mod if same else updated

    def __str__(self) -> str:
        return f"PrimFuncPass({self.info.name}, opt_level={self.info.opt_level})"


def is_left_alone(attrs: Attrs) -> bool:
    """Whether the attributes of a function exclude it from function passes.

    >>> is_left_alone(Attrs(Primitive=1)), is_left_alone(Attrs(Compiler="dnnl")), is_left_alone(Attrs(SkipOptimization=0))
    (False, True, False)
    """
    return "Compiler" in attrs or bool(attrs.get("SkipOptimization")) or bool(attrs.get("Extern"))


def _checked(result: object) -> Function:
    """The result of a function pass. Raises TypeError if it is not a function."""
    if not isinstance(result, Function):
        raise TypeError(f"a function pass must return a Function, but returned {_shown(result)}")
    return result


class _Reported:
    """Renders the diagnostics of a pass. Its exceptions get a note with the place; those of the rendering become notes of them.

    A class, since a generator as context manager takes four times as long as a pass that does nothing.
    """

    __slots__ = ("_ctx", "_diagnostics", "_kind", "_pass", "function")

    def __init__(self, ctx: PassContext, kind: str, pass_: Pass) -> None:
        self._ctx = ctx
        self._diagnostics = ctx.diag_ctx
        self._kind = kind
        self._pass = pass_
        self.function: GlobalVar | None = None
        """The function that is being transformed."""

    def __enter__(self) -> "_Reported":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            error.add_note(self._place())
        try:
            if self._ctx.diag_ctx is not None and (error is None or isinstance(error, Exception)):
                self._ctx.diag_ctx.render()
        except Exception as second:
            if error is None:
                second.add_note(self._place())
                raise
            if str(second) != str(error):  # otherwise the rendering itself raised
                error.add_note(f"and before that it reported: {second}")
        finally:
            self._ctx.diag_ctx = self._diagnostics

    def _place(self) -> str:
        at = "" if self.function is None else f", function @{self.function.name_hint}"
        return f"in the {self._kind} pass {self._pass.info.name}{at}"


def _shown(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
