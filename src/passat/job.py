"""What the steps of an optimization share, and what they hand on; first of all the model that it starts from: what it is called, what
it holds, and where it can be read again."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, from_onnx
from passat.ir.onnx.errors import CheckerError, ContradictionError, require_onnx
from passat.measure import Measured
from passat.passmgr import CrashReproducer, PassContext, PassInfo, PassInstrument, Sequential
from passat.report import Report
from passat.rulefile import PathLike, read_rules
from passat.rules import RuleSet
from passat.rules.cost import CostModel, Roofline, cost_model
from passat.rules.engine.journal import Journal
from passat.settings import DEFAULT_LEVEL, Settings
from passat.verify import Comparing, comparing

if TYPE_CHECKING:
    from onnx import ModelProto

    from passat.explaining import Tracing
    from passat.runner import ModelSource


ModelLike: TypeAlias = "ModelProto | str | os.PathLike[str] | bytes | bytearray | memoryview | SupportsRead"
"""A model, its file, its bytes, or a binary file object that holds them."""
IN_MEMORY: Final = "a model in memory"


class SupportsRead(Protocol):
    """A binary file object."""

    def read(self, size: int, /) -> bytes:
        """Reads at most `size` bytes."""


@dataclass(frozen=True, eq=False)
class Source:
    """A model as it was given. `folder` is the folder of its external data."""

    name: str
    proto: "ModelProto"
    folder: str | None
    in_file: bool

    @property
    def path(self) -> str | None:
        """The path of its file, None for a model in memory."""
        return self.name if self.in_file else None

    @property
    def original(self) -> "ModelSource":
        """The model for ONNX Runtime: its file, unless that is a pipe, which cannot be read again."""
        return self.name if self.in_file and os.path.isfile(self.name) else self.proto

    @cached_property
    def is_accepted(self) -> bool:
        """Whether `onnx.checker` accepts it. ONNX Runtime runs models that it does not."""
        from passat.ir.onnx.files import check_model

        try:
            check_model(self.proto)
        except CheckerError:
            return False
        return True

    def read(self, opset: int | None) -> "tuple[ModelProto, IRModule]":
        """The model in an opset, its own where none is given, and its module. Where it contradicts itself, ONNX Runtime decides
        whether it can be read. Raises OnnxError."""
        with self.named():
            try:
                return self._read(opset, lenient=False)
            except ContradictionError:
                from passat.runner import loads

                if not loads(self.original, self.folder):
                    raise
                return self._read(opset, lenient=True)

    def _read(self, opset: int | None, *, lenient: bool) -> "tuple[ModelProto, IRModule]":
        model = self.proto
        if opset is not None:
            from passat.ir.onnx.opset import in_opset  # which needs onnx

            model = in_opset(model, opset, folder=self.folder, lenient=lenient)
        return model, from_onnx(model, folder=self.folder, lenient=lenient)

    def named(self) -> contextlib.AbstractContextManager[None]:
        """Lets an OnnxError begin with the name of the file, where there is one."""
        return about(self.name) if self.in_file else contextlib.nullcontext()


def open_source(model: "ModelLike", folder: str | os.PathLike[str] | None) -> Source:
    """Reads a model. `folder` is the folder of the external data of a model in memory. Raises OnnxError."""
    require_onnx()
    if isinstance(model, (str, os.PathLike)):
        from passat.ir.onnx.files import read_model

        path = os.fspath(model)
        return Source(path, read_model(path), os.path.dirname(path) or ".", in_file=True)
    return Source(IN_MEMORY, _in_memory(model), None if folder is None else os.fspath(folder), in_file=False)


def _in_memory(model: "ModelProto | bytes | bytearray | memoryview | SupportsRead") -> "ModelProto":
    data = _bytes_of(model)
    if data is not None:
        from passat.ir.onnx.files import parse_model

        return parse_model(data, IN_MEMORY)
    if not hasattr(model, "graph"):
        raise OnnxError(
            f"optimize takes a ModelProto, the path of a model, its bytes, or a binary file that holds it, not {type(model).__name__}"
        )
    return cast("ModelProto", model)


def _bytes_of(model: "ModelLike") -> bytes | None:
    """The bytes of a model that is given so, or as a file object; None for anything else. Raises OnnxError."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    read = getattr(model, "read", None)
    if not callable(read):
        return None
    from passat.ir.onnx.files import MODEL_LIMIT

    data = read(MODEL_LIMIT + 1)
    if not isinstance(data, bytes):
        raise OnnxError(
            f"optimize takes binary file objects, as of open(path, 'rb'); read() of the one given returns {type(data).__name__}"
        )
    return data


@contextlib.contextmanager
def about(source: str, output: str | None = None) -> Iterator[None]:
    """Lets an OnnxError begin with the name of the model, unless it names the file that is written."""
    try:
        yield
    except OnnxError as error:
        if output is not None and str(error).startswith(output):
            raise
        raise error.about(source) from error


class VetoWatch(PassInstrument):
    """Remembers which passes the instruments behind it let run, in order. `again()` lets the same ones run."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, bool]] = []

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Takes it that somebody will veto the pass."""
        self.answers.append((info.name, False))
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Nobody has. A pass that the context requires was not asked about, and its name is not that of the last answer."""
        if self.answers and self.answers[-1] == (info.name, False):
            self.answers[-1] = info.name, True

    def again(self) -> "PassInstrument":
        """An instrument that vetoes what was vetoed."""
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
    """What all steps use: what is wanted, and the report that they fill in; the user's rule sets, and the files that were read; the context
    around the call, and that of the passes, without instruments; how models are compared and calls priced; which passes instruments have
    vetoed; what is written down on the way."""

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
        """Says what begins now."""
        if self.wanted.progress is not None:
            self.wanted.progress(text)


@dataclass(frozen=True, eq=False)
class Given:
    """The input: where it comes from, the same in the opset of the result (another object only where it was converted), its module."""

    source: Source
    proto: "ModelProto"
    module: IRModule


@dataclass(frozen=True, eq=False)
class Made:
    """What the passes made of the input, the pipeline, the context that it ran in, and what writes a reproducer where a pass raises."""

    module: IRModule
    pipeline: Sequential
    context: PassContext
    crash: CrashReproducer | None


@dataclass(frozen=True, eq=False)
class Outcome:
    """The model that comes back, its module, and the settings under which the passes made that."""

    model: "ModelProto"
    module: IRModule
    context: PassContext


def begin(wanted: Settings) -> Job:
    """Reads rules and inputs, and makes the settings of the passes. Raises RuleFileError, InputsError, CostError, AttributeError."""
    rules, files = read_rules(wanted.rules)
    how = comparing(wanted.seed, wanted.inputs, wanted.rtol, wanted.atol)
    around = PassContext.entered() or PassContext(DEFAULT_LEVEL)
    options, tracing = wanted.options, None
    if wanted.record or wanted.explain or wanted.certificate:
        journal = options.get("rules.journal") or around.get_config("rules.journal") or Journal()
        options["rules.journal"] = journal
        from passat.explaining import Tracing  # and with it all of explanations and certificates

        tracing = Tracing(journal)
    report, context = Report(), around.inside(wanted.opt_level, options).with_instruments()
    return Job(wanted, report, rules, files, around, context, how, _prices(context, report), VetoWatch(), tracing)


def _prices(context: PassContext, report: Report) -> CostModel:
    """The cost model of the passes; the report says which that is. Raises CostError."""
    named = context.get_config("rules.cost")
    model = cost_model(named, context.get_config("rules.machine"))
    report.cost_model = named if isinstance(named, str) else type(model).__name__
    report.cost_in_seconds = isinstance(model, (Roofline, Measured))
    if isinstance(model, Measured):
        model.begin()
    return model
