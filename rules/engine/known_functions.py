"""What one pass has found out about a function, for the passes after it: most have nothing to do, and need not load it to see that."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from passat.ir.expr import Call, Constant, Expr, Function, GlobalVar, Tuple, TupleGetItem, Var
from passat.ir.op import Op
from passat.rules.call_term import Environment
from passat.rules.engine.graph import CALL, CONST_SYMBOL, GET_SYMBOL, LEAF_SYMBOL, TUPLE, Symbol, symbol
from passat.rules.rule import Rule


@dataclass
class FunctionFacts:
    """Facts about the body of a function that is dataflow over variables alone (no lets, branches, nested functions or references).

    `symbols` are what its nodes apply; `settled` holds the eager rules, with the settings, that have found nothing more to do; `distinct`
    says that no two of its parts are equal.
    """

    symbols: frozenset[Symbol]
    settled: set[tuple[tuple[Rule, ...], Environment]] = field(default_factory=set)
    distinct: bool = False


FACTS: Final[WeakKeyDictionary[Function, FunctionFacts]] = WeakKeyDictionary()
"""By function; functions are immutable, so facts stay true as long as the function lives."""


def look_at(function: Function, wanted: Sequence[frozenset[Symbol]]) -> FunctionFacts | None:
    """Facts about a function of which nothing is known yet, from a glance at what it applies. None where it is more than dataflow,
    where a field is taken of a new tuple, or where all symbols of one of the wanted sets occur, so that one has to look closer."""
    symbols = {LEAF_SYMBOL}
    seen: set[int] = set()
    known: set[tuple[Expr, int]] = set()
    stack: list[Expr] = [function.body]
    while stack:
        expr = stack.pop()
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        if isinstance(expr, Call) and isinstance(expr.op, Op):
            stack += expr.args
            if (expr.op, len(expr.args)) in known:
                continue
            known.add((expr.op, len(expr.args)))
            found = symbol(CALL, expr.op, len(expr.args))
        elif isinstance(expr, Constant):
            found = CONST_SYMBOL
        elif isinstance(expr, TupleGetItem):
            if isinstance(expr.tuple_value, Tuple):
                return None  # it is one of the fields
            stack.append(expr.tuple_value)
            found = GET_SYMBOL
        elif isinstance(expr, Tuple):
            stack += expr.fields
            found = symbol(TUPLE, None, len(expr.fields))
        elif isinstance(expr, (Var, GlobalVar)):
            continue
        else:
            return None
        if found not in symbols:
            symbols.add(found)
            if any(one <= symbols for one in wanted):
                return None
    facts = FACTS[function] = FunctionFacts(frozenset(symbols))
    return facts
