"""The pass registry: passes by name, with options and documentation."""

import contextlib
import functools
import importlib
import importlib.metadata
import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar, overload

from passat.ir.passat_error import PassatError
from passat.ir.similar_names import did_you_mean
from passat.passmgr.options import (
    PassOptionError,
    add_option_source,
    convert_option,
    given_options,
    name_hint,
    parameters,
    without_defaults,
)
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import Pass

Factory = Callable[..., Pass]
_F = TypeVar("_F", bound=Factory | Pass | str)

PREFIXES: Final = ("transform.", "relay._transform.", "relax.transform.", "tir.transform.")
"""Prefixes for the lookup of a name without a prefix, in this order, as in TVM."""


class UnknownPassError(PassatError, LookupError, RuntimeError):
    """No pass is registered under a name. The message suggests similar names. (Also a RuntimeError, like TVMError.)"""

    exit_code = 2


class PluginError(PassatError, ImportError):
    """A plug-in of an installed package cannot be imported, or a registered pass cannot be created."""

    exit_code = 1


class Reference(NamedTuple):
    """A factory in a module that is imported when the factory is used."""

    module: str
    name: str

    def load(self) -> Factory:
        """Imports the module, and returns the factory."""
        factory: Factory = getattr(importlib.import_module(self.module), self.name)
        return factory


@dataclass(frozen=True)
class PassEntry:
    """A registered pass: its full name, and its factory or where that is."""

    key: str
    registered: Factory | Reference

    @property
    def factory(self) -> Factory:
        """The class or function that creates the pass."""
        return self.registered.load() if isinstance(self.registered, Reference) else self.registered

    @property
    def is_own(self) -> bool:
        """Whether a class or function of Passat creates the pass. A pass that was registered itself may be a user's."""
        module = self.registered.module if isinstance(self.registered, Reference) else self.registered.__module__
        return module.partition(".")[0] == "passat" and self.made is None

    @property
    def made(self) -> Pass | None:
        """The pass, if it was registered itself."""
        return None if isinstance(self.registered, Reference) else vars(self.registered).get("made")

    @property
    def name(self) -> str:
        """The user-visible name, without prefix."""
        return next((self.key.removeprefix(prefix) for prefix in PREFIXES if self.key.startswith(prefix)), self.key)

    @property
    def doc(self) -> str:
        """The docstring of the pass."""
        return inspect.getdoc(self.factory) or ""

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options of the pass as parameters: name, annotation and default."""
        return parameters(self.factory)

    def default(self) -> Pass | None:
        """Creates the pass with default options; None if it has required options."""
        return None if any(option.default is option.empty for option in self.options.values()) else self.make({})

    @property
    def info(self) -> PassInfo | None:
        """The metadata of the pass with default options; None if it has required options."""
        made = self.default()
        return None if made is None else made.info

    def make(self, options: Mapping[str, object]) -> Pass:
        """Creates the pass with these options. Raises PassOptionError."""
        known = self.options
        values = {}
        for name, value in options.items():
            if name not in known:
                raise PassOptionError(f"the pass {self.name} has no option {name!r}; {name_hint(name, known)}", name)
            values[name] = convert_option(self.name, known[name], value)
        missing = [name for name, option in known.items() if option.default is option.empty and name not in values]
        if missing:
            raise PassOptionError(f"the pass {self.name} requires the option {missing[0]}")
        try:
            made = self.factory(**values)
        except (TypeError, ValueError) as error:  # what the class or function checks itself
            if isinstance(error, PassatError) or not values:
                raise
            raise PassOptionError(f"the pass {self.name} does not take these options: {error}") from error
        if not isinstance(made, Pass):
            raise TypeError(f"the factory of the pass {self.name} must return a Pass, but returned {made!r}")
        return made


def _load_installed() -> None:
    """Imports the modules that installed packages, including Passat, declare as plug-ins; Passat's own come first, so that a plug-in cannot
    take the name of one of its passes."""
    installed = importlib.metadata.entry_points(group=ENTRY_POINTS)
    for entry in sorted(installed, key=lambda entry: not entry.value.startswith("passat.")):
        try:
            with contextlib.redirect_stdout(sys.stderr):  # what they print must not mix with a report
                entry.load()
        except (Exception, SystemExit) as error:
            package = f" of {entry.dist.name}" if entry.dist else ""
            reason = f"{type(error).__name__}: {error}"
            raise PluginError(f"the plug-in {entry.value}{package} cannot be loaded; repair or uninstall it: {reason}") from error
    for key in sorted(_UNPREFIXED & _ENTRIES.keys()):  # registered before these modules were imported
        _check_free(key)


ENTRY_POINTS: Final = "passat.passes"
"""The entry-point group of modules that register passes on import. They are imported on the first lookup of a name."""

_ENTRIES: dict[str, PassEntry] = {}
_SOURCES: list[Callable[[], object]] = [_load_installed]
_VERSION = [0]


@overload
def register_pass(name: str, factory: _F, *, override: bool = False) -> _F: ...
@overload
def register_pass(name: str, factory: None = None, *, override: bool = False) -> Callable[[_F], _F]: ...
def register_pass(name: str, factory: _F | None = None, *, override: bool = False) -> _F | Callable[[_F], _F]:
    """Registers a pass under a name: a class or function that creates it, whose parameters are the options, or the pass itself, or a text
    `module:name` with the place of a class, which is imported when the pass is used.

    Without `factory` it is a decorator. A name without `transform.` gets that prefix, and must not be the name of a pass under another
    prefix, because pipelines and requirements would then refer to the new pass. Raises ValueError for an existing name, unless `override`.
    """
    if not isinstance(name, str):
        raise TypeError(f"register_pass takes the name of the pass first, not {name!r}: write @register_pass(NAME)")

    def register(factory: _F) -> _F:
        key = name if "transform." in name else PREFIXES[0] + name
        if not override and key not in _REPLACEABLE:
            if key in _ENTRIES:
                raise ValueError(_TAKEN.format(key))
            if key != name:
                _check_free(key)
                _UNPREFIXED.add(key)
        registered = factory
        if isinstance(factory, Pass):
            _ENTRIES[key] = PassEntry(key, _always(factory))
        elif isinstance(factory, str):
            module, _, attribute = factory.partition(":")
            _ENTRIES[key] = PassEntry(key, Reference(module, attribute))
        else:
            if not isinstance(factory, type):
                registered = _recording(factory, PassEntry(key, factory).name)  # type: ignore[assignment]  # same type as factory
            _ENTRIES[key] = PassEntry(key, registered)  # type: ignore[arg-type]  # neither a Pass nor a text
        _VERSION[0] += 1
        return registered

    return register if factory is None else register(factory)


def _check_free(key: str) -> None:
    """Raises ValueError if a pass is registered under the same name with another prefix."""
    name = PassEntry(key, Pass).name
    for other in (prefix + name for prefix in PREFIXES):
        if other != key and other in _ENTRIES:
            raise ValueError(_TAKEN.format(other))


_TAKEN: Final = "a pass is already registered under the name {!r}; choose another name, or pass override=True to replace it"
_UNPREFIXED: Final[set[str]] = set()
"""Keys of passes that were registered without a prefix and without `override`."""
_REPLACEABLE: Final[set[str]] = set()
"""Keys that may be registered again."""


@contextlib.contextmanager
def collect_registrations(earlier: Collection[str] = ()) -> Iterator[set[str]]:
    """Collects the keys of the passes that the body of the `with` block registers, even if it raises.

    The body may register `earlier` keys again, as a file does when it is executed again.
    """
    while _SOURCES:
        _load_source()  # registrations of sources do not belong to the body
    before, found = dict(_ENTRIES), set[str]()
    added = set(earlier) - _REPLACEABLE
    _REPLACEABLE.update(added)
    try:
        yield found
    finally:
        _REPLACEABLE.difference_update(added)
        found.update(key for key, entry in _ENTRIES.items() if before.get(key) is not entry)


def add_pass_source(load: Callable[[], object]) -> None:
    """Adds a function that registers further passes, for example by importing them. Called once, before a lookup fails or passes are
    listed."""
    _SOURCES.append(load)


def _load_source() -> None:
    load = _SOURCES.pop(0)  # removed before it runs, since its imports may look up names
    try:
        load()
    except BaseException:
        _SOURCES.insert(0, load)  # keep a failing source, so that it fails again
        raise


def get_entry(name: str) -> PassEntry:
    """Returns the entry of a pass. Tries the prefixes for a name without `transform.`. Raises UnknownPassError."""
    entry = _find(name)
    while entry is None and _SOURCES:
        _load_source()
        entry = _find(name)
    if entry is None:
        short = name.rpartition("transform.")[2]
        hint = (
            did_you_mean(short, sorted(entry.name for entry in _ENTRIES.values()))
            or "; `passat passes` shows all names, and --rules FILE.py adds those of a file"
        )
        raise UnknownPassError(f"there is no pass {name}{hint}")
    return entry


def get_pass(name: str, /, **options: object) -> Pass:
    """Creates a pass by name with options. Raises UnknownPassError and PassOptionError.

    >>> get_pass("InferType")
    Run Module pass: InferType at the optimization level 0
    """
    return get_entry(name).make(options)


def own_name(name: str) -> str:
    """Returns the name in the metadata of the pass that is registered under a name. A user may register a pass under another name.

    >>> own_name("relay._transform.FoldConstant")
    'FoldConstant'
    """
    entry = _find(name)
    info = None if entry is None or entry.is_own else entry.info  # Passat's own passes have the same name, and take time to create
    return name.rpartition("transform.")[2] if info is None else info.name


def list_passes() -> list[PassEntry]:
    """Returns all registered passes, sorted by name."""
    while _SOURCES:
        _load_source()
    return sorted(_ENTRIES.values(), key=lambda entry: (entry.name, entry.key))


def _import_all() -> None:
    for entry in list_passes():
        if isinstance(entry.registered, Reference):
            entry.registered.load()


add_option_source(_import_all)  # the modules of passes also register config options


def is_registered(name: str) -> bool:
    """Whether a pass with this name is registered."""
    try:
        get_entry(name)
    except UnknownPassError:
        return False
    return True


def registry_version() -> int:
    """Returns a number that changes with every registration, for invalidating caches."""
    return _VERSION[0]


def _find(name: str) -> PassEntry | None:
    if "transform." in name:
        return _ENTRIES.get(name)
    return next((_ENTRIES[prefix + name] for prefix in PREFIXES if prefix + name in _ENTRIES), None)


def _recording(factory: Factory, name: str) -> Factory:
    """Wraps a factory to record on the pass how it was created, so that it can be printed, and the docstring of the factory."""
    signature = inspect.signature(factory)

    @functools.wraps(factory)
    def make(*args: object, **kwargs: object) -> Pass:
        made = factory(*args, **kwargs)
        if isinstance(made, Pass):
            given = without_defaults(factory, signature.bind(*args, **kwargs).arguments)
            object.__setattr__(made, "made_by", (name, given))  # also for a frozen dataclass
            if factory.__doc__:
                object.__setattr__(made, "__doc__", factory.__doc__)
        return made

    return make


def _always(made: Pass) -> Factory:
    def make() -> Pass:
        return made

    make.__doc__ = made.__doc__
    make.__dict__["made"] = made
    return make


def entry_of(pass_: Pass) -> PassEntry | None:
    """Returns the entry of a pass that is registered itself or by its class."""
    entries, kind = _ENTRIES.values(), type(pass_)
    itself = (entry for entry in entries if entry.made is pass_)
    return next(itself, None) or next((entry for entry in entries if entry.registered in (kind, (kind.__module__, kind.__name__))), None)


def name_and_options(pass_: Pass) -> tuple[str, dict[str, object]]:
    """Returns the registered name of a pass and its non-default options."""
    if "made_by" in vars(pass_):
        name, given = vars(pass_)["made_by"]
        return name, dict(given)
    entry = entry_of(pass_)
    if entry is None:
        return pass_.info.name, given_options(pass_)
    return entry.name, given_options(pass_) if entry.factory is type(pass_) else {}
