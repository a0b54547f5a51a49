"""Expands rules with holes for cases, operators and numbers of operands to the plain rules that they stand for."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeGuard, cast
from typing import Any as AnyValue

from passat.ir.op import Op
from passat.ir.walks import preorder
from passat.rules.guards import Guard
from passat.rules.holes import CaseCondition, CaseHole, OperatorHole, PartsHole
from passat.rules.multi_pattern import PJoined
from passat.rules.pattern import CaseValue, Computed, Pattern, PCall, PCase, PGet, PNumber, PTuple, PVar, RuleError
from passat.rules.subterms import arguments_of, hole_names, pattern_parts, subterms

if TYPE_CHECKING:
    from passat.rules.rule import Rule


class Holes(NamedTuple):
    """The holes for cases, operators and parts in patterns and guards, by name."""

    cases: Mapping[str, CaseHole]
    operators: Mapping[str, OperatorHole]
    parts: Mapping[str, PartsHole]

    def meanings(self) -> list[str]:
        """The meaning of each hole."""
        return [hole.meaning() for holes in self for hole in holes.values()]

    def __bool__(self) -> bool:
        return bool(self.cases or self.operators or self.parts)


class Choice(NamedTuple):
    """Values for holes: cases, operators and numbers of operands; `places` selects one of several operands. Holes without a value stay
    open."""

    operators: Mapping[str, Op] = {}
    counts: Mapping[str, int] = {}
    places: Mapping[str, int] = {}
    cases: Mapping[str, str] = {}

    def __str__(self) -> str:
        return ", ".join([*self.cases.values(), *(op.name for op in self.operators.values()), *map(str, self.counts.values())])


def holes_in(*values: AnyValue) -> Holes:
    """The holes in patterns and guards. Raises RuleError if two of them have the same name."""
    cases: dict[str, CaseHole] = {}
    operators: dict[str, OperatorHole] = {}
    parts: dict[str, PartsHole] = {}
    for value in _all(filter(has_holes, values)):
        if isinstance(value, OperatorHole) and operators.setdefault(value.name, value) is not value:
            raise RuleError(f"two holes for operators are called {value.name}")
        if isinstance(value, PartsHole) and parts.setdefault(value.name, value).key != value.key:
            raise RuleError(f"two holes for operands are called {value.name}")
        if isinstance(value, CaseHole) and cases.setdefault(value.name, value).names != value.names:
            raise RuleError(f"two holes for cases are called {value.name}")
    return Holes(cases, dict(sorted(operators.items())), dict(sorted(parts.items())))


def has_holes(value: AnyValue) -> bool:
    """True if a pattern, a guard or a value within one contains such holes."""
    if isinstance(value, Pattern):
        return bool(hole_names(value))
    if isinstance(value, (CaseValue, CaseCondition, OperatorHole)):
        return True
    parts = value.args if isinstance(value, Guard) else arguments_of(value)
    return bool(parts) and any(map(has_holes, parts))


class Expansion:
    """The directions of a rule, each made on demand: one rule may stand for a hundred, of which a program can match few.
    Holes that occur in one case only are chosen in that case."""

    def __init__(self, rule: "Rule") -> None:
        self._rule = rule
        self._ways = rule.ways()
        self._branch = _Branch(rule, {}) if any(map(has_holes, rule.sides())) else None

    def within(self, operators: Set[Op] | None = None) -> "list[Rule]":
        """The directions whose left sides have no other operators; all by default. Also some others, if the rule has no holes or is
        bidirectional."""
        if self._branch is None:
            return self._ways
        leaves = self._branch.leaves(None if self._rule.back else operators)
        return [direction for leaf in leaves for direction in leaf.directions]


class _Leaf:
    """A choice for all holes of a rule."""

    def __init__(self, branch: "_Branch", choice: Choice) -> None:
        self.operators = frozenset(choice.operators.values())
        self._branch = branch
        self._choice = choice

    @cached_property
    def directions(self) -> "list[Rule]":
        """The rule in each of its directions, with the choice in place of its holes; none if both sides are the same."""
        rule = self._branch.rule
        lhs, rhs, guards = [filled(side, self._choice) for side in self._branch.sides]
        if lhs.key == rhs.key:
            return []
        choice = self._choice._replace(cases=self._branch.cases)
        return [way.with_choice(choice, *((rhs, lhs) if way.lhs is rule.rhs else (lhs, rhs)), guards) for way in rule.ways()]


class _Branch:
    """The choices for the holes of a rule in some of its cases."""

    def __init__(self, rule: "Rule", cases: Mapping[str, str]) -> None:
        self.rule = rule
        self.cases = cases

    @cached_property
    def _left(self) -> Pattern:
        return cast(Pattern, filled(self.rule.lhs, Choice(cases=self.cases)))

    @cached_property
    def sides(self) -> Sequence[AnyValue]:
        """The left side, and what belongs to it, in these cases."""
        return [self._left, *(filled(side, Choice(cases=self.cases)) for side in self.rule.sides()[1:])]

    @cached_property
    def _needed(self) -> frozenset[Op]:
        """The operators that the left side has in these cases."""
        terms = fixed_terms(self.rule.lhs, self.cases)
        return frozenset([term.op for term in terms if isinstance(term, PCall) and isinstance(term.op, Op)])

    @cached_property
    def _branches(self) -> "list[_Branch]":
        """One for each case of the first hole for cases."""
        values = _all(self.rule.sides(), cases=self.cases)
        first = next((value for value in values if isinstance(value, CaseHole) and value.name not in self.cases), None)
        return [] if first is None else [_Branch(self.rule, {**self.cases, first.name: name}) for name in first.names]

    @cached_property
    def _leaves(self) -> list[_Leaf]:
        """One for each choice of operators and numbers of operands."""
        left = self._left
        holes = holes_in(left)
        fitting = [hole.fitting(left) for hole in holes.operators.values()]
        counts = [range(hole.least, hole.most + 1) for hole in holes.parts.values()]
        calls = [node for node in subterms(left) if _takes_parts(node)]
        choices = [
            Choice(dict(zip(holes.operators, operators, strict=True)), dict(zip(holes.parts, numbers, strict=True)))
            for operators in itertools.product(*fitting)
            for numbers in itertools.product(*counts)
        ]
        fits = [all(_operand_count(call, each) == each.operators[call.op.name].arity for call in calls) for each in choices]
        return [_Leaf(self, choice) for choice in itertools.compress(choices, fits)]

    def leaves(self, operators: Set[Op] | None) -> list[_Leaf]:
        """The choices for which the left side has no other operators; all by default."""
        if operators is not None and not self._needed <= operators:
            return []
        if self._branches:
            return [leaf for branch in self._branches for leaf in branch.leaves(operators)]
        return [leaf for leaf in self._leaves if operators is None or leaf.operators <= operators]


def _takes_parts(node: Pattern) -> TypeGuard[PCall]:
    """True for a call `f(*xs)` with as many operands as the operator takes."""
    if not isinstance(node, PCall):
        return False
    hole: object = node.op
    return isinstance(hole, OperatorHole) and hole.operands is None and any(isinstance(arg, PartsHole) for arg in node.args)


def _operand_count(call: PCall, choice: Choice) -> int:
    return sum(choice.counts[arg.name] if isinstance(arg, PartsHole) else 1 for arg in call.args)


@lru_cache(maxsize=4096)
def fitted(rule: "Rule", op: Op | None, count: int, index: int = 0, fields: int | None = None) -> "Rule | None":
    """The rule with its holes filled so that the left side matches a call of `op` on `count` operands or, without an operator, field
    `index` of a tuple with `fields` fields (if known). None if there is no such choice."""
    choice = _fitting(rule.lhs, op, count, index, fields)
    return None if choice is None else rule.chosen(choice)


def _fitting(left: Pattern, op: Op | None, count: int, index: int, fields: int | None) -> Choice | None:
    if isinstance(left, PCall):
        if op is None:
            return None
        hole: object = left.op
        if not isinstance(hole, OperatorHole):
            return Choice() if left.op is op and len(left.args) == count else None
        parts = [arg for arg in left.args if isinstance(arg, PartsHole)]
        rest = count - len(left.args) + len(parts)
        if not hole.stands_for(op) or (not parts and rest != 0) or (parts and rest < parts[0].least):
            return None
        return Choice({hole.name: op}, {part.name: rest for part in parts})
    if not isinstance(left, PGet) or op is not None:
        return None
    counts = {left.behind.name: index} if left.behind is not None else {}
    if isinstance(left.of, PVar):
        return Choice({}, counts)
    if not isinstance(left.of, PTuple) or fields is None:
        return None
    holes = [field for field in left.of.fields if isinstance(field, PartsHole) and field.name not in counts]
    rest = fields - sum(1 for field in left.of.fields if not isinstance(field, PartsHole)) - sum(counts.values())
    if rest < 0 or (rest > 0 and len(holes) != 1) or left.index not in (-1, index):
        return None
    return Choice({}, counts | {hole.name: rest for hole in holes})


def filled(value: AnyValue, choice: Choice) -> AnyValue:
    """A pattern, a guard or a value within one, with its holes filled; itself if it has none."""
    if not has_holes(value):
        return value
    if isinstance(value, (PCase, CaseValue)):
        hole = cast(CaseHole, value.hole).name
        if hole in choice.cases:
            return filled(value.values[choice.cases[hole]], choice)
        return type(value)(value.hole, {name: filled(one, choice) for name, one in value.values.items()})
    if isinstance(value, OperatorHole):
        return choice.operators.get(value.name, value)
    if isinstance(value, PartsHole):
        if value.name not in choice.counts:
            return value
        if value.name not in choice.places:
            raise RuleError(f"{value!r} stands for several operands: use it in a tuple, or in a separate guard")
        return value.part(choice.places[value.name])
    if isinstance(value, PCall):
        made = filled(value.op, choice)
        kept = isinstance(made, OperatorHole) or made.attr_params
        attrs = {name: filled(one, choice) for name, one in value.attrs.items() if name != "attrs" or kept}
        args = spread(value.args, choice) if _takes_parts(value) else [filled(arg, choice) for arg in value.args]
        return PCall(made, args, attrs)
    if isinstance(value, PTuple):
        return PTuple(spread(value.fields, choice))
    if isinstance(value, PGet):
        return PGet(filled(value.of, choice), _place(value, choice))
    if isinstance(value, (tuple, list)):
        return type(value)(spread(value, choice))
    return with_parts(value, lambda part: filled(part, choice))


def with_parts(value: AnyValue, change: Callable[[AnyValue], AnyValue]) -> AnyValue:
    """A pattern, a guard or a value within one, with its operands, attributes or arguments changed; itself if it has none."""
    if isinstance(value, PCall):
        return PCall(value.op, [change(arg) for arg in value.args], {name: change(one) for name, one in value.attrs.items()})
    if isinstance(value, PTuple):
        return PTuple([change(field) for field in value.fields])
    if isinstance(value, PGet):
        return PGet(change(value.of), value.index)
    if isinstance(value, PJoined):
        return PJoined(change(value.of), value.axis, value.alike)
    if isinstance(value, PNumber):
        return value.of_value(change(value.value))
    if isinstance(value, Guard):
        return Guard(value.function, [change(arg) for arg in value.args])
    if isinstance(value, Computed):
        return Computed(value.function, [change(arg) for arg in value.args])
    return type(value)([change(part) for part in value]) if isinstance(value, (tuple, list)) else value


def _place(value: PGet, choice: Choice) -> AnyValue:
    """The field index of a projection, as far as it is known."""
    if value.behind is not None:
        return choice.counts.get(value.behind.name, value.behind)
    return value.index if value.case is None else filled(value.case, choice)


def spread(values: Iterable[AnyValue], choice: Choice) -> list[AnyValue]:
    """The elements of a tuple, with parts that contain a hole for operands repeated per operand, and guards of other cases dropped."""
    made = []
    for value in values:
        if isinstance(value, CaseCondition):
            made += _in_case(value, choice)
            continue
        names = loose(value) & choice.counts.keys() - choice.places.keys()
        if len(names) > 1:
            raise RuleError(f"{value!r} refers to each operand of {' and of '.join(sorted(names))} at the same time")
        places = [{**choice.places, name: i} for name in names for i in range(choice.counts[name])] if names else [choice.places]
        made += [filled(value, choice._replace(places=each)) for each in places]
    return made


def _in_case(value: CaseCondition, choice: Choice) -> list[Guard]:
    """The plain guard if one of its cases was chosen, nothing if another case was, and conditional guards if no case was chosen."""
    plain = spread([value.plain], choice)
    if value.hole.name in choice.cases:
        return plain if choice.cases[value.hole.name] in value.names else []
    return [CaseCondition(value.hole, value.names, one) for one in plain]


def fixed_terms(left: Pattern, cases: Mapping[str, str] = {}) -> Iterator[Pattern]:
    """The terms that a left side has for all further choices, in the cases that are chosen."""

    def parts(term: Pattern) -> list[Pattern]:
        if isinstance(term, PCase):
            return [value for name, value in term.values.items() if cases.get(cast(CaseHole, term.hole).name) == name]
        return [part for part in pattern_parts(term) if not loose(part)]  # others are repeated for each operand, maybe for none

    return (term for term in preorder([left], parts) if not isinstance(term, PCase))


def loose(value: AnyValue) -> set[str]:
    """The holes for operands in a value outside of tuples."""
    return {found.name for found in _all([value], tuples=False) if isinstance(found, PartsHole)} if has_holes(value) else set()


def _all(values: Iterable[AnyValue], *, tuples: bool = True, cases: Mapping[str, str] = {}) -> Iterator[AnyValue]:
    """The values and all their parts in preorder, optionally including those inside tuples; of cases that are chosen, what belongs to the
    chosen one."""

    def parts(value: AnyValue) -> Sequence[AnyValue]:
        return _parts_of(value, tuples, cases) if not isinstance(value, Pattern) or hole_names(value) else ()

    return preorder(values, parts)


def _parts_of(value: AnyValue, tuples: bool, cases: Mapping[str, str]) -> Sequence[AnyValue]:
    if isinstance(value, PCall):
        return [value.op, *(value.args if tuples or not _takes_parts(value) else ()), *value.attrs.values()]
    if isinstance(value, (PCase, CaseValue)):
        chosen = cases.get(cast(CaseHole, value.hole).name)
        return [value.hole, *value.values.values()] if chosen is None else [value.values[chosen]]
    if isinstance(value, PGet):
        return [value.of, value.case, *([value.behind] if tuples else ())]
    if isinstance(value, PJoined):
        return [value.of]
    if isinstance(value, PNumber):
        return [value.value]
    if isinstance(value, CaseCondition):
        chosen = cases.get(value.hole.name)
        return [value.hole, value.plain] if chosen is None else [value.plain] if chosen in value.names else []
    if isinstance(value, (Guard, Computed)):
        return value.args
    if isinstance(value, PTuple):
        return value.fields if tuples else ()
    return value if tuples and isinstance(value, (tuple, list)) else ()
