"""What the manager knows of a pass without running it, its name, its level, what it needs, what it establishes and what it keeps; and
what passes tell about their work: counters and remarks."""

import difflib
import threading
from collections.abc import Iterable, Mapping
from typing import Final, TypedDict

from passat.ir.passat_error import PassatError

REMARKS_LIMIT: Final = 1000
"""Different remarks that are kept of one pass; further ones are counted under one text, so that a long-lived process does not grow."""


class UnknownCounterError(PassatError, LookupError):
    """A counter that a pass records, but does not declare. The message gives the nearest of those that it declares."""


_LOCK: Final = threading.Lock()
_DECLARED: Final[dict[str, Mapping[str, str]]] = {}


def declare_counters(pass_name: str, counters: Mapping[str, str]) -> None:
    """Makes counters those of the passes of a name, beside those that are declared already. Raises TypeError for what is no mapping of
    strings to strings."""
    known = _DECLARED.get(pass_name)
    if known is counters:  # passes that are made again and again
        return
    if not isinstance(counters, Mapping) or not all(isinstance(text, str) for item in counters.items() for text in item):
        raise TypeError(f"counters are a mapping of names to descriptions, not {counters!r}")
    _DECLARED[pass_name] = {**known, **counters} if known else counters


def declared_counters(pass_name: str) -> dict[str, str]:
    """The counters that the passes of a name declare, each with its description."""
    return dict(_DECLARED.get(pass_name, {}))


def _check(pass_name: str, key: str, declared: Mapping[str, str]) -> None:
    if not any(key.startswith(name[:-1]) for name in declared if name.endswith("*")):
        near = difflib.get_close_matches(key, declared, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it declares: {', '.join(declared)}"
        raise UnknownCounterError(f"the pass {pass_name} does not declare the counter {key!r}; {hint}")


class Statistics:
    """Counters and remarks by the name of the pass. Each context has its own; passes write through `ctx.record` and `ctx.remark`.

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
        """Adds to a counter; a counter starts at 0. Raises UnknownCounterError where passes of that name declare others, but not it."""
        declared = _DECLARED.get(pass_name)
        if declared is not None and key not in declared:
            _check(pass_name, key, declared)
        with _LOCK:  # a context may be shared by threads
            counters = self.counters.setdefault(pass_name, {})
            counters[key] = counters.get(key, 0) + amount

    def remark(self, pass_name: str, text: str, times: int = 1) -> None:
        """Keeps a sentence, and how often it was said."""
        with _LOCK:
            remarks = self.remarks.setdefault(pass_name, {})
            if text not in remarks and len(remarks) >= REMARKS_LIMIT:
                text = "(further remarks)"
            remarks[text] = remarks.get(text, 0) + times

    def add(self, other: "Statistics") -> None:
        """Adds all that another one has."""
        with _LOCK:
            counters = [(name, key, amount) for name, found in other.counters.items() for key, amount in found.items()]
            remarks = [(name, text, times) for name, found in other.remarks.items() for text, times in found.items()]
        for name, key, amount in counters:
            self.record(name, key, amount)
        for name, text, times in remarks:
            self.remark(name, text, times)

    def copy(self) -> "Statistics":
        """Statistics that have counted as much."""
        copied = Statistics()
        copied.add(self)
        return copied

    def to_dict(self) -> dict[str, dict[str, dict[str, float]]]:
        """Plain data: `{"counters": {pass: {key: number}}, "remarks": {pass: {text: times}}}`."""
        return {
            "counters": {name: dict(counters) for name, counters in self.counters.items()},
            "remarks": {name: dict(remarks) for name, remarks in self.remarks.items()},
        }


EVERYTHING: Final = "*"
"""In `preserves`: the pass invalidates nothing."""


class Place(TypedDict, total=False):
    """Where a pass asks to stand: names of passes that come before it, and of those that come after it."""

    after: Iterable[str]
    before: Iterable[str]


class Declarations(Place, total=False):
    """What a pass may declare beside its name, level and requirements (PassInfo)."""

    provides: Iterable[str]
    preserves: Iterable[str]
    counters: Mapping[str, str] | None


class PassInfo:
    """The data of a pass, under TVM's names, and the facts that let the manager run a required pass once instead of every time.

    `required` names the passes that must have run before. `traceable` is accepted and ignored.

    A *fact* is a word for a state of the module that later passes rely on, such as "types" (every expression has its type) or
    "anf". `provides` lists the facts that hold after the pass; `preserves` the facts that hold after it where they held before,
    or `"*"` for all of them (then the pass keeps what every other pass did). A pass that declares nothing keeps nothing:
    what it follows is taken to be undone, and runs again before the next pass that requires it.

    `after` and `before` name passes that this one stands behind, and in front of, where the order of a pipeline is computed
    (`passat.passmgr.planning.places`): the default pipeline, and where a user's own pass lands in a pipeline. A Sequential runs its list.

    `counters` names what the pass counts (`ctx.record`), with a description each; a name that ends in `*` stands for all that begin
    so. A pass that declares counters may record no others.

    Raises TypeError for a level that is no integer, a name that is no string, lists that are no lists of strings, and counters that
    are no mapping of strings.

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
            raise TypeError(f"the opt_level of a pass is an integer, not {opt_level!r}")
        if not isinstance(name, str):
            raise TypeError(f"the name of a pass is a string, not {name!r}")
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
        """Whether a fact that held before the pass holds after it."""
        return EVERYTHING in self.preserves or fact in self.preserves or fact in self.provides

    def __repr__(self) -> str:
        required = "[\n" + "".join(f"{name}, " for name in self.required) + "]" if self.required else "[]"
        return f"The meta data of the pass - pass name: {self.name}, opt_level: {self.opt_level}, required passes: {required}\n"


class PipelineInfo(PassInfo):
    """The data of a pass that consists of others: by it instruments, which see nothing else of a pass, tell a pipeline from its members."""

    __slots__ = ()


def names_in(names: Iterable[str], what: str) -> list[str]:
    """A list of names that `what` was given. Raises TypeError where it is one string, or something in it is none."""
    if isinstance(names, str):
        raise TypeError(f"{what} is expected to be the type of list/tuple/set, not the one string {names!r}")
    names = list(names)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{what} is expected to hold names; {name!r} is none")
    return names
