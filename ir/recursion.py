"""Groups of functions that call each other."""

from collections.abc import Iterator, Mapping, Sequence


def recursive_groups(calls: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Groups names so that those that reach each other are in one group, and groups come after those that they call.

    These are the strongly connected components, by Tarjan's algorithm. Ignores calls of names that are not keys.

    >>> recursive_groups({"main": ["even", "log"], "even": ["odd"], "odd": ["even", "log"], "log": []})
    [['log'], ['even', 'odd'], ['main']]
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    place: dict[str, int] = {}
    ungrouped: list[str] = []
    groups: list[list[str]] = []
    grouped: set[str] = set()
    for root in calls:
        pending: list[tuple[str, Iterator[str]]] = []
        entered: str | None = None if root in number else root
        while pending or entered is not None:
            if entered is not None:
                number[entered] = lowest[entered] = len(number)
                place[entered] = len(ungrouped)
                ungrouped.append(entered)
                pending.append((entered, iter(calls[entered])))
            name, rest = pending[-1]
            entered = next((callee for callee in rest if callee in calls and callee not in grouped), None)
            if entered is None:
                pending.pop()
                if lowest[name] == number[name]:
                    groups.append(ungrouped[place[name] :])
                    del ungrouped[place[name] :]
                    grouped.update(groups[-1])
                elif pending:
                    caller = pending[-1][0]
                    lowest[caller] = min(lowest[caller], lowest[name])
            elif entered in number:
                lowest[name] = min(lowest[name], number[entered])
                entered = None
    return groups
