"""Shrinks an instance: draws small instances first, then simplifies a size, axis, attribute or element at a time while a property holds."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.dtypes import COMPLEX, FLOATS, INTEGERS, to_numpy
from passat.ir.evaluate import Value, tensors_in, type_of_value
from passat.ir.op import OpTypeError
from passat.ir.tensor import Array, Tensor
from passat.rules.checking.case import Case, Key, Unfit, name_of
from passat.rules.checking.draw import SamplingHints, draw
from passat.rules.checking.sampler import EXTREME, PLAIN, Sampler
from passat.rules.checking.trial import Trial, Trier
from passat.rules.pattern import Pattern, PCall, PVar
from passat.rules.subterms import subterms

PLAIN_DTYPES: Final = ("float32", "int32", "bool", "int64", "float64", "float16")
"""Element types in order of readability."""
_ELEMENTS: Final = 12
"""Maximum number of elements of a tensor that is simplified element by element."""


def calls_of(pattern: Pattern) -> dict[Key, PCall]:
    """The calls of a pattern by their keys."""
    return {node.key: node for node in subterms(pattern) if isinstance(node, PCall)}


def _known_sizes(case: Case, pattern: Pattern) -> Iterator[Case]:
    if case.computed:
        yield case._replace(computed={})
    if case.unknown:
        yield case._replace(unknown={}, computed={})
        yield from (case._replace(unknown={k: v for k, v in case.unknown.items() if k != key}) for key in case.unknown)


def _fewer_constants(case: Case, pattern: Pattern) -> Iterator[Case]:
    """The case with constants turned into inputs where possible."""
    needed = {name_of(node) for node in subterms(pattern) if not isinstance(node, PVar)}
    for name in [name for name in case.constants if name not in needed]:
        constants = {other: value for other, value in case.constants.items() if other != name}
        yield case._replace(constants=constants, inputs={**case.inputs, name: case.constants[name]})


def _with_values(case: Case, only: str | None, change: Callable[[Tensor], Tensor]) -> Case:
    """The case with other tensors, all or those of one hole, and their types."""
    constants = {name: _mapped(value, change) if only in (None, name) else value for name, value in case.constants.items()}
    inputs = {name: _mapped(value, change) if only in (None, name) else value for name, value in case.inputs.items()}
    types = {name: type_of_value(value) for name, value in (*constants.items(), *inputs.items())}
    return case._replace(types=types, constants=constants, inputs=inputs)


def _mapped(value: Value, change: Callable[[Tensor], Tensor]) -> Value:
    return tuple(_mapped(part, change) for part in value) if isinstance(value, tuple) else change(value)


def _other_dtypes(case: Case, pattern: Pattern) -> Iterator[Case]:
    present = {tensor.dtype for tensor in case.tensors}
    for old, new in itertools.product(sorted(present), PLAIN_DTYPES):
        if old != new:
            yield _with_values(case, None, partial(_recast, old, new))


def _recast(old: str, dtype: str, tensor: Tensor) -> Tensor:
    if tensor.dtype != old:
        return tensor
    with np.errstate(all="ignore"):
        array = tensor.numpy() if dtype in COMPLEX else tensor.numpy().real
        if dtype in INTEGERS and tensor.dtype in FLOATS:
            array = np.nan_to_num(array.astype(np.float64), posinf=7, neginf=-7).clip(-100, 100)
        return Tensor.dense(array.astype(to_numpy(dtype)))


def _fewer_axes(case: Case, pattern: Pattern) -> Iterator[Case]:
    """The case without one axis, counted from the front or the end, of all tensors or of one."""
    deepest = max((tensor.ndim for tensor in case.tensors), default=0)
    for axis in (*range(deepest), *range(-1, -deepest - 1, -1)):
        yield _with_values(case, None, partial(_without, axis))
        yield from (_with_values(case, name, partial(_without, axis)) for name in case.values)


def _without(axis: int, tensor: Tensor) -> Tensor:
    if not -tensor.ndim <= axis < tensor.ndim or not tensor.shape[axis]:
        return tensor
    return Tensor.dense(tensor.numpy().take(0, axis=axis))


def _smaller_sizes(case: Case, pattern: Pattern) -> Iterator[Case]:
    """The case with a size decreased wherever it occurs, or along one axis of one tensor."""
    sizes = sorted({dim for tensor in case.tensors for dim in tensor.shape}, reverse=True)
    for old in sizes:
        for new in sorted({1, 2, old - 1}):
            if 0 < new < old or (old == 0 and new == 1):
                yield _with_values(case, None, partial(_with_size, old, new))
    for name, value in case.values.items():
        for tensor in itertools.islice(tensors_in([value]), 1):
            for axis, dim in enumerate(tensor.shape):
                if dim > 1:
                    shape = [*tensor.shape[:axis], dim - 1, *tensor.shape[axis + 1 :]]
                    yield _with_values(case, name, partial(_resized, shape))


def _with_size(old: int, new: int, tensor: Tensor) -> Tensor:
    return _resized([new if size == old else size for size in tensor.shape], tensor)


def _resized(shape: Sequence[int], tensor: Tensor) -> Tensor:
    if len(shape) != tensor.ndim:
        return tensor
    array = tensor.numpy()
    if all(new <= old for new, old in zip(shape, array.shape, strict=True)):
        return Tensor.dense(np.ascontiguousarray(array[tuple(slice(0, size) for size in shape)]))
    return Tensor.dense(np.zeros(shape, array.dtype))


def _other_attributes(case: Case, pattern: Pattern) -> Iterator[Case]:
    """The case with an attribute at its default, or nearer to 0, wherever it has that value."""
    ops = calls_of(pattern)
    tried = set()
    for key, attrs in case.attrs.items():
        for name, value in attrs.items():
            simpler = [new for new in _simpler_attribute(value, ops[key].op.defaults.get(name)) if new != value]
            for new in simpler:
                if (change := (name, repr(value), repr(new))) not in tried:
                    tried.add(change)
                    yield _with_attribute(case, ops, name, value, new, None)
            yield from (_with_attribute(case, ops, name, value, new, key) for new in simpler)


def _simpler_attribute(value: AnyValue, default: AnyValue) -> Iterator[AnyValue]:
    if default is None or isinstance(default, (bool, int, float, str, tuple)):
        yield default
    if isinstance(value, bool) or not isinstance(value, (int, float, tuple)):
        return
    if isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from ((*value[:i], new, *value[i + 1 :]) for new in _simpler_attribute(part, 0))
            yield (*value[:i], *value[i + 1 :])
        return
    yield from (new for new in (0, 1, -1, value - 1 if value > 0 else value + 1) if abs(new) < abs(value) or new == -value)


def _with_attribute(case: Case, ops: Mapping[Key, PCall], name: str, old: AnyValue, new: AnyValue, only: Key | None) -> Case:
    changed = dict(case.attrs)
    for key, attrs in case.attrs.items():
        if attrs.get(name) == old and only in (None, key) and name in attrs:
            try:
                changed[key] = ops[key].op.bind_attrs({**attrs, name: new})
            except OpTypeError:
                continue
    return case._replace(attrs=changed)


def _simpler_values(case: Case, pattern: Pattern) -> Iterator[Case]:
    for name in case.values:
        for change in (np.zeros_like, np.ones_like, _counted, _rounded):
            yield _with_values(case, name, partial(_changed, change))
    for name, value in case.values.items():
        for tensor in itertools.islice(tensors_in([value]), 1):
            if tensor.size <= _ELEMENTS and tensor.dtype != "bool":
                for place, new in itertools.product(range(tensor.size), (0, 1, 2, -1)):
                    yield _with_values(case, name, partial(_put, place, new))


def _changed(change: Callable[[Array], Array], tensor: Tensor) -> Tensor:
    with np.errstate(all="ignore"):
        made = change(tensor.numpy())
    return Tensor.dense(np.ascontiguousarray(made).reshape(tensor.shape))


def _counted(array: Array) -> Array:
    """1, 2, 3 ..."""
    return np.arange(1, array.size + 1).reshape(array.shape).astype(array.dtype)


def _rounded(array: Array) -> Array:
    return np.round(array.astype(np.float64)).astype(array.dtype) if array.dtype.kind not in "biuc" else array


def _put(place: int, value: float, tensor: Tensor) -> Tensor:
    array = tensor.numpy().copy().reshape(-1)
    if place < array.size and (value >= 0 or array.dtype.kind != "u"):
        array[place] = np.asarray(value).astype(array.dtype)
    return Tensor.dense(array.reshape(tensor.shape))


STEPS: Final = (_known_sizes, _fewer_constants, _other_dtypes, _fewer_axes, _other_attributes, _smaller_sizes, _simpler_values)
"""Simplifications, larger steps first; the results may be ill typed."""


Wanted = Callable[[Trial], bool]
_TIERS: Final = ((1, 2), (2, 2), (3, 3))
"""Bounds on ranks and sizes for drawing small instances, in order."""
_DRAWS: Final = 150
_TRIES: Final = 1500


def shrink(trier: Trier, case: Case, wanted: Wanted) -> Trial:
    """The simplest instance found that satisfies `wanted`, as the given one does."""
    ops = calls_of(trier.pattern)
    best = trier.try_case(min([case, *_small(trier, wanted)], key=lambda found: weight(found, ops)))
    tries = 0
    improved = True
    while improved:
        improved = False
        for step in STEPS:
            candidates = step(best.case, trier.pattern)
            while tries < _TRIES:
                candidate = next(candidates, None)
                if candidate is None:
                    break
                if weight(candidate, ops) >= weight(best.case, ops):
                    continue
                tries += 1
                trial = trier.try_case(candidate)
                if wanted(trial):
                    best, improved = trial, True
                    candidates = step(best.case, trier.pattern)
    return best


def _small(trier: Trier, wanted: Wanted) -> Iterator[Case]:
    """Cases that satisfy the property, drawn within the smallest bounds that yield any; with the guards' strategies if random draws yield
    none."""
    rule = trier.rule
    hints = SamplingHints(trier.pattern, trier.guards, [rule.rhs])
    for most, largest in _TIERS:
        sampler = Sampler(np.random.default_rng(most), most=most, largest=largest)
        found = hints.asking = False
        for turn in range(2 * _DRAWS):
            if turn == _DRAWS:
                if found or not hints.advisers:
                    break
                hints.asking = True
            try:
                case, _ = draw(hints, sampler, odd=EXTREME if trier.exact and turn % 3 == 2 else PLAIN)
            except Unfit:
                continue
            if wanted(trier.try_case(case)):
                found = True
                yield case
        if found:
            return


# ---- complexity


def weight(case: Case, ops: Mapping[Key, PCall] | None = None) -> tuple[float, ...]:
    """The complexity of a case; smaller is simpler."""
    tensors = case.tensors
    sizes = sum(max(tensor.size, 1) + (not tensor.size) for tensor in tensors)
    ranks = sum(tensor.ndim for tensor in tensors)
    dtypes = sum(
        PLAIN_DTYPES.index(dtype) if dtype in PLAIN_DTYPES else len(PLAIN_DTYPES) for dtype in {tensor.dtype for tensor in tensors}
    )
    odd = sum(_attribute_weight(value, default) for key, attrs in case.attrs.items() for value, default in _attributes(key, attrs, ops))
    elements = sum(_element_weight(tensor) for tensor in tensors)
    return (len(case.unknown) + len(case.computed), sizes + 2 * ranks + odd, dtypes, elements, len(case.constants))


def _attributes(key: Key, attrs: Attrs, ops: Mapping[Key, PCall] | None) -> Iterator[tuple[AnyValue, AnyValue]]:
    defaults = ops[key].op.defaults if ops is not None and key in ops else {}
    for name, value in attrs.items():
        yield value, defaults.get(name)


def _attribute_weight(value: AnyValue, default: AnyValue) -> float:
    if value == default or value is None:
        return 0
    return 1 + sum(0.1 + min(abs(part), 9) * 0.1 + 0.05 * (part < 0) for part in _numbers(value))


def _numbers(value: AnyValue) -> Iterator[float]:
    """The numbers in an attribute; a string counts as one."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _numbers(part)
    elif value is not None:
        yield 4.0 if isinstance(value, str) else float(value)


def _element_weight(tensor: Tensor) -> float:
    array = tensor.numpy()
    if array.dtype.kind == "c":
        return float(array.size) * 3
    with np.errstate(all="ignore"):
        values = array.astype(np.float64).reshape(-1)
    size = np.where(np.isfinite(values), np.minimum(np.abs(np.nan_to_num(values)), 50.0), 60.0)
    fraction = np.where(np.isfinite(values) & (values != np.round(np.nan_to_num(values))), 20.0, 0.0)
    return float(np.sum(size + fraction + np.signbit(values) * 0.5))
