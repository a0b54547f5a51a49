"""The settings of an optimization: the keywords of `passat.optimize`, their defaults, and error messages for invalid values, and for those
that have no effect beside others; and the logger, which gets each step that `progress` gets."""

import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from typing import Annotated, Final, Literal, Self, TypeAlias
from typing import Any as AnyValue

from passat.ir.argument_checks import FOLDER, PATH, ArgumentError, integer, kind, names, number, one_of, plain, sequence, shapes, sizes
from passat.ir.similar_names import did_you_mean
from passat.passmgr import PassContext, PassInstrument
from passat.pipelines import Passes
from passat.rulefile import PathLike, RulesLike
from passat.rules.cost import CostModel, CostName

Progress: TypeAlias = Callable[[str], None]
"""Receives a short description of each step as it begins."""
LOG: Final = logging.getLogger("passat")
"""Gets each step of the work with its time, and warnings about models. Silent until a program configures `logging`."""
LOG.addHandler(logging.NullHandler())


def telling(progress: Progress | None) -> Progress:
    """Logs each step that begins, and passes it to `progress` if given."""

    def tell(text: str) -> None:
        LOG.info(text)
        if progress is not None:
            progress(text)

    return tell


MOST_LEVEL: Final = 4
"""The highest optimization level."""
CANDIDATES: Final = 4
"""The maximum number of programs among which `choose="time"` chooses, unless given."""
DEFAULT_LEVEL: Final = 3
"""The optimization level if neither the call nor a surrounding context sets one."""


Spelling: TypeAlias = Callable[..., str]
"""How messages write a setting, from its name and, optionally, its value: as a keyword, or as an option of the command line."""


def as_keyword(name: str, *value: object) -> str:
    """A setting as a keyword of Python.

    >>> as_keyword("verify"), as_keyword("verify", False)
    ('verify', 'verify=False')
    """
    return "=".join([name, *map(repr, value)])


def check_effects(given: Mapping[str, AnyValue], spell: Spelling = as_keyword) -> None:
    """Raises ArgumentError for keywords of `passat.optimize` that have no effect beside others, or contradict them."""
    timed, kernels, traced = given["choose"] == "time", given["kernels"], given["explain"] or given["certificate"]
    if not timed and given["candidates"] is not None:
        candidates, time = spell("candidates"), spell("choose", "time")
        raise ArgumentError(f"{spell('candidates', given['candidates'])} applies to {time} only; add {time}, or drop {candidates}")
    if timed and traced:
        raise ArgumentError(
            f"{spell('choose', 'time')} tries several programs, and cannot explain or certify one of them; "
            f"use {spell('choose', 'cost')} (the default)"
        )
    if kernels and traced:
        raise ArgumentError("kernels join nodes outside of the rules, and cannot be explained or certified; drop one of the two")
    if given["verify"]:
        return
    if timed and not kernels:
        check_drawn(given["seed"], given["inputs"], spell)
    unused = ["allow_unverified", *([] if kernels else ["rtol", "atol", *([] if timed else ["inputs", "seed"])])]
    for name in unused:
        if given[name] is not None and given[name] != _UNSET.get(name):
            raise ArgumentError(
                f"{spell(name)} sets how the result is compared with the input, and {spell('verify', False)} disables the comparison"
            )


def check_drawn(seed: int, inputs: object, spell: Spelling = as_keyword) -> None:
    """Raises ArgumentError for a seed of random inputs where the user gives all of them."""
    if seed and inputs is not None:
        raise ArgumentError(f"{spell('seed', seed)} draws random inputs, and {spell('inputs')} gives them all; drop one of the two")


_UNSET: Final = {"allow_unverified": False, "seed": 0}
"""Defaults that are not None."""


_NUMBERS: Final = frozenset({"opset", "dims", "input_shapes", "opt_level", "rtol", "atol", "time_limit", "candidates", "seed"})
"""The settings that are numbers, or have them."""
_SWITCH: Final = kind(bool, "True or False")
_FINITE: Final = number("finite number", sys.float_info.max)


@dataclass(frozen=True, kw_only=True, eq=False)
class Variant:
    """The variant of a model to work on: a later opset, sizes of named dimensions, shapes of inputs, the outputs to keep.

    Raises TypeError and ValueError for invalid values.
    """

    opset: Annotated[int | None, integer(1)] = None
    dims: Annotated[Mapping[str, int] | None, sizes] = None
    input_shapes: Annotated[Mapping[str, Sequence[int | None]] | None, shapes] = None
    outputs: Annotated[Sequence[str] | None, names] = None

    def __post_init__(self) -> None:
        _check(fields(self), vars(self))
        for name in _NUMBERS & vars(self).keys():
            object.__setattr__(self, name, plain(getattr(self, name)))

    @property
    def is_special(self) -> bool:
        """True for a model with fixed sizes, or with only some of the outputs."""
        return bool(self.dims or self.input_shapes or self.outputs)

    def in_context(self, context: PassContext) -> Self:
        """The same in a context, whose option `rules.opset` is another way to give the opset. Raises ArgumentError if the two differ."""
        opset: int | None = context.get_config("rules.opset")
        if opset is None or opset == self.opset:
            return self
        if self.opset is not None:
            raise ArgumentError(f"the opset is {self.opset}, and {opset} in the option rules.opset: give one of the two")
        return replace(self, opset=opset)


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings(Variant):
    """The settings of an optimization; `passat.optimize` describes them. Raises TypeError and ValueError for invalid values. Passes and
    rules are checked when the pipeline is built."""

    passes: Passes = None
    rules: RulesLike = ()
    opt_level: Annotated[int | None, integer(0, MOST_LEVEL)] = None
    verify: Annotated[bool, _SWITCH] = True
    allow_unverified: Annotated[bool, _SWITCH] = False
    inputs: Annotated[
        Mapping[str, AnyValue] | PathLike | None,
        kind((*PATH, Mapping), "a mapping of names of inputs to arrays, or the path of a file of arrays"),
    ] = None
    rtol: Annotated[float | None, _FINITE] = None
    atol: Annotated[float | None, _FINITE] = None
    custom_ops: Annotated[Sequence[PathLike], sequence(PATH, "a list of paths of libraries")] = ()
    time_limit: Annotated[float | None, number("number of seconds", math.inf)] = None
    config: Annotated[Mapping[str, AnyValue] | None, kind(Mapping, "a mapping of options to values")] = None
    cost: CostName | CostModel | None = None
    choose: Annotated[Literal["cost", "time"], one_of("cost", "time")] = "cost"
    candidates: Annotated[int | None, integer(1)] = None
    seed: Annotated[int, integer(0)] = 0
    folder: Annotated[PathLike | None, FOLDER] = None
    progress: Annotated[Progress | None, kind(Callable, "a function of a string")] = None
    reproducer: Annotated[PathLike | None, FOLDER] = None
    instruments: Annotated[Sequence[PassInstrument], sequence(object, "a list of PassInstrument objects")] = ()
    record: Annotated[bool, _SWITCH] = False
    explain: Annotated[bool, _SWITCH] = False
    certificate: Annotated[bool, _SWITCH] = False
    kernels: Annotated[bool, _SWITCH] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_effects(vars(self))
        for name in ("time_limit", "cost"):
            option, value = f"rules.{name}", getattr(self, name)
            if value is not None and option in (self.config or {}) and (self.config or {})[option] != value:
                raise ArgumentError(
                    f"{as_keyword(name, value)} and {(self.config or {})[option]!r} in the option {option} contradict each other"
                )

    @property
    def options(self) -> dict[str, AnyValue]:
        """The options of the pass context."""
        limit = {} if self.time_limit is None else {"rules.time_limit": float(self.time_limit)}
        return {**(self.config or {}), **limit, **({} if self.cost is None else {"rules.cost": self.cost})}


def check_arguments(**given: object) -> None:
    """Checks arguments of other functions that are those of `passat.optimize`. Raises TypeError and ArgumentError."""
    _check([field for field in fields(Settings) if field.name in given], given)


def _check(described: Sequence[Field[AnyValue]], given: Mapping[str, object]) -> None:
    for field in described:
        value = given[field.name]
        for check in getattr(field.type, "__metadata__", ()):
            if value is not None or field.default is not None:
                check(field.name, value)


_ELSEWHERE: Final = {
    "math": "config={'rules.math': ...}",
    "disable": "config={'rules.disabled': [...]}, or PassContext(disabled_pass=[...]) for passes",
    "output": "the method save(path) of the result",
}
"""Options of `passat optimize` that are no keywords, and what replaces them."""


def settings_of(function: str, keywords: Mapping[str, AnyValue]) -> Settings:
    """The settings of the keywords of a function. Raises TypeError and ValueError for those that `passat.optimize` does not take."""
    known = [field.name for field in fields(Settings)]
    for name in keywords:
        if name not in known:
            hint = f"; use {_ELSEWHERE[name]}" if name in _ELSEWHERE else did_you_mean(name, known)
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")
    return Settings(**keywords)
