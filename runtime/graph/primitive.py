"""Primitive functions: functions of fused calls, from flat tensors to flat tensors."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from passat.ir.analysis import free_vars
from passat.ir.bind import bind
from passat.ir.expr import Expr, Function, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.tensor import Tensor
from passat.ir.traverse import children, post_order, with_children
from passat.ir.types import TensorType, TupleType, Type
from passat.runtime.devices import Target
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.interpreter import Closure, Interpreter
from passat.runtime.interpreter import Value as Result
from passat.runtime.values import Data

KERNEL_TARGETS: Final = frozenset({"numpy"})
"""Targets on which all functions are computed by Passat's kernels. On the others ONNX Runtime computes those that ONNX can express."""


class Primitive(Protocol):
    """A compiled function on flat tensors."""

    implementation: str
    """What computes it: `kernels`, `onnxruntime`, or the name of an external code generator."""

    def __call__(self, args: Sequence[Tensor]) -> Sequence[Tensor]:
        """Computes the results. Raises an error of Passat's that does not name the function."""


class KernelPrimitive:
    """A primitive function that Passat's kernels compute, one operator at a time."""

    implementation = "kernels"

    def __init__(self, function: Function) -> None:
        self._closure = Closure(function, None)
        self._interpreter = Interpreter(IRModule())

    def __call__(self, args: Sequence[Tensor]) -> Sequence[Tensor]:
        """Computes the results."""
        return list(tensors_of(self._interpreter.call(self._closure, args)))


def compile_primitive(function: Function, target: Target) -> Primitive:
    """Compiles a function with flat parameters (`flat_function`) for a target."""
    if target.kind not in KERNEL_TARGETS:
        from passat.runtime.graph.onnx_primitive import onnx_primitive

        found = onnx_primitive(function)
        if found is not None:
            return found
    return KernelPrimitive(function)


def flat_function(function: Function) -> Function:
    """The function with a parameter for each tensor of its parameters, which may be tuples. Raises GraphError for open functions.

    >>> from passat.ir.text import parse_expr
    >>> flat_function(parse_expr("fn (%x: (int8, (int8,))) { %x.1 }"))
    fn (%x_0: int8, %x_1: int8) {
      (%x_1,)
    }
    """
    infer_type(function)
    free = free_vars(function)
    if free:
        raise GraphError(f"the function uses %{free[0].name_hint} of its surroundings; only closed functions can be compiled")
    if not any(isinstance(param.checked_type, TupleType) for param in function.params):
        return function
    params: list[Var] = []
    parts: dict[Var, Expr] = {}
    for param in function.params:
        if isinstance(param.checked_type, TupleType):
            made = [Var(f"{param.name_hint}_{i}", type_) for i, type_ in enumerate(flat_types(param.checked_type))]
            parts[param] = _nested(param.checked_type, iter(made))
        else:
            made = [param]
        params += made
    body = _without_projections(bind(function.body, parts))
    return infer_function(Function(params, body, function.ret_type, function.type_params, function.attrs, function.span))


def infer_function(function: Function) -> Function:
    """The function, with types."""
    infer_type(function)
    return function


def flat_types(type_: Type) -> list[TensorType]:
    """The types of the tensors in a value, in order. Raises GraphError for values that hold more than tensors."""
    found: list[TensorType] = []
    stack = [type_]
    while stack:
        part = stack.pop()
        if isinstance(part, TupleType):
            stack += reversed(part.fields)
        elif isinstance(part, TensorType):
            found.append(part)
        else:
            raise GraphError(f"a value of type {part!r} is neither a tensor nor a tuple of tensors; use executor='vm', or create_executor")
    return found


def nested_data(type_: Type, tensors: Iterator[Tensor]) -> Data:
    """A value of a type, from its tensors in order."""
    if isinstance(type_, TupleType):
        return tuple(nested_data(field, tensors) for field in type_.fields)
    return next(tensors)


def _nested(type_: Type, parts: Iterator[Var]) -> Expr:
    return Tuple([_nested(field, parts) for field in type_.fields]) if isinstance(type_, TupleType) else next(parts)


def _without_projections(body: Expr) -> Expr:
    """The expression with fields in place of projections of tuples."""
    done: dict[Expr, Expr] = {}
    for node in post_order(body):
        made = with_children(node, [done[part] for part in children(node)])
        if isinstance(made, TupleGetItem) and isinstance(made.tuple_value, Tuple):
            made = made.tuple_value.fields[made.index]
        done[node] = made
    return done[body]


def tensors_of(value: Result) -> Iterable[Tensor]:
    """The tensors of a value, in order. Raises GraphError for values that hold more than tensors."""
    if isinstance(value, tuple):
        for field in value:
            yield from tensors_of(field)
    elif isinstance(value, Tensor):
        yield value
    else:
        raise GraphError(f"the result holds a {type(value).__name__}, which is not a tensor")
