"""The backend "passat" of `torch.compile`: exports to ONNX, optimizes, runs on ONNX Runtime. It computes no gradients.

    torch.compile(model, backend="passat", options={"opt_level": 3})

The options are the keywords of `passat.optimize`. A graph that cannot run on ONNX Runtime runs in PyTorch instead, and a FallbackWarning
says why. Weights are constants of the optimized model: when they change, it is exported and optimized again. The logger `passat.torch`
reports what was optimized.
"""

import logging
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from passat.ir.argument_checks import ArgumentError
from passat.ir.passat_error import PassatError
from passat.ir.tensor import Array
from passat.judging import Closeness, judge
from passat.optimizer import optimize_with
from passat.runner import Runner, loadable
from passat.settings import Settings, settings_of
from passat.torch_graph import GraphModule, PickOutputs, Split, Tensor, UnsupportedError, export, outputs_of, split

MOST_VERSIONS: Final = 16
"""Maximum number of weight values for which one graph is optimized. Weights that change more often are not constants."""
_MOST_SAMPLED: Final = 1024
"""Maximum number of elements of a weight that are compared in each call."""
_LONGEST: Final = 300
_USAGE: Final = 2
"""The exit code of errors in options."""
_LOG: Final = logging.getLogger("passat.torch")


class FallbackWarning(UserWarning):
    """A graph runs in PyTorch, not on ONNX Runtime. The message says why."""


def backend(graph: GraphModule, examples: Sequence[AnyValue], **options: AnyValue) -> Callable[..., tuple[AnyValue, ...]]:
    """Compiles a graph of TorchDynamo. It is exported on the first call.

    Raises ArgumentError for a keyword of `torch.compile` other than `options`, TypeError and ValueError for options that `passat.optimize`
    does not take.
    """
    settings = options.pop("options", None) or {}
    if options:
        raise ArgumentError(f'torch.compile(..., backend="passat") takes options={{...}}, not {", ".join(options)}')
    return Compiled(graph, examples, settings_of("optimize", settings))


Key: TypeAlias = tuple[tuple[int, int, int], ...]
"""The weights of a graph: the identity of each, the address of its elements, and how often PyTorch counted a change of it."""


class Version(NamedTuple):
    """The session that runs a graph with some values of its weights. `held` keeps these tensors alive, so that no other tensor gets the
    identity of one.

    `samples` are elements of the weights, each with a copy: fused optimizers and batch normalization change weights without counting it.
    """

    runner: Runner
    held: tuple[Tensor, ...]
    samples: tuple[tuple[memoryview, bytes], ...]

    def is_current(self) -> bool:
        """Whether the sampled elements are as they were."""
        return all(now.tobytes() == then for now, then in self.samples)


class Compiled:
    """A compiled graph: called with tensors and numbers, it returns the results of the graph."""

    def __init__(self, graph: GraphModule, examples: Sequence[AnyValue], settings: Settings) -> None:
        self._graph = graph
        self._settings = settings
        self._places: Split = split(graph, examples)
        self._pick: PickOutputs | None = None
        self._versions: dict[Key, Version] = {}
        self._count = 0
        self._stays = False
        """Whether the graph stays in PyTorch."""
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, *arguments: AnyValue) -> tuple[AnyValue, ...]:
        """Runs the graph."""
        import torch

        if self._stays:
            return _run_graph(self._graph, arguments)
        if torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in arguments):
            self._warn("gradients may be needed: weights or inputs require them. Call the model under torch.no_grad(), for inference")
            return _run_graph(self._graph, arguments)
        try:
            version, results = self._version(arguments)
            return self._run(version.runner, arguments) if results is None else results
        except Exception as error:  # torch, its exporter and ONNX Runtime raise errors of many kinds
            if isinstance(error, PassatError) and error.exit_code == _USAGE:
                raise
            _LOG.debug("a graph stays in PyTorch", exc_info=error)
            self._stays = True
            self._versions.clear()
            self._warn(_reason(error))
            return _run_graph(self._graph, arguments)

    def _version(self, arguments: Sequence[AnyValue]) -> tuple[Version, tuple[AnyValue, ...] | None]:
        """The session for the current weights, and the results if it has already run. Raises UnsupportedError."""
        weights = tuple(arguments[place] for place in self._places.weights)
        if any(weight.is_inference() for weight in weights):
            raise UnsupportedError("its weights were made under torch.inference_mode(), where PyTorch counts no changes of them")
        key = tuple((id(weight), weight.data_ptr(), weight._version) for weight in weights)
        with self._lock:
            if key in self._versions and self._versions[key].is_current():
                return self._versions[key], None
            self._count += 1
            if self._count > MOST_VERSIONS:
                raise UnsupportedError(f"its weights have changed {MOST_VERSIONS} times")
            self._forget_earlier(key)
            samples = tuple((some, some.tobytes()) for some in map(_sampled, weights))
            runner = self._optimized(arguments)
            results = self._run(runner, arguments)
            if self._settings.verify:
                self._compare(results, arguments)
            self._versions[key] = Version(runner, weights, samples)
            return self._versions[key], results

    def _forget_earlier(self, key: Key) -> None:
        """Drops the sessions for earlier values of the same weights: the numbers of changes only increase."""
        for other in [other for other in self._versions if [of for of, *_ in other] == [of for of, *_ in key]]:
            del self._versions[other]

    def _optimized(self, arguments: Sequence[AnyValue]) -> Runner:
        import torch

        devices = {str(each.device) for each in arguments if isinstance(each, torch.Tensor)} - {"cpu"}
        if devices:
            raise UnsupportedError(f"its tensors are on {', '.join(sorted(devices))}: ONNX Runtime runs on the CPU here")
        self._pick = outputs_of(self._graph)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # warnings of the exporter about itself
            program = export(self._graph, arguments, self._places)
            result = optimize_with(program, self._settings)
        report = result.report
        _LOG.info(
            "a graph of %d nodes became %d, in %.3g s", report.node_count_before, report.node_count_after, sum(report.seconds.values())
        )
        with loadable(result.model) as model:
            return Runner(model, threads=torch.get_num_threads(), optimize="all", arena=True)

    def _run(self, runner: Runner, arguments: Sequence[AnyValue]) -> tuple[AnyValue, ...]:
        assert self._pick is not None
        given = [_to_numpy(arguments[place]) for place in self._places.inputs]
        feed = {spec.name: value for spec, value in zip(runner.inputs, given, strict=True)}
        values = [_to_torch(value) for value in runner.run(feed)]
        return self._pick(arguments, values)

    def _compare(self, results: Sequence[AnyValue], arguments: Sequence[AnyValue]) -> None:
        """Raises UnsupportedError if the results are not those of PyTorch."""
        import torch

        for found, wanted in zip(results, _run_graph(self._graph, arguments), strict=True):
            said = difference(_to_numpy(found), _to_numpy(wanted)) if isinstance(wanted, torch.Tensor) else ""
            if said:
                raise UnsupportedError(f"a result of its exported program {said}")

    def _warn(self, why: str) -> None:
        """Warns, once for each reason."""
        if why not in self._warned:
            self._warned.add(why)
            warnings.warn(f"a graph runs in PyTorch, not on ONNX Runtime: {why}", FallbackWarning, stacklevel=4)


def _run_graph(graph: GraphModule, arguments: Sequence[AnyValue]) -> tuple[AnyValue, ...]:
    return tuple(graph(*arguments))


CLOSE: Final = {"float64": 1e-6, "float32": 1e-3, "float16": 2e-2, "bfloat16": 8e-2}
"""Allowed difference from PyTorch's results, relative to the largest element."""


def difference(found: Array, wanted: Array) -> str:
    """How a result differs from PyTorch's by more than rounding; "" if it does not."""
    largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0))
    return judge(wanted, found, lambda: None, Closeness(atol=CLOSE.get(wanted.dtype.name, 0.0) * largest + 1e-12)).reason


def _sampled(weight: Tensor) -> memoryview:
    """The memory of the elements of a tensor, or of those in the middle if there are many."""
    import torch

    count = 1 + sum((size - 1) * stride for size, stride in zip(weight.shape, weight.stride(), strict=True)) if weight.numel() else 0
    flat = weight.detach().as_strided((count,), (1,)).view(getattr(torch, f"int{8 * weight.itemsize}"))
    begin = max(0, count - _MOST_SAMPLED) // 2
    return memoryview(flat[begin : begin + _MOST_SAMPLED].numpy())


def _to_numpy(tensor: Tensor) -> AnyValue:
    import torch

    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def _to_torch(value: AnyValue) -> Tensor:
    import torch

    value = np.require(value, requirements="W")
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(value)


def _reason(error: BaseException) -> str:
    """Why a graph does not run on ONNX Runtime: the first sentence of the error that caused all others."""
    while error.__cause__ is not None:
        error = error.__cause__
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    text = first if len(first) <= _LONGEST else f"{first[:_LONGEST]} ..."
    return text if isinstance(error, PassatError) else f"{type(error).__name__}: {text}"
