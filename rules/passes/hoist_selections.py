"""The pass HoistSelections: computes only those positions that the program selects.

Classifiers read one position of the last hidden state, generators the last one, and encoders of texts the end of each text: `x[:, 0]`,
`x[:, -1:]`, `x[arange(batch), end]`. What computes `x` from other tensors row by row, such as products with weights, normalizations and the
queries of attention, need not be computed for other rows. Of the last layer of a transformer, only keys and values remain whole.

A walk, not rules: whether a position suffices depends on all users of a tensor. Rules that select from operands instead would copy all
layers in the e-graph, for the sake of the last one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from typing import Final

from passat.ir.aligned_axes import Place, Places, aligned_axes, aligned_places
from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Constant, Expr, Function, If, Let, Match
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.ops.newshape import static_newshape
from passat.ir.ops.reshaping import squeezed_axes
from passat.ir.traverse import children, with_children
from passat.ir.types import TensorType, TupleType, tensor_type
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass
from passat.rules.cost import cost_model, program_cost
from passat.rules.passes.product_of_rows import RESHAPES, ProductOfRows, product_of_rows
from passat.rules.passes.selections import Selection, joined, selection
from passat.rules.passes.simplify_shapes import in_each_function, own_nodes
from passat.rules.rule import EXACT

_PRODUCTS: Final = ("nn.matmul", "nn.dense")
_SINCE: Final = 12
"""The first opset in which GatherND has batch dimensions."""


@register_pass("relay._transform.HoistSelections")
@dataclass(frozen=True)
class HoistSelections(FunctionPass):
    """Selects positions of an axis before the products, normalizations and other calls that compute them row by row, where the program
    reads no other positions of their results."""

    info = PassInfo(
        3, "HoistSelections", ["InferType"], provides=("types",), preserves=("types",), after=["SimplifyShapes"], before=["SlicesToSplit"]
    )

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Hoists the selections of one function, if that makes it cheaper: each tensor that a region reads is selected from. Skips all
        programs if `rules.math` is `exact`: products of fewer rows may accumulate in a different order."""
        if ctx.get_config("rules.math") == EXACT:
            return func
        frame = mod.attrs.get("onnx")
        of_each = frame is None or frame.version >= _SINCE
        while (made := hoist_selections(func, of_each=of_each)) is not func:  # again for selections along a second axis
            model = cost_model(ctx.get_config("rules.cost"), ctx.get_config("rules.machine"))
            if not program_cost(made, model) < program_cost(func, model):
                break
            func = made
        return func


class HoistSelectionsAgain(HoistSelections):
    """HoistSelections after the stage of algebra: of a tensor that was whole only for calls that have been merged, simplified or dropped
    since, fewer positions are read."""

    info = PassInfo(3, "HoistSelections", ["InferType"], provides=("types",), preserves=("types",), after=["CombineParallelBatchMatmul"])


def hoist_selections(function: Function, of_each: bool = True) -> Function:
    """The function with selections before what computes the selected tensor, if that includes a product, also in nested functions; itself
    if there are none. With `of_each`, also selections of one position for each entry of a batch."""
    return in_each_function(function, partial(_hoisted, of_each=of_each))


def _hoisted(function: Function, of_each: bool) -> Function:
    order = own_nodes(function.body)
    found = _merged([selected for node in order if (selected := selection(node, of_each)) is not None])
    if not found or any(isinstance(node, (Let, If, Match)) for node in order):
        return function
    regions = _regions(order, function.body, found)
    if not regions:
        return function
    body = _Rewriter(regions).run(order, function.body)
    return infer_type(Function(function.params, body, function.ret_type, function.type_params, function.attrs, function.span))


@dataclass
class _Region:
    """A selection, and the nodes that are computed for its positions only."""

    selection: Selection
    again: list[Call] = field(default_factory=list)
    """Other calls with these positions, or some of them."""
    nodes: list[Expr] = field(default_factory=list)
    """The nodes, users first."""
    places: dict[int, Place] = field(default_factory=dict)
    """Where the positions are in each node, by identity."""
    aligned: dict[int, Places] = field(default_factory=dict)
    """Where they are in the operands of each node, by identity."""
    attrs: dict[int, Attrs] = field(default_factory=dict)
    """The new attributes of reshapes, broadcasts and squeezes, by identity."""
    products: dict[int, ProductOfRows] = field(default_factory=dict)
    """The products behind reshapes to stacks, by identity of the reshape."""
    unread: set[int] = field(default_factory=set)
    """Nodes that nothing reads any more, by identity."""

    def operands(self, node: Expr) -> Sequence[Expr]:
        """Those of a node, and of the product behind a reshape."""
        product = self.products.get(id(node))
        return product.operands if product is not None else _operands(node)


def _merged(selections: Sequence[Selection]) -> list[_Region]:
    """One region for each group of equal selections, which no pass may have merged yet, or of selections at constant positions."""
    found: dict[object, list[Selection]] = {}
    for selected in selections:
        fixed = selected.constants is not None
        parts = () if fixed else tuple(part.data.key() if isinstance(part, Constant) else id(part) for part in selected.call.args)
        key = (id(selected.whole), selected.place, fixed or (selected.call.op, parts, selected.call.attrs))
        found.setdefault(key, []).append(selected)
    regions: list[_Region] = []
    for group in found.values():
        first, *others = group
        if any(selected.constants != first.constants for selected in others):
            chosen = joined(group)
            if chosen is None:
                continue
            first = chosen
        regions.append(_Region(first, [selected.call for selected in others]))
    return regions


def _regions(order: Sequence[Expr], root: Expr, regions: Sequence[_Region]) -> list[_Region]:
    """The regions with a product, which are completed. A node belongs to a region if all its users do, and if each of its positions depends
    on the same one of its operands."""
    place = {id(node): i for i, node in enumerate(order)}
    users = Counter(id(part) for node in order for part in children(node))
    users[id(root)] += 1
    claimed: set[int] = set()
    found: list[_Region] = []
    for region in regions:
        whole, readers = region.selection.whole, 1 + len(region.again)
        view = region.selection.view
        if view is not None:
            if users[id(view)] > readers:
                continue
            readers = 1
        asked, answered = {id(whole): region.selection.place}, Counter({id(whole): readers})
        heap, has_product = [-place[id(whole)]], False
        while heap:
            node = order[-heappop(heap)]
            key = id(node)
            if answered[key] < users[key] or key in claimed:
                continue
            product = product_of_rows(node, asked[key], users)
            aligned = aligned_places(node, asked[key]) if product is None else (asked[key], *(None for _ in product.calls))
            if aligned is None or (product is None and not _is_possible(node, asked[key].axis, aligned, region)):
                continue
            region.nodes.append(node)
            region.places[key], region.aligned[key] = asked[key], aligned
            has_product |= product is not None or (isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in _PRODUCTS)
            if product is not None:
                region.products[key] = product
                region.unread.update(map(id, product.calls))
            for part, at in zip(region.operands(node), aligned, strict=True):
                if at is None or at.shared:
                    continue
                if id(part) not in asked:
                    asked[id(part)] = at
                    heappush(heap, -place[id(part)])
                if asked[id(part)] != at:
                    continue
                if product is not None:
                    answered[id(product.matrix)] += 1
                    if answered[id(product.matrix)] < users[id(product.matrix)]:
                        continue
                    region.unread.add(id(product.matrix))
                answered[id(part)] += 1
        for node in region.nodes:  # a tuple that is whole has no positions to select
            parts = [part for part, at in zip(region.operands(node), region.aligned[id(node)], strict=True) if at is not None]
            if any(isinstance(part.checked_type, TupleType) and id(part) not in region.places for part in parts):
                del region.places[id(node)]
        if has_product:
            found.append(region)
            claimed.update((id(region.selection.call), *map(id, region.again), *region.places))
    return found


def _operands(node: Expr) -> Sequence[Expr]:
    return node.args if isinstance(node, Call) else children(node)


def _is_possible(node: Expr, axis: int, aligned: Places, region: _Region) -> bool:
    """True if the node can be computed for the selected positions only. Records its new attributes, if it needs any."""
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return True
    data, result = node.args[0].checked_type, node.checked_type
    if node.op.name in RESHAPES:
        assert isinstance(data, TensorType)
        assert isinstance(result, TensorType)
        assert aligned[0] is not None
        places = ((data, aligned[0].axis), (result, axis))
        source, target = ((*type_.shape[:at], region.selection.size, *type_.shape[at + 1 :]) for type_, at in places)
        attrs = static_newshape(source, target)
        if attrs is None:
            return False
        region.attrs[id(node)] = get_op("reshape").bind_attrs(attrs)
    elif node.op.name == "broadcast_to":
        entries = list(node.attrs.shape)
        at = axis - tensor_type(result).ndim + len(entries)
        if at >= 0:
            entries[at] = 1 if aligned[0] is not None else region.selection.size
        if any(not isinstance(entry, int) for entry in entries):
            return False
        region.attrs[id(node)] = node.op.bind_attrs({"shape": tuple(entries)})
    elif node.op.name == "squeeze":
        assert isinstance(data, TensorType)
        region.attrs[id(node)] = node.op.bind_attrs({"axis": tuple(squeezed_axes(data.shape, node.attrs.axis))})
    return True


class _Rewriter:
    """Rewrites regions. A tensor outside of a region is selected from once for each place of the positions."""

    def __init__(self, regions: Sequence[_Region]) -> None:
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

    def _result(self, region: _Region, call: Call) -> Expr:
        """What replaces one of the calls, once for equal ones."""
        key = (id(region), region.selection.parts.get(id(call)), call.checked_type)
        if id(region) not in self._results:
            self._results[id(region)] = self._selected(region)
        if key not in self._results:
            self._results[key] = region.selection.result(self._results[id(region)], call)
        return self._results[key]

    def _selected(self, region: _Region) -> Expr:
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
