"""Which program an optimization ends with: what the passes have made, or the input, by cost or by time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from passat.choose import MARGIN, Candidate, race
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.shape import ANY
from passat.ir.traverse import post_order
from passat.ir.types import IncompleteType, TensorType, TupleType
from passat.measure import Measured
from passat.passmgr import PassContext
from passat.report import Report, histogram, node_count
from passat.rules.cost import CostModel, Roofline, cost_model, program_cost
from passat.rules.passes import dynamic_to_static
from passat.rules.passes.read_opaque import ReadOpaque
from passat.source import Source
from passat.turns import NothingToTimeError
from passat.verify import Comparing

if TYPE_CHECKING:
    from onnx import ModelProto

SAME_COST: Final = 1e-9
"""Costs that differ by less than this part of them are the same cost."""


NAMES_ONLY: Final = "the passes changed nothing but names"


@dataclass(frozen=True, eq=False)
class Outcome:
    """The model that comes back, its module, and the settings under which the passes made that."""

    model: "ModelProto"
    module: IRModule
    settings: PassContext


def begin_pricing(settings: PassContext, report: Report) -> CostModel:
    """The cost model of the passes; the report says which that is. Raises CostError."""
    named = settings.get_config("rules.cost")
    model = cost_model(named, settings.get_config("rules.machine"))
    report.cost_model = named if isinstance(named, str) else type(model).__name__
    report.cost_in_seconds = isinstance(model, (Roofline, Measured))
    if isinstance(model, Measured):
        model.begin()
    return model


class Decision:
    """Decides between the input of an optimization and what came of it; fills in the report. `given` is the input in the opset of the
    result, `before` its module."""

    def __init__(
        self, report: Report, source: Source, given: "ModelProto", before: IRModule, settings: PassContext, prices: CostModel
    ) -> None:
        self._report = report
        self._source = source
        self._given = given
        self._before = before
        self._settings = settings
        self._prices = prices

    def fastest(self, rivals: Sequence[Candidate], how: Comparing) -> Outcome | None:
        """The fastest of some programs, or the input where that is as fast. None where there is nothing to time."""
        report, source, before = self._report, self._source, self._before
        models = self._different(rivals)
        if not models:
            return None
        try:
            timings, best = race(source.original, report.node_count_before, models, source.folder, how)
        except NothingToTimeError as error:
            report.cost_notes.append(f"nothing was timed, the cost decides: the model {error}")
            return None
        report.timings = timings
        report.cost_before = report.cost_after = _cost(before, self._prices)
        if best is None:
            return self._kept(f"no candidate is faster than the input by more than {MARGIN:.0%}")
        candidate, result = best
        return self._taken(Outcome(result, candidate.module, candidate.settings), self._cost_as_written(result, candidate.module))

    def cheaper(self, after: IRModule, written: dict[int, list[str]] | None = None) -> Outcome:
        """The model of `after` where that is cheaper than the input, else the input. `written` gets the values that its calls are written
        as."""
        report, before, prices = self._report, self._before, self._prices
        report.cost_before = report.cost_after = _cost(before, prices)
        if after is before and not _has_dead_nodes(self._given):
            return self._kept("no pass changed anything")
        result = to_onnx(after, written=written)
        if _is_renamed(result, self._given):
            return self._kept(NAMES_ONLY)
        cost = self._cost_as_written(result, after)
        if cost > report.cost_before and _has_unknown_sizes(before):
            # A value of unknown size costs next to nothing. The input is priced with the sizes that follow from others.
            with self._settings:
                report.cost_before = max(report.cost_before, _cost(dynamic_to_static()(ReadOpaque()(before)), prices))
        nodes, count = node_count(histogram(result)), node_count(histogram(self._given))
        same = abs(cost - report.cost_before) <= SAME_COST * report.cost_before
        if not report.lowered and ((cost > report.cost_before and not same) or (same and nodes >= count)):
            from passat.render import cost_text

            return self._kept(
                f"the result is not cheaper: {nodes} nodes, estimated {cost_text(report, cost)}, "
                f"against {count} and {cost_text(report, report.cost_before)}"
            )
        return self._taken(Outcome(result, after, self._settings), cost)

    def _different(self, rivals: Sequence[Candidate]) -> "list[tuple[Candidate, ModelProto]]":
        """The programs whose models differ from the input and from one another in more than names, with these models."""
        found: list[tuple[Candidate, ModelProto]] = []
        for rival in rivals:
            model = to_onnx(rival.module)
            if not any(_is_renamed(model, other) for other in (self._given, *(earlier for _, earlier in found))):
                found.append((rival, model))
        return found

    def _cost_as_written(self, model: "ModelProto", module: IRModule) -> float:
        """What a program costs as the model that it is written as: one call may be several nodes there. Of sizes, the more that is known
        of the program and of what is read from the model decides."""
        read = from_onnx(model, folder=self._source.folder, lenient=True)
        cost = _cost(read, self._prices)
        return max(cost, _cost(module, self._prices)) if _has_unknown_sizes(read) else cost

    def _taken(self, outcome: Outcome, cost: float) -> Outcome:
        report = self._report
        report.nodes_after, report.bytes_after, report.cost_after = histogram(outcome.model), bytes_of(outcome.model), cost
        return outcome

    def _kept(self, why: str) -> Outcome:
        report, given = self._report, self._given
        report.nodes_after, report.bytes_after, report.kept = histogram(given), bytes_of(given), why
        return Outcome(_with_shapes(given, self._before), self._before, self._settings)


def _is_renamed(model: "ModelProto", other: "ModelProto") -> bool:
    from passat.ir.onnx.same_graph import differs_in_names_only  # which needs onnx

    return differs_in_names_only(model, other)


def bytes_of(model: "ModelProto") -> int:
    """The bytes of a model, without its external data."""
    from passat.ir.onnx.sizes import model_bytes

    return model_bytes(model)


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
