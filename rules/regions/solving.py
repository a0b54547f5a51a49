"""Solving one region: what saturation makes of a sample of it, as a recipe."""

from typing import TYPE_CHECKING

from passat.rules.engine.report import EngineReport
from passat.rules.regions.regions import Region
from passat.rules.regions.replay import Recipe, Sample, recipe_of
from passat.rules.regions.traced import TracedFolder, TracedGraph

if TYPE_CHECKING:
    from passat.rules.engine.engine import Engine


def solve(engine: "Engine", sample: Sample, region: Region, report: EngineReport) -> Recipe:
    """The recipe for the region that a sample was made of. What the engine does goes to the report."""
    folder = None
    if engine.fold:
        folder = TracedFolder(sample.trace, engine.max_growth, static=engine.static, exact=engine.exact, opset=engine.opset)
    graph = TracedGraph(sample.trace, folder)
    result = engine.optimise(graph, graph.load(sample.body), sample.body, report)
    return recipe_of(sample, region.nodes, result) or unchanged(sample, region)


def unchanged(sample: Sample, region: Region) -> Recipe:
    """The recipe by which a region stays as it is."""
    recipe = recipe_of(sample, region.nodes, sample.body)
    assert recipe is not None, "the sample itself is a tuple of operators on variables and traced constants"
    return recipe
