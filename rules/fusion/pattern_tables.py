"""Tables of patterns by name: what operators a library or a device has for several calls together."""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import NamedTuple, TypeAlias

from passat.ir.expr import Expr
from passat.rules.conditions import Condition
from passat.rules.fusion.subgraphs import check_pattern
from passat.rules.pattern import Pattern

Check: TypeAlias = Callable[[Expr], bool]
"""Says of the expression that a pattern stands at whether it is to be taken."""
PatternTable: TypeAlias = Sequence[tuple[AnyValue, ...]]
"""Tuples of a name, a pattern and, if need be, a check: a condition, several, or a function of the expression that was found."""


class TableEntry(NamedTuple):
    """A row of a table, read."""

    name: str
    pattern: Pattern
    conditions: tuple[Condition, ...]
    check: Check | None


_TABLES: dict[str, PatternTable | Callable[[], PatternTable]] = {}


def register_pattern_table(name: str, table: PatternTable | Callable[[], PatternTable] | None = None) -> AnyValue:
    """Registers a table, or a function that makes it, under a name; without a table, the decorator of such a function. A name that is taken
    gets the new table, as in TVM.

    >>> from passat.rules.pattern import op, tensors
    >>> @register_pattern_table("example")
    ... def table():
    ...     x, w, b = tensors("x w b")
    ...     return [("example.dense", op.nn.bias_add(op.nn.dense(x, w), b))]
    >>> get_pattern_table("example")
    [('example.dense', nn.bias_add(nn.dense(x, w), b))]
    """
    if table is None:

        def register(made: Callable[[], PatternTable]) -> Callable[[], PatternTable]:
            _TABLES[name] = made
            return made

        return register
    _TABLES[name] = table
    return table


def get_pattern_table(name: str) -> PatternTable:
    """The table of that name. Raises ValueError that names those there are."""
    found = _TABLES.get(name)
    if found is None:
        raise ValueError(f"there is no pattern table {name!r}; there are: {', '.join(sorted(_TABLES)) or 'none'}")
    return found() if callable(found) else found


def read_table(table: PatternTable | str) -> tuple[TableEntry, ...]:
    """The rows of a table, which may be given by its name. Raises ValueError for an unknown name, TypeError for what is no table, RuleError
    for patterns that cannot be looked for."""
    if isinstance(table, str):
        table = get_pattern_table(table)
    return tuple(map(_read, table))


def _read(row: object) -> TableEntry:
    if not isinstance(row, (tuple, list)) or not 2 <= len(row) <= 3 or not isinstance(row[0], str):
        raise TypeError(f"a row of a pattern table is (name, pattern) or (name, pattern, check), not {row!r}")
    name, pattern, check = (*row, ()) if len(row) == 2 else row
    if isinstance(check, Condition):
        check = (check,)
    conditions = () if callable(check) else tuple(check)
    return TableEntry(name, check_pattern(pattern, conditions), conditions, check if callable(check) else None)
