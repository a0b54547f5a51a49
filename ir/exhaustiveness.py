"""Finds the values that no arm of a match covers."""

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Final

from passat.ir.expr import Constructor, Expr, Match, Pattern, PatternConstructor, PatternTuple, PatternWildcard
from passat.ir.infer_error import InferError
from passat.ir.module import IRModule
from passat.ir.traverse import post_order

_LIMIT: Final = 10_000
"""Maximum number of distinguished cases."""
_TOO_MANY: Final = f"the match has more than {_LIMIT} cases to distinguish; match one field at a time"


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Pattern]:
    """Returns patterns of the values that no arm covers, without duplicates; an empty list if the arms are exhaustive.

    `mod` has the definitions of the types whose constructors are matched. Raises KeyError for a missing definition, and ValueError if more
    than 10,000 cases would have to be distinguished.
    """
    waiting: list[Pattern] = [PatternWildcard()]
    missing: list[Pattern] = []
    seen = 0
    while waiting:
        case = waiting.pop()
        seen += 1
        if seen > _LIMIT:
            raise ValueError(_TOO_MANY)
        for clause in match.clauses:
            covered = _covers(clause.lhs, case)
            if covered is None:  # only some of these values
                waiting += reversed(list(_split(clause.lhs, case, mod)))
                break
            if covered:
                break
        else:
            missing.append(case)
    return missing


def check_matches(root: Expr, mod: IRModule) -> None:
    """Raises InferError for a match without an arm for each case, unless it may be incomplete (`match?`).

    Ignores arms that do not fit their data type, about which type inference raises.
    """
    for node in post_order(root):
        if isinstance(node, Match) and node.complete:
            try:
                missing = unmatched_cases(node, mod)
            except (KeyError, ValueError):
                continue
            if missing:
                cases = ", ".join(map(str, missing[:3])) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
                raise InferError(f"the match does not handle {cases}; add arms, or write match? if these never occur", node)


def _covers(pattern: Pattern, case: Pattern) -> bool | None:
    """Whether a pattern covers all values of a case (True) or none (False); None if it covers some."""
    if not isinstance(pattern, (PatternConstructor, PatternTuple)):
        return True
    if isinstance(case, PatternWildcard):
        return None
    if isinstance(pattern, PatternConstructor) and (not isinstance(case, PatternConstructor) or pattern.constructor != case.constructor):
        return False
    assert isinstance(case, (PatternConstructor, PatternTuple))
    inner = [_covers(part, whole) for part, whole in zip(pattern.patterns, case.patterns, strict=True)]
    return False if False in inner else None if None in inner else True


def _split(pattern: Pattern, case: Pattern, mod: IRModule | None) -> Iterator[Pattern]:
    """Splits a case into the cases that a pattern distinguishes."""
    if isinstance(case, PatternWildcard):
        if isinstance(pattern, PatternTuple):
            yield PatternTuple([PatternWildcard() for _ in pattern.patterns])
        elif isinstance(pattern, PatternConstructor):
            for made in _constructors(pattern.constructor, mod):
                yield PatternConstructor(made, [PatternWildcard() for _ in made.inputs])
        else:
            yield case
        return
    if not isinstance(case, (PatternConstructor, PatternTuple)) or not isinstance(pattern, (PatternConstructor, PatternTuple)):
        yield case
        return
    parts = [list(_split(part, whole, mod)) for part, whole in zip(pattern.patterns, case.patterns, strict=True)]
    if prod(map(len, parts)) > _LIMIT:
        raise ValueError(_TOO_MANY)
    for chosen in product(*parts):
        yield PatternConstructor(case.constructor, chosen) if isinstance(case, PatternConstructor) else PatternTuple(chosen)


def _constructors(constructor: Constructor, mod: IRModule | None) -> tuple[Constructor, ...]:
    """All constructors of the type of a constructor."""
    for header, data in (mod.type_definitions if mod is not None else {}).items():
        if header == constructor.belong_to:
            return data.constructors
    raise KeyError(f"the given module does not define the type {constructor.belong_to!r}, to which {constructor.name_hint} belongs")
