"""Where the nodes of a large graph stand: in layers, few of whose lines cross, and these in columns, as a newspaper has them.

Everything takes time in proportion to the lines, up to a logarithm: a node wants to stand in the middle of those that it is connected to,
and layer by layer the least squares of that are found with the boxes apart. There are no auxiliary nodes for long lines.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

HEIGHT: Final = 34
"""Of a box."""
_ROW: Final = 78
_BETWEEN: Final = 26
_BETWEEN_COLUMNS: Final = 130
_SWEEPS: Final = 2
_ASPECT: Final = 1.0
"""How much wider than high a drawing should be."""
HUB: Final = 12
CROWD: Final = 64
"""What has no operands, such as a mask, and more users than `HUB`, stands beside the first of them, and the places of the others do not
depend on it; so does anything that has more users than `CROWD`. What has more operands than that moves none of them. All these lines would
hide what is behind them."""
_WIDEST: Final = 24
"""Rows of at most so many boxes are not broken."""
_TALL: Final = 60
"""Drawings of at most so many layers are one column."""


class Layout(NamedTuple):
    """The upper left corner of each node, in whole units, and in which column it stands."""

    x: list[int]
    y: list[int]
    column: list[int]


def lay_out(operands: Sequence[Sequence[int]], widths: Sequence[float]) -> Layout:
    """Places nodes, of which each comes after its operands.

    >>> lay_out([[], [0], [0], [1, 2]], [60, 60, 60, 60]).y
    [0, 78, 78, 156]
    """
    users: list[list[int]] = [[] for _ in operands]
    for node, parts in enumerate(operands):
        for part in dict.fromkeys(parts):
            users[part].append(node)
    layer = _layers(operands, users)
    first = {node: min(using, key=layer.__getitem__) for node, using in enumerate(users) if len(using) > (CROWD if operands[node] else HUB)}
    users = [[user for user in using if len(operands[user]) <= CROWD] for using in users]
    if first:
        operands = [[part for part in parts if first.get(part, node) == node] for node, parts in enumerate(operands)]
        users = [[first[node]] if node in first else using for node, using in enumerate(users)]
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for node, at in enumerate(layer):
        rows[at].append(node)
    x = _positions(rows, operands, users, widths, _components(operands))
    return _columns(rows, operands, x, widths)


def _layers(operands: Sequence[Sequence[int]], users: Sequence[Sequence[int]]) -> list[int]:
    """The layer of each node: the first one below its operands in which there is room; what has none stands just above its first user."""
    widest = max(_WIDEST, math.isqrt(len(operands)))
    layer: list[int] = []
    taken: list[int] = []
    free: list[int] = []  # the next layer that may have room
    for parts in operands:
        at = 1 + max([layer[part] for part in parts], default=-1)
        while len(taken) <= at:
            free.append(len(taken))
            taken.append(0)
        at = _top(free, at)
        layer.append(at)
        taken[at] += 1 if parts else 0
        if taken[at] == widest:
            free[at] = at + 1
            if len(taken) == at + 1:
                free.append(at + 1)
                taken.append(0)
    for node, parts in enumerate(operands):
        if not parts and users[node]:
            layer[node] = min(layer[user] for user in users[node]) - 1
    return _broken(layer, widest)


def _broken(layer: Sequence[int], widest: int) -> list[int]:
    """Layers none of which has more nodes than that: of those that had, the others become layers of their own."""
    lowest = min(layer, default=0)
    counts = [0] * (max(layer, default=0) - lowest + 1)
    within = []
    for at in layer:
        within.append(counts[at - lowest] // widest)
        counts[at - lowest] += 1
    starts = [0, *accumulate(math.ceil(count / widest) for count in counts)]
    return [starts[at - lowest] + more for at, more in zip(layer, within, strict=True)]


def _components(operands: Sequence[Sequence[int]]) -> list[int]:
    """For each node the first one that it is connected to."""
    up = list(range(len(operands)))
    for node, parts in enumerate(operands):
        for part in parts:
            one, other = _top(up, node), _top(up, part)
            up[max(one, other)] = min(one, other)
    for node, above in enumerate(up):  # which is a smaller one
        up[node] = up[above]
    return up


def _top(up: list[int], node: int) -> int:
    while up[node] != node:
        up[node] = up[up[node]]
        node = up[node]
    return node


def _positions(
    rows: Sequence[list[int]],
    operands: Sequence[Sequence[int]],
    users: Sequence[Sequence[int]],
    widths: Sequence[float],
    component: Sequence[int],
) -> list[float]:
    """The middle of each node, from left to right; orders the rows so. What is not connected stands side by side."""
    x = [0.0] * len(operands)
    layer = [0] * len(operands)
    for at, row in enumerate(rows):
        _settle(row, [0.0] * len(row), x, widths)
        for node in row:
            layer[node] = at
    pulls = [_pulls(operands, layer), _pulls(users, layer)] * _SWEEPS
    pulls += [_pulls([[*up, *down] for up, down in zip(operands, users, strict=True)], layer)] * 3
    for sweep, near in enumerate(pulls):
        for row in reversed(rows) if sweep % 2 else rows:
            wanted = [sum([x[other] * weight for other, weight in near[node]]) if near[node] else x[node] for node in row]
            order = sorted(
                range(len(row)), key=[(component[node], wish, x[node], node) for node, wish in zip(row, wanted, strict=True)].__getitem__
            )
            row[:] = [row[i] for i in order]
            _settle(row, [wanted[i] for i in order], x, widths)
    return x


def _pulls(near: Sequence[Sequence[int]], layer: Sequence[int]) -> list[list[tuple[int, float]]]:
    """How much the place of each neighbor counts for the place of a node: the more layers are in between, the less."""
    pulls = []
    for node, others in enumerate(near):
        weights = [1 / (layer[node] - layer[other]) ** 2 for other in others]
        total = sum(weights)
        pulls.append([(other, weight / total) for other, weight in zip(others, weights, strict=True)])
    return pulls


def _settle(row: Sequence[int], wanted: Sequence[float], x: list[float], widths: Sequence[float]) -> None:
    """Puts the nodes of a row, in this order and without overlap, as near as possible to where they want to be (by least squares)."""
    offsets = [0.0, *accumulate((widths[a] + widths[b]) / 2 + _BETWEEN for a, b in pairwise(row))]
    blocks: list[tuple[float, int]] = []  # sum of hints without the offsets, and number of nodes
    for wish, offset in zip(wanted, offsets, strict=False):
        total, count = wish - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            more, members = blocks.pop()
            total, count = total + more, count + members
        blocks.append((total, count))
    at = 0
    for total, count in blocks:
        for i in range(at, at + count):
            x[row[i]] = total / count + offsets[i]
        at += count


def _columns(rows: Sequence[Sequence[int]], operands: Sequence[Sequence[int]], x: Sequence[float], widths: Sequence[float]) -> Layout:
    """Cuts a drawing that is much higher than wide where few lines cross, and sets the parts side by side."""
    count = len(operands)
    layer = [0] * count
    for at, row in enumerate(rows):
        for node in row:
            layer[node] = at
    left = [min((x[node] - widths[node] / 2 for node in row), default=0.0) for row in rows]
    right = [max((x[node] + widths[node] / 2 for node in row), default=0.0) for row in rows]
    places, column = [0] * count, [0] * count
    heights = [0] * count
    start, corner = 0, 0.0
    for number, end in enumerate(_cuts(rows, operands, layer, left, right)):
        edge = min(left[start:end], default=0.0)
        for at in range(start, end):
            for node in rows[at]:
                places[node] = round(corner + x[node] - widths[node] / 2 - edge)
                heights[node] = (at - start) * _ROW
                column[node] = number
        corner += max(right[start:end], default=0.0) - edge + _BETWEEN_COLUMNS
        start = end
    return Layout(places, heights, column)


def _cuts(
    rows: Sequence[Sequence[int]], operands: Sequence[Sequence[int]], layer: Sequence[int], left: Sequence[float], right: Sequence[float]
) -> list[int]:
    """Before which layers a new column begins; the last one is the end."""
    total = len(rows)
    typical = sorted(b - a for a, b in zip(left, right, strict=True))[int(0.9 * (total - 1))] + _BETWEEN_COLUMNS if total else 0.0
    if total <= _TALL or total * _ROW <= 3 * typical:
        return [total]
    columns = max(1, round(math.sqrt(_ASPECT * total * _ROW / typical)))
    size = max(_TALL // 2, math.ceil(total / columns))
    crossing = [0] * (total + 1)
    for node, parts in enumerate(operands):
        for part in parts:
            crossing[layer[part] + 1] += 1
            crossing[layer[node] + 1] -= 1
    crossing = list(accumulate(crossing))
    cuts: list[int] = []
    start = 0
    while total - start > size * 1.25:
        ideal, slack = start + size, size // 6
        start = min(range(ideal - slack, ideal + slack + 1), key=lambda at, ideal=ideal: (crossing[at], abs(at - ideal)))  # type: ignore[misc]
        cuts.append(start)
    return [*cuts, total]
