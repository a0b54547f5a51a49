"""Recipes across runs (passat.rules.cache_file).

A key says everything that a recipe follows from but the answers about constants, which the recipe has: the region, the rules and the
sources of their functions, limits, cost model, versions.
"""

import contextlib
import functools
import importlib.metadata
import inspect
import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

import numpy as np

from passat.rules.cache_file import CacheFile
from passat.rules.cost import NodeCount, Roofline
from passat.rules.engine.matching import Matcher
from passat.rules.engine.report import EngineReport
from passat.rules.regions.recipe_text import NoTextError, check, decode, encode, functions_in, sample_key
from passat.rules.regions.replay import Instance, Recipe, Sample

if TYPE_CHECKING:
    from passat.ir.tensor import Tensor
    from passat.rules.engine.engine import Engine

VERSION: Final = 2
"""Of the table and of the texts in it."""
FILE: Final = "recipes.sqlite"
_LONGEST: Final = 1 << 24
"""Characters that a text has at most."""
_REPEATED: Final = ("nodes:", "matches:", "rounds:")
"""Limits that are reached at the same place in each run."""


class RecipeStore:
    """The cache in one folder. `notices` has a line for each time that the file had to be made anew."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = CacheFile(FILE, "recipes (key TEXT, text TEXT, PRIMARY KEY (key, text))", version=VERSION, folder=folder)
        self.notices = self._file.notices

    def find(self, engine: "Engine", sample: Sample, instance: Instance, report: EngineReport) -> tuple[Recipe, "list[Tensor]"] | None:
        """A recipe that is right for an instance, with its tensors; what it counts goes to the report."""
        identity = identity_of(engine)
        if identity is None:
            return None
        query = "SELECT text FROM recipes WHERE key = ? AND length(text) < ?"
        for (text,) in self._file.read(query, _key(identity, sample), _LONGEST):
            if not isinstance(text, str):
                continue
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

    def keep(self, engine: "Engine", sample: Sample, recipe: Recipe, report: EngineReport) -> None:
        """Keeps a recipe that no failure has cut short, nor a limit that another run would reach elsewhere."""
        identity = identity_of(engine)
        if identity is None or report.failures or not all(text.startswith(_REPEATED) for text in report.stopped):
            return
        with contextlib.suppress(NoTextError):
            text = encode(recipe, report, identity.functions)
            if len(text) < _LONGEST:
                self._file.write("INSERT OR IGNORE INTO recipes VALUES (?, ?)", _key(identity, sample), text)


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
    settings = (
        engine.fold,
        engine.static,
        engine.exact,
        engine.opset,
        engine.max_growth,
        engine.exact_seconds > 0,
        engine.rank,
        type(model).__name__,
        machine,
    )
    limits = engine.limits._replace(seconds=0.0, memory=0.0)
    return Identity(f"{rules.text}\n{settings}\n{limits}", rules.functions)


@functools.lru_cache(maxsize=64)
def _rules_text(matchers: tuple[Matcher, ...], probes: tuple[Matcher, ...]) -> Identity | None:
    functions: dict[str, Callable[..., AnyValue]] = {}
    lines = [_version(), np.__version__]
    for matcher in (*matchers, *probes):
        rule = matcher.rule
        lines.append(f"{rule.name} {rule!r} {rule.conditions!r} {rule.math} {rule.kind} {rule.matches}")
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
