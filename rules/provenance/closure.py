"""Congruence closure over typed terms: which are equal because of equations, and because equal things are made of equal things.

An expression represents each class: the one that most is known about, preferably a constant. Two small tensors of sizes are also equal if
shape arithmetic knows that all their elements are.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from passat.ir.expr import Constant, Expr
from passat.ir.infer import infer_type, known_value
from passat.ir.shape import ANY
from passat.ir.types import compatible, refine

Node = tuple[Hashable, tuple[int, ...]]
"""What stands at the top of a term, and the classes of its parts."""


class Closure:
    """Classes by number. `commutes` tells for which labels the order of two operands does not matter."""

    def __init__(self, commutes: Callable[[Hashable], bool]) -> None:
        self._commutes = commutes
        self._up: list[int] = []
        self._best: list[Expr] = []
        self._users: list[list[Node]] = []
        self._members: list[list[Node]] = []
        self._nodes: dict[Node, tuple[int, Expr]] = {}
        self._sizes: dict[Hashable, int] = {}

    def find(self, cls: int) -> int:
        """The class that a class is part of now."""
        while self._up[cls] != cls:
            self._up[cls] = self._up[self._up[cls]]
            cls = self._up[cls]
        return cls

    def best(self, cls: int) -> Expr:
        """The expression that stands for a class."""
        return self._best[self.find(cls)]

    def members(self, cls: int) -> Sequence[Node]:
        """The nodes of a class, the oldest first."""
        return self._members[self.find(cls)]

    def _key(self, label: Hashable, operands: Sequence[int]) -> Node:
        classes = tuple(map(self.find, operands))
        return label, tuple(sorted(classes)) if len(classes) == 2 and self._commutes(label) else classes

    def add(self, label: Hashable, operands: Sequence[int], make: Callable[[Sequence[Expr]], Expr]) -> tuple[int, Expr]:
        """The class of a node, and the node itself as an expression, which `make` makes of its operands' where it was not there. Raises
        InferError where it has no type."""
        node = self._key(label, operands)
        if node not in self._nodes:
            expr, cls = infer_type(make(list(map(self.best, operands)))), len(self._up)
            self._up.append(cls)
            self._best.append(expr)
            self._users.append([])
            self._members.append([node])
            self._nodes[node] = cls, expr
            for each in dict.fromkeys(node[1]):
                self._users[each].append(node)
            sizes = known_value(expr)
            if isinstance(sizes, np.ndarray) and ANY not in (elements := sizes.reshape(-1).tolist()):
                self.unite(cls, self._sizes.setdefault((expr.checked_type, *elements), cls))
        cls, expr = self._nodes[node]
        return self.find(cls), expr

    def unite(self, a: int, b: int) -> None:
        """Makes two classes one, and those that are made of them."""
        pending = [(a, b)]
        while pending:
            first, second = sorted(map(self.find, pending.pop()))
            if first == second:
                continue
            self._up[second] = first
            if _says_more(self._best[second], self._best[first]):
                self._best[first] = self._best[second]
            self._members[first] += self._members[second]
            moved, self._users[second] = self._users[second], []
            for node in moved:
                again, known = self._key(*node), self._nodes[node]
                pending.append((self._nodes.setdefault(again, known)[0], known[0]))
                self._users[first].append(again)


def _says_more(new: Expr, old: Expr) -> bool:
    """Whether an expression tells more of its value than another one that is equal to it."""
    if isinstance(old, Constant) or isinstance(new, Constant):
        return not isinstance(old, Constant)
    if new.checked_type != old.checked_type:
        return compatible(old.checked_type, new.checked_type) and refine(old.checked_type, new.checked_type) == new.checked_type
    return known_value(old) is None and known_value(new) is not None
