"""Recipes across runs, in an SQLite file in the user's cache folder (passat.rules.cache_folder).

A key says everything that a recipe follows from but the answers about constants, which the recipe has: the region, the rules and the
sources of their functions, limits, cost model, versions. A cache is never a reason to fail: what cannot be read or written is as if it
were not there, and a file of another version, or one that is damaged, is made anew, with one line of notice.
"""

import contextlib
import functools
import importlib.metadata
import inspect
import sqlite3
import sys
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

import numpy as np

from passat.rules.cache_folder import cache_folder
from passat.rules.cost import NodeCount, Roofline
from passat.rules.engine.matching import Matcher
from passat.rules.regions.recipe_text import NoTextError, check, decode, encode, functions_in, sample_key
from passat.rules.regions.replay import Instance, Recipe, Sample

if TYPE_CHECKING:
    from passat.ir.tensor import Tensor
    from passat.rules.engine.engine import Engine, EngineReport

VERSION: Final = 1
"""Of the tables and of the texts in them."""
FILE: Final = "recipes.sqlite"
_LONGEST: Final = 1 << 24
"""Characters of a text that is read at most."""
_APPLICATION: Final = 0x50535243
_REPEATED: Final = ("nodes:", "matches:", "rounds:")
"""Limits that are reached at the same place in each run."""
_WAIT: Final = 5.0
"""Seconds to wait for another process that writes."""


class RecipeStore:
    """The cache in one folder. `notices` has a line for each time that the file had to be made anew."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = (cache_folder() if folder is None else folder) / FILE
        self.notices: list[str] = []

    def find(self, engine: "Engine", sample: Sample, instance: Instance, report: "EngineReport") -> tuple[Recipe, "list[Tensor]"] | None:
        """A recipe that is right for an instance, with its tensors; what it counts goes to the report."""
        identity = identity_of(engine)
        if identity is None:
            return None
        for text in self._read(_key(identity, sample)):
            own = type(report)()
            try:
                recipe = decode(text, own, identity.functions, sample.trace.given)
                tensors = recipe.trace.holds_for(instance.tensors)
                if tensors is None:
                    continue
                check(recipe, instance, tensors)
            except Exception:  # functions and kernels may raise anything where a text asks them nonsense
                continue
            report.add(own)
            return recipe, tensors
        return None

    def keep(self, engine: "Engine", sample: Sample, recipe: Recipe, report: "EngineReport") -> None:
        """Keeps a recipe that no failure has cut short, nor a limit that another run would reach elsewhere."""
        identity = identity_of(engine)
        if identity is None or report.failures or not all(text.startswith(_REPEATED) for text in report.stopped):
            return
        with contextlib.suppress(NoTextError):
            self._write(_key(identity, sample), encode(recipe, report, identity.functions))

    # ---- the file

    def _read(self, key: str) -> list[str]:
        with self._guarded(), self._open() as database:
            rows = database.execute("SELECT text FROM recipes WHERE key = ? AND length(text) < ?", (key, _LONGEST)).fetchall()
            return [text for (text,) in rows if isinstance(text, str)]
        return []

    def _write(self, key: str, text: str) -> None:
        with self._guarded(), self._open() as database:
            database.execute("INSERT OR IGNORE INTO recipes VALUES (?, ?)", (key, text))

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Does without the file where it cannot be used; where it is wrong in itself, it goes, with a notice."""
        try:
            yield
        except sqlite3.OperationalError:
            return  # locked, read-only, full, not to be opened
        except (_WrongFileError, sqlite3.DatabaseError) as error:
            with contextlib.suppress(OSError):
                self._path.unlink()
                what = str(error) if isinstance(error, _WrongFileError) else "it was damaged, or no SQLite file"
                self.notices.append(f"the cache {self._path} was made anew: {what}")
        except OSError:
            return

    def _open(self) -> "contextlib.closing[sqlite3.Connection]":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self._path, timeout=_WAIT, isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = OFF")  # nothing is lost that could not be made again
            found = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            if found == [0, 0] and not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                database.executescript(
                    "BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS recipes (key TEXT, text TEXT, PRIMARY KEY (key, text));"
                    f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT"
                )
            elif found != [_APPLICATION, VERSION]:
                raise _WrongFileError("it was of another version" if found[0] == _APPLICATION else "it was the file of another program")
        except BaseException:
            database.close()
            raise
        return contextlib.closing(database)


class _WrongFileError(Exception):
    """The file is another one; the text says which."""


# ---- keys


class Identity:
    """What recipes of an engine follow from, as a text, and the functions of its rules by name."""

    def __init__(self, text: str, functions: dict[str, Callable[..., AnyValue]]) -> None:
        self.text = text
        self.functions = functions


def identity_of(engine: "Engine") -> Identity | None:
    """The identity of an engine; None where something in it has none: a function without source, a cost model of the user's own."""
    model = engine.model
    if type(model) not in (Roofline, NodeCount):
        return None
    rules = _rules_text(tuple(engine.matchers), tuple(grouper.matcher for grouper in engine.groupers))
    if rules is None:
        return None
    machine = model.machine if isinstance(model, Roofline) else ""
    settings = (engine.fold, engine.static, engine.max_growth, engine.exact_seconds > 0, type(model).__name__, machine)
    limits = engine.limits._replace(seconds=0.0, memory=0.0)
    return Identity(f"{rules.text}\n{settings}\n{limits}", rules.functions)


@functools.lru_cache(maxsize=64)
def _rules_text(matchers: tuple[Matcher, ...], probes: tuple[Matcher, ...]) -> Identity | None:
    functions: dict[str, Callable[..., AnyValue]] = {}
    lines = [_version(), np.__version__]
    for matcher in (*matchers, *probes):
        rule = matcher.rule
        lines.append(f"{rule.name} {rule!r} {rule.conditions!r} {rule.math} {rule.reducing}")
        for function in functions_in([*rule.conditions, rule.lhs, rule.rhs]):
            functions[f"{function.__module__}.{function.__qualname__}"] = function
    modules = {"passat.rules.library"} | {function.__module__ for function in functions.values()}
    for name in sorted(modules):
        try:
            lines.append(inspect.getsource(sys.modules[name]))
        except (KeyError, OSError, TypeError):
            return None
    names = set(functions)
    if any(functions[name].__name__ == "<lambda>" or "<locals>" in name for name in names):
        return None
    return Identity(blake2b("\n".join(lines).encode("utf-8", "surrogatepass"), digest_size=20).hexdigest(), functions)


def _version() -> str:
    """Of Passat; nothing, where it is not installed."""
    try:
        return importlib.metadata.version("passat")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _key(identity: Identity, sample: Sample) -> str:
    return blake2b(f"{identity.text}\n{sample_key(sample)}".encode(), digest_size=20).hexdigest()
