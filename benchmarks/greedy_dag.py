"""The usual baseline of greedy extraction: for each e-class, the set of e-classes of its cheapest known program.

Implements the description of faster-greedy-dag in the extraction-gym (https://github.com/egraphs-good/extraction-gym): an e-class is
processed again when an e-class below it becomes cheaper; a node is not taken if its own e-class would be part of its program.
"""

from collections import deque

from passat.rules.extraction.space import Space


def greedy_dag(space: Space, roots: list[int]) -> float:
    """The cost of the program found, with each chosen node counted once."""
    classes, children, costs = space.classes, space.children, space.costs
    users: list[list[int]] = [[] for _ in classes]
    for node, parts in enumerate(children):
        for part in set(parts):
            users[part].append(node)
    made: dict[int, dict[int, float]] = {}  # e-class -> e-classes of its program, with the costs of the nodes chosen there
    total: dict[int, float] = {}
    chosen: dict[int, int] = {}
    work = deque(node for node, parts in enumerate(children) if not parts)
    waiting = set(work)
    while work:
        node = work.popleft()
        waiting.discard(node)
        parts = set(children[node])
        if any(part not in made for part in parts):
            continue
        cls = classes[node]
        program: dict[int, float] = {}
        for part in sorted(parts, key=lambda part: -len(made[part])):
            program = {**program, **made[part]} if program else dict(made[part])
        if cls in program:
            continue
        program[cls] = costs[node]
        cost = sum(program.values())
        if cls not in total or cost < total[cls]:
            made[cls], total[cls], chosen[cls] = program, cost, node
            for user in users[cls]:
                if user not in waiting:
                    waiting.add(user)
                    work.append(user)
    needed: set[int] = set()
    stack = list(roots)
    while stack:
        cls = stack.pop()
        if cls not in needed:
            needed.add(cls)
            stack.extend(children[chosen[cls]])
    return sum(costs[chosen[cls]] for cls in needed)
