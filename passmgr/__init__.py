"""The pass manager: contexts, passes, the registry, dependencies, plans, pipeline text, and instruments."""

from passat.passmgr.closures import EtaExpand, LambdaLift
from passat.passmgr.context import PassContext
from passat.passmgr.continuations import ToCPS, UnCPS
from passat.passmgr.debugging.bisect import AlreadyTrueError, BisectError, FlappingError, NeverTrueError, PassBisect, bisect_passes
from passat.passmgr.debugging.executions import Execution, ExecutionTracker, PassLimit
from passat.passmgr.debugging.replaying import Replay, Reproducer, read_reproducer, replay
from passat.passmgr.debugging.reproducer import CrashReproducer, ReproducerError
from passat.passmgr.decorators import function_pass, module_pass, prim_func_pass
from passat.passmgr.gradients import FirstOrderGradient, LazyGradientInit
from passat.passmgr.inspection.checks import BrokenModuleError, ImmutableModuleCheck, VerifyEach
from passat.passmgr.inspection.ir_diff import ir_diff
from passat.passmgr.inspection.print_changed import PrintIRChanged
from passat.passmgr.inspection.printing import (
    DumpIR,
    PassPrintingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    PrintIR,
    PrintIRAfter,
    PrintIRBefore,
)
from passat.passmgr.inspection.resources import PassMemory, PassMemoryInstrument, PassTime, PassTimingInstrument, render_times
from passat.passmgr.instruments import PassEvent, PassInstrument, PassProgress, pass_instrument
from passat.passmgr.options import ConfigError, ConfigOption, list_configs, register_option
from passat.passmgr.pass_info import (
    EVERYTHING,
    PassInfo,
    PipelineInfo,
    Place,
    StageInfo,
    Statistics,
    UnknownCounterError,
    declared_counters,
)
from passat.passmgr.passes import FunctionPass, ModulePass, Pass, PrimFuncPass
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
from passat.passmgr.sequential import PipelineError, Sequential, parse_pipeline, pipeline_text
from passat.passmgr.standard import (
    AnnotateSpans,
    InferType,
    Inline,
    RemoveUnusedFunctions,
    ToANormalForm,
    ToBasicBlockNormalForm,
    ToGraphNormalForm,
)

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
    "EtaExpand",
    "Execution",
    "ExecutionTracker",
    "FirstOrderGradient",
    "FlappingError",
    "FunctionPass",
    "ImmutableModuleCheck",
    "InferType",
    "Inline",
    "LambdaLift",
    "LazyGradientInit",
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
    "StageInfo",
    "Statistics",
    "Step",
    "ToANormalForm",
    "ToBasicBlockNormalForm",
    "ToCPS",
    "ToGraphNormalForm",
    "UnCPS",
    "UnknownCounterError",
    "UnknownPassError",
    "VerifyEach",
    "add_pass_source",
    "bisect_passes",
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
