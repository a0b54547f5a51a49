"""The context in which passes run: levels, pass lists, config and instruments, on a stack per thread and per asyncio task."""

import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn, ParamSpec, Protocol, Self, TypeAlias, TypeVar
from typing import Any as AnyValue

from passat.passmgr.inspection.checks import IMMUTABLE_MODULE, IMMUTABLE_MODULE_CHECK
from passat.passmgr.instruments import Hooks, PassInstrument, defines
from passat.passmgr.options import check_config, get_option, list_configs
from passat.passmgr.pass_info import PassInfo, Statistics, names_in

if TYPE_CHECKING:
    from passat.ir.module import IRModule

_M = TypeVar("_M", bound="IRModule")
_R = TypeVar("_R")
_P = ParamSpec("_P")
_UNSET: Final = object()


class Diagnostics(Protocol):
    """The interface of `diag_ctx`, implemented by `passat.ir.diagnostics.DiagnosticContext`."""

    def render(self) -> object:
        """Reports the diagnostics collected since the last call; raises if there are errors among them."""


class _NotGiven(int):
    """The default level: equal to 2, but distinguishable from an explicit 2."""


_LEVEL: Final[int] = _NotGiven(2)


class PassContext:
    """The settings under which passes run. Enter it with `with`. Nothing is inherited from an outer context or another thread unless
    requested.

    * A `Sequential` runs a member if its level is at most `opt_level`. A name in `required_pass` runs at any level, and a name in
      `disabled_pass` never does. A pass that is called directly always runs.
    * `config` values are checked against the registered options (`register_option`): AttributeError for an unknown key, None, or a wrong
      type.
    * `statistics` collects what the passes record. It belongs to the context and remains available after the `with` block.
    * `diag_ctx` collects the diagnostics of passes. It is rendered after the body of each module or function pass, which raises if there
      are errors. A pass may replace it until the end of the pass.
    * `inherit=True` takes settings that are not given from the current context: the level, both lists, instruments, `diag_ctx`, and each
      key of `config`. Inherited instruments also run around the passes here, but only their own context enters and exits them.
    * `run` and `wrap` carry the context into another thread.

    >>> with PassContext(opt_level=3, disabled_pass=["FuseOps"]) as ctx:
    ...     PassContext.current() is ctx
    True
    >>> PassContext.current().opt_level
    2
    """

    __slots__ = (
        "__weakref__",
        "_instruments",
        "_own",
        "_switching",
        "config",
        "diag_ctx",
        "disabled_pass",
        "hooks",
        "opt_level",
        "required_pass",
        "statistics",
    )

    def __init__(
        self,
        opt_level: int = _LEVEL,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Iterable[PassInstrument] | None = None,
        config: Mapping[str, AnyValue] | None = None,
        *,
        diag_ctx: Diagnostics | None = None,
        inherit: bool = False,
    ) -> None:
        if not isinstance(opt_level, int):
            raise TypeError(f"opt_level must be an integer, not {opt_level!r}")
        if diag_ctx is not None and not callable(getattr(diag_ctx, "render", None)):
            raise TypeError(f"diag_ctx must have a method render(); {diag_ctx!r} has none")
        self.opt_level = 2 if opt_level is _LEVEL else opt_level
        self.required_pass = names_in(required_pass, "required_pass") if required_pass else []
        self.disabled_pass = names_in(disabled_pass, "disabled_pass") if disabled_pass else []
        self.config: dict[str, AnyValue] = check_config(config) if config else {}
        self.statistics = Statistics()
        self.diag_ctx = diag_ctx
        self.hooks: Hooks | None = None
        """The hooks of the instruments; None if there are none."""
        self._instruments: tuple[PassInstrument, ...] = ()
        self._own: tuple[PassInstrument, ...] = ()
        """The instruments that this context enters and exits: all except inherited ones."""
        self._switching = False
        """Whether instruments are being entered or exited."""
        if instruments:
            self._install(_instruments(instruments))
        if inherit:
            outer = PassContext.current()
            if opt_level is _LEVEL:
                self.opt_level = outer.opt_level
            if required_pass is None:
                self.required_pass = list(outer.required_pass)
            if disabled_pass is None:
                self.disabled_pass = list(outer.disabled_pass)
            if instruments is None:
                self._instruments, self.hooks = outer._instruments, outer.hooks
            self.config = {**outer.config, **self.config}
            self.diag_ctx = outer.diag_ctx if diag_ctx is None else diag_ctx
        if self.config and IMMUTABLE_MODULE in self.config:
            self.hooks = self._make_hooks(self._instruments)

    def __init_subclass__(cls) -> None:
        """Raises TypeError for a subclass that overrides `pass_enabled`: plans are cached by level and lists only."""
        if cls.pass_enabled is not PassContext.pass_enabled:
            raise TypeError(f"{cls.__name__} overrides pass_enabled, which plans do not call; veto passes with an instrument's should_run")

    @staticmethod
    def current() -> "PassContext":
        """Returns the innermost entered context of this thread or asyncio task, or else the thread's default context (opt_level 2).

        The default context of a thread is always the same object.
        """
        entered = _get_entered()
        return _THREAD.default if entered is None else entered[0]

    @staticmethod
    def entered() -> "PassContext | None":
        """Returns the innermost entered context of this thread or asyncio task; None if `current` is the thread's default context."""
        entered = _get_entered()
        return None if entered is None else entered[0]

    @staticmethod
    def list_configs() -> dict[str, dict[str, AnyValue]]:
        """Returns all registered config options: `{key: {"type": ..., "default": ..., "doc": ...}}`."""
        return list_configs()

    def run(self, function: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Calls a function, in any thread, with this context as the current one. Does not enter or exit its instruments.

        Instruments and passes may then be called from several threads concurrently.

        >>> import threading
        >>> ctx, seen = PassContext(opt_level=3), []
        >>> thread = threading.Thread(target=ctx.wrap(lambda: seen.append(PassContext.current())))
        >>> thread.start(); thread.join()
        >>> seen == [ctx]
        True
        """
        outer = _get_entered()
        _set_entered((self, outer))
        try:
            return function(*args, **kwargs)
        finally:
            _set_entered(outer)

    def wrap(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Wraps a function to run with this context as the current one (`run`), for a thread or a thread pool."""

        @functools.wraps(function)
        def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            return self.run(function, *args, **kwargs)

        return wrapped

    def inside(
        self, opt_level: int | None = None, config: Mapping[str, AnyValue] | None = None, instruments: Iterable[PassInstrument] = ()
    ) -> "PassContext":
        """Creates a context for a part of the work in this one, with separate statistics. Settings default to those of this context; keys
        of `config` are merged.

        The instruments of this context also run there, after the new ones, but only the new ones are entered and exited.
        """
        given = _instruments(instruments)
        inner = self.with_instruments()
        if opt_level is not None:
            inner.opt_level = PassContext(opt_level).opt_level
        if config:
            inner.config.update(check_config(config))
        inner._own, inner._instruments = given, (*given, *self._instruments)
        inner.hooks = inner._make_hooks(inner._instruments)
        return inner

    def with_instruments(self, instruments: Iterable[PassInstrument] = ()) -> "PassContext":
        """Creates a context with the same settings but other instruments and separate statistics, to repeat a run."""
        return PassContext(
            self.opt_level,
            self.required_pass,
            self.disabled_pass,
            instruments,
            self.config,
            diag_ctx=self.diag_ctx,
        )

    @property
    def instruments(self) -> tuple[PassInstrument, ...]:
        """The instruments in call order. Empty after one of them failed on entering or exiting."""
        return self._instruments

    def get_config(self, key: str, default: AnyValue = _UNSET) -> AnyValue:
        """Returns the value of an option: as given to this context, else `default`, else the option's own default.

        Raises AttributeError for an unknown key.
        """
        if key in self.config:
            return self.config[key]
        option = get_option(key)
        return option.default if default is _UNSET else default

    def pass_enabled(self, info: PassInfo) -> bool:
        """Whether a Sequential should run a member. `disabled_pass` takes precedence over `required_pass`, and that over the level."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level

    def record(self, pass_name: str, key: str, amount: float = 1) -> None:
        """Adds to a counter of a pass, for reports: `ctx.record("FoldConstant", "merged", 3)`.

        Raises UnknownCounterError if the pass declares counters (PassInfo) but not this one.
        """
        self.statistics.record(pass_name, key, amount)

    def remark(self, pass_name: str, text: str) -> None:
        """Adds a remark of a pass to the report."""
        self.statistics.remark(pass_name, text)

    def override_instruments(self, instruments: Iterable[PassInstrument] | None) -> None:
        """Exits the instruments, replaces them, and enters the new ones. If one of them raises, the context has no instruments afterward.

        Raises RuntimeError while instruments are being entered or exited.
        """
        checked = _instruments(instruments or ())
        if self._switching:
            raise RuntimeError("the instruments of a PassContext cannot be replaced while they are being entered or exited")
        self._exit_instruments()
        self._install(checked)
        self._enter_instruments()

    def __enter__(self) -> Self:
        if self._own:
            self._enter_instruments()
        _set_entered((self, _get_entered()))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        entered = _get_entered()
        if entered is None or entered[0] is not self:
            self._leave_out_of_order(entered)
        else:
            _set_entered(entered[1])
            if self._own:
                self._exit_instruments()

    def run_pass(self, info: PassInfo, run: Callable[[_M, "PassContext"], _M], mod: _M) -> _M:
        """Runs the body of a pass with the instruments around it. Returns the same module if an instrument vetoes the pass."""
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
            if self.hooks is not hooks:  # the pass has replaced the instruments; notify the new ones of its end
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
        self._instruments = self._own = instruments
        self.hooks = self._make_hooks(instruments)

    def _make_hooks(self, instruments: tuple[PassInstrument, ...]) -> Hooks | None:
        if self.config.get(IMMUTABLE_MODULE):
            instruments = (*instruments, IMMUTABLE_MODULE_CHECK)
        hooks = Hooks(instruments)
        return hooks if hooks.should or hooks.before or hooks.after or hooks.failed else None

    def _leave_out_of_order(self, entered: "_Entered") -> NoReturn:
        """Exits this context only, so that it does not stay current forever, and raises RuntimeError."""
        inner: list[PassContext] = []
        while entered is not None and entered[0] is not self:
            context, entered = entered
            inner.append(context)
        if entered is None:
            raise RuntimeError("exited a PassContext that is not entered in this thread or asyncio task")
        rest = entered[1]
        for context in reversed(inner):
            rest = context, rest
        _set_entered(rest)
        try:
            self._exit_instruments()
        finally:
            raise RuntimeError(
                "exited a PassContext that is not the innermost one entered in this thread; do not yield inside it in a generator"
            )

    def _enter_instruments(self) -> None:
        entered: list[PassInstrument] = []
        self._switching = True
        try:
            for instrument in self._own:
                if defines(instrument, "enter_pass_ctx"):
                    instrument.enter_pass_ctx()
                entered.append(instrument)
        except BaseException as error:
            try:
                self._exit_after(error, entered)
            finally:
                self._install(())
            raise
        finally:
            self._switching = False

    def _exit_after(self, error: BaseException, entered: list[PassInstrument]) -> None:
        """Exits all instruments that were entered before another one raised, in reverse order. Their exceptions become notes.

        Exceptions that do not derive from Exception, such as KeyboardInterrupt, are raised at the end.
        """
        interrupt: BaseException | None = None
        for instrument in reversed(entered):
            try:
                instrument.exit_pass_ctx()
            except Exception as second:  # report the first exception, and still exit the other instruments
                error.add_note(f"and {instrument.name}.exit_pass_ctx raised {type(second).__name__}: {second}")
            except BaseException as second:
                interrupt = interrupt or second
        if interrupt is not None:
            raise interrupt

    def _exit_instruments(self) -> None:
        self._switching = True
        try:
            for instrument in self._own:
                instrument.exit_pass_ctx()
        except BaseException:
            self._install(())
            raise
        finally:
            self._switching = False

    def __getstate__(self) -> dict[str, AnyValue]:
        """A copy has its own lists, config and statistics. A shallow copy shares the instruments."""
        return {
            "opt_level": self.opt_level,
            "required_pass": list(self.required_pass),
            "disabled_pass": list(self.disabled_pass),
            "config": dict(self.config),
            "statistics": self.statistics.copy(),
            "diag_ctx": self.diag_ctx,
            "_instruments": self._instruments,
            "_own": self._own,
            **getattr(self, "__dict__", {}),
        }

    def __setstate__(self, state: Mapping[str, AnyValue]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._switching = False
        self.hooks = self._make_hooks(self._instruments)

    def __repr__(self) -> str:
        return (
            f"Pass context information: \n\topt_level: {self.opt_level}\n\trequired passes: {_show(self.required_pass)}\n"
            f"\tdisabled passes: {_show(self.disabled_pass)}\n\tinstruments: {list(self._instruments)!r}\n\tconfig: {_show(self.config)}"
        )


_Entered: TypeAlias = "tuple[PassContext, _Entered] | None"

_ENTERED: Final[ContextVar[_Entered]] = ContextVar("passat_entered_contexts", default=None)
"""The entered contexts, innermost first. A thread starts with none, an asyncio task with those of its creator, so coroutines that
interleave in one thread do not see the contexts of the others."""
_get_entered, _set_entered = _ENTERED.get, _ENTERED.set  # cached lookups


def entered_contexts() -> "_Entered":
    """The contexts that are entered, innermost first, for `check_entered`."""
    return _get_entered()


def check_entered(before: "_Entered", name: str) -> None:
    """Raises RuntimeError that names a pass after which other contexts are entered than before, and enters these again."""
    after = _get_entered()
    if after is before:
        return
    inner = after
    while inner is not None and inner is not before:
        inner = inner[1]
    _set_entered(before)
    what = "left the PassContext that it ran in" if inner is not before else "entered a PassContext that it did not leave"
    raise RuntimeError(f"the pass {name} {what}; use `with` inside of a pass")


class _Thread(threading.local):
    """The default context of a thread."""

    def __init__(self) -> None:
        self.default = PassContext()


_THREAD: Final = _Thread()


def _instruments(instruments: Iterable[PassInstrument]) -> tuple[PassInstrument, ...]:
    if not isinstance(instruments, Iterable):
        raise TypeError(f"instruments must be a list of PassInstrument objects, not {instruments!r}")
    instruments = tuple(instruments)
    for instrument in instruments:
        if not isinstance(instrument, PassInstrument):
            hint = f"; did you mean {instrument.__name__}()?" if isinstance(instrument, type) else ""
            raise TypeError(f"instruments must be a list of PassInstrument objects; {instrument!r} is not one{hint}")
    return instruments


def _show(value: AnyValue) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_show, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_show(key)}: {_show(item)}' for key, item in value.items())}}}"
    return repr(value)
