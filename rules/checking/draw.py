"""Random instances of patterns, mostly well typed and mostly accepted by the guards."""

import math
import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.dtypes import NAMES, to_numpy
from passat.ir.evaluate import Value
from passat.ir.op import FOLLOWED, KnownValue, OpTypeError
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.rules.checking.attributes import Attributes
from passat.rules.checking.case import Case, Key, Unfit, name_of
from passat.rules.checking.operands import Around, Fit, counted, fit, own_dtype
from passat.rules.checking.plan import Plan
from passat.rules.checking.sampler import ALL_TYPES, FLOAT_TYPES, PLAIN, RARE_TYPES, Odd, Sampler, draw_array, draw_constant, uniform
from passat.rules.checking.strategies import strategy_of
from passat.rules.guards import Guard
from passat.rules.pattern import AttrHole, Computed, Pattern, PCall, PConst, PGet, PLiteral, PTuple
from passat.rules.subterms import arguments_of, subterms, tensor_holes, values_in

_READS: Final = re.compile("const|known|knows")
"""Names of guards that need constants."""
_TRIES: Final = 4
"""Number of attempts for operands and attributes of one call before the instance is abandoned."""
_PATIENCE: Final = 4
"""Number of draws that the same check rejected after which an element type, or a kind of types, is rarely drawn if most others pass."""
_STUBBORN: Final = 0.05
"""Probability of such a type nevertheless."""
_ADVICE: Final = 0.8
"""Probability of following the guards' strategies, where they are used."""


class SamplingHints:
    """Hints for sampling instances of a rule: numbers that it names, holes that its guards examine and, as instances are tried, the checks
    that each element type passed. `asking` enables the guards' strategies."""

    def __init__(self, pattern: Pattern, guards: Sequence[Guard], others: Sequence[Pattern] = ()) -> None:
        self.pattern = pattern
        wanted = [guard.args for guard in guards if "not" not in guard.function.__name__.split("_")]
        self.literals = tuple(dict.fromkeys(_numbers((pattern, *others, wanted))))
        self.leaves = {name: node for node in subterms(pattern) if (name := name_of(node)) is not None}
        self.constants = {node.name for node in subterms(pattern) if isinstance(node, PConst)}
        self.looked_at = {name for guard in guards if _READS.search(guard.function.__name__) for name in tensor_holes(guard.args)}
        self.plain = list(_plain([guard.args for guard in guards]))
        self.dtypes = [value for value in self.plain if isinstance(value, str) and value in NAMES]
        self.named = {name for guard in guards for name in tensor_holes(guard.args)}
        self.spatial = next(iter(_spatial(pattern)), None)
        self.passed: dict[str, Counter[int]] = {}
        computed = {value.function: value for other in others for value in values_in(other) if isinstance(value, Computed)}
        advisers: list[Guard | Computed] = [*guards, *computed.values()]
        self.advisers = [adviser for adviser in advisers if strategy_of(adviser) is not None]
        self.asking = False

    def plan(self, sampler: Sampler) -> Plan:
        """The plan that the guards' strategies make for an instance; empty if they are not used."""
        asked = self.asking and self.advisers and sampler.chance(_ADVICE)
        return Plan(self.pattern, self.advisers if asked else (), sampler)

    def dtype(self, sampler: Sampler) -> str:
        """The main element type of an instance."""
        if self.dtypes and sampler.chance(0.3):
            return sampler.pick(self.dtypes)  # type: ignore[no-any-return]  # of strings
        way = sampler.generator.random()
        found: str = sampler.pick(FLOAT_TYPES if way < 0.5 else ALL_TYPES if way < 0.95 else RARE_TYPES)
        if self.lags(found) and not sampler.chance(_STUBBORN):
            lagging = {kind for kind in map(_kind, ALL_TYPES) if self._is_stuck(kind)}
            found = sampler.pick([other for other in ALL_TYPES if _kind(other) not in lagging and not self._is_stuck(other)] or [found])
        return found

    def lags(self, dtype: str) -> bool:
        """True if all instances of the element type, or of its kind, are ill typed, or a check rejects them that most others pass."""
        return any(map(self._is_stuck, (dtype, _kind(dtype))))

    def _is_stuck(self, name: str) -> bool:
        ours, all_ = self.passed.get(name), self.passed.get("")
        if ours is None or all_ is None:
            return False
        most = max(ours)
        if not most:
            return ours[0] >= _PATIENCE
        beyond = sum(number for checks, number in all_.items() if checks > most)
        return ours[most] >= _PATIENCE and beyond >= max(_PATIENCE, all_[most] - ours[most])

    def note(self, dtype: str, checks: int) -> None:
        """Records how many checks an instance of a main element type passed. `draw` records those that are ill typed."""
        for name in (dtype, _kind(dtype), ""):
            self.passed.setdefault(name, Counter())[checks] += 1

    def base(self, sampler: Sampler) -> tuple[int, ...]:
        """The main shape of an instance."""
        if self.spatial is None or sampler.chance(0.1):
            return sampler.shape()
        return (sampler.pick((1, 2)), sampler.pick((1, 2, 2, 4)), *(sampler.pick((2, 3, 4)) for _ in range(self.spatial)))

    def want_constants(self) -> None:
        """Makes all holes that guards name constant more often, after a guard required a constant."""
        self.looked_at |= self.named


def _kind(dtype: str) -> str:
    """The kind of an element type; kinds mostly have the same operators."""
    if dtype in RARE_TYPES:
        return "rare types"
    return "floats" if dtype in FLOAT_TYPES else "truth values" if dtype == "bool" else "integers"


def _numbers(value: AnyValue) -> Iterator[float]:
    """The numbers in patterns, guards and computed attributes."""
    if isinstance(value, Pattern):
        yield from (float(node.value) for node in subterms(value) if isinstance(node, PLiteral))
    elif isinstance(value, (int, float)):
        yield float(value)
    for part in arguments_of(value):
        yield from _numbers(part)


def _spatial(pattern: Pattern) -> Iterator[int]:
    """The number of spatial dimensions of convolutions and poolings of computed data, whose shapes are constrained."""
    for node in subterms(pattern):
        found = re.match(r"nn\.(?:conv|\w+_pool)(\d)d", node.op.name) if isinstance(node, PCall) else None
        if found is not None and isinstance(node, PCall) and isinstance(node.args[0], PCall):
            yield int(found[1])


def _plain(value: AnyValue) -> Iterator[AnyValue]:
    """The plain values among the arguments of guards: candidates for attributes."""
    is_list = isinstance(value, tuple) and value and all(isinstance(part, int) for part in value)
    if is_list or not isinstance(value, (tuple, list, Computed, Pattern, AttrHole)):
        yield value
    for part in arguments_of(value):
        yield from _plain(part)


def draw(hints: SamplingHints, sampler: Sampler, *, odd: Odd = PLAIN, unknown: bool = False) -> tuple[Case, str]:
    """An instance and its main element type. `odd` selects special elements; `unknown` allows unknown sizes. Raises Unfit if no compatible
    operands were found."""
    plan = hints.plan(sampler)
    dtype = plan.dtype() or hints.dtype(sampler)
    drawer = _Drawer(hints, sampler, dtype, plan)
    try:
        drawer.visit(hints.pattern)
        case = drawer.case(odd)
    except Unfit:
        hints.note(dtype, 0)
        raise
    return (with_unknown(case, sampler, hints.constants) if unknown else case), dtype


class _Drawer:
    """Draws one instance. Visits calls bottom-up; each call draws those of its operands that have no type yet."""

    def __init__(self, hints: SamplingHints, sampler: Sampler, dtype: str, plan: Plan) -> None:
        self.hints = hints
        self.sampler = sampler
        self.plan = plan
        self.around = Around(sampler, dtype, hints.base(sampler), [])
        self.types: dict[Key, Type] = {}
        self.attrs: dict[Key, Attrs] = {}
        self.holes: dict[str, AnyValue] = {}
        self.values: dict[Key, Tensor] = {}
        self.limits: dict[Key, int] = {}
        self.before: dict[str, tuple[list[Type], Attrs]] = {}

    # ---- types and attributes

    def visit(self, node: Pattern) -> Type | None:
        """The type of a term; None for a hole without a type yet, and for a tuple of such holes."""
        found = self.types.get(node.key)
        if found is not None:
            return found
        if name_of(node) is not None:
            return None
        if isinstance(node, PTuple):
            fields = [self.visit(field) for field in node.fields]
            return self.settle(node, TupleType(fields)) if None not in fields else None  # type: ignore[arg-type]  # none of them is None
        if isinstance(node, PGet):
            return self.settle(node, self.field(node))
        assert isinstance(node, PCall)
        return self.settle(node, self.call(node))

    def settle(self, node: Pattern, type_: Type) -> Type:
        self.types[node.key] = type_
        if isinstance(type_, TensorType):
            self.around.seen.append(tuple(dim if isinstance(dim, int) else 2 for dim in type_.shape))
        return type_

    def field(self, node: PGet) -> Type:
        whole = self.visit(node.of)
        if whole is None:
            count = len(node.of.fields) if isinstance(node.of, PTuple) else node.index + self.sampler.integer(1, 2)
            some = [TensorType(self.around.shape(), self.around.dtype) for _ in range(count)]
            whole = self.assign(node.of, TupleType(some))
        if not isinstance(whole, TupleType) or node.index >= len(whole.fields):
            raise Unfit(f"{whole!r} has no field {node.index}")
        return whole.fields[node.index]

    def call(self, node: PCall) -> Type:
        self.settle_planned(node)
        known = [self.partly(arg) for arg in node.args]
        fixed = self.fixed(node)
        first = known[0] if known else None
        if isinstance(first, TensorType) and first.is_static:
            fixed = {**self.plan.solve(node, first.concrete_shape, fixed), **fixed}
        error = ""
        for turn in range(_TRIES):
            made = self.again(node, known, fixed) if turn == 0 and not node.op.known_operands else None
            said = {**self.wished(node), **fixed}
            made = self.in_dtypes(node, known, made or self.fitted(node, known, said))
            try:
                attrs = node.op.bind_attrs({**made.attrs, **said})
                result = node.op.infer(made.types, attrs, _known(made) if node.op.known_operands else None)
            except (OpTypeError, ValueError) as problem:
                error = str(problem)
                continue
            for i, (arg, type_) in enumerate(zip(node.args, made.types, strict=True)):
                self.assign(arg, type_)
                if i in made.values and name_of(arg) is not None:
                    self.values[arg.key] = made.values[i]
            self.limit(node, made.types, attrs)
            self.attrs[node.key] = attrs
            self.before[node.op.name] = (made.types, attrs)
            self.bind(node, attrs)
            return result
        raise Unfit(error)

    def fitted(self, node: PCall, known: Sequence[Type | None], said: Attributes) -> Fit:
        """Operands compatible with what is known about them, including values."""
        given = self.given(node)
        if node.op.name == "arange":
            wanted = self.plan.shapes.get(node.key)
            numbers = {i: value.numpy().item() for i, value in given.items() if not value.ndim}
            made = counted(known, numbers, wanted[0] if wanted else None, self.around)
        else:
            made = fit(node.op, known, said, self.around)
        return made._replace(values={**made.values, **given})

    def given(self, node: PCall) -> dict[int, Tensor]:
        """The operand values that the operator needs: of literals, and of holes with fixed values."""
        found: dict[int, Tensor] = {}
        for i in node.op.known_operands:
            arg = node.args[i]
            type_ = self.types.get(arg.key)
            if isinstance(arg, PLiteral):
                found[i] = uniform(arg.value, (), type_.dtype if isinstance(type_, TensorType) else "int64")
            elif isinstance(type_, TensorType) and type_.is_static and arg.key in self.plan.elements:
                found[i] = self.values.setdefault(arg.key, self.plan.tensor(arg.key, type_))
            elif arg.key in self.values:
                found[i] = self.values[arg.key]
        return found

    def settle_planned(self, node: PCall) -> None:
        """Sets the types of hole operands whose shapes a strategy planned."""
        plan = self.plan
        if not plan.shapes:
            return
        types = [self.visit(arg) for arg in node.args]
        beside = [type_.dtype for i, type_ in enumerate(types) if isinstance(type_, TensorType) and own_dtype(node.op, i) is None]
        for i, arg in enumerate(node.args):
            for leaf in arg.fields if isinstance(arg, PTuple) else (arg,):
                if name_of(leaf) is not None and leaf.key in plan.shapes and leaf.key not in self.types:
                    dtype = plan.dtypes.get(leaf.key) or own_dtype(node.op, i) or next(iter(beside), self.around.dtype)
                    self.settle(leaf, TensorType(plan.shapes[leaf.key], dtype))

    def limit(self, node: PCall, types: Sequence[Type], attrs: Attrs) -> None:
        """The size that indices should stay below."""
        data = types[0] if node.op.name in ("take", "gather") else None
        if isinstance(data, TensorType) and data.is_static:
            shape = data.concrete_shape
            self.limits[node.args[1].key] = math.prod(shape) if attrs.axis is None else shape[attrs.axis]

    def partly(self, node: Pattern) -> Type | None:
        """The known type of an operand; an unknown tuple of a projection counts as an empty tuple."""
        found = self.visit(node)
        if found is None and isinstance(node, PTuple):
            return TupleType([self.types.get(field.key, TupleType(())) for field in node.fields])
        return found

    def in_dtypes(self, node: PCall, known: Sequence[Type | None], made: Fit) -> Fit:
        """The operands with the element types that strategies planned."""
        asked = self.plan.dtypes
        if not asked:
            return made
        types = [
            TensorType(type_.shape, asked.get(arg.key, type_.dtype)) if given is None and isinstance(type_, TensorType) else type_
            for arg, given, type_ in zip(node.args, known, made.types, strict=True)
        ]
        return made._replace(types=types)

    def again(self, node: PCall, known: Sequence[Type | None], fixed: Attributes) -> Fit | None:
        """Operands and attributes similar to those of an earlier call of the operator, if compatible."""
        before = self.before.get(node.op.name)
        if before is None or len(before[0]) != len(known) or self.sampler.chance(0.3):
            return None
        types = [_other(old, given, self.sampler) for old, given in zip(before[0], known, strict=True)]
        if any(isinstance(type_, TupleType) and TupleType(()) in type_.fields for type_ in types):
            return None
        return Fit(types, {**before[1], **fixed})

    def assign(self, node: Pattern, type_: Type) -> Type:
        if node.key not in self.types:
            if isinstance(node, PTuple) and isinstance(type_, TupleType):
                for field, part in zip(node.fields, type_.fields, strict=True):
                    self.assign(field, part)
            self.settle(node, type_)
        return type_

    def fixed(self, node: PCall) -> Attributes:
        """The attributes that the pattern states, or that holes have from an earlier call."""
        fixed: Attributes = {}
        holes = {**self.plan.attrs, **self.holes}
        whole = node.attrs.get("attrs")
        if isinstance(whole, AttrHole) and whole.name in holes:
            fixed.update((name, value) for name, value in holes[whole.name].items() if name in node.op.attr_params)
        for name, value in node.attrs.items():
            if isinstance(value, AttrHole):
                if name != "attrs" and value.name in holes:
                    fixed[name] = holes[value.name]
            else:
                fixed[name] = tuple(value) if isinstance(value, list) else value
        return fixed

    def wished(self, node: PCall) -> Attributes:
        """Occasional attributes from the arguments of guards."""
        wished: Attributes = {}
        for name, value in node.attrs.items() if self.hints.plain else ():
            if name != "attrs" and isinstance(value, AttrHole) and self.sampler.chance(0.25):
                text = "str" in str(node.op.attr_params[name].annotation) if name in node.op.attr_params else None
                fitting = [plain for plain in self.hints.plain if text in (None, isinstance(plain, str))]
                wished.update({name: self.sampler.pick(fitting)} if fitting else {})
        return wished

    def bind(self, node: PCall, attrs: Attrs) -> None:
        for name, value in node.attrs.items():
            if isinstance(value, AttrHole):
                self.holes.setdefault(value.name, attrs if name == "attrs" else attrs[name])

    # ---- values

    def case(self, odd: Odd) -> Case:
        """The instance, with values for everything that has a type."""
        sampler, hints = self.sampler, self.hints
        types: dict[str, Type] = {}
        constants: dict[str, Value] = {}
        inputs: dict[str, Value] = {}
        asked: set[str] = set()
        for name, node in hints.leaves.items():
            type_ = types[name] = self.types.get(node.key) or TensorType(self.around.shape(), self.around.dtype)
            if isinstance(type_, TensorType) and not type_.is_static:
                raise Unfit(f"the size of {name} is not known before run time: {type_!r}")
            shape = type_.concrete_shape if isinstance(type_, TensorType) else ()
            if isinstance(node, PLiteral) and isinstance(type_, TensorType):
                constants[name] = uniform(node.value, shape, type_.dtype, stored_once=sampler.chance(0.5))
            elif node.key in self.plan.elements and isinstance(type_, TensorType):
                constants[name] = self.values.get(node.key) or self.plan.tensor(node.key, type_)
                asked.add(name)
            elif node.key in self.values and (isinstance(node, PConst) or sampler.chance(0.9)):
                constants[name] = self.values[node.key]
                asked.add(name)
            elif name in hints.constants or sampler.chance(0.5 if name in hints.looked_at else 0.06):
                constants[name] = constant_of(type_, sampler, hints.literals, odd)
            elif node.key in self.values:
                inputs[name] = self.values[node.key]
                asked.add(name)
            else:
                inputs[name] = value_of(type_, sampler, odd, self.limits.get(node.key, 0))
        return Case(types, constants, inputs, self.attrs, asked=frozenset(asked))


def _known(made: Fit) -> list[KnownValue | None]:
    """The operand values that type relations read: integers only."""
    followed = [isinstance(type_, TensorType) and type_.dtype in FOLLOWED for type_ in made.types]
    return [np.asarray(made.values[i].numpy(), np.object_) if i in made.values and whole else None for i, whole in enumerate(followed)]


def _other(old: Type, given: Type | None, sampler: Sampler) -> Type:
    """A type similar to an old one that satisfies the given part; one axis of a tensor may differ."""
    if isinstance(old, TupleType) and isinstance(given, TupleType) and len(old.fields) == len(given.fields):
        return TupleType(_other(a, None if b == TupleType(()) else b, sampler) for a, b in zip(old.fields, given.fields, strict=True))
    if given is not None:
        return given
    if isinstance(old, TensorType) and old.shape and sampler.chance(0.25):
        axis = sampler.integer(0, old.ndim - 1)
        return old.with_shape((*old.shape[:axis], sampler.dim(), *old.shape[axis + 1 :]))
    return old


def varied(case: Case, hints: SamplingHints, sampler: Sampler, odd: Odd) -> Case:
    """The case with other elements, which guards probably accept again."""
    inputs = {name: value if name in case.asked else value_of(case.types[name], sampler, odd) for name, value in case.inputs.items()}
    constants = {
        name: constant_of(case.types[name], sampler, hints.literals, odd)
        if name in hints.constants and name.isidentifier() and name not in case.asked and sampler.chance(0.3)
        else value
        for name, value in case.constants.items()
    }
    return case._replace(inputs=inputs, constants=constants)


def value_of(type_: Type, sampler: Sampler, odd: Odd, limit: int = 0) -> Value:
    """A random value of a type; with a `limit`, mostly valid indices below it."""
    if limit and isinstance(type_, TensorType) and sampler.chance(0.9):
        return Tensor.dense(sampler.generator.integers(-limit, limit, type_.concrete_shape).astype(to_numpy(type_.dtype)))
    if isinstance(type_, TupleType):
        return tuple(value_of(field, sampler, odd) for field in type_.fields)
    if not isinstance(type_, TensorType):
        raise Unfit(f"{type_!r} has no values to draw")
    return Tensor.dense(draw_array(sampler.generator, type_.concrete_shape, type_.dtype, odd))


def constant_of(type_: Type, sampler: Sampler, literals: Sequence[float], odd: Odd) -> Value:
    """A random constant of a type."""
    if isinstance(type_, TupleType):
        return tuple(constant_of(field, sampler, literals, odd) for field in type_.fields)
    if not isinstance(type_, TensorType):
        raise Unfit(f"{type_!r} has no constants to draw")
    return draw_constant(sampler, type_.concrete_shape, type_.dtype, literals, odd)


def with_unknown(case: Case, sampler: Sampler, fixed: Container[str]) -> Case:
    """The case with unknown input sizes, equal sizes mostly under the same name, and with lists of sizes read from those inputs, except
    constants that are `fixed`."""
    unknown: dict[tuple[str, int], str] = {}
    of_size: dict[int, list[tuple[str, int]]] = {}
    for name in case.inputs:
        type_ = case.types[name]
        for axis, dim in enumerate(type_.concrete_shape if isinstance(type_, TensorType) else ()):
            if sampler.chance(0.5):
                unknown[name, axis] = sampler.pick([f"n{dim}", f"n{dim}", f"{name}{axis}", "?"])
                of_size.setdefault(dim, []).append((name, axis))
    computed = {}
    for name, value in case.constants.items():
        if isinstance(value, Tensor) and value.dtype == "int64" and value.ndim == 1 and name not in fixed and sampler.chance(0.6):
            sources = [sampler.pick(of_size[int(size)]) if int(size) in of_size and sampler.chance(0.7) else None for size in value.numpy()]
            if any(sources):
                computed[name] = sources
    return case._replace(unknown=unknown, computed=computed)
