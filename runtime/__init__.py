"""Execution of programs: the reference executor, its input and output values, and built modules (`passat.runtime.graph`)."""

from passat.runtime.devices import Device, Target, cpu, device, enabled
from passat.runtime.executor import Executor
from passat.runtime.graph import load_module, load_param_dict, save_param_dict
from passat.runtime.graph.executors import create_executor
from passat.runtime.interpreter import Closure, ExecutorError, Interpreter
from passat.runtime.module import BenchmarkResult, Module
from passat.runtime.packed_func import PackedFunc, convert
from passat.runtime.values import ConstructorValue, NDArray, RefValue, TupleValue, array

TensorValue = NDArray
"""An alias of NDArray, its name in older versions of Relay."""

__all__ = [
    "BenchmarkResult",
    "Closure",
    "ConstructorValue",
    "Device",
    "Executor",
    "ExecutorError",
    "Interpreter",
    "Module",
    "NDArray",
    "PackedFunc",
    "RefValue",
    "Target",
    "TensorValue",
    "TupleValue",
    "array",
    "convert",
    "cpu",
    "create_executor",
    "device",
    "enabled",
    "load_module",
    "load_param_dict",
    "save_param_dict",
]
