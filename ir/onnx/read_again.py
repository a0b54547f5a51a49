"""Imports opaque calls again, once their operands are known: from shapes, or because a few calls compute them from constants. What is known
of the values that the bodies of If, Loop and Scan capture is known in the bodies, too, and an If whose condition is known is its branch."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

import numpy as np
from onnx import FunctionProto

import passat.ir.ops  # noqa: F401  # importing registers the readers
from passat.ir.analysis import free_vars
from passat.ir.attrs import Attrs
from passat.ir.bind import bind
from passat.ir.evaluate import EvaluateError, Value, evaluate_call
from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from passat.ir.folding import keeps_bits
from passat.ir.infer import InferError, infer_type
from passat.ir.known import known_value
from passat.ir.onnx.attributes import has_invalid_text, is_readable, signature_of
from passat.ir.onnx.opaque import RESERVED, OpaqueOp, is_stateful, opaque_name, own_attributes
from passat.ir.onnx.scope import inner_nodes
from passat.ir.onnx.value_types import result_types
from passat.ir.onnx_mapping import READERS, OnnxNode
from passat.ir.op import KNOWN_LIMIT, Op, OpTypeError, get_op
from passat.ir.shape import static_size
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, TupleType, compatible

_PLAIN: Final = frozenset({"opset", "outputs", "types"})
"""The bookkeeping attributes of opaque calls with one output whose attributes can all be converted."""

_CAST: Final = get_op("cast")
_IF: Final = get_op("onnx.If")
_DEEPEST: Final = 4
"""Maximum depth of the calls that compute an operand from constants."""


def read_again(call: Call) -> Expr | None:
    """Returns the expression of Passat's own operators for an opaque call with one result; None if there is none.

    Operands whose elements are all known, and small ones that casts and exact kernels compute from constants, count as constants. The call
    must have a type.
    """
    op, attrs = call.op, call.attrs
    if not isinstance(op, OpaqueOp) or op.domain or attrs["outputs"] != "1" or not RESERVED.intersection(attrs) <= _PLAIN:
        return None
    reader = READERS.get(op.op_type)
    signature = signature_of(op.op_type, attrs["opset"])
    if reader is None or signature is None or not signature.least_inputs <= len(call.args) <= signature.most_inputs:
        return None
    if not is_readable(op.op_type, attrs["opset"]):
        return None
    own = own_attributes(attrs)
    if has_invalid_text(own):
        return None
    operands = [read_operand(arg) for arg in call.args]
    if any(value is not None and not isinstance(value.checked_type, TensorType) for value in operands):
        return None
    try:
        found = reader(OnnxNode(op.op_type, attrs["opset"], operands, own, 1, call.span))
        made = found[0] if isinstance(found, Sequence) and len(found) == 1 else found
        if not isinstance(made, Expr):
            return None
        if isinstance(infer_type(made).checked_type, TupleType):
            made = infer_type(TupleGetItem(made, 0, call.span))
    except (OpTypeError, InferError):  # Passat's operator is stricter than ONNX's
        return None
    return made if compatible(call.checked_type, made.checked_type) else None


def with_known_captures(call: Call) -> Call:
    """The call of an If, Loop or Scan with the captured values that are known as constants in its bodies; itself if there are none."""
    return _with_bound_captures(call, _known_captures)


def without_unused_captures(call: Call) -> Call:
    """The call of an If, Loop or Scan without the captured values that its bodies do not use; itself if there are none."""
    return _with_bound_captures(call, _unused_captures)


def _known_captures(function: Function, captured: Mapping[Var, Expr]) -> dict[Var, Expr]:
    values = {param: read_operand(arg) for param, arg in captured.items()}
    return {param: value for param, value in values.items() if isinstance(value, Constant)}


def _unused_captures(function: Function, captured: Mapping[Var, Expr]) -> dict[Var, Expr]:
    used = set(free_vars(function.body))
    return {param: arg for param, arg in captured.items() if param not in used}


def _with_bound_captures(call: Call, binds: Callable[[Function, Mapping[Var, Expr]], Mapping[Var, Expr]]) -> Call:
    """The call of an If, Loop or Scan whose bodies are bound to some of the values that they capture; itself if there are none."""
    counts = call.attrs.get("captured", ())
    if "bodies" not in call.attrs or not sum(counts):
        return call
    first = len(call.args) - sum(counts)
    plain, functions, captured = call.args[: first - len(counts)], call.args[first - len(counts) : first], iter(call.args[first:])
    bodies: list[Expr] = []
    left: list[list[Expr]] = []
    for function, count in zip(functions, counts, strict=True):
        if not isinstance(function, Function):
            return call
        values = dict(zip(function.params[len(function.params) - count :], captured, strict=False))
        bound = binds(function, values)
        bodies.append(bind(function, bound))
        left.append([arg for param, arg in values.items() if param not in bound])
    if sum(map(len, left)) == sum(counts):
        return call
    attrs = Attrs({**call.attrs, "captured": tuple(map(len, left))})
    return Call(call.op, [*plain, *bodies, *(arg for args in left for arg in args)], attrs, span=call.span)


class Branch(NamedTuple):
    """The branch that an If takes, the values that it captures, one for each parameter, and which of its results the If has."""

    function: Function
    captured: Sequence[Expr]
    outputs: str

    def results(self, body: Expr) -> Expr:
        """The value of the If for a value of the branch."""
        count = len(result_types(self.function.checked_type))
        if count == 1:
            return body
        fields = body.fields if isinstance(body, Tuple) else [TupleGetItem(body, i, body.span) for i in range(count)]
        present = [field for field, there in zip(fields, self.outputs, strict=False) if there == "1"]
        return present[0] if len(present) == 1 else Tuple(present, body.span)


def local_operators(functions: Iterable[FunctionProto]) -> frozenset[str]:
    """The operators that local functions define, without those that call custom operators."""
    found: dict[str, set[str]] = {}
    for function in functions:
        nodes = (each for node in function.node for each in (node, *inner_nodes(node.attribute)))
        called = (opaque_name(node.domain, node.op_type) for node in nodes if _is_custom(node.domain, node.op_type))
        found.setdefault(opaque_name(function.domain, function.name), set()).update(called)
    while unknown := [name for name, called in found.items() if not called <= found.keys()]:
        for name in unknown:
            del found[name]
    return frozenset(found)


def _is_custom(domain: str, op_type: str) -> bool:
    return bool(domain) and is_stateful(domain, op_type)


def _has_custom_calls(branch: Expr, local: Set[str]) -> bool:
    """True for a branch with custom operators: models with these are compared in parts, cut at such nodes, so that none may go."""
    ops = [node.op for node in post_order(branch) if isinstance(node, Call)]
    return any(isinstance(op, OpaqueOp) and _is_custom(op.domain, op.op_type) and op.name not in local for op in ops)


def branch_taken(call: Call, local: Set[str] = frozenset()) -> Branch | None:
    """The branch that an If without custom operators takes whose condition is known; None for any other call. Those that are `local` to the
    model (`local_operators`) are not custom."""
    if call.op is not _IF or "bodies" not in call.attrs or any(_has_custom_calls(branch, local) for branch in call.args[1:3]):
        return None
    condition = read_operand(call.args[0])
    if not isinstance(condition, Constant) or condition.data.size != 1:
        return None
    taken = call.attrs["bodies"].index("then_branch" if condition.data.numpy().item() else "else_branch")
    function, counts = call.args[1 + taken], call.attrs["captured"]
    start = 1 + len(counts) + sum(counts[:taken])
    captured = call.args[start : start + counts[taken]]
    if not isinstance(function, Function) or len(function.params) != len(captured):
        return None
    return Branch(function, captured, call.attrs["outputs"])


def read_operand(arg: Expr) -> Expr | None:
    """An operand as readers get it: None if absent, a constant if it is known."""
    if isinstance(arg, Constant):
        return arg
    if isinstance(arg, Tuple) and not arg.fields:
        return None
    found: Value | None = None
    known = known_value(arg)
    if isinstance(known, np.ndarray) and all(isinstance(element, int) for element in known.reshape(-1).tolist()):
        type_ = arg.checked_type
        assert isinstance(type_, TensorType)
        found = Tensor.dense(known.astype(np.int64), type_.dtype)
    else:
        with contextlib.suppress(EvaluateError):
            found = _computed(arg)
    return infer_type(Constant(found, arg.span)) if isinstance(found, Tensor) else arg


def _computed(arg: Expr, depth: int = _DEEPEST) -> Value | None:
    """The value of an expression of few calls on small constants, such as a bound that is cast to the element type of a tensor; None for
    others. Raises EvaluateError for a call that fails."""
    type_ = arg.checked_type
    if not isinstance(type_, TensorType) or not type_.is_static or static_size(type_.shape) > KNOWN_LIMIT:
        return None
    if isinstance(arg, Constant):
        return arg.data
    if not isinstance(arg, Call) or not isinstance(arg.op, Op) or arg.op.stateful or arg.op.kernel is None or not depth:
        return None
    values = [_computed(part, depth - 1) for part in arg.args]
    operands = [value for value in values if value is not None]
    if not operands or len(operands) < len(values) or not (arg.op is _CAST or keeps_bits(arg.op, operands, type_)):
        return None
    return evaluate_call(arg.op, operands, arg.attrs, type_)
