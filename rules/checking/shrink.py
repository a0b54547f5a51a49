"""The smallest instance of a kind: instances drawn small first, then made simpler step by step as long as they stay of the kind."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.tensor import Tensor
from passat.rules.checking.case import Case, Key, Unfit
from passat.rules.checking.dice import Dice
from passat.rules.checking.draw import Wishes, draw
from passat.rules.checking.evaluation import flatten
from passat.rules.checking.simpler import PLAIN_DTYPES, STEPS, calls_of
from passat.rules.checking.trial import Trial, Trier
from passat.rules.checking.values import EXTREME, PLAIN
from passat.rules.pattern import PCall

Wanted = Callable[[Trial], bool]
_TIERS: Final = ((1, 2), (2, 2), (3, 3))
"""Greatest ranks and sizes of what is drawn small, one after the other."""
_DRAWS: Final = 150
_TRIES: Final = 1500


def shrink(trier: Trier, case: Case, wanted: Wanted) -> Trial:
    """The simplest instance found of which `wanted` holds, as it does of the one given."""
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
    """Cases of the kind, drawn with small bounds, as conditions say where chance finds none; those of the smallest bounds that have any."""
    rule = trier.rule
    wishes = Wishes(trier.pattern, rule.conditions, [rule.rhs])
    for most, largest in _TIERS:
        dice = Dice(np.random.default_rng(most), most=most, largest=largest)
        found = wishes.asking = False
        for turn in range(2 * _DRAWS):
            if turn == _DRAWS:
                if found or not wishes.advisers:
                    break
                wishes.asking = True
            try:
                case, _ = draw(wishes, dice, odd=EXTREME if trier.exact and turn % 3 == 2 else PLAIN)
            except Unfit:
                continue
            if wanted(trier.try_case(case)):
                found = True
                yield case
        if found:
            return


# ---- how simple a case is


def weight(case: Case, ops: Mapping[Key, PCall] | None = None) -> tuple[float, ...]:
    """How much there is in a case to look at: the less the simpler."""
    tensors = [tensor for value in (*case.inputs.values(), *case.constants.values()) for tensor in flatten(value)]
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
    """The numbers in an attribute; a text counts as one."""
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
