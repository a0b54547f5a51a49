"""What most commands import and compile first. The server of `tests/processes.py` imports this file once, and the processes that it forks
have all of it. Neither egglog nor a session of ONNX Runtime may start here: their threads do not survive a fork."""

import gc
import importlib
from typing import Final

from passat.rules.engine.directions import Directions, expanded
from passat.rules.library import rule_sets
from passat.rules.passes import default_pipeline
from passat.rules.planned_rules import leaves
from passat.rules.rule import EAGER, MULTI_PATTERN
from passat.rules.rule_pass import RulePass

MODULES: Final = (
    *("passat.cli", "passat.certificates", "passat.optimizer", "passat.relay", "passat.render", "passat.rules.checking.check_sets"),
    *("passat.rules.joint", "passat.rules.library", "passat.rules.why_not", "passat.ir.onnx.counterparts", "passat.ir.onnx.cutting"),
    *("passat.ir.onnx.exporter", "passat.ir.onnx.files", "passat.ir.onnx.importer", "passat.ir.onnx.same_graph", "passat.ir.onnx.sizes"),
    *("passat.ir.onnx.undeclared", "passat.ir.onnx.writable", "networkx", "numpy.ma", "onnx", "onnxruntime", "pydantic.fields"),
    *("pydantic.json_schema", "pydantic.type_adapter", "rich.console", "typer.main"),
)


def _compile_rules() -> None:
    """Expands the rules of the library, and compiles the left sides of those of the default passes. The results are cached by rule."""
    for rules in rule_sets().values():
        for rule in rules:
            expanded(rule)
    for pass_ in leaves(default_pipeline()):
        for rule in pass_.declared if isinstance(pass_, RulePass) else ():
            for matcher in Directions(rule).matchers if rule.kind not in (EAGER, MULTI_PATTERN) else ():
                assert matcher.makes
                assert matcher.variants


for name in MODULES:
    importlib.import_module(name)
_compile_rules()
gc.collect()
gc.freeze()
