"""PartitionGraph: outlines regions for external compilers as functions of the module. A walk, since it adds functions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from passat.ir.analysis import check_constant, free_vars, well_formed
from passat.ir.annotated_regions import AnnotatedRegion, AnnotatedRegionSet, RegionError, is_begin, is_end
from passat.ir.expr import Call, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var
from passat.ir.global_functions import get_global_func
from passat.ir.infer import infer_module, infer_type
from passat.ir.module import IRModule
from passat.ir.ops.annotation import compiler_end
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, evaluation_parts, post_order, rewrite, with_children
from passat.passmgr import ModulePass, PassContext, PassInfo, register_pass
from passat.rules.passes.compiler_regions import DEFAULT

OPTIMIZE: Final = "relay.ext.{}.optimize"
"""The name of the global function that optimizes functions for a compiler. It maps a module with the function `main` to such a module."""


@register_pass("relay._transform.PartitionGraph")
@dataclass(frozen=True)
class PartitionGraph(ModulePass):
    """Outlines each region for an external compiler as a function of the module, and replaces the region by a call of it.

    A region consists of the expressions between `annotation.compiler_begin` and `annotation.compiler_end` (`passat.ir.annotated_regions`);
    the target "default" has no regions. The functions have the attributes `Compiler`, `global_symbol`, `Primitive=1` and `Inline=1`, and
    the names `tvmgen_MODULE_COMPILER_FUNCTION_NUMBER`. A region with several results returns a tuple. Constants that a region reads move
    into its function, unless `bind_constants` is false. The global function `relay.ext.COMPILER.optimize` optimizes it
    (`passat.register_func`), if there is one. Passes do not change such functions.

    Raises RegionError for annotations that do not describe regions, and for regions that need each other's results.
    """

    mod_name: str = "default"
    bind_constants: bool = True

    info = PassInfo(
        0,
        "PartitionGraph",
        ["InferType"],
        provides=("types",),
        preserves=("types",),
        counters={"functions": "functions made of regions"},
    )

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Returns the same module if there are no annotations."""
        infer_module(mod)
        updated = mod.shallow_copy()
        for var, function in mod.functions.items():
            if isinstance(function, Function) and not is_sealed(function):
                updated.functions[var] = _Partitioner(updated, self, var.name_hint).run(function)
        ctx.record(self.info.name, "functions", len(updated.functions) - len(mod.functions))
        if all(updated.functions[var] is function for var, function in mod.functions.items()):
            return mod
        return infer_module(updated)


class _Partitioner:
    """Partitions one function of a module, and adds the functions outlined from regions to the module."""

    def __init__(self, mod: IRModule, options: PartitionGraph, name: str) -> None:
        self._mod = mod
        self._options = options
        self._name = name
        self._regions: AnnotatedRegionSet
        self._numbers: dict[Expr, int] = {}
        """The number of each input among those of its region."""
        self._outputs: dict[AnnotatedRegion, list[Expr]] = {}
        self._empty: set[AnnotatedRegion] = set()
        """Regions with nothing between their annotations."""
        self._params: dict[AnnotatedRegion, dict[Expr, Expr]] = {}
        """The replacement of each input in the function of a region: a parameter, or a constant."""
        self._args: dict[AnnotatedRegion, dict[Var, Expr]] = {}
        self._results: dict[AnnotatedRegion, dict[Expr, Expr]] = {}
        """The replacement of each result of a region in the program."""
        self._done: dict[Expr, Expr] = {}

    def run(self, function: Function) -> Function:
        """The function with calls in place of regions."""
        flat = rewrite(function, _without_default)
        self._regions = regions = AnnotatedRegionSet(infer_type(flat))
        if not regions.regions:
            return flat
        for region in regions:
            if not region.rets:
                raise RegionError(f"a region for {region.target} begins but does not end; wrap its results in compiler_end")
            self._outputs[region] = list(dict.fromkeys(node.args[0] for node in region.nodes if is_end(node)))
            self._numbers.update((begin, number) for number, begin in enumerate(region.args))
            if all(is_begin(node) or is_end(node) for node in region.nodes):
                self._empty.add(region)
        done = self._done
        for node in post_order(flat, into=lambda node: node is flat or not is_sealed(node), parts_of=self._parts):
            owner = regions.get_region(node)
            if owner is not None and is_begin(node):
                done[node] = self._input(owner, node)
            elif owner is not None and is_end(node):
                done[node] = self._output(owner, node)
            elif node is not flat and is_sealed(node):
                done[node] = node
            else:
                done[node] = with_children(node, [self._made(part) for part in children(node)])
        result = done[flat]
        assert isinstance(result, Function)
        escapes = set(free_vars(result)) - set(free_vars(function))
        if escapes or (well_formed(function) and not well_formed(result)):
            raise RegionError(f"a value of a region in @{self._name} is used outside of it; wrap it in compiler_end")
        return result

    def _parts(self, node: Expr) -> Sequence[Expr]:
        """The parts of an expression; for a compiler_end, all results of its region."""
        region = self._regions.get_region(node)
        if region is not None and is_end(node):
            return self._outputs[region]
        return self._read(node).args if region is not None and is_begin(node) else evaluation_parts(node)

    def _read(self, begin: Call) -> Call:
        """The compiler_begin itself, or the compiler_end that it reads if both belong to one region."""
        end = begin.args[0]
        return end if is_end(end) and self._regions.get_region(end) is self._regions.get_region(begin) else begin

    def _made(self, node: Expr) -> Expr:
        made = self._done.get(node)
        if made is None:
            raise RegionError(f"regions in @{self._name} need each other's results; MergeCompilerRegions merges only regions that do not")
        return made

    def _input(self, region: AnnotatedRegion, begin: Call) -> Expr:
        """The replacement of an input inside of its region. An expression that is read several times is one input."""
        arg = self._made(self._read(begin).args[0])
        if self._read(begin) is not begin:
            return arg
        source = begin.args[0]
        while is_begin(source) or is_end(source):
            source = source.args[0]
        params = self._params.setdefault(region, {})
        if region in self._empty or (self._options.bind_constants and check_constant(arg)):
            return arg
        if source not in params:
            param = Var(f"{region.target}_{region.id}_i{self._numbers[begin]}", begin.checked_type)
            params[source] = param
            self._args.setdefault(region, {})[param] = arg
        return params[source]

    def _output(self, region: AnnotatedRegion, end: Call) -> Expr:
        """The replacement of a result of a region in the program."""
        if region in self._empty:
            return self._made(end.args[0])
        if region not in self._results:
            outputs = self._outputs[region]
            call = self._call(region)
            fields: list[Expr] = [call] if len(outputs) == 1 else [TupleGetItem(call, i) for i in range(len(outputs))]
            self._results[region] = dict(zip(outputs, fields, strict=True))
        return self._results[region][end.args[0]]

    def _call(self, region: AnnotatedRegion) -> Expr:
        """Adds the function of a region to the module, and calls it."""
        outputs = [self._made(output) for output in self._outputs[region]]
        args = self._args.get(region, {})
        function = infer_type(Function(args, outputs[0] if len(outputs) == 1 else Tuple(outputs)))
        optimize = get_global_func(OPTIMIZE.format(region.target), allow_missing=True)
        if optimize is not None:
            function = infer_module(optimize(infer_module(IRModule.from_expr(function))))["main"]
        name = self._free_name(region)
        result = function.func_type.ret_type
        attrs = {"global_symbol": name, "Primitive": 1, "Compiler": region.target, "Inline": 1}
        made = Function(function.params, function.body, result, function.type_params, {**function.attrs, **attrs}, function.span)
        var = GlobalVar(name, function.checked_type)
        self._mod.functions[var] = made
        return Call(var, list(args.values()))

    def _free_name(self, region: AnnotatedRegion) -> str:
        module = f"_{self._options.mod_name}" if self._options.mod_name else ""
        name = wanted = re.sub(r"[^0-9A-Za-z]", "_", f"tvmgen{module}_{region.target}_{self._name}_{region.id}")
        count = 0
        while name in self._mod:
            count += 1
            name = f"{wanted}_{count}"
        return name


def _without_default(old: Expr, new: Expr) -> Expr:
    """The expression without annotations for "default", and with annotations of a tuple moved to its fields."""
    if not (is_begin(new) or is_end(new)):
        return new
    read, compiler = new.args[0], new.attrs["compiler"]
    if compiler == DEFAULT:
        return read
    if is_begin(new) or not isinstance(read, Tuple):
        return new
    done: dict[Expr, Expr] = {}
    for node in post_order(read, into=lambda node: isinstance(node, Tuple)):
        if isinstance(node, Tuple):
            done[node] = with_children(node, [done[field] for field in node.fields])
        else:
            done[node] = compiler_end(node, compiler=compiler)
    return done[read]
