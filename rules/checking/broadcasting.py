"""Instances in which an input broadcasts along an axis whose size is unknown, which neither types nor guards show, or has fewer axes than
the others: `y - (y - x)` has more elements than `x` if `x` turns out to have size 1. Random sizes seldom do this, so such instances are
made from accepted ones."""

from typing import Final

from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.rules.checking.case import Case
from passat.rules.checking.sampler import Sampler
from passat.rules.checking.trial import COMPARED, Trial

_SHARE: Final = 0.5
"""Probability of making an instance from an accepted one."""
_PATIENCE: Final = 40
"""Number of instances of which at least one must be compared, or no more are made: operators do not broadcast, or guards see to it."""


class Broadcasts:
    """Makes such instances of one rule, until it turns out that none is accepted."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._made = self._compared = 0

    def of(self, case: Case) -> Case | None:
        """An instance made from an accepted one; None if there is none, or by chance."""
        ends = self._made >= _PATIENCE * (1 + self._compared)
        return None if ends or not self._sampler.chance(_SHARE) else narrowed(case, self._sampler)

    def note(self, trial: Trial) -> None:
        """Records the result of an instance."""
        self._made += 1
        self._compared += trial.verdict in COMPARED


def narrowed(case: Case, sampler: Sampler) -> Case | None:
    """The case with one input whose size along an axis, or along all axes, is 1 but unknown, or without its first axis; None if all sizes
    are 1 or fixed. The sizes of the other inputs may be unknown, too: where one is known, the size of the result is."""
    open_ = {
        name: [axis for axis, dim in enumerate(value.shape) if dim > 1]
        for name, value in case.inputs.items()
        if isinstance(value, Tensor) and name not in case.asked
    }
    names = [name for name, axes in open_.items() if axes]
    if not names:
        return None
    name = sampler.pick(names)
    value = case.inputs[name]
    assert isinstance(value, Tensor)
    if 0 in open_[name] and sampler.chance(0.25):
        array = value.numpy()[0]
        kept = {(each, axis): size for (each, axis), size in case.unknown.items() if each != name}
        moved = {(each, axis - 1): size for (each, axis), size in case.unknown.items() if each == name and axis}
        unknown = {**kept, **moved}
    else:
        axes = open_[name] if sampler.chance(0.2) else [sampler.pick(open_[name])]
        array = value.numpy()[tuple(slice(1) if axis in axes else slice(None) for axis in range(value.ndim))]
        others = {(each, axis): "?" for each, sizes in open_.items() if each != name for axis in sizes} if sampler.chance(0.5) else {}
        unnamed = sampler.chance(0.5)
        unknown = {**case.unknown, **others, **{(name, axis): "?" if unnamed else f"{name}{axis}" for axis in axes}}
    return case._replace(
        types={**case.types, name: TensorType(array.shape, value.dtype)},
        inputs={**case.inputs, name: Tensor.dense(array, value.dtype)},
        unknown=unknown,
        computed={},
    )
