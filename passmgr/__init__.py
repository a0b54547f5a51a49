"""The pass manager: contexts, passes, registry, dependencies, plans, pipelines as text, and instruments."""

from passat.passmgr.build_config import build_config
from passat.passmgr.config import ConfigError, ConfigOption, list_configs, register_option
from passat.passmgr.context import PassContext
from passat.passmgr.debugging.bisect import AlreadyTrueError, BisectError, FlappingError, NeverTrueError, PassBisect, bisect_passes
from passat.passmgr.debugging.executions import Execution, ExecutionTracker
from passat.passmgr.debugging.pass_limit import PassLimit
from passat.passmgr.debugging.replaying import Replay, Reproducer, read_reproducer, replay
from passat.passmgr.debugging.reproducer import CrashReproducer, ReproducerError
from passat.passmgr.decorators import function_pass, module_pass, prim_func_pass
from passat.passmgr.inspection.dump import DumpIR
from passat.passmgr.inspection.immutable import ImmutableModuleCheck
from passat.passmgr.inspection.ir_diff import ir_diff
from passat.passmgr.inspection.memory import PassMemory, PassMemoryInstrument
from passat.passmgr.inspection.print_changed import PrintIRChanged
from passat.passmgr.inspection.printing import PassPrintingInstrument, PrintAfterAll, PrintBeforeAll, PrintIR, PrintIRAfter, PrintIRBefore
from passat.passmgr.inspection.progress import PassEvent, PassProgress
from passat.passmgr.inspection.timing import PassTime, PassTimingInstrument, render_times
from passat.passmgr.inspection.verify_each import BrokenModuleError, VerifyEach
from passat.passmgr.instruments import PassInstrument, pass_instrument
from passat.passmgr.pass_info import EVERYTHING, PassInfo, PipelineInfo, Place
from passat.passmgr.passes import FunctionPass, ModulePass, Pass, PrimFuncPass
from passat.passmgr.pipeline import PipelineError, parse_pipeline, pipeline_text
from passat.passmgr.planning.dependencies import PassDependencyError
from passat.passmgr.planning.places import in_order, with_landed
from passat.passmgr.planning.plan import Plan, Reason, Step
from passat.passmgr.registry import (
    PassEntry,
    PassOptionError,
    PluginError,
    UnknownPassError,
    add_pass_source,
    get_entry,
    get_pass,
    list_passes,
    register_pass,
)
from passat.passmgr.sequential import Sequential
from passat.passmgr.standard.annotate_spans import AnnotateSpans
from passat.passmgr.standard.infer_type import InferType
from passat.passmgr.standard.normal_forms import ToANormalForm, ToGraphNormalForm
from passat.passmgr.standard.unused_functions import RemoveUnusedFunctions
from passat.passmgr.statistics import Statistics, UnknownCounterError, declared_counters

__all__ = [
    "EVERYTHING",
    "AlreadyTrueError",
    "AnnotateSpans",
    "BisectError",
    "BrokenModuleError",
    "ConfigError",
    "ConfigOption",
    "CrashReproducer",
    "DumpIR",
    "Execution",
    "ExecutionTracker",
    "FlappingError",
    "FunctionPass",
    "ImmutableModuleCheck",
    "InferType",
    "ModulePass",
    "NeverTrueError",
    "Pass",
    "PassBisect",
    "PassContext",
    "PassDependencyError",
    "PassEntry",
    "PassEvent",
    "PassInfo",
    "PassInstrument",
    "PassLimit",
    "PassMemory",
    "PassMemoryInstrument",
    "PassOptionError",
    "PassPrintingInstrument",
    "PassProgress",
    "PassTime",
    "PassTimingInstrument",
    "PipelineError",
    "PipelineInfo",
    "Place",
    "Plan",
    "PluginError",
    "PrimFuncPass",
    "PrintAfterAll",
    "PrintBeforeAll",
    "PrintIR",
    "PrintIRAfter",
    "PrintIRBefore",
    "PrintIRChanged",
    "Reason",
    "RemoveUnusedFunctions",
    "Replay",
    "Reproducer",
    "ReproducerError",
    "Sequential",
    "Statistics",
    "Step",
    "ToANormalForm",
    "ToGraphNormalForm",
    "UnknownCounterError",
    "UnknownPassError",
    "VerifyEach",
    "add_pass_source",
    "bisect_passes",
    "build_config",
    "declared_counters",
    "function_pass",
    "get_entry",
    "get_pass",
    "in_order",
    "ir_diff",
    "list_configs",
    "list_passes",
    "module_pass",
    "parse_pipeline",
    "pass_instrument",
    "pipeline_text",
    "prim_func_pass",
    "read_reproducer",
    "register_option",
    "register_pass",
    "render_times",
    "replay",
    "with_landed",
]
