"""What became of one region, as a recipe for its equals: which nodes stay, which are new, which constants are computed from which."""

from collections.abc import Sequence
from itertools import count
from typing import Final, NamedTuple

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Constant, Expr, Span, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import Type, refine
from passat.rules.engine.rebuild import parts_of
from passat.rules.regions.regions import Numbers, Region
from passat.rules.regions.traced import Trace, Traced

_NUMBERS: Final = count()
"""Recipes have numbers, so that what one made is known to the next pass without being looked at."""


class Instance(NamedTuple):
    """A region with what comes in: `values` are distinct and no constants, `tensors` are the region's and those that come in;
    `bindings` says for each input of the region which value (i) or tensor (~i) it is."""

    region: Region
    values: list[Expr]
    tensors: list[Tensor]
    bindings: list[int]

    @staticmethod
    def of(region: Region, incoming: Sequence[Expr]) -> "Instance":
        """The instance where these come in, one for each input."""
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
        """Equal for instances that differ only in the contents of constants."""
        types = tuple([numbers(value.checked_type) for value in self.values])
        added = tuple([(tensor.dtype, tensor.shape) for tensor in self.tensors[len(self.region.tensors) :]])
        return (self.region.key, tuple(self.bindings), types, added)


class Sample(NamedTuple):
    """A copy of an instance to solve, in which values are variables and constants are traced: its body, a tuple of the outputs."""

    trace: Trace
    variables: list[Var]
    copies: list[Expr]
    body: Tuple


def sample_of(instance: Instance) -> Sample:
    """The copy of an instance. Types are inferred anew where what comes in has a better type than it had."""
    region, trace = instance.region, Trace(instance.tensors)
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
            for part in parts_of(node)
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
    """A node of the result: operands are items before it; what it applies is an operator with attributes, a field, or a tuple.
    `origin` is the node of the region that it is, where it is one, and `typed` whether that has this type already; `span` the node
    whose place in the old program it takes, `named` whether with the names of its outputs."""

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
    """A value that comes in, or a constant, by its number."""

    kind: str
    number: int


class Recipe:
    """What became of a sample. `holds_for` tells whether it is right for another instance, `apply` makes that instance's nodes."""

    def __init__(self, trace: Trace, items: list[Item | Leaf], outputs: list[int]) -> None:
        self.trace = trace
        self.items = items
        self.outputs = outputs
        self.number = next(_NUMBERS)
        used = {item.number: None for item in items if type(item) is Leaf and item.kind == "value"}
        self.values = list(used)
        self.tensors = list({item.number: None for item in items if type(item) is Leaf and item.kind == "tensor"})

    def apply(self, instance: Instance, tensors: Sequence[Tensor]) -> tuple[list[Expr], list[Expr]]:
        """The nodes of the result for an instance, parts before wholes, and its outputs. What did not change is the same object."""
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
    """The recipe by which the body of a sample becomes the result; None where that is no tuple, or has a traced tensor where none may be.
    `nodes` are those of the region that the sample was made from."""
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
    for expr in post_order(*result.fields, parts_of=parts_of):
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
                tuple([known[id(part)] for part in parts_of(expr)]),
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
    """Whether these are a node's operands; a constant may stand as another object for the same tensor."""
    return all(
        own is part or (type(own) is Constant and type(part) is Constant and own.data is part.data)
        for own, part in zip(parts_of(expr), parts, strict=True)
    )
