"""What one pass has found out about a function, for the passes after it: most have nothing to do, and need not load it to see that."""

from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from passat.ir.expr import Function
from passat.rules.graph import Symbol


@dataclass
class FunctionFacts:
    """Facts about the body of a function that is dataflow over variables alone (no lets, branches, nested functions or references).

    `symbols` are what its nodes apply; `folded` holds the settings under which folding has found nothing more to fold; `distinct`
    says that no two of its parts are equal.
    """

    symbols: frozenset[Symbol]
    folded: set[tuple[bool, int]] = field(default_factory=set)
    distinct: bool = False


FACTS: Final[WeakKeyDictionary[Function, FunctionFacts]] = WeakKeyDictionary()
"""By function; functions are immutable, so facts stay true as long as the function lives."""
