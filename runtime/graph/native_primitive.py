"""Primitive functions that native kernels compute: loops, which LLVM or the C compiler compiles for this machine.

All functions that are compiled together are in one LLVM module, or in one library.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

import numpy as np

from passat.ir.dtypes import to_numpy
from passat.ir.expr import Function
from passat.ir.passat_error import PassatError
from passat.ir.tensor import Tensor
from passat.ir.tir.expr import Call
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import post_order
from passat.ir.types import TensorType
from passat.runtime.devices import Target
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.primitive import flat_types
from passat.runtime.jit.c_library import compile_with_c
from passat.runtime.jit.engine import compile_functions
from passat.runtime.jit.signature import NATIVE
from passat.runtime.kernels.lower import EXPENSIVE
from passat.runtime.kernels.whole import WholeModel, whole_model

if TYPE_CHECKING:
    from onnx import ModelProto

_LOG: Final = logging.getLogger("passat.runtime")
_COMPILERS: Final = {"llvm": compile_functions, "cpu": compile_functions, "c": compile_with_c}
"""What compiles loops, by target."""
_NAME: Final = "kernel{}_{}"


class NativePrimitive:
    """Kernels that compute a primitive function of known sizes."""

    def __init__(
        self, implementation: str, whole: WholeModel, inputs: Sequence[str], compiled: Sequence[AnyValue], function: Function
    ) -> None:
        self.implementation = implementation
        types = [type_ for param in function.params for type_ in flat_types(param.checked_type)]
        self._inputs = list(zip(inputs, types, strict=True))
        self._constants = {name: np.require(each, None, ["C", "A"]) for name, each in whole.constants.items()}
        self._steps = [(each.__dict__[NATIVE], kernel.values) for each, kernel in zip(compiled, whole.kernels, strict=True)]
        self._made = [(name, shape, to_numpy(dtype)) for name, (dtype, shape) in whole.made.items()]
        results = flat_types(function.body.checked_type)
        self._results = [(name, type_.concrete_shape) for name, type_ in zip(whole.results, results, strict=True)]
        self._compiled = compiled  # keeps the code

    def __call__(self, args: Sequence[Tensor]) -> Sequence[Tensor]:
        """Computes the results. Raises GraphError for tensors of other types, whose memory the kernels must not read."""
        memory = dict(self._constants)
        for number, (arg, (name, type_)) in enumerate(zip(args, self._inputs, strict=True)):
            if arg.shape != type_.shape or arg.dtype != type_.dtype:
                raise GraphError(f"the argument {number} has the type {TensorType(arg.shape, arg.dtype)!r}, not {type_!r}")
            array = arg.numpy()
            memory[name] = array if array.flags.c_contiguous and array.flags.aligned else np.require(array, None, ["C", "A"])
        for name, shape, dtype in self._made:
            memory[name] = np.empty(shape, dtype)
        for native, names in self._steps:
            native(*[memory[name].ctypes.data for name in names])
        return [Tensor.dense(memory[name].reshape(shape)) for name, shape in self._results]


def native_primitives(functions: "Mapping[int, tuple[Function, ModelProto]]", target: Target) -> dict[int, NativePrimitive]:
    """Compiles those of some functions, given with the models that compute them, for which there are kernels. None without a compiler."""
    compiler = _COMPILERS.get(target.kind)
    if compiler is None:
        return {}
    wholes: dict[int, WholeModel] = {}
    for number, (_, model) in functions.items():
        whole = whole_model(model)
        if whole is not None and not (compiler is compile_functions and any(_is_expensive(each.function) for each in whole.kernels)):
            wholes[number] = whole
    loops = {(number, place): each.function for number, whole in wholes.items() for place, each in enumerate(whole.kernels)}
    if not loops:
        return {}
    try:
        compiled = compiler({_NAME.format(*which): function for which, function in loops.items()})
    except PassatError as error:
        _LOG.info("functions of the target %s are computed by ONNX Runtime: %s", target.kind, error)
        return {}
    made = {}
    for number, whole in wholes.items():
        function, model = functions[number]
        inputs = [value.name for value in model.graph.input]
        code = [compiled[_NAME.format(number, place)] for place in range(len(whole.kernels))]
        made[number] = NativePrimitive("c" if target.kind == "c" else "llvm", whole, inputs, code, function)
    return made


def _is_expensive(function: PrimFunc) -> bool:
    """Whether a function calls one that LLVM does not vectorize, for which ONNX Runtime takes a tenth of the time."""
    return any(isinstance(part, Call) and part.op in EXPENSIVE for part in post_order(function.body))
