"""MergeCompilerRegions: adjacent regions for one external compiler become one. Which ones may depends on all paths, so this is a walk."""

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
    """Merges each region for an external compiler with those that it reads results of, if they are for the same compiler and no other path
    between them leaves the merged region. Removes the annotations between them.

    Regions are what lies between `annotation.compiler_begin` and `annotation.compiler_end` (`passat.ir.annotated_regions`).
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
        regions = AnnotatedRegionSet(infer_type(func))
        before = len(regions)
        _Merger(func, regions).run()
        if len(regions) == before:
            return func
        ctx.record(self.info.name, "merged", before - len(regions))
        made = rewrite(func, lambda old, new: _without_annotation(regions, old, new))
        assert isinstance(made, Function)  # the result for a function
        infer_type(made)
        return made


def _without_annotation(regions: AnnotatedRegionSet, old: Expr, new: Expr) -> Expr:
    """The expression; for a begin of a region that reads a result of the same region, what is before both annotations."""
    if is_begin(old) and is_end(old.args[0]) and is_begin(new) and regions.get_region(old) is regions.get_region(old.args[0]):
        end = new.args[0]
        return end.args[0] if is_end(end) else end
    return new


class _Merger:
    """Merges regions, those that a region reads before the region itself.

    Sets of regions are integers with one bit for each region. `_barred` are the regions from which a path leads to a region, except for
    those that are part of it: a merged region must not be before itself.
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
        """Merges all regions that can be."""
        for region in self._regions.regions:
            self._finish(region)

    def _finish(self, first: AnnotatedRegion) -> None:
        """Merges a region with regions before it, after these. A region that is also behind it, in a recursive function, is not merged."""
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
        for other, earlier in barred.items():  # what is behind an absorbed region is now behind all that the merged one is behind
            if earlier & absorbed:
                barred[other] = earlier | before

    def _before(self, region: AnnotatedRegion) -> tuple[list[AnnotatedRegion], list[AnnotatedRegion]]:
        """The regions whose results a region reads in the same scope, and those before it otherwise: through expressions that are in no
        region, or from another function body or branch."""
        direct: dict[AnnotatedRegion, None] = {}
        indirect: dict[AnnotatedRegion, None] = {}
        outside: list[Expr] = [
            node.op for node in region.nodes if isinstance(node, Call) and isinstance(node.op, Function)
        ]  # which may read others
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
