"""The pass SimplifyShapes: canonicalizes shape arithmetic, and reads sizes from inputs, or from the first tensor that has them.

Exporters read the same size from many tensors, whole shapes or parts, and join them by concatenation or selection. Shape arithmetic knows
the elements of a small integer tensor as expressions over named sizes. If these are sizes of inputs, the tensor is computed from the
inputs, and the original tensors need not be computed for their shapes. Other sizes, such as that of the result of a convolution, are read
from the first tensor whose shape the program reads and that has them.

A walk, not rules: which tensor is the first, and the cheapest way to read a size, depend on the whole program.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from passat.ir.equality import structural_equal
from passat.ir.expr import Call, Constant, Expr, Function, If, Let, Match, Tuple, Var, const
from passat.ir.infer import infer_type, known_value
from passat.ir.module import IRModule
from passat.ir.op import call_op, get_op
from passat.ir.sealed import is_sealed
from passat.ir.shape import Dim, Shape, SymDim
from passat.ir.traverse import children, post_order, rewrite, with_children
from passat.ir.types import TensorType, tensor_type
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass
from passat.rules.rule_pass import read_opset

Source: TypeAlias = tuple[Expr, int, Shape]
"""A tensor, one of its axes, and its shape."""
Sources: TypeAlias = dict[SymDim, list[Source]]
"""Where a size can be read, the best tensor first."""
_SINCE: Final = 15
"""The first opset in which Shape reads a part of a shape."""
_SHAPE_OF: Final = get_op("shape_of")


@register_pass("relay._transform.SimplifyShapes")
@dataclass(frozen=True)
class SimplifyShapes(FunctionPass):
    """Reads vectors and scalars of sizes from the program inputs, and sizes that no input has from the first tensor that has them, in one
    canonical form, where that takes no more calls."""

    info = PassInfo(2, "SimplifyShapes", ["InferType", "ReadOpaque"], provides=("types",), preserves=("types",), after=["SimplifyExpr"])

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrites the shape arithmetic of one function."""
        return simplify_shapes(func, reads_parts=shape_reads_parts(mod))


def shape_reads_parts(mod: IRModule) -> bool:
    """Whether Shape reads a part of a shape in the opset of a module."""
    return (read_opset(mod) or _SINCE) >= _SINCE


def simplify_shapes(function: Function, *, reads_parts: bool = True) -> Function:
    """The function with sizes in their canonical forms; itself if nothing changes or more calls would be needed. Without `reads_parts`, a
    part of a shape is a slice of the whole one.

    Nested functions, such as the branches of an ONNX `If`, read sizes from their own inputs.
    """
    return in_each_function(function, lambda part: _simplified(part, reads_parts))


def in_each_function(function: Function, change: Callable[[Function], Function]) -> Function:
    """The function after a change of each function in it, such as the branches of an ONNX `If`, and of itself. The change gets functions
    with types, innermost first, and leaves nested ones. Sealed functions are unchanged."""
    if not any(isinstance(node, Function) and node is not function for node in post_order(function)):
        return change(function)

    def changed(old: Expr, new: Expr) -> Expr:
        if not isinstance(new, Function):
            return new
        return change(new if new is old else infer_type(new))

    return rewrite(function, changed, into=lambda part: not is_sealed(part))


def _simplified(function: Function, reads_parts: bool) -> Function:
    """The function with sizes in their canonical forms, apart from nested functions."""
    inputs = _of_inputs(function.params)
    if not inputs:
        return function
    order = own_nodes(function.body)
    calls = _calls(order)
    scopes = any(isinstance(node, (Let, If, Match)) for node in order)  # a value in a branch is not known behind it
    forms = _Forms(inputs, reads_parts, only_inputs=scopes)
    body = forms.run(order)
    if forms.reads_others and _calls(own_nodes(body)) >= calls:
        body = _Forms(inputs, reads_parts, only_inputs=True).run(order)
    if body is function.body or _calls(own_nodes(body)) > calls:
        return function
    return infer_type(function.with_body(body))


def own_nodes(body: Expr) -> Sequence[Expr]:
    """The nodes of a body, without those of nested functions."""
    return post_order(body, into=lambda part: not isinstance(part, Function))


def _calls(nodes: Sequence[Expr]) -> int:
    return sum(isinstance(node, Call) for node in nodes)


def _of_inputs(params: Sequence[Var]) -> Sources:
    """The inputs and axes of each named size that occurs by itself."""
    found: Sources = {}
    for param in params:
        if isinstance(param.checked_type, TensorType):
            shape = param.checked_type.shape
            for axis, dim in enumerate(shape):
                if isinstance(dim, SymDim) and len(dim.terms) == 1 and len(dim.terms[0][0]) == 1 and dim.terms[0][1] == 1:
                    found.setdefault(dim, []).append((param, axis, shape))
    return found


class _Forms:
    """The canonical expression for each list of sizes. With `only_inputs` no size is read from another tensor."""

    def __init__(self, of_inputs: Sources, reads_parts: bool, *, only_inputs: bool) -> None:
        self._of_inputs = of_inputs
        self._reads_parts = reads_parts
        self._of_all = dict(of_inputs)
        self._only_inputs = only_inputs
        self.reads_others = False
        """Whether some sizes may be read from other tensors than inputs."""
        self._made: dict[tuple[tuple[Dim, ...], bool], Expr] = {}

    def run(self, order: Sequence[Expr]) -> Expr:
        """The last of some nodes, in the order of the program, with sizes in their canonical forms."""
        made: dict[int, Expr] = {}
        for node in order:
            if isinstance(node, Call) and node.op is _SHAPE_OF:
                self._add(made[id(node.args[0])], tensor_type(node.args[0].checked_type).shape)
            new = node if isinstance(node, Function) else with_children(node, [made[id(part)] for part in children(node)])
            made[id(node)] = self._of(node, new)
        return made[id(order[-1])]

    def _add(self, tensor: Expr, shape: Shape) -> None:
        """Reads sizes from a tensor whose shape the program reads, if it has a size that no tensor before it has."""
        if self._only_inputs or all(not isinstance(dim, SymDim) or dim in self._of_all for dim in shape):
            return
        for axis, dim in enumerate(shape):
            if isinstance(dim, SymDim):
                self._of_all[dim] = [*self._of_all.get(dim, ()), (tensor, axis, shape)]

    def _of(self, node: Expr, new: Expr) -> Expr:
        """What replaces a call that computes sizes: their canonical form, or the first call that computes them, where nothing before it has
        all of them. `new` for any other node, which is the node with new operands."""
        type_ = node._checked_type
        if not isinstance(node, Call) or not isinstance(type_, TensorType) or type_.dtype != "int64" or type_.ndim > 1:
            return new
        value = known_value(node) if type_.is_static else None
        if not isinstance(value, np.ndarray):
            return new
        dims: tuple[Dim, ...] = tuple(value.reshape(-1).tolist())
        symbols = [dim for dim in dims if isinstance(dim, SymDim)]
        if not symbols or not all(isinstance(dim, (int, SymDim)) for dim in dims):
            return new
        key = (dims, type_.ndim == 0)
        if key not in self._made:
            if all(dim in self._of_all or self._is_computed(dim) for dim in symbols):
                of_inputs = all(dim in self._of_inputs for dim in symbols)
                self.reads_others |= not of_inputs
                sources = self._of_inputs if of_inputs else self._of_all
                made = self._scalar(dims, sources) if type_.ndim == 0 else self._vector(dims, sources)
                self._made[key] = new if _is_same(made, new) else made
            elif self._only_inputs:
                return new
            else:
                self.reads_others = True
                self._made[key] = new
        return self._made[key]

    def _is_computed(self, dim: Dim) -> bool:
        return ((dim,), False) in self._made or ((dim,), True) in self._made

    def _computed(self, dim: Dim) -> Expr:
        """A vector of one size that a call before computes."""
        key = (dim,), False
        if key not in self._made:
            self._made[key] = call_op("expand_dims", self._made[(dim,), True], axis=(0,))
        return self._made[key]

    def _scalar(self, dims: tuple[Dim, ...], sources: Sources) -> Expr:
        """A size by itself: an element of a whole shape, if Shape reads no parts and no slice has it."""
        found = () if self._reads_parts or self._is_computed(dims[0]) else _sources(dims, 0, sources)
        for tensor, axis, shape in found[:1]:
            if len(shape) > 1:
                return call_op("take", self._part(tensor, shape, 0, len(shape)), const(axis, "int64"), axis=0)
        return call_op("squeeze", self._vector(dims, sources), axis=(0,))

    def _vector(self, dims: tuple[Dim, ...], sources: Sources) -> Expr:
        """A vector of sizes: a concatenation of constants, of the longest possible parts of shapes, and of sizes that were computed."""
        parts: list[Expr] = []
        at = 0
        while at < len(dims):
            size = next((place for place in range(at, len(dims)) if isinstance(dims[place], SymDim)), len(dims))
            runs = [_run(dims[at:], size - at, source, sources) for source in _sources(dims, size, sources)]
            tensor, shape, start, count = max(runs, key=lambda run: run[3], default=(None, (), 0, 0))
            if tensor is not None and count > 0:
                parts.append(self._part(tensor, shape, start, start + count))
            elif size > at:
                count = size - at
                parts.append(const(np.asarray(dims[at:size]), "int64"))
            else:
                count = 1
                parts.append(self._computed(dims[at]))
            at += count
        return parts[0] if len(parts) == 1 else call_op("concatenate", Tuple(parts), axis=0)

    def _part(self, tensor: Expr, shape: Shape, start: int, end: int) -> Expr:
        key = (shape[start:end], False)
        if key not in self._made:
            if self._reads_parts or end - start == len(shape):
                self._made[key] = call_op("shape_of", tensor, start=start or None, end=None if end == len(shape) else end)
            else:
                whole = self._part(tensor, shape, 0, len(shape))
                self._made[key] = call_op("strided_slice", whole, begin=(start,), end=(end,), strides=(1,), axes=(0,))
        return self._made[key]


def _is_same(made: Expr, old: Expr) -> bool:
    """Whether two expressions are the same call of the same operands."""
    calls = isinstance(made, Call) and isinstance(old, Call) and made.op is old.op and made.attrs == old.attrs
    return calls and len(children(made)) == len(children(old)) and all(map(_is_same_operand, children(made), children(old)))


def _is_same_operand(one: Expr, other: Expr) -> bool:
    return one is other or (isinstance(one, Constant) and structural_equal(one, other))


def _sources(dims: Sequence[Dim], place: int, sources: Sources) -> Sequence[Source]:
    """The tensors from which a size of a list can be read; none at its end."""
    dim = dims[place] if place < len(dims) else None
    return sources.get(dim, ()) if isinstance(dim, SymDim) else ()


def _run(dims: Sequence[Dim], size: int, source: Source, sources: Sources) -> tuple[Expr, Shape, int, int]:
    """The part of the shape of a tensor with which sizes begin, where `dims[size]` is on the axis of the source, and how many sizes it has:
    all that follow each other in the shape, and are constants or read from this tensor; 0 if the sizes before the axis differ."""
    tensor, axis, shape = source
    start, count = axis - size, 0
    if start >= 0:
        for dim, other in zip(dims, shape[start:], strict=False):
            if dim != other or (isinstance(dim, SymDim) and all(tensor is not one for one, _, _ in sources.get(dim, ()))):
                break
            count += 1
    return tensor, shape, start, count if count > size else 0
