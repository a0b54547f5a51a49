"""Reads opaque nodes of ONNX again, once more is known of their operands."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

from passat.ir.expr import Call, Expr, Function, Tuple, TupleGetItem
from passat.ir.infer import InferError, infer_type
from passat.ir.module import IRModule
from passat.ir.onnx.opaque import OpaqueOp
from passat.ir.op import get_op
from passat.ir.traverse import post_order, rewrite
from passat.ir.types import IncompleteType, compatible, leaves
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass
from passat.rules.passes.simplify import dynamic_to_static

_IDENTITY: Final = get_op("onnx.Identity")
_SHAPES_DIFFER: Final = 11
"""The opset from which on the branches of an `If` may have different shapes."""
_FOLDING: Final = dynamic_to_static()


@register_pass("relay._transform.ReadOpaque")
@dataclass(frozen=True)
class ReadOpaque(FunctionPass):
    """Replaces opaque calls of ONNX operators by calls of Passat's own operators, once the operands that this requires are known, and each
    ONNX `If` whose condition is known by the branch that it takes. What is known of the values that branches and loop bodies capture is
    known in them, too. Where DynamicToStatic is part of the level, folds what the new calls make known, and reads again.

    A walk, not rules: the importer of ONNX makes the calls, and the types after an opaque call are unknown until it is replaced.
    """

    info = PassInfo(0, "ReadOpaque", ["InferType"], provides=("types", "operators"), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Imports the opaque calls of one function again. Skips modules that were not read from ONNX."""
        if "onnx" not in mod.attrs:
            return func
        local = _local_operators(mod)
        made = read_opaque(func, local)
        folds = _FOLDING.info.opt_level <= ctx.opt_level and _FOLDING.info.name not in ctx.disabled_pass
        while folds and made is not func and _has_opaque(made):  # such as a Resize whose sizes follow from those of another one
            func = _folded(made, mod, ctx)
            made = read_opaque(func, local)
        return made


def _local_operators(mod: IRModule) -> frozenset[str]:
    functions = mod.attrs["onnx"].model.functions
    if not functions:
        return frozenset()
    from passat.ir.onnx.read_again import local_operators  # needs onnx

    return local_operators(functions)


def _folded(function: Function, mod: IRModule, ctx: PassContext) -> Function:
    """The function with constants folded. This is part of a walk, so that traces do not record it as a pass of its own."""
    inner = ctx.with_instruments()
    inner.config.pop("rules.trace", None)
    return _FOLDING.transform_function(function, mod, inner)


def _has_opaque(function: Function) -> bool:
    return any(isinstance(node, Call) and isinstance(node.op, OpaqueOp) for node in post_order(function))


def read_opaque(function: Function, local: Set[str] = frozenset()) -> Function:
    """The function with calls of Passat's own operators for equivalent opaque ones, and branches for an `If` on a known condition; itself
    if there are none. The model defines the operators that are `local`."""
    if not _has_opaque(function):
        return function
    try:
        body = _read_opaque(function.body, {}, local)
        return function if body is function.body else infer_type(function.with_body(body))
    except InferError:  # the new facts contradict another node: such a model runs, if at all, unchanged
        return function


def _read_opaque(root: Expr, values: Mapping[Expr, Expr], local: Set[str]) -> Expr:
    """The expression with opaque calls read again, and with values in place of its variables. The bodies of a loop or branch are read when
    its call is, since what they capture is known then."""
    from passat.ir.onnx.read_again import read_again, with_known_captures  # needs onnx

    def read(node: Expr, new: Expr) -> Expr:
        if node in values:
            return values[node]
        if isinstance(new, TupleGetItem) and isinstance(new.tuple_value, Tuple):  # a result of a branch
            return new.tuple_value.fields[new.index]
        if not isinstance(new, Call) or not isinstance(new.op, OpaqueOp):
            return new
        infer_type(new)
        if new.op is _IDENTITY and new.checked_type == new.args[0].checked_type:  # of a value of unknown type
            return new.args[0]
        known = with_known_captures(new)
        infer_type(known)
        return read_again(known) or _taken(known, local) or _with_read_bodies(known, local)

    return rewrite(root, read, into=lambda part: not isinstance(part, Function))


def _taken(call: Call, local: Set[str]) -> Expr | None:
    """The value of the branch that an `If` with a known condition takes; None for other calls, and if the types of the two differ."""
    from passat.ir.onnx.read_again import branch_taken  # needs onnx

    branch = branch_taken(call, local)
    if branch is None:
        return None
    try:
        body = _read_opaque(branch.function.body, dict(zip(branch.function.params, branch.captured, strict=True)), local)
        value = infer_type(branch.results(body))
    except InferError:
        return None
    return value if compatible(call.checked_type, value.checked_type) and not _loses_rank(call, value) else None


def _loses_rank(call: Call, value: Expr) -> bool:
    """True if the rank of a branch is unknown, but known of the other one, as ONNX Runtime requires of the results of a Scan's body: before
    opset 11 both branches of an `If` have one shape, so that either tells it."""
    if call.attrs["opset"] >= _SHAPES_DIFFER or _has_rank(value):
        return False
    return any(_has_rank(branch.body) for branch in call.args[1:3] if isinstance(branch, Function))


def _has_rank(value: Expr) -> bool:
    return not any(isinstance(type_, IncompleteType) for type_ in leaves(value.checked_type))


def _with_read_bodies(call: Call, local: Set[str]) -> Call:
    from passat.ir.onnx.read_again import without_unused_captures  # needs onnx

    args = [read_opaque(arg, local) if isinstance(arg, Function) else arg for arg in call.args]
    made = without_unused_captures(call if args == list(call.args) else Call(call.op, args, call.attrs, span=call.span))
    infer_type(made)
    return made
