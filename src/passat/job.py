"""The state that the steps of an optimization share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from passat.ir.module import IRModule
from passat.measure import Measured
from passat.passmgr import CrashReproducer, PassContext, PassInfo, PassInstrument, Sequential
from passat.passmgr.pass_info import StageInfo
from passat.report import Report
from passat.rulefile import PathLike, read_rules
from passat.rules import RuleSet
from passat.rules.cost import CostModel, Roofline, cost_model
from passat.rules.engine.trace import Trace
from passat.settings import DEFAULT_LEVEL, Settings, telling
from passat.source import Source
from passat.verify import Comparing, Reference, comparing

if TYPE_CHECKING:
    from onnx import ModelProto

    from passat.explaining import Tracing


class VetoWatch(PassInstrument):
    """Records which passes the instruments behind it vetoed, in order; `again()` replays the vetoes."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, bool]] = []

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Assumes a veto until the pass runs."""
        self.answers.append((info.name, False))
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Records that the pass was not vetoed. A pass that the context requires is not asked, so its name differs from the last answer.
        A run without stages does not ask about stages."""
        if self.answers and self.answers[-1] == (info.name, False):
            self.answers[-1:] = [] if isinstance(info, StageInfo) else [(info.name, True)]

    def again(self) -> "PassInstrument":
        """An instrument that repeats the vetoes."""
        return _SameVetoes(tuple(self.answers))


class _SameVetoes(PassInstrument):
    def __init__(self, answers: tuple[tuple[str, bool], ...]) -> None:
        self._answers = answers
        self._next = 0

    def enter_pass_ctx(self) -> None:
        self._next = 0

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        if self._next == len(self._answers) or self._answers[self._next][0] != info.name:
            return True
        self._next += 1
        return self._answers[self._next - 1][1]


@dataclass(frozen=True, eq=False)
class Job:
    """The state of an optimization: the settings and the report; the user's rule sets and the files that were read; the surrounding
    context, and that of the passes, without instruments; how models are compared and priced; vetoes of instruments; the traces."""

    wanted: Settings
    report: Report
    rules: Sequence[type[RuleSet]]
    files: Sequence[PathLike]
    around: PassContext
    context: PassContext
    how: Comparing
    prices: CostModel
    vetoes: VetoWatch
    tracing: "Tracing | None"

    def tell(self, text: str) -> None:
        """Reports the step that begins."""
        telling(self.wanted.progress)(text)


@dataclass(frozen=True, eq=False)
class Given:
    """The input: its source, its proto in the opset of the result (a different object only after conversion), and its module."""

    source: Source
    proto: "ModelProto"
    module: IRModule

    def reference(self, how: Comparing) -> Reference:
        """The input, to which results are compared. Raises OnnxError, VerifyError."""
        return Reference(self.source.runnable, how, folder=self.source.folder, proto=self.source.read_before)


@dataclass(frozen=True, eq=False)
class Made:
    """The output of the passes, the pipeline, its context, and the reproducer."""

    module: IRModule
    pipeline: Sequential
    context: PassContext
    crash: CrashReproducer | None


@dataclass(frozen=True, eq=False)
class Outcome:
    """The resulting model, its module, and the settings of its passes."""

    model: "ModelProto"
    module: IRModule
    context: PassContext


def begin(wanted: Settings) -> Job:
    """Reads rules and inputs, and creates the settings of the passes. Raises RuleFileError, InputsError, CostError, AttributeError,
    ArgumentError."""
    rules, files = read_rules(wanted.rules)
    how = comparing(wanted.seed, wanted.inputs, wanted.rtol, wanted.atol)
    around = PassContext.entered() or PassContext(DEFAULT_LEVEL)
    options, tracing = wanted.options, None
    if wanted.record or wanted.explain or wanted.certificate:
        trace = options.get("rules.trace") or around.get_config("rules.trace") or Trace()
        options["rules.trace"] = trace
        from passat.explaining import Tracing  # imports all of explanations and certificates

        tracing = Tracing(trace)
    report, context = Report(), around.inside(wanted.opt_level, options).with_instruments()
    return Job(wanted.in_context(context), report, rules, files, around, context, how, _prices(context, report), VetoWatch(), tracing)


def _prices(context: PassContext, report: Report) -> CostModel:
    """The cost model of the passes, which the report names. Raises CostError."""
    named = context.get_config("rules.cost")
    model = cost_model(named, context.get_config("rules.machine"))
    report.cost_model = named if isinstance(named, str) else type(model).__name__
    report.cost_in_seconds = isinstance(model, (Roofline, Measured))
    if isinstance(model, Measured):
        model.begin()
    return model
