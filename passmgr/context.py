"""The context in which passes run: levels, pass lists, config and instruments, on a stack per thread."""

import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar
from typing import Any as AnyValue

from passat.passmgr.config import check_config, get_option, list_configs
from passat.passmgr.instruments import Hooks, PassInstrument, defines
from passat.passmgr.options import show_annotation
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.statistics import Statistics

if TYPE_CHECKING:
    from passat.ir.module import IRModule

_M = TypeVar("_M", bound="IRModule")
_UNSET: Final = object()


class PassContext:
    """What passes ask about their surroundings; enter it with `with`. Nothing is inherited from an outer context or another thread.

    * A `Sequential` runs a member where its level is at most `opt_level`. A name in `required_pass` runs at any level, a name in
      `disabled_pass` never does. A pass that is called directly always runs.
    * `config` values are checked against the registered options (`register_option`): AttributeError for an unknown key, None, or a
      wrong type.
    * `statistics` collects what the passes record. It is the context's own and stays after the `with`.

    >>> with PassContext(opt_level=3, disabled_pass=["FuseOps"]) as ctx:
    ...     PassContext.current() is ctx
    True
    >>> PassContext.current().opt_level
    2
    """

    __slots__ = ("__weakref__", "_instruments", "config", "disabled_pass", "hooks", "opt_level", "required_pass", "statistics")

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Iterable[PassInstrument] | None = None,
        config: Mapping[str, AnyValue] | None = None,
    ) -> None:
        if not isinstance(opt_level, int):
            raise TypeError(f"opt_level is an integer, not {opt_level!r}")
        self.opt_level = opt_level
        self.required_pass = _names(required_pass, "required_pass") if required_pass else []
        self.disabled_pass = _names(disabled_pass, "disabled_pass") if disabled_pass else []
        self.config: dict[str, AnyValue] = check_config(config) if config else {}
        self.statistics = Statistics()
        self.hooks: Hooks | None = None
        """What instruments do around passes; None where they do nothing."""
        self._instruments: tuple[PassInstrument, ...] = ()
        if instruments:
            self._install(_instruments(instruments))

    @staticmethod
    def current() -> "PassContext":
        """The innermost entered context of this thread; else the thread's default one (opt_level 2), always the same object."""
        return _THREAD.stack[-1]

    @staticmethod
    def list_configs() -> dict[str, dict[str, AnyValue]]:
        """Every registered config option: `{key: {"type": ..., "default": ..., "doc": ...}}`."""
        return list_configs()

    @property
    def instruments(self) -> tuple[PassInstrument, ...]:
        """The instruments, in the order in which they are called. Empty once one of them failed on entering or leaving."""
        return self._instruments

    def get_config(self, key: str, default: AnyValue = _UNSET) -> AnyValue:
        """The value of an option: as given to this context, else `default`, else the option's own default.

        Raises AttributeError for an unknown key.
        """
        if key in self.config:
            return self.config[key]
        option = get_option(key)
        return option.default if default is _UNSET else default

    def pass_enabled(self, info: PassInfo) -> bool:
        """Whether a Sequential is to run a member here. Being disabled beats being required, and that beats the level."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level

    def record(self, pass_name: str, key: str, amount: float = 1) -> None:
        """Adds to a counter of a pass, for reports: `ctx.record("FoldConstant", "folded", 3)`."""
        self.statistics.record(pass_name, key, amount)

    def remark(self, pass_name: str, text: str) -> None:
        """Keeps a sentence that a pass has to say, for reports."""
        self.statistics.remark(pass_name, text)

    def override_instruments(self, instruments: Iterable[PassInstrument] | None) -> None:
        """Exits the instruments, puts others in their place and enters these. Where one of them raises, the context is left without any."""
        checked = _instruments(instruments or ())
        self._exit_instruments()
        self._install(checked)
        self._enter_instruments()

    def __enter__(self) -> "PassContext":
        if self._instruments:
            self._enter_instruments()
        _THREAD.stack.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        stack = _THREAD.stack
        if len(stack) < 2 or stack[-1] is not self:
            raise RuntimeError("a PassContext is left that is not the innermost one entered in this thread")
        stack.pop()
        if self._instruments:
            self._exit_instruments()

    def run_pass(self, info: PassInfo, run: Callable[[_M, "PassContext"], _M], mod: _M) -> _M:
        """Runs the body of a pass with the instruments around it; returns the module itself where one of them vetoes the pass."""
        hooks = self.hooks
        if hooks is None:
            return run(mod, self)
        if hooks.should and info.name not in self.required_pass:
            vetoed = False
            for should in hooks.should:
                answer = should(mod, info)
                if not answer:
                    if answer is None:
                        raise TypeError(f"{should.__qualname__} returned None for the pass {info.name}; it must return True or False")
                    vetoed = True
            if vetoed:
                return mod
        begun, ended = 0, -1
        try:
            for before in hooks.before:
                before(mod, info)
                begun += 1
            result = run(mod, self)
            if self.hooks is not hooks:  # the pass has changed the instruments: the new ones hear of its end
                hooks = self.hooks or Hooks(())
                begun = len(hooks.before)
            for after in hooks.after:
                ended += 1
                after(result, info)
        except BaseException as error:
            hooks.fail(mod, info, error, begun, ended)
            raise
        return result

    def _install(self, instruments: tuple[PassInstrument, ...]) -> None:
        self._instruments = instruments
        hooks = Hooks(instruments)
        self.hooks = hooks if hooks.should or hooks.before or hooks.after or hooks.failed else None

    def _enter_instruments(self) -> None:
        entered: list[PassInstrument] = []
        try:
            for instrument in self._instruments:
                if defines(instrument, "enter_pass_ctx"):
                    instrument.enter_pass_ctx()
                entered.append(instrument)
        except BaseException as error:
            if self.get_config("passmgr.failed_enter") == "v0.8":
                self._install(())
            else:
                entered.reverse()
            for instrument in entered:
                try:
                    instrument.exit_pass_ctx()
                except Exception as second:  # the first exception is the one to know; and the others must be exited all the same
                    error.add_note(f"and {instrument.name}.exit_pass_ctx raised {type(second).__name__}: {second}")
            self._install(())
            raise

    def _exit_instruments(self) -> None:
        try:
            for instrument in self._instruments:
                instrument.exit_pass_ctx()
        except BaseException:
            self._install(())
            raise

    def __repr__(self) -> str:
        return (
            f"Pass context information: \n\topt_level: {self.opt_level}\n\trequired passes: {_show(self.required_pass)}\n"
            f"\tdisabled passes: {_show(self.disabled_pass)}\n\tinstruments: {list(self._instruments)!r}\n\tconfig: {_show(self.config)}"
        )


class _Thread(threading.local):
    """The contexts entered in a thread, innermost last, above the thread's default one."""

    def __init__(self) -> None:
        self.stack = [PassContext()]


_THREAD: Final = _Thread()


def _names(names: Iterable[str], what: str) -> list[str]:
    if isinstance(names, str):
        raise TypeError(f"{what} is expected to be the type of list/tuple/set, not the one string {names!r}")
    names = list(names)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{what} is expected to hold names of passes; {show_annotation(type(name))} {name!r} is none")
    return names


def _instruments(instruments: Iterable[PassInstrument]) -> tuple[PassInstrument, ...]:
    instruments = tuple(instruments)
    for instrument in instruments:
        if not isinstance(instrument, PassInstrument):
            hint = f"; did you mean {instrument.__name__}()?" if isinstance(instrument, type) else ""
            raise TypeError(f"instruments must be a list of PassInstrument objects; {instrument!r} is none{hint}")
    return instruments


def _show(value: AnyValue) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_show, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_show(key)}: {_show(item)}' for key, item in value.items())}}}"
    return repr(value)
