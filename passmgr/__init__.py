"""The pass manager: contexts, passes, registry, dependencies, plans, pipelines as text, and instruments."""

from passat.passmgr.annotate_spans import AnnotateSpans
from passat.passmgr.bisect import AlreadyTrueError, BisectError, FlappingError, NeverTrueError, PassBisect, bisect_passes
from passat.passmgr.build_config import build_config
from passat.passmgr.config import ConfigOption, list_configs, register_option
from passat.passmgr.context import PassContext
from passat.passmgr.decorators import function_pass, module_pass, prim_func_pass
from passat.passmgr.dependencies import PassDependencyError
from passat.passmgr.dump import DumpIR
from passat.passmgr.executions import Execution, ExecutionTracker
from passat.passmgr.immutable import ImmutableModuleCheck
from passat.passmgr.infer_type import InferType
from passat.passmgr.instruments import PassInstrument, pass_instrument
from passat.passmgr.ir_diff import ir_diff
from passat.passmgr.memory import PassMemory, PassMemoryInstrument
from passat.passmgr.normal_forms import ToANormalForm, ToGraphNormalForm
from passat.passmgr.pass_info import EVERYTHING, PassInfo, PipelineInfo
from passat.passmgr.pass_limit import PassLimit
from passat.passmgr.passes import FunctionPass, ModulePass, Pass, PrimFuncPass
from passat.passmgr.pipeline import PipelineError, parse_pipeline, pipeline_text
from passat.passmgr.plan import Plan, Reason, Step
from passat.passmgr.print_changed import PrintIRChanged
from passat.passmgr.printing import PassPrintingInstrument, PrintAfterAll, PrintBeforeAll, PrintIR, PrintIRAfter, PrintIRBefore
from passat.passmgr.progress import PassEvent, PassProgress
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
from passat.passmgr.replaying import Replay, Reproducer, read_reproducer, replay
from passat.passmgr.reproducer import CrashReproducer, ReproducerError
from passat.passmgr.requirement_graph import GraphNode, RequirementGraph, kind_of, requirement_graph
from passat.passmgr.sequential import Sequential
from passat.passmgr.statistics import Statistics, UnknownCounterError, declared_counters
from passat.passmgr.timing import PassTime, PassTimingInstrument, render_times
from passat.passmgr.unused_functions import RemoveUnusedFunctions
from passat.passmgr.verify_each import BrokenModuleError, VerifyEach
from passat.passmgr.worker_pool import shutdown_workers

__all__ = [
    "EVERYTHING",
    "AlreadyTrueError",
    "AnnotateSpans",
    "BisectError",
    "BrokenModuleError",
    "ConfigOption",
    "CrashReproducer",
    "DumpIR",
    "Execution",
    "ExecutionTracker",
    "FlappingError",
    "FunctionPass",
    "GraphNode",
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
    "Plan",
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
    "RequirementGraph",
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
    "ir_diff",
    "kind_of",
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
    "requirement_graph",
    "shutdown_workers",
]
