"""`tvm.support`: what this installation can do, and modules for tests."""

import importlib.metadata
import importlib.util

from passat.runtime import Module

__all__ = ["FrontendTestModule", "libinfo"]


def libinfo() -> dict[str, str]:
    """What is available, as `ON` or `OFF`, under TVM's names of options, and the version of Passat.

    >>> libinfo()["USE_CUDA"], libinfo()["USE_GRAPH_EXECUTOR"]
    ('OFF', 'ON')
    """
    always = dict.fromkeys(("USE_GRAPH_EXECUTOR", "USE_GRAPH_EXECUTOR_DEBUG", "USE_PROFILER", "USE_RELAY_DEBUG"), "ON")
    never = dict.fromkeys(("USE_CUDA", "USE_METAL", "USE_OPENCL", "USE_ROCM", "USE_VULKAN", "USE_MICRO"), "OFF")
    packages = {"USE_LLVM": "llvmlite", "USE_ONNX_RUNTIME": "onnxruntime", "USE_RPC": "distributed"}
    found = {option: "OFF" if importlib.util.find_spec(package) is None else "ON" for option, package in packages.items()}
    return {"PASSAT_VERSION": importlib.metadata.version("passat"), **always, **never, **found}


FrontendTestModule = Module
"""A module whose functions are set by name: `module["f"] = function`."""
