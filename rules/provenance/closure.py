"""Congruence closure: which terms are equal because of equations, and because equal things are made of equal things.

Written for the checker of certificates alone, small and plain; nothing of the engine is used.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence

from passat.ir.evaluate import Value
from passat.ir.expr import Expr

Node = tuple[Hashable, tuple[int, ...]]
"""What stands at the top of a term, and the classes of its parts."""


class Closure:
    """Classes by number. `exprs` has for each class an expression that stands for it, with its type; `constants` the values of those that
    are constants. `commutes` tells for which labels the order of two operands does not matter."""

    def __init__(self, commutes: Callable[[Hashable], bool]) -> None:
        self.exprs: list[Expr] = []
        self.constants: dict[int, Value] = {}
        self.learnt: list[int] = []
        """Classes that have become constant by an equation, for whoever folds."""
        self._commutes = commutes
        self._up: list[int] = []
        self._nodes: list[list[Node]] = []
        self._users: list[list[tuple[Node, int]]] = []
        self._known: dict[Node, int] = {}

    def find(self, cls: int) -> int:
        """The class that a class is part of now."""
        while self._up[cls] != cls:
            self._up[cls] = self._up[self._up[cls]]
            cls = self._up[cls]
        return cls

    def _key(self, label: Hashable, operands: Sequence[int]) -> Node:
        classes = tuple(map(self.find, operands))
        return label, tuple(sorted(classes)) if len(classes) == 2 and self._commutes(label) else classes

    def lookup(self, label: Hashable, operands: Sequence[int]) -> int | None:
        """The class of a node, where there is such a node."""
        found = self._known.get(self._key(label, operands))
        return None if found is None else self.find(found)

    def add(self, label: Hashable, operands: Sequence[int], expr: Expr, constant: Value | None = None) -> int:
        """The class of a node that was not there before."""
        cls, node = len(self._up), (label, tuple(map(self.find, operands)))
        self._up.append(cls)
        self.exprs.append(expr)
        self._nodes.append([node])
        self._users.append([])
        self._known[self._key(*node)] = cls
        for operand in dict.fromkeys(node[1]):
            self._users[operand].append((node, cls))
        if constant is not None:
            self.constants[cls] = constant
        return cls

    def nodes(self, cls: int) -> list[Node]:
        """The nodes of a class, the first one first."""
        return self._nodes[self.find(cls)]

    def users(self, cls: int) -> Iterator[int]:
        """The classes in which a class is an operand."""
        return (self.find(user) for _, user in self._users[self.find(cls)])

    def unite(self, a: int, b: int, *, keep: int | None = None) -> None:
        """Makes two classes one, and those that are made of them. The older expression stands for them, or that of `keep`."""
        pending = [(a, b, keep)]
        while pending:
            one, other, kept = pending.pop()
            first, second = sorted((self.find(one), self.find(other)))
            if first == second:
                continue
            if kept is not None:
                self.exprs[first] = self.exprs[self.find(kept)]
            known = self.constants.pop(second, None)
            if (known is None) != (first not in self.constants):
                self.learnt.append(first)
            if known is not None:
                self.constants.setdefault(first, known)
            self._up[second] = first
            self._nodes[first] += self._nodes[second]
            moved, self._users[second] = self._users[second], []
            for node, cls in moved:
                again = (node[0], tuple(map(self.find, node[1])))
                same = self._known.setdefault(self._key(*again), cls)
                if self.find(same) != self.find(cls):
                    pending.append((same, cls, None))
                self._users[first].append((again, cls))
