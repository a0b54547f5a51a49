"""The pass manager: contexts, passes, registry, dependencies, plans, pipelines as text, and instruments."""

from passat.passmgr.config import ConfigOption, list_configs, register_option
from passat.passmgr.context import PassContext
from passat.passmgr.decorators import function_pass, module_pass
from passat.passmgr.dependencies import PassDependencyError
from passat.passmgr.infer_type import InferType
from passat.passmgr.instruments import PassInstrument, pass_instrument
from passat.passmgr.pass_info import EVERYTHING, PassInfo
from passat.passmgr.passes import FunctionPass, ModulePass, Pass
from passat.passmgr.pipeline import PipelineError, parse_pipeline, pipeline_text
from passat.passmgr.plan import Plan, Reason, Step
from passat.passmgr.registry import (
    PassEntry,
    PassOptionError,
    UnknownPassError,
    add_pass_source,
    get_entry,
    get_pass,
    list_passes,
    register_pass,
)
from passat.passmgr.sequential import Sequential
from passat.passmgr.statistics import Statistics
from passat.passmgr.timing import PassTime, PassTimingInstrument

__all__ = [
    "EVERYTHING",
    "ConfigOption",
    "FunctionPass",
    "InferType",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassDependencyError",
    "PassEntry",
    "PassInfo",
    "PassInstrument",
    "PassOptionError",
    "PassTime",
    "PassTimingInstrument",
    "PipelineError",
    "Plan",
    "Reason",
    "Sequential",
    "Statistics",
    "Step",
    "UnknownPassError",
    "add_pass_source",
    "function_pass",
    "get_entry",
    "get_pass",
    "list_configs",
    "list_passes",
    "module_pass",
    "parse_pipeline",
    "pass_instrument",
    "pipeline_text",
    "register_option",
    "register_pass",
]
