"""Execution of programs: the reference executor, and its input and output values."""

from passat.runtime.devices import Device, Target, cpu, device
from passat.runtime.executor import Executor, create_executor
from passat.runtime.interpreter import Closure, ExecutorError, Interpreter
from passat.runtime.values import ConstructorValue, NDArray, RefValue, TupleValue, array

TensorValue = NDArray
"""An alias of NDArray, its name in older versions of Relay."""

__all__ = [
    "Closure",
    "ConstructorValue",
    "Device",
    "Executor",
    "ExecutorError",
    "Interpreter",
    "NDArray",
    "RefValue",
    "Target",
    "TensorValue",
    "TupleValue",
    "array",
    "cpu",
    "create_executor",
    "device",
]
