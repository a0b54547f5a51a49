"""Checks after every pass: `VerifyEach`, is the module well-formed and well-typed, and if not, which pass did it? And that no pass
changes the module that it gets, for `PassContext(config={"testing.immutable_module": True})`."""

import threading
from typing import Final

from passat.ir.analysis import Flaw, binding_flaws
from passat.ir.diagnostics import Diagnostic, DiagnosticError
from passat.ir.expr import BaseFunc, GlobalVar
from passat.ir.module import IRModule
from passat.ir.passat_error import PassatError
from passat.ir.type_check import type_flaws
from passat.passmgr.instruments import PassInstrument
from passat.passmgr.options import register_option
from passat.passmgr.pass_info import PassInfo

IMMUTABLE_MODULE: Final = "testing.immutable_module"
register_option(IMMUTABLE_MODULE, bool, False, "Whether to check that no pass changes the module that it gets, by its structural hash.")


class ModuleChangedError(PassatError, RuntimeError):
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


FLAWS_SHOWN: Final = 5
"""Flaws that an error shows; the others are counted."""


class BrokenModuleError(DiagnosticError):
    """A module that is not well-formed or not well-typed. The message names the pass, the functions, and the expressions.

    `pass_name` is the pass, `flaws` is all that is wrong; `diagnostics` has the first of it.
    """

    def __init__(self, sentence: str, pass_name: str = "", flaws: tuple[Flaw, ...] = ()) -> None:
        super().__init__(sentence, [Diagnostic.at(flaw.expr, str(flaw)) for flaw in flaws[:FLAWS_SHOWN]])
        self.pass_name = pass_name
        self.flaws = flaws

    def __str__(self) -> str:
        lines = [str(self.args[0])]
        for i, diagnostic in enumerate(self.diagnostics):
            lines += [diagnostic.sentence] if i else []  # the message has the first
            lines += (f"    {line}" for line in diagnostic.excerpt)
        if len(self.flaws) > FLAWS_SHOWN:
            lines.append(f"... and {len(self.flaws) - FLAWS_SHOWN} more")
        return "\n".join(lines)


def module_flaws(mod: IRModule, types: bool = True) -> tuple[Flaw, ...]:
    """What is wrong with a module: with its variables and calls or, where nothing is and `types` are asked about, with its types."""
    flaws = tuple(binding_flaws(mod))
    return flaws or (tuple(type_flaws(mod)) if types else ())  # types of what is bound wrongly mean nothing


class _Sound(threading.local):
    """The functions that were found sound last."""

    def __init__(self) -> None:
        self.functions: dict[GlobalVar, BaseFunc] | None = None


class VerifyEach(PassInstrument):
    """Checks the module after every pass that changed it, and before the first: variables are bound once and used in scope, called
    functions exist (`passat.ir.analysis.well_formed`), types do not contradict each other (`passat.ir.type_check.type_flaws`).

    Raises BrokenModuleError that names the pass, the function and the expression. Nothing is written to the module; with `types=False`
    types are not looked at.
    """

    def __init__(self, types: bool = True) -> None:
        self._types = types
        self._sound = _Sound()

    def exit_pass_ctx(self) -> None:
        """Forgets the module."""
        self._sound.functions = None

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Checks the module that the pass gets, unless it was checked as the result of the one before."""
        self._check(mod, info, "the module that the pass {} gets is broken")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Checks the module that the pass returned."""
        self._check(mod, info, "the pass {} broke the module")

    def _check(self, mod: IRModule, info: PassInfo, accusation: str) -> None:
        if mod.functions == self._sound.functions:
            return
        flaws = module_flaws(mod, self._types)
        if flaws:
            raise BrokenModuleError(f"{accusation.format(info.name)}: {flaws[0]}", info.name, flaws)
        self._sound.functions = dict(mod.functions)
