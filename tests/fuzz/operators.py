"""Random nodes of every operator: drawn from its schema, or, for operators with further requirements, by a function.

A draft may be invalid: then ONNX Runtime rejects it, and another one is drawn.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import onnx
from onnx.defs import OpSchema

from passat.ir.onnx.opaque import RANDOM
from tests.fuzz.builder import KINDS, Builder, Draft, Value
from tests.fuzz.values import FLOAT, NARROW

Recipe = Callable[[Builder, "Form"], Draft | None]
RECIPES: Final[dict[str, Recipe]] = {}
"""The functions that draw operands and attributes, by operator (with its domain unless that is ONNX's own); the default is `by_schema`."""
LEFT_OUT: Final = RANDOM - {"Dropout"} | {
    "Constant",
    "If",
    "Loop",
    "Scan",
    "SequenceMap",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
}
"""Operators whose results are random, and operators that `regions` draws."""
ATTEMPTS: Final = 12


def recipe(*ops: str) -> Callable[[Recipe], Recipe]:
    """Registers the function that draws some operators."""

    def register(function: Recipe) -> Recipe:
        RECIPES.update(dict.fromkeys(ops, function))
        return function

    return register


class Form:
    """A version of an operator: its schema, read as element types."""

    def __init__(self, name: str, schema: OpSchema | None) -> None:
        self.op = name
        self.schema = schema
        self.inputs = list(schema.inputs) if schema is not None else []
        self.attributes: Mapping[str, OpSchema.Attribute] = dict(schema.attributes) if schema is not None else {}
        self._types = {entry.type_param_str: entry.allowed_type_strs for entry in schema.type_constraints} if schema is not None else {}

    def kinds(self, index: int) -> frozenset[int]:
        """The element types that an input may have."""
        type_ = self.inputs[min(index, len(self.inputs) - 1)].type_str
        return frozenset(
            KINDS[inner] for text in self._types.get(type_, [type_]) if text.startswith("tensor(") and (inner := text[7:-1]) in KINDS
        )

    def has(self, attribute: str) -> bool:
        """True if the operator has an attribute in this version."""
        return attribute in self.attributes

    @property
    def version(self) -> int:
        """The version that introduced this form of the operator."""
        return self.schema.since_version if self.schema is not None else 1


@lru_cache(1024)
def form(op: str, opset: int) -> Form | None:
    """An operator in an opset; None if the opset lacks it."""
    if "::" in op:
        return Form(op, None)
    try:
        schema = onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        return None
    return None if schema.deprecated else Form(op, schema)


@lru_cache(64)
def operators(opset: int) -> tuple[str, ...]:
    """The operators that are drawn in an opset."""
    from tests.fuzz import foreign, layers, recipes, sequences  # noqa: F401  # importing registers the recipes

    names = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
    others = {name for name in RECIPES if "::" in name}
    return tuple(sorted(name for name in (names - LEFT_OUT) | others if form(name, opset) is not None))


def draw_node(graph: Builder, op: str) -> list[Value] | None:
    """Adds a node of an operator, or nothing if none of the drafts is accepted."""
    found = form(op, graph.opset)
    if found is None:
        return None
    function = RECIPES.get(op, by_schema)
    domain, _, name = op.rpartition("::")

    def draw() -> list[Value] | None:
        draft = function(graph, found)
        return graph.add(name, draft, domain) if draft is not None else None

    return next((results for _ in range(ATTEMPTS) if (results := graph.attempt(draw)) is not None), None)


# ---- from the schema alone


def by_schema(graph: Builder, form: Form) -> Draft:
    """Operands of types that the schema allows, with shapes that broadcast, and attributes by name."""
    inputs: list[Value | None] = []
    chosen: dict[str, int] = {}
    for i, formal in enumerate(form.inputs):
        option = formal.option
        if option == OpSchema.FormalParameterOption.Optional and graph.chance(0.4):
            inputs.append(None)
            continue
        count = graph.integer(max(formal.min_arity, 1), 4) if option == OpSchema.FormalParameterOption.Variadic else 1
        for _ in range(count):
            kinds = form.kinds(i)
            if not kinds:
                return Draft([])
            if formal.type_str in chosen and formal.is_homogeneous:
                kinds = frozenset({chosen[formal.type_str]})
            if inputs and inputs[0] is not None:
                kind = inputs[0].kind if inputs[0].kind in kinds else graph.kind(kinds)
                value = graph.partner(inputs[0], kind)
            else:
                value = graph.operand(kinds)
            chosen[formal.type_str] = value.kind
            inputs.append(value)
    while inputs and inputs[-1] is None:
        inputs.pop()
    first = next((value for value in inputs if value is not None), None)
    attrs = {
        name: value
        for name, attribute in form.attributes.items()
        if (attribute.required or graph.chance(0.6)) and (value := attribute_value(graph, name, attribute, first)) is not None
    }
    needed = sum(output.option == OpSchema.FormalParameterOption.Single for output in form.schema.outputs) if form.schema is not None else 1
    return Draft(inputs, attrs, max(needed, 1))


STRINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "direction": ("LEFT", "RIGHT"),
    "approximate": ("none", "tanh"),
    "reduction": ("none", "mean", "sum"),
    "case_change_action": ("LOWER", "UPPER", "NONE"),
}
"""String attributes of operators that are drawn from their schemas."""


def attribute_value(graph: Builder, name: str, attribute: OpSchema.Attribute, x: Value | None) -> Any:
    """A value for an attribute by its name and kind; None if there is none."""
    rank = x.rank if x is not None else 1
    if name == "axis":
        return graph.integer(-rank, rank - 1) if rank else 0
    if name == "axes":
        return axes(graph, rank)
    if name in ("to", "dtype", "output_dtype"):
        return int(graph.one_of([FLOAT, FLOAT, *sorted(set(KINDS.values()))]))
    match attribute.type:
        case OpSchema.AttrType.INT:
            return graph.one_of([0, 1] if attribute.default_value.i in (0, 1) else [0, 1, 2, -1])
        case OpSchema.AttrType.FLOAT:
            return abs(graph.number()) if graph.chance(0.7) else graph.number()
        case OpSchema.AttrType.STRING:
            return graph.one_of(STRINGS[name]) if name in STRINGS else None
        case OpSchema.AttrType.INTS:
            return [graph.integer(0, 2) for _ in range(graph.integer(1, 3))]
    return None


def axes(graph: Builder, rank: int, low: int = 0) -> list[int]:
    """Some distinct axes, counted from either end."""
    count = graph.integer(min(low, rank), rank)
    return [int(axis) - (rank if graph.chance(0.3) else 0) for axis in graph.random.permutation(rank)[:count]]


def from_the_front(graph: Builder, chosen: list[int], x: Value) -> list[int]:
    """The same axes, counted from the front if a tensor is empty: ONNX Runtime does not reduce empty tensors along negative axes."""
    if 0 in x.shape:
        return [axis % x.rank for axis in chosen]
    graph.never_empty |= any(axis < 0 for axis in chosen)
    return chosen


def not_narrow(kinds: frozenset[int]) -> frozenset[int]:
    """Element types without the narrow ones that only few operators accept."""
    return frozenset(kinds - NARROW)
