"""`tvm.relay.backend.Runtime`: names the runtime that a module is built for."""

from typing import ClassVar

from passat.relay.backend.registered import Kinds, Registered

__all__ = ["Runtime"]


class Runtime(Registered):
    """A runtime by name, with options, which are stored and not used: modules run in this process.

    >>> Runtime("crt", {"system-lib": True})["system-lib"]
    True
    """

    kinds: ClassVar[Kinds] = {"cpp": {"system-lib": (bool, None)}, "crt": {"system-lib": (bool, None)}}
