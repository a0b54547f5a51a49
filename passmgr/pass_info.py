"""Pass metadata: name, level, requirements, and established and preserved facts; and what passes report: counters and remarks."""

import threading
from collections.abc import Iterable, Mapping
from typing import Final, TypedDict

from passat.ir.passat_error import PassatError
from passat.ir.similar_names import did_you_mean

REMARKS_LIMIT: Final = 1000
"""Maximum number of distinct remarks per pass. Further ones are counted together, to bound memory in long-lived processes."""


class UnknownCounterError(PassatError, LookupError):
    """A pass records a counter that it does not declare. The message suggests the most similar declared one."""


_LOCK: Final = threading.Lock()
_DECLARED: Final[dict[str, Mapping[str, str]]] = {}


def declare_counters(pass_name: str, counters: Mapping[str, str]) -> None:
    """Declares counters of the passes of a name, in addition to existing ones. Raises TypeError unless given a mapping of strings to
    strings."""
    known = _DECLARED.get(pass_name)
    if known is counters:  # fast path for passes that are created repeatedly
        return
    if not isinstance(counters, Mapping) or not all(isinstance(text, str) for item in counters.items() for text in item):
        raise TypeError(f"counters must be a mapping of names to descriptions, not {counters!r}")
    _DECLARED[pass_name] = {**known, **counters} if known else counters


def declared_counters(pass_name: str) -> dict[str, str]:
    """Returns the declared counters of the passes of a name, with their descriptions."""
    return dict(_DECLARED.get(pass_name, {}))


def _check(pass_name: str, key: str, declared: Mapping[str, str]) -> None:
    if not any(key.startswith(name[:-1]) for name in declared if name.endswith("*")):
        hint = did_you_mean(key, declared, 1) or f"; it declares: {', '.join(declared)}"
        raise UnknownCounterError(f"the pass {pass_name} does not declare the counter {key!r}{hint}")


class Statistics:
    """Counters and remarks by pass name. Each context has its own; passes write to it by `ctx.record` and `ctx.remark`.

    >>> statistics = Statistics()
    >>> statistics.record("FoldConstant", "merged", 2)
    >>> statistics.record("FoldConstant", "merged")
    >>> statistics.counters
    {'FoldConstant': {'merged': 3}}
    """

    __slots__ = ("counters", "remarks")

    def __init__(self) -> None:
        self.counters: dict[str, dict[str, float]] = {}
        self.remarks: dict[str, dict[str, int]] = {}

    def record(self, pass_name: str, key: str, amount: float = 1) -> None:
        """Adds to a counter, which starts at 0. Raises UnknownCounterError if passes of that name declare counters but not this one."""
        declared = _DECLARED.get(pass_name)
        if declared is not None and key not in declared:
            _check(pass_name, key, declared)
        with _LOCK:  # a context may be shared between threads
            counters = self.counters.setdefault(pass_name, {})
            counters[key] = counters.get(key, 0) + amount

    def remark(self, pass_name: str, text: str, times: int = 1) -> None:
        """Stores a remark with its number of occurrences."""
        with _LOCK:
            remarks = self.remarks.setdefault(pass_name, {})
            if text not in remarks and len(remarks) >= REMARKS_LIMIT:
                text = "(further remarks)"
            remarks[text] = remarks.get(text, 0) + times

    def add(self, other: "Statistics") -> None:
        """Adds the contents of other statistics."""
        with _LOCK:
            counters = [(name, key, amount) for name, found in other.counters.items() for key, amount in found.items()]
            remarks = [(name, text, times) for name, found in other.remarks.items() for text, times in found.items()]
        for name, key, amount in counters:
            self.record(name, key, amount)
        for name, text, times in remarks:
            self.remark(name, text, times)

    def copy(self) -> "Statistics":
        """Returns a copy."""
        copied = Statistics()
        copied.add(self)
        return copied

    def to_dict(self) -> dict[str, dict[str, dict[str, float]]]:
        """Returns plain data: `{"counters": {pass: {key: number}}, "remarks": {pass: {text: times}}}`."""
        return {
            "counters": {name: dict(counters) for name, counters in self.counters.items()},
            "remarks": {name: dict(remarks) for name, remarks in self.remarks.items()},
        }


EVERYTHING: Final = "*"
"""In `preserves`: the pass preserves all facts."""


class Place(TypedDict, total=False):
    """The position that a pass declares: names of passes that come before it and after it."""

    after: Iterable[str]
    before: Iterable[str]


class Declarations(Place, total=False):
    """What a pass may declare in addition to name, level and requirements (PassInfo)."""

    provides: Iterable[str]
    preserves: Iterable[str]
    counters: Mapping[str, str] | None


class PassInfo:
    """The metadata of a pass, with TVM's names, and the facts that let the manager run a required pass once instead of every time.

    `required` names the passes that must have run before. `traceable` is accepted and ignored.

    A *fact* names a state of the module that later passes rely on, such as "types" (every expression has a type) or "anf". `provides` lists
    the facts that hold after the pass. `preserves` lists the facts that still hold after it if they held before, or `"*"` for all facts
    (the pass then also preserves the effect of every other pass). A pass that declares nothing preserves nothing: earlier passes count as
    undone, and run again before the next pass that requires them.

    `after` and `before` name passes that come before and after this one where the order of a pipeline is computed
    (`passat.passmgr.planning.places`): in the default pipeline, and where a user's pass is inserted into a pipeline. A Sequential keeps the
    order of its list.

    `counters` maps the counters of the pass (`ctx.record`) to descriptions; a name that ends in `*` is a prefix. A pass that declares
    counters must not record others.

    Raises TypeError for a level that is not an integer, a name that is not a string, and for lists and mappings of the wrong type.

    >>> PassInfo(2, "FoldConstant", ["InferType"]).required
    ('InferType',)
    """

    __slots__ = ("after", "before", "counters", "name", "opt_level", "preserves", "provides", "required", "traceable")

    def __init__(
        self,
        opt_level: int,
        name: str,
        required: Iterable[str] | None = None,
        traceable: bool = False,
        *,
        provides: Iterable[str] = (),
        preserves: Iterable[str] = (),
        counters: Mapping[str, str] | None = None,
        after: Iterable[str] = (),
        before: Iterable[str] = (),
    ) -> None:
        if not isinstance(opt_level, int):
            raise TypeError(f"the opt_level of a pass must be an integer, not {opt_level!r}")
        if not isinstance(name, str):
            raise TypeError(f"the name of a pass must be a string, not {name!r}")
        if required is not None and not isinstance(required, (list, tuple)):
            raise TypeError("Required is expected to be the type of list/tuple.")
        self.opt_level = opt_level
        self.name = name
        self.required = tuple(names_in(required or (), "required"))
        self.traceable = traceable
        self.provides = frozenset(names_in(provides, "provides"))
        self.preserves: frozenset[str] = frozenset((EVERYTHING,) if preserves == EVERYTHING else names_in(preserves, "preserves"))
        self.after = tuple(names_in(after, "after"))
        self.before = tuple(names_in(before, "before"))
        self.counters: Mapping[str, str] = counters or {}
        if counters and name:
            declare_counters(name, counters)

    def keeps(self, fact: str) -> bool:
        """Whether the pass preserves a fact."""
        return EVERYTHING in self.preserves or fact in self.preserves or fact in self.provides

    def __repr__(self) -> str:
        required = "[\n" + "".join(f"{name}, " for name in self.required) + "]" if self.required else "[]"
        return f"The meta data of the pass - pass name: {self.name}, opt_level: {self.opt_level}, required passes: {required}\n"


class PipelineInfo(PassInfo):
    """The metadata of a pipeline, which lets instruments distinguish pipelines from other passes."""

    __slots__ = ()


class StageInfo(PipelineInfo):
    """The metadata of a stage, whose passes run as one. Instruments see each of them start and end, but the last one does all the work, so
    time and results belong to the stage."""

    __slots__ = ()


def names_in(names: Iterable[str], what: str) -> list[str]:
    """Returns a list of names. Raises TypeError for anything else, such as a single string."""
    if isinstance(names, str):
        raise TypeError(f"{what} is expected to be the type of list/tuple/set, not the single string {names!r}")
    if not isinstance(names, Iterable):
        raise TypeError(f"{what} is expected to be the type of list/tuple/set, not {names!r}")
    names = list(names)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{what} must contain names, not {name!r}")
    return names
