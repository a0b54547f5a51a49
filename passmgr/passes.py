"""Passes over modules and over functions: callables from module to module, which run the context's instruments around them."""

from functools import cached_property
from typing import TYPE_CHECKING

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.expr import Function, GlobalVar
from passat.ir.module import IRModule
from passat.passmgr.context import PassContext

if TYPE_CHECKING:
    from passat.passmgr.pass_info import PassInfo


class Pass:
    """The base of all passes. A kind of pass defines `info` and `run`; users derive from ModulePass or FunctionPass, or use the decorators.

    The options of a pass are the fields of the class, if it is a dataclass: these are what pipeline text gives and prints.
    A pass must not keep anything from one run to the next, nor change its options, info or members: plans are made once and reused.
    """

    members: "tuple[Pass, ...] | None" = None
    """The passes that a pass consists of: None but for a Sequential."""

    @cached_property  # so that derived classes may set it, in the class or in __init__
    def info(self) -> "PassInfo":
        """The data of the pass. Derived classes set it."""
        raise NotImplementedError(f"{type(self).__name__} has no info; set `info = PassInfo(...)` in the class")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """What the pass does, without instruments."""
        raise NotImplementedError(f"{type(self).__name__} does not define run")

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
        try:
            result = self.transform_module(mod, ctx)
        except Exception as error:
            error.add_note(f"in the module pass {self.info.name}")
            raise
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
    `SkipOptimization` or `Extern` set, are left alone. An exception gets a note that names the pass and the function.

    Unlike TVM's, a function pass does not run InferType on what it made: types are kept on the nodes, and whoever needs them
    requires InferType.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The function that takes the place of this one."""
        raise NotImplementedError(f"{type(self).__name__} does not define transform_function")

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function. Raises TypeError for a result that is no function, RuntimeError where functions come or go."""
        transform = self.transform_function
        functions = tuple(mod.functions.items())
        changed: list[tuple[GlobalVar, Function]] = []
        var = None
        try:
            for var, func in functions:
                if not isinstance(func, Function) or (func.attrs is not EMPTY_ATTRS and is_left_alone(func.attrs)):
                    continue
                result = transform(func, mod, ctx)
                if result is not func:
                    if not isinstance(result, Function):
                        raise TypeError(f"a function pass must return a Function, it returned {_shown(result)}")
                    changed.append((var, result))
            if len(mod.functions) != len(functions):
                var = None
                raise RuntimeError("a function pass can neither add nor remove functions: make it a module pass")
        except Exception as error:
            where = "" if var is None else f", function @{var.name_hint}"
            error.add_note(f"in the function pass {self.info.name}{where}")
            raise
        if not changed:
            return mod
        updated = mod.shallow_copy()
        updated.functions.update(changed)
        return updated

    def __str__(self) -> str:
        return f"Run Function pass: {self.info.name} at the optimization level {self.info.opt_level}"


def is_left_alone(attrs: Attrs) -> bool:
    """Whether the attributes of a function keep function passes away from it.

    >>> is_left_alone(Attrs(Primitive=1)), is_left_alone(Attrs(Compiler="dnnl")), is_left_alone(Attrs(SkipOptimization=0))
    (False, True, False)
    """
    return "Compiler" in attrs or bool(attrs.get("SkipOptimization")) or bool(attrs.get("Extern"))


def _shown(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
