"""The pass HoistSelections: computes only those positions that the program selects.

Classifiers read one position of the last hidden state, generators the last one, and encoders of texts the end of each text: `x[:, 0]`,
`x[:, -1:]`, `x[arange(batch), end]`. What computes `x` from other tensors row by row, such as products with weights, normalizations and the
queries of attention, need not be computed for other rows. Of the last layer of a transformer, only keys and values remain whole.

A walk, not rules: whether a position suffices depends on all users of a tensor. Rules that select from operands instead would copy all
layers in the e-graph, for the sake of the last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from passat.ir.aligned_axes import Place, aligned_axes
from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Expr, Function, If, Let, Match
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.traverse import children, with_children
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass
from passat.rules.cost import cost_model, program_cost
from passat.rules.passes.hoist_strides import hoist_strides
from passat.rules.passes.selected_regions import RESHAPES, Region, completed, merged
from passat.rules.passes.selections import selection
from passat.rules.passes.simplify_shapes import in_each_function, own_nodes
from passat.rules.rule import EXACT
from passat.rules.rule_pass import read_opset

_SINCE: Final = 12
"""The first opset in which GatherND has batch dimensions."""


@register_pass("relay._transform.HoistSelections")
@dataclass(frozen=True)
class HoistSelections(FunctionPass):
    """Selects positions of an axis before the products, normalizations and other calls that compute them row by row, where the program
    reads no other positions of their results, and moves strides of 1x1 convolutions to the convolutions before them."""

    info = PassInfo(
        3, "HoistSelections", ["InferType"], provides=("types",), preserves=("types",), after=["SimplifyShapes"], before=["SlicesToSplit"]
    )

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Hoists the selections of one function, if that makes it cheaper: each tensor that a region reads is selected from. Skips all
        programs if `rules.math` is `exact`: products of fewer rows may accumulate in a different order."""
        if ctx.get_config("rules.math") == EXACT:
            return func
        of_each = selects_each(mod)
        while (made := hoist_selections(func, of_each=of_each)) is not func:  # again for selections along a second axis
            if not _is_cheaper(made, func, ctx):
                break
            func = made
        made = hoist_strides(func)
        return made if made is not func and _is_cheaper(made, func, ctx) else func


def _is_cheaper(made: Function, func: Function, ctx: PassContext) -> bool:
    model = cost_model(ctx.get_config("rules.cost"), ctx.get_config("rules.machine"))
    return program_cost(made, model) < program_cost(func, model)


class HoistSelectionsAgain(HoistSelections):
    """HoistSelections after the stage of algebra: of a tensor that was whole only for calls that have been merged, simplified or dropped
    since, fewer positions are read. Opaque nodes are read again before, as the condition of an ONNX `If` may be a constant since then."""

    info = PassInfo(
        3,
        "HoistSelections",
        ["InferType", "ReadOpaque"],
        provides=("types",),
        preserves=("types",),
        after=["CombineParallelBatchMatmul"],
    )


def selects_each(mod: IRModule) -> bool:
    """True if selections of one position of each entry of a batch can be written."""
    return (read_opset(mod) or _SINCE) >= _SINCE


def hoist_selections(function: Function, of_each: bool = True) -> Function:
    """The function with selections before what computes the selected tensor, if that includes a product, also in nested functions; itself
    if there are none. With `of_each`, also selections of one position for each entry of a batch."""
    return in_each_function(function, partial(_hoisted, of_each=of_each))


def _hoisted(function: Function, of_each: bool) -> Function:
    order = own_nodes(function.body)
    found = merged([selected for node in order if (selected := selection(node, of_each)) is not None])
    if not found or any(isinstance(node, (Let, If, Match)) for node in order):
        return function
    regions = completed(order, function.body, found)
    if not regions:
        return function
    body = _Rewriter(regions).run(order, function.body)
    return infer_type(function.with_body(body))


class _Rewriter:
    """Rewrites regions. A tensor outside of a region is selected from once for each place of the positions."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self._regions = {id(call): region for region in regions for call in (region.selection.call, *region.again)}
        self._results: dict[object, Expr] = {}
        self._inside = {key for region in regions for key in region.places}
        for region in regions:
            self._inside.update((id(region.selection.view), *region.unread))
        self._made: dict[int, Expr] = {}

    def run(self, order: Sequence[Expr], root: Expr) -> Expr:
        """The new expression for the root of these nodes, which are in topological order."""
        for node in order:
            region = self._regions.get(id(node))
            if region is not None:
                assert isinstance(node, Call)
                self._made[id(node)] = self._result(region, node)
            elif isinstance(node, Function):
                self._made[id(node)] = node
            elif id(node) not in self._inside:
                self._made[id(node)] = with_children(node, [self._made[id(part)] for part in children(node)])
        return self._made[id(root)]

    def _result(self, region: Region, call: Call) -> Expr:
        """What replaces one of the calls, once for equal ones."""
        key = (id(region), region.selection.parts.get(id(call)), call.checked_type)
        if id(region) not in self._results:
            self._results[id(region)] = self._selected(region)
        if key not in self._results:
            self._results[key] = region.selection.result(self._results[id(region)], call)
        return self._results[key]

    def _selected(self, region: Region) -> Expr:
        """The positions that the selection selects."""
        chosen = region.selection
        index, entries = chosen.vectors(self._made)
        found: dict[tuple[int, Place | int], Expr] = {}

        def positions(node: Expr, place: Place) -> Expr:
            key = (id(node), place)
            if key not in found:
                found[key] = chosen.select(node, place, self._made[id(node)], index, entries)
            return found[key]

        def whole(node: Expr, batch: int | None) -> Expr:
            if batch is None or entries is None:
                return self._made[id(node)]
            if (id(node), batch) not in found:
                found[id(node), batch] = chosen.select_entries(self._made[id(node)], batch, entries)
            return found[id(node), batch]

        for node in reversed(region.nodes):
            place = region.places.get(id(node))
            if place is None:
                continue
            operands, product = region.operands(node), region.products.get(id(node))
            batches = None if entries is None or product or place.batch is None else aligned_axes(node, place.batch)
            aligned = zip(operands, region.aligned[id(node)], batches or (None,) * len(operands), strict=True)
            parts = [whole(part, batch) if at is None else positions(part, at) for part, at, batch in aligned]
            found[id(node), place] = product.of_others(parts) if product else _rebuilt(node, parts, region.attrs.get(id(node)))
        return positions(chosen.whole, chosen.place)


def _rebuilt(node: Expr, parts: Sequence[Expr], attrs: Attrs | None) -> Expr:
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return with_children(node, parts)
    if node.op.name in RESHAPES:
        return Call(get_op("reshape"), parts[:1], attrs, span=node.span)
    return Call(node.op, parts, node.attrs if attrs is None else attrs, span=node.span)
