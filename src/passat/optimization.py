"""The steps of an optimization: read the model, run the passes, choose the result (the passes' or the input, by cost or by time), record
provenance, verify."""

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from passat.bisection import READ_AND_WRITTEN, find_guilty
from passat.choose import MARGIN, Candidate, NothingToTimeError, programs, race
from passat.crash import FailureWatch, check_passes, make_reproducer
from passat.feeds import declared_inputs
from passat.ir.expr import Call, Function, If
from passat.ir.infer import infer_type
from passat.ir.long_words import listed
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, from_onnx, to_onnx
from passat.ir.onnx.errors import CheckerError, OpsetError, require_onnx
from passat.ir.op import Op
from passat.ir.shape import ANY
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import IncompleteType, TensorType, TupleType, leaves
from passat.job import Given, Job, Made, Outcome
from passat.log import LOG
from passat.measure import Measured
from passat.passmgr import CrashReproducer, PassEvent, PassProgress, PassTimingInstrument
from passat.passmgr.inspection.checks import KeptFunctionsCheck
from passat.pipelines import build_pipeline, is_own, text_of
from passat.report import MismatchError, UnverifiedError, bytes_of, histogram, node_count, opaque_warnings, warnings_of
from passat.rulefile import idle_passes
from passat.rules import RuleError
from passat.rules.cost import CostError, CostModel, program_cost
from passat.rules.engine.limits import interrupted
from passat.rules.passes.read_opaque import ReadOpaque
from passat.rules.passes.simplify import dynamic_to_static, fold_constant
from passat.rules.passes.target import check_domains
from passat.rules.planned_rules import check_disabled, check_pick, disabled_in_vain, why_not_run
from passat.rules.rule import EXACT, KEPT, REASSOCIATE, Rule, RuleSetMeta
from passat.rules.rule_pass import RulePass
from passat.runner import VerifyError, loads
from passat.settings import CANDIDATES
from passat.source import ModelLike, open_source
from passat.verify import Reference, VerifyReport

if TYPE_CHECKING:
    from onnx import ModelProto


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


def choose(job: Job, given: Given, made: Made) -> Outcome:
    """Chooses between the input and the results: by time among several candidates, if requested and possible, otherwise by cost."""
    report = job.report
    with report.clock("write"):
        job.tell("pricing the result")
        if job.tracing is not None:
            job.tracing.end = len(job.tracing.trace.runs)
        try:
            found = _by_time(job, given, made) if job.wanted.choose == "time" else None
            outcome = found or cheaper(job, given, made.module)
            if report.kept and given.proto is not given.source.proto:
                report.kept += f"; it was converted to opset {job.wanted.opset}"
            if report.kept and given.source.is_specialized:
                report.kept += "; it has the sizes and outputs that were requested"
            report.warnings += opaque_warnings(outcome.module)
            if isinstance(job.prices, Measured):
                report.cost_notes += job.prices.notes()
        except CostError:
            raise
        except Exception:
            # Names the pass that broke the module.
            check_passes(made.pipeline, given.module, job.context.with_instruments([job.vetoes.again()]), made.crash)
            raise
    report.seconds["write"] -= report.seconds.get("choose", 0.0)
    return outcome


def _by_time(job: Job, given: Given, made: Made) -> Outcome | None:
    with job.report.clock("choose"):
        rivals = programs(
            *(made.pipeline, given.module, made.module, job.context, job.wanted.candidates or CANDIDATES),
            statistics=made.context.statistics,
            tell=job.tell,
            notes=job.report.cost_notes,
        )
        job.tell("timing the candidates on ONNX Runtime")
        return fastest(job, given, rivals)


def is_accepted(job: Job, given: Given, outcome: Outcome) -> bool:
    """True if `onnx.checker` accepts the result; not called for the input itself unless it is verified.

    If it rejects the input too, ONNX Runtime decides. Raises OnnxError.
    """
    from passat.ir.onnx.files import check_model

    source, model = given.source, outcome.model
    if model is source.proto and not job.wanted.verify:
        return False
    job.tell("checking the result")
    try:
        check_model(model)
    except CheckerError as error:
        if (model is not source.proto and source.is_accepted) or not loads(source.runnable, source.folder):
            raise error.about(source.name) from error
        job.report.warnings.append(f"ONNX Runtime loads the input, but {error}")
        return False
    return True


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


def verify(job: Job, given: Given, made: Made, outcome: Outcome, reference: Reference | None = None) -> None:
    """Compares the result with the input, unless they are the same; a `reference` has run the input before.

    Raises OnnxError, VerifyError, InputsError, MismatchError, UnverifiedError if a comparison is required but impossible, and
    LooseRulesError if what passes may do to numbers explains the difference.
    """
    report, source = job.report, given.source
    if outcome.model is source.proto:
        return
    with report.clock("verify"):
        job.tell("comparing with the original on ONNX Runtime")
        try:
            reference = reference or given.reference(job.how)
        except VerifyError as error:
            raise VerifyError(f"{error}; --no-verify, or verify=False, skips the comparison") from None
        report.verification = reference.check(outcome.model)
        if report.verification.equal is False:

            @functools.cache
            def guilty() -> str:
                job.tell("looking for the pass that changed the values")
                return find_guilty(reference, made.pipeline, given.module, outcome.context.with_instruments([job.vetoes.again()]))

            # Nothing else has tested a pass or a rule of the user's, so it is accused before rules that may explain the difference.
            own = {step.name for step in made.pipeline.plan(made.context).walk() if step.runs and is_own(step.pass_)}
            own |= _own_rule_passes(job, made)
            if not own or guilty() not in own:
                if loose := _loose_rules(job, made):
                    raise LooseRulesError(reference, _found("other values", loose, "may cause where values are infinite or NaN"), loose)
                if any(output.reason for output in report.verification.outputs) and (inexact := _inexact_rules(job, made)):
                    raise LooseRulesError(reference, _found("other values", inexact, "may cause by rounding or the sign of 0"), inexact)
                if job.context.get_config("rules.math") != EXACT and reference.differs_from_itself(report.verification):
                    raise LooseRulesError(reference, _SENSITIVE, math=EXACT)
            report.verification = replace(report.verification, guilty=guilty())
            raise MismatchError(f"{source.prefix}{_accusation(report.verification, job.wanted.opset)}", report)
        if report.verification.equal is None and not job.wanted.allow_unverified:
            if report.verification.outputs and (inexact := _inexact_rules(job, made)):
                raise LooseRulesError(reference, _found("an output that rounding alone changes", inexact, "may change as well"), inexact)
            raise UnverifiedError(
                f"{source.prefix}the optimized model cannot be compared with the original: {report.verification.skipped}; "
                "--allow-unverified, or allow_unverified=True, accepts it unverified",
                report,
            )
        if report.verification.equal and (unrun := reference.unrun(outcome.model)):
            report.warnings.append(
                f"no input of the comparison runs the {unrun}; --inputs FILE.npz, or inputs=, compares on your own inputs"
            )


_SENSITIVE: Final = (
    "the comparison found other values, but rounding decides them, since the original differs from itself as much when ONNX Runtime "
    "optimizes it: the result is optimized with rules.math=exact"
)


class LooseRulesError(Exception):
    """The result differs from the original, or cannot be judged, and what the passes may do to numbers explains it. `sentence` says what
    was found, and what follows: the result is optimized without some rules, or with another `rules.math`. `reference` has the values of the
    original."""

    def __init__(self, reference: Reference, sentence: str, rules: Sequence[str] = (), math: str | None = None) -> None:
        super().__init__(sentence)
        self.reference = reference
        self.sentence = sentence
        self.rules = rules
        self.math = math


def _found(found: str, rules: Sequence[str], may: str) -> str:
    """What the comparison found, which rules may explain by what they declare."""
    return f"the comparison found {found}, which {listed(rules, 3)} {may}: the result is optimized without"


def _loose_rules(job: Job, made: Made) -> list[str]:
    """The rules that fired and may change infinite or NaN results."""
    return sorted({fired.rule.name for fired in _fired(job, made) if fired.rule.nonfinite != KEPT})


def _own_rule_passes(job: Job, made: Made) -> set[str]:
    """The names of the rule passes in which rules of the user fired, none of which may change infinite or NaN results."""
    own: dict[str, list[Rule]] = {}
    for fired in _fired(job, made):
        if not _is_library(fired.rules):
            own.setdefault(fired.step, []).append(fired.rule)
    return {step for step, rules in own.items() if all(rule.nonfinite == KEPT for rule in rules)}


def _is_library(rules: RuleSetMeta) -> bool:
    return rules.base.__module__.startswith("passat.")


def _inexact_rules(job: Job, made: Made) -> list[str]:
    """The inexact rules of the library that fired. What they change is harmless by itself, but the model may make it large: 1 / -0.0 is
    -inf. Rules of users are accused instead, since nothing else has tested them."""
    inexact = [fired for fired in _fired(job, made) if fired.rule.math == REASSOCIATE and _is_library(fired.rules)]
    return sorted({fired.rule.name for fired in inexact})


class _Fired(NamedTuple):
    """A rule that fired, its set, and the name of a pass that has it."""

    step: str
    rules: RuleSetMeta
    rule: Rule


def _fired(job: Job, made: Made) -> list[_Fired]:
    """The rules that fired, of all passes."""
    names = {rule.name for rule in job.report.rules if rule.fired}
    steps = made.pipeline.plan(made.context).walk()
    sets = [(step.name, rules) for step in steps if isinstance(step.pass_, RulePass) for rules in step.pass_.sets]
    return [_Fired(step, rules, rule) for step, rules in sets for rule in rules if rule.name in names]


def _accusation(report: VerifyReport, opset: int | None) -> str:
    if opset is not None and "Could not find an implementation" in report.mismatch:
        return f"in opset {opset} the model does not run: {report.mismatch}; this ONNX Runtime may have kernels for an earlier opset only"
    if not report.guilty:
        where = "no single pass shows the difference when the pipeline runs again"
    elif report.guilty == READ_AND_WRITTEN:
        where = "reading and writing the model alone changes its values, which is a bug in Passat"
    else:
        where = f"the difference comes from the pass {report.guilty}"
    return f"the optimized model computes other values than the original: {report.mismatch}; {where}"


SAME_COST: Final = 1e-9
"""Relative difference below which costs are equal."""
UNTOUCHED: Final = "no pass changed anything"
NAMES_ONLY: Final = "the passes changed nothing but names"


def fastest(job: Job, given: Given, rivals: Sequence[Candidate]) -> Outcome | None:
    """The fastest of some programs, or the input if no program is faster. None if nothing can be timed."""
    report, source = job.report, given.source
    models = _different(given, rivals)
    if not models:
        return None
    try:
        named = [(candidate.name, model) for candidate, model in models]
        timings, best = race(source.runnable, report.node_count_before, named, source.folder, job.how)
    except NothingToTimeError as error:
        report.cost_notes.append(f"nothing was timed, the cost decides: the model {error}")
        return None
    report.timings = timings
    report.cost_before = report.cost_after = _cost(given.module, job.prices)
    if best is None:
        return _kept(job, given, f"no candidate is faster than the input by more than {MARGIN:.0%}")
    candidate, model = models[best]
    return _taken(
        job, Outcome(model, candidate.module, candidate.settings), _cost_as_written(job, given, model, candidate.module), histogram(model)
    )


def cheaper(job: Job, given: Given, after: IRModule) -> Outcome:
    """The model of `after` if it is cheaper than the input, otherwise the input."""
    report, prices = job.report, job.prices
    report.cost_before = report.cost_after = _cost(given.module, prices)
    untouched = after is given.module and not _has_equal_weights(given)
    written: dict[int, list[str]] = {} if job.tracing is None else job.tracing.written
    constants: dict[str, Tensor] = {}
    try:
        model = to_onnx(after, written=written, constants=constants)
    except OpsetError as error:
        why = f"the result has no form in the model's opset (--opset converts it to a later one): {error}"
        return _kept(job, given, UNTOUCHED if untouched else why)
    counts, count = histogram(model), node_count(histogram(given.proto))
    if untouched and node_count(counts) >= count:  # comparing the models takes a second for weights of 500 MB
        return _kept(job, given, UNTOUCHED)
    if _is_renamed(model, given.proto) and not _has_equal_weights(given):
        return _kept(job, given, NAMES_ONLY)
    unchanged = _is_one_to_one(after, written, model) and not _has_unknown_sizes(after)
    cost = _cost(after, prices) if unchanged else _cost_as_written(job, given, model, after, constants)
    if cost > report.cost_before and after is not given.module:
        # A value of unknown size costs almost nothing, and an opaque call only its traffic. The input is priced with sizes inferred from
        # others, and with calls that become readable once constants are folded, also when it is read again, as the result is.
        with job.context:
            sized = dynamic_to_static()(ReadOpaque()(fold_constant()(given.module)))
        report.cost_before = max(report.cost_before, _cost(sized, prices))
        with contextlib.suppress(OpsetError):
            known: dict[str, Tensor] = {}
            again = to_onnx(sized, constants=known)
            report.cost_before = max(report.cost_before, _cost_as_written(job, given, again, sized, known))
    same = abs(cost - report.cost_before) <= SAME_COST * report.cost_before
    if not report.lowered and (cost > report.cost_before or same):
        nodes = node_count(counts)
        smaller = nodes == count and _weights(model) < _weights(given.proto)
        if same and nodes >= count and not smaller and after is given.module:
            return _kept(job, given, UNTOUCHED)
        if not same or (nodes >= count and not smaller):
            from passat.render import cost_text

            why = f"the result is not cheaper: {nodes} node{'s' * (nodes != 1)}, estimated {cost_text(report, cost)}, "
            return _kept(job, given, f"{why}against {count} and {cost_text(report, report.cost_before)}")
    return _taken(job, Outcome(model, after, job.context), cost, counts)


def _different(given: Given, rivals: Sequence[Candidate]) -> "list[tuple[Candidate, ModelProto]]":
    """The programs whose models differ from the input and each other in more than names, with these models."""
    found: list[tuple[Candidate, ModelProto]] = []
    for rival in rivals:
        with contextlib.suppress(OpsetError):
            model = to_onnx(rival.module)
            if not any(_is_renamed(model, other) for other in (given.proto, *(earlier for _, earlier in found))):
                found.append((rival, model))
    return found


def _cost_as_written(job: Job, given: Given, model: "ModelProto", module: IRModule, constants: Mapping[str, Tensor] | None = None) -> float:
    """The cost of a program as written to a model, where one call may become several nodes. Takes sizes from the program or from the model,
    whichever knows more of them. Some initializers of the model are known as `constants`."""
    read = from_onnx(model, folder=given.source.folder, lenient=True, constants=constants)
    cost = _cost(read, job.prices)
    return max(cost, _cost(module, job.prices)) if _has_unknown_sizes(read) else cost


def _is_one_to_one(module: IRModule, written: Mapping[int, Sequence[str]], model: "ModelProto") -> bool:
    """True if a module without branches became a model with a node for each call and no others, or for each convolution with its bias:
    `written` has the values that the nodes of each call produce. Reading such a model to price it takes twice as long as writing it, and
    gives the same program."""
    nodes: set[tuple[str, ...]] = set()
    unwritten: set[int] = set()
    for function in module.functions.values():
        for node in post_order(function):
            if isinstance(node, Call) and isinstance(node.op, Op):
                results = node.checked_type.fields if isinstance(node.checked_type, TupleType) else (node.checked_type,)
                names = tuple(written.get(id(node), ()))
                if not names and node.op.name.startswith("nn.conv"):
                    unwritten.add(id(node))
                elif len(names) in range(1, len(results) + 1):
                    nodes.add(names)
                else:
                    return False
                if node.op.name == "nn.bias_add":
                    unwritten.discard(id(node.args[0]))
            elif isinstance(node, (Call, If, Function)) and node is not function:
                return False
    return not unwritten and len(nodes) == len(model.graph.node)


def _taken(job: Job, outcome: Outcome, cost: float, counts: Mapping[str, int]) -> Outcome:
    report = job.report
    report.nodes_after, report.bytes_after, report.cost_after = dict(counts), bytes_of(outcome.model), cost
    return outcome


def _kept(job: Job, given: Given, why: str) -> Outcome:
    report = job.report
    report.nodes_after, report.bytes_after, report.kept = histogram(given.proto), bytes_of(given.proto), why
    return Outcome(_with_shapes(given.proto, given.module), given.module, job.context)


def _is_renamed(model: "ModelProto", other: "ModelProto") -> bool:
    from passat.ir.onnx.same_graph import differs_in_names_only  # needs onnx

    return differs_in_names_only(model, other)


def _with_shapes(original: "ModelProto", module: IRModule) -> "ModelProto":
    """The original itself; rewritten if it declares an output without a shape, which `onnx.checker` rejects."""
    types = [value.type for value in original.graph.output]
    bare = any(type_.HasField("tensor_type") and not type_.tensor_type.HasField("shape") for type_ in types)
    return to_onnx(module) if bare else original


def _has_equal_weights(given: Given) -> bool:
    from passat.ir.onnx.constants import has_equal_constants  # needs onnx

    return has_equal_constants(given.module)


def _weights(model: "ModelProto") -> int:
    """The number of initializers, also those of branches and loops."""
    from passat.ir.onnx.scope import nodes_of, subgraphs

    inner = sum(len(graph.initializer) for node in nodes_of(model) for graph in subgraphs(node))
    return len(model.graph.initializer) + inner


def _cost(module: IRModule, model: CostModel) -> float:
    return sum(program_cost(infer_type(function), model) for function in module.functions.values())


def _has_unknown_sizes(module: IRModule) -> bool:
    """True if a value of a module has an unknown dimension without a name."""
    for function in module.functions.values():
        for node in post_order(infer_type(function)):
            type_ = None if isinstance(node, Op) else node._checked_type
            for part in () if type_ is None else leaves(type_):
                if isinstance(part, IncompleteType) or (isinstance(part, TensorType) and ANY in part.shape):
                    return True
    return False
