"""Arguments of `passat.optimize`: what may be given, and one sentence for what may not."""

import math
import numbers
import operator
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any as AnyValue
from typing import Final, SupportsIndex, TypeAlias

from passat.rules import RuleSet

PathLike: TypeAlias = "str | os.PathLike[str]"
RulesLike: TypeAlias = "PathLike | type[RuleSet] | Iterable[PathLike | type[RuleSet]]"
"""Rule sets, and rule files by their paths."""

MOST_LEVEL: Final = 4
"""The highest optimization level."""
_SWITCHES: Final = ("verify", "allow_unverified", "record", "explain", "certificate")
_PATHS: Final = ("folder", "reproducer")
_INTEGERS: Final[Mapping[str, tuple[int, int | None]]] = {
    "opt_level": (0, MOST_LEVEL),
    "candidates": (1, None),
    "opset": (1, None),
    "seed": (0, None),
}
"""The integers, with the least and the greatest value of each."""
_NUMBERS: Final[Mapping[str, tuple[str, float]]] = {
    "time_limit": ("number of seconds", math.inf),
    "rtol": ("finite number", sys.float_info.max),
    "atol": ("finite number", sys.float_info.max),
}
"""The numbers of at least 0, with what each is called and its greatest value."""


class ArgumentError(ValueError):
    """An argument whose value makes no sense. The message names it."""


def check_arguments(given: Mapping[str, AnyValue]) -> None:
    """Checks the arguments of `optimize` that are not what they should be, and says which. Raises TypeError and ArgumentError."""
    for name, value in given.items():
        if name in _SWITCHES:
            if not isinstance(value, bool):
                raise TypeError(f"{name} is True or False, not {value!r}")
        elif value is None:
            continue
        elif name in _INTEGERS:
            _check_integer(name, value, *_INTEGERS[name])
        elif name in _PATHS:
            if not isinstance(value, (str, os.PathLike)):
                raise TypeError(f"{name} is the path of a folder, not {value!r}")
        elif name in _NUMBERS:
            _check_number(name, value, *_NUMBERS[name])
        elif name == "choose":
            if value not in ("cost", "time"):
                raise ArgumentError(f"choose is 'cost' or 'time', not {value!r}")
        elif name == "config":
            if not isinstance(value, Mapping):
                raise TypeError(f"config is a mapping of options to values, not {value!r}")
        elif name == "progress":
            if not callable(value):
                raise TypeError(f"progress is a function of a text, not {value!r}")
        elif name == "inputs":
            if not isinstance(value, (str, os.PathLike, Mapping)):
                raise TypeError(f"inputs are arrays by the names of inputs, or the path of a file of them, not {value!r}")
        elif name == "custom_ops":
            if (
                not isinstance(value, Iterable)
                or isinstance(value, (str, os.PathLike))
                or not all(isinstance(one, (str, os.PathLike)) for one in value)
            ):
                raise TypeError(f"custom_ops is a list of the paths of libraries, not {value!r}")
        elif name == "instruments" and not isinstance(value, Iterable):
            raise TypeError(f"instruments are a list of PassInstrument objects, not {value!r}")


def _check_number(name: str, value: object, what: str, most: float) -> None:
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise TypeError(f"{name} is a {what}, not {value!r}")
    if not 0 <= float(value) <= most:
        raise ArgumentError(f"{name} is a {what}, at least 0, not {value!r}")


def _check_integer(name: str, value: object, least: int, most: int | None) -> None:
    bounds = f"from {least} to {most}" if most is not None else f"of at least {least}"
    if not isinstance(value, SupportsIndex) or isinstance(value, bool):
        raise TypeError(f"{name} is an integer {bounds}, not {value!r}")
    if operator.index(value) < least or (most is not None and operator.index(value) > most):
        raise ArgumentError(f"{name} is an integer {bounds}, not {value!r}")


def read_rules(rules: "RulesLike") -> tuple[list[type[RuleSet]], list[PathLike]]:
    """The rule sets, those of rule files included, and the paths of the files. Raises RuleFileError, and TypeError for anything else."""
    from passat.rulefile import load_rules

    if isinstance(rules, (str, os.PathLike, type)):
        rules = [rules]
    elif not isinstance(rules, Iterable):
        raise TypeError(f"rules are RuleSet classes, or paths of rule files, not {rules!r}")
    sets: list[type[RuleSet]] = []
    files: list[PathLike] = []
    for one in rules:
        if isinstance(one, (str, os.PathLike)):
            files.append(one)
            sets += load_rules(one)
        else:
            sets.append(one)  # what is none is refused with all others, when the pipeline is made
    return sets, files
