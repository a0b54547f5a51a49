"""Reports of optimizations as plain data: `Report` accompanies the model that `optimize` returns, and is what `--json` prints."""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.ir.diagnostics import SENTENCES
from passat.ir.onnx.opaque import operator_name
from passat.ir.onnx.untyped import function_calls, untyped_values
from passat.ir.passat_error import PassatError
from passat.passmgr import PassTime, Statistics
from passat.rules.engine.limits import INTERRUPTED
from passat.rules.engine.report import Ended, Rejected, early_end
from passat.verify import VerifyReport

if TYPE_CHECKING:
    from onnx import ModelProto
    from rich.console import RenderableType

    from passat.ir.module import IRModule

NOT_COUNTED: Final = frozenset(("Constant", "ConstantOfShape"))
"""Operators that only hold data and do not count as nodes."""
PROVENANCE: Final = "provenance: "
"""The prefix of remarks about provenance."""
KERNELS: Final = "kernels: "
"""The prefix of remarks about native kernels."""
OTHER_REASONS: Final = "(other reasons)"
"""Of rejections beyond the first few."""


class Shown:
    """A result as text, as JSON, and as a display in notebooks: `to_dict` has its data, `__rich__` what rich prints."""

    def to_dict(self) -> dict[str, AnyValue]:
        """The result as plain data for JSON."""
        raise NotImplementedError

    def to_json(self) -> str:
        """The result as a JSON object."""
        return json.dumps(self.to_dict(), indent=2)

    def __rich__(self) -> "RenderableType":
        raise NotImplementedError

    def __str__(self) -> str:
        from passat.render import rendered

        return rendered(self)

    def _repr_html_(self) -> str:
        from passat.render import html

        return html(self.__rich__())


@dataclass
class RuleReport:
    """The work of one rule over all passes: processed and rejected matches, the first reasons of rejections in each pass, and how often it
    fired. If recorded: the seconds spent on its matches, the number and share of nodes of the result that it made, and whether it
    contributed to the result. For a user's rule, `why_not_run` says why no pass ran it."""

    name: str
    matched: int = 0
    rejected: int = 0
    fired: int = 0
    own: bool = False
    """True for a user's rule; the report then says why it did not fire."""
    seconds: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)
    made: int = 0
    share: float = 0.0
    taken: bool | None = None
    why_not_run: str = ""


@dataclass
class PassReport:
    """A run of a pass: seconds including nested passes, its depth, and its counters (`merged`, `lowered` ...)."""

    name: str
    seconds: float
    depth: int = 0
    counters: dict[str, float] = field(default_factory=dict)
    own: bool = False
    """True for a user's pass; the report then shows all its statistics and remarks."""
    stage: str = ""
    """The stage that the pass belongs to. Its time counts for the stage; `seconds` is 0.0."""


@dataclass(frozen=True)
class Timing:
    """The time of a model: the median over rounds, and the share of rounds in which it beat the input. Candidates are named for the cost
    model by which they are cheapest, or for the pass whose next best they are; `failed` says why there is no time."""

    name: str
    seconds: float = 0.0
    rounds: int = 0
    faster: float = 0.0
    nodes: int = 0
    chosen: bool = False
    failed: str = ""


@dataclass
class Report(Shown):
    """The report of an optimization.

    Nodes are counted by operator, including subgraphs and local functions; `node_count` omits those that only hold data. Costs are in
    seconds or units of the cost model; sizes are bytes of the model with its external data. `timings` has the times of the input and the
    candidates, if measured. `kept` says why the input was returned, if it was. `warnings` are problems of the model that do not prevent
    running it. `limits` lists limits that stopped a pass, with the best program so far as its result; `interrupted` says that Ctrl-C did.
    `lowered` calls were decomposed regardless of cost. `recorded` says that rules have full statistics.
    """

    source: str = ""
    pipeline: str = ""
    nodes_before: dict[str, int] = field(default_factory=dict)
    nodes_after: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    cost_before: float = 0.0
    cost_after: float = 0.0
    cost_model: str = "roofline"
    cost_in_seconds: bool = True
    cost_notes: list[str] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    bytes_before: int = 0
    bytes_after: int = 0
    passes: list[PassReport] = field(default_factory=list)
    rules: list[RuleReport] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    verification: VerifyReport | None = None
    kept: str = ""
    interrupted: bool = False
    lowered: int = 0
    recorded: bool = False
    output: str = ""
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def node_count_before(self) -> int:
        """The number of nodes of the input that compute something."""
        return node_count(self.nodes_before)

    @property
    def node_count_after(self) -> int:
        """The number of nodes of the result that compute something."""
        return node_count(self.nodes_after)

    def to_dict(self) -> dict[str, AnyValue]:
        """The report as plain data for JSON, with both node counts."""
        data = asdict(self)
        for trial in (data["verification"] or {}).get("trials", ()):
            trial["ranges"] = {name: [among[0], among[-1]] for name, among in trial["ranges"].items()}
        return {
            "schema": "report-1",
            "source": self.source,
            "output": self.output,
            "node_count_before": self.node_count_before,
            "node_count_after": self.node_count_after,
            **{name: value for name, value in data.items() if name not in ("source", "output")},
        }

    def __rich__(self) -> "RenderableType":
        from passat.render import render_report

        return render_report(self)

    @contextlib.contextmanager
    def clock(self, step: str) -> Iterator[None]:
        """Measures the seconds of a step."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] = time.perf_counter() - start

    def take_statistics(
        self, statistics: Statistics, timings: Sequence[PassTime], own: Mapping[str, str] | None = None, own_passes: Collection[str] = ()
    ) -> None:
        """Takes over counters, remarks and times of passes. `own` maps the user's rules to why no pass ran them; `own_passes` are the
        user's passes."""
        rules = {name: RuleReport(name, own=True, why_not_run=why) for name, why in (own or {}).items()}
        counted: set[str] = set()
        for run in timings:
            counters: dict[str, float] = {}
            if run.name not in counted:
                counted.add(run.name)
                counters = {
                    key: value
                    for key, value in statistics.counters.get(run.name, {}).items()
                    if run.name in own_passes or (":" not in key and key != "seconds")
                }
            self.passes.append(PassReport(run.name, run.seconds, run.depth, counters, run.name in own_passes, run.stage))
        for name, counters in statistics.counters.items():
            for key, amount in counters.items() if name not in own_passes else ():
                what, colon, rule = key.partition(":")
                self.lowered += int(amount) if key == "lowered" else 0
                if colon and what in ("matched", "rejected", "fired"):
                    entry = rules.setdefault(rule, RuleReport(rule))
                    setattr(entry, what, getattr(entry, what) + int(amount))
        for remarks in statistics.remarks.values():
            for text, times in remarks.items():
                if isinstance(text, Rejected):
                    reasons = rules.setdefault(text.rule, RuleReport(text.rule)).reasons
                    reasons[text.reason] = reasons.get(text.reason, 0) + text.matches * times
        for entry in rules.values():  # the engine keeps the first few of each saturation
            rest = entry.rejected - sum(entry.reasons.values())
            entry.reasons |= {OTHER_REASONS: rest} if rest > 0 else {}
        self.rules = sorted(rules.values(), key=lambda rule: (-rule.fired, rule.name))
        interruption = early_end(INTERRUPTED)
        for name, remarks in statistics.remarks.items():
            for text, times in remarks.items():
                said = f"{name}: {text}" + (f" ({times} times)" if times > 1 else "")
                if text == interruption and any(limit.endswith(interruption) for limit in self.limits):
                    continue
                (self.limits if isinstance(text, Ended) else self.remarks).append(said)


def warnings_of(module: "IRModule") -> list[str]:
    """Problems of a module's ONNX model that do not prevent running it."""
    return _first([str(warning.sentence) for warning in module.attrs["onnx"].warnings])


def opaque_warnings(module: "IRModule") -> list[str]:
    """The nodes of a module that rules cannot match because they call functions of the model, or because types are unknown."""
    return _first([*filter(None, [function_calls(module)]), *(value.sentence for value in untyped_values(module))])


def _first(sentences: list[str]) -> list[str]:
    rest = len(sentences) - SENTENCES
    return sentences if rest <= 0 else [*sentences[:SENTENCES], f"... and {rest} more"]


class _ReportedError(PassatError, RuntimeError):
    """The base of errors about a result that is not returned. `report` is its report."""

    exit_code = 1

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


class MismatchError(_ReportedError):
    """The optimized model computes other values than the original. The message names the pass; `report` holds what was compared."""


class UnverifiedError(_ReportedError):
    """Nothing could be compared, so the result is unverified. `report` states the reason."""


def histogram(model: "ModelProto") -> dict[str, int]:
    """The nodes of a model by operator, including subgraphs and local functions; names of other domains include the domain."""
    from passat.ir.onnx.scope import nodes_of  # needs onnx

    counts = Counter(map(operator_name, nodes_of(model)))
    # Invalid UTF-8 appears as bytes; reading the model rejects it with a message.
    return dict(sorted(counts.items(), key=lambda item: str(item[0])))


def node_count(counts: Mapping[str, int]) -> int:
    """The number of nodes of a histogram that compute something.

    >>> node_count({"Add": 2, "Constant": 5})
    2
    """
    return sum(count for operator, count in counts.items() if operator not in NOT_COUNTED)


def bytes_of(model: "ModelProto") -> int:
    """The bytes of a model, including its external data."""
    from passat.ir.onnx.files import external_bytes  # needs onnx
    from passat.ir.onnx.sizes import model_bytes

    return model_bytes(model) + external_bytes(model)
