"""Execution of programs: the reference executor, and its input and output values."""

from passat.runtime.devices import Device, Target, cpu, device
from passat.runtime.executor import Executor, create_executor
from passat.runtime.interpreter import ExecutorError
from passat.runtime.values import ConstructorValue, NDArray, RefValue, TupleValue, array

__all__ = [
    "ConstructorValue",
    "Device",
    "Executor",
    "ExecutorError",
    "NDArray",
    "RefValue",
    "Target",
    "TupleValue",
    "array",
    "cpu",
    "create_executor",
    "device",
]
