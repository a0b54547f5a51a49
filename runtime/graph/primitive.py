"""Primitive functions: functions of fused calls, from flat tensors to flat tensors."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any as AnyValue
from typing import Final, Protocol

from passat.ir.analysis import free_vars
from passat.ir.bind import bind
from passat.ir.expr import Expr, Function, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.tensor import Tensor
from passat.ir.traverse import rewrite
from passat.ir.types import TensorType, TupleType, Type, leaves
from passat.runtime.devices import Device, Target, check_device
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.interpreter import Closure, Interpreter
from passat.runtime.interpreter import Value as Result
from passat.runtime.values import NDArray, empty

KERNEL_TARGETS: Final = frozenset({"numpy"})
"""Targets on which all functions are computed by Passat's kernels. On the others ONNX Runtime or native kernels (`native_primitive`)
compute those that ONNX can express."""


class Primitive(Protocol):
    """A compiled function on flat tensors."""

    implementation: str
    """What computes it: `llvm`, `c`, `onnxruntime`, `kernels`, or the name of an external code generator."""

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


def call_with_results(function: Callable[..., object], args: Sequence[Tensor], types: Sequence[TensorType]) -> Sequence[Tensor]:
    """Calls a function on arrays: the inputs, then the arrays for its results, which have these types.

    Raises GraphError for types with unknown sizes.
    """
    unknown = next((type_ for type_ in types if not type_.is_static), None)
    if unknown is not None:
        raise GraphError(f"the size of a result of type {unknown!r} is unknown, so no array can be passed for it")
    results = [empty(type_.concrete_shape, type_.dtype) for type_ in types]
    function(*map(NDArray, args), *results)
    return [result.tensor for result in results]


def local_device(device: Device | None, what: str) -> Device:
    """The device to run on, by default the CPU. Raises GraphError that names `what` for other devices, and TypeError for other values."""
    found = check_device(device)
    if not found.is_local:
        raise GraphError(f"{what} run on the CPU here, not on {found}")
    return found


def compile_primitives(functions: Sequence[Function], target: Target) -> list[Primitive]:
    """Compiles functions with flat parameters (`flat_function`) for a target, their native kernels together."""
    if target.kind in KERNEL_TARGETS:
        return [KernelPrimitive(function) for function in functions]
    from passat.runtime.graph.native_primitive import native_primitives
    from passat.runtime.graph.onnx_primitive import exported, onnx_primitive

    models = {}
    for number, function in enumerate(functions):
        model = exported(function)
        if model is not None:
            models[number] = (function, model)
    found: dict[int, Primitive] = dict(native_primitives(models, target))
    for number, (function, model) in models.items():
        if number not in found and (session := onnx_primitive(function, model)) is not None:
            found[number] = session
    return [found.get(number) or KernelPrimitive(function) for number, function in enumerate(functions)]


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
            parts[param] = nested(param.checked_type, iter(made), Tuple)
        else:
            made = [param]
        params += made
    body = _without_projections(bind(function.body, parts))
    flat = Function(params, body, function.ret_type, function.type_params, function.attrs, function.span)
    infer_type(flat)
    return flat


def flat_types(type_: Type) -> list[TensorType]:
    """The types of the tensors in a value, in order. Raises GraphError for values that hold more than tensors."""
    found: list[TensorType] = []
    for part in leaves(type_):
        if not isinstance(part, TensorType):
            raise GraphError(
                f"a value of type {part!r} is neither a tensor nor a tuple of tensors; use executor='vm', or create_executor('vm')"
            )
        found.append(part)
    return found


def nested(type_: Type, parts: Iterator[AnyValue], whole: Callable[[Iterable[AnyValue]], AnyValue] = tuple) -> AnyValue:
    """A value of a type, from the parts for its tensors in order; `whole` makes a tuple of its fields.

    >>> nested(TupleType([TensorType(()), TupleType([TensorType(())])]), iter("ab"))
    ('a', ('b',))
    """
    return whole([nested(field, parts, whole) for field in type_.fields]) if isinstance(type_, TupleType) else next(parts)


def _without_projections(body: Expr) -> Expr:
    """The expression with fields in place of projections of tuples."""

    def field(_: Expr, node: Expr) -> Expr:
        return node.tuple_value.fields[node.index] if isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Tuple) else node

    return rewrite(body, field)


def tensors_of(value: Result) -> Iterable[Tensor]:
    """The tensors of a value, in order. Raises GraphError for values that hold more than tensors."""
    if isinstance(value, tuple):
        for field in value:
            yield from tensors_of(field)
    elif isinstance(value, Tensor):
        yield value
    else:
        raise GraphError(f"the result holds a {type(value).__name__}, which is not a tensor")
