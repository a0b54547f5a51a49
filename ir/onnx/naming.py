"""Names for what is written: those of the source where they are free, fresh ones otherwise."""

from collections.abc import Iterable


class Names:
    """The names of values of a whole model, subgraphs included: no two values share one, as ONNX's scoping rules need.

    >>> names = Names(["x"])
    >>> names.take("y"), names.take("x"), names.take("x")
    ('y', 'x_1', 'x_2')
    """

    __slots__ = ("_last", "used")

    def __init__(self, used: Iterable[str] = ()) -> None:
        self.used = set(used)
        self._last: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """The wanted name where it is free, else one made from it."""
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
