"""AnnotateTarget: marks the calls that external compilers support. A walk, since annotations depend on the readers and operands of a
value."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from passat.ir.annotated_regions import AnnotatedRegionSet, is_begin, is_end
from passat.ir.expr import Call, Expr, Function, If, Let, Match, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.ops.annotation import compiler_begin, compiler_end
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, post_order, with_children
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass

DEFAULT: Final = "default"
"""The target of expressions that no external compiler takes."""
_OTHERS: Final = (Tuple, TupleGetItem, RefCreate, RefRead, RefWrite)
"""Kinds of expressions that are annotated besides calls with `include_non_call_ops`. They get the common target of their operands, if
any."""


@register_pass("relay._transform.AnnotateTarget")
@dataclass(frozen=True)
class AnnotateTarget(FunctionPass):
    """Annotates the calls that external compilers support: operands with `annotation.compiler_begin`, results with `compiler_end`.

    A compiler supports a call of an operator if the function registered for the operator as `target.NAME` (`passat.ir.register_op_attr`)
    returns True for the call. It supports a call of a function whose attribute `Composite` begins with `NAME.` (`MergeComposite`). If
    several compilers support a call, the first one in `targets` takes it. Other calls are annotated for "default". With
    `include_non_call_ops`, so are tuples, projections and references. Existing annotations for targets other than "default" are unchanged.
    """

    targets: tuple[str, ...] = ()
    include_non_call_ops: bool = True

    info = PassInfo(
        0,
        "AnnotateTarget",
        ["InferType"],
        provides=("types",),
        preserves=("types",),
        counters={"annotated": "calls for external compilers"},
    )

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Annotates the calls of one function."""
        if is_sealed(func):
            return func
        annotator = _Annotator(func, self.targets, self.include_non_call_ops)
        made = annotator.run()
        ctx.record(self.info.name, "annotated", annotator.count)
        return infer_type(made)


class _Annotator:
    """Annotates one function. `count` is the number of calls that external compilers take."""

    def __init__(self, function: Function, targets: Sequence[str], everything: bool) -> None:
        self._function = function
        self._regions = AnnotatedRegionSet(function)
        self._targets = targets
        self._everything = everything
        self._target_of: dict[Expr, str] = {}
        """The targets of new expressions, whose results are annotated when they are read."""
        self.count = 0

    def run(self) -> Function:
        """The annotated function."""
        done: dict[Expr, Expr] = {}
        for node in post_order(self._function, into=self._is_entered):
            parts = [done[part] for part in children(node)] if self._is_entered(node) else children(node)
            made = self._annotated(node, parts)
            if made._checked_type is None and not isinstance(made, Function):
                made.assume_type(node._checked_type)
            done[node] = made
        result = done[self._function]
        assert isinstance(result, Function)
        return result

    def _is_entered(self, node: Expr) -> bool:
        return node is self._function or not is_sealed(node)

    def _annotated(self, node: Expr, parts: Sequence[Expr]) -> Expr:
        """The replacement of a node, with new parts."""
        region = self._regions.get_region(node)
        if region is not None and region.target != DEFAULT:
            return with_children(node, parts)
        if isinstance(node, Call):
            return self._call(node, parts)
        if isinstance(node, _OTHERS):
            return self._wrapped(node, parts, None) if self._everything else with_children(node, list(map(self._closed, parts)))
        if isinstance(node, Let) and isinstance(node.value, Function):
            return with_children(node, [parts[0], parts[1], self._closed(parts[2])])
        if isinstance(node, (Let, If, Match, Function)) and self._is_entered(node):
            return with_children(node, list(map(self._closed, parts)))
        return node

    def _call(self, node: Call, parts: Sequence[Expr]) -> Expr:
        if is_begin(node) or is_end(node):  # for no external compiler: readers add new annotations
            read = parts[1]
            return self._closed(read) if is_end(node) and read in self._target_of else with_children(node, parts)
        if isinstance(node.op, Var) and not self._everything:
            return with_children(node, list(map(self._closed, parts)))
        target = next((target for target in self._targets if _supports(target, node)), DEFAULT)
        self.count += target != DEFAULT
        return self._wrapped(node, parts, target)

    def _wrapped(self, node: Expr, parts: Sequence[Expr], target: str | None) -> Expr:
        """The expression with annotated operands for a target, by default that of the operands."""
        callee, operands = (parts[:1], parts[1:]) if isinstance(node, Call) else ((), parts)
        ends = [self._closed(_without_default(operand)) for operand in operands]
        if target is None:
            found = {end.attrs["compiler"] if is_end(end) else DEFAULT for end in ends}
            target = found.pop() if len(found) == 1 else DEFAULT
        made = with_children(node, [*callee, *(_annotation(compiler_begin, end, target) for end in ends)])
        if operands:
            self._target_of[made] = target
        return made

    def _closed(self, expr: Expr) -> Expr:
        """The expression as read from outside of its region: with an annotation that ends the region."""
        return _annotation(compiler_end, expr, self._target_of[expr]) if expr in self._target_of else expr


def _annotation(op: Op, expr: Expr, target: str) -> Expr:
    return op(expr, compiler=target).assume_type(expr._checked_type)


def _without_default(operand: Expr) -> Expr:
    """An operand without an annotation for "default"."""
    return operand.args[0] if is_begin(operand) and operand.attrs["compiler"] == DEFAULT else operand


def _supports(target: str, call: Call) -> bool:
    if isinstance(call.op, Op):
        check = call.op.get_attr(f"target.{target}")
        return check is not None and bool(check(call))
    return isinstance(call.op, Function) and str(call.op.attrs.get("Composite", "")).startswith(f"{target}.")
