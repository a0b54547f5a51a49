"""One optimization, step by step: read the model, run the passes, decide what comes back, write down where it comes from, verify it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias
from typing import Any as AnyValue

from passat.checks import READ_AND_WRITTEN, check_candidate, find_guilty
from passat.choose import programs
from passat.crash import FailureWatch, check_passes, make_reproducer
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError
from passat.ir.onnx.errors import CheckerError
from passat.measure import Measured
from passat.outcome import Decision, Outcome, begin_pricing, bytes_of
from passat.page.record import Record
from passat.passmgr import CrashReproducer, PassContext, PassEvent, PassInstrument, PassProgress, PassTimingInstrument, Sequential
from passat.pipelines import Passes, build_pipeline, is_own, text_of
from passat.report import MismatchError, Report, UnverifiedError, histogram, opaque_warnings, warnings_of
from passat.result import Result
from passat.rulefile import idle_passes
from passat.rules import RuleError, RuleSet
from passat.rules.cost import CostError
from passat.rules.disabled import check_disabled
from passat.rules.engine.interruption import interrupted
from passat.rules.engine.journal import Journal
from passat.rules.passes.target import check_domains
from passat.rules.pick import check_pick
from passat.rules.provenance.trail import Trail
from passat.runner import loads
from passat.source import ModelLike, Source, open_source
from passat.tracing import Tracing
from passat.verify import Comparing, Reference, VerifyReport
from passat.vetoes import VetoWatch

if TYPE_CHECKING:
    import os

    from onnx import ModelProto

Progress: TypeAlias = Callable[[str], None]
"""Is told in a few words what begins now."""

DEFAULT_LEVEL: Final = 3
"""The level of passes where neither the call nor a context around it says one."""


@dataclass(frozen=True)
class Wishes:
    """What is wanted beside the model, as `passat.optimize` says."""

    record: bool = False
    explain: bool = False
    certificate: bool = False


class Optimization:
    """What the steps have made so far. They are called in the order in which they stand here."""

    source: Source
    given: "ModelProto"
    """The input in the opset of the result: another object than the source's where it was converted."""
    module: IRModule
    """The same, read."""
    pipeline: Sequential
    outcome: Outcome
    _optimised: IRModule
    _context: PassContext
    _crash: CrashReproducer | None
    _accepted: bool
    """Whether `onnx.checker` has accepted the result: another one is written unchecked."""

    def __init__(
        self, level: int | None, options: Mapping[str, AnyValue], how: Comparing, wishes: Wishes, progress: Progress | None = None
    ) -> None:
        self.report = Report()
        self._tell = progress or _silent
        self._how = how
        self._wishes = wishes
        self._level = level
        self._options = dict(options)
        self._outer = PassContext.entered()
        self._surroundings = self._outer or PassContext(DEFAULT_LEVEL)
        journal: Journal | None = options.get("rules.journal") or self._surroundings.get_config("rules.journal")
        if (wishes.record or wishes.explain or wishes.certificate) and journal is None:
            journal = self._options["rules.journal"] = Journal()
        self._journal = journal
        self._runs_before = 0 if journal is None else len(journal.runs)
        self._runs_after = 0
        traced = journal is not None and (wishes.explain or wishes.certificate)
        self._tracing = Tracing(journal) if journal is not None and traced else None
        own = Trail(journal) if wishes.record and journal is not None else None
        self._trail = own if self._tracing is None else self._tracing.trail
        self._settings = self._surroundings.inside(level, self._options).with_instruments()
        self._prices = begin_pricing(self._settings, self.report)
        self._vetoes = VetoWatch()
        self._record: Record | None = None

    def read(self, model: ModelLike, folder: "str | os.PathLike[str] | None", opset: int | None) -> None:
        """Reads the model, converted to a later opset where one is given. Raises OnnxError, InputsError."""
        report = self.report
        with report.clock("read"):
            self._tell("reading the model")
            self._opset = opset
            self.source = source = open_source(model, folder)
            if self._how.given is not None:
                from passat.declared_inputs import declared_inputs

                self._how.given.sizes(declared_inputs(source.proto))
            report.source = source.name
            report.nodes_before, report.bytes_before = histogram(source.proto), bytes_of(source.proto)
            self.given, self.module = source.read(opset)
            report.warnings = warnings_of(self.module)

    def run(
        self,
        passes: Passes,
        rules: Sequence[type[RuleSet]],
        instruments: Sequence[PassInstrument],
        reproducer: "str | os.PathLike[str] | None",
        files: "Sequence[str | os.PathLike[str]]" = (),
    ) -> None:
        """Runs the passes. `instruments` run around them; `reproducer` is the folder that is written where one raises; `files` are the
        rule files that are loaded.

        Raises PipelineError, PassError, ReproducerError.
        """
        self.pipeline = pipeline = self._settings.run(build_pipeline, passes, rules)
        plan = pipeline.plan(self._settings)
        steps = list(plan.walk())
        self.report.warnings += idle_passes(files, {step.name for step in steps})
        self.report.pipeline = text_of(pipeline)
        check_pick(self._settings, [step.pass_ for step in steps])
        check_disabled(self._settings, [step.pass_ for step in steps])
        check_domains(self.module, self._settings, [step.pass_ for step in steps])
        source, self._crash = self.source, None
        if reproducer is not None:
            self._crash = make_reproducer(reproducer, pipeline, model=source.proto, path=source.path, passes=passes, rules=rules)
        with self.report.clock("passes"):
            timing, watch = PassTimingInstrument(), FailureWatch()
            counting = PassProgress(partial(_announce, self._tell), plan)
            around = [self._vetoes, timing, counting, watch, *filter(None, (self._crash, self._trail)), *instruments]
            self._context = context = self._surroundings.inside(self._level, self._options, around)
            try:
                with source.named(), _told(watch, self._crash), context:
                    self._optimised = self.module if interrupted() else pipeline(self.module)
            finally:
                if self._outer is not None:
                    self._outer.statistics.add(context.statistics)
            inner = [run._replace(depth=run.depth - 1) for run in timing.timings if run.depth]
            own_passes = {step.name for step in steps if is_own(step.pass_)}
            self.report.take_statistics(context.statistics, inner, (rule.name for own in rules for rule in own.rules), own_passes)

    def decide(self, candidates: int = 0) -> None:
        """Decides between the input and what came of it: by time, of so many candidates, where there are any, else by cost."""
        report = self.report
        with report.clock("write"):
            self._tell("pricing the result")
            self._runs_after = 0 if self._journal is None else len(self._journal.runs)
            decision = Decision(report, self.source, self.given, self.module, self._settings, self._prices)
            try:
                found = self._fastest(decision, candidates) if candidates else None
                self.outcome = found or decision.cheaper(self._optimised, None if self._tracing is None else self._tracing.written)
                if report.kept and self.given is not self.source.proto:
                    report.kept += f"; it was converted to opset {self._opset}"
                report.warnings += opaque_warnings(self.outcome.module)
                if isinstance(self._prices, Measured):
                    report.cost_notes += self._prices.notes()
            except CostError:
                raise
            except Exception:
                # A pass that broke the module is who is to be named.
                check_passes(self.pipeline, self.module, self._settings.with_instruments([self._vetoes.again()]), self._crash)
                raise
        report.seconds["write"] -= report.seconds.get("choose", 0.0)

    def _fastest(self, decision: Decision, candidates: int) -> Outcome | None:
        with self.report.clock("choose"):
            rivals = programs(
                *(self.pipeline, self.module, self._optimised, self._settings, candidates),
                statistics=self._context.statistics,
                tell=self._tell,
                notes=self.report.cost_notes,
            )
            self._tell("timing the candidates on ONNX Runtime")
            return decision.fastest(rivals, self._how)

    def check_form(self, *, unchanged: bool) -> None:
        """Asks `onnx.checker` about the result; with `unchanged` also where that is the input itself.

        Where the checker does not accept the input either, ONNX Runtime decides. Raises OnnxError.
        """
        from passat.ir.onnx.files import check_model

        source, model = self.source, self.outcome.model
        self._accepted = True
        if model is source.proto and not unchanged:
            return
        self._tell("checking the result")
        try:
            check_model(model)
        except CheckerError as error:
            if (model is not source.proto and source.is_accepted) or not loads(source.original, source.folder):
                raise error.about(source.name) from error
            self._accepted = False
            self.report.warnings.append(f"ONNX Runtime loads the input, but {error}")

    def write_down(self) -> None:
        """Writes down what was wanted beside the model: where nodes come from, the certificate, and what a page shows."""
        report, outcome, wishes, tracing = self.report, self.outcome, self._wishes, self._tracing
        if tracing is not None:
            with report.clock("explain"):
                if wishes.explain:
                    self._tell("writing down where its nodes come from")
                    tracing.annotate(outcome.model, self.source.proto, outcome.module, report)
                if wishes.certificate:
                    self._tell("writing the certificate")
                    tracing.certify(outcome.model, self.source.folder, self.module, self._optimised, report)
        if wishes.record and self._journal is not None:
            from passat.page.statistics import add_statistics

            passed = [] if self._trail is None else self._trail.since(self._runs_before)
            runs, after = self._journal.runs[self._runs_before :], self._runs_after - self._runs_before
            self._record = Record(self.module, outcome.module, self.pipeline.plan(outcome.settings), runs, after, passed)
            add_statistics(report, self._record)

    def verify(self, *, required: bool = True) -> None:
        """Compares the result with the input, unless it is the input.

        Raises OnnxError, VerifyError, InputsError, MismatchError, and UnverifiedError where a comparison is `required` and not possible.
        """
        report, outcome, source, tell = self.report, self.outcome, self.source, self._tell
        if outcome.model is source.proto:
            return
        with report.clock("verify"):
            tell("comparing with the original on ONNX Runtime")
            reference = Reference(source.original, self._how, folder=source.folder)
            report.verification = check_candidate(reference, outcome.model, source.folder)
            if report.verification.equal is False:
                tell("looking for the pass that changed the values")
                settings = outcome.settings.with_instruments([self._vetoes.again()])
                guilty = find_guilty(reference, self.pipeline, self.module, settings, source.folder)
                report.verification = replace(report.verification, guilty=guilty)
                raise MismatchError(_accusation(report.verification), report)
            if report.verification.equal is None and required:
                raise UnverifiedError(
                    f"nothing shows that the optimised model computes what the original does: {report.verification.skipped}; "
                    "--allow-unverified, or allow_unverified=True, goes on without",
                    report,
                )

    @property
    def result(self) -> Result:
        """What comes back."""
        return Result(self.outcome.model, self.report, self.source.folder, self._record, self._tracing, accepted=self._accepted)


def _accusation(report: VerifyReport) -> str:
    if not report.guilty:
        where = "no single pass shows the difference when the pipeline runs again"
    elif report.guilty == READ_AND_WRITTEN:
        where = "it differs already when it is only read and written again, which is an error in Passat"
    else:
        where = f"the difference comes from the pass {report.guilty}"
    return f"the optimised model computes something else than the original: {report.mismatch}; {where}"


def _announce(tell: Progress, event: PassEvent) -> None:
    """Tells which pass begins."""
    if event.kind == "begun" and not event.pipeline:
        tell(str(event))


@contextmanager
def _told(watch: FailureWatch, reproducer: CrashReproducer | None) -> Iterator[None]:
    """Turns what a pass raises into the sentence that names it."""
    try:
        yield
    except Exception as error:
        accusation = watch.accuse(error, reproducer)
        # None of these is the fault of a pass; an OnnxError is a tensor of the model whose contents are looked at for the first time.
        if (
            accusation is None
            or isinstance(error, (CostError, MemoryError, OnnxError))
            or (isinstance(error, RuleError) and not reproducer)
        ):
            raise
        raise accusation from error


def _silent(_: str) -> None:
    """Nobody listens."""
