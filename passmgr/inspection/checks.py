"""Checks after every pass.

* `VerifyEach` checks that the module is well formed and well typed, and names the pass that broke it.
* `ImmutableModuleCheck` checks that no pass modifies its input module, for `PassContext(config={"testing.immutable_module": True})`.
* `KeptFunctionsCheck` checks only which functions the module has before and after, which takes no time.
"""

from typing import Any as AnyValue
from typing import Final

from passat.ir.analysis import Flaw, binding_flaws
from passat.ir.diagnostics import Diagnostic, DiagnosticError
from passat.ir.expr import BaseFunc, GlobalVar
from passat.ir.module import IRModule
from passat.ir.passat_error import PassatError
from passat.ir.type_check import type_flaws
from passat.passmgr.instruments import PassInstrument, RunInstrument, ThreadState
from passat.passmgr.options import register_option
from passat.passmgr.pass_info import PassInfo

IMMUTABLE_MODULE: Final = "testing.immutable_module"
register_option(IMMUTABLE_MODULE, bool, False, "Whether to check that no pass modifies its input module, by its structural hash.")


class ModuleChangedError(PassatError, RuntimeError):
    """A pass modified its input module. `pass_name` is the pass."""

    def __init__(self, message: str, pass_name: str = "") -> None:
        super().__init__(message)
        self.pass_name = pass_name


class _StateCheck(RunInstrument[tuple[IRModule, AnyValue]]):
    """Records the state of the input module of each pass that runs, and compares it after the pass."""

    def _state(self, mod: "IRModule") -> AnyValue:
        raise NotImplementedError

    def _compare(self, given: "IRModule", before: AnyValue, made: "IRModule", info: PassInfo) -> None:
        raise NotImplementedError

    def begin(self, mod: IRModule, info: PassInfo) -> tuple[IRModule, AnyValue]:
        """Records the state of the module."""
        return mod, self._state(mod)

    def end(self, run: tuple[IRModule, AnyValue], mod: IRModule, info: PassInfo, error: BaseException | None) -> None:
        """Compares the input module with the recorded state."""
        if error is None:
            self._compare(*run, mod, info)


class ImmutableModuleCheck(_StateCheck):
    """Compares the structural hash and the attributes of the input module before and after a pass.

    Raises ModuleChangedError, a RuntimeError: `Immutable module has been modified in pass: <name>`. A context with the option
    `testing.immutable_module` adds this check to its instruments.
    """

    def _state(self, mod: "IRModule") -> AnyValue:
        from passat.ir.hashing import structural_hash

        return structural_hash(mod, map_free_vars=True), {key: id(value) for key, value in mod.attrs.items()}

    def _compare(self, given: "IRModule", before: AnyValue, made: "IRModule", info: PassInfo) -> None:
        if self._state(given) != before:
            raise ModuleChangedError(f"Immutable module has been modified in pass: {info.name}", info.name)


class KeptFunctionsCheck(_StateCheck):
    """Checks that the input module of a pass has the same functions after it, and that its result still has `main`. Otherwise a result
    that is the input module would count as unchanged. Restores the functions and raises ModuleChangedError."""

    def _state(self, mod: "IRModule") -> AnyValue:
        return dict(mod.functions)

    def _compare(self, given: "IRModule", before: AnyValue, made: "IRModule", info: PassInfo) -> None:
        if given.functions != before:
            given.functions = before
            raise ModuleChangedError("it modified its input module; change and return a copy, mod.shallow_copy()", info.name)
        if "main" in given and "main" not in made:
            raise ModuleChangedError("it removed the function @main", info.name)


IMMUTABLE_MODULE_CHECK: Final = ImmutableModuleCheck()
"""Shared by all contexts, so that a pass that replaces the instruments of its context is checked too."""


FLAWS_SHOWN: Final = 5
"""Maximum number of flaws in an error message; further ones are counted."""


class BrokenModuleError(DiagnosticError):
    """A module is not well formed or not well typed. The message names the pass, the functions and the expressions.

    `pass_name` is the pass, `flaws` are all flaws; `diagnostics` holds the first ones.
    """

    def __init__(self, sentence: str, pass_name: str = "", flaws: tuple[Flaw, ...] = ()) -> None:
        super().__init__(sentence, [Diagnostic.at(flaw.expr, str(flaw)) for flaw in flaws[:FLAWS_SHOWN]])
        self.pass_name = pass_name
        self.flaws = flaws

    def __str__(self) -> str:
        lines = [str(self.args[0])]
        for i, diagnostic in enumerate(self.diagnostics):
            lines += [diagnostic.sentence] if i else []  # the message includes the first one
            lines += (f"    {line}" for line in diagnostic.excerpt)
        if len(self.flaws) > FLAWS_SHOWN:
            lines.append(f"... and {len(self.flaws) - FLAWS_SHOWN} more")
        return "\n".join(lines)


def module_flaws(mod: IRModule, types: bool = True) -> tuple[Flaw, ...]:
    """Returns the flaws of a module: of its variables and calls or, if there are none and with `types`, of its types."""
    flaws = tuple(binding_flaws(mod))
    return flaws or (tuple(type_flaws(mod)) if types else ())  # types are meaningless where bindings are wrong


class _Sound(ThreadState):
    """The functions that passed the last check."""

    def __init__(self) -> None:
        self.functions: dict[GlobalVar, BaseFunc] | None = None


class VerifyEach(PassInstrument):
    """Checks the module after every pass that changed it, and before the first pass.

    Checks that variables are bound once and used in scope, that called functions exist (`passat.ir.analysis.well_formed`), and that types
    are consistent (`passat.ir.type_check.type_flaws`). Raises BrokenModuleError with the pass, the function and the expression. Does not
    modify the module. With `types=False` it ignores types.
    """

    def __init__(self, types: bool = True) -> None:
        self._types = types
        self._sound = _Sound()

    def exit_pass_ctx(self) -> None:
        """Releases the module."""
        self._sound.functions = None

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Checks the input module of the pass, unless it was checked as the result of the previous pass."""
        self._check(mod, info, "the input module of the pass {} is broken")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Checks the result of the pass."""
        self._check(mod, info, "the pass {} broke the module")

    def _check(self, mod: IRModule, info: PassInfo, accusation: str) -> None:
        if mod.functions == self._sound.functions:
            return
        flaws = module_flaws(mod, self._types)
        if flaws:
            raise BrokenModuleError(f"{accusation.format(info.name)}: {flaws[0]}", info.name, flaws)
        self._sound.functions = dict(mod.functions)
