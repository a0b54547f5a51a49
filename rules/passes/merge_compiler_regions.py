"""MergeCompilerRegions: merges adjacent regions for one external compiler. A walk, since merging depends on all paths between regions."""

from collections.abc import Sequence
from dataclasses import dataclass

from passat.ir.annotated_regions import AnnotatedRegion, AnnotatedRegionSet, is_begin, is_end
from passat.ir.expr import Call, Expr, Function, Let, Match
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.scopes import Scopes
from passat.ir.traverse import evaluation_parts, pattern_vars, post_order, rewrite
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass


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
