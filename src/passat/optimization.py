"""The steps of an optimization around the choice of the result and its acceptance: read the model, run the passes, record provenance."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from passat.crash import FailureWatch, make_reproducer
from passat.feeds import declared_inputs
from passat.ir.onnx import OnnxError
from passat.ir.onnx.errors import require_onnx
from passat.job import Given, Job, Made, Outcome
from passat.log import LOG
from passat.passmgr import CrashReproducer, PassEvent, PassProgress, PassTimingInstrument
from passat.passmgr.inspection.checks import KeptFunctionsCheck
from passat.pipelines import build_pipeline, is_own, text_of
from passat.report import bytes_of, histogram, warnings_of
from passat.rulefile import idle_passes
from passat.rules import RuleError
from passat.rules.cost import CostError
from passat.rules.engine.limits import interrupted
from passat.rules.passes.target import check_domains
from passat.rules.planned_rules import check_disabled, check_pick, disabled_in_vain, why_not_run
from passat.source import ModelLike, open_source

if TYPE_CHECKING:
    pass


def read(job: Job, model: ModelLike) -> Given:
    """Reads the model, converted to a later opset if requested. Raises OnnxError, InputsError."""
    report = job.report
    require_onnx()
    for part in ("importer", "files"):  # imported before the time of reading begins
        import_module(f"passat.ir.onnx.{part}")
    with report.clock("read"):
        job.tell("reading the model")
        source = open_source(model, job.wanted.folder)
        report.source = source.name
        report.nodes_before, report.bytes_before = histogram(source.proto), bytes_of(source.proto)
        source = source.specialized(job.wanted)
        if job.how.given is not None:
            job.how.given.sizes(declared_inputs(source.proto))
        proto, module = source.read(job.wanted.opset)
        report.warnings = warnings_of(module)
    return Given(source, proto, module)


def run(job: Job, given: Given) -> Made:
    """Runs the passes. Raises PipelineError, PassError, ReproducerError."""
    wanted, report, source = job.wanted, job.report, given.source
    pipeline = job.context.run(build_pipeline, wanted.passes, job.rules)
    plan = pipeline.plan(job.context)
    steps = list(plan.walk())
    passes = [step.pass_ for step in steps]
    report.warnings += [*plan.unknown, *idle_passes(job.files, steps), *disabled_in_vain(plan, job.context)]
    report.pipeline = text_of(pipeline)
    check_pick(job.context, steps)
    check_disabled(job.context, passes)
    check_domains(given.module, job.context, passes)
    crash = None
    if wanted.reproducer is not None:
        crash = make_reproducer(wanted.reproducer, pipeline, model=source.proto, path=source.path, passes=wanted.passes, rules=job.rules)

    def announce(event: PassEvent) -> None:
        if event.stage or (event.pipeline and not event.number):
            return  # the work of a pass of a stage is part of the stage
        if event.kind == "begun":
            job.tell(str(event))
        else:
            LOG.debug("%s after %.3f s", event, event.seconds)

    with report.clock("passes"):
        timing, watch = PassTimingInstrument(), FailureWatch()
        noting = [] if job.tracing is None else [job.tracing.pass_trace]
        watching = [watch, *([crash] if crash else []), KeptFunctionsCheck()]
        around = [job.vetoes, timing, PassProgress(announce, plan), *watching, *noting, *wanted.instruments]
        context = job.around.inside(wanted.opt_level, job.context.config, around)
        try:
            with source.named(), _told(watch, crash), context:
                module = given.module if interrupted() else pipeline(given.module)
        finally:
            job.around.statistics.add(context.statistics)
        inner = [run._replace(depth=run.depth - 1) for run in timing.timings if run.depth]
        ran = None if interrupted() else {run.name for run in inner}
        own_rules = {rule.name: why_not_run(rule, plan, job.context, ran).why for sets in job.rules for rule in sets.rules}
        report.take_statistics(context.statistics, inner, own_rules, {step.name for step in steps if is_own(step.pass_)})
    return Made(module, pipeline, context, crash)


@contextmanager
def _told(watch: FailureWatch, reproducer: CrashReproducer | None) -> Iterator[None]:
    """Turns an exception of a pass into the error that names it."""
    try:
        yield
    except Exception as error:
        accusation = watch.accuse(error, reproducer)
        # None of these is caused by a pass; an OnnxError is about a tensor of the model whose contents are read for the first time.
        if (
            accusation is None
            or isinstance(error, (CostError, MemoryError, OnnxError))
            or (isinstance(error, RuleError) and not reproducer)
        ):
            raise
        raise accusation from error


def write_down(job: Job, given: Given, made: Made, outcome: Outcome) -> None:
    """Records what was requested besides the model: provenance, the certificate, and the data of the report page."""
    wanted, report, tracing = job.wanted, job.report, job.tracing
    if tracing is None:
        return
    if wanted.explain or wanted.certificate:
        with report.clock("explain"):
            if wanted.explain:
                job.tell("writing down where its nodes come from")
                tracing.annotate(outcome.model, given.source.proto, given.module, outcome.module, report)
            if wanted.certificate:
                job.tell("writing the certificate")
                tracing.certify(outcome.model, given.source.folder, given.module, made.module, report)
    if wanted.record:
        from passat.page.origins import Record, add_statistics

        runs, first = tracing.trace.runs[tracing.begin :], tracing.end - tracing.begin
        pass_events = tracing.pass_trace.since(tracing.begin)
        tracing.record = Record(
            models=(given.source.proto, outcome.model),
            folder=given.source.folder,
            before=given.module,
            after=outcome.module,
            written=tracing.written,
            prices=job.prices,
            plan=made.pipeline.plan(outcome.context),
            runs=runs,
            first=first,
            pass_events=pass_events,
        )
        add_statistics(report, tracing.record)
