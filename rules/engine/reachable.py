"""Which rules can come to match in a program: those whose operators occur there, or are made by rules that can."""

from collections.abc import Collection, Iterable

from passat.ir.ops.static_forms import ARE_STATIC_FORMS, HAVE_STATIC_FORM
from passat.rules.engine.graph import Symbol
from passat.rules.engine.matching import Matcher


def reachable(present: Iterable[Symbol], matchers: Collection[Matcher], *, static: bool = False) -> list[Matcher]:
    """The matchers that can come to match where there are those symbols. `static`: dynamic operators may become static ones on the way."""
    known = set(present)
    while True:
        found = [matcher for matcher in matchers if matcher.symbols <= known]
        wider = known.union(*(matcher.makes for matcher in found))
        if static and any(_is_one_of(each, HAVE_STATIC_FORM) for each in wider):
            wider.update(each for matcher in matchers for each in matcher.symbols if _is_one_of(each, ARE_STATIC_FORMS))
        if wider == known:
            return found
        known = wider


def _is_one_of(symbol: Symbol, names: Collection[str]) -> bool:
    return symbol.op is not None and symbol.op.name in names
