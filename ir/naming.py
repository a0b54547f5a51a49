"""Unique names: the wanted names if free, otherwise fresh ones."""

from collections.abc import Iterable


class Names:
    """The names in a scope, such as those of all values in an ONNX model and its subgraphs, or of the variables of a function.

    >>> names = Names(["x"])
    >>> names.take("y"), names.take("x"), names.take("x")
    ('y', 'x_1', 'x_2')
    """

    __slots__ = ("_last", "used")

    def __init__(self, used: Iterable[str] = ()) -> None:
        self.used = set(used)
        self._last: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """Returns the wanted name if free, otherwise a name derived from it."""
        used = self.used
        if wanted and wanted not in used:
            used.add(wanted)
            return wanted
        base = wanted or "value"
        number = self._last.get(base, 0)
        name = base
        while name in used:
            number += 1
            name = f"{base}_{number}"
        self._last[base] = number
        used.add(name)
        return name
