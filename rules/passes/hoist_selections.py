"""The pass HoistSelections: computes only those positions that the program selects.

Classifiers read one position of the last hidden state, and generators the last one: `x[:, 0]`, `x[:, -1:]`. What computes `x` from other
tensors row by row, such as products with weights, normalizations and the queries of attention, need not be computed for other rows. Of the
last layer of a transformer, only keys and values remain whole.

A walk, not rules: whether a position suffices depends on all users of a tensor. Rules that select from operands instead would copy all
layers in the e-graph, for the sake of the last one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from passat.ir.aligned_axes import Aligned, aligned_axes
from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Constant, Expr, Function, If, Let, Match
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.ops.newshape import static_newshape
from passat.ir.ops.reshaping import squeezed_axes
from passat.ir.ops.slicing import slice_parts
from passat.ir.shape import Dim
from passat.ir.tensor import Tensor
from passat.ir.traverse import children, with_children
from passat.ir.types import TensorType, TupleType
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass
from passat.rules.cost import cost_model, program_cost
from passat.rules.passes.simplify_shapes import in_each_function, own_nodes
from passat.rules.rule import EXACT

_PRODUCTS: Final = ("nn.matmul", "nn.dense")
_RESHAPES: Final = ("reshape", "dyn.reshape")


@register_pass("relay._transform.HoistSelections")
@dataclass(frozen=True)
class HoistSelections(FunctionPass):
    """Selects positions of an axis before the products, normalizations and other calls that compute them row by row, where the program
    reads no other positions of their results."""

    info = PassInfo(3, "HoistSelections", ["InferType"], provides=("types",), preserves=("types",), after=["SimplifyShapes"])

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Hoists the selections of one function, if that makes it cheaper: each tensor that a region reads is selected from. Skips all
        programs if `rules.math` is `exact`: products of fewer rows may accumulate in a different order."""
        if ctx.get_config("rules.math") == EXACT:
            return func
        made = hoist_selections(func)
        if made is func:
            return func
        model = cost_model(ctx.get_config("rules.cost"), ctx.get_config("rules.machine"))
        return made if program_cost(made, model) < program_cost(func, model) else func


def hoist_selections(function: Function) -> Function:
    """The function with selections before what computes the selected tensor, if that includes a product, also in nested functions; itself
    if there are none."""
    return in_each_function(function, _hoisted)


def _hoisted(function: Function) -> Function:
    order = own_nodes(function.body)
    found = _merged([selection for node in order if (selection := _selection(node)) is not None])
    if not found or any(isinstance(node, (Let, If, Match)) for node in order):
        return function
    regions = _regions(order, function.body, found)
    if not regions:
        return function
    body = _Rewriter(regions).run(order, function.body)
    return infer_type(Function(function.params, body, function.ret_type, function.type_params, function.attrs, function.span))


@dataclass
class _Region:
    """A selection of positions along an axis of a tensor, and the nodes that are computed for these positions only."""

    selection: Call
    axis: int
    size: Dim
    """The number of positions."""
    again: list[Call] = field(default_factory=list)
    """Equal selections."""
    nodes: list[Expr] = field(default_factory=list)
    """The nodes, users first."""
    axes: dict[int, int] = field(default_factory=dict)
    """The axis of the positions in each node, by identity."""
    aligned: dict[int, Aligned] = field(default_factory=dict)
    """Those in the operands of each node, by identity."""
    attrs: dict[int, Attrs] = field(default_factory=dict)
    """The new attributes of reshapes and squeezes, by identity."""

    def select(self, whole: Expr, axis: int, index: Sequence[Expr]) -> Expr:
        """The positions along an axis of another tensor, which keeps the axis. A gather has an index."""
        op, attrs = self.selection.op, self.selection.attrs
        if index:
            return Call(op, (whole, *index), Attrs(attrs, axis=axis), span=self.selection.span)
        cut = slice_parts(_rank(self.selection.args[0]), attrs.begin, attrs.end, attrs.strides, attrs.axes)
        begin, end, stride = cut[self.axis]
        return Call(op, (whole,), Attrs(begin=(begin,), end=(end,), strides=(stride,), axes=(axis,)), span=self.selection.span)

    def result(self, selected: Expr) -> Expr:
        """The result of the selection, from the selected positions."""
        if _rank(self.selection) == _rank(self.selection.args[0]):
            return selected
        squeeze = get_op("squeeze")
        return Call(squeeze, (selected,), squeeze.bind_attrs({"axis": (self.axis,)}), span=self.selection.span)


def _rank(expr: Expr) -> int:
    type_ = expr.checked_type
    return type_.ndim if isinstance(type_, TensorType) else 0


def _vector(index: Expr) -> Expr:
    """A scalar index as a vector of one; a vector unchanged."""
    if _rank(index):
        return index
    if isinstance(index, Constant):
        return Constant(Tensor.dense(index.data.numpy().reshape(1)), index.span)
    expand = get_op("expand_dims")
    return Call(expand, (index,), expand.bind_attrs({"axis": 0}))


def _selection(node: Expr) -> _Region | None:
    """The region, still empty, of a call that selects at most half of the positions of an axis; None for other calls."""
    if not isinstance(node, Call) or node.op not in (get_op("take"), get_op("strided_slice")):
        return None
    data, result = node.args[0].checked_type, node.checked_type
    assert isinstance(data, TensorType)
    assert isinstance(result, TensorType)
    found = _gathered(node, data) if node.op is get_op("take") else _sliced(node.attrs, data, result)
    if found is None:
        return None
    axis, count = found
    size = data.shape[axis]
    if isinstance(count, int) and not 1 <= count <= (size // 2 if isinstance(size, int) else 1):
        return None
    return _Region(node, axis, count)


def _merged(regions: Sequence[_Region]) -> list[_Region]:
    """One region for each group of equal selections, which no pass may have merged yet."""
    found: dict[object, _Region] = {}
    for region in regions:
        call = region.selection
        parts = tuple(part.data.key() if isinstance(part, Constant) else id(part) for part in call.args)
        first = found.setdefault((call.op, parts, call.attrs), region)
        if first is not region:
            first.again.append(call)
    return list(found.values())


def _gathered(call: Call, data: TensorType) -> tuple[int, Dim] | None:
    """The axis of a gather, and the number of positions; None unless the index is a scalar or a vector of known size."""
    index = call.args[1].checked_type
    if call.attrs.axis is None or not isinstance(index, TensorType) or index.ndim > 1 or not index.is_static:
        return None
    return data.axis(call.attrs.axis), index.shape[0] if index.ndim else 1


def _sliced(attrs: Attrs, data: TensorType, result: TensorType) -> tuple[int, Dim] | None:
    """The axis of a slice, and the number of positions; None for several axes. If the number is not known, it is at most 1."""
    cut = slice_parts(data.ndim, attrs.begin, attrs.end, attrs.strides, attrs.axes)
    if len(cut) != 1:
        return None
    axis, (begin, end, stride) = next(iter(cut.items()))
    count = result.shape[axis]
    return (axis, count) if isinstance(count, int) or (stride > 0 and (end == begin + 1 or begin == -1)) else None


def _regions(order: Sequence[Expr], root: Expr, selections: Sequence[_Region]) -> list[_Region]:
    """The selections with a product in their regions, which are completed. A node belongs to the region if all its users do, and if each
    of its positions depends on the same one of its operands."""
    place = {id(node): i for i, node in enumerate(order)}
    users = Counter(id(part) for node in order for part in children(node))
    users[id(root)] += 1
    claimed: set[int] = set()
    found: list[_Region] = []
    for region in selections:
        whole = region.selection.args[0]
        asked, answered = {id(whole): region.axis}, Counter({id(whole): 1 + len(region.again)})
        heap, has_product = [-place[id(whole)]], False
        while heap:
            node = order[-heappop(heap)]
            key = id(node)
            if answered[key] < users[key] or key in claimed or (aligned := aligned_axes(node, asked[key])) is None:
                continue
            if not _is_possible(node, asked[key], aligned, region):
                continue
            region.nodes.append(node)
            region.axes[key], region.aligned[key] = asked[key], aligned
            has_product |= isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in _PRODUCTS
            for part, axis in zip(_operands(node), aligned, strict=True):
                if axis is None:
                    continue
                if id(part) not in asked:
                    asked[id(part)] = axis
                    heappush(heap, -place[id(part)])
                answered[id(part)] += asked[id(part)] == axis
        for node in region.nodes:  # a tuple that is whole has no positions to select
            parts = [part for part, at in zip(_operands(node), region.aligned[id(node)], strict=True) if at is not None]
            if any(isinstance(part.checked_type, TupleType) and id(part) not in region.axes for part in parts):
                del region.axes[id(node)]
        if has_product:
            found.append(region)
            claimed.update((id(region.selection), *map(id, region.again), *region.axes))
    return found


def _operands(node: Expr) -> Sequence[Expr]:
    return node.args if isinstance(node, Call) else children(node)


def _is_possible(node: Expr, axis: int, aligned: Aligned, region: _Region) -> bool:
    """True if the node can be computed for the selected positions only. Records its new attributes, if it needs any."""
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return True
    data, result = node.args[0].checked_type, node.checked_type
    if node.op.name in _RESHAPES:
        assert isinstance(data, TensorType)
        assert isinstance(result, TensorType)
        assert aligned[0] is not None
        source, target = ((*type_.shape[:at], region.size, *type_.shape[at + 1 :]) for type_, at in ((data, aligned[0]), (result, axis)))
        attrs = static_newshape(source, target)
        if attrs is None:
            return False
        region.attrs[id(node)] = get_op("reshape").bind_attrs(attrs)
    elif node.op.name == "squeeze":
        assert isinstance(data, TensorType)
        region.attrs[id(node)] = node.op.bind_attrs({"axis": tuple(squeezed_axes(data.shape, node.attrs.axis))})
    return True


class _Rewriter:
    """Rewrites regions. A tensor outside of a region is selected from once for each axis."""

    def __init__(self, regions: Sequence[_Region]) -> None:
        self._regions = {id(region.selection): region for region in regions}
        self._again = {id(call): region.selection for region in regions for call in region.again}
        self._inside = {key for region in regions for key in region.axes}
        self._made: dict[int, Expr] = {}

    def run(self, order: Sequence[Expr], root: Expr) -> Expr:
        """The new expression for the root of these nodes, which are in topological order."""
        for node in order:
            region = self._regions.get(id(node))
            if region is not None:
                self._made[id(node)] = region.result(self._selected(region))
            elif id(node) in self._again:
                self._made[id(node)] = self._made[id(self._again[id(node)])]
            elif isinstance(node, Function):
                self._made[id(node)] = node
            elif id(node) not in self._inside:
                self._made[id(node)] = with_children(node, [self._made[id(part)] for part in children(node)])
        return self._made[id(root)]

    def _selected(self, region: _Region) -> Expr:
        """The positions that the selection selects."""
        index = [_vector(self._made[id(part)]) for part in region.selection.args[1:]]
        found: dict[tuple[int, int], Expr] = {}

        def positions(node: Expr, axis: int) -> Expr:
            key = (id(node), axis)
            if key not in found:
                found[key] = region.select(self._made[id(node)], axis, index)
            return found[key]

        for node in reversed(region.nodes):
            axis = region.axes.get(id(node))
            if axis is None:
                continue
            aligned = zip(_operands(node), region.aligned[id(node)], strict=True)
            parts = [self._made[id(part)] if at is None else positions(part, at) for part, at in aligned]
            found[id(node), axis] = _rebuilt(node, parts, region.attrs.get(id(node)))
        return positions(region.selection.args[0], region.axis)


def _rebuilt(node: Expr, parts: Sequence[Expr], attrs: Attrs | None) -> Expr:
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return with_children(node, parts)
    if node.op.name in _RESHAPES:
        return Call(get_op("reshape"), parts[:1], attrs, span=node.span)
    return Call(node.op, parts, node.attrs if attrs is None else attrs, span=node.span)
