"""The check that no pass changes the module that it gets, for `PassContext(config={"testing.immutable_module": True})`."""

import threading
from typing import TYPE_CHECKING, Final

from passat.passmgr.config import register_option
from passat.passmgr.instruments import PassInstrument
from passat.passmgr.pass_info import PassInfo

if TYPE_CHECKING:
    from passat.ir.module import IRModule

IMMUTABLE_MODULE: Final = "testing.immutable_module"
register_option(IMMUTABLE_MODULE, bool, False, "Whether to check that no pass changes the module that it gets, by its structural hash.")


class ModuleChangedError(RuntimeError):
    """A pass changed the module that it got. `pass_name` is the pass."""

    def __init__(self, message: str, pass_name: str = "") -> None:
        super().__init__(message)
        self.pass_name = pass_name


class _Running(threading.local):
    def __init__(self) -> None:
        self.modules: list[tuple[IRModule, object]] = []


class ImmutableModuleCheck(PassInstrument):
    """Compares the structural hash and the attributes of the module before a pass with those after it.

    Raises ModuleChangedError, a RuntimeError, `Immutable module has been modified in pass: <name>`. A context whose option
    `testing.immutable_module` is set when it is made has it beside its instruments.
    """

    def __init__(self) -> None:
        self._running = _Running()

    def run_before_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Remembers the state of the module."""
        self._running.modules.append((mod, _state(mod)))

    def run_after_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Compares the module that the pass got with that."""
        if self._running.modules:  # empty where the pass runs in a context that came to the check meanwhile
            given, before = self._running.modules.pop()
            if _state(given) != before:
                raise ModuleChangedError(f"Immutable module has been modified in pass: {info.name}", info.name)

    def pass_failed(self, mod: "IRModule", info: PassInfo, error: BaseException) -> None:
        """Forgets the module."""
        if self._running.modules:
            self._running.modules.pop()


def _state(mod: "IRModule") -> tuple[int, dict[str, int]]:
    from passat.ir.hashing import structural_hash

    return structural_hash(mod, map_free_vars=True), {key: id(value) for key, value in mod.attrs.items()}


IMMUTABLE_MODULE_CHECK: Final = ImmutableModuleCheck()
"""The one of all contexts: so a pass that replaces the instruments of its context is checked all the same."""
