"""Regions of selections: the nodes that need to be computed for the selected positions of a tensor only. Among them are products of the
rows of a stack: Gemm between reshapes, as exporters write a linear layer on sequences."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from passat.ir.aligned_axes import Place, Places, aligned_places
from passat.ir.analysis import is_call_of
from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Constant, Expr
from passat.ir.op import Op, call_op, get_op
from passat.ir.ops.newshape import static_newshape
from passat.ir.ops.reshaping import squeezed_axes
from passat.ir.shape import same_dim, same_dims
from passat.ir.traverse import children
from passat.ir.types import TensorType, TupleType, tensor_type
from passat.rules.passes.selections import Selection, joined

RESHAPES: Final = ("reshape", "dyn.reshape")


@dataclass(frozen=True, eq=False)
class ProductOfRows:
    """A product with the rows of a stack as a matrix, maybe with a bias, whose result is reshaped to a stack."""

    stack: Expr
    matrix: Expr
    """The rows."""
    calls: tuple[Call, ...]
    """The product, and the addition of the bias."""

    @property
    def operands(self) -> Sequence[Expr]:
        """The stack, the weight, and the bias."""
        return (self.stack, *(call.args[1] for call in self.calls))

    def of_others(self, parts: Sequence[Expr]) -> Expr:
        """The same on other operands, of which the first one is a stack, without reshapes."""
        made = parts[0]
        for call, operand in zip(self.calls, parts[1:], strict=True):
            if call.op is get_op("nn.bias_add"):
                made = call_op("add", made, operand, span=call.span)
            elif call.op is get_op("nn.dense"):
                made = call_op("nn.matmul", made, call_op("transpose", operand, axes=(1, 0)), span=call.span)
            else:
                made = Call(call.op, (made, operand), call.attrs, span=call.span)
        return made


def product_of_rows(node: Expr, place: Place, users: Counter[int]) -> ProductOfRows | None:
    """The product behind a reshape to a stack of which rows are selected, if nothing else reads the product."""
    calls = _between_reshapes(node)
    if not calls or any(users[id(call)] > 1 for call in calls):
        return None
    product, matrix = calls[0], calls[0].args[0]
    assert isinstance(matrix, Call)
    stack = matrix.args[0]
    result, whole, rows, flat, weight = (tensor_type(part.checked_type) for part in (node, stack, matrix, product, product.args[1]))
    if not same_dims(result.shape[:-1], whole.shape[:-1]) or max(place.axis, place.batch or 0) == result.ndim - 1:
        return None
    is_dense = product.op is get_op("nn.dense")  # its weight is transposed
    if (not is_dense and product.attrs.transpose_a) or not rows.ndim == flat.ndim == weight.ndim == 2:
        return None
    width = weight.shape[1 if is_dense or product.attrs.transpose_b else 0]
    are_rows = isinstance(width, int) and width and same_dim(whole.shape[-1], width) and same_dim(result.shape[-1], flat.shape[1])
    if not are_rows or any(flat.axis(call.attrs.axis) != 1 for call in calls[1:]):
        return None
    return ProductOfRows(stack, matrix, calls)


def _between_reshapes(node: Expr) -> tuple[Call, ...]:
    """The calls between two reshapes, the later of which is given: a product, and a bias that is added to it; none for other nodes."""
    if not is_call_of(node, *RESHAPES):
        return ()
    last = node.args[0]
    calls: tuple[Call, ...] = ()
    if is_call_of(last, "nn.bias_add"):
        calls, last = (last,), last.args[0]
    return (last, *calls) if is_call_of(last, "nn.matmul", "nn.dense") and is_call_of(last.args[0], *RESHAPES) else ()


_PRODUCTS: Final = ("nn.matmul", "nn.dense")


@dataclass
class Region:
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
    asked: dict[int, Place] = field(default_factory=dict)
    """Where the positions would be in each node that was examined, by identity: the nodes of the region, and those at its border."""

    def operands(self, node: Expr) -> Sequence[Expr]:
        """Those of a node, and of the product behind a reshape."""
        product = self.products.get(id(node))
        return product.operands if product is not None else _operands(node)


def merged(selections: Sequence[Selection]) -> list[Region]:
    """One region for each group of equal selections, which no pass may have merged yet, or of selections at constant positions."""
    found: dict[object, list[Selection]] = {}
    for selected in selections:
        fixed = selected.constants is not None
        parts = () if fixed else tuple(part.data.key() if isinstance(part, Constant) else id(part) for part in selected.call.args)
        key = (id(selected.whole), selected.place, fixed or (selected.call.op, parts, selected.call.attrs))
        found.setdefault(key, []).append(selected)
    regions: list[Region] = []
    for group in found.values():
        first, *others = group
        if any(selected.constants != first.constants for selected in others):
            chosen = joined(group)
            if chosen is None:
                continue
            first = chosen
        regions.append(Region(first, [selected.call for selected in others]))
    return regions


def completed(order: Sequence[Expr], root: Expr, regions: Sequence[Region]) -> list[Region]:
    """The regions with a product, which are completed. A node belongs to a region if all its users do, and if each of its positions depends
    on the same one of its operands."""
    place = {id(node): i for i, node in enumerate(order)}
    users = Counter(id(part) for node in order for part in children(node))
    users[id(root)] += 1
    claimed: set[int] = set()
    found: list[Region] = []
    for region in regions:
        whole, readers = region.selection.whole, 1 + len(region.again)
        view = region.selection.view
        if view is not None:
            if users[id(view)] > readers:
                continue
            readers = 1
        asked, answered = region.asked, Counter({id(whole): readers})
        asked[id(whole)] = region.selection.place
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
            has_product |= product is not None or is_call_of(node, *_PRODUCTS)
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


def _is_possible(node: Expr, axis: int, aligned: Places, region: Region) -> bool:
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
