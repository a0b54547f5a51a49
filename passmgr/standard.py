"""Basic passes: type inference, normal forms, unused functions, spans, functions as values, continuations, gradients."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from passat.ir.anf import to_anf, to_graph
from passat.ir.basic_blocks import to_basic_blocks
from passat.ir.called_literals import annotate_called
from passat.ir.closures import eta_expand, lambda_lift
from passat.ir.cps import Renamed, to_cps, un_cps
from passat.ir.expr import Expr, Function, GlobalVar
from passat.ir.gradients.first_order import first_order_gradient
from passat.ir.gradients.lazy import lazy_gradient_init
from passat.ir.infer import infer_module, is_inferred
from passat.ir.inline import inline_globals
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.ir.walks import reachable
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import EVERYTHING, PassInfo
from passat.passmgr.passes import FunctionPass, ModulePass, convert_functions
from passat.passmgr.registry import register_pass


@register_pass("relay._transform.EtaExpand")
@dataclass(frozen=True, repr=False)
class EtaExpand(ModulePass):
    """Wraps constructors and global functions that are used as values in functions that call them; each kind is optional."""

    expand_constructor: bool = False
    expand_global_var: bool = False

    info = PassInfo(1, "EtaExpand", required=("InferType",))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function; returns the same module if nothing is expanded."""
        types = {var.name_hint: function.checked_type for var, function in mod.functions.items()} if self.expand_global_var else {}
        return convert_functions(mod, lambda function: eta_expand(function, constructors=self.expand_constructor, functions=types))


@register_pass("relay._transform.LambdaLift")
@dataclass(frozen=True, repr=False)
class LambdaLift(ModulePass):
    """Makes each nested function a global function. Captured variables become parameters of a global function that returns it."""

    info = PassInfo(1, "LambdaLift", required=("InferType",))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Returns the same module if there are no nested functions."""
        return lambda_lift(mod)


@register_pass("relay._transform.ToCPS")
@dataclass(frozen=True, repr=False)
class ToCPS(ModulePass):
    """Converts each function to continuation-passing style (`relay.transform.to_cps`).

    Global functions that are called get a converted form, whose name has the suffix `_cps`. Functions of other back ends stay.
    """

    info = PassInfo(1, "ToCPS", required=("InferType",))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Converts every function."""
        updated = mod.shallow_copy()
        renamed: Renamed = {}
        for var, function in mod.functions.items():
            if isinstance(function, Function):
                callees = mod.shallow_copy()
                updated.functions[var] = to_cps(function, callees, renamed)
                updated.update({name: made for name, made in callees.functions.items() if name not in mod})
        return infer_module(updated)


@register_pass("relay._transform.UnCPS")
@dataclass(frozen=True, repr=False)
class UnCPS(ModulePass):
    """Makes functions in continuation-passing style return their result (`relay.transform.un_cps`).

    Functions that are called stay, because their callers pass a continuation. Raises CpsError for functions that are not in this style.
    """

    info = PassInfo(1, "UnCPS", required=("InferType",))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Converts every function that no function of the module calls."""
        updated = mod.shallow_copy()
        called = {node.name_hint for node in post_order(*mod.functions.values()) if isinstance(node, GlobalVar)}
        for var, function in mod.functions.items():
            if isinstance(function, Function) and var.name_hint not in called:
                updated.functions[var] = un_cps(function)
        return infer_module(updated)


@register_pass("relay._transform.FirstOrderGradient")
@dataclass(frozen=True, repr=False)
class FirstOrderGradient(ModulePass):
    """Replaces each function by one that returns its result and the gradients of its parameters (`relay.transform.gradient`).

    Supports functions without control flow, and raises GradientError for others. Functions of other back ends stay, with a remark.
    """

    info = PassInfo(0, "FirstOrderGradient", required=("InferType",))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Differentiates every function."""
        made: dict[GlobalVar, Function] = {}
        for var, function in mod.functions.items():
            if isinstance(function, Function):
                made[var] = first_order_gradient(function)
            else:
                ctx.remark(self.info.name, f"@{var.name_hint} belongs to another back end and is not differentiated")
        updated = mod.shallow_copy()
        updated.functions.update(made)
        return updated


@register_pass("relay._transform.LazyGradientInit")
@dataclass(frozen=True, repr=False)
class LazyGradientInit(ModulePass):
    """Computes zeros and ones where they are used, and neither adds zeros nor multiplies by them.

    Supports the functions that `relay.transform.gradient` returns. Adds the functions of the standard library's `gradient.rly` to the
    module, and does not transform them. Zero times infinity or NaN becomes zero. Raises GradientError for functions whose values are not
    tensors.
    """

    info = PassInfo(2, "LazyGradientInit", required=("InferType",))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function."""
        updated = mod.shallow_copy()
        updated.import_from_std("gradient.rly")
        own = IRModule()
        own.import_from_std("gradient.rly")
        for var, function in mod.functions.items():
            if isinstance(function, Function) and var.name_hint not in own:
                updated.functions[var] = lazy_gradient_init(function, updated)
        return infer_module(updated)


@register_pass("relay._transform.InferType")
@dataclass(frozen=True, repr=False)
class InferType(ModulePass):
    """Infers the type of every expression without one. Types are stored on the nodes, so the same module is returned. The exception is a
    function literal that is called directly and has parameters without annotations: the annotations are added.

    Establishes the fact "types". Raises passat.ir.infer.InferError for an ill-typed program.
    """

    info = PassInfo(0, "InferType", provides=("types",), preserves=EVERYTHING)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Infers the types of new expressions. Skips functions that have a type."""
        return mod if is_inferred(mod) else _each_function(infer_module(mod), annotate_called)


ANF: Final = "anf"
"""The fact that all optimized functions are in A-normal form."""


@register_pass("relay._transform.ToANormalForm")
@dataclass(frozen=True, repr=False)
class ToANormalForm(ModulePass):
    """Converts every function to A-normal form: a sequence of lets in the order of evaluation, each with one operation on variables and
    constants, or on variables alone with `bind_constants`, as in TVM.

    Skips functions with the attribute `Compiler`, and the inside of functions with `Primitive`. Establishes the fact "anf".
    """

    info = PassInfo(1, "ToANormalForm", provides=(ANF,))
    bind_constants: bool = False

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function; returns the same module if all are in A-normal form."""
        return _each_function(mod, partial(to_anf, bind_constants=self.bind_constants))


@register_pass("relay._transform.ToBasicBlockNormalForm")
@dataclass(frozen=True, repr=False)
class ToBasicBlockNormalForm(ModulePass):
    """Binds values that several blocks use (branches, match arms, function bodies) by lets in an enclosing block.

    Skips functions with the attribute `Compiler`, and the inside of functions with `Primitive`.
    """

    info = PassInfo(1, "ToBasicBlockNormalForm")

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function; returns the same module if all are in this form."""
        return _each_function(mod, to_basic_blocks)


def _each_function(mod: IRModule, convert: Callable[[Expr], Expr]) -> IRModule:
    """Converts all functions that are not for an external compiler."""
    return convert_functions(mod, lambda function: function if "Compiler" in function.attrs else convert(function))


@register_pass("relay._transform.Inline")
@dataclass(frozen=True, repr=False)
class Inline(ModulePass):
    """Replaces calls of functions with the attribute `Inline` by their bodies, and removes inlined functions without remaining uses.

    Recursive functions stay. A call of a function with the attribute `Compiler` becomes a call of a function literal.
    """

    info = PassInfo(1, "Inline")

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Returns the same module if nothing is inlined."""
        return inline_globals(mod)


@register_pass("relay._transform.ToGraphNormalForm")
@dataclass(frozen=True, repr=False)
class ToGraphNormalForm(FunctionPass):
    """Converts to graph normal form: removes lets, so that all uses of a variable share its value. Keeps lets of values with side effects
    and of recursive functions."""

    info = PassInfo(1, "ToGraphNormalForm")

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Transforms one function."""
        return to_graph(func)


@register_pass("relay._transform.RemoveUnusedFunctions")
@dataclass(frozen=True, repr=False)
class RemoveUnusedFunctions(ModulePass):
    """Removes the functions that are not reachable from the entry functions by calls or references.

    Raises KeyError if the module has no function with the name of an entry.
    """

    entry_functions: tuple[str, ...] = ("main",)

    info = PassInfo(1, "RemoveUnusedFunctions", preserves=EVERYTHING, counters={"removed": "unreachable functions"})

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Keeps the reachable functions in order; returns the same module if all are reachable."""
        reached = reached_functions(mod, self.entry_functions)
        if len(reached) == len(mod.functions):
            return mod
        ctx.record(self.info.name, "removed", len(mod.functions) - len(reached))
        kept = mod.shallow_copy()
        kept.functions = {var: function for var, function in mod.functions.items() if var in reached}
        return kept


def reached_functions(mod: IRModule, entries: Iterable[str]) -> set[GlobalVar]:
    """Returns the functions that are reachable from the entries, including these. Raises KeyError."""
    by_name = {var.name_hint: var for var in mod.functions}

    def callees(var: GlobalVar) -> list[GlobalVar]:
        names = [node.name_hint for node in post_order(mod.functions[var]) if isinstance(node, GlobalVar)]
        return [by_name[name] for name in names if name in by_name]

    return set(reachable([mod.get_global_var(name) for name in entries], callees))


SOURCE: Final = "GeneratedSource"
"""The source name of the spans, as in TVM."""


@register_pass("relay._transform.AnnotateSpans")
@dataclass(frozen=True, repr=False)
class AnnotateSpans(ModulePass):
    """Prints the module and parses the text, so that every expression has a span: its line and column in the text.

    The text is that of `mod.astext()`. Replaces existing spans, including names from ONNX files. Keeps the attributes of the module. Skips
    modules with functions of other back ends, which cannot be printed, with a remark. Establishes the fact "types". Raises
    passat.ir.infer.InferError for an ill-typed program.
    """

    info = PassInfo(0, "AnnotateSpans", provides=("types",), preserves=EVERYTHING)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Returns the parsed module."""
        from passat.ir.text import astext, parse

        other = next((var for var, function in mod.functions.items() if not isinstance(function, Function)), None)
        if other is not None:
            ctx.remark(self.info.name, f"@{other.name_hint} belongs to another back end, so the module cannot be printed and parsed")
            return infer_module(mod)
        annotated = parse(astext(mod), SOURCE)
        annotated.attrs = dict(mod.attrs)
        return annotated
