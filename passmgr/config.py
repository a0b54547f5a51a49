"""Config options: what `PassContext(config=...)` may hold. Each is registered once, with type, default and documentation."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Literal

from passat.passmgr.options import convert, show_annotation


class ConfigError(AttributeError):
    """An option that there is not, or a value that it does not take. (TVM raises AttributeError.)"""


@dataclass(frozen=True, slots=True)
class ConfigOption:
    """A registered option. `type` is a type or an annotation; a dataclass makes a struct option, which may be given as a dict.
    Numbers, also those that a dict holds, are not less than `minimum`, where there is one."""

    key: str
    type: object
    default: AnyValue
    doc: str
    minimum: float | None = None


_OPTIONS: dict[str, ConfigOption] = {}
_SOURCES: list[Callable[[], object]] = []


def add_option_source(load: Callable[[], object]) -> None:
    """A function that registers further options, by importing passes say. Called once, before a look-up fails or options are listed."""
    _SOURCES.append(load)


def register_option(key: str, type_: object, default: AnyValue = None, doc: str = "", *, minimum: float | None = None) -> ConfigOption:
    """Registers an option. Raises ValueError where the key is taken, TypeError where the default does not fit the type (None fits all)."""
    if key in _OPTIONS:
        raise ValueError(f"the config option {key!r} is registered already")
    option = ConfigOption(key, type_, default if default is None else convert(default, type_), doc, minimum)
    _OPTIONS[key] = option
    return option


def get_option(key: str) -> ConfigOption:
    """The registered option. Raises AttributeError that lists all keys, and the nearest one where there is one.

    >>> get_option("passmgr.resolve").default
    'graph'
    """
    if not isinstance(key, str):
        raise ConfigError(f"config options are named by texts, not {key!r}")
    option = _OPTIONS.get(key)
    while option is None and _SOURCES:
        _SOURCES.pop(0)()
        option = _OPTIONS.get(key)
    if option is None:
        near = difflib.get_close_matches(key, _OPTIONS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"Invalid config option {key!r} candidates are: {' ,'.join(sorted(_OPTIONS))}{hint}")
    return option


def list_configs() -> dict[str, dict[str, AnyValue]]:
    """Every option by key: `{"type": ..., "default": ..., "doc": ...}`, sorted."""
    while _SOURCES:
        _SOURCES.pop(0)()
    return {
        key: {"type": show_annotation(option.type), "default": option.default, "doc": option.doc}
        for key, option in sorted(_OPTIONS.items())
    }


def check_config(config: Mapping[str, AnyValue]) -> dict[str, AnyValue]:
    """The config with every value as its option holds it.

    Raises AttributeError for an unknown key, None, a value of another type, or one that is too small.
    """
    checked: dict[str, AnyValue] = {}
    for key, value in config.items():
        option = get_option(key)
        if value is None:
            raise ConfigError(f"{key} is None; where it is left out, it has its default")
        try:
            checked[key] = convert(value, option.type)
        except AttributeError as error:  # a field that there is not
            raise ConfigError(f"expect config {key} to have type {show_annotation(option.type)}: {error}") from None
        except TypeError:
            given = repr(value) if isinstance(value, str) else type(value).__name__
            raise ConfigError(f"expect config {key} to have type {show_annotation(option.type)} but get {given}") from None
        held = checked[key].values() if isinstance(checked[key], Mapping) else (checked[key],)
        if option.minimum is not None and not all(number >= option.minimum for number in held):  # which no NaN is
            raise ConfigError(f"expect config {key} to be at least {option.minimum:g} but get {value!r}")
    return checked


register_option(
    "passmgr.resolve",
    Literal["graph", "relay"],
    "graph",
    "How the passes that a pass requires run: graph = transitively, once until invalidated; relay = as in TVM, one level, every time.",
)
register_option(
    "passmgr.failed_enter",
    Literal["v0.18", "v0.8"],
    "v0.18",
    "An instrument fails on entering a context: those entered before exit in reverse order (as in TVM 0.18), or in order (as in TVM 0.8).",
)
