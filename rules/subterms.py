"""The parts of patterns, and the names of the holes in them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar
from typing import Any as AnyValue

from passat.ir.op import Op
from passat.ir.walks import parts_first, preorder
from passat.rules.pattern import AttrHole, CaseValue, Computed, Pattern, PCall, PCase, PConst, PGet, PNumber, PTuple, PVar
from passat.rules.symbolic import OperatorTerm, Symbolic

if TYPE_CHECKING:
    from passat.rules.rule import Rule


def subterms(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern and all its parts in preorder."""
    return preorder([pattern], pattern_parts)


def distinct_terms(pattern: Pattern) -> list[Pattern]:
    """The distinct terms of a pattern, operands first."""
    return list(parts_first([pattern], pattern_parts, lambda term: term.key))


def pattern_parts(node: Pattern) -> tuple[Pattern, ...]:
    """The operands of a pattern; none for a hole or number."""
    if isinstance(node, PCall):
        return node.args
    if isinstance(node, PTuple):
        return node.fields
    if isinstance(node, PCase):
        return tuple(node.values.values())
    return (node.of,) if isinstance(node, PGet) else ()


Key = tuple[AnyValue, ...]
_Whole = TypeVar("_Whole")
_Operands = Callable[[Pattern, _Whole, dict[str, AnyValue]], Sequence[_Whole] | None]


def ways(
    pattern: Pattern, root: _Whole, operands: _Operands[_Whole], same: Callable[[_Whole, _Whole], bool]
) -> Iterator[tuple[dict[Key, _Whole], dict[str, AnyValue]]]:
    """All ways in which a thing, such as an expression, is an instance of a pattern: the part of it that each term stands for, by key, and
    the values of attributes. Operands of commutative operators are tried in both orders, the written one first.

    `operands` returns those of a thing that a term stands for, and binds attributes; None if it does not. A term that occurs twice stands
    for the `same` thing.
    """
    pending: list[tuple[list[tuple[Pattern, _Whole]], dict[Key, _Whole], dict[str, AnyValue]]] = [([(pattern, root)], {}, {})]
    while pending:
        work, bound, attrs = pending.pop()
        while work:
            term, whole = work.pop()
            if term.key in bound:
                if not same(bound[term.key], whole):
                    break
                continue
            parts = operands(term, whole, attrs)
            if parts is None:
                break
            bound[term.key] = whole
            terms = pattern_parts(term)[::-1]
            if isinstance(term, PCall) and term.op.commutative and terms[0].key != terms[1].key:
                pending.append(([*work, *zip(terms, parts, strict=True)], dict(bound), dict(attrs)))
            work += zip(terms, parts[::-1], strict=True)
        else:
            yield bound, attrs


def arguments_of(value: AnyValue) -> Sequence[AnyValue]:
    """The values within a value that is not a pattern: arguments of a computed attribute, values of cases, elements of a tuple."""
    if isinstance(value, CaseValue):
        return tuple(value.values.values())
    return value.args if isinstance(value, Computed) else value if isinstance(value, (tuple, list)) else ()


def patterns_in(value: AnyValue) -> Iterator[Pattern]:
    """The patterns and their parts in an attribute's value or an argument of a guard."""
    if isinstance(value, Pattern):
        yield from subterms(value)
    for part in arguments_of(value):
        yield from patterns_in(part)


def values_in(pattern: Pattern) -> Iterator[AnyValue]:
    """The attribute values and numbers of a right side."""
    for node in subterms(pattern):
        if isinstance(node, PCall):
            yield from node.attrs.values()
        elif isinstance(node, PNumber):
            yield node.value


def named_patterns(rule: "Rule") -> Iterator[Pattern]:
    """The patterns that guards and computed values of a rule refer to."""
    for value in (*(arg for guard in rule.guards for arg in guard.args), *values_in(rule.rhs)):
        yield from patterns_in(value)


def tensor_holes(value: AnyValue) -> frozenset[str]:
    """Names of the holes for expressions and constants in a pattern, an attribute's value or an argument of a guard."""
    return _holes_in(value)[0]


def attr_holes(value: AnyValue) -> frozenset[str]:
    """Names of the attribute holes in such a value, including those inside computed attributes."""
    return _holes_in(value)[1]


def operator_names(value: AnyValue) -> frozenset[str]:
    """Names of the holes for operators in such a value."""
    return _holes_in(value)[2]


def hole_names(value: AnyValue) -> frozenset[str]:
    """Names of the holes in such a value that are filled before a rule runs: for operators, cases and numbers of operands."""
    return _holes_in(value)[3]


_NONE: Final[frozenset[str]] = frozenset()
_HoleNames = tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str]]


def _holes_in(value: AnyValue) -> _HoleNames:
    """The names of the holes for tensors, attributes and operators, and of all holes filled before a rule runs."""
    if isinstance(value, Pattern):
        return _holes(value)
    attribute = frozenset((value.name,)) if isinstance(value, AttrHole) else _NONE
    operator = frozenset((value.name,)) if isinstance(value, OperatorTerm) else _NONE
    filled = frozenset((repr(value.hole),)) if isinstance(value, CaseValue) else operator
    return _united([(_NONE, attribute, operator, filled), *map(_holes_in, arguments_of(value))])


def _united(found: Iterable[_HoleNames]) -> _HoleNames:
    tensors, attributes, operators, filled = zip(*found, strict=True)
    return _NONE.union(*tensors), _NONE.union(*attributes), _NONE.union(*operators), _NONE.union(*filled)


def _holes(pattern: Pattern) -> _HoleNames:
    """The names of the holes in a pattern. Cached, since patterns are immutable."""
    if pattern.holes is not None:
        return pattern.holes
    pending = [pattern]
    while pending:
        node = pending[-1]
        if isinstance(node, (PVar, PConst)):
            name = frozenset((node.name,))
            node.holes = name, _NONE, _NONE, name if type(node) not in (PVar, PConst) else _NONE
            pending.pop()
            continue
        parts = [part.holes for part in pattern_parts(node) if part.holes is not None]
        if len(parts) < len(pattern_parts(node)):
            pending += [part for part in pattern_parts(node) if part.holes is None]
            continue
        pending.pop()
        own = frozenset((node.op.name,)) if isinstance(node, PCall) and not isinstance(node.op, Op) else _NONE  # a hole for an operator
        values = list(node.attrs.values()) if isinstance(node, PCall) else [node.value] if isinstance(node, PNumber) else []
        values += [node.case] if isinstance(node, PGet) and node.case is not None else []
        values = [value for value in values if isinstance(value, (Symbolic, tuple, list))]  # most attributes are plain
        filled = own
        if isinstance(node, PCase):
            filled = frozenset((repr(node.hole),))
        elif isinstance(node, PGet) and node.behind is not None:
            filled = frozenset((node.behind.name,))
        node.holes = _united([(_NONE, _NONE, own, filled), *parts, *map(_holes_in, values)])
    assert pattern.holes is not None
    return pattern.holes
