"""Where passes stand: the order of a pipeline by what passes declare (`after`, `before`, `required`), and places for passes of users."""

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import Pass
from passat.passmgr.planning.dependencies import PassDependencyError, names_in_pass, short_name
from passat.passmgr.registry import UnknownPassError, get_entry
from passat.passmgr.sequential import Sequential

_Edge = tuple[int, int]
"""The places of two passes in a list: the first one runs first."""


def in_order(passes: Sequence[Pass]) -> list[Pass]:
    """Passes in the order that they declare; where that leaves a choice, as they are given. Names of other passes are left out of account.

    Raises PassDependencyError for a cycle.
    """
    names = [names_in_pass(pass_) for pass_ in passes]
    edges = []
    for at, pass_ in enumerate(passes):
        edges += [(holder, at) for name in (*pass_.info.required, *pass_.info.after) for holder in _holders(name, names)]
        edges += [(at, holder) for name in pass_.info.before for holder in _holders(name, names)]
    return _sorted(passes, edges, range(len(passes)))


def with_landed(pipeline: Sequential, newcomers: Iterable[Pass]) -> Sequential:
    """The pipeline with those passes at their places whose `after` and `before` name passes that it has, and that are not in it.

    A pass stands behind the first occurrence of each that it comes after, and in front of the last of each that it comes before, in a
    nested pipeline where that is between two members of it.

    Raises UnknownPassError for names that no pass has, and PassDependencyError where what passes declare is a cycle.
    """
    listed = frozenset[str]().union(*map(names_in_pass, pipeline.members))
    landing = {pass_.info.name: pass_ for pass_ in newcomers if pass_.info.name not in listed and anchors(pass_.info)}
    for pass_ in landing.values():
        for name in anchors(pass_.info):
            if name not in listed and name not in landing:
                _check_registered(name, pass_)
    while missing := [name for name, pass_ in landing.items() if not (listed | landing.keys()).issuperset(anchors(pass_.info))]:
        landing = {name: pass_ for name, pass_ in landing.items() if name not in missing}
    return _land(pipeline, [landing[name] for name in sorted(landing)]) if landing else pipeline


def anchors(info: PassInfo) -> tuple[str, ...]:
    """The short names of the passes that a pass declares its place by."""
    return tuple(map(short_name, (*info.after, *info.before)))


def _land(pipeline: Sequential, newcomers: Sequence[Pass]) -> Sequential:
    fixed = len(pipeline.members)
    passes = [*pipeline.members, *newcomers]
    names = [*map(names_in_pass, pipeline.members), *({pass_.info.name} for pass_ in newcomers)]
    order = list(range(fixed))
    edges = list(pairwise(order))
    inside: dict[int, list[Pass]] = {}
    waiting: dict[int, tuple[list[int], list[int]]] = {}
    for at, pass_ in enumerate(newcomers, fixed):
        after = [held[0] for name in pass_.info.after if (held := _holders(name, names))]
        before = [held[-1] for name in pass_.info.before if (held := _holders(name, names))]
        if after and before and max(after) == min(before) < fixed and passes[max(after)].members is not None:
            inside.setdefault(max(after), []).append(pass_)
        else:
            edges += [*((holder, at) for holder in after), *((at, holder) for holder in before)]
            waiting[at] = after, before
    while waiting:  # beside a pass that it names, one after the other: they may name each other
        at = next((at for at, (after, before) in waiting.items() if any(holder in order for holder in (*after, *before))), min(waiting))
        after, before = ([order.index(holder) for holder in held if holder in order] for held in waiting.pop(at))
        order.insert(max(after) + 1 if after else min(before, default=len(order)), at)
    for holder, within in inside.items():
        group = passes[holder]
        assert isinstance(group, Sequential)
        passes[holder] = _land(group, within)
    members = _sorted(passes, edges, order, fixed)
    info = pipeline.info
    return Sequential(members, info.opt_level, info.name, info.required, info.traceable, after=info.after, before=info.before)


def _sorted(passes: Sequence[Pass], edges: Collection[_Edge], order: Sequence[int], fixed: int = 0) -> list[Pass]:
    """Passes in the first order that the edges allow, compared by the places in `order`. The edges keep the first `fixed` as they are."""
    place = {node: at for at, node in enumerate(order)}
    if all(place[first] < place[then] for first, then in edges):
        return [passes[node] for node in order]  # what the sort below gives too, without the 0.15 s in which networkx is imported
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(order)
    graph.add_edges_from(edges)
    try:
        return [passes[node] for node in nx.lexicographical_topological_sort(graph, key=place.__getitem__)]
    except nx.NetworkXUnfeasible:
        cycle = [first for first, *_ in nx.find_cycle(graph)]
    shown = [node for at, node in enumerate(cycle) if max(node, cycle[at - 1], cycle[(at + 1) % len(cycle)]) >= fixed]
    declared = "; ".join(_declared(passes[node].info) for node in shown if node >= fixed)
    names = " before ".join(passes[node].info.name for node in (*shown, shown[0]))
    raise PassDependencyError(f"no order of passes fits what they declare: {names} ({declared})")


def _declared(info: PassInfo) -> str:
    said = [f"{what} {', '.join(names)}" for what, names in (("after", info.after), ("before", info.before)) if names]
    return f"{info.name}: {' and '.join(said)}"


def _holders(name: str, names: Sequence[Collection[str]]) -> list[int]:
    """The places of the passes that have a name, or a member that has it."""
    return [at for at, held in enumerate(names) if short_name(name) in held]


def _check_registered(name: str, pass_: Pass) -> None:
    try:
        get_entry(name)
    except UnknownPassError as error:
        where = "after" if name in map(short_name, pass_.info.after) else "before"
        raise UnknownPassError(f"the pass {pass_.info.name} is to stand {where} {name}. {error}") from None
