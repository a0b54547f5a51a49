"""Recipes as JSON, for the cache: plain numbers and texts. Functions are named, and looked up among those of the rules at hand, so that
nothing in a file can make anything run."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.dtypes import to_numpy
from passat.ir.expr import Call, Constant, Expr, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.op import Op, get_op
from passat.ir.shape import ANY, Any, Dim, parse_dim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.rules.conditions import Condition
from passat.rules.engine.matching import same_type
from passat.rules.engine.rebuild import parts_of
from passat.rules.engine.report import EngineReport, RuleStatistics
from passat.rules.pattern import Computed, Pattern, PCall, PNumber, subterms
from passat.rules.regions.replay import Instance, Item, Leaf, Recipe, Sample
from passat.rules.regions.traced import CONTENT, SPLAT, UNIFORM, Folding, Literal, Opinion, Question, Slot, Trace, Traced

Functions = Mapping[str, Callable[..., AnyValue]]
_LITERAL_BYTES: Final = 1 << 16
"""Recipes with larger tensors of their own are not kept."""
_COUNTED: Final = (
    *("rounds", "nodes", "folded", "merged", "projected", "made_static", "lowered", "too_large", "alternatives"),
    *("cost_before", "cost_after"),
)


class NoTextError(Exception):
    """Something has no text, or a text says nothing; the recipe is made anew."""


def sample_key(sample: Sample) -> str:
    """A digest of what is to be solved: operators, attributes, types and sharing, without the contents of constants."""
    known: dict[int, str] = {}
    lines = [f"{variable.checked_type!r}" for variable in sample.variables]
    for i, variable in enumerate(sample.variables):
        known[id(variable)] = f"v{i}"
    lines += [f"{tensor.dtype} {tensor.shape}" for tensor in sample.trace.tensors[: sample.trace.given]]

    def name(part: AnyValue) -> str:
        traced = part.data if isinstance(part, Constant) else None
        return f"c{traced.number}" if isinstance(traced, Traced) else known[id(part)]

    for i, node in enumerate(sample.copies):
        applied = node.op.name if isinstance(node, Call) and isinstance(node.op, Op) else type(node).__name__
        detail = repr(node.attrs.key) if isinstance(node, Call) else str(node.index) if isinstance(node, TupleGetItem) else ""
        lines.append(f"{applied} {detail} {node.checked_type!r} {' '.join(map(name, parts_of(node)))}")
        known[id(node)] = f"n{i}"
    lines.append(" ".join(map(name, sample.body.fields)))
    return blake2b("\n".join(lines).encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()


def encode(recipe: Recipe, report: EngineReport, functions: Functions) -> str:
    """A recipe and what it counts. Raises NoTextError."""
    names = {function: name for name, function in functions.items()}
    return json.dumps(
        {
            "given": recipe.trace.given,
            "steps": [_step(step, names) for step in recipe.trace.steps],
            "keyed": list(recipe.trace.keyed),
            "same": recipe.trace.same(),
            "items": [_item(item) for item in recipe.items],
            "outputs": recipe.outputs,
            "stopped": report.stopped,
            "counts": {name: getattr(report, name) for name in _COUNTED},
            "rules": {name: asdict(statistics) for name, statistics in report.rules.items()},
        },
        separators=(",", ":"),
    )


def decode(text: str, report: EngineReport, functions: Functions, given: int) -> Recipe:
    """The recipe of a text for so many constants; what it counts goes to the report. Raises NoTextError for whatever is not one."""
    try:
        data = json.loads(text)
        if data["given"] != given:
            raise ValueError("the constants are others")
        trace = Trace([Tensor("bool", ())] * given)  # whose contents nobody looks at: `holds_for` gets its own
        trace.steps += [_read_step(step, functions) for step in data["steps"]]
        trace.keyed.update(dict.fromkeys(map(_count, data["keyed"])))
        trace.take_same(list(map(_count, data["same"])))
        recipe = Recipe(trace, list(map(_read_item, data["items"])), list(map(_count, data["outputs"])))
        report.stopped += map(str, data["stopped"])
        for name in _COUNTED:
            setattr(report, name, type(getattr(report, name))(data["counts"][name]))
        for name, counts in data["rules"].items():
            reasons = {str(reason): _count(times) for reason, times in counts["reasons"].items()}
            report.rules[str(name)] = RuleStatistics(
                _count(counts["matches"]), _count(counts["refused"]), _count(counts["unions"]), float(counts["seconds"]), reasons
            )
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
        raise NoTextError(str(error)) from error
    return recipe


def check(recipe: Recipe, instance: Instance, tensors: Sequence[Tensor]) -> None:
    """Raises NoTextError where a recipe does not make, from this instance, nodes of the types that it says and outputs of the region's."""
    try:
        for i, item in enumerate(recipe.items):
            if isinstance(item, Item) and not all(operand < i for operand in item.operands):
                raise NoTextError("an operand comes after its use")
            if isinstance(item, Item) and item.origin >= 0 and not _is_like(item, instance.region.nodes[item.origin]):
                raise NoTextError("a node that stays is another one")
        made = recipe.nodes_of(instance, tensors, fresh=True)
        infer_type(made[-1]) if made else None
        for item, node in zip(recipe.items, made, strict=True):
            if isinstance(item, Item) and item.type_ != infer_type(node).checked_type:
                raise NoTextError("a type differs")
        outputs = [made[output] for output in recipe.outputs]
        wanted = instance.region.outputs
        if not all(same_type(old.checked_type, new.checked_type) for old, new in zip(wanted, outputs, strict=True)):
            raise NoTextError("the type of an output differs")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise NoTextError(str(error)) from error


def _is_like(item: Item, node: Expr) -> bool:
    """Whether a node applies what an item says."""
    if item.typed and node.checked_type != item.type_:
        return False
    if isinstance(node, Call):
        return node.op is item.op and node.attrs == item.attrs
    return item.op is None and item.field == (node.index if isinstance(node, TupleGetItem) else -1)


# ---- steps


def _step(step: Question | Opinion | Folding | Literal, names: Mapping[Callable[..., AnyValue], str]) -> list[AnyValue]:
    if isinstance(step, Question):
        answer = step.answer
        if isinstance(answer, Tensor):
            answer = repr(answer.content_key())
        return [step.kind, step.tensor, ["bytes", answer.hex()] if isinstance(answer, bytes) else answer]
    if isinstance(step, Opinion):
        if step.function not in names:
            raise NoTextError(f"{step.function!r} is no function of the rules")
        args = [["slot", _type(arg.type_), arg.tensor] if isinstance(arg, Slot) else ["value", _value(arg)] for arg in step.args]
        return ["opinion", names[step.function], args, step.decides, step.answer]
    if isinstance(step, Literal):
        return ["literal", *_tensor(step.tensor)]
    return ["fold", step.op.name, step.operands, _attrs(step.attrs), _type(step.type_), step.opset, step.result, step.shape]


def _read_step(step: Sequence[AnyValue], functions: Functions) -> Question | Opinion | Folding | Literal:
    kind = step[0]
    if kind in (SPLAT, UNIFORM, CONTENT):
        answer = step[2]
        return Question(kind, _count(step[1]), bytes.fromhex(answer[1]) if isinstance(answer, list) else answer)
    if kind == "opinion":
        args = tuple(Slot(_read_type(arg[1]), _count(arg[2])) if arg[0] == "slot" else _read_value(arg[1]) for arg in step[2])
        return Opinion(functions[step[1]], args, bool(step[3]), step[4])
    if kind == "literal":
        return Literal(_read_tensor(*step[1:]))
    _, name, operands, attrs, type_, opset, result, shape = step
    return Folding(_op(name), _nested(operands), _read_attrs(attrs), _read_type(type_), _count(opset), _nested(result), _nested(shape))


def _item(item: Item | Leaf) -> list[AnyValue]:
    if isinstance(item, Leaf):
        return [item.kind, item.number]
    attrs = None if item.attrs is None else _attrs(item.attrs)
    op = None if item.op is None else item.op.name
    return [item.operands, op, attrs, item.field, _type(item.type_), item.origin, item.typed, item.span, item.named]


def _read_item(data: Sequence[AnyValue]) -> Item | Leaf:
    if len(data) == 2:
        if data[0] not in ("value", "tensor"):
            raise ValueError(f"there are no leaves of the kind {data[0]!r}")
        return Leaf(data[0], _count(data[1]))
    operands, op, attrs, field, type_, origin, typed, span, named = data
    return Item(
        tuple(map(_count, operands)),
        None if op is None else _op(op),
        None if attrs is None else _read_attrs(attrs),
        _count(field + 1) - 1,
        _read_type(type_),
        _count(origin + 1) - 1,
        bool(typed),
        _count(span + 1) - 1,
        bool(named),
    )


# ---- values


def _count(value: AnyValue) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no number of a thing")
    return value


def _op(name: str) -> Op:
    op = get_op(name)
    if op.stateful:
        raise ValueError(f"{name} is stateful")
    return op


def _nested(value: AnyValue) -> AnyValue:
    return tuple(map(_nested, value)) if isinstance(value, list) else value


def _value(value: AnyValue) -> AnyValue:
    if isinstance(value, Attrs):
        return {"attrs": _attrs(value)}
    if isinstance(value, tuple):
        return {"tuple": list(map(_value, value))}
    if type(value) is float:
        return {"float": value.hex()}
    if value is None or type(value) in (bool, int, str):
        return value
    raise NoTextError(f"{value!r} has no text")


def _read_value(value: AnyValue) -> AnyValue:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "attrs":
        return _read_attrs(content)
    return tuple(map(_read_value, content)) if kind == "tuple" else float.fromhex(content)


def _attrs(attrs: Attrs) -> list[AnyValue]:
    return [[name, _value(value)] for name, value in attrs.items()]


def _read_attrs(items: Sequence[AnyValue]) -> Attrs:
    return Attrs({str(name): _read_value(value) for name, value in items}) if items else EMPTY_ATTRS


def _type(type_: Type) -> AnyValue:
    if isinstance(type_, TupleType):
        return list(map(_type, type_.fields))
    if not isinstance(type_, TensorType):
        raise NoTextError(f"{type_!r} has no text")
    return {"dtype": type_.dtype, "shape": [_dim(dim) for dim in type_.shape]}


def _dim(dim: Dim) -> AnyValue:
    if isinstance(dim, int):
        return dim
    if isinstance(dim, Any):
        return None
    if parse_dim(repr(dim)) != dim:
        raise NoTextError(f"{dim!r} has no text")
    return repr(dim)


def _read_type(data: AnyValue) -> Type:
    if isinstance(data, list):
        return TupleType(map(_read_type, data))
    return TensorType(
        [ANY if dim is None else parse_dim(dim) if isinstance(dim, str) else _count(dim) for dim in data["shape"]], str(data["dtype"])
    )


def _tensor(tensor: Tensor) -> list[AnyValue]:
    if tensor.dtype == "string" or (not tensor.is_splat and tensor.nbytes > _LITERAL_BYTES):
        raise NoTextError("a tensor has no text")
    elements = np.asarray(tensor.uniform()) if tensor.is_splat and tensor.size else np.ascontiguousarray(tensor.numpy())
    return [tensor.dtype, list(tensor.shape), tensor.is_splat, base64.b64encode(elements.tobytes()).decode("ascii")]


def _read_tensor(dtype: str, shape: Sequence[int], is_splat: bool, text: str) -> Tensor:
    sizes = tuple(map(_count, shape))
    elements = np.frombuffer(base64.b64decode(text), to_numpy(dtype))
    if is_splat and elements.size:
        return Tensor.splat(elements.reshape(()), sizes, dtype)
    return Tensor.dense(elements.reshape(sizes), dtype)


def functions_in(values: Sequence[AnyValue]) -> Iterator[Callable[..., AnyValue]]:
    """The functions that conditions and computed attributes call, nested ones included."""
    stack = list(values)
    while stack:
        value = stack.pop()
        if isinstance(value, (Condition, Computed)):
            yield value.function
            stack += value.args
        elif isinstance(value, (tuple, list)):
            stack += value
        elif isinstance(value, Pattern):
            for node in subterms(value):
                stack += node.attrs.values() if isinstance(node, PCall) else [node.value] if isinstance(node, PNumber) else []
