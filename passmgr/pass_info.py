"""What the manager knows of a pass without running it: its name, its level, what it needs, what it establishes and what it keeps."""

from collections.abc import Iterable, Mapping
from typing import Final, TypedDict

from passat.passmgr.statistics import declare_counters

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
