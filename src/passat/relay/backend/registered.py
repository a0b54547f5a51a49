"""`tvm.relay.backend.Executor` and `Runtime`: the executor and the runtime that a module is built for, by name, with typed options."""

from collections.abc import Mapping
from typing import Any as AnyValue
from typing import ClassVar, TypeAlias

from passat.ir.passat_error import PassatError

Kinds: TypeAlias = Mapping[str, Mapping[str, tuple[type, AnyValue]]]
"""Names, with the types and the defaults of their options."""
_TYPES = {bool: "runtime.BoxBool", int: "runtime.BoxInt", str: "runtime.String"}
"""TVM's names of the types of options."""


class RegisteredError(PassatError, ValueError, RuntimeError):
    """A name or an option that is not known, or an option of another type."""


class Registered:
    """A description by name, with options. Raises RegisteredError for unknown names and options, and options of other types."""

    kinds: ClassVar[Kinds] = {}
    """The known names, with the types and the defaults of their options."""

    def __init__(self, name: str, options: Mapping[str, AnyValue] | None = None) -> None:
        self.name = name
        known = self._options(name)
        self.options = {option: default for option, (_, default) in known.items() if default is not None}
        for option, value in (options or {}).items():
            if option not in known:
                raise RegisteredError(f'Attribute "{option}" is not available on this {type(self).__name__}; known: {", ".join(known)}')
            wanted = known[option][0]
            if type(value) is not wanted:
                found = _TYPES.get(type(value), type(value).__name__)
                raise RegisteredError(f'Attribute "{option}" should have type "{_TYPES[wanted]}" but instead found "{found}"')
            self.options[option] = value

    @classmethod
    def _options(cls, name: str) -> Mapping[str, tuple[type, AnyValue]]:
        if name not in cls.kinds:
            raise RegisteredError(f'{cls.__name__} "{name}" is not defined; known: {", ".join(cls.kinds)}')
        return cls.kinds[name]

    @classmethod
    def list_registered(cls) -> list[str]:
        """The known names."""
        return list(cls.kinds)

    @classmethod
    def list_registered_options(cls, name: str) -> dict[str, str]:
        """The options of a name, with TVM's names of their types."""
        return {option: _TYPES[wanted] for option, (wanted, _) in cls._options(str(name)).items()}

    def __getitem__(self, option: str) -> AnyValue:
        return self.options[option]

    def __contains__(self, option: str) -> bool:
        return option in self.options

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Registered) and (self.name, self.options) == (other.name, other.options)

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.options!r})"


class Executor(Registered):
    """An executor by name, with options.

    `relay.build` takes `graph` and `vm`; the options are stored and not used, and `aot` is only a name.

    >>> Executor("graph").name, Executor("graph")["link-params"]
    ('graph', False)
    """

    kinds: ClassVar[Kinds] = {
        "graph": {"link-params": (bool, False)},
        "vm": {},
        "aot": {
            "link-params": (bool, True),
            "unpacked-api": (bool, None),
            "interface-api": (str, None),
            "workspace-byte-alignment": (int, None),
            "constant-byte-alignment": (int, None),
        },
    }


class Runtime(Registered):
    """A runtime by name, with options, which are stored and not used: modules run in this process.

    >>> Runtime("crt", {"system-lib": True})["system-lib"]
    True
    """

    kinds: ClassVar[Kinds] = {"cpp": {"system-lib": (bool, None)}, "crt": {"system-lib": (bool, None)}}
