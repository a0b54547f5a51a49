"""A measured cost model: runs each distinct operator, with its attributes and operand types, on ONNX Runtime.

A model of one call runs with the call once and with several copies of it. The difference is the operator's time within a larger program:
launch and work, without session overhead and without copies of inputs and outputs. Operators without work, such as Reshape, thus cost
almost nothing. Graph optimizations are off, and constant weights are packed once, as in real use.
"""

import contextlib
import hashlib
import json
import math
import os
import platform
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple
from typing import Any as AnyValue

import numpy as np

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.cost import nbytes
from passat.ir.dtypes import to_numpy
from passat.ir.expr import Call, Expr, Function, Tuple, Var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.onnx import to_onnx
from passat.ir.op import Op, get_op, list_ops
from passat.ir.shape import Any, SymDim, assumed_size
from passat.ir.tensor import Array
from passat.ir.types import TensorType, TupleType, Type
from passat.rules.cost import EPSILON, ROOFLINE, CostError, Machine, cost_model
from passat.runner import Runner, VerifyError, runtime_version, sentence_of
from passat.session import usable_cores

if TYPE_CHECKING:
    from onnx import ModelProto

FILE: Final = "measurements-2.jsonl"
"""The number is the version of the measuring method and file format; other versions are not read."""
LIMIT: Final = 1 << 26
"""Size in bytes at which a file is restarted."""


def cache_folder() -> Path:
    """The cache folder from the environment: `PASSAT_CACHE`, or `passat` in `XDG_CACHE_HOME`, or `~/.cache/passat`. For a user
    without a home, it cannot be made, so nothing is kept."""
    own = os.environ.get("PASSAT_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(shared):  # the XDG specification requires ignoring it
        home = os.path.expanduser("~")
        shared = os.path.join(home, ".cache") if os.path.isabs(home) else os.devnull
    return Path(shared) / "passat"


class Measurements:
    """Seconds by key, for one machine and runtime version.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Measurements("a machine", "a runtime", Path(folder)).put("add", 0.5)
    ...     Measurements("a machine", "a runtime", Path(folder)).get("add")
    0.5
    """

    def __init__(self, machine: str, runtime: str, folder: Path | None = None) -> None:
        self.path = (cache_folder() if folder is None else folder) / FILE
        self._scope = [machine, runtime]
        self._known: dict[str, float] = {}
        self._end = 0
        self._update()

    def _update(self) -> None:
        """Reads the lines that were added since."""
        try:
            state = self.path.stat()
            if not stat.S_ISREG(state.st_mode) or state.st_size > LIMIT:
                return
            with open(self.path, "rb") as file:
                file.seek(self._end if self._end < state.st_size else 0)
                begin, data = file.tell(), file.read(LIMIT)
        except (OSError, ValueError):
            return
        self._end = begin + max(data.rfind(b"\n"), 0)  # the last line may be incomplete
        for line in data.splitlines():
            try:
                *scope, key, seconds = json.loads(line)
            except (ValueError, TypeError, RecursionError):
                continue
            if scope == self._scope and isinstance(key, str) and isinstance(seconds, float) and 0 < seconds < math.inf:
                self._known[key] = seconds

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> float | None:
        """The measurement for a key, from this process or another one."""
        return self._known.get(key)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Lets one process of this machine measure at a time, and then knows what the others have measured."""
        name = f"{FILE}.{hashlib.sha256(json.dumps(self._scope).encode()).hexdigest()[:16]}.lock"
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError, ImportError):  # without a cache folder, or on Windows, there is nothing to share
                import fcntl

                self.path.parent.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(open(self.path.with_name(name), "ab"))
                fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed, also by the end of the process
            self._update()
            yield

    def put(self, key: str, seconds: float) -> None:
        """Stores a measurement; only in this process if the file is not writable."""
        self._known[key] = seconds
        with contextlib.suppress(OSError, ValueError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            state = None
            with contextlib.suppress(FileNotFoundError):
                state = self.path.stat()  # a single call: another process may create the file afterwards
            if state is None or stat.S_ISREG(state.st_mode):
                full = state is not None and state.st_size >= LIMIT
                with open(self.path, "wb" if full else "ab", buffering=0) as file:
                    # The leading line feed ends a line that another process could not finish.
                    file.write(f"\n{json.dumps([*self._scope, key, float(seconds)])}\n".encode())


SECONDS: Final = 60.0
"""The default time limit for all operators of a model together."""
_SLICE: Final = 0.02
"""Seconds of measuring per operator."""
_TURNS: Final = (5, 40)
"""Minimum and maximum number of rounds."""
_LONGEST: Final = 2.0
"""An operator with a longer estimate is not measured."""
_MEMORY: Final = 1 << 30
"""Maximum bytes of operands and results of a measured operator."""
_LEAST: Final = 5e-8
"""The shortest measurable time."""
_PACKED: Final = ("nn.dense", "nn.matmul", "nn.batch_matmul", "nn.conv", "onnx.")
"""Name prefixes of operators that distinguish constant operands."""


class _UnmeasurableError(Exception):
    """An operator that cannot be measured; the text says why."""


class _NoTimeError(_UnmeasurableError):
    """An operator that was not measured for lack of time."""


class _Price(NamedTuple):
    """The cost of a call, its source, why it could not be measured, and whether the reason is lack of time."""

    seconds: float
    origin: str
    reason: str = ""
    late: bool = False


class Measured:
    """A measuring cost model. Times are cached; operators that cannot be measured cost what the roofline model estimates for this machine.

    `threads` is for ONNX Runtime; `seconds` limits measuring since `begin`; `folder` is the cache. Raises CostError if ONNX Runtime is not
    installed.
    """

    def __init__(self, *, threads: int = 1, seconds: float = SECONDS, folder: Path | None = None) -> None:
        self.threads = threads
        self.seconds = seconds
        self._folder = folder
        try:
            version = runtime_version()
        except VerifyError as error:
            raise CostError(
                "the cost model measured runs operators on ONNX Runtime, which is not installed: pip install 'passat[onnx]' installs it"
            ) from error
        self._times = Measurements(machine_name(threads), f"onnxruntime {version}", folder)
        self._prices: dict[tuple[object, ...], _Price] = {}
        self._asked: set[tuple[object, ...]] = set()
        self._lock = threading.RLock()
        self._spent = 0.0
        self._machine: Machine | None = None
        self._counts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()

    def __reduce__(self) -> tuple[object, ...]:
        return (partial(Measured, threads=self.threads, seconds=self.seconds, folder=self._folder), ())

    def begin(self) -> None:
        """Resets the counters and the time budget; operators skipped for lack of time are measured at the next query."""
        with self._lock:
            self._spent = 0.0
            self._prices = {key: found for key, found in self._prices.items() if not found.late}
            self._asked.clear()
            self._counts.clear()
            self._reasons.clear()

    def notes(self) -> list[str]:
        """Counters since `begin`, as sentences: operators measured, cached, and estimated, and why."""
        with self._lock:
            new, old, estimated = (self._counts[what] for what in ("measured", "remembered", "estimated"))
            notes = [f"{new} operators measured in {self._spent:.1f} s, {old} from the cache, {estimated} estimated"]
            notes += [f"{count} estimated: {reason}" for reason, count in self._reasons.most_common(3)]
        return notes

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """Seconds of a call without constant operands."""
        return self.call_on(op, types, result, attrs, (False,) * len(types))

    def call_on(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs, constants: Sequence[bool]) -> float:
        """Seconds of a call with some constant operands."""
        known = tuple(constants) if op.name.startswith(_PACKED) else ()
        key = (op, attrs, result, *types, known)
        found = self._prices.get(key)
        if found is None or key not in self._asked:
            with self._lock:
                found = self._prices.get(key)
                new = found is None
                if found is None:
                    found = self._prices[key] = self._price(op, types, result, attrs, known)
                if key not in self._asked:
                    self._asked.add(key)
                    self._counts[found.origin if new or found.origin != "measured" else "remembered"] += 1
                    if found.reason:
                        self._reasons[found.reason] += 1
        return found.seconds

    @property
    def machine(self) -> Machine:
        """This machine, for the roofline model."""
        with self._lock:
            if self._machine is None:
                with self._times.alone():
                    self._machine = self._measure_machine()
            return self._machine

    def _price(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs, constants: Sequence[bool]) -> "_Price":
        if op.name == "nn.bias_add":  # fused into the preceding product: never runs by itself
            return _Price(self._estimate(op, types, result, attrs), "part of a product")
        try:
            return self._measure(op, types, result, attrs, constants)
        except _UnmeasurableError as error:
            late = isinstance(error, _NoTimeError)
            return _Price(self._estimate(op, types, result, attrs), "estimated", f"{op.name}: {error}", late)

    def _estimate(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        return cost_model("roofline", self.machine).call(op, types, result, attrs)

    def _measure(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs, constants: Sequence[bool]) -> "_Price":
        """Seconds of a call, from the cache or by running it. Raises _UnmeasurableError."""
        if sum(map(nbytes, types)) + nbytes(result) > _MEMORY:
            raise _UnmeasurableError(f"operands and results take more than {_MEMORY >> 20} MB")
        if ROOFLINE.call(op, types, result, attrs) > _LONGEST:
            raise _UnmeasurableError(f"one run would take more than {_LONGEST:g} s")
        single = _single(op, types, attrs)
        flags = "".join("c" if constant else "x" for constant in constants)
        key = f"{op.name} {hashlib.sha256(single.model.SerializeToString(deterministic=True)).hexdigest()} {flags}"
        known = self._times.get(key)
        if known is not None:
            return _Price(known + EPSILON, "remembered")
        if self._spent >= self.seconds:
            raise _NoTimeError(f"the {self.seconds:g} s for measuring are used up")
        with self._times.alone():
            known = self._times.get(key)
            if known is not None:
                return _Price(known + EPSILON, "remembered")
            start = time.perf_counter()
            try:
                seconds = _time(single, constants, self.threads)
            finally:
                self._spent += time.perf_counter() - start
            self._times.put(key, seconds)
        return _Price(seconds + EPSILON, "measured")

    def _measure_machine(self) -> Machine:
        known = [self._times.get(f"machine {what}") for what in ("product", "copy", "start")]
        product, copied, start = known
        if product is None or copied is None or start is None:
            list_ops()  # declares them
            large, small = TensorType((_SIDE, _SIDE)), TensorType((1,))
            try:
                product = _time(_single(get_op("nn.matmul"), [large, large], get_op("nn.matmul").bind_attrs({})), (), self.threads)
                copied = _time(_single(get_op("negative"), [TensorType((_LONG,))], EMPTY_ATTRS), (), self.threads)
                start = _time(_single(get_op("add"), [small, small], EMPTY_ATTRS), (), self.threads)
            except _UnmeasurableError:
                return ROOFLINE.machine
            for what, seconds in (("product", product), ("copy", copied), ("start", start)):
                self._times.put(f"machine {what}", seconds)
        return Machine(2 * _SIDE**3 / product, 8 * _LONG / copied, start)


_SIDE: Final = 512
"""The size of the matrices whose product measures arithmetic."""
_LONG: Final = 1 << 22
"""The length of the vector whose negation measures bandwidth; larger than caches."""


def measured() -> Measured:
    """The model named `measured`: one per cache folder and process."""
    return _of_folder(cache_folder())


@lru_cache(maxsize=4)
def _of_folder(folder: Path) -> Measured:
    return Measured(folder=folder)


def this_machine() -> Machine:
    """This machine, for the roofline model; measured once and cached."""
    return measured().machine


@cache
def machine_name(threads: int) -> str:
    """What times depend on: the processor, its cores, ONNX Runtime's threads."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:  # Linux only
        name = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), name)
    return f"{name}, {usable_cores()} cores, {threads} threads"


class _Single:
    """A model of one call, and the types of its inputs."""

    def __init__(self, model: "ModelProto", inputs: Sequence[TensorType], operands: Sequence[int]) -> None:
        self.model = model
        self.inputs = inputs
        self.operands = operands
        """For each input, the operand of the call that it belongs to."""

    @property
    def is_odd(self) -> bool:
        """True if ONNX Runtime may end the process: some operands are empty, or attributes are absurd."""
        from passat.ir.onnx.attributes import absurd_attribute  # needs onnx

        return any(0 in type_.shape for type_ in self.inputs) or any(map(absurd_attribute, self.model.graph.node))


def _single(op: Op, types: Sequence[Type], attrs: Attrs) -> _Single:
    """The model of a call on operands of these types. Raises _UnmeasurableError."""
    params: list[Var] = []
    inputs: list[TensorType] = []
    operands: list[int] = []

    def operand(type_: Type, index: int) -> Expr:
        if isinstance(type_, TupleType):
            return Tuple([operand(field, index) for field in type_.fields])
        if not isinstance(type_, TensorType):
            raise _UnmeasurableError("an operand is not a tensor")
        inputs.append(TensorType([assumed_size(dim) for dim in type_.shape], type_.dtype))
        operands.append(index)
        params.append(Var(f"x{len(params)}", inputs[-1]))
        return params[-1]

    call = Call(op, [operand(type_, index) for index, type_ in enumerate(types)], Attrs({k: _sized(v) for k, v in attrs.items()}))
    try:
        function = infer_type(Function(params, call))
        return _Single(to_onnx(IRModule({"main": function})), inputs, operands)
    except Exception as error:  # incompatible sizes, operators without an ONNX form, inference of opaque ones
        raise _UnmeasurableError(f"it does not form a model of its own: {sentence_of(error)}") from error


def _sized(value: AnyValue) -> AnyValue:
    if isinstance(value, tuple):
        return tuple(_sized(item) for item in value)
    return assumed_size(value) if isinstance(value, (SymDim, Any)) else value


def _time(single: _Single, constants: Sequence[bool], threads: int) -> float:
    """Seconds per additional call of the operator. Raises _UnmeasurableError."""
    random = np.random.default_rng(0)
    names = [value.name for value in single.model.graph.input]
    values = {name: _value(type_, random) for name, type_ in zip(names, single.inputs, strict=True)}
    weights = {name for name, index in zip(names, single.operands, strict=True) if constants and constants[index]}
    feed = {name: value for name, value in values.items() if name not in weights}
    try:
        if single.is_odd:
            Runner(_copies(single.model, 1, values, weights), threads=threads, apart=True).run(feed)
        one = Runner(_copies(single.model, 1, values, weights), threads=threads, arena=True)
        once = min(_run(one, feed) for _ in range(2))
        extra = 8 if once < 1e-4 else 4 if once < 1e-3 else 1
        many = Runner(_copies(single.model, 1 + extra, values, weights), threads=threads, arena=True)
        _run(many, feed)
    except Exception as error:  # ONNX Runtime's errors have no common base class
        raise _UnmeasurableError("ONNX Runtime does not run it by itself") from error
    alone: list[float] = []
    together: list[float] = []
    end = time.perf_counter() + _SLICE
    least, most = _TURNS
    while len(alone) < least or (len(alone) < most and time.perf_counter() < end):
        alone.append(_run(one, feed))
        together.append(_run(many, feed))
    return max((median(together) - median(alone)) / extra, _LEAST)


def _run(runner: Runner, feed: dict[str, Array]) -> float:
    start = time.perf_counter()
    runner.run(feed)
    return time.perf_counter() - start


def _value(type_: TensorType, random: np.random.Generator) -> Array:
    """Values that any operator accepts: numbers around one, valid for logarithms and roots; integers valid as divisors and indices."""
    dtype, shape = to_numpy(type_.dtype), type_.concrete_shape
    if dtype.kind == "O":
        raise _UnmeasurableError("it takes strings")
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if type_.dtype.startswith(("int", "uint")):
        return np.ones(shape, dtype)
    return random.uniform(0.5, 1.5, shape).astype(np.float32).astype(dtype)


def _copies(model: "ModelProto", count: int, values: dict[str, Array], weights: set[str]) -> "ModelProto":
    """The model with several copies of its call, whose results are read only by Shape: ONNX Runtime runs them all the same."""
    made = type(model)()
    made.CopyFrom(model)
    graph = made.graph
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    results = {name for node in nodes for name in node.output if name}
    for copy in range(1, count):
        for node in nodes:
            added = graph.node.add()
            added.CopyFrom(node)
            added.name = f"{node.name}_{copy}" if node.name else ""
            for ends in (added.input, added.output):
                ends[:] = [f"{name}__{copy}" if name in results else name for name in ends]
    first = graph.output[0]
    if first.type.HasField("tensor_type") and any(not one.domain for one in made.opset_import):
        graph.node.add(op_type="Shape", input=[first.name], output=["shape__"])
        del graph.output[:]
        shape = graph.output.add(name="shape__").type.tensor_type
        shape.elem_type = 7  # int64
        shape.shape.dim.add()
    inputs = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    kept = [value for value in model.graph.input if value.name not in weights]
    del graph.input[:]
    graph.input.extend(kept)
    for name in weights:
        graph.initializer.add(name=name, data_type=inputs[name], dims=values[name].shape, raw_data=values[name].tobytes())
    return made
