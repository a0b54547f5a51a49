"""Why calls were not taken together by a rule with several roots."""

from passat.rules.conditions import Refuse
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.matching import Bindings
from passat.rules.why_not.answer import Finding, Kind, bare, listed
from passat.rules.why_not.view import View


def why_apart(grouper: Grouper, view: View, pass_name: str, node: str | None = None) -> list[Finding]:
    """What keeps the calls that match one by one from being taken together, in a program as it came in."""
    graph = view.graph
    refused: dict[str, list[int]] = {}
    matches: dict[int, Bindings] = {}
    roots = list(view.by_symbol.get(grouper.matcher.root, ()))
    for row in sorted({row for variant in grouper.matcher.variants for row in variant.search(graph, roots)}):
        try:
            matches.setdefault(row[0], grouper.matcher.bind(graph, row))
        except Refuse as refusal:
            refused.setdefault(str(refusal), []).append(row[0])
    found = []
    for reason, nodes in refused.items():
        kept = [one for one in nodes if node is None or view.is_any([one], node)]
        if kept:
            places = [view.place(one) for one in kept]
            text = f"it matches at {listed(places)} (in {pass_name}) and is refused: {reason}"
            found.append(Finding(Kind.REFUSED, text, bare(places), (pass_name,), len(kept)))
    groups: dict[tuple[int, ...], list[int]] = {}
    for root, match in matches.items():
        groups.setdefault(tuple(graph.find(match.node(hole)) for hole in grouper.rule.left.shared), []).append(root)
    for shared, members in groups.items():
        if node is not None and not view.is_any(members, node):
            continue
        holes = listed([f"{hole!r} ({view.describe(cls)})" for hole, cls in zip(grouper.rule.left.shared, shared, strict=True)])
        places = [view.place(member) for member in members]
        if len(members) == 1:
            text = f"only {places[0]} matches with this {holes}: there is no other call to take it together with"
        else:
            text = f"{listed(places)} share {holes}, but {_difference(matches, members)}"
        found.append(Finding(Kind.NEAR, text, bare(places), (pass_name,), len(members)))
    return found


def _difference(matches: dict[int, Bindings], members: list[int]) -> str:
    """The first attribute in which calls differ, or what else there may be."""
    first = matches[members[0]].attrs
    for member in members[1:]:
        other = matches[member].attrs
        for name, value in first.items():
            if other[name] != value:
                mine, theirs = value, other[name]
                if hasattr(value, "items") and hasattr(theirs, "items"):
                    key = next(each for each in value if value[each] != theirs[each])
                    return f"their attributes differ: {key} is {value[key]!r} and {theirs[key]!r}"
                return f"the attribute {name} is {mine!r} and {theirs!r}"
    return "one of them is computed from another, or their parts do not have the types that they have"
