"""What travels between the process that runs a pipeline and its workers: modules, passes with the settings of their context, answers."""

import contextlib
import importlib
import itertools
import mmap
import os
import pickle
import sys
import tempfile
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.ir.serialize import Encoded
from passat.ir.types import Type
from passat.passmgr.context import PassContext
from passat.passmgr.passes import FunctionPass
from passat.passmgr.registry import UnknownPassError, get_entry, name_and_options
from passat.passmgr.statistics import Statistics

LARGE: Final = 1 << 20
"""Bytes from which on a parcel lies in a file that all workers map, rather than being sent to each."""
_ALIGNMENT: Final = 64


class CannotTravelError(Exception):
    """Something that other processes cannot be given. The message says what, and why."""


class Parcel(NamedTuple):
    """A pickled value and its buffers (the elements of constants), one behind the other, in memory or in the file of that name."""

    sizes: tuple[int, ...]
    block: bytes | str


def pack(value: object, what: str, *, in_file: bool) -> Parcel:
    """The parcel of a value; in a file where that is allowed and the value is large. Raises CannotTravelError."""
    buffers: list[pickle.PickleBuffer] = []
    head = dumps(value, what, buffers)
    pieces = [memoryview(head), *(buffer.raw() for buffer in buffers)]
    sizes = tuple(piece.nbytes for piece in pieces)
    padded = [each for piece in pieces for each in (piece, bytes(-piece.nbytes % _ALIGNMENT))]
    if not in_file or sum(sizes) < LARGE:
        return Parcel(sizes, b"".join(padded))
    handle, path = tempfile.mkstemp(prefix="passat-")
    with open(handle, "wb") as file:
        for piece in padded:
            file.write(piece)
    return Parcel(sizes, path)


def unpack(parcel: Parcel) -> AnyValue:
    """The value in a parcel. Its constants are views of the block."""
    if isinstance(parcel.block, str):
        with open(parcel.block, "rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    else:
        view = memoryview(parcel.block)
    starts = itertools.accumulate((size + -size % _ALIGNMENT for size in parcel.sizes), initial=0)
    head, *buffers = (view[start : start + size] for start, size in zip(starts, parcel.sizes, strict=False))
    return pickle.loads(head, buffers=buffers)


def remove(parcel: Parcel) -> None:
    """Deletes the file of a parcel that has one. Who has mapped it keeps it."""
    if isinstance(parcel.block, str):
        with contextlib.suppress(OSError):  # on Windows while it is mapped
            os.unlink(parcel.block)


def dumps(value: object, what: str, buffers: list[pickle.PickleBuffer] | None = None) -> bytes:
    """The value, pickled. Raises CannotTravelError."""
    try:
        return pickle.dumps(value, 5, buffer_callback=None if buffers is None else buffers.append)
    except Exception as error:  # of whatever __reduce__ is in there
        raise CannotTravelError(f"{what} cannot be pickled ({type(error).__name__}: {error})") from error


class Settings(NamedTuple):
    """What a context says to passes that run elsewhere: all but its instruments, diagnostics and workers."""

    opt_level: int
    required_pass: list[str]
    disabled_pass: list[str]
    config: dict[str, AnyValue]

    @staticmethod
    def of(ctx: PassContext) -> "Settings":
        """Those of a context."""
        config = {key: value for key, value in ctx.config.items() if key != "passmgr.workers"}
        return Settings(ctx.opt_level, ctx.required_pass, ctx.disabled_pass, config)

    def context(self, log: "StatisticsLog") -> PassContext:
        """A context that says this, and whose statistics are the log."""
        ctx = PassContext(self.opt_level, self.required_pass, self.disabled_pass)
        ctx.config = self.config  # checked where it was given; its options may not be registered here
        ctx.statistics = log
        return ctx


class StatisticsLog(Statistics):
    """Statistics that remember each entry, so that others can be told of them one by one."""

    __slots__ = ("entries",)

    def __init__(self, counted: Statistics | None = None) -> None:
        super().__init__()
        self.entries: list[tuple[str, str, float | None]] = []
        if counted is not None:  # what was counted before, which a pass may ask for
            self.add(counted)
            self.entries.clear()

    def record(self, pass_name: str, key: str, amount: float = 1) -> None:
        """Adds to a counter."""
        super().record(pass_name, key, amount)
        self.entries.append((pass_name, key, amount))

    def remark(self, pass_name: str, text: str, times: int = 1) -> None:
        """Keeps a sentence."""
        super().remark(pass_name, text, times)
        self.entries += [(pass_name, text, None)] * times


def replay(entries: list[tuple[str, str, float | None]], statistics: Statistics) -> None:
    """Tells statistics of the entries of a log."""
    for pass_name, text, amount in entries:
        if amount is None:
            statistics.remark(pass_name, text)
        else:
            statistics.record(pass_name, text, amount)


def job_of(pass_: FunctionPass, settings: Settings) -> bytes:
    """A pass and the settings to run it with, pickled. Raises CannotTravelError.

    A pass that a registered function has made goes by its name and options, another one as it is. What of these cannot be pickled goes
    the other way, if it can.
    """
    shipped = dumps(settings, "the config of the context")
    by_name = "made_by" in vars(pass_)
    try:
        return dumps((_recipe(pass_) if by_name else pass_, shipped), f"the pass {pass_.info.name}")
    except CannotTravelError as error:
        try:
            return dumps((pass_ if by_name else _recipe(pass_), shipped), f"the pass {pass_.info.name}")
        except CannotTravelError:
            raise error from None


def read_job(job: bytes) -> tuple[FunctionPass, Settings]:
    """What `job_of` packed. Raises CannotTravelError where the pass is not known here; whatever the modules raise that are imported."""
    pass_, settings = pickle.loads(job)
    if isinstance(pass_, _Recipe):
        pass_ = pass_.make()
    return pass_, pickle.loads(settings)


class _Recipe(NamedTuple):
    """How a registered pass is made again: the module that registers it, its name and options; and what it is, to be sure."""

    module: str
    name: str
    options: dict[str, object]
    kind: tuple[str, str, str]

    def make(self) -> FunctionPass:
        if self.module not in sys.modules and self.module != "__main__":
            importlib.import_module(self.module)
        try:
            made = get_entry(self.name).make(self.options)
        except UnknownPassError as error:
            raise CannotTravelError(str(error)) from None
        if not isinstance(made, FunctionPass) or _kind(made) != self.kind:
            raise CannotTravelError(f"another pass is registered there under the name {self.name}")
        return made


def _recipe(pass_: FunctionPass) -> _Recipe:
    name, options = name_and_options(pass_)
    try:
        factory = get_entry(name).factory
    except UnknownPassError as error:
        raise CannotTravelError(str(error)) from None
    return _Recipe(str(getattr(factory, "__module__", "__main__")), name, options, _kind(pass_))


def _kind(pass_: FunctionPass) -> tuple[str, str, str]:
    return type(pass_).__module__, type(pass_).__qualname__, pass_.info.name


class Task(NamedTuple):
    """Functions of a module, by their places in it, for a worker to run a pass on. `key` tells modules apart, `counters` is what had
    been counted before: a pass may look at that, as those do that have so many seconds for all functions."""

    job: bytes
    key: str
    module: Parcel
    places: list[int]
    counters: dict[str, dict[str, float]]


class Outcome(NamedTuple):
    """What became of a function: its new form, as a place among the roots of the answer, or None where it stayed as it was.

    Of a pass that raised, `failed` is set, `error` holds the pickled exception, or None where that cannot be pickled.
    """

    root: int | None
    entries: list[tuple[str, str, float | None]]
    failed: bool = False
    error: bytes | None = None
    trace: str = ""


class Answer(NamedTuple):
    """What a worker did: the outcomes in order, up to the first failure; new functions, built upon the nodes of the module; types that
    nodes of the module were given; and whether the pass added or removed functions."""

    outcomes: list[Outcome]
    encoded: Encoded | None
    types: list[tuple[int, Type]]
    resized: bool


class Refusal(NamedTuple):
    """Why a worker could not run a task, or hand back what came of it."""

    reason: str
