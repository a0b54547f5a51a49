"""The public names of Passat's modules: a table, and the directives that document each."""

import functools
import importlib
import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from generators.markdown import first_sentence, prose, table

MODULES: Final[Mapping[str, Sequence[str] | None]] = {
    "passat": None,
    "passat.certificates": None,
    "passat.report": ("RuleReport", "PassReport", "Timing"),
    "passat.verify": ("VerifyReport", "OutputReport"),
    "passat.rules": None,
    "passat.rules.guards": None,
    "passat.rules.range_guards": None,
    "passat.rules.ranges": ("Range",),
    "passat.rules.analysis": ("Analysis", "Fact", "Made"),
    "passat.rules.samples": None,
    "passat.rules.pattern": ("Pattern", "PVar", "PConst", "PNumber", "PValue", "PCall", "AttrHole", "Computed", "CaseValue", "OpNames"),
    "passat.rules.rule_set": ("RuleSetMeta",),
    "passat.rules.holes": ("OperatorHole", "CaseHole", "PartsHole"),
    "passat.rules.rule_pass": ("Phase",),
    "passat.passmgr": None,
    "passat.ir": None,
    "passat.ir.expr": None,
    "passat.ir.op": ("define_op", "get_op", "list_ops", "OpTypeError", "Known"),
    "passat.ir.attrs": ("Attrs",),
    "passat.ir.shape": ("Any", "SymDim"),
    "passat.ir.tensor": ("Tensor",),
    "passat.ir.traverse": None,
    "passat.ir.cost": None,
    "passat.ir.onnx": None,
    "passat.ir.onnx_mapping": ("from_onnx", "to_onnx", "OnnxNode", "Emitter", "OnnxVersionError"),
    "passat.ir.diagnostics": ("DiagnosticError", "Diagnostic"),
    "passat.relay": None,
    "passat.relay.nn": None,
    "passat.relay.transform": None,
    "passat.relay.analysis": None,
    "passat.relay.dataflow_pattern": None,
    "passat.relay.testing": None,
}
"""The modules, with their names that users need; None means all exported names. A name of several modules is documented in the first."""


def module(name: str) -> str:
    """Returns the reference of the names that a module exports, apart from modules and names that an earlier module has documented."""
    names = [each for each in _exported(name) if public_names().get(_real_name(name, each), f"{name}.{each}") == f"{name}.{each}"]
    rows = [(f"{{py:obj}}`{each} <{name}.{each}>`", prose(first_sentence(_doc(name, each)))) for each in names]
    directives = "\n".join(_directive(name, each) for each in names)
    return f"{table(('name', 'meaning'), rows)}\n\n```{{eval-rst}}\n{directives}\n```"


@functools.cache
def public_names() -> dict[str, str]:
    """Returns the names under which users import objects, by the full names at their definition."""
    found: dict[str, str] = {}
    for name in MODULES:
        for each in _exported(name):
            found.setdefault(_real_name(name, each), f"{name}.{each}")
    return found


def _exported(name: str) -> list[str]:
    made = importlib.import_module(name)
    names = MODULES[name] or getattr(made, "__all__", None) or [each for each in vars(made) if _is_defined_in(made, each)]
    return [each for each in names if not each.startswith("_") and not isinstance(getattr(made, each), types.ModuleType)]


def _is_defined_in(made: types.ModuleType, each: str) -> bool:
    return getattr(vars(made)[each], "__module__", "") == made.__name__


def _object(name: str, each: str) -> AnyValue:
    return getattr(importlib.import_module(name), each)


def _real_name(name: str, each: str) -> str:
    value = _object(name, each)
    if inspect.isclass(value) or inspect.isfunction(value):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{name}.{each}"


def _doc(name: str, each: str) -> str:
    value = _object(name, each)
    return (inspect.getdoc(value) or "") if inspect.isclass(value) or callable(value) else ""


def _directive(name: str, each: str) -> str:
    value = _object(name, each)
    if inspect.isclass(value):
        return f".. autoclass:: {name}.{each}\n   :members:\n   :show-inheritance:\n"
    return f".. {'autofunction' if callable(value) else 'autodata'}:: {name}.{each}\n"
