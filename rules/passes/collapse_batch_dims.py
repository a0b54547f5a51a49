"""The pass CollapseBatchDims: collapses the batch dimensions of whole regions.

A batched product with a bias takes two nodes; a matrix product takes one, ONNX Runtime's Gemm. The gain of a region depends on
all of it. An input is reshaped once for all products that read it. If batch and sequence are both unknown, restoring the shape needs a
vector of sizes, expensive for one product but negligible for a network.

A walk, not rules: rules that put each row-wise call on matrices beside the one on a stack took 0.27 of the time of an optimization, and
found less (65 exports of hidden 256). Certificates prove each result by such rules (`passat.rules.provenance.stacked_rows`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

import numpy as np

from passat.ir.analysis import is_call_of
from passat.ir.dtypes import FLOATS
from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, call_op
from passat.ir.ops.newshape import static_newshape
from passat.ir.shape import ANY, Any, Shape, product, same_dim, static_size
from passat.ir.tensor import Tensor
from passat.ir.traverse import children, with_children
from passat.ir.types import TensorType, Type, tensor_type
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass
from passat.rules.cost import results_of
from passat.rules.passes.simplify_shapes import in_each_function, own_nodes, shape_reads_parts, simplify_shapes
from passat.rules.rule import EXACT

_NORMS: Final = ("nn.layer_norm", "nn.rms_norm")
_REDUCTIONS: Final = ("sum", "mean", "max", "min")


@register_pass("relay._transform.CollapseBatchDims")
@dataclass(frozen=True)
class CollapseBatchDims(FunctionPass):
    """Collapses batched operands to matrices where products absorb more biases than reshapes are added."""

    info = PassInfo(3, "CollapseBatchDims", ["InferType"], provides=("types",), preserves=("types",), after=["HoistSelections"])

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Collapses the regions of one function; in programs read from an opset before 15, only those whose shapes need not be computed.
        Skips all programs if `rules.math` is `exact`: products of another shape may accumulate in a different order."""
        if ctx.get_config("rules.math") == EXACT:
            return func
        return collapse_batch_dims(func, computed=shape_reads_parts(mod))


def collapse_batch_dims(function: Function, *, computed: bool = True) -> Function:
    """The function with collapsed regions, also in nested functions, where this takes fewer calls; itself if there are none. Shapes with
    more than one unknown size can be restored only if they may be `computed`."""
    return in_each_function(function, lambda each: _collapsed(each, computed=computed))


def _collapsed(function: Function, *, computed: bool) -> Function:
    """The function with collapsed regions, apart from nested functions. A collapsed region may be the input of another, which then saves a
    reshape, too."""
    order = own_nodes(function.body)
    while regions := _regions(order, function, computed=computed):
        body = _Rewriter(regions).run(order, function.body)
        function = simplify_shapes(infer_type(function.with_body(body)), reads_parts=computed)
        order = own_nodes(function.body)
    return function


def matrix_shape(stack: Shape) -> tuple[int, int]:
    """The newshape that collapses a stack of rows of known size to a matrix."""
    count, columns = product(stack[:-1]), stack[-1]
    assert isinstance(columns, int)
    return count if isinstance(count, int) else -1, columns


def leading_sizes(type_: Type | None) -> Shape | None:
    """The leading sizes of a stack of nonempty rows of known size; None for anything else, and if a size is unknown."""
    if not isinstance(type_, TensorType) or type_.ndim < 3 or any(isinstance(size, Any) or size == 0 for size in type_.shape):
        return None
    return type_.shape[:-1] if isinstance(type_.shape[-1], int) else None


def _is_view(expr: Expr) -> bool:
    """True for a reshape, and for inserted and removed axes, which a Reshape takes as well unless it would have to compute the shape."""
    return is_call_of(expr, "reshape", "dyn.reshape") or (
        is_call_of(expr, "expand_dims", "squeeze") and _newshape(_shape(expr)) is not None
    )


def _shape(expr: Expr) -> Shape:
    type_ = expr._checked_type
    return type_.shape if isinstance(type_, TensorType) else ()


def _stacks(call: Expr) -> tuple[Expr, ...]:
    """The batched operands that a call processes row by row, so that it works on matrices as well; empty for other calls. Splits of rows
    and their parts count as well."""
    if isinstance(call, TupleGetItem):
        return (call.tuple_value,) if is_call_of(call.tuple_value, "split") and _stacks(call.tuple_value) else ()
    if not isinstance(call, Call) or not isinstance(call.op, Op):
        return ()
    if call.op.name == "split":
        whole = leading_sizes(call.args[0]._checked_type)
        return call.args if whole is not None and call.attrs.axis % (len(whole) + 1) == len(whole) else ()
    if (leading := leading_sizes(call._checked_type)) is None:
        return ()
    name, rank = call.op.name, len(leading) + 1
    first = call.args[:1] if call.args and leading_sizes(call.args[0]._checked_type) == leading else ()
    if name == "nn.matmul":
        plain = not call.attrs.transpose_a and not call.attrs.transpose_b
        return first if plain and len(_shape(call.args[1])) == 2 else ()
    if name in _NORMS:
        return first if call.attrs.axis % rank == rank - 1 else ()
    if name in _REDUCTIONS:
        axes = (call.attrs.axis,) if isinstance(call.attrs.axis, int) else call.attrs.axis or ()
        return first if call.attrs.keepdims and not call.attrs.exclude and [axis % rank for axis in axes] == [rank - 1] else ()
    if call.op.elementwise and call.op.arity == 1:
        return first
    if call.op.elementwise and call.op.arity == 2:
        found = tuple([arg for arg in call.args if leading_sizes(arg._checked_type) == leading])
        others = [_shape(arg) for arg in call.args if leading_sizes(arg._checked_type) != leading]
        tensors = all(isinstance(arg._checked_type, TensorType) for arg in call.args)
        return found if tensors and all(len(shape) < 3 and all(size == 1 for size in shape[:-1]) for shape in others) else ()
    return ()


_BIAS: Final = 1.01
"""The worth of a bias in reshapes."""
_LARGE_BIAS: Final = -1
"""That of a bias of a large result: ONNX Runtime's Gemm copies the bias to the result and adds the product there, which takes longer than a
sum afterwards. A product of 192 columns with its bias takes 0.96 of the time on 32 to 1,024 rows and 1.06 to 1.21 on 4,096 to 8,192; one of
768 columns 0.99 and 1.02 to 1.06 (one thread)."""
_LARGE: Final = 1 << 20
"""Large results have more elements. Unknown sizes count as 64, as for costs. 256 columns of two unknown sizes are at the limit: on
matrices, a BERT and a Whisper of hidden 256 take 0.95 to 0.99 of the time on 128 to 1,024 rows, and about as long on 16 and 4,096."""


@dataclass
class _Region:
    """Connected calls on tensors with the same leading sizes, the inputs of the region, and the readers of each value."""

    leading: Shape
    users: dict[int, list[Expr]]
    stacks: dict[int, tuple[Expr, ...]]
    """The batched operands of each row-wise call of the program (`_stacks`)."""
    calls: dict[int, Expr] = field(default_factory=dict)
    entries: dict[int, Expr] = field(default_factory=dict)

    def saving(self, root: Expr, *, computed: bool) -> float:
        """The number of calls that matrices save: biases that products absorb, less reshapes. Residual sums save nothing: in a Gemm they
        take as long as after it."""
        return sum(map(self._worth, self.calls.values())) + self._views(root, computed=computed) if self.calls else 0

    def _worth(self, call: Expr) -> float:
        """The worth of a call in reshapes: that of its bias, if it adds one."""
        return (_LARGE_BIAS if static_size(_shape(call)) > _LARGE else _BIAS) if self.is_biased(call) else 0

    def _views(self, root: Expr, *, computed: bool) -> float:
        """The number of reshapes saved by working on matrices; minus infinity if shapes have to be computed and cannot be."""
        gain = 0
        for entry in self.entries.values():
            free = all(id(user) in self.calls for user in self.users[id(entry)])
            gain += (self.is_flat(entry.args[0]) + free - 1) if isinstance(entry, Call) and _is_view(entry) else -1
        vectors: set[Shape] = set()
        for call in self.calls.values():
            outside = [user for user in self.users[id(call)] if id(user) not in self.calls]
            views = [user for user in outside if _is_view(user)]
            gain += sum(self.is_flat(view) for view in views)
            shapes = {_shape(view) for view in views}
            if len(views) < len(outside) or call is root:
                gain -= 1
                shapes.add(_shape(call))
            vectors.update(shape for shape in shapes if _newshape(shape) is None)
        if vectors and (not computed or any(not isinstance(size, int) and size not in self.leading for shape in vectors for size in shape)):
            return -inf  # a size that no input of the region has
        return gain - len(vectors) - bool(vectors)

    def shrink(self) -> None:
        """Removes the calls that work on batched tensors as well: they only share inputs with products, or turn them into other inputs."""
        self._drop_side_results()
        readers = Counter(id(part) for key in self.calls for part in self.stacks[key])
        for key, call in list(self.calls.items()):
            if is_call_of(call, "nn.matmul", "split") or isinstance(call, TupleGetItem):
                continue
            read = Counter(map(id, self.stacks[key]))
            inputs = [self.entries.get(part) for part in read]
            if any(part is None or _is_view(part) for part in inputs) or not any(readers[part] == count for part, count in read.items()):
                continue
            del self.calls[key]
            readers.subtract(read)
            for part in read:
                if not readers[part]:
                    del self.entries[part]
            if readers[key]:
                self.entries[key] = call

    def _drop_side_results(self) -> None:
        """Removes the calls that no chain of calls connects to a product or a view: on matrices, each of their results takes a reshape."""
        near = {key: (*self.stacks[key], *self.users[key]) for key in self.calls}
        kept = [key for key, call in self.calls.items() if is_call_of(call, "nn.matmul") or any(map(_is_view, near[key]))]
        seen = set(kept)
        for key in kept:  # which grows
            found = {id(each) for each in near[key] if id(each) in self.calls} - seen
            seen |= found
            kept += found
        if len(seen) < len(self.calls):
            self.calls = {key: call for key, call in self.calls.items() if key in seen}
            read = {id(part) for key in self.calls for part in self.stacks[key]}
            self.entries = {key: entry for key, entry in self.entries.items() if key in read}

    def is_flat(self, expr: Expr) -> bool:
        """True if the expression is already the collapsed matrix."""
        shape = _shape(expr)
        return len(shape) == 2 and same_dim(shape[0], product(self.leading))

    def is_biased(self, call: Expr) -> bool:
        """True if the call adds a bias to a product without other readers."""
        if not is_call_of(call, "add") or tensor_type(call.checked_type).dtype not in FLOATS:
            return False
        pairs = (call.args, call.args[::-1])
        products = [(a, b) for a, b in pairs if id(a) in self.calls and is_call_of(a, "nn.matmul") and len(self.users[id(a)]) == 1]
        return any(_shape(b) == _shape(a)[-1:] for a, b in products)


def _newshape(shape: Shape) -> tuple[int, ...] | None:
    """The static newshape that restores a shape; None if more than one size is unknown."""
    attrs = static_newshape((ANY,), shape)
    return None if attrs is None or attrs["allowzero"] else tuple(attrs["newshape"])


def _regions(order: Sequence[Expr], function: Function, *, computed: bool) -> list[_Region]:
    """The regions that take fewer calls on matrices: calls on batched tensors that feed each other, or read the same one. Excludes calls
    whose values the function returns, because restoring their shape is a copy and restoring that of their operand is not. Exceptions are
    sums, which Gemm may absorb, and calls with two operands to restore."""
    root, returned = function.body, set(map(id, results_of(function)))
    users: dict[int, list[Expr]] = {id(node): [] for node in order}
    for node in order:
        for part in children(node):
            users.setdefault(id(part), []).append(node)

    stacks: dict[int, tuple[Expr, ...]] = {}

    def is_row_wise(node: Expr) -> bool:
        found = _stacks(node)
        if not found:
            return False
        stacks[id(node)] = found
        split = node.tuple_value if isinstance(node, TupleGetItem) else node
        if is_call_of(split, "split"):
            parts = users[id(split)]
            return id(split) not in returned and all(isinstance(part, TupleGetItem) and id(part) not in returned for part in parts)
        return id(node) not in returned or len(found) > 1 or is_call_of(node, "add")

    regions: list[_Region] = []
    for region in _connected(filter(is_row_wise, order), users, stacks):
        # Sums of two branches may connect regions of which each saves more by itself.
        alone = [call for call in region.calls.values() if len(stacks[id(call)]) == 1]
        smaller = _connected(alone, users, stacks) if len(alone) < len(region.calls) else []
        parts = [(part, part.saving(root, computed=computed)) for part in smaller]
        parts = [(part, saving) for part, saving in parts if saving > 0]
        whole = region.saving(root, computed=computed)
        if whole > 0 and whole >= sum(saving for _, saving in parts):
            parts = [(region, whole)]
        regions += [part for part, _ in parts]
    place = {id(node): i for i, node in enumerate(order)}
    for region in regions:
        region.entries = dict(sorted(region.entries.items(), key=lambda item: place[item[0]]))
    return regions


def _connected(calls: Iterable[Expr], users: dict[int, list[Expr]], stacks: dict[int, tuple[Expr, ...]]) -> list[_Region]:
    """The connected regions of row-wise calls in topological order."""
    of: dict[int, _Region] = {}  # by call and by input
    for node in calls:
        operands = stacks[id(node)]
        found = list({id(of[id(arg)]): of[id(arg)] for arg in operands if id(arg) in of}.values())
        region = max(found, key=lambda each: len(each.calls), default=None) or _Region(_shape(operands[0])[:-1], users, stacks)
        for other in found:
            if other is not region:
                region.calls |= other.calls
                region.entries |= other.entries
                of.update(dict.fromkeys((*other.calls, *other.entries), region))
        region.calls[id(node)] = node
        region.entries.update((id(arg), arg) for arg in operands if id(arg) not in region.calls)
        of.update((key, region) for key in (id(node), *map(id, operands)))
    regions = list({id(region): region for region in of.values()}.values())
    for region in regions:
        region.shrink()
    return regions


class _Rewriter:
    """Rewrites regions on matrices. Values that are still read in batched form are restored once."""

    def __init__(self, regions: Sequence[_Region]) -> None:
        self._region = {key: region for region in regions for key in region.calls}
        self._made: dict[int, Expr] = {}
        self._flat: dict[int, Expr] = {}
        self._vectors: dict[tuple[int, Shape], Expr] = {}
        self._matrices: dict[tuple[int, Shape], Expr] = {}

    def run(self, order: Sequence[Expr], root: Expr) -> Expr:
        """The new expression for the last of these nodes, which are in topological order."""
        for node in order:
            if isinstance(node, Function):
                self._made[id(node)] = node  # a branch or a closure, whose body is not among the nodes
            elif id(node) in self._region:
                self._flat[id(node)] = self._matrix(node, self._region[id(node)])
            elif isinstance(node, Call) and _is_view(node) and id(node.args[0]) in self._region:
                self._made[id(node)] = self._view(node, self._region[id(node.args[0])])
            else:
                self._made[id(node)] = self._once(with_children(node, [self._whole(part) for part in children(node)]), _shape(node))
        return self._whole(root)

    def _once(self, made: Expr, shape: Shape) -> Expr:
        """An expression; for a reshape to a matrix, one that is equal and exists, as for another region."""
        if not is_call_of(made, "reshape") or len(shape) != 2 or not isinstance(shape[1], int):
            return made
        return self._matrices.setdefault((id(made.args[0]), shape), made)

    def _whole(self, node: Expr) -> Expr:
        found = self._made.get(id(node))
        if found is None:
            region = self._region[id(node)]
            found = self._made[id(node)] = self._shaped(self._flat[id(node)], _shape(node), region, node)
        return found

    def _matrix(self, call: Expr, region: _Region) -> Expr:
        """The call on matrices for a call on batched tensors."""
        if isinstance(call, TupleGetItem):
            return TupleGetItem(self._flat[id(call.tuple_value)], call.index, call.span)
        assert isinstance(call, Call)
        stacks = set(map(id, region.stacks[id(call)]))
        args = [self._rows(arg, region) if id(arg) in stacks else self._whole(arg) for arg in call.args]
        attrs = dict(call.attrs)
        if region.is_biased(call):
            bias = 0 if len(_shape(call.args[0])) == 1 else 1
            return call_op("nn.bias_add", args[1 - bias], args[bias], span=call.span, axis=-1)
        if is_call_of(call, *_NORMS, "split"):
            attrs["axis"] = -1
        elif is_call_of(call, *_REDUCTIONS):
            attrs["axis"] = (-1,)
        assert isinstance(call.op, Op)
        return call.op(*args, span=call.span, **attrs)

    def _rows(self, arg: Expr, region: _Region) -> Expr:
        """The collapsed matrix of an operand."""
        found = self._flat.get(id(arg))
        if found is None:
            source = arg.args[0] if isinstance(arg, Call) and _is_view(arg) else arg
            found = self._flat[id(source)] if id(source) in self._region else self._whole(source)
            if not (region.is_flat(source) or (id(source) in self._region and _shape(source)[-1] == _shape(arg)[-1])):
                rows, columns = product(_shape(arg)[:-1]), _shape(arg)[-1]
                found = self._once(call_op("reshape", found, span=arg.span, newshape=matrix_shape(_shape(arg))), (rows, columns))
            self._flat[id(arg)] = found
        return found

    def _view(self, view: Call, region: _Region) -> Expr:
        """A view of a batched tensor, as a view of its matrix."""
        flat = self._flat[id(view.args[0])]
        same = region.is_flat(view) and _shape(view)[-1] == _shape(view.args[0])[-1]
        return flat if same else self._shaped(flat, _shape(view), region, view)

    def _shaped(self, flat: Expr, shape: Shape, region: _Region, node: Expr) -> Expr:
        numbers = _newshape(shape)
        if numbers is not None:
            return call_op("reshape", flat, span=node.span, newshape=numbers)
        return call_op("dyn.reshape", flat, self._vector(shape, region), span=node.span, allowzero=True)

    def _vector(self, shape: Shape, region: _Region) -> Expr:
        """The shape of a tensor as a vector of constants and sizes of a region input."""
        key = (id(region), shape)
        if key not in self._vectors:
            entry = next(iter(region.entries.values()))  # precedes all calls of the region
            parts = list(_parts(shape, region.leading, self._whole(entry)))
            self._vectors[key] = parts[0] if len(parts) == 1 else call_op("concatenate", Tuple(parts), span=entry.span, axis=0)
        return self._vectors[key]


def _parts(shape: Shape, leading: Shape, source: Expr) -> Iterator[Expr]:
    at = 0
    while at < len(shape):
        end = at + 1
        if isinstance(shape[at], int):
            while end < len(shape) and isinstance(shape[end], int):
                end += 1
            yield Constant(Tensor.dense(np.asarray(shape[at:end], np.int64), "int64"))
        else:
            start = leading.index(shape[at])
            while end < len(shape) and (*shape[at:end], shape[end]) == leading[start : start + end + 1 - at]:
                end += 1
            yield call_op("shape_of", source, span=source.span, start=start or None, end=start + end - at)
        at = end
