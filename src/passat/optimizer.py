"""`passat.optimize`: a model in, an optimised and verified model out."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from typing import Any as AnyValue

from passat.certificates import Certificate
from passat.checks import READ_AND_WRITTEN, check_candidate, find_guilty
from passat.choose import MARGIN, Candidate, programs, race
from passat.crash import FailureWatch, check_passes, make_reproducer
from passat.ir.collector import collector_paused
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, from_onnx, save, to_onnx
from passat.ir.onnx.errors import require_onnx
from passat.ir.shape import ANY
from passat.ir.traverse import post_order
from passat.ir.types import IncompleteType, TensorType, TupleType
from passat.measure import Measured
from passat.page.record import Record
from passat.passmgr import CrashReproducer, PassContext, PassEvent, PassInstrument, PassProgress, PassTimingInstrument
from passat.pipelines import Passes, build_pipeline, text_of
from passat.report import MismatchError, Report, histogram, node_count
from passat.rules import RuleSet
from passat.rules.cost import CostError, CostModel, CostName, Roofline, cost_model, program_cost
from passat.rules.engine.interruption import interruptible
from passat.rules.engine.journal import Journal
from passat.rules.passes import dynamic_to_static
from passat.rules.pick import check_pick
from passat.rules.provenance.explanation import ExplainError, Explanation
from passat.rules.provenance.plain import CertificateError
from passat.rules.provenance.trail import Trail
from passat.tracing import Tracing
from passat.turns import NothingToTimeError
from passat.verify import ModelSource, Reference, VerifyReport
from passat.vetoes import VetoWatch

if TYPE_CHECKING:
    from onnx import ModelProto

Progress: TypeAlias = Callable[[str], None]
"""Is told in a few words what begins now."""

DEFAULT_LEVEL: Final = 3
"""The level of passes where neither the call nor a context around it says one."""
SAME_COST: Final = 1e-9
"""Costs that differ by less than this part of them are the same cost."""


class Result:
    """An optimised model, and the report of how it came about.

    `model` is the ModelProto; where the input was a file with external data, it refers to that data still, and `save` copies it.
    `record` is what `write_report` needs beside the report, where that was asked for.
    """

    def __init__(
        self, model: "ModelProto", report: Report, folder: str | None, record: Record | None = None, tracing: Tracing | None = None
    ) -> None:
        self.model = model
        self.report = report
        self.record = record
        self._tracing = tracing
        self._folder = folder

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model, checked, through a temporary file that is moved into place. Raises OnnxError, and writes nothing then."""
        with _clock(self.report.seconds, "save"), _about(self.report.source, os.fspath(path)):
            save(self.model, path, folder=self._folder)
        self.report.output = os.fspath(path)

    def explain(self, node: str | None = None) -> Explanation:
        """Where the nodes come from: all of them, or those of a name. Raises ExplainError for an unknown name, and where `optimize` was
        not asked with `explain=True`."""
        if self._tracing is None or self._tracing.explanation is None:
            raise ExplainError("ask for it beforehand: optimize(..., explain=True)")
        return self._tracing.explanation if node is None else self._tracing.explanation.of(node)

    @property
    def certificate(self) -> Certificate:
        """The certificate (`passat.certificates`), plain data for JSON. Raises CertificateError where `optimize` was not asked with
        `certificate=True`."""
        if self._tracing is None or self._tracing.certificate is None:
            raise CertificateError("ask for it beforehand: optimize(..., certificate=True)")
        return self._tracing.certificate

    def write_report(self, path: str | os.PathLike[str]) -> None:
        """Writes what happened as one HTML page that needs nothing else: the program before and after, rules, e-graphs, times, order.

        Raises ValueError where `optimize` was not called with `record=True`, OSError where the file cannot be written.
        """
        if self.record is None:
            raise ValueError("nothing was recorded that a page could show: optimize(..., record=True)")
        from passat.page.write import write_page

        write_page(path, self.report, self.record)

    def __repr__(self) -> str:
        report = self.report
        verified = report.verification is not None and report.verification.equal
        return f"<Result: {report.node_count_before} nodes became {report.node_count_after}{', verified' if verified else ''}>"


def optimize(
    model: "ModelProto | str | os.PathLike[str]",
    *,
    passes: Passes = None,
    rules: Iterable[type[RuleSet]] = (),
    opt_level: int | None = None,
    verify: bool = True,
    time_limit: float | None = None,
    config: Mapping[str, AnyValue] | None = None,
    cost: CostName | CostModel | None = None,
    choose: Literal["cost", "time"] = "cost",
    candidates: int = 4,
    opset: int | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    reproducer: str | os.PathLike[str] | None = None,
    instruments: Iterable[PassInstrument] = (),
    record: bool = False,
    explain: bool = False,
    certificate: bool = False,
) -> Result:
    """Optimises an ONNX model, which stays as it is, and compares the result with it on random inputs.

    Inside a `with PassContext(...)` the passes run with what that says: its level where none is given here, each key of its config that is
    not given here, its `disabled_pass`, `required_pass`, diagnostic context, executor and instruments. It is told the statistics
    as well. Checks of the result, and reproducers, go by the same settings.

    * `passes`: the pipeline, as text (`"FoldConstant,SimplifyExpr"`) or as passes; by default Passat's own. Those whose level is above
      `opt_level` do not run; that is the level of the context around the call (a PassContext has level 2 unless told otherwise), and 3
      where there is none.
    * `rules`: rule sets of your own. They run before and after the default pipeline; in a text of `passes` they can be named.
    * `verify`: whether to check the result with `onnx.checker` and to run both models on ONNX Runtime.
    * `time_limit`: seconds for all saturation together; when they are over, the best so far is taken.
    * `cost`: what makes a program cheaper, also for the final choice: "roofline" (estimated seconds), "nodes" (the number of calls),
      "measured" (seconds of each operator on ONNX Runtime), or an object with a method `call(op, types, result, attrs)`.
    * `choose`: what decides in the end, the "cost", or the "time" on ONNX Runtime, of at most so many `candidates` and the input.
    * `opset`: the ONNX opset of the result, where that is later than the model's: it is converted before anything else, and passes make
      operators that come with it.
    * `config`: options of the pass context (`PassContext.list_configs()`); `seed`: of the random inputs.
    * `folder`: where the external data of a ModelProto lies; `progress` is called with what begins now.
    * `instruments`: run around the passes, such as `passat.passmgr.PrintIRChanged()`, before those of the context around the call; when
      the pipeline runs again for a check they do not, but the passes that they vetoed do not run either.
    * `reproducer`: a folder that is written when a pass raises, and that `passat replay` runs again.
    * `explain`: the metadata of the result's nodes says where they come from (`Result.explain`); `certificate`: the result comes with a
      proof that it computes the same (`Result.certificate`). Both want `choose="cost"`, and as for `record`, functions are taken whole.
    * `record`: keeps all that rules did, for `result.write_report` and for the full statistics of rules in the report. Functions are then
      saturated whole, and nothing is taken from the cache.

    A result that is not cheaper than the input is replaced by it, and the report says so; what rules lower is dearer on purpose. Ctrl-C
    while rules run ends saturation with the best so far (`report.interrupted`); a second one ends the call.

    Raises OnnxError for a model that cannot be read, PipelineError for a pipeline, RuleError for rules, AttributeError for options,
    PassError where a pass raises, VerifyError without ONNX Runtime, MismatchError where the values differ, ReproducerError for a folder
    that cannot be one.
    """
    tell = progress or _silent
    if time_limit is not None and not time_limit >= 0:
        raise ValueError(f"time_limit is seconds, not {time_limit!r}")
    if choose not in ("cost", "time"):
        raise ValueError(f"choose is 'cost' or 'time', not {choose!r}")
    if candidates < 1:
        raise ValueError(f"candidates are at least one, not {candidates!r}")
    if choose == "time" and (explain or certificate):
        raise ValueError("choose='time' tries several programs; what came of one is explained and certified with choose='cost'")
    sets = tuple(rules)
    report = Report()
    options = dict(config or {})
    if time_limit is not None:
        options["rules.time_limit"] = float(time_limit)
    if cost is not None:
        options["rules.cost"] = cost
    outer = PassContext.entered()
    surroundings = outer or PassContext(DEFAULT_LEVEL)
    journal: Journal | None = options.get("rules.journal") or surroundings.get_config("rules.journal")
    if (record or explain or certificate) and journal is None:
        journal = options["rules.journal"] = Journal()
    earlier = len(journal.runs) if journal is not None else 0
    tracing = Tracing(journal) if journal is not None and (explain or certificate) else None
    trail = tracing.trail if tracing is not None else Trail(journal) if record and journal is not None else None
    settings = surroundings.inside(opt_level, options).with_instruments()
    prices = _begin_pricing(settings, report)
    clock = partial(_clock, report.seconds)
    with collector_paused():  # most of what is made lives until the end
        with clock("read"):
            tell("reading the model")
            proto, place = _open(model, folder)
            from passat.ir.onnx.opset import in_opset  # which needs onnx

            in_file = proto is not model
            report.source = os.fspath(model) if isinstance(model, (str, os.PathLike)) else "a model in memory"
            report.nodes_before, report.bytes_before = histogram(proto), _bytes_of(proto)
            try:
                given = proto if opset is None else in_opset(proto, opset)
                module = from_onnx(given, folder=place)
            except OnnxError as error:
                if in_file:
                    raise error.about(report.source) from error
                raise
        pipeline = settings.run(build_pipeline, passes, sets)
        report.pipeline = text_of(pipeline)
        check_pick(settings, [step.pass_ for step in pipeline.plan(settings).walk()])
        crash = None
        if reproducer is not None:
            path = report.source if in_file else None
            crash = make_reproducer(reproducer, pipeline, model=proto, path=path, passes=passes, rules=sets)
        with clock("passes"):
            timing, watch, vetoes = PassTimingInstrument(), FailureWatch(), VetoWatch()
            counting = PassProgress(partial(_announce, tell), pipeline.plan(settings))
            around = [vetoes, timing, counting, watch, *([crash] if crash else []), *([trail] if trail else []), *instruments]
            context = surroundings.inside(opt_level, options, around)
            try:
                with _about(report.source) if in_file else contextlib.nullcontext(), _told(watch, crash), context, interruptible() as asked:
                    optimised = pipeline(module)
                report.interrupted = asked.requested
            finally:
                if outer is not None:
                    outer.statistics.add(context.statistics)
            inner = [run._replace(depth=run.depth - 1) for run in timing.timings if run.depth]
            report.take_statistics(context.statistics, inner, (rule.name for rules in sets for rule in rules.rules))
        with clock("write"):
            tell("writing the model")
            # A file can be read again, which a pipe cannot.
            original = report.source if in_file and os.path.isfile(report.source) else proto
            try:
                result = None
                first = len(journal.runs) if journal is not None else 0
                if choose == "time":
                    started = time.perf_counter()
                    with interruptible():
                        rivals = programs(
                            *(pipeline, module, optimised, settings, candidates),
                            statistics=context.statistics,
                            tell=tell,
                            notes=report.cost_notes,
                        )
                    tell("timing the candidates on ONNX Runtime")
                    result, made, settings = _fastest(report, module, rivals, given, original, settings, prices, place, seed)
                    report.seconds["choose"] = time.perf_counter() - started
                if result is None:
                    made = optimised
                    result = _cheaper(report, module, optimised, given, settings, prices, tracing)
                if report.kept and given is not proto:
                    report.kept += f"; it was converted to opset {opset}"
                if isinstance(prices, Measured):
                    report.cost_notes += prices.notes()
            except CostError:
                raise
            except Exception:
                check_passes(
                    pipeline, module, settings.with_instruments([vetoes.again()]), crash
                )  # a pass that broke the module is who is to be named
                raise
        report.seconds["write"] -= report.seconds.get("choose", 0.0)
        if tracing is not None:
            with clock("explain"):
                if explain:
                    tell("writing down where its nodes come from")
                    tracing.annotate(result, proto, module if report.kept else optimised, report)
                if certificate:
                    tell("writing the certificate")
                    tracing.certify(result, place, module, optimised, kept=bool(report.kept))
        kept = None
        if record and journal is not None:
            from passat.page.statistics import add_statistics

            passed = [] if trail is None else trail.since(earlier)
            kept = Record(module, module if report.kept else made, pipeline.plan(settings), journal.runs[earlier:], first - earlier, passed)
            add_statistics(report, kept)
    if verify and result is not proto:
        with clock("verify"):
            tell("checking the result")
            with _about(report.source):
                _check_form(result)
            tell("comparing with the original on ONNX Runtime")
            reference = Reference(original, seed=seed, folder=place, coarsest=_coarsest(module))
            report.verification = check_candidate(reference, result, place)
            if report.verification.equal is False:
                tell("looking for the pass that changed the values")
                guilty = find_guilty(reference, pipeline, module, settings.with_instruments([vetoes.again()]), place)
                report.verification = replace(report.verification, guilty=guilty)
                raise MismatchError(_accusation(report.verification), report)
    return Result(result, report, place, kept, tracing)


def _open(model: "ModelProto | str | os.PathLike[str]", folder: str | os.PathLike[str] | None) -> "tuple[ModelProto, str | None]":
    """The proto of a model, and the folder of its external data. Raises OnnxError."""
    require_onnx()
    if isinstance(model, (str, os.PathLike)):
        from passat.ir.onnx.files import read_model

        path = os.fspath(model)
        return read_model(path), os.path.dirname(path) or "."
    if not hasattr(model, "graph"):
        raise OnnxError(f"optimize takes a ModelProto or the path of a model, not {type(model).__name__}")
    return model, None if folder is None else os.fspath(folder)


def _begin_pricing(settings: PassContext, report: Report) -> CostModel:
    """The cost model of the passes; the report says which that is. Raises CostError."""
    named = settings.get_config("rules.cost")
    model = cost_model(named, settings.get_config("rules.machine"))
    report.cost_model = named if isinstance(named, str) else type(model).__name__
    report.cost_in_seconds = isinstance(model, (Roofline, Measured))
    if isinstance(model, Measured):
        model.begin()
    return model


def _fastest(
    report: Report,
    before: IRModule,
    rivals: Sequence[Candidate],
    original: "ModelProto",
    source: ModelSource,
    settings: PassContext,
    model: CostModel,
    folder: str | None,
    seed: int,
) -> "tuple[ModelProto | None, IRModule, PassContext]":
    """The fastest of some programs, also as a module, and the settings that made it, or the original where that is as fast; fills in the
    report. None where there is nothing to time."""
    if not rivals:
        return None, before, settings
    try:
        timings, best, result = race(source, report.node_count_before, rivals, folder, seed)
    except NothingToTimeError as error:
        report.cost_notes.append(f"nothing was timed, the cost decides: the model {error}")
        return None, before, settings
    report.timings = timings
    report.cost_before = report.cost_after = _cost(before, model)
    if best is None or result is None:
        report.nodes_after, report.bytes_after = histogram(original), _bytes_of(original)
        report.kept = f"no candidate is faster than the input by more than {MARGIN:.0%}"
        return _with_shapes(original, before), before, settings
    report.nodes_after, report.bytes_after, report.cost_after = histogram(result), _bytes_of(result), _cost(best.module, model)
    return result, best.module, best.settings


def _cheaper(
    report: Report,
    before: IRModule,
    after: IRModule,
    original: "ModelProto",
    settings: PassContext,
    model: CostModel,
    tracing: Tracing | None = None,
) -> "ModelProto":
    """The model of `after` where that is cheaper than the original (in the opset of the result), else the original; fills in the report."""
    report.nodes_after, report.bytes_after = histogram(original), _bytes_of(original)
    report.cost_before = report.cost_after = _cost(before, model)
    if after is before and not _has_dead_nodes(original):
        report.kept = "no pass changed anything"
        return _with_shapes(original, before)
    cost = _cost(after, model)
    if cost > report.cost_before and _has_unknown_sizes(before):
        # What has no known size costs next to nothing. With the sizes that follow from others, the input is what it really costs.
        with settings:
            report.cost_before = max(report.cost_before, _cost(dynamic_to_static()(before), model))
    result = to_onnx(after, written=None if tracing is None else tracing.written)
    nodes, count = histogram(result), report.node_count_after
    same = abs(cost - report.cost_before) <= SAME_COST * report.cost_before
    if not report.lowered and ((cost > report.cost_before and not same) or (same and node_count(nodes) >= count)):
        from passat.render import cost_text

        report.kept = (
            f"the result is not cheaper: {node_count(nodes)} nodes, estimated {cost_text(report, cost)}, "
            f"against {count} and {cost_text(report, report.cost_before)}"
        )
        return _with_shapes(original, before)
    report.nodes_after, report.bytes_after, report.cost_after = nodes, _bytes_of(result), cost
    return result


def _with_shapes(original: "ModelProto", module: IRModule) -> "ModelProto":
    """The original itself; written anew where it declares an output without a shape, which `onnx.checker` does not accept."""
    types = [value.type for value in original.graph.output]
    bare = any(type_.HasField("tensor_type") and not type_.tensor_type.HasField("shape") for type_ in types)
    return to_onnx(module) if bare else original


def _has_dead_nodes(model: "ModelProto") -> bool:
    """Whether there are nodes of whose results nobody reads any: they are gone as soon as the model is read."""
    from passat.ir.onnx.scope import read_names

    read = read_names(model.graph)
    return any(read.isdisjoint(node.output) for node in model.graph.node)


def _cost(module: IRModule, model: CostModel) -> float:
    return sum(program_cost(infer_type(function), model) for function in module.functions.values())


def _has_unknown_sizes(module: IRModule) -> bool:
    """Whether some value of a module has a type of which not every dimension is known, or named."""
    for function in module.functions.values():
        for node in post_order(infer_type(function)):
            pending = [node._checked_type]
            while pending:
                type_ = pending.pop()
                if isinstance(type_, TupleType):
                    pending += type_.fields
                elif isinstance(type_, IncompleteType) or (isinstance(type_, TensorType) and ANY in type_.shape):
                    return True
    return False


def _coarsest(module: IRModule) -> str | None:
    """The narrowest floating-point type that some value of a module has."""
    found: set[str] = set()
    for function in module.functions.values():
        for node in post_order(function):
            type_ = node._checked_type
            if isinstance(type_, TensorType):
                found.add(type_.dtype)
    return next((dtype for dtype in ("bfloat16", "float16", "float32") if dtype in found), None)


def _bytes_of(model: "ModelProto") -> int:
    from passat.ir.onnx.sizes import model_bytes

    return model_bytes(model)


def _check_form(model: "ModelProto") -> None:
    from passat.ir.onnx.files import check_model

    check_model(model)


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


@contextlib.contextmanager
def _told(watch: FailureWatch, reproducer: CrashReproducer | None) -> Iterator[None]:
    """Turns what a pass raises into the sentence that names it."""
    try:
        yield
    except Exception as error:
        accusation = watch.accuse(error, reproducer)
        # None of these is the fault of a pass; an OnnxError is a tensor of the model whose contents are looked at for the first time.
        if accusation is None or isinstance(error, (CostError, MemoryError, OnnxError)):
            raise
        raise accusation from error


@contextlib.contextmanager
def _about(source: str, output: str | None = None) -> Iterator[None]:
    """Lets an OnnxError begin with the name of the model, unless it names the file that is written."""
    try:
        yield
    except OnnxError as error:
        if output is not None and str(error).startswith(output):
            raise
        raise error.about(source) from error


@contextlib.contextmanager
def _clock(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = time.perf_counter() - start


def _silent(_: str) -> None:
    """Nobody listens."""
