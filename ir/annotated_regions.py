"""Regions of a program for external compilers: the expressions between `annotation.compiler_begin` and `annotation.compiler_end`."""

from collections.abc import Iterator
from typing import Final, TypeGuard

from passat.ir.counting import counted
from passat.ir.diagnostics import place_of
from passat.ir.excerpt import excerpt
from passat.ir.expr import Call, Constant, Expr, Function, GlobalVar, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem
from passat.ir.op import Op
from passat.ir.ops.annotation import compiler_begin, compiler_end
from passat.ir.passat_error import PassatError
from passat.ir.sealed import nodes_in
from passat.ir.traverse import evaluation_parts
from passat.ir.walks import preorder

_ANYWHERE: Final = (Constant, Function, GlobalVar, Op)
"""Kinds of operands that belong to the region of each expression that uses them."""
_MEMBERS: Final = (Call, Tuple, TupleGetItem, RefCreate, RefRead, RefWrite)
"""Kinds of expressions that can be in a region. Functions, branches and lets cannot, but expressions inside them can."""


class RegionError(PassatError, ValueError, RuntimeError):
    """The annotations do not describe valid regions."""


def is_begin(expr: Expr) -> TypeGuard[Call]:
    """Whether an expression begins a region."""
    return isinstance(expr, Call) and expr.op is compiler_begin


def is_end(expr: Expr) -> TypeGuard[Call]:
    """Whether an expression ends a region."""
    return isinstance(expr, Call) and expr.op is compiler_end


class AnnotatedRegion:
    """A region for one compiler, its `target`. `id` is the number of the region in its function."""

    __slots__ = ("_begin", "_end", "_into", "_parts", "id", "target")

    def __init__(self, number: int, target: str, begin: Op = compiler_begin, end: Op = compiler_end) -> None:
        self.id = number
        self.target = target
        self._begin, self._end = begin, end
        self._parts: list[Expr | AnnotatedRegion] = []
        """Expressions, and regions that were merged into this one, in the order in which they were added."""
        self._into: AnnotatedRegion | None = None

    @property
    def nodes(self) -> list[Expr]:
        """The expressions of the region, with the annotations at its edges."""
        parts = preorder(self._parts, lambda part: part._parts if isinstance(part, AnnotatedRegion) else ())
        return [part for part in parts if not isinstance(part, AnnotatedRegion)]

    @property
    def args(self) -> list[Call]:
        """The inputs: the calls that begin the region, except for those that read one of its own results."""
        calls = [node for node in self.nodes if isinstance(node, Call)]
        ends = {call for call in calls if call.op is self._end}
        return [call for call in calls if call.op is self._begin and call.args[0] not in ends]

    @property
    def rets(self) -> list[Call]:
        """The results: the calls that end the region, except for those that it begins with itself."""
        calls = [node for node in self.nodes if isinstance(node, Call)]
        read = {call.args[0] for call in calls if call.op is self._begin}
        return [call for call in calls if call.op is self._end and call not in read]

    def __repr__(self) -> str:
        return f"AnnotatedRegion({self.id}, {self.target!r}, {counted(len(self.nodes), 'node')})"


class AnnotatedRegionSet:
    """The regions of an expression. Each expression is in one region or in none.

    A call of `region_begin_op` opens a region. An expression that reads from an open region joins it. If it reads from several, they are
    merged and keep the number of the first. A call of `region_end_op` closes the region of its operand. Raises RegionError for an
    expression that reads from open regions for several compilers, for an operand outside of any region in an open region, and for an end
    outside a region of its compiler.
    """

    __slots__ = ("_end", "_owners", "_regions")

    def __init__(self, expr: Expr, region_begin_op: Op = compiler_begin, region_end_op: Op = compiler_end) -> None:
        self._end = region_end_op
        self._owners: dict[Expr, AnnotatedRegion] = {}
        self._regions: list[AnnotatedRegion] = []
        region: AnnotatedRegion | None
        for node in nodes_in(expr, evaluation_parts):
            if isinstance(node, Call) and node.op is region_begin_op:
                region = AnnotatedRegion(len(self._regions), node.attrs["compiler"], region_begin_op, region_end_op)
                self._regions.append(region)
            else:
                region = self._joined(node) if isinstance(node, _MEMBERS) else None
            if region is not None:
                region._parts.append(node)
                self._owners[node] = region

    def _joined(self, node: Expr) -> AnnotatedRegion | None:
        """The region that an expression joins by its operands."""
        found: AnnotatedRegion | None = None
        outside: Expr | None = None
        for part in evaluation_parts(node):
            region = None if isinstance(part, Call) and part.op is self._end else self.get_region(part)
            if region is None:
                outside = outside if isinstance(part, _ANYWHERE) else part
            elif found is None:
                found = region
            elif found.target != region.target:
                raise _error(node, f"regions for {found.target} and {region.target} meet here; end one of them with compiler_end")
            else:
                self.merge_regions(region, found)
        if isinstance(node, Call) and node.op is self._end and (found is None or found.target != node.attrs["compiler"]):
            there = "no region" if found is None else f"a region for {found.target}"
            raise _error(node, f"a region for {node.attrs['compiler']} ends here, but its operand is in {there}")
        if found is not None and outside is not None:
            raise _error(outside, f"this operand is outside of the region for {found.target} that uses it; wrap it in compiler_begin")
        return found

    def get_region(self, expr: Expr) -> AnnotatedRegion | None:
        """The region of an expression; None if it is in none."""
        region = self._owners.get(expr)
        if region is None or region._into is None:
            return region
        while region._into is not None:
            region._into = region._into._into or region._into  # halves the path
            region = region._into
        self._owners[expr] = region
        return region

    def merge_regions(self, src: AnnotatedRegion, dest: AnnotatedRegion) -> None:
        """Makes the expressions of one region part of another, which keeps its number."""
        if src is not dest:
            src._into = dest
            dest._parts.append(src)

    @property
    def regions(self) -> list[AnnotatedRegion]:
        """All regions, by number."""
        return [region for region in self._regions if region._into is None]

    def __len__(self) -> int:
        return len(self.regions)

    def __iter__(self) -> Iterator[AnnotatedRegion]:
        return iter(self.regions)


def _error(node: Expr, reason: str) -> RegionError:
    return RegionError(f"{place_of(node.span)}{reason}: {excerpt(node)[0]}")
