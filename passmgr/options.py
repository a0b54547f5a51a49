"""Config options and option values: registration, checking against type annotations, and text form.

Config options, which `PassContext(config=...)` accepts, are registered once with type, default and documentation.
"""

import contextlib
import dataclasses
import enum
import inspect
import json
import math
import re
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Literal, Union, get_args, get_origin

from passat.ir.long_words import is_long_int, short_repr
from passat.ir.passat_error import PassatError
from passat.ir.similar_names import did_you_mean
from passat.ir.walks import preorder

_NUMBERS = (bool, int, float)


class PassOptionError(PassatError, TypeError):
    """A pass option is unknown, missing or has an invalid value. `option` is its name."""

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option


def convert_option(pass_name: str, option: inspect.Parameter, value: object) -> AnyValue:
    """Converts the value of an option of a pass to the type of its annotation. Raises PassOptionError."""
    try:
        return convert(value, option.annotation)
    except (TypeError, AttributeError) as error:
        raise PassOptionError(f"option {option.name} of the pass {pass_name}: {error}", option.name) from None


def convert(value: object, annotation: object) -> AnyValue:
    """Converts a value to the type of its annotation. Raises TypeError with the expected type.

    Supports bool (also 0 and 1), int, float (also integers), other classes, enumerations (also by member name or value), dataclasses (also
    as mappings), Literal, unions, and tuples, lists, sets and dicts of these. Values of other annotations are not checked. A Word becomes
    its meaning where that fits, otherwise its text. Raises AttributeError for an unknown field of a dataclass.

    >>> convert([1, 2], tuple[float, ...])
    (1.0, 2.0)
    >>> convert("eight", int)
    Traceback (most recent call last):
    TypeError: expected int, got 'eight'
    >>> convert(Word("none"), int | None), convert(Word("none"), Literal["none", "all"])
    (None, 'none')
    """
    if isinstance(value, Word):
        return _convert_word(value, annotation)
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return _convert_to_one_of(value, annotation)
    if origin is Literal:
        if any(type(value) is type(choice) and value == choice for choice in get_args(annotation)):
            return value
        raise _misfit(value, annotation)
    if annotation is None or annotation is type(None):
        if value is None:
            return None
        raise _misfit(value, annotation)
    kind = origin or annotation
    if not isinstance(kind, type) or kind in (object, AnyValue, inspect.Parameter.empty):
        return _meant(value)
    if kind in _NUMBERS:
        return _convert_number(value, kind)
    if issubclass(kind, enum.Enum):
        return _convert_to_member(value, kind)
    if issubclass(kind, Mapping) and isinstance(value, Mapping) and len(get_args(annotation)) == 2:
        return _convert_mapping(value, *get_args(annotation))
    if issubclass(kind, (tuple, list, AbstractSet, Sequence, Collection)) and not issubclass(kind, (str, bytes, Mapping)):
        return _convert_collection(value, kind, annotation)
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        return _build(kind, value)
    if isinstance(value, kind):
        return _meant(value)
    raise _misfit(value, annotation)


def show_annotation(annotation: object) -> str:
    """Prints an annotation as in source code.

    >>> show_annotation(int), show_annotation(int | None), show_annotation(Literal["a", "b"])
    ('int', 'int | None', "one of 'a', 'b'")
    """
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(map(repr, get_args(annotation)))
    if get_origin(annotation) in (Union, types.UnionType):
        return " | ".join(show_annotation(arg) for arg in get_args(annotation))
    if annotation in (None, type(None)):
        return "None"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return "one of " + ", ".join(annotation.__members__)
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation.__name__
    return str(annotation)


def show_value(value: object) -> str:
    """Prints a value as pipeline text: `8`, `0.5`, `True`, `None`, `fast`, `"two words"`, `[1, 2]`, `{depth=2}`.

    Members of enumerations are printed by name, sets as sorted lists, dataclasses by their non-default fields. Raises ValueError for other
    values.
    """
    if isinstance(value, enum.Enum):
        return show_word(value.name)
    if value is None or isinstance(value, _NUMBERS):
        return repr(value)
    if isinstance(value, str):
        return show_word(value) if value.lower() not in WORDS else json.dumps(value)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(show_value, value))}]"
    if isinstance(value, AbstractSet):
        return f"[{', '.join(sorted(map(show_value, value)))}]"
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return show_options(value, always=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return show_options(given_options(value), always=True)
    raise ValueError(f"a value of type {type(value).__name__} cannot be written in pipeline text: {value!r}")


def show_word(text: str) -> str:
    """Prints a string as a word, quoted if necessary."""
    return text if text != "inf" and re.fullmatch(r"[A-Za-z_][\w.\-]*", text) else json.dumps(text)


def show_options(options: Mapping[str, object], *, always: bool = False) -> str:
    """Prints named values in braces; empty without values, unless `always`."""
    shown = (f"{show_word(name)}={show_value(value)}" for name, value in options.items())
    return f"{{{','.join(shown)}}}" if options or always else ""


WORDS: Mapping[str, object] = {"true": True, "false": False, "none": None, "inf": float("inf"), "nan": float("nan")}
"""Lower-case words of pipeline text that are not strings, except where the option only accepts strings."""


@dataclasses.dataclass(frozen=True)
class Word:
    """One of WORDS as written in pipeline text."""

    text: str

    @property
    def meaning(self) -> object:
        """The value of the word where it is not a string."""
        return WORDS[self.text.lower()]

    def __repr__(self) -> str:
        return repr(self.meaning)


def parameters(factory: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Returns the options of a factory: its named parameters, with resolved annotations where possible."""
    try:
        signature = inspect.signature(factory, eval_str=True)
    except NameError:  # an annotation only visible to type checkers; the option is not checked
        signature = inspect.signature(factory)
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: parameter for name, parameter in signature.parameters.items() if parameter.kind in kinds}


def given_options(value: object) -> dict[str, object]:
    """Returns the non-default options of an object: fields of a dataclass, or the options recorded by the class decorator."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init)
        return {field.name: found for field, found in fields if not _same(found, _default(field))}
    return dict(getattr(value, "given_options", {}))


def without_defaults(factory: Callable[..., object], given: Mapping[str, object]) -> dict[str, object]:
    """Removes options that equal the defaults of the factory's parameters."""
    known = parameters(factory)
    return {name: value for name, value in given.items() if name not in known or not _same(value, known[name].default)}


def _default(field: "dataclasses.Field[AnyValue]") -> object:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _same(a: object, b: object) -> bool:
    if isinstance(a, (tuple, list)) and type(a) is type(b) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float) and isinstance(b, float) and math.copysign(1, a) != math.copysign(1, b):
        return False  # 0.0 equals -0.0
    return a is b or (type(a) is type(b) and a == b)


def _misfit(value: object, annotation: object) -> TypeError:
    return TypeError(f"expected {show_annotation(annotation)}, got {short_repr(value)}")


def _convert_word(word: Word, annotation: object) -> AnyValue:
    try:
        return convert(word.meaning, annotation)
    except TypeError:
        with contextlib.suppress(TypeError):
            return convert(word.text, annotation)
        raise


def _meant(value: AnyValue) -> AnyValue:
    """Replaces words in an unchecked value by their meaning."""
    if isinstance(value, Word):
        return value.meaning
    if type(value) is dict:
        return {key: _meant(item) for key, item in value.items()}
    return tuple(map(_meant, value)) if type(value) is tuple else value


def _convert_to_one_of(value: object, annotation: object) -> AnyValue:
    choices = get_args(annotation)
    if type(value) in choices:
        return _meant(value)
    for choice in choices:
        try:
            return convert(value, choice)
        except TypeError:
            continue
    raise _misfit(value, annotation)


def _convert_to_member(value: object, kind: type[enum.Enum]) -> enum.Enum:
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value in kind.__members__:
        return kind[value]
    try:
        return kind(value)
    except ValueError:
        raise _misfit(value, kind) from None


def _convert_number(value: object, kind: type) -> AnyValue:
    if is_long_int(value):
        raise _misfit(value, kind)
    if type(value) is kind:
        return value
    if (kind is float and type(value) is int) or (kind is bool and type(value) is int and value in (0, 1)):
        with contextlib.suppress(OverflowError):  # an integer beyond all floats
            return kind(value)
    raise _misfit(value, kind)


def _convert_collection(value: object, kind: type, annotation: object) -> AnyValue:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Collection):
        raise _misfit(value, annotation)
    wanted = get_args(annotation)
    try:
        if not wanted:
            items = [_meant(item) for item in value]
        elif issubclass(kind, tuple) and not (len(wanted) == 2 and wanted[1] is Ellipsis):
            items = [convert(item, want) for item, want in zip(value, wanted, strict=True)]
        else:
            items = [convert(item, wanted[0]) for item in value]
    except (TypeError, ValueError):
        raise _misfit(value, annotation) from None
    return list(items) if issubclass(kind, list) else frozenset(items) if issubclass(kind, AbstractSet) else tuple(items)


def _convert_mapping(value: Mapping[object, object], keys: object, values: object) -> dict[AnyValue, AnyValue]:
    converted = {}
    for key, item in value.items():
        try:
            made = convert(key, keys)
        except TypeError as error:
            raise TypeError(f"a key: {error}") from None
        try:
            converted[made] = convert(item, values)
        except TypeError as error:
            raise TypeError(f"the value of {short_repr(key)}: {error}") from None
    return converted


def _build(kind: type, values: Mapping[str, object]) -> AnyValue:
    known = parameters(kind)
    converted = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a field of {kind.__name__} must be a string, not {short_repr(name)}")
        if name not in known:
            raise AttributeError(f"{kind.__name__} has no field {name!r}; {name_hint(name, known)}")
        try:
            converted[name] = convert(value, known[name].annotation)
        except TypeError as error:
            raise TypeError(f"{name} of {kind.__name__}: {error}") from None
    missing = [name for name, parameter in known.items() if parameter.default is parameter.empty and name not in values]
    if missing:
        raise TypeError(f"{kind.__name__} requires the field {missing[0]}")
    return kind(**converted)


def name_hint(name: str, known: Collection[str]) -> str:
    """A hint for an unknown name: all known names, and the most similar one.

    >>> name_hint("round", ["rounds", "mode"])
    'it has: rounds, mode; did you mean rounds?'
    """
    return f"it has: {', '.join(known) or 'none'}{did_you_mean(name, known, 1)}"


class ConfigError(PassatError, AttributeError):
    """An unknown config option, or an invalid value. (TVM raises AttributeError.)"""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class ConfigOption:
    """A registered option. `type` is a type or an annotation; a dataclass makes a struct option, which may be given as a dict.

    Numbers, including those in a dict, must not be less than `minimum`, if given.
    """

    key: str
    type: object
    default: AnyValue
    doc: str
    minimum: float | None = None


_OPTIONS: dict[str, ConfigOption] = {}
_SOURCES: list[Callable[[], object]] = []


def add_option_source(load: Callable[[], object]) -> None:
    """Adds a function that registers further options, for example by importing passes. Called once, before a lookup fails or options are
    listed."""
    _SOURCES.append(load)


def register_option(key: str, type_: object, default: AnyValue = None, doc: str = "", *, minimum: float | None = None) -> ConfigOption:
    """Registers an option. Raises ValueError if the key exists, and TypeError if the default does not fit the type (None always fits)."""
    if key in _OPTIONS:
        raise ValueError(f"the config option {key!r} is already registered")
    option = ConfigOption(key, type_, default if default is None else convert(default, type_), doc, minimum)
    _OPTIONS[key] = option
    return option


def get_option(key: str) -> ConfigOption:
    """Returns a registered option. Raises AttributeError with all keys and the most similar one.

    >>> get_option("passmgr.resolve").default
    'graph'
    """
    if not isinstance(key, str):
        raise ConfigError(f"the key of a config option must be a string, not {key!r}")
    option = _OPTIONS.get(key)
    while option is None and _SOURCES:
        _SOURCES.pop(0)()
        option = _OPTIONS.get(key)
    if option is None:
        if hint := did_you_mean(key, _OPTIONS, 1):
            raise ConfigError(f"Invalid config option {key!r}{hint} `passat config list` shows all options")
        raise ConfigError(f"Invalid config option {key!r} candidates are: {' ,'.join(sorted(_OPTIONS))}")
    return option


def list_configs() -> dict[str, dict[str, AnyValue]]:
    """Returns all options by key, sorted: `{"type": ..., "default": ..., "doc": ...}`."""
    while _SOURCES:
        _SOURCES.pop(0)()
    return {
        key: {"type": show_annotation(option.type), "default": option.default, "doc": option.doc}
        for key, option in sorted(_OPTIONS.items())
    }


def option_values(key: str) -> list[str]:
    """The texts that an option may be set to, if its type lists any.

    >>> option_values("passmgr.resolve")
    ['graph', 'relay']
    """
    found: list[str] = []
    for type_ in preorder([get_option(key).type], lambda part: get_args(part) if get_origin(part) in (Union, types.UnionType) else ()):
        if type_ is bool:
            found += ["true", "false"]
        elif get_origin(type_) is Literal:
            found += [value for value in get_args(type_) if isinstance(value, str)]
    return found


def check_config(config: Mapping[str, AnyValue]) -> dict[str, AnyValue]:
    """Checks and converts all values of a config.

    Raises AttributeError for an unknown key, None, a wrong type, or a value below the minimum.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(f"config must map options to values, not {config!r}")
    checked: dict[str, AnyValue] = {}
    for key, value in config.items():
        option = get_option(key)
        if value is None:
            raise ConfigError(f"{key} must not be None; omit it to use the default")
        try:
            checked[key] = convert(value, option.type)
        except (AttributeError, TypeError) as error:
            if isinstance(value, Mapping):  # the error is about one of its fields or values
                raise ConfigError(f"expect config {key} to have type {show_annotation(option.type)}: {error}") from None
            given = short_repr(value) if isinstance(value, str) or is_long_int(value) else type(value).__name__
            raise ConfigError(f"expect config {key} to have type {show_annotation(option.type)} but get {given}") from None
        held = checked[key].items() if isinstance(checked[key], Mapping) else ((None, checked[key]),)
        for name, number in held if option.minimum is not None else ():
            if not number >= option.minimum:  # also rejects NaN
                of = "" if name is None else f" of {short_repr(name)}"
                raise ConfigError(f"expect config {key} to be at least {option.minimum:g} but get {short_repr(number)}{of}")
    return checked


register_option(
    "passmgr.resolve",
    Literal["graph", "relay"],
    "graph",
    "How the passes that a pass requires run: graph = transitively, once until invalidated; relay = as in TVM, one level, every time.",
)
