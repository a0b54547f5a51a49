"""`tvm.relay.backend.Executor`: names the executor that a module is built for."""

from typing import ClassVar

from passat.relay.backend.registered import Kinds, Registered

__all__ = ["Executor"]


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
