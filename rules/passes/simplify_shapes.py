"""The pass SimplifyShapes: canonicalizes shape arithmetic, and reads sizes from program inputs.

Exporters read the same size from many tensors, whole shapes or parts, and join them by concatenation or selection. Shape arithmetic knows
the elements of a small integer tensor as expressions over named sizes. If these are sizes of inputs, the tensor is computed from the
inputs, and the original tensors need not be computed for their shapes.

A walk, not rules: the sizes of inputs, and the cheapest way to read one, depend on the whole program.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from passat.ir.expr import Call, Constant, Expr, Function, Tuple, Var
from passat.ir.infer import infer_type, known_value
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.sealed import is_sealed
from passat.ir.shape import Dim, Shape, SymDim
from passat.ir.tensor import Tensor
from passat.ir.traverse import children, post_order, rewrite, with_children
from passat.ir.types import TensorType, tensor_type
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass

Source: TypeAlias = tuple[Var, int]
"""An input and one of its axes."""
_SINCE: Final = 15
"""The first opset in which Shape reads a part of a shape."""


@register_pass("relay._transform.SimplifyShapes")
@dataclass(frozen=True)
class SimplifyShapes(FunctionPass):
    """Reads vectors and scalars of sizes from the program inputs, in one canonical form, where that takes no more calls."""

    info = PassInfo(2, "SimplifyShapes", ["InferType", "ReadOpaque"], provides=("types",), preserves=("types",), after=["SimplifyExpr"])

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Rewrites the shape arithmetic of one function. Skips programs read from an opset before 15."""
        frame = mod.attrs.get("onnx")
        return func if frame is not None and frame.version < _SINCE else simplify_shapes(func)


def simplify_shapes(function: Function) -> Function:
    """The function with sizes read from its inputs; itself if nothing changes or more calls would be needed.

    Nested functions, such as the branches of an ONNX `If`, read sizes from their own inputs.
    """
    return in_each_function(function, _simplified)


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


def _simplified(function: Function) -> Function:
    """The function with sizes read from its inputs, apart from nested functions."""
    sources = _sources(function.params)
    if not sources:
        return function
    forms = _Forms(sources)
    made: dict[int, Expr] = {}
    order = own_nodes(function.body)
    for node in order:
        found = forms.of(node)
        if found is None:
            inner = not isinstance(node, Function)
            found = with_children(node, [made[id(part)] for part in children(node)]) if inner else node
        made[id(node)] = found
    body = made[id(function.body)]
    if body is function.body or _calls(body) > sum(isinstance(node, Call) for node in order):
        return function
    return infer_type(Function(function.params, body, function.ret_type, function.type_params, function.attrs, function.span))


def own_nodes(body: Expr) -> Sequence[Expr]:
    """The nodes of a body, without those of nested functions."""
    return post_order(body, into=lambda part: not isinstance(part, Function))


def _calls(body: Expr) -> int:
    return sum(isinstance(node, Call) for node in own_nodes(body))


def _sources(params: Sequence[Var]) -> dict[SymDim, Source]:
    """The first input and axis for each named size that occurs by itself."""
    found: dict[SymDim, Source] = {}
    for param in params:
        if isinstance(param.checked_type, TensorType):
            for axis, dim in enumerate(param.checked_type.shape):
                if isinstance(dim, SymDim) and len(dim.terms) == 1 and len(dim.terms[0][0]) == 1 and dim.terms[0][1] == 1:
                    found.setdefault(dim, (param, axis))
    return found


class _Forms:
    """The canonical expression for each list of sizes."""

    def __init__(self, sources: dict[SymDim, Source]) -> None:
        self._sources = sources
        self._made: dict[tuple[tuple[Dim, ...], bool], Expr] = {}

    def of(self, node: Expr) -> Expr | None:
        """The replacement of a call that computes sizes; None for any other node, and if an input lacks one of the sizes."""
        type_ = node._checked_type
        if not isinstance(node, Call) or not isinstance(type_, TensorType) or type_.dtype != "int64" or type_.ndim > 1:
            return None
        value = known_value(node) if type_.is_static else None
        if not isinstance(value, np.ndarray):
            return None
        dims: tuple[Dim, ...] = tuple(value.reshape(-1).tolist())
        symbols = [dim for dim in dims if isinstance(dim, SymDim)]
        if not symbols or not all(isinstance(dim, int) or dim in self._sources for dim in dims):
            return None
        key = (dims, type_.ndim == 0)
        if key not in self._made:
            vector = self._vector(dims)
            self._made[key] = _call("squeeze", vector, axis=(0,)) if type_.ndim == 0 else vector
        return self._made[key]

    def _vector(self, dims: tuple[Dim, ...]) -> Expr:
        """A vector of sizes: a concatenation of constants and of the longest possible parts of input shapes."""
        parts: list[Expr] = []
        at = 0
        while at < len(dims):
            end = at + 1
            first = dims[at]
            if isinstance(first, SymDim):
                param, axis = self._sources[first]
                shape = _shape(param)[axis:]
                while end < len(dims) and end - at < len(shape) and dims[end] == shape[end - at] and self._is_of(param, dims[end]):
                    end += 1
                parts.append(self._part(param, axis, axis + end - at))
            else:
                while end < len(dims) and isinstance(dims[end], int):
                    end += 1
                parts.append(Constant(Tensor.dense(np.asarray(dims[at:end], np.int64), "int64")))
            at = end
        return parts[0] if len(parts) == 1 else _call("concatenate", Tuple(parts), axis=0)

    def _is_of(self, param: Var, dim: Dim) -> bool:
        """True if a size is a constant, or read from this input."""
        return not isinstance(dim, SymDim) or self._sources[dim][0] is param

    def _part(self, param: Var, start: int, end: int) -> Expr:
        shape = _shape(param)
        key = (shape[start:end], False)
        if key not in self._made:
            self._made[key] = _call("shape_of", param, start=start or None, end=None if end == len(shape) else end)
        return self._made[key]


def _shape(param: Var) -> Shape:
    return tensor_type(param.checked_type).shape


def _call(name: str, operand: Expr, **attrs: object) -> Expr:
    of = get_op(name)
    return infer_type(Call(of, (operand,), of.bind_attrs(attrs)))
