"""Chooses between the input and the results of the passes: by cost, as the models are written, or by time."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from passat.choose import MARGIN, Candidate, NothingToTimeError, programs, race
from passat.crash import check_passes
from passat.ir.counting import counted
from passat.ir.expr import Call, Function, If
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.onnx.errors import OpsetError
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import IncompleteType, TupleType, lacks_sizes, leaves
from passat.job import Given, Job, Made, Outcome
from passat.measure import Measured
from passat.report import bytes_of, histogram, node_count, opaque_warnings
from passat.rules.cost import CostError, CostModel, program_cost
from passat.rules.passes.read_opaque import ReadOpaque
from passat.rules.passes.simplify import dynamic_to_static, fold_constant
from passat.settings import CANDIDATES

if TYPE_CHECKING:
    from onnx import ModelProto


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

            why = f"the result is not cheaper: {counted(nodes, 'node')}, estimated {cost_text(report, cost)}, "
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
            if type_ is not None and (lacks_sizes(type_) or any(isinstance(part, IncompleteType) for part in leaves(type_))):
                return True
    return False
