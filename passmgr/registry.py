"""The registry: passes by name, with their options and documentation."""

import contextlib
import difflib
import functools
import importlib.metadata
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, overload

from passat.ir.passat_error import PassatError
from passat.passmgr.options import add_option_source, convert, given_options, name_hint, parameters, without_defaults
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import Pass

Factory = Callable[..., Pass]
_F = TypeVar("_F", bound=Factory | Pass)

PREFIXES: Final = ("transform.", "relay._transform.", "relax.transform.", "tir.transform.")
"""Where a name without a prefix is looked for, in this order, as in TVM."""


class UnknownPassError(PassatError, LookupError, RuntimeError):
    """A name under which no pass is registered. The message gives the nearest names. (A RuntimeError too, which is what TVMError is.)"""

    exit_code = 2


class PluginError(PassatError, ImportError):
    """A source of passes, named by an installed package, that cannot be imported, or a registered pass that cannot be made."""

    exit_code = 1


class PassOptionError(PassatError, TypeError):
    """An option that a pass does not have, that it needs, or whose value does not fit. `option` is its name."""

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option


@dataclass(frozen=True)
class PassEntry:
    """A registered pass: the full name it has in the registry and what makes it."""

    key: str
    factory: Factory

    @property
    def name(self) -> str:
        """The name without its prefix, which is how users write it."""
        return next((self.key.removeprefix(prefix) for prefix in PREFIXES if self.key.startswith(prefix)), self.key)

    @property
    def doc(self) -> str:
        """The documentation of the pass."""
        return inspect.getdoc(self.factory) or ""

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options of the pass: name, annotation and default, as parameters."""
        return parameters(self.factory)

    @property
    def info(self) -> PassInfo | None:
        """The data of the pass with default options; None where it has options without a default."""
        if any(option.default is option.empty for option in self.options.values()):
            return None
        return self.make({}).info

    def make(self, options: Mapping[str, object]) -> Pass:
        """The pass with these options. Raises PassOptionError."""
        known = self.options
        values = {}
        for name, value in options.items():
            if name not in known:
                raise PassOptionError(f"the pass {self.name} has no option {name!r}; {name_hint(name, known)}", name)
            try:
                values[name] = convert(value, known[name].annotation)
            except (TypeError, AttributeError) as error:
                raise PassOptionError(f"option {name} of the pass {self.name}: {error}", name) from None
        missing = [name for name, option in known.items() if option.default is option.empty and name not in values]
        if missing:
            raise PassOptionError(f"the pass {self.name} needs the option {missing[0]}")
        made = self.factory(**values)
        if not isinstance(made, Pass):
            raise TypeError(f"the factory of the pass {self.name} must return a Pass, it returned {made!r}")
        return made


def _load_installed() -> None:
    """Imports the modules that installed packages, Passat itself among them, name as sources of passes."""
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:
            package = f" of {entry.dist.name}" if entry.dist else ""
            reason = f"{type(error).__name__}: {error}"
            raise PluginError(f"the plug-in {entry.value}{package} cannot be loaded, repair or uninstall it: {reason}") from error


ENTRY_POINTS: Final = "passat.passes"
"""Modules under this group of entry points register passes when they are imported; they are imported when a name is first looked for."""

_ENTRIES: dict[str, PassEntry] = {}
_SOURCES: list[Callable[[], object]] = [_load_installed]
_VERSION = [0]


@overload
def register_pass(name: str, factory: _F, *, override: bool = False) -> _F: ...
@overload
def register_pass(name: str, factory: None = None, *, override: bool = False) -> Callable[[_F], _F]: ...
def register_pass(name: str, factory: _F | None = None, *, override: bool = False) -> _F | Callable[[_F], _F]:
    """Registers a pass under a name: a class or a function that makes it, whose parameters are the options, or the pass itself.

    A decorator where `factory` is left out. A name that holds no `transform.` gets that prefix. Raises ValueError for a name that is
    taken, unless `override`.
    """

    def register(factory: _F) -> _F:
        key = name if "transform." in name else PREFIXES[0] + name
        if key in _ENTRIES and not override and key not in _REPLACEABLE:
            raise ValueError(f"a pass is registered already under the name {key!r}; pass override=True to replace it")
        registered = factory
        if isinstance(factory, Pass):
            _ENTRIES[key] = PassEntry(key, _always(factory))
        else:
            if not isinstance(factory, type):
                registered = _recording(factory, PassEntry(key, factory).name)  # type: ignore[assignment]  # of the type of what it wraps
            _ENTRIES[key] = PassEntry(key, registered)  # type: ignore[arg-type]  # no Pass: that was the other branch
        _VERSION[0] += 1
        return registered

    return register if factory is None else register(factory)


_REPLACEABLE: Final[set[str]] = set()
"""Keys that may be registered once more."""


@contextlib.contextmanager
def collect_registrations(earlier: Collection[str] = ()) -> Iterator[set[str]]:
    """Collects the keys of the passes that the body registers, also where it raises. It may register `earlier` keys once more, as a file
    does that runs again."""
    while _SOURCES:
        _load_source()  # what these register is not the body's
    before, found = dict(_ENTRIES), set[str]()
    added = set(earlier) - _REPLACEABLE
    _REPLACEABLE.update(added)
    try:
        yield found
    finally:
        _REPLACEABLE.difference_update(added)
        found.update(key for key, entry in _ENTRIES.items() if before.get(key) is not entry)


def add_pass_source(load: Callable[[], object]) -> None:
    """A function that registers further passes, by importing them say. It is called once, before a look-up fails or passes are listed."""
    _SOURCES.append(load)


def _load_source() -> None:
    load = _SOURCES.pop(0)  # before it runs: what it imports may look names up
    try:
        load()
    except BaseException:
        _SOURCES.insert(0, load)  # it fails the next time too, instead of being forgotten
        raise


def get_entry(name: str) -> PassEntry:
    """How a pass is registered. A name with `transform.` in it is looked up as it is, others get the prefixes. Raises UnknownPassError."""
    entry = _find(name)
    while entry is None and _SOURCES:
        _load_source()
        entry = _find(name)
    if entry is None:
        near = nearest_passes(name)
        hint = f"did you mean {' or '.join(near)}?" if near else f"register_pass({name!r}, ...) makes it known"
        raise UnknownPassError(f"Cannot use {name} to create the pass: no pass of that name is registered; {hint}")
    return entry


def get_pass(name: str, /, **options: object) -> Pass:
    """A pass by name, made with the given options. Raises UnknownPassError and PassOptionError.

    >>> get_pass("InferType")
    Run Module pass: InferType at the optimization level 0
    """
    return get_entry(name).make(options)


def list_passes() -> list[PassEntry]:
    """All registered passes, sorted by name."""
    while _SOURCES:
        _load_source()
    return sorted(_ENTRIES.values(), key=lambda entry: (entry.name, entry.key))


add_option_source(list_passes)  # the modules of passes register the options that these read


def is_registered(name: str) -> bool:
    """Whether a pass of a name is registered."""
    try:
        get_entry(name)
    except UnknownPassError:
        return False
    return True


def nearest_passes(name: str) -> list[str]:
    """The names of at most three registered passes that are spelled nearly like this one."""
    by_folded = {entry.name.casefold(): entry.name for entry in _ENTRIES.values()}
    short = name.rpartition("transform.")[2]
    return [by_folded[near] for near in difflib.get_close_matches(short.casefold(), by_folded, 3)]


def registry_version() -> int:
    """A number that changes with every registration, for those who keep what they found."""
    return _VERSION[0]


def _find(name: str) -> PassEntry | None:
    if "transform." in name:
        return _ENTRIES.get(name)
    return next((_ENTRIES[prefix + name] for prefix in PREFIXES if prefix + name in _ENTRIES), None)


def _recording(factory: Factory, name: str) -> Factory:
    """The factory, in a form that notes on the pass how it was made, so that the pass can be printed."""
    signature = inspect.signature(factory)

    @functools.wraps(factory)
    def make(*args: object, **kwargs: object) -> Pass:
        made = factory(*args, **kwargs)
        if isinstance(made, Pass):
            given = without_defaults(factory, signature.bind(*args, **kwargs).arguments)
            object.__setattr__(made, "made_by", (name, given))  # also where the pass is a frozen dataclass
        return made

    return make


def _always(made: Pass) -> Factory:
    def make() -> Pass:
        return made

    make.__doc__ = made.__doc__
    make.__dict__["made"] = made
    return make


def entry_of(pass_: Pass) -> PassEntry | None:
    """The entry of a pass that was registered itself, or whose class was."""
    entries = _ENTRIES.values()
    itself = (entry for entry in entries if vars(entry.factory).get("made") is pass_)
    return next(itself, None) or next((entry for entry in entries if entry.factory is type(pass_)), None)


def name_and_options(pass_: Pass) -> tuple[str, dict[str, object]]:
    """The name under which a pass can be made again, where it is registered, and the options it has that are not defaults."""
    if "made_by" in vars(pass_):
        name, given = vars(pass_)["made_by"]
        return name, dict(given)
    entry = entry_of(pass_)
    if entry is None:
        return pass_.info.name, given_options(pass_)
    return entry.name, given_options(pass_) if entry.factory is type(pass_) else {}
