"""Attributes of calls and functions: an immutable mapping from names to plain values, hashable by content."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any as AnyValue
from typing import Final

from passat.ir.tensor import Tensor
from passat.ir.tir.expr import Const


class Attrs(Mapping[str, AnyValue]):
    """Named attributes in insertion order, readable as a mapping or as fields.

    Values are bool, int, float, str, bytes, None, Tensor, tuples of these, maps, or objects that hash and compare by content. `key` is the
    content in a form that distinguishes 0.0 from -0.0, and 1 from 1.0 and True.

    >>> Attrs(axes=(1, 0)).axes
    (1, 0)
    >>> Attrs(a=0.0) == Attrs(a=-0.0)
    False
    """

    __slots__ = ("_hash", "_items", "_key")

    def __init__(self, items: Mapping[str, AnyValue] | None = None, /, **named: AnyValue) -> None:
        values = {**items, **named} if items else named
        self._items = {
            name: tuple(value) if type(value) is list else value.value if isinstance(value, Const) else value
            for name, value in values.items()
        }
        self._key: tuple[object, ...] | None = None
        self._hash: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The content sorted by name, for comparing and hashing."""
        if self._key is None:
            self._key = tuple((name, _exact(self._items[name])) for name in sorted(self._items))
        return self._key

    def __getitem__(self, name: str) -> AnyValue:
        return self._items[name]

    def __getattr__(self, name: str) -> AnyValue:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._items[name]
        except KeyError:
            raise AttributeError(f"no attribute {name!r}; there are: {', '.join(self._items) or 'none'}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    # Those of Mapping call __getitem__ for each name, and raise a KeyError for a missing one.

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def get(self, name: str, default: AnyValue = None) -> AnyValue:
        """The value of an attribute; the default if there is none."""
        return self._items.get(name, default)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._items.keys()

    def values(self) -> ValuesView[AnyValue]:
        """The values."""
        return self._items.values()

    def items(self) -> ItemsView[str, AnyValue]:
        """The names with their values."""
        return self._items.items()

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Attrs) and self.key == other.key)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.key)
        return self._hash

    def __reduce__(self) -> tuple[type, tuple[dict[str, AnyValue]]]:
        return (Attrs, (self._items,))

    def __repr__(self) -> str:
        return f"Attrs({', '.join(f'{name}={value!r}' for name, value in self._items.items())})"


EMPTY_ATTRS: Final = Attrs()


def _exact(value: AnyValue) -> object:
    kind = type(value)
    if kind is float:
        return ("float", value.hex())
    if kind is tuple or kind is list:
        return tuple(map(_exact, value))
    if kind is bool:
        return ("bool", value)
    if isinstance(value, Tensor):
        return value.content_key()
    if kind is dict:
        return ("map", frozenset((_exact(name), _exact(part)) for name, part in value.items()))
    return value
