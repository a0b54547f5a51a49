"""Passes over modules and over functions: callables from module to module, which run the context's instruments around them."""

from functools import cached_property
from typing import TYPE_CHECKING

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.expr import Function, GlobalVar
from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.passmgr.context import PassContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from passat.passmgr.pass_info import PassInfo


class Pass:
    """The base of all passes. A kind of pass defines `info` and `run`; users derive from ModulePass or FunctionPass, or use the decorators.

    The options of a pass are the fields of the class, if it is a dataclass: these are what pipeline text gives and prints.
    A pass must not keep anything from one run to the next, nor change its options, info or members: plans are made once and reused.
    """

    members: "tuple[Pass, ...] | None" = None
    """The passes that a pass consists of: None but for a Sequential."""
    joint_option: str | None = None
    """The config option under which passes that stand side by side run as one stage (`run_jointly`); None where they do not."""

    @cached_property  # so that derived classes may set it, in the class or in __init__
    def info(self) -> "PassInfo":
        """The data of the pass. Derived classes set it."""
        raise NotImplementedError(f"{type(self).__name__} has no info; set `info = PassInfo(...)` in the class")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """What the pass does, without instruments."""
        raise NotImplementedError(f"{type(self).__name__} does not define run")

    def run_jointly(self, passes: "Sequence[Pass]", mod: IRModule, ctx: PassContext) -> IRModule:
        """What passes of one `joint_option` do as one, without instruments; this one is the first of them."""
        raise NotImplementedError(f"{type(self).__name__} does not define run_jointly")

    def __call__(self, mod: IRModule) -> IRModule:
        """Runs the pass in the current context. Only a Sequential looks at its level, at `disabled_pass`, and at what it requires."""
        if not isinstance(mod, IRModule):
            raise TypeError(f"a pass takes an IRModule, not {type(mod).__name__}; make one with IRModule.from_expr(...)")
        ctx = PassContext.current()
        return self.run(mod, ctx) if ctx.hooks is None else ctx.run_pass(self.info, self.run, mod)

    def __repr__(self) -> str:  # a dataclass replaces it, unless repr=False, but not __str__
        return str(self)

    def __str__(self) -> str:
        return f"Run pass: {self.info.name} at the optimization level {self.info.opt_level}"


class ModulePass(Pass):
    """A pass that sees the whole module and returns one, the same or another. It must not change the module that it gets.

    Derived classes define `transform_module`. An exception gets a note that names the pass. Raises TypeError where the result is no module.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module that takes the place of this one."""
        raise NotImplementedError(f"{type(self).__name__} does not define transform_module")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms the module."""
        diagnostics = ctx.diag_ctx
        try:
            result = self.transform_module(mod, ctx)
            if ctx.diag_ctx is not None:
                ctx.diag_ctx.render()
        except Exception as error:
            error.add_note(f"in the module pass {self.info.name}")
            render_with(error, ctx)
            raise
        finally:
            ctx.diag_ctx = diagnostics
        if type(result) is not IRModule and not isinstance(result, IRModule):
            raise TypeError(
                "The return value of a module pass must be set. "
                f"The pass {self.info.name} must return an IRModule, it returned {_shown(result)}"
            )
        return result

    def __str__(self) -> str:
        return f"Run Module pass: {self.info.name} at the optimization level {self.info.opt_level}"


class FunctionPass(Pass):
    """A pass that sees one function at a time, and the module only to look things up in it.

    Derived classes define `transform_function`. All functions are transformed against the module as it was before the pass; where
    none changed (is another object) the module comes back itself. Functions with the attribute `Compiler`, or with
    `SkipOptimization` or `Extern` set, are left alone, and so are those of other back ends (PrimFunc). An exception gets a note that
    names the pass and the function.

    Unlike TVM's, a function pass does not run InferType on what it made: types are kept on the nodes, and whoever needs them
    requires InferType.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function that takes the place of this one."""
        raise NotImplementedError(f"{type(self).__name__} does not define transform_function")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function. Raises TypeError for a result that is no function, RuntimeError where functions come or go."""
        diagnostics = ctx.diag_ctx
        changed: list[tuple[GlobalVar, Function]] = []
        var = None
        try:
            transform = self.transform_function
            functions = tuple(mod.functions.items())
            for var, func in functions:
                if not isinstance(func, Function) or (func.attrs is not EMPTY_ATTRS and is_left_alone(func.attrs)):
                    continue
                result = transform(func, mod, ctx)
                if result is not func:
                    changed.append((var, _checked(result)))
            var = None
            if len(mod.functions) != len(functions):
                raise RuntimeError("a function pass can neither add nor remove functions: make it a module pass")
            if ctx.diag_ctx is not None:
                ctx.diag_ctx.render()
        except Exception as error:
            where = "" if var is None else f", function @{var.name_hint}"
            error.add_note(f"in the function pass {self.info.name}{where}")
            render_with(error, ctx)
            raise
        finally:
            ctx.diag_ctx = diagnostics
        if not changed:
            return mod
        updated = mod.shallow_copy()
        updated.functions.update(changed)
        return updated

    def __str__(self) -> str:
        return f"Run Function pass: {self.info.name} at the optimization level {self.info.opt_level}"


class PrimFuncPass(Pass):
    """A pass that sees one function of another back end (PrimFunc) at a time.

    Derived classes define `transform_function`, which returns the function that takes the place of the one it gets, or None to remove
    it. As in TVM the module is edited as the pass goes along: the `mod` that is handed over, a shallow copy of the one that the pass
    is called on, holds what earlier calls returned (a function whose removal was asked for stays until the end). Where nothing changed
    the module comes back itself. No attribute keeps the pass away, and no types are inferred.
    """

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc | None:
        """The function that takes the place of this one; None removes it."""
        raise NotImplementedError(f"{type(self).__name__} does not define transform_function")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function of another back end. Raises TypeError for a result that is no PrimFunc."""
        prim_funcs = [(var, func) for var, func in mod.functions.items() if isinstance(func, PrimFunc)]
        if not prim_funcs:
            return mod
        diagnostics = ctx.diag_ctx
        updated = mod.shallow_copy()
        removed: list[GlobalVar] = []
        var = None
        try:
            for var, func in prim_funcs:
                result = self.transform_function(func, updated, ctx)
                if result is None:
                    removed.append(var)
                elif not isinstance(result, PrimFunc):
                    raise TypeError(f"a PrimFunc pass must return a PrimFunc or None, it returned {_shown(result)}")
                else:
                    updated.functions[var] = result
            var = None
            if ctx.diag_ctx is not None:
                ctx.diag_ctx.render()
        except Exception as error:
            where = "" if var is None else f", function @{var.name_hint}"
            error.add_note(f"in the PrimFunc pass {self.info.name}{where}")
            render_with(error, ctx)
            raise
        finally:
            ctx.diag_ctx = diagnostics
        for var in removed:
            updated.functions.pop(var, None)
        same = updated.functions.keys() == mod.functions.keys() and all(
            mod.functions[var] is func for var, func in updated.functions.items()
        )
        return mod if same else updated

    def __str__(self) -> str:
        return f"PrimFuncPass({self.info.name}, opt_level={self.info.opt_level})"


def is_left_alone(attrs: Attrs) -> bool:
    """Whether the attributes of a function keep function passes away from it.

    >>> is_left_alone(Attrs(Primitive=1)), is_left_alone(Attrs(Compiler="dnnl")), is_left_alone(Attrs(SkipOptimization=0))
    (False, True, False)
    """
    return "Compiler" in attrs or bool(attrs.get("SkipOptimization")) or bool(attrs.get("Extern"))


def _checked(result: object) -> Function:
    """What a function pass returned. Raises TypeError where that is no function."""
    if not isinstance(result, Function):
        raise TypeError(f"a function pass must return a Function, it returned {_shown(result)}")
    return result


def render_with(error: Exception, ctx: PassContext) -> None:
    """Renders the diagnostics that a pass left which raised; what that raises becomes a note of the first exception."""
    if ctx.diag_ctx is not None:
        try:
            ctx.diag_ctx.render()
        except Exception as second:
            if str(second) != str(error):  # else it was the rendering that raised
                error.add_note(f"and before that it reported: {second}")


def _shown(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
