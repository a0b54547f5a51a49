"""AnnotateTarget marks the calls that external compilers support, and MergeCompilerRegions merges adjacent regions for one compiler. Walks,
since annotations depend on the readers and operands of a value, and merging on all paths between regions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from passat.ir.annotated_regions import AnnotatedRegion, AnnotatedRegionSet, is_begin, is_end
from passat.ir.expr import Call, Expr, Function, If, Let, Match, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.ops.annotation import compiler_begin, compiler_end
from passat.ir.scopes import Scopes
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, evaluation_parts, pattern_vars, post_order, rewrite, with_children
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass

DEFAULT: Final = "default"
"""The target of expressions that no external compiler takes."""
_OTHERS: Final = (Tuple, TupleGetItem, RefCreate, RefRead, RefWrite)
"""Kinds of expressions that are annotated besides calls with `include_non_call_ops`. They get the common target of their operands, if
any."""


@register_pass("relay._transform.AnnotateTarget")
@dataclass(frozen=True)
class AnnotateTarget(FunctionPass):
    """Annotates the calls that external compilers support: operands with `annotation.compiler_begin`, results with `compiler_end`.

    A compiler supports a call of an operator if the function registered for the operator as `target.NAME` (`passat.ir.register_op_attr`)
    returns True for the call. It supports a call of a function whose attribute `Composite` begins with `NAME.` (`MergeComposite`). If
    several compilers support a call, the first one in `targets` takes it. Other calls are annotated for "default". With
    `include_non_call_ops`, so are tuples, projections and references. Existing annotations for targets other than "default" are unchanged.
    """

    targets: tuple[str, ...] = ()
    include_non_call_ops: bool = True

    info = PassInfo(
        0,
        "AnnotateTarget",
        ["InferType"],
        provides=("types",),
        preserves=("types",),
        counters={"annotated": "calls for external compilers"},
    )

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Annotates the calls of one function."""
        if is_sealed(func):
            return func
        annotator = _Annotator(func, self.targets, self.include_non_call_ops)
        made = annotator.run()
        ctx.record(self.info.name, "annotated", annotator.count)
        return infer_type(made)


class _Annotator:
    """Annotates one function. `count` is the number of calls that external compilers take."""

    def __init__(self, function: Function, targets: Sequence[str], everything: bool) -> None:
        self._function = function
        self._regions = AnnotatedRegionSet(function)
        self._targets = targets
        self._everything = everything
        self._target_of: dict[Expr, str] = {}
        """The targets of new expressions, whose results are annotated when they are read."""
        self.count = 0

    def run(self) -> Function:
        """The annotated function."""

        def annotate(old: Expr, new: Expr) -> Expr:
            made = self._annotated(old, children(new))
            return made if made._checked_type is not None or isinstance(made, Function) else made.assume_type(old._checked_type)

        return rewrite(self._function, annotate, into=self._is_entered)

    def _is_entered(self, node: Expr) -> bool:
        return node is self._function or not is_sealed(node)

    def _annotated(self, node: Expr, parts: Sequence[Expr]) -> Expr:
        """The replacement of a node, with new parts."""
        region = self._regions.get_region(node)
        if region is not None and region.target != DEFAULT:
            return with_children(node, parts)
        if isinstance(node, Call):
            return self._call(node, parts)
        if isinstance(node, _OTHERS):
            return self._wrapped(node, parts, None) if self._everything else with_children(node, list(map(self._closed, parts)))
        if isinstance(node, Let) and isinstance(node.value, Function):
            return with_children(node, [parts[0], parts[1], self._closed(parts[2])])
        if isinstance(node, (Let, If, Match, Function)) and self._is_entered(node):
            return with_children(node, list(map(self._closed, parts)))
        return node

    def _call(self, node: Call, parts: Sequence[Expr]) -> Expr:
        if is_begin(node) or is_end(node):  # for no external compiler: readers add new annotations
            read = parts[1]
            return self._closed(read) if is_end(node) and read in self._target_of else with_children(node, parts)
        if isinstance(node.op, Var) and not self._everything:
            return with_children(node, list(map(self._closed, parts)))
        target = next((target for target in self._targets if _supports(target, node)), DEFAULT)
        self.count += target != DEFAULT
        return self._wrapped(node, parts, target)

    def _wrapped(self, node: Expr, parts: Sequence[Expr], target: str | None) -> Expr:
        """The expression with annotated operands for a target, by default that of the operands."""
        callee, operands = (parts[:1], parts[1:]) if isinstance(node, Call) else ((), parts)
        ends = [self._closed(_without_default(operand)) for operand in operands]
        if target is None:
            found = {end.attrs["compiler"] if is_end(end) else DEFAULT for end in ends}
            target = found.pop() if len(found) == 1 else DEFAULT
        made = with_children(node, [*callee, *(_annotation(compiler_begin, end, target) for end in ends)])
        if operands:
            self._target_of[made] = target
        return made

    def _closed(self, expr: Expr) -> Expr:
        """The expression as read from outside of its region: with an annotation that ends the region."""
        return _annotation(compiler_end, expr, self._target_of[expr]) if expr in self._target_of else expr


def _annotation(op: Op, expr: Expr, target: str) -> Expr:
    return op(expr, compiler=target).assume_type(expr._checked_type)


def _without_default(operand: Expr) -> Expr:
    """An operand without an annotation for "default"."""
    return operand.args[0] if is_begin(operand) and operand.attrs["compiler"] == DEFAULT else operand


def _supports(target: str, call: Call) -> bool:
    if isinstance(call.op, Op):
        check = call.op.get_attr(f"target.{target}")
        return check is not None and bool(check(call))
    return isinstance(call.op, Function) and str(call.op.attrs.get("Composite", "")).startswith(f"{target}.")


@register_pass("relay._transform.MergeCompilerRegions")
@dataclass(frozen=True)
class MergeCompilerRegions(FunctionPass):
    """Merges each region for an external compiler with the regions whose results it reads. They must be for the same compiler, and no other
    path between them may leave the merged region. Removes the annotations between them.

    A region consists of the expressions between `annotation.compiler_begin` and `annotation.compiler_end` (`passat.ir.annotated_regions`).
    """

    info = PassInfo(
        0,
        "MergeCompilerRegions",
        ["InferType"],
        provides=("types",),
        preserves=("types",),
        counters={"merged": "regions that became part of others"},
    )

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Merges the regions of one function."""
        regions = AnnotatedRegionSet(func)
        before = len(regions)
        _Merger(func, regions).run()
        if len(regions) == before:
            return func
        ctx.record(self.info.name, "merged", before - len(regions))
        return infer_type(rewrite(func, lambda old, new: _without_annotation(regions, old, new)))


def _without_annotation(regions: AnnotatedRegionSet, old: Expr, new: Expr) -> Expr:
    """The expression. A compiler_begin that reads a result of its own region is replaced by the expression before both annotations."""
    if is_begin(old) and is_end(old.args[0]) and is_begin(new) and regions.get_region(old) is regions.get_region(old.args[0]):
        end = new.args[0]
        return end.args[0] if is_end(end) else end
    return new


class _Merger:
    """Merges regions in order: the regions that a region reads come before the region itself.

    Sets of regions are integers with one bit for each region. `_barred` has, for each region, the regions from which a path leads to it
    through other regions. Merging one of them would put the merged region before itself.
    """

    def __init__(self, function: Function, regions: AnnotatedRegionSet) -> None:
        self._regions = regions
        self._scopes = Scopes(function, lets=False)
        self._bound: dict[Expr, Expr] = {}
        for node in self._scopes.order:
            if isinstance(node, Let):
                self._bound[node.var] = node.value
            elif isinstance(node, Match):
                self._bound.update((var, node.data) for clause in node.clauses for var in pattern_vars(clause.lhs))
        self._barred: dict[AnnotatedRegion, int] = {}
        self._members: dict[AnnotatedRegion, int] = {region: 1 << region.id for region in regions}

    def run(self) -> None:
        """Merges regions until no two can be merged."""
        for region in self._regions.regions:
            self._finish(region)

    def _finish(self, first: AnnotatedRegion) -> None:
        """Merges a region with regions before it, after processing these. A region that also comes after it, in a recursive function, is
        not merged."""
        stack = [first]
        begun: set[AnnotatedRegion] = set()
        while stack:
            region = stack[-1]
            if region in self._barred:
                stack.pop()
                continue
            direct, indirect = self._before(region)
            missing = [other for other in (*direct, *indirect) if other not in self._barred]
            if not missing or region in begun:
                stack.pop()
                self._merge(region, direct, [*indirect, *missing])
            else:
                begun.add(region)
                stack += reversed(missing)

    def _merge(self, region: AnnotatedRegion, direct: Sequence[AnnotatedRegion], indirect: Sequence[AnnotatedRegion]) -> None:
        members, barred = self._members, self._barred
        before = absorbed = 0
        for other in (*direct, *indirect):
            before |= barred.get(other, 0)
        for other in (*indirect, *(other for other in direct if other.target != region.target)):
            before |= members[other]
        for other in direct:
            if not before & members[other]:
                absorbed |= members[other]
                self._regions.merge_regions(other, region)
        barred[region] = before
        members[region] |= absorbed
        for other, earlier in barred.items():  # regions after an absorbed region now also come after the predecessors of the merged region
            if earlier & absorbed:
                barred[other] = earlier | before

    def _before(self, region: AnnotatedRegion) -> tuple[list[AnnotatedRegion], list[AnnotatedRegion]]:
        """The regions whose results a region reads directly, in the same scope, and the other regions before it. It reads these through
        expressions outside of regions, or from another function body or branch."""
        direct: dict[AnnotatedRegion, None] = {}
        indirect: dict[AnnotatedRegion, None] = {}
        outside: list[Expr] = [
            node.op for node in region.nodes if isinstance(node, Call) and isinstance(node.op, Function)
        ]  # function literals may read other regions
        for begin in region.args:
            read = begin.args[0]
            owner = self._regions.get_region(read)
            if owner is None:
                outside.append(read)
            elif is_end(read) and self._scopes.place(begin) is self._scopes.place(read.args[0]):
                direct[owner] = None
            else:
                indirect[owner] = None
        for node in post_order(*outside, into=lambda node: self._regions.get_region(node) is None, parts_of=self._parts):
            owner = self._regions.get_region(node)
            if owner is not None:
                indirect[owner] = None
        return list(direct), list(indirect)

    def _parts(self, node: Expr) -> Sequence[Expr]:
        """The parts of an expression; the value of a variable."""
        return (self._bound[node],) if node in self._bound else evaluation_parts(node)
