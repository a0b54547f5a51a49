"""The base of the nodes of the loop IR: a list of fields, which walks, comparison, printing and rebuilding share."""

from typing import Any as AnyValue
from typing import ClassVar, Final, Self

_NAMED: Final = frozenset(
    (
        *("annotations", "attr_key", "buffer", "buffer_var", "combiner", "dtype", "kind", "lanes", "name", "node", "op", "producer"),
        *("storage_scope", "thread_binding", "type_annotation", "value_index"),
    )
)


class Node:
    """An immutable node. `FIELDS` names what its constructor takes, in that order; `DEFINES` the fields whose variables it binds.

    Nodes are compared by identity; `passat.ir.tir.equality` compares them by structure.
    """

    __slots__ = ()
    FIELDS: ClassVar[tuple[str, ...]] = ()
    DEFINES: ClassVar[frozenset[str]] = frozenset()
    WALKED: ClassVar[tuple[str, ...]] = ()
    """The fields whose expressions and statements belong to the node; not the variables and buffers that it names."""

    def __init_subclass__(cls) -> None:
        if "WALKED" not in cls.__dict__:
            cls.WALKED = tuple(name for name in cls.FIELDS if name not in cls.DEFINES and name not in _NAMED)

    def same_as(self, other: object) -> bool:
        """Whether this is the other node."""
        return self is other

    def values(self) -> tuple[AnyValue, ...]:
        """The values of the fields."""
        return tuple(getattr(self, name) for name in self.FIELDS)

    def rebuilt(self, values: tuple[AnyValue, ...]) -> Self:
        """A node of the same class with other values of its fields."""
        return type(self)(*values)

    def with_fields(self, **changes: AnyValue) -> Self:
        """A node of the same class with some fields changed."""
        return self.rebuilt(tuple(changes[name] if name in changes else getattr(self, name) for name in self.FIELDS))

    def __str__(self) -> str:
        from passat.ir.tir.printer import show

        return show(self)

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type, tuple[AnyValue, ...]]:
        return (type(self), self.values())
