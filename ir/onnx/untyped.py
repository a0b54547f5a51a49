"""Finds values of unknown type and the nodes that stay opaque because of them, since rules only match typed operands."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from passat.ir.expr import Call, Expr, Function, TupleGetItem, Var
from passat.ir.module import IRModule
from passat.ir.onnx.opaque import OpaqueOp
from passat.ir.onnx_mapping import READERS
from passat.ir.traverse import post_order
from passat.ir.types import IncompleteType, TupleType

INLINES: Final = "onnx.inliner.inline_local_functions"
"""What puts the nodes of the functions of a model in place of their calls."""
NOT_MODELED: Final = "Passat does not model the operator with these operands or attributes"
"""Why a node with known types is opaque although Passat models its operator."""


class Untyped(NamedTuple):
    """A value of unknown type: its name, its producer, the calls that are opaque because of it, and whether the producer is a function of
    the model."""

    name: str
    maker: Expr
    calls: tuple[Call, ...]
    of_function: bool = False

    @property
    def sentence(self) -> str:
        """Describes how many nodes are opaque, why, and how to fix it."""
        count = len(self.calls)
        return f"{'1 node' if count == 1 else f'{count} nodes'} left opaque because {self.reason}"

    @property
    def reason(self) -> str:
        """Describes which type is unknown and how to fix it."""
        if not isinstance(self.maker, Call):
            return f"the type of {self.name!r}, which is an input, is unknown: declare its element type and shape"
        out = "declare it in value_info"
        if self.of_function:
            out += f", or inline the function ({INLINES})"
        elif is_custom(self.maker):
            out += ", or the operator in a rule file (docs/custom-operators.md)"
        return f"the type of {self.name!r}, which {title(self.maker)} produces, is unknown: {out}"


def untyped_values(module: IRModule) -> list[Untyped]:
    """Returns the values where unknown types originate, in order, each with the calls that are opaque because of it.

    Only calls of operators that Passat models are listed.
    """
    found: dict[Expr, list[Call]] = {}
    for function in module.functions.values():
        nodes = post_order(function)
        roots = _captured(nodes)
        opaque: list[Call] = []
        for node in nodes:
            root = None if is_custom(node) else next((roots[operand] for operand in _operands(node) if operand in roots), None)
            if root is not None and isinstance(node, Call) and has_form(node):
                opaque.append(node)
            if isinstance(node._checked_type, IncompleteType):
                root = roots.setdefault(node, root or node)
                found.setdefault(root, [])
            elif root is not None and isinstance(node._checked_type, TupleType):
                roots[node] = root
        for call in opaque:
            root = next(roots[operand] for operand in _operands(call) if operand in roots)
            while roots.get(root, root) is not root:
                root = roots[root]  # an outer value that a subgraph captures, which may come later in the order
            found.setdefault(root, []).append(call)
    functions = functions_of(module)
    made: list[Untyped] = []
    for root, calls in found.items():
        maker = root.tuple_value if isinstance(root, TupleGetItem) else root
        if calls:
            made.append(Untyped(_name(root), maker, tuple(calls), is_function_call(maker, functions)))
    return made


def functions_of(module: IRModule) -> frozenset[tuple[str, str]]:
    """The domain and name of each function of a module's ONNX model."""
    frame = module.attrs.get("onnx")
    return frozenset((each.domain, each.name) for each in frame.model.functions) if frame is not None else frozenset()


def is_function_call(node: Expr, functions: Collection[tuple[str, str]]) -> bool:
    """Whether a node calls one of some functions of the model."""
    return isinstance(node, Call) and isinstance(node.op, OpaqueOp) and (node.op.domain, node.op.op_type) in functions


def function_calls(module: IRModule) -> str:
    """A sentence about the calls of functions of the model, which rules do not match inside; "" if there are none."""
    functions = functions_of(module)
    found: Counter[str] = Counter()
    for function in module.functions.values() if functions else ():
        for node in post_order(function):
            if isinstance(node, Call) and isinstance(node.op, OpaqueOp) and is_function_call(node, functions):
                found[f"{node.op.domain}.{node.op.op_type}"] += 1
    if not found:
        return ""
    count = found.total()
    calls = "1 node calls a function" if count == 1 else f"{count} nodes call functions"
    return f"{calls} of the model ({', '.join(found)}), which rules do not match inside: {INLINES} inlines functions"


def title(call: Call) -> str:
    """Describes a node in messages: by its name, if any, and its operator."""
    op, span = call.op, call.span
    kind = f"{op.domain}.{op.op_type}" if isinstance(op, OpaqueOp) and op.domain else op.op_type if isinstance(op, OpaqueOp) else repr(op)
    return f"node {span.source_name!r} ({kind})" if span is not None and span.source_name else f"a {kind} node"


def _captured(nodes: Sequence[Expr]) -> dict[Expr, Expr]:
    """Maps each parameter of unknown type that represents a captured value of a subgraph to that value."""
    found: dict[Expr, Expr] = {}
    for node in nodes:
        if isinstance(node, Call) and isinstance(node.op, OpaqueOp) and "bodies" in node.attrs:
            bodies = [arg for arg in node.args if isinstance(arg, Function)]
            start = len(node.args) - sum(node.attrs["captured"])
            for body, count in zip(bodies, node.attrs["captured"], strict=True):
                pairs = zip(body.params[len(body.params) - count :], node.args[start : start + count], strict=True)
                found.update(pair for pair in pairs if isinstance(pair[0]._checked_type, IncompleteType))
                start += count
    return found


def _operands(node: Expr) -> Sequence[Expr]:
    if isinstance(node, TupleGetItem):
        return (node.tuple_value,)
    return [arg for arg in node.args if not isinstance(arg, Function)] if isinstance(node, Call) else ()


def has_form(call: Call) -> bool:
    """Whether a call is opaque although Passat models its operator."""
    op = call.op
    return isinstance(op, OpaqueOp) and (f"{op.domain}::{op.op_type}" if op.domain else op.op_type) in READERS


def is_custom(node: Expr) -> bool:
    """Whether an operator is unknown to both Passat and the onnx package, so that its type is unknown for any operands."""
    if not (isinstance(node, Call) and isinstance(node.op, OpaqueOp)) or has_form(node):
        return False
    from passat.ir.onnx.attributes import schema_of
    from passat.ir.onnx.contrib_types import has_rule

    op = node.op
    return not has_rule(op.domain, op.op_type) and schema_of(op.op_type, node.attrs["opset"], op.domain) is None


def _name(node: Expr) -> str:
    """The ONNX name of a value; empty if it has none."""
    if isinstance(node, Var):
        return node.name_hint
    names = [name for name in node.span.outputs if name] if node.span is not None else []
    index = node.index if isinstance(node, TupleGetItem) else 0
    return names[index] if index < len(names) else ""
