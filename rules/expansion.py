"""Rules with holes for operators and for any number of operands, as the rules that they stand for."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any as AnyValue
from typing import NamedTuple, TypeGuard

from passat.ir.op import Op
from passat.rules.conditions import Condition
from passat.rules.operator_hole import OperatorHole
from passat.rules.parts_hole import PartsHole
from passat.rules.pattern import Computed, Pattern, PCall, PGet, PNumber, PTuple, RuleError, subterms


class Holes(NamedTuple):
    """The holes for operators and for parts in patterns and conditions, by name."""

    operators: Mapping[str, OperatorHole]
    parts: Mapping[str, PartsHole]

    def meanings(self) -> list[str]:
        """What each hole stands for."""
        return [*(hole.meaning() for hole in self.operators.values()), *(hole.meaning() for hole in self.parts.values())]

    def __bool__(self) -> bool:
        return bool(self.operators or self.parts)


class Choice(NamedTuple):
    """What is put in the place of holes: operators, and numbers of operands; `places` says which of these is meant inside one of them."""

    operators: Mapping[str, Op]
    counts: Mapping[str, int]
    places: Mapping[str, int] = {}

    def __str__(self) -> str:
        return ", ".join([*(op.name for op in self.operators.values()), *map(str, self.counts.values())])


def holes_in(*values: AnyValue) -> Holes:
    """The holes in patterns and conditions. Raises RuleError where two of them have one name."""
    operators: dict[str, OperatorHole] = {}
    parts: dict[str, PartsHole] = {}
    for value in _all(values):
        if isinstance(value, OperatorHole) and operators.setdefault(value.name, value) is not value:
            raise RuleError(f"two holes for operators are called {value.name}")
        if isinstance(value, PartsHole) and parts.setdefault(value.name, value).key != value.key:
            raise RuleError(f"two holes for operands are called {value.name}")
    return Holes(dict(sorted(operators.items())), dict(sorted(parts.items())))


def choices(pattern: Pattern) -> Iterator[Choice]:
    """All that the holes of a left side may stand for."""
    holes = holes_in(pattern)
    fitting = [hole.fitting(pattern) for hole in holes.operators.values()]
    counts = [range(hole.least, hole.most + 1) for hole in holes.parts.values()]
    calls = [node for node in subterms(pattern) if _takes_parts(node)]
    for operators in itertools.product(*fitting):
        for numbers in itertools.product(*counts):
            choice = Choice(dict(zip(holes.operators, operators, strict=True)), dict(zip(holes.parts, numbers, strict=True)))
            if all(_operand_count(call, choice) == choice.operators[call.op.name].arity for call in calls):
                yield choice


def _takes_parts(node: Pattern) -> TypeGuard[PCall]:
    """Whether a pattern is a call whose operands are those that a hole stands for, `f(*xs)`: as many as the operator takes."""
    if not isinstance(node, PCall):
        return False
    hole: object = node.op
    return isinstance(hole, OperatorHole) and hole.operands is None and any(isinstance(arg, PartsHole) for arg in node.args)


def _operand_count(call: PCall, choice: Choice) -> int:
    return sum(choice.counts[arg.name] if isinstance(arg, PartsHole) else 1 for arg in call.args)


def filled(value: AnyValue, choice: Choice) -> AnyValue:
    """A pattern, a condition or a value in one, with what was chosen in the place of the holes; itself where it has none."""
    if not holes_in(value):
        return value
    if isinstance(value, PartsHole):
        if value.name not in choice.places:
            raise RuleError(f"{value!r} stands for several operands: it belongs into a tuple, or into a guard of its own")
        return value.part(choice.places[value.name])
    if isinstance(value, PCall):
        hole: object = value.op
        made = choice.operators[hole.name] if isinstance(hole, OperatorHole) else value.op
        attrs = {name: filled(one, choice) for name, one in value.attrs.items() if name != "attrs" or made.attr_params}
        args = spread(value.args, choice) if _takes_parts(value) else [filled(arg, choice) for arg in value.args]
        return PCall(made, args, attrs)
    if isinstance(value, PTuple):
        return PTuple(spread(value.fields, choice))
    if isinstance(value, PGet):
        return PGet(filled(value.of, choice), value.index if value.behind is None else choice.counts[value.behind.name])
    if isinstance(value, PNumber):
        return type(value)(filled(value.value, choice))
    if isinstance(value, Condition):
        return Condition(value.function, [filled(arg, choice) for arg in value.args], value.draw)
    if isinstance(value, Computed):
        return Computed(value.function, [filled(arg, choice) for arg in value.args])
    assert isinstance(value, (tuple, list))
    return type(value)(spread(value, choice))


def spread(values: Iterable[AnyValue], choice: Choice) -> list[AnyValue]:
    """The elements of a tuple: what is about a hole for operands once for each of them."""
    made = []
    for value in values:
        names = _loose(value) - choice.places.keys()
        if len(names) > 1:
            raise RuleError(f"{value!r} is about each operand of {' and of '.join(sorted(names))} at once")
        places = [{**choice.places, name: i} for name in names for i in range(choice.counts[name])] if names else [choice.places]
        made += [filled(value, choice._replace(places=each)) for each in places]
    return made


def _loose(value: AnyValue) -> set[str]:
    """The holes for operands in a value that no tuple in it holds."""
    return {found.name for found in _all([value], tuples=False) if isinstance(found, PartsHole)}


def _all(values: Iterable[AnyValue], *, tuples: bool = True) -> Iterator[AnyValue]:
    """The values with all that is in them, inside tuples too where that is wanted."""
    stack = list(values)
    while stack:
        value = stack.pop()
        yield value
        if isinstance(value, PCall):
            stack += [value.op, *(value.args if tuples or not _takes_parts(value) else ()), *value.attrs.values()]
        elif isinstance(value, PGet):
            stack += [value.of, *([value.behind] if tuples else ())]
        elif isinstance(value, PNumber):
            stack.append(value.value)
        elif isinstance(value, (Condition, Computed)):
            stack += value.args
        elif isinstance(value, PTuple):
            stack += value.fields if tuples else ()
        elif isinstance(value, (tuple, list)):
            stack += value if tuples else ()
