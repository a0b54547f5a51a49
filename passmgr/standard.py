"""The passes that pipelines lean on: types, normal forms (programs as sequences of lets, and as graphs without them), unused functions,
spans."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from passat.ir.anf import to_anf, to_graph
from passat.ir.expr import Function, GlobalVar
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import EVERYTHING, PassInfo
from passat.passmgr.passes import FunctionPass, ModulePass
from passat.passmgr.registry import register_pass


@register_pass("relay._transform.InferType")
@dataclass(frozen=True, repr=False)
class InferType(ModulePass):
    """Infers the type of every expression that has none yet. Types are kept on the nodes, so the module comes back itself.

    Establishes the fact "types". Raises passat.ir.infer.InferError for a program that has no type.
    """

    info = PassInfo(0, "InferType", provides=("types",), preserves=EVERYTHING)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Infers what is new; where every function has its type nothing is walked."""
        for var, function in mod.functions.items():
            type_ = function._checked_type
            if type_ is None or (type_ is not var._checked_type and type_ != var._checked_type):
                return infer_module(mod)
        return mod


ANF: Final = "anf"
"""The fact that the bodies of all functions that are optimized here are in A-normal form."""


@register_pass("relay._transform.ToANormalForm")
@dataclass(frozen=True, repr=False)
class ToANormalForm(ModulePass):
    """Makes of every function a sequence of lets, each of one operation on variables and constants, in the order of evaluation.

    Functions with the attribute `Compiler` are left alone, and what stands in functions with `Primitive`. Establishes the fact "anf".
    """

    info = PassInfo(1, "ToANormalForm", provides=(ANF,))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Transforms every function; the module itself comes back where all are in this form."""
        changed: dict[GlobalVar, Function] = {}
        for var, function in mod.functions.items():
            if not isinstance(function, Function) or "Compiler" in function.attrs:
                continue
            made = to_anf(function)
            assert isinstance(made, Function)  # of a function
            if made is not function:
                changed[var] = made
        if not changed:
            return mod
        updated = mod.shallow_copy()
        updated.functions.update(changed)
        return updated


@register_pass("relay._transform.ToGraphNormalForm")
@dataclass(frozen=True, repr=False)
class ToGraphNormalForm(FunctionPass):
    """Puts the value of each let where its variable is used, once and shared. Values with effects, and recursive functions, keep theirs."""

    info = PassInfo(1, "ToGraphNormalForm")

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Transforms one function."""
        made = to_graph(func)
        assert isinstance(made, Function)  # of a function
        return made


@register_pass("relay._transform.RemoveUnusedFunctions")
@dataclass(frozen=True, repr=False)
class RemoveUnusedFunctions(ModulePass):
    """Removes the functions that no entry function reaches, by calling them or by handing them on.

    Raises KeyError where the module has no function of the name of an entry.
    """

    entry_functions: tuple[str, ...] = ("main",)

    info = PassInfo(1, "RemoveUnusedFunctions", preserves=EVERYTHING, counters={"removed": "functions that nothing reached"})

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module of the functions that are reached, in their order; the module itself where that is all of them."""
        reached = reached_functions(mod, self.entry_functions)
        if len(reached) == len(mod.functions):
            return mod
        ctx.record(self.info.name, "removed", len(mod.functions) - len(reached))
        kept = mod.shallow_copy()
        kept.functions = {var: function for var, function in mod.functions.items() if var in reached}
        return kept


def reached_functions(mod: IRModule, entries: Iterable[str]) -> set[GlobalVar]:
    """The functions of a module that are named in some function reached from the entries, and the entries. Raises KeyError."""
    by_name = {var.name_hint: var for var in mod.functions}
    stack = [mod.get_global_var(name) for name in entries]
    reached = set(stack)
    while stack:
        for node in post_order(mod.functions[stack.pop()]):
            if isinstance(node, GlobalVar):
                callee = by_name.get(node.name_hint)
                if callee is not None and callee not in reached:
                    reached.add(callee)
                    stack.append(callee)
    return reached


SOURCE: Final = "GeneratedSource"
"""The source name of the spans, as in TVM."""


@register_pass("relay._transform.AnnotateSpans")
@dataclass(frozen=True, repr=False)
class AnnotateSpans(ModulePass):
    """Prints the module and reads the text again, so that every expression has a span: its line and column in that text.

    The text is that of `mod.astext()`. Spans that were there, with the names an ONNX file gave, are replaced. Attributes of the module
    are kept. A module with functions of other back ends, which have no text that can be read, is left as it is, with a remark.
    Establishes the fact "types". Raises passat.ir.infer.InferError for a program that has no type.
    """

    info = PassInfo(0, "AnnotateSpans", provides=("types",), preserves=EVERYTHING)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module that the text stands for."""
        from passat.ir.text import astext, parse

        other = next((var for var, function in mod.functions.items() if not isinstance(function, Function)), None)
        if other is not None:
            ctx.remark(self.info.name, f"@{other.name_hint} belongs to another back end, so the module has no text that can be read")
            return infer_module(mod)
        annotated = parse(astext(mod), SOURCE)
        annotated.attrs = dict(mod.attrs)
        return annotated
