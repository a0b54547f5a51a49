"""External code generators: functions for another compiler (`PartitionGraph`), compiled by a global function `relay.ext.NAME`."""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.counting import counted
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


class NoCodegenError(GraphError):
    """A function is for a compiler without a code generator."""


def compile_external(function: Function, target: Target) -> CachedFunc:
    """Compiles a function by the code generator of its attribute `Compiler`.

    The generator, `register_func("relay.ext.NAME")`, gets the function. It returns a module with a function of its `global_symbol`, or that
    function itself, which takes arrays: the inputs, then those for the results. Raises NoCodegenError if there is no generator.
    """
    compiler, name = str(function.attrs["Compiler"]), str(function.attrs.get("global_symbol", ""))
    generator = get_global_func(PREFIX + compiler, allow_missing=True)
    if generator is None:
        raise NoCodegenError(
            f"{name} is for the compiler {compiler!r}; register its code generator with register_func('{PREFIX}{compiler}')"
        )
    try:
        made = generator(function)
    except Exception as error:
        error.add_note(f"in the code generator {PREFIX}{compiler}, for {name}")
        raise
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
        """Computes the results. An error of the function has a note that names the code generator."""
        try:
            return call_with_results(self._function, args, self._outputs)
        except Exception as error:
            error.add_note(
                f"in a function of {PREFIX}{self.implementation}, which gets {counted(len(args), 'input')} and "
                f"{counted(len(self._outputs), 'result')}"
            )
            raise


@register_func(f"{PREFIX}ccompiler")
def compile_as_usual(function: Function) -> Callable[..., AnyValue]:
    """The code generator of TVM's examples, `ccompiler`: compiles functions like all other functions of the target `c`."""
    return CachedFunc(flat_function(function), str(function.attrs.get("global_symbol", "ccompiler")), Target("c")).packed_func
