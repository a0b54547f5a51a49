"""The engine on large functions: region by region, equal regions once."""

import copy
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from passat.ir.expr import Expr, Function, Tuple
from passat.ir.tensor import Tensor
from passat.ir.types import TupleType
from passat.rules.engine.rebuild import parts_of
from passat.rules.engine.report import EngineReport
from passat.rules.regions.regions import Numbers, Region, cut, edges_of, key_of, repeats
from passat.rules.regions.replay import Instance, Recipe, recipe_of, sample_of
from passat.rules.regions.traced import TracedGraph

if TYPE_CHECKING:
    from passat.rules.engine.engine import Engine

REGION_NODES: Final = 5000
"""Functions of more nodes are cut into regions, where nobody says otherwise."""
_LOOK: Final = 2000
"""So many nodes of a larger function are looked at before it is cut."""
_TRIED: Final = 8
"""So many recipes for regions of one structure are tried before one is solved anew; so many are kept."""

_REGIONS: Final[WeakKeyDictionary[Function, list[Region]]] = WeakKeyDictionary()
"""The regions of functions that were made from regions, so that the next pass need not look for them, nor at them."""

_LOOKED_AT: Final[WeakKeyDictionary[Function, tuple[int, bool]]] = WeakKeyDictionary()
"""For functions that were asked about: with which limit, and the answer (`is_for_regions`)."""


class _Memory:
    """Recipes by the structure of regions, for one run."""

    def __init__(self) -> None:
        self.recipes: dict[object, list[tuple[Recipe, EngineReport]]] = {}
        self.numbers = Numbers()


def run_regions(engine: "Engine", function: Function, report: EngineReport) -> Function | None:
    """The function, optimised region by region; None where it is to be taken whole: where it is more than pure dataflow, where there is no
    good place to cut, or where fewer than half of the regions are equal to others."""
    memory = _Memory()
    regions = _REGIONS.get(function)
    if regions is None and is_for_regions(function, engine.region_nodes):
        regions = cut(function, edges_of([*engine.matchers, *(grouper.matcher for grouper in engine.groupers)]))
        for region in regions or ():
            region.key = key_of(region, memory.numbers)
    if regions is None or 2 * len({region.key for region in regions}) > len(regions):
        return None
    replaced: dict[int, Expr] = {}
    results: list[tuple[Recipe, Instance, list[Tensor], list[Expr]]] = []
    run = _Run(engine, memory)
    for region in regions:
        instance = Instance.of(region, [replaced.get(id(value), value) for value in region.inputs])
        recipe, tensors = run.recipe(instance, report)
        nodes, outputs = recipe.apply(instance, tensors)
        replaced.update((id(old), new) for old, new in zip(region.outputs, outputs, strict=True) if old is not new)
        results.append((recipe, instance, tensors, nodes))
    report.regions += len(regions)
    made = function.with_body(_replace_results(function.body, replaced))
    kept = _regions_of(made.body, results)
    if kept is not None:
        _REGIONS[made] = kept
    return made


class _Run:
    """Recipes, found or made, within the limits of one saturation."""

    def __init__(self, engine: "Engine", memory: _Memory) -> None:
        self._engine = engine
        self._memory = memory
        self._start = time.perf_counter()

    def recipe(self, instance: Instance, report: EngineReport) -> tuple[Recipe, list[Tensor]]:
        """The recipe for an instance, and the tensors that its items number. Adds to the report what the recipe does."""
        key = instance.key(self._memory.numbers)
        known = self._memory.recipes.setdefault(key, [])
        for recipe, own in known:
            tensors = recipe.trace.holds_for(instance.tensors)
            if tensors is not None:
                report.replayed += 1
                report.add(own)
                return recipe, tensors
        own = type(report)()
        recipe = self._solve(instance, own)
        report.add(own)
        own.failures.clear()  # they are said once
        if len(known) < _TRIED:
            known.append((recipe, own))
        return recipe, recipe.trace.tensors

    def _solve(self, instance: Instance, report: EngineReport) -> Recipe:
        engine = copy.copy(self._engine)
        spent = time.perf_counter() - self._start
        engine.limits = engine.limits._replace(seconds=max(0.0, engine.limits.seconds - spent))
        engine.exact_seconds = max(0.0, engine.exact_seconds - spent)
        sample, nodes = sample_of(instance), instance.region.nodes
        graph = TracedGraph(sample.trace, engine.eager, engine.environment)
        result = engine.optimise(graph, graph.load(sample.body), sample.body, report)
        recipe = recipe_of(sample, nodes, result) or recipe_of(sample, nodes, sample.body)
        assert recipe is not None, "the sample itself is a tuple of operators on variables and traced constants"
        return recipe


def _replace_results(body: Expr, replaced: Mapping[int, Expr]) -> Expr:
    """The body of a function whose results have been replaced."""
    if type(body) is not Tuple:
        return replaced.get(id(body), body)
    fields = [replaced.get(id(field), field) for field in body.fields]
    if all(new is old for new, old in zip(fields, body.fields, strict=True)):
        return body
    return Tuple(fields, body.span).assume_type(TupleType(field.checked_type for field in fields))


def _regions_of(body: Expr, results: Sequence[tuple[Recipe, Instance, Sequence[Tensor], Sequence[Expr]]]) -> list[Region] | None:
    """The regions that recipes have made, known to be equal where they come from one recipe; None where that cannot be said."""
    used = set(map(id, body.fields if type(body) is Tuple else (body,)))
    regions: list[Region] = []
    for recipe, instance, tensors, nodes in reversed(results):
        outputs = [i for i, node in enumerate(nodes) if id(node) in used]
        if not outputs:
            continue
        inputs = [instance.values[number] for number in recipe.values]
        used.update(map(id, inputs))
        inside = [tensors[number] for number in recipe.tensors]
        if len(set(map(id, inside))) < len(inside):
            return None
        regions.append(Region(nodes, inputs, inside, [nodes[i] for i in outputs], (recipe.number, tuple(outputs))))
    return regions[::-1]


def is_for_regions(function: Function, nodes: int | None) -> bool:
    """Whether a function has more nodes than that, and a first look finds the same things again and again."""
    if nodes is None:
        return False
    limit, answer = _LOOKED_AT.get(function, (None, False))
    if limit != nodes:
        answer = _repeats_itself(function, nodes)
        _LOOKED_AT[function] = (nodes, answer)
    return answer


def _repeats_itself(function: Function, nodes: int) -> bool:
    seen: dict[int, Expr] = {}
    stack: list[Expr] = [function.body]
    while stack:
        expr = stack.pop()
        if id(expr) not in seen:
            seen[id(expr)] = expr
            if len(seen) > max(nodes, _LOOK):
                return repeats(list(islice(seen.values(), _LOOK)))
            stack += parts_of(expr)
    return len(seen) > nodes
