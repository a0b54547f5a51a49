"""Passat: optimizations of tensor programs as rewrite rules, saturated in an e-graph and run by a pass manager.

    import passat

    result = passat.optimize("model.onnx")
    print(result.report)
    result.save("smaller.onnx")

The IR is in `passat.ir`, the pass manager in `passat.passmgr`, the rules and their engine in `passat.rules`. Scripts written for TVM find
its modules as `passat.relay`, `passat.transform` and `passat.instrument`: `import passat as tvm`.
"""

import importlib
from typing import TYPE_CHECKING
from typing import Any as AnyValue

if TYPE_CHECKING:
    from passat import (
        arith,
        contrib,
        driver,
        error,
        instrument,
        ir,
        nd,
        parser,
        relay,
        rpc,
        runtime,
        support,
        target,
        te,
        testing,
        tir,
        transform,
    )
    from passat.crash import PassError
    from passat.driver import build, lower
    from passat.error import TVMError
    from passat.ir.global_functions import register_func
    from passat.ir.module import IRModule
    from passat.ir.passat_error import PassatError
    from passat.many import Optimized, optimize_many
    from passat.model_diff import ModelDiff, diff
    from passat.model_summary import ModelSummary, inspect
    from passat.optimizer import Result, optimize
    from passat.profiling import ModelProfile, profile
    from passat.report import MismatchError, Report, UnverifiedError
    from passat.runtime import convert, cpu, device
    from passat.runtime.packed_func import get_global_func

__all__ = [
    "IRModule",
    "MismatchError",
    "ModelDiff",
    "ModelProfile",
    "ModelSummary",
    "Optimized",
    "PassError",
    "PassatError",
    "Report",
    "Result",
    "TVMError",
    "UnverifiedError",
    "__version__",
    "arith",
    "build",
    "contrib",
    "convert",
    "cpu",
    "device",
    "diff",
    "driver",
    "error",
    "get_global_func",
    "inspect",
    "instrument",
    "ir",
    "lower",
    "nd",
    "optimize",
    "optimize_many",
    "parser",
    "profile",
    "register_func",
    "relay",
    "rpc",
    "runtime",
    "support",
    "target",
    "te",
    "testing",
    "tir",
    "transform",
]

__version__ = "0.1.0"

_HOMES = {
    "IRModule": "passat.ir.module",
    "MismatchError": "passat.report",
    "ModelDiff": "passat.model_diff",
    "ModelProfile": "passat.profiling",
    "ModelSummary": "passat.model_summary",
    "Optimized": "passat.many",
    "PassError": "passat.crash",
    "PassatError": "passat.ir.passat_error",
    "Report": "passat.report",
    "Result": "passat.optimizer",
    "TVMError": "passat.error",
    "UnverifiedError": "passat.report",
    "build": "passat.driver",
    "convert": "passat.runtime",
    "cpu": "passat.runtime",
    "device": "passat.runtime",
    "diff": "passat.model_diff",
    "get_global_func": "passat.runtime.packed_func",
    "inspect": "passat.model_summary",
    "lower": "passat.driver",
    "optimize": "passat.optimizer",
    "optimize_many": "passat.many",
    "profile": "passat.profiling",
    "register_func": "passat.ir.global_functions",
}

_TVM_NAMES = {"context": "device"} | dict.fromkeys(("cuda", "gpu", "opencl", "vulkan", "metal", "rocm"), "cpu")
"""Names of TVM, and what is nearest here: Passat computes on the CPU."""
_UNSUPPORTED = frozenset(("auto_scheduler", "autotvm", "meta_schedule", "micro", "relax", "script", "topi"))
"""Modules of TVM that have no counterpart."""


def __getattr__(name: str) -> AnyValue:
    # Attributes are imported on demand: `import passat` is fast and needs no ONNX.
    if name in __all__ and name not in _HOMES:
        return importlib.import_module(f"passat.{name}")
    home = _HOMES.get(name)
    if home is None:
        from passat.ir.similar_names import did_you_mean, suggestion

        if name in _UNSUPPORTED:
            raise AttributeError(f"passat has no attribute {name!r}: docs/coming-from/tvm.md lists what is not supported")
        hint = suggestion([_TVM_NAMES[name]]) if name in _TVM_NAMES else "" if name.startswith("__") else did_you_mean(name, __all__)
        raise AttributeError(f"passat has no attribute {name!r}{hint}", name=name)  # with a name, Python adds no hint of its own
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
