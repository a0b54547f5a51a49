"""The defects of the optimized form of a model: lost, rejected, other types or values, or not reproducible."""

import re
import tempfile
import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

import passat
from benchmarks.differences import EPSILON, difference
from passat.ir.onnx import OnnxError, check
from passat.judging import Tolerance, flatten
from passat.rules.rule import KEPT
from passat.runner import Runner
from tests.fuzz.graphs import Case
from tests.fuzz.noise import Noise, inner_values
from tests.fuzz.rule_models import Prices, pass_of, rules
from tests.fuzz.values import Array

MATHS: Final = ("exact", "reassociate", "finite")
LEVELS: Final = (3, 4)
NOISE_FACTOR: Final = 16
"""A result may differ by this multiple of the rounding error of the original."""
UNSTABLE: Final = 0.1
"""An output that changes by more than this part of its size through rounding alone cannot be compared."""
_REUSED: Final = "Shape mismatch attempting to re-use buffer"
"""The message of ONNX Runtime if its memory plan reuses the memory of an empty tensor. That depends on adjacent nodes, such as an empty
float16 Softmax and a DequantizeLinear that is read twice."""
_BY_PLACE: Final = {"Acos", "Asin", "Atan", "Celu", "Cos", "Elu", "Exp", "Log", "Mish", "Pow", "Selu", "Sigmoid", "Sin", "Softplus", "Tanh"}
"""Functions whose rounding in ONNX Runtime depends on the position of an element: in a full vector of the processor or in the remainder.
Pow computes squares and cubes as products if one exponent belongs to a row. Measured on the same numbers in reverse order, in float32 and
float64."""
_POOLING: Final = ("AveragePool", "LpPool", "MaxPool")
_GREATEST: Final = {"ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "MaxPool", "GlobalMaxPool"}
"""Operators that pass NaN on or skip it in ONNX Runtime, depending on its position."""
_IN_DOUBLE: Final = {"ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}
"""Operators that ONNX Runtime computes in float64 for int64."""
PACKAGE: Final = Path(passat.__file__).resolve().parents[2]


@dataclass(frozen=True)
class Settings:
    """The settings of an optimization."""

    level: int = 3
    math: str = "exact"
    opset: int | None = None
    disabled: tuple[str, ...] = ()
    rule: str = ""
    """The only rule that runs, if there is one."""
    prices: int | None = None
    """The seed of random prices, with which results of rules are extracted regardless of cost."""

    def __str__(self) -> str:
        said = {"opset": self.opset, "rule": self.rule or None, "prices": self.prices}
        return ", ".join([f"level {self.level}", self.math, *(f"{name} {value}" for name, value in said.items() if value is not None)])


@dataclass(frozen=True)
class Finding:
    """A defect: its kind, a sentence, and the place in Passat where it was raised, if it was."""

    kind: str
    sentence: str
    where: str = ""
    feed: int = 0
    """The inputs of the case that show it."""

    def same_as(self, other: "Finding | None") -> bool:
        """True if another finding probably has the same cause."""
        return other is not None and (self.kind, self.where) == (other.kind, other.where)

    def key(self, model: ModelProto, rule: str = "") -> str:
        """Distinguishes the defects of minimal models: the rule, if there is only one."""
        names = rule or "-".join(sorted(operators(model)))
        return re.sub(r"[^\w.:-]+", "_", f"{self.kind}.{self.where or names}")[:120]


def operators(model: ModelProto) -> set[str]:
    """The operators of a model, including subgraphs and local functions."""
    found: set[str] = set()
    pending: list[Any] = [model.graph, *model.functions]
    while pending:
        graph: GraphProto = pending.pop()
        for node in graph.node:
            found.add(node.op_type)
            for attribute in node.attribute:
                pending += [attribute.g] if attribute.HasField("g") else attribute.graphs
    return found


def optimized(model: ModelProto | Path, settings: Settings) -> passat.Result:
    """The result of the optimization without verification, so that the engine's own errors show."""
    config: dict[str, Any] = {"rules.math": settings.math}
    if settings.disabled:
        config["rules.disabled"] = list(settings.disabled)
    return passat.optimize(
        model,
        passes=[pass_of(settings.rule)] if settings.rule else None,
        opt_level=settings.level,
        verify=False,
        config=config,
        opset=settings.opset,
        cost=None
        if settings.prices is None
        else Prices(settings.prices, model if settings.rule and isinstance(model, ModelProto) else None),
    )


def examine(case: Case, settings: Settings, *, twice: bool = False, fired: set[str] | None = None) -> Finding | None:
    """The defects of the optimized form of a case; `twice` also compares two runs. `fired` receives the rules that fired."""
    if not case.feeds:
        return _rejected(case, settings)
    if case.other is not None:
        return compared(case, case.other, settings)
    before = case.model.SerializeToString(deterministic=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome = optimized(case.model, settings)
        except OnnxError as error:
            if settings.opset is not None:
                return None  # a sentence says that conversion to that opset is impossible
            return Finding("lost", _told(error), _place(error))
        except Exception as error:  # any error loses the model
            return Finding("lost", _told(error), _place(error))
    result = outcome.model
    if fired is not None:
        fired.update(rule.name for rule in outcome.report.rules if rule.fired)
    if case.model.SerializeToString(deterministic=True) != before:
        return Finding("input changed", "the model that was given has been changed")
    stray = next((entry for entry in caught if not issubclass(entry.category, UserWarning)), None)
    if stray is not None:
        return Finding("warning", f"{stray.category.__name__}: {stray.message}", _file(stray.filename))
    try:
        check(result)
    except OnnxError as error:
        return Finding("not valid", _told(error))
    found = compared(case, result, settings)
    if found is None and twice:
        again = optimized(case.model, settings).model.SerializeToString(deterministic=True)
        if again != result.SerializeToString(deterministic=True):
            return Finding("not the same twice", "the same model gave other bytes the second time")
    return found


def _rejected(case: Case, settings: Settings) -> Finding | None:
    """The defect in the handling of a file that no runtime runs: anything but a result or a sentence."""
    assert case.data is not None
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        path = Path(folder) / "model.onnx"
        path.write_bytes(case.data)
        try:
            optimized(path, settings)
        except OnnxError:
            return None
        except Exception as error:  # any other error is not a sentence about the model
            return Finding("raw error", _told(error), _place(error))
    return None


@np.errstate(all="ignore")  # ONNX Runtime leaves some results unwritten: they may be signaling NaN
def compared(case: Case, result: ModelProto, settings: Settings) -> Finding | None:
    """The difference between a result and its original."""
    original = Runner(case.model, threads=1)
    try:
        runner = Runner(result, threads=1)
    except Exception as error:  # ONNX Runtime has no exception class for what it rejects
        missing = re.search(r"implementation for (\w+)\(", str(error))
        if settings.opset is not None and missing is not None and missing[1] in operators(case.model):
            return None  # it has the operator in earlier opsets only
        if _rejected_alike(case.model, error) or (settings.opset is not None and _has_other_weights(case)):
            return None
        return Finding("does not load", _told(error))
    for what, sides in (
        ("inputs", [[(spec.name, spec.type) for spec in side.inputs] for side in (original, runner)]),
        ("outputs", [list(side.outputs) for side in (original, runner)]),
    ):
        if sides[0] != sides[1]:
            return Finding(f"other {what}", f"{sides[0]} became {sides[1]}")
    for i, feed in enumerate(case.feeds):
        try:
            want = original.run(feed)
        except Exception:
            return None  # it ran before: it contains something random
        try:
            got = runner.run(feed)
        except Exception as error:  # ONNX Runtime's errors have no common base class
            if _REUSED in str(error) and (_has_no_elements(case.model, feed) or _reuses_wrong_memory(case.model, feed)):
                return None
            return Finding("does not run", _told(error), feed=i)
        # in another opset ONNX Runtime may have another kernel, with another rounding
        to_the_bit = settings.math == "exact" and settings.opset is None
        sentence = bits_differ(want, got) if to_the_bit else _beyond_rounding(case, i, want, got, settings)
        if sentence and to_the_bit and (_has_float16(case.model, feed) or operators(case.model) & _BY_PLACE):
            # ONNX Runtime rounds a chain of float16 operators at its end, so that nodes without an effect make a difference
            sentence = _beyond_rounding(case, i, want, got, settings)
        if sentence and not _has_what_does_not_fit(case.model, feed) and not _has_what_is_not_followed(case.model, feed):
            return Finding("values", sentence, feed=i)
    failure = _failure_when_optimized(result, case.feeds)
    if failure and _REUSED not in failure and not _failure_when_optimized(case.model, case.feeds):
        return Finding("fails when optimized", failure)
    return None


def _failure_when_optimized(model: ModelProto, feeds: Iterable[Mapping[str, Any]]) -> str:
    """Why a model does not load or run with ONNX Runtime's default optimizations, which may end its process; empty if it does."""
    try:
        runner = Runner(model, threads=1, optimize="all", apart=True)
        for feed in feeds:
            runner.run(feed)
    except Exception as error:  # ONNX Runtime has no exception class for what it rejects
        return _told(error)
    return ""


def _reuses_wrong_memory(model: ModelProto, feed: Mapping[str, Any]) -> bool:
    """True if ONNX Runtime makes the same invalid memory plan for the original with its optimizations on."""
    try:
        Runner(model, threads=1, optimize=True).run(feed)
    except Exception as error:  # ONNX Runtime has no exception class for what it rejects
        return _REUSED in str(error)
    return False


def _has_no_elements(model: ModelProto, feed: Mapping[str, Any]) -> bool:
    """True if some tensor of the main graph is empty."""
    arrays = [value for _, value in inner_values(model, feed).values()] + list(feed.values())
    return any(np.size(array) == 0 for array in arrays) or any(0 in tensor.dims for tensor in model.graph.initializer)


def _has_float16(model: ModelProto, feed: Mapping[str, Any]) -> bool:
    """True if a model computes with float16 anywhere in its main graph."""
    kinds = {kind for kind, _ in inner_values(model, feed).values()} | {tensor.data_type for tensor in model.graph.initializer}
    return TensorProto.FLOAT16 in kinds


def _has_what_does_not_fit(model: ModelProto, feed: Mapping[str, Any]) -> bool:
    """True if a node of the main graph has operands that ONNX forbids and ONNX Runtime does not check."""
    arrays = _arrays(model, feed)
    makers = {name: node for node in model.graph.node for name in node.output}
    return any(
        _has_too_large_a_window(node, arrays)
        or _casts_beyond(node, arrays, makers)
        or _joins_misfits(node, arrays, makers)
        or _weighs_other_classes(node, arrays)
        for node in model.graph.node
    )


def _has_what_is_not_followed(model: ModelProto, feed: Mapping[str, Any]) -> bool:
    """True if a node of the main graph has operands for which ONNX Runtime deviates from ONNX: extrema of NaN, and reductions of integers
    of more than 53 bits."""
    arrays = _arrays(model, feed)
    return any(
        (node.op_type in _GREATEST and array.dtype.kind == "f" and bool(np.isnan(array).any()))
        or (node.op_type in _IN_DOUBLE and array.dtype == np.int64 and bool(np.any(np.abs(array.astype(np.float64)) > 2**53)))
        for node in model.graph.node
        for array in [arrays[name] for name in (*node.input, *node.output) if name in arrays]
    )


def _arrays(model: ModelProto, feed: Mapping[str, Any]) -> dict[str, Array]:
    """The tensors of the main graph in a run."""
    arrays = {name: np.asarray(value) for name, value in feed.items() if not isinstance(value, list)}
    arrays |= {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    return arrays | {name: value for name, (_, value) in inner_values(model, feed).items()}


def _has_other_weights(case: Case) -> bool:
    """True if a loss of the main graph has different numbers of weights and classes on some inputs."""
    runs = [_arrays(case.model, feed) for feed in case.feeds]
    return any(_weighs_other_classes(node, arrays) for arrays in runs for node in case.model.graph.node)


def _given(node: NodeProto) -> dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _has_too_large_a_window(node: NodeProto, arrays: Mapping[str, Array]) -> bool:
    """True if the window of a pooling exceeds its input, which is computed differently from opset 19 on."""
    if node.op_type not in _POOLING or node.input[0] not in arrays:
        return False
    given = _given(node)
    kernel = given.get("kernel_shape", ())
    gaps, pads = given.get("dilations", [1] * len(kernel)), given.get("pads", [0] * 2 * len(kernel))
    room = map(sum, zip(arrays[node.input[0]].shape[2:], pads[: len(kernel)], pads[len(kernel) :], strict=False))
    return any(size < gap * (length - 1) + 1 for size, gap, length in zip(room, gaps, kernel, strict=False))


def _casts_beyond(node: NodeProto, arrays: Mapping[str, Array], makers: Mapping[str, NodeProto]) -> bool:
    """True if an out-of-range number is cast to integers and is itself a cast of an integer: ONNX Runtime drops one of the two casts."""
    maker = makers.get(node.input[0]) if node.op_type == "Cast" else None
    if maker is None or maker.op_type != "Cast":
        return False
    source, before, after = (arrays.get(name) for name in (maker.input[0], node.input[0], node.output[0]))
    if source is None or before is None or after is None or (source.dtype.kind not in "iu" or before.dtype.kind != "f"):
        return False
    limits = np.iinfo(after.dtype) if after.dtype.kind in "iu" else None
    return limits is not None and bool(np.any((before < limits.min) | (before > limits.max)))


def _joins_misfits(node: NodeProto, arrays: Mapping[str, Array], makers: Mapping[str, NodeProto]) -> bool:
    """True if a Concat or ConcatFromSequence joins shapes that match only because they are empty: some elements of the result are
    undefined, and its shape depends on optimizations."""
    if node.op_type not in ("Concat", "ConcatFromSequence"):
        return False
    given = _given(node)
    axis, maker = given.get("axis", 1), makers.get(node.input[0])
    joined: Sequence[str] = node.input
    if node.op_type == "ConcatFromSequence":
        joined = maker.input if maker is not None and maker.op_type == "SequenceConstruct" else ()
        if maker is not None and maker.op_type == "SplitToSequence" and len(maker.input) > 1:
            data, cut = (arrays.get(name) for name in maker.input)
            if cut is None or data is None or not data.ndim or len(np.unique(cut)) == 1:
                return False
            return bool(given.get("new_axis")) or (_given(maker).get("axis", 0) - axis) % data.ndim != 0
    shapes = [arrays[name].shape for name in joined if name in arrays]
    return len({shape if given.get("new_axis") else (*shape[:axis], *shape[axis:][1:]) for shape in shapes}) > 1


def _weighs_other_classes(node: NodeProto, arrays: Mapping[str, Array]) -> bool:
    """True if a loss has a different number of weights and classes, which ONNX Runtime rejects from opset 22 on."""
    if node.op_type not in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss") or not {*node.input[::2]} <= arrays.keys():
        return False
    return len(node.input) > 2 and arrays[node.input[2]].shape != arrays[node.input[0]].shape[1:2]


def _rejected_alike(model: ModelProto, error: Exception) -> bool:
    """True if ONNX Runtime rejects the original with the same message once it optimizes. Its inference then contradicts itself or a
    declaration as soon as constants are folded, no matter who folds them, so the model only runs with optimizations off."""
    try:
        Runner(model, threads=1, optimize="all")
    except Exception as other:  # ONNX Runtime has no exception class for what it rejects
        said = [re.search(r"Op \(.*", str(each), re.DOTALL) for each in (error, other)]
        return all(said) and len({found[0] for found in said if found}) == 1
    return False


@np.errstate(all="ignore")
def bits_differ(want: Iterable[Any], got: Iterable[Any]) -> str:
    """True if two lists of outputs differ in a bit; all NaN are equal."""
    for index, (a, b) in enumerate(zip(want, got, strict=True)):
        for (path, x), (_, y) in zip(flatten(a), flatten(b), strict=True):
            left, right = np.asarray(x), np.asarray(y)
            if (left.dtype, left.shape) != (right.dtype, right.shape):
                return f"output {index}{path}: {left.dtype}{list(left.shape)} became {right.dtype}{list(right.shape)}"
            differ = left != right
            if left.dtype.kind in "fV":
                wide = [side.astype(np.float64) for side in (left, right)]
                differ = (wide[0] != wide[1]) | (np.signbit(wide[0]) != np.signbit(wide[1]))
                differ &= ~(np.isnan(wide[0]) & np.isnan(wide[1]))
            if np.any(differ):
                place = tuple(np.argwhere(differ)[0]) if left.ndim else ()
                return f"output {index}{path} at {[int(i) for i in place]}: {left[place]!r} became {right[place]!r}"
    return ""


def _beyond_rounding(case: Case, index: int, want: list[Any], got: list[Any], settings: Settings) -> str:
    """True if outputs differ by more than rounding, and than the mode allows for infinite values and NaN."""
    wrong = [(i, found) for i, (a, b) in enumerate(zip(want, got, strict=True)) if (found := difference(a, b)).reason]
    if not wrong:
        return ""
    noise = Noise(case.model, case.feeds[index])
    if not noise.finite:
        if settings.math == "finite" or noise.large:
            return ""
        if case.other is not None:
            return ""
        if not settings.disabled:
            # only rules that declare it may turn infinities into NaN
            strict = replace(settings, disabled=tuple(name for name, rule in rules().items() if rule.nonfinite != KEPT))
            again = Runner(optimized(case.model, strict).model, threads=1).run(case.feeds[index])
            return _beyond_rounding(case, index, want, again, strict)
    for i, found in wrong:
        moved = noise.of(i, want[i])
        if has_floats(want[i]):
            if moved.relative > UNSTABLE or not difference(want[i], got[i], Tolerance(0.0, NOISE_FACTOR * moved.relative)).reason:
                continue
            if found.absolute <= NOISE_FACTOR * moved.absolute and not np.any(want[i]):
                continue  # all are 0, so there is no relative error
        elif moved.share and found.share <= NOISE_FACTOR * moved.share and found.absolute <= NOISE_FACTOR * moved.absolute:
            continue
        return f"output {i} {found.reason}"
    return ""


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


def _place(error: BaseException) -> str:
    """The file and function of Passat that raised an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _file(frame.filename) and "tests" not in frame.filename]
    return f"{type(error).__name__}.{_file(frames[-1].filename)}:{frames[-1].name}" if frames else type(error).__name__


def _file(name: str) -> str:
    path = Path(name).resolve()
    return str(path.relative_to(PACKAGE)).replace("/", ".") if path.is_relative_to(PACKAGE) and ".venv" not in path.parts else ""


def has_floats(value: Any) -> bool:
    """True if some part of a value holds floating-point numbers."""
    return any(np.asarray(part).dtype.name in EPSILON for _, part in flatten(value))
