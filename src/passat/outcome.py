"""Which program an optimization ends with: what the passes have made, or the input, by cost or by time."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from passat.choose import MARGIN, Candidate, race
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.onnx.errors import OpsetError
from passat.ir.shape import ANY
from passat.ir.traverse import post_order
from passat.ir.types import IncompleteType, TensorType, TupleType
from passat.job import Given, Job, Outcome
from passat.report import bytes_of, histogram, node_count
from passat.rules.cost import CostModel, program_cost
from passat.rules.passes import dynamic_to_static
from passat.rules.passes.read_opaque import ReadOpaque
from passat.turns import NothingToTimeError

if TYPE_CHECKING:
    from onnx import ModelProto

SAME_COST: Final = 1e-9
"""Costs that differ by less than this part of them are the same cost."""
NAMES_ONLY: Final = "the passes changed nothing but names"


def fastest(job: Job, given: Given, rivals: Sequence[Candidate]) -> Outcome | None:
    """The fastest of some programs, or the input where that is as fast. None where there is nothing to time."""
    report, source = job.report, given.source
    models = _different(given, rivals)
    if not models:
        return None
    try:
        timings, best = race(source.original, report.node_count_before, models, source.folder, job.how)
    except NothingToTimeError as error:
        report.cost_notes.append(f"nothing was timed, the cost decides: the model {error}")
        return None
    report.timings = timings
    report.cost_before = report.cost_after = _cost(given.module, job.prices)
    if best is None:
        return _kept(job, given, f"no candidate is faster than the input by more than {MARGIN:.0%}")
    candidate, model = best
    return _taken(job, Outcome(model, candidate.module, candidate.settings), _cost_as_written(job, given, model, candidate.module))


def cheaper(job: Job, given: Given, after: IRModule) -> Outcome:
    """The model of `after` where that is cheaper than the input, else the input."""
    report, prices = job.report, job.prices
    report.cost_before = report.cost_after = _cost(given.module, prices)
    if after is given.module and not _has_dead_nodes(given.proto):
        return _kept(job, given, "no pass changed anything")
    try:
        model = to_onnx(after, written=None if job.tracing is None else job.tracing.written)
    except OpsetError as error:
        return _kept(job, given, f"the result has no form in the model's opset (--opset converts it to a later one): {error}")
    if _is_renamed(model, given.proto):
        return _kept(job, given, NAMES_ONLY)
    cost = _cost_as_written(job, given, model, after)
    if cost > report.cost_before and _has_unknown_sizes(given.module):
        # A value of unknown size costs next to nothing. The input is priced with the sizes that follow from others.
        with job.context:
            report.cost_before = max(report.cost_before, _cost(dynamic_to_static()(ReadOpaque()(given.module)), prices))
    nodes, count = node_count(histogram(model)), node_count(histogram(given.proto))
    same = abs(cost - report.cost_before) <= SAME_COST * report.cost_before
    if not report.lowered and ((cost > report.cost_before and not same) or (same and nodes >= count)):
        from passat.render import cost_text

        why = f"the result is not cheaper: {nodes} nodes, estimated {cost_text(report, cost)}, "
        return _kept(job, given, f"{why}against {count} and {cost_text(report, report.cost_before)}")
    return _taken(job, Outcome(model, after, job.context), cost)


def _different(given: Given, rivals: Sequence[Candidate]) -> "list[tuple[Candidate, ModelProto]]":
    """The programs whose models differ from the input and from one another in more than names, with these models."""
    found: list[tuple[Candidate, ModelProto]] = []
    for rival in rivals:
        with contextlib.suppress(OpsetError):
            model = to_onnx(rival.module)
            if not any(_is_renamed(model, other) for other in (given.proto, *(earlier for _, earlier in found))):
                found.append((rival, model))
    return found


def _cost_as_written(job: Job, given: Given, model: "ModelProto", module: IRModule) -> float:
    """What a program costs as the model that it is written as: one call may be several nodes there. Of sizes, the more that is known
    of the program and of what is read from the model decides."""
    read = from_onnx(model, folder=given.source.folder, lenient=True)
    cost = _cost(read, job.prices)
    return max(cost, _cost(module, job.prices)) if _has_unknown_sizes(read) else cost


def _taken(job: Job, outcome: Outcome, cost: float) -> Outcome:
    report = job.report
    report.nodes_after, report.bytes_after, report.cost_after = histogram(outcome.model), bytes_of(outcome.model), cost
    return outcome


def _kept(job: Job, given: Given, why: str) -> Outcome:
    report = job.report
    report.nodes_after, report.bytes_after, report.kept = histogram(given.proto), bytes_of(given.proto), why
    return Outcome(_with_shapes(given.proto, given.module), given.module, job.context)


def _is_renamed(model: "ModelProto", other: "ModelProto") -> bool:
    from passat.ir.onnx.same_graph import differs_in_names_only  # which needs onnx

    return differs_in_names_only(model, other)


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
