"""Pass ordering by declarations (`after`, `before`, `required`), and insertion of user passes into a pipeline."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import Pass
from passat.passmgr.planning.dependencies import PassDependencyError, names_in_pass
from passat.passmgr.registry import UnknownPassError, get_entry, own_name
from passat.passmgr.sequential import Sequential

_Edge = tuple[int, int]
"""The indices of two passes in a list; the first one runs first."""


def in_order(passes: Sequence[Pass]) -> list[Pass]:
    """Sorts passes by their declarations, otherwise keeping the given order. Ignores names of other passes.

    Raises PassDependencyError for a cycle.
    """
    names = [names_in_pass(pass_) for pass_ in passes]
    edges = []
    for at, pass_ in enumerate(passes):
        edges += [(holder, at) for name in (*pass_.info.required, *pass_.info.after) for holder in _holders(name, names)]
        edges += [(at, holder) for name in pass_.info.before for holder in _holders(name, names)]
    return _sorted(passes, edges, range(len(passes)))


def with_landed(pipeline: Sequential, newcomers: Iterable[Pass]) -> Sequential:
    """Inserts passes into a pipeline, if they name members of it in `after` or `before` and are not in it yet.

    A pass is inserted after the first occurrence of each pass named in its `after`, and before the last occurrence of each pass named in
    its `before`; before the first one, if it names none in `after`. It is inserted into a nested pipeline if that position is between two
    of its members.

    Raises UnknownPassError for unknown names, and PassDependencyError for cyclic declarations.
    """
    listed = frozenset[str]().union(*map(names_in_pass, pipeline.members))
    landing = {id(pass_): pass_ for pass_ in newcomers if pass_.info.name not in listed and anchors(pass_.info)}  # names may be equal
    known = listed.union(pass_.info.name for pass_ in landing.values())
    for pass_ in landing.values():
        for name in anchors(pass_.info):
            if name not in known:
                _check_registered(name, pass_)
    while missing := [key for key, pass_ in landing.items() if not known.issuperset(anchors(pass_.info))]:
        landing = {key: pass_ for key, pass_ in landing.items() if key not in missing}
        known = listed.union(pass_.info.name for pass_ in landing.values())
    return _land(pipeline, sorted(landing.values(), key=lambda pass_: pass_.info.name)) if landing else pipeline


def anchors(info: PassInfo) -> tuple[str, ...]:
    """The names of the passes that determine the position of a pass."""
    return tuple(map(own_name, (*info.after, *info.before)))


def _land(pipeline: Sequential, newcomers: Sequence[Pass]) -> Sequential:
    """Inserts passes into a pipeline, whose own members keep their order."""
    fixed = len(pipeline.members)
    passes = [*pipeline.members, *newcomers]
    names = [*map(names_in_pass, pipeline.members), *(frozenset({pass_.info.name}) for pass_ in newcomers)]
    inside: dict[int, int] = {}  # the member that contains each newcomer, and thus has its names too

    def named(at: int) -> tuple[list[int], list[int]]:
        info = passes[at].info
        after = [held[0] for name in info.after if (held := _holders(name, names))]
        return after, [held[-1 if after else 0] for name in info.before if (held := _holders(name, names))]

    while True:
        found = {at: _member_around(*named(at), passes[:fixed]) for at in range(fixed, len(passes)) if at not in inside}
        at, holder = next(((at, holder) for at, holder in found.items() if holder is not None), (0, None))
        if holder is None:
            break
        inside[at] = holder
        names[holder] |= names[at]
        names[at] = frozenset()
    order = list(range(fixed))
    edges: list[_Edge] = list(pairwise(order))
    for at in range(fixed, len(passes)):
        after, before = named(at)
        node = inside.get(at, at)
        edges += [(first, node) for first in after if first != node or node == at]
        edges += [(node, then) for then in before if then != node or node == at]
    waiting = {at: named(at) for at in found}
    while waiting:  # place a newcomer beside a pass that it names; newcomers may name each other
        at = next((at for at, (after, before) in waiting.items() if any(holder in order for holder in (*after, *before))), min(waiting))
        after, before = ([order.index(holder) for holder in held if holder in order] for held in waiting.pop(at))
        order.insert(max(after) + 1 if after else min(before, default=len(order)), at)
    for holder in set(inside.values()):
        group = passes[holder]
        assert isinstance(group, Sequential)
        passes[holder] = _land(group, [passes[at] for at in sorted(inside) if inside[at] == holder])
    members = _sorted(passes, edges, order, fixed, inside)
    info = pipeline.info
    return Sequential(members, info.opt_level, info.name, info.required, info.traceable, after=info.after, before=info.before)


def _member_around(after: Sequence[int], before: Sequence[int], members: Sequence[Pass]) -> int | None:
    """The nested pipeline that contains both the last pass before a position and the first pass after it."""
    last = max((at for at in after if at < len(members)), default=None)
    first = min((at for at in before if at < len(members)), default=None)
    return last if last is not None and last == first and members[last].members is not None else None


def _sorted(
    passes: Sequence[Pass], edges: Collection[_Edge], order: Sequence[int], fixed: int = 0, inside: Mapping[int, int] = MappingProxyType({})
) -> list[Pass]:
    """Sorts passes topologically, with ties broken by `order`.

    The edges keep the first `fixed` passes in place. Those in `inside` are not sorted: they are within the pass that it gives, whose edges
    are theirs.
    """
    place = {node: at for at, node in enumerate(order)}
    if all(place[first] < place[then] for first, then in edges):
        return [passes[node] for node in order]  # equals the result of the sort, but avoids the 0.15 s import of networkx
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(order)
    graph.add_edges_from(edges)
    try:
        return [passes[node] for node in nx.lexicographical_topological_sort(graph, key=place.__getitem__)]
    except nx.NetworkXUnfeasible:
        cycle = [first for first, *_ in nx.find_cycle(graph)]
    if any(node >= fixed for node in cycle):  # otherwise passes within them are at odds
        shown = [node for at, node in enumerate(cycle) if max(node, cycle[at - 1], cycle[(at + 1) % len(cycle)]) >= fixed]
    else:
        shown = cycle
    declaring = (at for node in shown for at in range(fixed, len(passes)) if inside.get(at, at) == node)
    declared = "; ".join(_declared(passes[at].info) for at in declaring)
    names = " before ".join(passes[node].info.name for node in (*shown, shown[0]))
    raise PassDependencyError(f"no order of passes satisfies their declarations: {names} ({declared})")


def _declared(info: PassInfo) -> str:
    said = [f"{what} {', '.join(names)}" for what, names in (("after", info.after), ("before", info.before)) if names]
    return f"{info.name}: {' and '.join(said)}"


def _holders(name: str, names: Sequence[Collection[str]]) -> list[int]:
    """The indices of the passes that have a name, or contain a member with it."""
    own = own_name(name)
    return [at for at, held in enumerate(names) if own in held]


def _check_registered(name: str, pass_: Pass) -> None:
    try:
        get_entry(name)
    except UnknownPassError as error:
        where = "after" if name in map(own_name, pass_.info.after) else "before"
        raise UnknownPassError(f"the pass {pass_.info.name} is declared to come {where} {name}: {error}") from None
