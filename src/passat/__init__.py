"""Passat: optimisations of tensor programs as rewrite rules, saturated in an e-graph and run by a pass manager.

    import passat

    result = passat.optimize("model.onnx")
    print(result.report)
    result.save("smaller.onnx")

The language is in `passat.ir`, the pass manager in `passat.passmgr`, the rules and their engine in `passat.rules`.
"""

import importlib
from typing import TYPE_CHECKING
from typing import Any as AnyValue

if TYPE_CHECKING:
    from passat.optimizer import Result, optimize
    from passat.report import MismatchError, Report

__all__ = ["MismatchError", "Report", "Result", "__version__", "optimize"]

__version__ = "0.1.0"

_HOMES = {"optimize": "passat.optimizer", "Result": "passat.optimizer", "Report": "passat.report", "MismatchError": "passat.report"}


def __getattr__(name: str) -> AnyValue:
    # Nothing is imported before it is asked for: `import passat` takes no time, and needs no ONNX.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"passat has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
