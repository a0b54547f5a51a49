"""Runs the engine on large functions region by region, and on equal regions once.

The result of a region is a recipe for equal regions: the nodes to keep, the nodes to create, and the constants to compute from others.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Constant, Expr, Function, Span, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TupleType, Type, refine
from passat.rules.engine.graph import operands_of
from passat.rules.engine.report import EngineReport
from passat.rules.regions.regions import Numbers, Region, cut, edges_of, key_of, repeats
from passat.rules.regions.traced import TensorTrace, Traced, TracedGraph

if TYPE_CHECKING:
    from passat.rules.engine.engine import Engine


_NUMBERS: Final = count()
"""Recipes are numbered, so that the next pass recognizes their results without comparing them."""


class Instance(NamedTuple):
    """A region with its inputs: `values` are distinct and not constant, `tensors` are the region's and the constant inputs; `bindings` maps
    each input of the region to a value (i) or tensor (~i)."""

    region: Region
    values: list[Expr]
    tensors: list[Tensor]
    bindings: list[int]

    @staticmethod
    def of(region: Region, incoming: Sequence[Expr]) -> "Instance":
        """The instance for these inputs."""
        values: dict[int, int] = {}
        distinct: list[Expr] = []
        tensors = list(region.tensors)
        places = {id(tensor): i for i, tensor in enumerate(tensors)}
        bindings: list[int] = []
        for value in incoming:
            if type(value) is Constant:
                place = places.setdefault(id(value.data), len(tensors))
                if place == len(tensors):
                    tensors.append(value.data)
                bindings.append(~place)
                continue
            number = values.setdefault(id(value), len(distinct))
            if number == len(distinct):
                distinct.append(value)
            bindings.append(number)
        return Instance(region, distinct, tensors, bindings)

    def key(self, numbers: Numbers) -> object:
        """A key that is equal for instances that differ only in the contents of constants."""
        types = tuple([numbers(value.checked_type) for value in self.values])
        added = tuple([(tensor.dtype, tensor.shape) for tensor in self.tensors[len(self.region.tensors) :]])
        return (self.region.key, tuple(self.bindings), types, added)


class Sample(NamedTuple):
    """A copy of an instance to solve, with variables for values and traced constants: its body, a tuple of the outputs."""

    trace: TensorTrace
    variables: list[Var]
    copies: list[Expr]
    body: Tuple


def sample_of(instance: Instance) -> Sample:
    """The copy of an instance. Infers types again if an input has a more precise type than before."""
    region, trace = instance.region, TensorTrace(instance.tensors)
    variables = [Var(f"in{i}", value.checked_type) for i, value in enumerate(instance.values)]
    constants: dict[int, Constant] = {}

    def constant(tensor: Tensor, number: int, span: Span | None) -> Constant:
        found = constants.get(number)
        if found is None:
            found = constants[number] = Constant(trace.wrap(number), span)
        return found

    places = {id(tensor): i for i, tensor in enumerate(instance.tensors)}
    known: dict[int, Expr] = {}
    for expr, binding in zip(region.inputs, instance.bindings, strict=True):
        known[id(expr)] = variables[binding] if binding >= 0 else constant(instance.tensors[~binding], ~binding, None)
    copies: list[Expr] = []
    for node in region.nodes:
        parts = [
            known[id(part)] if type(part) is not Constant else constant(part.data, places[id(part.data)], part.span)
            for part in operands_of(node)
        ]
        copy = _like(node, parts)
        known[id(node)] = copy
        copies.append(copy)
    body = Tuple([known[id(output)] for output in region.outputs])
    same = all(expr.checked_type == known[id(expr)].checked_type for expr in region.inputs)
    if not same:
        infer_type(body)
    for node, copy in zip(region.nodes, copies, strict=True):
        copy.assume_type(node.checked_type if same else refine(copy.checked_type, node.checked_type))
    infer_type(body.assume_type(None))
    return Sample(trace, variables, copies, body)


class Item(NamedTuple):
    """A node of the result: its operands are earlier items; it applies an operator with attributes, a projection, or a tuple. `origin` is
    the equal node of the region, if any, and `typed` says whether that node already has this type. `span` is the node whose source position
    it takes, and `named` says whether it also takes the output names."""

    operands: tuple[int, ...]
    op: Op | None
    attrs: Attrs | None
    field: int
    type_: Type
    origin: int
    typed: bool
    span: int
    named: bool


class Leaf(NamedTuple):
    """An input value or a constant, by number."""

    kind: str
    number: int


class Recipe:
    """The result of a sample. `holds_for` decides whether it applies to another instance, `apply` creates that instance's nodes."""

    def __init__(self, trace: TensorTrace, items: list[Item | Leaf], outputs: list[int]) -> None:
        self.trace = trace
        self.items = items
        self.outputs = outputs
        self.number = next(_NUMBERS)
        used = {item.number: None for item in items if type(item) is Leaf and item.kind == "value"}
        self.values = list(used)
        self.tensors = list({item.number: None for item in items if type(item) is Leaf and item.kind == "tensor"})

    def apply(self, instance: Instance, tensors: Sequence[Tensor]) -> tuple[list[Expr], list[Expr]]:
        """The result's nodes for an instance, operands first, and its outputs. Unchanged nodes keep their objects."""
        nodes = instance.region.nodes
        made: list[Expr] = []
        inside: list[Expr] = []
        for item in self.items:
            if type(item) is Leaf:
                made.append(instance.values[item.number] if item.kind == "value" else Constant(tensors[item.number]))
                continue
            assert isinstance(item, Item)
            parts = [made[operand] for operand in item.operands]
            expr = nodes[item.origin] if item.origin >= 0 and item.typed else None
            if expr is None or not _has_parts(expr, parts):
                expr = self._make(item, parts, nodes)
            made.append(expr)
            inside.append(expr)
        return inside, [made[output] for output in self.outputs]

    def _make(self, item: Item, parts: Sequence[Expr], nodes: Sequence[Expr]) -> Expr:
        span = nodes[item.span].span if item.span >= 0 else None
        if span is not None and not item.named:
            span = span._replace(outputs=())
        made: Expr
        if item.op is not None:
            made = Call(item.op, parts, item.attrs, span=span)
        else:
            made = TupleGetItem(parts[0], item.field, span) if item.field >= 0 else Tuple(parts, span)
        return made.assume_type(item.type_)


def recipe_of(sample: Sample, nodes: Sequence[Expr], result: Expr) -> Recipe | None:
    """The recipe that turns the body of a sample into the result; None if that is not a tuple, or has a traced tensor where none is
    allowed. `nodes` are those of the region that the sample was made from."""
    if type(result) is not Tuple or len(result.fields) != len(sample.body.fields):
        return None
    trace = sample.trace
    copies = {id(copy): i for i, copy in enumerate(sample.copies)}
    spans: dict[int, int] = {}
    bare: dict[Span, int] = {}
    for i, node in enumerate(nodes):
        if node.span is not None:
            spans.setdefault(id(node.span), i)
            bare.setdefault(node.span._replace(outputs=()), i)
    variables = {id(variable): i for i, variable in enumerate(sample.variables)}
    items: list[Item | Leaf] = []
    known: dict[int, int] = {}
    leaves: dict[Leaf, int] = {}
    for expr in post_order(*result.fields, parts_of=operands_of):
        if isinstance(expr, (Var, Constant)):
            if isinstance(expr, Var):
                leaf = Leaf("value", variables[id(expr)])
            else:
                data = expr.data if isinstance(expr.data, Traced) else trace.literal(expr.data)
                leaf = Leaf("tensor", data.number)
            if leaf not in leaves:
                leaves[leaf] = len(items)
                items.append(leaf)
            known[id(expr)] = leaves[leaf]
            continue
        call = expr if isinstance(expr, Call) else None
        if call is not None and any(isinstance(value, Traced) for value in call.attrs.values()):
            return None
        origin = copies.get(id(expr), -1)
        span = origin
        if origin < 0 and expr.span is not None:
            span = spans.get(id(expr.span), -1)
            if span < 0:
                span = bare.get(expr.span, -1)
        known[id(expr)] = len(items)
        items.append(
            Item(
                tuple([known[id(part)] for part in operands_of(expr)]),
                call.op if call is not None else None,  # type: ignore[arg-type]  # calls in a region are of operators
                call.attrs if call is not None else None,
                expr.index if isinstance(expr, TupleGetItem) else -1,
                expr.checked_type,
                origin,
                origin >= 0 and nodes[origin].checked_type == expr.checked_type,
                span,
                span >= 0 and expr.span == nodes[span].span,
            )
        )
    outputs = [known[id(field)] for field in result.fields]
    return Recipe(trace, items, outputs)


def _like(node: Expr, parts: Sequence[Expr]) -> Expr:
    """A node of the same kind on other operands, without a type."""
    if isinstance(node, Call):
        return Call(node.op, parts, node.attrs, span=node.span)
    return TupleGetItem(parts[0], node.index, node.span) if isinstance(node, TupleGetItem) else Tuple(parts, node.span)


def _has_parts(expr: Expr, parts: Sequence[Expr]) -> bool:
    """True if these are a node's operands; a constant may be another object with the same tensor."""
    return all(
        own is part or (type(own) is Constant and type(part) is Constant and own.data is part.data)
        for own, part in zip(operands_of(expr), parts, strict=True)
    )


REGION_NODES: Final = 5000
"""The default of `rules.region_nodes`."""
_LOOK: Final = 2000
"""Number of nodes of a larger function that are examined before it is cut."""
_TRIED: Final = 8
"""Maximum number of recipes per region structure that are tried and kept."""
_SHRUNK: Final = 4
"""The regions of a result are kept unless it has less than this part of the nodes."""

_REGIONS: Final[WeakKeyDictionary[Function, list[Region]]] = WeakKeyDictionary()
"""The regions of functions that were built from regions, so that the next pass need not compute them."""

_LOOKED_AT: Final[WeakKeyDictionary[Function, tuple[int, bool]]] = WeakKeyDictionary()
"""The results of `is_for_regions`, with the limit."""


def run_regions(engine: "Engine", function: Function, report: EngineReport) -> Function | None:
    """The function, optimized region by region. None if it must be processed whole: it is not pure dataflow, has no good place to cut, or
    fewer than half of the regions repeat."""
    numbers = Numbers()
    regions = _REGIONS.get(function)
    if regions is None and is_for_regions(function, engine.region_nodes):
        together = [grouper.matcher for stage in engine.stages for grouper in stage.groupers]
        regions = cut(function, edges_of([*(matcher for stage in engine.stages for matcher in stage.matchers), *together]))
        for region in regions or ():
            region.key = key_of(region, numbers)
    if regions is None or 2 * len({region.key for region in regions}) > len(regions):
        return None
    replaced: dict[int, Expr] = {}
    results: list[tuple[Recipe, Instance, list[Tensor], list[Expr]]] = []
    run = _Run(engine, numbers)
    for region in regions:
        instance = Instance.of(region, [replaced.get(id(value), value) for value in region.inputs])
        recipe, tensors = run.recipe(instance, report)
        nodes, outputs = recipe.apply(instance, tensors)
        replaced.update((id(old), new) for old, new in zip(region.outputs, outputs, strict=True) if old is not new)
        results.append((recipe, instance, tensors, nodes))
    report.regions += len(regions)
    made = function.with_body(_replace_results(function.body, replaced))
    kept = _regions_of(made.body, results)
    few = sum(len(nodes) for *_, nodes in results) * _SHRUNK < sum(len(region.nodes) for region in regions)
    if kept is not None and not few:  # few nodes are cut again: each region of a chain of one operator has become one node
        _REGIONS[made] = kept
    return made


class _Run:
    """Finds or creates recipes, within the limits of one saturation."""

    def __init__(self, engine: "Engine", numbers: Numbers) -> None:
        self._engine = engine
        self._numbers = numbers
        self._recipes: dict[object, list[tuple[Recipe, EngineReport]]] = {}
        """Recipes by region structure."""
        self._start = time.perf_counter()

    def recipe(self, instance: Instance, report: EngineReport) -> tuple[Recipe, list[Tensor]]:
        """The recipe for an instance, and the tensors that its items number. Adds the recipe's statistics to the report."""
        known = self._recipes.setdefault(instance.key(self._numbers), [])
        for recipe, own in known:
            tensors = recipe.trace.holds_for(instance.tensors)
            if tensors is not None:
                report.replayed += 1
                report.add(own)
                return recipe, tensors
        own = type(report)()
        recipe = self._solve(instance, own)
        report.add(own)
        own.failures.clear()  # reported once
        if len(known) < _TRIED:
            known.append((recipe, own))
        return recipe, recipe.trace.tensors

    def _solve(self, instance: Instance, report: EngineReport) -> Recipe:
        whole, spent = self._engine, time.perf_counter() - self._start
        limits = whole.limits._replace(seconds=max(0.0, whole.limits.seconds - spent))
        engine = replace(whole, limits=limits, exact_seconds=max(0.0, whole.exact_seconds - spent))
        sample, nodes = sample_of(instance), instance.region.nodes
        graph = TracedGraph(sample.trace, engine.eager, engine.environment)
        result = engine.optimize(graph, graph.load(sample.body), sample.body, report)
        recipe = recipe_of(sample, nodes, result) or recipe_of(sample, nodes, sample.body)
        assert recipe is not None, "the sample itself is a tuple of operators on variables and traced constants"
        return recipe


def _replace_results(body: Expr, replaced: Mapping[int, Expr]) -> Expr:
    """The body of a function with replaced results."""
    if type(body) is not Tuple:
        return replaced.get(id(body), body)
    fields = [replaced.get(id(field), field) for field in body.fields]
    if all(new is old for new, old in zip(fields, body.fields, strict=True)):
        return body
    return Tuple(fields, body.span).assume_type(TupleType(field.checked_type for field in fields))


def _regions_of(body: Expr, results: Sequence[tuple[Recipe, Instance, Sequence[Tensor], Sequence[Expr]]]) -> list[Region] | None:
    """The regions that recipes created; those from one recipe are known to be equal. None if they cannot be determined."""
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
    """True if a function has more nodes than the limit, and a sample of them repeats."""
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
            stack += operands_of(expr)
    return len(seen) > nodes
