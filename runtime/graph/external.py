"""External code generators: functions for another compiler (`PartitionGraph`), compiled by a global function `relay.ext.NAME`."""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.expr import Function
from passat.ir.global_functions import get_global_func, register_func
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.runtime.devices import Target
from passat.runtime.graph.compile_engine import CachedFunc
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.primitive import call_with_results, flat_function, flat_types
from passat.runtime.module import Module

PREFIX: Final = "relay.ext."


def compile_external(function: Function, target: Target) -> CachedFunc:
    """Compiles a function by the code generator of its attribute `Compiler`.

    The generator, `register_func("relay.ext.NAME")`, gets the function. It returns a module with a function of its `global_symbol`, or that
    function itself, which takes arrays: the inputs, then those for the results. Raises GraphError if there is no generator.
    """
    compiler, name = str(function.attrs["Compiler"]), str(function.attrs.get("global_symbol", ""))
    generator = get_global_func(PREFIX + compiler, allow_missing=True)
    if generator is None:
        raise GraphError(f"{name} is for the compiler {compiler!r}; register its code generator with register_func('{PREFIX}{compiler}')")
    made = generator(function)
    if isinstance(made, Module):
        found: Callable[..., AnyValue] = made.get_function(name, query_imports=True)
    elif callable(made):
        found = made
    else:
        raise GraphError(f"the code generator {PREFIX}{compiler} returned a {type(made).__name__}, not a module or a function, for {name}")
    flat = flat_function(function)
    return CachedFunc(flat, name, target, ExternalPrimitive(found, flat_types(flat.body.checked_type), compiler))


class ExternalPrimitive:
    """A function of an external code generator."""

    def __init__(self, function: Callable[..., AnyValue], outputs: Sequence[TensorType], compiler: str) -> None:
        self.implementation = compiler
        self._function = function
        self._outputs = outputs

    def __call__(self, args: Sequence[Tensor]) -> Sequence[Tensor]:
        """Computes the results."""
        return call_with_results(self._function, args, self._outputs)


@register_func(f"{PREFIX}ccompiler")
def compile_as_usual(function: Function) -> Callable[..., AnyValue]:
    """The code generator of TVM's examples, `ccompiler`: compiles functions like all other functions of the target `c`."""
    return CachedFunc(flat_function(function), str(function.attrs.get("global_symbol", "ccompiler")), Target("c")).packed_func
