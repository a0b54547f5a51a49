"""Plans an instance from the guards' strategies: shapes, element types and elements of terms, values of attributes.

A planned shape propagates down to the operands of a term as far as the operators determine it: through transposes, reshapes and broadcasts.
On the way up, open attributes are solved for it.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.op import OpTypeError
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType
from passat.rules.checking.attributes import Attributes
from passat.rules.checking.case import Key, Unfit
from passat.rules.checking.operands import own_dtype
from passat.rules.checking.sampler import Sampler, uniform
from passat.rules.checking.sizes import Sizes
from passat.rules.checking.strategies import strategy_of
from passat.rules.guards import Guard
from passat.rules.pattern import AttrHole, Computed, Pattern, PCall, PConst, PGet, PLiteral, PTuple, PVar, RuleError
from passat.rules.samples import Elements, Sample
from passat.rules.subterms import subterms

Shape = tuple[int, ...]
_ROUNDS: Final = 2
"""Number of rounds in which strategies that wait for others are called again."""
_KEEPS_SHAPE: Final = frozenset(
    {"cast", "clip", "nn.softmax", "nn.log_softmax", "nn.layer_norm", "nn.rms_norm", "nn.instance_norm", "nn.group_norm", "nn.bias_add"}
)
"""Operators besides elementwise ones whose result has the shape of the first operand."""


class Plan:
    """The fixed parts of an instance; initially empty."""

    def __init__(self, pattern: Pattern, guards: Sequence[Guard | Computed], sampler: Sampler) -> None:
        self.sampler = sampler
        self.shapes: dict[Key, Shape] = {}
        self.within: dict[Key, Shape] = {}
        self.dtypes: dict[Key, str] = {}
        self.elements: dict[Key, Elements] = {}
        self.attrs: dict[str, AnyValue] = {}
        self.parts: dict[Key, int] = {}
        self.sizes = Sizes(self, sampler)
        if guards:
            self._ask(guards)
            for node in subterms(pattern):
                if isinstance(node, PGet):
                    self.parts[node.of.key] = max(self.parts.get(node.of.key, 1), node.index + 1)

    def _ask(self, guards: Sequence[Guard | Computed]) -> None:
        waiting = list(guards)
        for _ in range(_ROUNDS):
            asked, waiting = waiting, []
            for guard in asked:
                strategy = strategy_of(guard)
                assert strategy is not None
                try:
                    samples = strategy(self.sampler, *map(self._sample, guard.args))
                except Exception as error:  # user code
                    raise RuleError(f"the strategy of {guard!r} raised {type(error).__name__}: {error}") from error
                if samples is None:
                    waiting.append(guard)
                    continue
                said = list(zip(guard.args, samples, strict=False))  # trailing samples may be missing
                for arg, sample in sorted(said, key=lambda pair: isinstance(pair[0], PCall)):  # holes first: terms consist of them
                    if sample is not None:
                        self.settle(arg, sample)
        for term, shape in self.sizes.shapes():
            self.settle(term, Sample(shape=shape))

    def _sample(self, arg: AnyValue) -> AnyValue:
        """The sample that a strategy gets for an argument."""
        if isinstance(arg, Pattern):
            return Sample(self.shape(arg), self.dtypes.get(arg.key), self.elements.get(arg.key))
        if isinstance(arg, AttrHole):
            return Sample(value=self.attrs.get(arg.name))
        if isinstance(arg, Computed):
            return Sample(value=self.sizes.known(arg))
        return tuple(map(self._sample, arg)) if isinstance(arg, (tuple, list)) else arg

    def settle(self, arg: AnyValue, sample: Sample | Sequence[Sample]) -> None:
        """Fixes an argument of a guard, or several, as far as they are open."""
        if not isinstance(sample, Sample):
            for part, of_part in zip(arg, sample, strict=True):
                self.settle(part, of_part)
            return
        if isinstance(arg, Computed) and sample.value is not None:
            self.sizes.want(arg, sample.value)
        if isinstance(arg, AttrHole) and sample.value is not None:
            known = self.attrs.setdefault(arg.name, sample.value)
            if isinstance(known, Mapping) and isinstance(sample.value, Mapping):
                self.attrs[arg.name] = {**sample.value, **known}
        if not isinstance(arg, Pattern):
            return
        if sample.dtype is not None:
            self.dtypes.setdefault(arg.key, sample.dtype)
        if sample.elements is not None and isinstance(arg, (PVar, PConst)):
            self.elements.setdefault(arg.key, sample.elements)
        if sample.shape is not None:
            self.want(arg, sample.shape)

    # ---- shapes, downwards

    def shape(self, node: Pattern) -> Shape | None:
        """The shape of a term, as far as it follows from the plan or its operands."""
        found = self.shapes.get(node.key)
        if found is not None or not isinstance(node, PCall):
            return () if isinstance(node, PLiteral) else found
        shapes = [self.shape(arg) for arg in node.args]
        attrs = {name: self.attrs.get(value.name) if isinstance(value, AttrHole) else value for name, value in node.attrs.items()}
        if None in shapes or "attrs" in attrs or None in attrs.values():
            return None
        types = [TensorType(shape or (), own_dtype(node.op, i) or "float32") for i, shape in enumerate(shapes)]
        try:
            made = node.op.infer(types, node.op.bind_attrs(attrs))
        except (OpTypeError, ValueError):
            return None
        return made.concrete_shape if isinstance(made, TensorType) and made.is_static else None

    def want(self, node: Pattern, shape: Shape) -> None:
        """Fixes the shape of a term, and the shapes of its parts that follow from it."""
        open_ = [(node, tuple(shape))]
        while open_:
            term, wanted = open_.pop()
            if term.key not in self.shapes:
                self.shapes[term.key] = wanted
                if isinstance(term, PCall):
                    open_.extend(self._operands(term, wanted))

    def _operands(self, node: PCall, wanted: Shape) -> Iterator[tuple[Pattern, Shape]]:
        """Fixes operand shapes for a call whose shape is fixed."""
        name, sampler, first = node.op.name, self.sampler, node.args[0] if node.args else node
        if node.op.elementwise:
            yield from self._broadcast(node.args, wanted)
        elif name in _KEEPS_SHAPE:
            yield first, wanted
        elif name == "broadcast_to":
            self.within[first.key] = wanted
            if isinstance(first, (PVar, PConst)):
                yield first, tuple(1 if sampler.chance(0.4) else dim for dim in wanted)
        elif name == "transpose" and self.shape(first) is None:
            axes = node.attrs.get("axes")
            axes = self.attrs.get(axes.name) if isinstance(axes, AttrHole) else axes
            order = axes if isinstance(axes, (tuple, list)) else sampler.generator.permutation(len(wanted)).tolist()
            if sorted(axis % max(len(wanted), 1) for axis in order) == list(range(len(wanted))):
                yield first, tuple(wanted[i] for i in np.argsort([axis % len(wanted) for axis in order]))
        elif name == "reshape" and isinstance(first, (PVar, PConst)):
            cut = sampler.integer(0, len(wanted))
            found = [(math.prod(wanted),), (math.prod(wanted[:cut]), *wanted[cut:]), (*wanted[:cut], 1, *wanted[cut:])]
            at, factor = max(cut - 1, 0), sampler.pick((2, 3))
            if wanted and wanted[at] % factor == 0:
                found.append((*wanted[:at], factor, wanted[at] // factor, *wanted[at + 1 :]))
            yield first, sampler.pick(found)
        elif name == "reshape" and isinstance(first, PCall) and first.op.name == "arange":
            yield first, (math.prod(wanted),)
        elif name == "expand_dims" and isinstance(first, PCall) and 1 in wanted:
            place = sampler.pick([i for i, dim in enumerate(wanted) if dim == 1])
            yield first, (*wanted[:place], *wanted[place + 1 :])
        elif name == "dyn.broadcast_to":
            self.settle(node.args[1], Sample((len(wanted),), "int64", elements=lambda sampler, shape: np.asarray(wanted, np.int64)))
        elif name == "take" and node.attrs.get("axis") == 0 and wanted:
            cut = len(wanted) - 1 if sampler.chance(0.9) else sampler.integer(0, len(wanted))
            yield first, (sampler.full(), *wanted[cut:])
            yield node.args[1], wanted[:cut]
        elif name == "nn.matmul" and len(wanted) >= 2 and not (node.attrs.get("transpose_a") or node.attrs.get("transpose_b")):
            known = [self.shape(arg) for arg in node.args]
            left, right = known
            inner = left[-1] if left else right[-2] if right and len(right) > 1 else sampler.full()
            yield first, (*wanted[:-1], inner)
            yield node.args[1], (*wanted[:-2], inner, wanted[-1])

    def _broadcast(self, args: Sequence[Pattern], wanted: Shape) -> Iterator[tuple[Pattern, Shape]]:
        """Fixes operands that broadcast to a shape: one has the shape, unless an operand fixed earlier does, and the others broadcast to
        it."""
        sampler = self.sampler
        known = [self.shape(arg) for arg in args]
        left = [arg for arg, shape in zip(args, known, strict=True) if shape is None and not isinstance(arg, PTuple)]
        made = np.broadcast_shapes(*[shape for shape in known if shape is not None and _fits(shape, wanted)])
        whole = sampler.pick(left) if left and made != wanted else None
        for arg in left:
            narrow = tuple(
                1 if sampler.chance(0.3) else dim for dim in wanted[sampler.integer(0, len(wanted)) if sampler.chance(0.4) else 0 :]
            )
            yield arg, wanted if arg is whole else sampler.pick([wanted, narrow, (), ()])

    # ---- attributes, upwards

    def solve(self, node: PCall, source: Shape, fixed: Attributes) -> Attributes:
        """Attributes with which a call on a first operand of a shape has its fixed shape; empty if there are none."""
        name, wanted, within, sampler = node.op.name, self.shapes.get(node.key), self.within.get(node.key), self.sampler
        if name == "split" and node.key in self.parts:
            return self._cuts(source, fixed, self.parts[node.key])
        if wanted is None and within is None:
            return {}
        if name == "reshape" and wanted is not None and math.prod(wanted) == math.prod(source):
            return {"newshape": self._newshape(source, wanted), "allowzero": False}
        if name == "broadcast_to" and wanted is not None:
            return {"shape": wanted}
        target = wanted if wanted is not None else within
        assert target is not None
        found: list[Attributes] = []
        if name == "transpose" and sorted(source) == sorted(target):
            orders = itertools.permutations(range(len(source)))
            found = [{"axes": order} for order in orders if tuple(source[axis] for axis in order) == target]
        elif name == "expand_dims":
            places = itertools.combinations(range(len(target)), max(len(target) - len(source), 0))
            found = [{"axis": at} for at in places if _goes(_with_ones(source, at), target, wanted is not None)]
            found = [{"axis": of["axis"][0], "num_newaxis": 1} if len(of["axis"]) == 1 and sampler.chance(0.7) else of for of in found]
        elif name == "squeeze":
            ones = [i for i, dim in enumerate(source) if dim == 1]
            places = itertools.combinations(ones, max(len(source) - len(target), 0))
            found = [{"axis": at} for at in places if tuple(dim for i, dim in enumerate(source) if i not in at) == target]
        return sampler.pick(found) if found else {}

    def _newshape(self, source: Shape, wanted: Shape) -> Shape:
        """A shape as a newshape: sometimes with -1 for a size that follows from the others, and 0 for an unchanged size."""
        newshape = [0 if i < len(source) and source[i] == dim and self.sampler.chance(0.2) else dim for i, dim in enumerate(wanted)]
        if newshape and 0 not in wanted and self.sampler.chance(0.3):
            newshape[self.sampler.integer(0, len(newshape) - 1)] = -1
        return tuple(newshape)

    def _cuts(self, source: Shape, fixed: Attributes, parts: int) -> Attributes:
        """Attributes of a split into at least this many parts."""
        sampler = self.sampler
        axis = fixed.get("axis", sampler.integer(-len(source), len(source) - 1) if source else 0)
        if not isinstance(axis, int) or not -len(source) <= axis < len(source):
            return {}
        size = source[axis]
        parts += sampler.pick((0, 0, 1))
        places = tuple(sorted(sampler.integer(0, size) for _ in range(parts - 1)))
        return {"axis": axis, "indices_or_sections": parts if size % parts == 0 and sampler.chance(0.5) else places}

    # ---- element types and elements

    def dtype(self) -> str | None:
        """An element type that a strategy requested."""
        return self.sampler.pick(list(self.dtypes.values())) if self.dtypes else None

    def tensor(self, key: Key, type_: TensorType) -> Tensor:
        """A constant with the elements fixed for a hole."""
        elements, shape = self.elements[key], type_.concrete_shape
        if callable(elements):
            try:
                array = np.asarray(elements(self.sampler, shape)).reshape(shape)
            except (IndexError, TypeError, ValueError) as error:  # the strategy expects another shape
                raise Unfit(f"there are no elements for {type_!r}: {error}") from error
        elif self.sampler.chance(0.6) or len(elements) == 1:
            return uniform(self.sampler.pick(elements), shape, type_.dtype, stored_once=self.sampler.chance(0.5))
        else:
            array = np.asarray(elements)[self.sampler.generator.integers(len(elements), size=shape)]
        return _cast(array, type_.dtype)


def _cast(array: Array, dtype: str) -> Tensor:
    whole = uniform(0, (), dtype).numpy().dtype
    with np.errstate(all="ignore"):
        return Tensor.dense(array.astype(whole))


def _fits(shape: Shape, wanted: Shape) -> bool:
    """True if a shape broadcasts to another."""
    tail = wanted[len(wanted) - len(shape) :]
    return len(shape) <= len(wanted) and all(dim in (1, other) for dim, other in zip(shape, tail, strict=True))


def _with_ones(source: Shape, places: Sequence[int]) -> Shape:
    """A shape with axes of size 1 inserted at positions of the result."""
    rest = iter(source)
    return tuple(1 if i in places else next(rest) for i in range(len(source) + len(places)))


def _goes(shape: Shape, target: Shape, exactly: bool) -> bool:
    return shape == target if exactly else len(shape) == len(target) and _fits(shape, target)
