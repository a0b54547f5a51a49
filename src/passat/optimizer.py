"""`passat.optimize`: reads a model, runs the passes, verifies what is chosen, and returns a `Result`."""

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, ParamSpec, Protocol, get_args, get_origin

from passat import apart
from passat.acceptance import LooseRulesError, is_accepted, verify
from passat.crash import FailureWatch, make_reproducer
from passat.feeds import declared_inputs
from passat.ir.argument_checks import PATH, ArgumentError, kind
from passat.ir.collector import collector_paused
from passat.ir.counting import counted
from passat.ir.onnx import OnnxError
from passat.ir.onnx.errors import require_onnx
from passat.job import Given, Job, Made, Outcome, begin
from passat.kernel_library import library_beside, write_library
from passat.outcome import choose
from passat.passmgr import PassEvent, PassProgress, PassTimingInstrument
from passat.passmgr.inspection.checks import KeptFunctionsCheck
from passat.pipelines import EMPTY_PIPELINE, build_pipeline, is_own, text_of
from passat.report import KERNELS, Report, bytes_of, histogram, warnings_of
from passat.rulefile import idle_passes
from passat.rules import RuleError
from passat.rules.cost import CostError
from passat.rules.engine.limits import interrupted, interruptible
from passat.rules.passes.target import check_domains
from passat.rules.planned_rules import check_disabled, check_pick, disabled_in_vain, why_not_run
from passat.runner import custom_operators
from passat.settings import LOG, Settings, settings_of
from passat.source import ModelLike, about, open_source
from passat.verify import Reference

if TYPE_CHECKING:
    from onnx import ModelProto

    from passat.certificates import Certificate
    from passat.explaining import Explanation, Tracing
    from passat.page.origins import Record


class Result:
    """An optimized model and its report.

    `model` is the ModelProto; if the input was a file with external data, it still refers to that data, and `save` copies it.
    """

    def __init__(
        self,
        model: "ModelProto",
        report: Report,
        folder: str | None,
        tracing: "Tracing | None" = None,
        *,
        accepted: bool = True,
        library: bytes = b"",
    ) -> None:
        self.model = model
        self.report = report
        self.library = library
        """The model's kernel library, if it has kernels; `save` writes it beside the model, or removes that of an earlier model."""
        self.former_data: list[str] = []
        """The external data files of the model that the last `save` replaced which are left. `model` still refers to those of its input,
        and other models may need them."""
        self._tracing = tracing
        self._folder = folder
        self._accepted = accepted

    @property
    def record(self) -> "Record | None":
        """The data for `write_report`, if recorded."""
        return None if self._tracing is None else self._tracing.record

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model atomically, through a temporary file. `onnx.checker` checks it, unless it rejected both the input and this
        model, or this is the unverified input.

        Raises OnnxError, without writing.
        """
        from passat.ir.onnx.files import save_module  # needs onnx

        kind(PATH, "the path of a file")("path", path)
        path = os.fsdecode(path)
        if not path:
            raise OnnxError("the path of the file to write is empty")
        LOG.info("writing %s", path)
        with self.report.clock("save"), about(self.report.source, path):
            write_library(self.library, self.model, path)
            self.former_data = save_module(self.model, path, folder=self._folder, check=self._accepted)
        self.report.output = path

    def explain(self, node: str | None = None) -> "Explanation":
        """The provenance of all nodes, or of those with a name. Raises ExplainError for an unknown name, and if `optimize` ran without
        `explain=True`."""
        kind((str, type(None)), "the name of a node")("node", node)
        if self._tracing is None or self._tracing.explanation is None:
            from passat.explaining import ExplainError

            raise ExplainError("the provenance was not recorded; use optimize(..., explain=True)")
        return self._tracing.explanation if node is None else self._tracing.explanation.of(node)

    @property
    def certificate(self) -> "Certificate":
        """The certificate (`passat.certificates`), plain data for JSON. Raises CertificateError if `optimize` ran without
        `certificate=True`."""
        if self._tracing is None or self._tracing.certificate is None:
            from passat.rules.provenance.plain import CertificateError

            raise CertificateError("no certificate was created; use optimize(..., certificate=True)")
        return self._tracing.certificate

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Writes a self-contained HTML page: the program before and after, rules, e-graphs, times, pass order.

        Raises ValueError if `optimize` ran without `record=True`, OSError if the file cannot be written.
        """
        kind(PATH, "the path of a file")("path", path)
        path = os.fsdecode(path)
        if not path:
            raise ArgumentError("the path of the file to write is empty")
        if self.record is None:
            raise ValueError("nothing was recorded for a page; use optimize(..., record=True)")
        from passat.page.document import write_page

        write_page(path, self.report, self.record)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    def __repr__(self) -> str:
        report = self.report
        verified = report.verification is not None and report.verification.equal
        notes = f"{', with kernels' if self.library else ''}{', verified' if verified else ''}"
        return f"<Result: {counted(report.node_count_before, 'node')} became {report.node_count_after}{notes}>"


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
    if not any(step.runs for step in steps if step.pass_.members is None):
        report.warnings.append("no pass runs: `passat order` says why" if steps else EMPTY_PIPELINE)
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
            with source.named(), context:
                module = given.module if interrupted() else pipeline(given.module)
        except (CostError, MemoryError, OnnxError):
            raise  # not caused by a pass; an OnnxError is about a tensor of the model whose contents are read for the first time
        except Exception as error:
            accusation = watch.accuse(error, crash)
            if accusation is None or (isinstance(error, RuleError) and not crash):
                raise
            raise accusation from error
        finally:
            job.around.statistics.add(context.statistics)
        inner = [run._replace(depth=run.depth - 1) for run in timing.timings if run.depth]
        ran = None if interrupted() else {run.name for run in inner}
        own_rules = {rule.name: why_not_run(rule, plan, job.context, ran).why for sets in job.rules for rule in sets.rules}
        report.take_statistics(context.statistics, inner, own_rules, {step.name for step in steps if is_own(step.pass_)})
    return Made(module, pipeline, context, crash)


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


_P = ParamSpec("_P")


def optimize_with(model: ModelLike, wanted: Settings) -> Result:
    """Optimizes a model with the given settings (see `optimize`)."""
    with collector_paused():  # until all is released: what lives during the work would be searched once more after it
        return _optimized(model, wanted)


def _optimized(model: ModelLike, wanted: Settings, reference: Reference | None = None) -> Result:
    if wanted.verify:
        apart.start()  # ready when it is needed
    with custom_operators(tuple(wanted.custom_ops)):
        job = begin(wanted)
        with interruptible() as asked:
            given = read(job, model)
            made = run(job, given)
            outcome = choose(job, given, made)
        job.report.interrupted = asked.requested
        accepted = is_accepted(job, given, outcome)
        write_down(job, given, made, outcome)
        if wanted.verify:
            try:
                verify(job, given, made, outcome, reference)
            except LooseRulesError as error:
                return _without(error, job, given)
        model_, library = _with_kernels(job, given, outcome.model) if wanted.kernels else (outcome.model, b"")
    _log(job.report)
    if not library and given.source.in_file:
        library = library_beside(model_, given.source.name)
    return Result(model_, job.report, given.source.folder, job.tracing, accepted=accepted, library=library)


def _with_kernels(job: Job, given: Given, model: "ModelProto") -> "tuple[ModelProto, bytes]":
    """The model with kernels and their library, if that is faster; else the model, and no library.

    Kernels are compared with the model without them. If that is the input, this is the verification of the result.
    """
    from passat.kernels import with_kernels  # few models need the runtime
    from passat.render import values_text

    job.tell("making kernels")
    report = job.report
    with report.clock("kernels"):
        found = with_kernels(model, report.node_count_after, given.source.folder, job.how)
    report.remarks.append(found.said)
    if found.model is None or found.verification is None:
        return model, b""
    if model is given.source.proto:
        report.verification = found.verification
    else:
        report.remarks.append(f"{KERNELS}compared with the model without them: {values_text(found.verification)}")
    if report.kept:
        report.remarks.append(f"{KERNELS}added to the input itself: {report.kept}")
        report.kept = ""
    report.nodes_after, report.bytes_after = histogram(found.model), bytes_of(found.model)
    return found.model, found.library


def _log(report: Report) -> None:
    """Logs the outcome and the warnings."""
    for warning in (*report.warnings, *report.limits):
        LOG.warning("%s: %s", report.source, warning)
    if report.kept:
        LOG.info("the input is returned: %s", report.kept)
    LOG.info("%d nodes became %d", report.node_count_before, report.node_count_after)


def _without(error: LooseRulesError, job: Job, given: Given) -> Result:
    """The result without what may explain a difference in the comparison."""
    disabled = [*job.context.get_config("rules.disabled"), *error.rules]
    config = {**(job.wanted.config or {}), "rules.disabled": disabled, **({} if error.math is None else {"rules.math": error.math})}
    source, report = given.source, job.report
    # The model is already specialized.
    model, folder = source.original, source.folder if source.original is source.proto else None
    stricter = replace(job.wanted, config=config, folder=folder, dims=None, input_shapes=None, outputs=None)
    result = _optimized(model, stricter, error.reference)
    result.report.source, result.report.nodes_before, result.report.bytes_before = report.source, report.nodes_before, report.bytes_before
    result.report.warnings.append(error.sentence)
    return result


class _Optimize(Protocol[_P]):
    """A function of a model, and of the keywords of Settings."""

    def __call__(self, model: ModelLike, *args: _P.args, **keywords: _P.kwargs) -> Result: ...


def _by_keywords(settings: Callable[_P, Settings]) -> Callable[[Callable[[ModelLike, Settings], Result]], _Optimize[_P]]:
    """Gives a function of settings the keywords of Settings."""

    def decorate(function: Callable[[ModelLike, Settings], Result]) -> _Optimize[_P]:
        @functools.wraps(function)
        def optimize(model: ModelLike, *args: _P.args, **keywords: _P.kwargs) -> Result:
            if args:
                raise TypeError(
                    f"{function.__name__}() takes 1 positional argument but {1 + len(args)} were given; result.save(PATH) writes a result"
                )
            return function(model, settings_of(function.__name__, keywords))

        given = next(iter(inspect.signature(function).parameters.values()))
        shown = [keyword.replace(annotation=_unchecked(keyword.annotation)) for keyword in inspect.signature(settings).parameters.values()]
        optimize.__signature__ = inspect.Signature([given, *shown], return_annotation=Result)  # type: ignore[attr-defined]  # for help()
        return optimize

    return decorate


def _unchecked(annotation: object) -> object:
    """An annotation without its validator."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


@_by_keywords(Settings)
def optimize(model: ModelLike, wanted: Settings) -> Result:
    """Optimizes an ONNX model, and verifies the result against it on random inputs. Does not modify the model.

    Inside a `with PassContext(...)` unspecified settings come from that context: the level, individual keys of its config, its
    `disabled_pass`, `required_pass`, diagnostic context and instruments. It also receives the statistics. Checks of the result and
    reproducers use the same settings.

    * `model`: a ModelProto, the path of a model, its bytes, a binary file object, an `onnx_ir.Model`, or a `torch.onnx.ONNXProgram`.
      `onnx_ir.from_proto(result.model)` is the result as an `onnx_ir.Model`.
    * `passes`: the pipeline, as text (`"FoldConstant,SimplifyExpr"`), or as a list of passes and names; Passat's own by default.
      Passes with a level above `opt_level` do not run. It defaults to the level of the surrounding context (2 unless set), and to 3
      without a context.
    * `rules`: your rule sets, and paths of rule files. They run before and after the default pipeline, or where a registered pass has
      them; `passes` can name them.
    * `verify`: checks the result with `onnx.checker`, and runs both models on ONNX Runtime. `allow_unverified`: returns the result even
      if nothing could be compared.
    * `inputs`: additional inputs for the comparison: arrays by name, or a file written by `numpy.savez`. `rtol`, `atol`: floating-point
      values may differ by `atol + rtol * |expected|` instead of by rounding.
    * `custom_ops`: shared libraries of custom operators, which ONNX Runtime loads and executes. Without them, models are compared in parts.
    * `time_limit`: seconds for all saturations together; after that, the best program so far is extracted.
    * `cost`: the cost model, also for the final choice: "roofline" (estimated seconds), "nodes" (the number of calls),
      "measured" (seconds of each operator on ONNX Runtime), or an object with a method `call(op, types, result, attrs)`.
    * `choose`: the criterion of the final choice: "cost", or "time" on ONNX Runtime, among the input and at most
      `candidates` programs (by default 4).
    * `opset`: a later ONNX opset for the result: the model is converted first, and passes may create operators of that opset.
    * `dims`: sizes of named dimensions of the inputs, as `{"batch": 1}`; `input_shapes`: shapes of inputs by name, where None keeps a
      size. The result is valid for these sizes only. `outputs`: the outputs to keep; nodes that only the others need are removed.
    * `config`: options of the pass context (`PassContext.list_configs()`); `seed`: the seed of random inputs.
    * `folder`: the folder of a ModelProto's external data; `progress`: a function that is called with each step.
    * `instruments`: run around the passes, such as `passat.passmgr.PrintIRChanged()`, before those of the surrounding context. They do not
      run when the pipeline is repeated for a check, but their vetoes apply.
    * `reproducer`: a folder that is written when a pass raises; `passat replay` runs it.
    * `explain`: records provenance in the metadata of the result's nodes (`Result.explain`); `certificate`: creates a proof that the
      result is equivalent (`Result.certificate`). Both require `choose="cost"`, and, like `record`, disable regions.
    * `kernels`: makes native kernels for chains of elementwise operators and reductions that ONNX Runtime leaves unfused, if the model gets
      faster with them; `save` then writes their library beside the model.
    * `record`: records all rule events, for `result.write_report` and for full rule statistics in the report.

    If the result is not cheaper than the input, the input is returned, and the report says so; lowering rules may increase the cost.
    Ctrl-C stops the search with the best program so far, or the input if no pass has run (`report.interrupted`). A second one, or one
    during checks and verification, aborts the call.

    Raises OnnxError for an unreadable model, PipelineError for a pipeline, RuleError and RuleFileError for rules, AttributeError for
    options, PassError if a pass raises, VerifyError without ONNX Runtime, MismatchError if values differ, UnverifiedError if nothing
    could be compared, SpecializeError for unknown dimensions, inputs and outputs, InputsError, CustomOpsError, ReproducerError for an
    unusable folder, TypeError and ValueError for other invalid arguments.
    """
    return optimize_with(model, wanted)
