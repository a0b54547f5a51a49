"""Regions solved ahead of their turn, in the workers of a context: those that differ, side by side.

A region can be solved ahead where what comes into it is what the program says: where the region before it gives it a better type, or a
constant, it is another one when its turn comes, and is solved then. What comes back is a recipe, which is looked at like one from the
cache; so results are those of one process, in whatever order the workers are done.

A region whose worker ended comes back as it was: it may be what ended it. What cannot travel is solved in this process.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from typing import Any as AnyValue

from passat.ir.collector import collector_paused
from passat.ir.expr import Constant, Expr, Var
from passat.ir.serialize import Encoded, decode, encode
from passat.ir.tensor import Tensor
from passat.ir.types import Type
from passat.passmgr import PassContext
from passat.passmgr.statistics import Statistics
from passat.passmgr.workers.crew import Batch, Crew, NotDoneError, WorkerLostError
from passat.passmgr.workers.parcels import CannotTravelError, Parcel, Settings, StatisticsLog, dumps, job_of, pack, remove, unpack
from passat.passmgr.workers.worker import kept_job
from passat.rules.engine.interruption import interrupted
from passat.rules.engine.limits import Limits
from passat.rules.engine.report import EngineReport
from passat.rules.regions import recipe_text
from passat.rules.regions.recipe_text import Functions, functions_in
from passat.rules.regions.regions import Numbers, Region
from passat.rules.regions.replay import Instance, Recipe, sample_of
from passat.rules.regions.solving import solve

if TYPE_CHECKING:
    from passat.rules.engine.engine import Engine
    from passat.rules.rule_pass import RulePass


class _FlatRegion(NamedTuple):
    """A region upon nodes that come in, of which only types are told. The roots are its nodes, then constants of its tensors; `outputs`
    are numbers among its nodes."""

    encoded: Encoded
    incoming: list[Type]
    nodes: int
    outputs: list[int]


class _Task(NamedTuple):
    """What a worker is told: the pass with its settings, what is left of its limits, and a region."""

    job: bytes
    limits: Limits
    exact_seconds: float
    region: Parcel


class _Answer(NamedTuple):
    """What a worker says: a recipe as a text, and what it counted."""

    text: str
    report: EngineReport


class RegionWorkers:
    """The workers of a context, for the regions of a pass."""

    def __init__(self, crew: Crew, pass_: "RulePass", ctx: PassContext) -> None:
        self._crew = crew
        self._pass = pass_
        self._ctx = ctx

    @staticmethod
    def of(pass_: "RulePass", ctx: PassContext) -> "RegionWorkers | None":
        """Those of a context; None where it has none, and where operators are measured, as times taken side by side are wrong."""
        crew = Crew.of(ctx)
        return None if crew is None or ctx.get_config("rules.cost") == "measured" else RegionWorkers(crew, pass_, ctx)

    def hand_out(self, engine: "Engine", instances: dict[object, Instance], ahead: "Ahead") -> None:
        """Hands out instances; none where they have too few nodes, or cannot travel."""
        if sum(len(each.region.nodes) for each in instances.values()) < self._ctx.get_config("passmgr.workers_from"):
            return
        try:
            ahead.hand_out(self._crew, job_of(self._pass, Settings.of(self._ctx)), engine, instances)
        except (CannotTravelError, NotDoneError, OSError) as error:
            ahead.notes.append(f"regions were solved in this process, not in workers: {error}")


@contextmanager
def looking_ahead(engine: "Engine", regions: Sequence[Region], numbers: Numbers) -> Iterator["Ahead"]:
    """Hands out the regions that differ, and are in no cache, where there are workers, and at least two such regions."""
    ahead = Ahead()
    try:
        if engine.region_workers is not None:
            different: dict[object, Instance] = {}
            for region in regions:
                instance = Instance.of(region, region.inputs)
                different.setdefault(instance.key(numbers), instance)
            if engine.store is not None:
                different = {key: each for key, each in different.items() if not _is_remembered(engine, each)}
            if len(different) > 1:
                engine.region_workers.hand_out(engine, different, ahead)
        yield ahead
    except BaseException:  # Ctrl-C among them
        ahead.close(at_once=True)
        raise
    ahead.close(at_once=interrupted())


def _is_remembered(engine: "Engine", instance: Instance) -> bool:

    return engine.store is not None and engine.store.find(engine, sample_of(instance), instance, EngineReport()) is not None


class Ahead:
    """Regions that are being solved, by the keys of their instances. `notes` tells of those that were not."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._functions: Functions = {}
        self._places: dict[object, int] = {}
        self._parcels: list[Parcel] = []
        self._batch: Batch | None = None

    def hand_out(self, crew: Crew, job: bytes, engine: "Engine", instances: dict[object, Instance]) -> None:
        """Hands out instances. Raises CannotTravelError, NotDoneError, OSError."""
        in_file = crew.executor is None or isinstance(crew.executor, ProcessPoolExecutor)
        tasks: list[bytes] = []
        for instance in instances.values():
            self._parcels.append(pack(_flat(instance.region), "a region", in_file=in_file))
            tasks.append(dumps(_Task(job, engine.limits, engine.exact_seconds, self._parcels[-1]), "a region"))
        self._functions = functions_of(engine)
        self._batch = Batch(crew, solve_region, tasks, interrupted)
        self._places = {key: place for place, key in enumerate(instances)}

    def solved(self, key: object, instance: Instance, report: EngineReport) -> tuple[Recipe, list[Tensor]] | None:
        """The recipe for an instance, with its tensors, once its worker is done; None where it is to be solved here. What it counts goes to
        the report. Raises WorkerLostError where the region is to stay as it is."""
        place = self._places.pop(key, None)
        if place is None or self._batch is None:
            return None
        try:
            answer: _Answer = pickle.loads(self._batch.result(place))
            recipe = recipe_text.decode(answer.text, type(report)(), self._functions, len(instance.tensors))
            tensors = recipe.trace.holds_for(instance.tensors)
            if tensors is None:
                return None
            recipe_text.check(recipe, instance, tensors)
        except WorkerLostError as lost:
            self.notes.append(f"a region of {len(instance.region.nodes)} nodes stays as it was: {lost}")
            raise
        except Exception as error:  # of what came from elsewhere: another version, say
            self.notes.append(f"a region was solved in this process: {error}")
            return None
        report.add(answer.report)
        return recipe, tensors

    def close(self, *, at_once: bool = False) -> None:
        """Lets go of what has not been asked for; `at_once` also of what is being done."""
        if self._batch is not None:
            self._batch.close(at_once=at_once)
        for parcel in self._parcels:
            remove(parcel)


def solve_region(task: bytes) -> bytes:
    """What a worker does. Raises what the pass raises, CannotTravelError and NoTextError."""
    from passat.rules.rule_pass import RulePass

    job, limits, exact_seconds, parcel = pickle.loads(task)
    pass_, settings = kept_job(job)
    assert isinstance(pass_, RulePass)
    ctx = settings.context(StatisticsLog(Statistics()))
    engine = ctx.run(pass_._engine, ctx)
    engine.limits, engine.exact_seconds = limits, exact_seconds
    region = _region(unpack(parcel))
    with collector_paused():
        sample = sample_of(Instance.of(region, region.inputs))
        report = EngineReport()
        recipe = solve(engine, sample, region, report)
        names = functions_of(engine)
        return pickle.dumps(_Answer(recipe_text.encode(recipe, type(report)(), names), report))


def functions_of(engine: "Engine") -> dict[str, Callable[..., AnyValue]]:
    """The functions of an engine's rules by names that mean the same in every process."""
    rules = [each.rule for each in (*engine.matchers, *(grouper.matcher for grouper in engine.groupers), *engine.lowering)]
    found = dict.fromkeys(function for rule in rules for function in functions_in([*rule.conditions, rule.lhs, rule.rhs]))
    return {f"{number} {function.__module__}.{function.__qualname__}": function for number, function in enumerate(found)}


def _flat(region: Region) -> _FlatRegion:
    roots: list[Expr] = [*region.nodes, *map(Constant, region.tensors)]
    places = {id(node): place for place, node in enumerate(region.nodes)}
    encoded, _ = encode(roots, region.inputs)
    return _FlatRegion(encoded, [value.checked_type for value in region.inputs], len(region.nodes), [places[id(o)] for o in region.outputs])


def _region(flat: _FlatRegion) -> Region:
    incoming = [Var(f"in{number}", type_) for number, type_ in enumerate(flat.incoming)]
    order = decode(flat.encoded, incoming)
    roots = [order[root] for root in flat.encoded.roots]
    nodes = roots[: flat.nodes]
    tensors = [root.data for root in roots[flat.nodes :] if isinstance(root, Constant)]
    return Region(nodes, incoming, tensors, [nodes[place] for place in flat.outputs])
