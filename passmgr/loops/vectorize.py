"""Turns loops into operations on vectors.

A walk: the form of an expression depends on the variables of the statements around it, and statements without a vector form become loops
again.
"""

from dataclasses import dataclass
from operator import is_
from typing import Any as AnyValue

from passat.ir.module import IRModule
from passat.ir.prim_func import PrimFunc
from passat.ir.tir.arithmetic import Add, LogicalOp, Mul, Not, Sub
from passat.ir.tir.expr import BinaryOp, Broadcast, Call, Cast, IntImm, PrimExpr, Var, const
from passat.ir.tir.functor import Mutator, rewrite, substitute
from passat.ir.tir.ranges import Reduce
from passat.ir.tir.stmt import (
    Allocate,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    Store,
    While,
)
from passat.ir.tir.types import TirError
from passat.ir.tir.values import Load, Ramp, Select, Shuffle
from passat.passmgr.context import PassContext
from passat.passmgr.loops.effects import is_total, mentions
from passat.passmgr.loops.ssa import copied, renamed_definitions
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import PrimFuncPass


@dataclass(frozen=True, repr=False)
class VectorizeLoop(PrimFuncPass):
    """Replaces the loops marked `vectorize` by operations on vectors with a lane for each iteration.

    The mark promises that the iterations do not depend on each other. Statements without a vector form, such as conditions that differ
    between iterations, become serial loops. Runs after StorageFlatten. Raises TirError for a number of iterations that is not constant, and
    for a `while` loop inside.
    """

    enable_vectorize: bool = True
    """If false, the loops become serial ones."""
    info = PassInfo(0, "tir.VectorizeLoop")

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """Vectorizes the loops of a function."""

        def replaced(node: AnyValue) -> Stmt | None:
            if not isinstance(node, For) or node.kind != ForKind.VECTORIZED:
                return None
            return _vectorized(node) if self.enable_vectorize else node.with_fields(kind=ForKind.SERIAL)

        body = rewrite(func.body, replaced)
        return func if body is func.body else func.with_body(renamed_definitions(body))


def _vectorized(node: For) -> Stmt:
    """The statements of a loop as vector operations. Loops inside are done already."""
    name = node.loop_var.name
    if not isinstance(node.extent, IntImm) or node.extent.value < 1:
        raise TirError(f"the loop over {name} is marked vectorize, but its number of iterations is {node.extent}, not a positive constant")
    if node.extent.value == 1:
        return substitute(node.body, {node.loop_var: node.min})
    made: Stmt = _Vectorizer(node, node.extent.value).visit(node.body)
    return made


class _NoVectorFormError(Exception):
    """An expression or statement has no vector form; the statement around it becomes a serial loop."""


class _Vectorizer(Mutator):
    def __init__(self, loop: For, lanes: int) -> None:
        self._loop, self._lanes = loop, lanes
        ramp = Ramp(loop.min, const(1, loop.loop_var.dtype), lanes)
        self._values: dict[Var, PrimExpr] = {loop.loop_var: ramp}
        self._lets: set[Var] = set()

    def visit(self, node: AnyValue) -> AnyValue:
        """The vector form of an expression; of a statement, also a loop."""
        if not isinstance(node, Stmt):
            return super().visit(node)
        try:
            return super().visit(node)
        except _NoVectorFormError:
            if self._lets and mentions(node, self._lets):
                raise  # the statement needs a scalar that is a vector here
            loop = self._loop
            var = copied(loop.loop_var)
            return For(var, loop.min, loop.extent, ForKind.SERIAL, substitute(node, {loop.loop_var: var}))

    def visit_Var(self, node: Var) -> PrimExpr:
        """The vector of the values of a variable."""
        return self._values.get(node, node)

    visit_SizeVar = visit_Var

    def _same(self, *exprs: PrimExpr) -> tuple[PrimExpr, ...]:
        """Values with the same number of lanes."""
        lanes = max(expr.lanes for expr in exprs)
        return tuple(_with_lanes(expr, lanes) for expr in exprs)

    def descend(self, node: AnyValue) -> AnyValue:
        """The operations that apply to each lane."""
        if not isinstance(node, BinaryOp):
            return super().descend(node)
        spine = [node]
        while isinstance(spine[-1].a, BinaryOp):
            spine.append(spine[-1].a)
        result = self.visit(spine[-1].a)
        for each in reversed(spine):
            right = self.visit(each.b)
            result = each if result is each.a and right is each.b else self._combined(type(each), result, right)
        return result

    def _combined(self, operation: type[BinaryOp], a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """An operation on vectors; of ramps and numbers, a ramp."""
        if isinstance(a, Ramp) and isinstance(b, Ramp) and a.lanes == b.lanes and operation in (Add, Sub):
            return Ramp(operation.of(a.base, b.base), operation.of(a.stride, b.stride), a.lanes)
        if isinstance(a, Ramp) and b.lanes == 1:
            if operation in (Add, Sub):
                return Ramp(operation.of(a.base, b), a.stride, a.lanes)
            if operation is Mul:
                return Ramp(a.base * b, a.stride * b, a.lanes)
        if isinstance(b, Ramp) and a.lanes == 1:
            if operation is Add:
                return Ramp(a + b.base, b.stride, b.lanes)
            if operation is Sub:
                return Ramp(a - b.base, const(0, b.stride.dtype) - b.stride, b.lanes)
            if operation is Mul:
                return Ramp(a * b.base, a * b.stride, b.lanes)
        a, b = self._same(a, b)
        if issubclass(operation, LogicalOp) and a.lanes > 1 and not is_total(b):
            raise _NoVectorFormError  # the second condition is not evaluated in lanes where the first decides
        return operation(a, b)

    def visit_Not(self, node: Not) -> PrimExpr:
        """The negation of each lane."""
        value = self.visit(node.a)
        return node if value is node.a else Not(value)

    def visit_Cast(self, node: Cast) -> PrimExpr:
        """The conversion of each lane."""
        value = self.visit(node.value)
        return node if value is node.value else Cast(str(node.type.with_lanes(value.lanes)), value)

    def visit_Select(self, node: Select) -> PrimExpr:
        """The choice for each lane."""
        parts = [self.visit(part) for part in (node.condition, node.true_value, node.false_value)]
        return Select(*self._same(*parts))

    def visit_Broadcast(self, node: Broadcast) -> PrimExpr:
        """A vector of vectors as one vector, if the value does not depend on the iteration."""
        if self.visit(node.value) is not node.value:
            raise _NoVectorFormError
        return node

    def visit_Shuffle(self, node: Shuffle) -> PrimExpr:
        """A shuffle that does not depend on the iteration."""
        if mentions(node, self._values):
            raise _NoVectorFormError
        return node

    def visit_Ramp(self, node: Ramp) -> PrimExpr:
        """A ramp of consecutive ramps as one ramp."""
        base, stride = self.visit(node.base), self.visit(node.stride)
        if base is node.base and stride is node.stride:
            return node
        constant = isinstance(base, Ramp) and isinstance(base.stride, IntImm) and isinstance(stride, IntImm)
        if constant and base.stride.value == stride.value * node.lanes:
            return Ramp(base.base, stride, base.lanes * node.lanes)
        raise _NoVectorFormError

    def visit_Load(self, node: Load) -> PrimExpr:
        """A read of as many elements as there are iterations."""
        index, predicate = self.visit(node.index), self.visit(node.predicate)
        if index is node.index and predicate is node.predicate:
            return node
        index, predicate = self._same(index, predicate)
        return Load(str(node.type.with_lanes(index.lanes)), node.buffer_var, index, predicate)

    def _binding(self, node: AnyValue) -> AnyValue:
        """A variable of vectors."""
        value = self.visit(node.value)
        if value.lanes == node.value.lanes:
            return node.with_fields(value=value, body=self.visit(node.body))
        vector = Var(node.var.name, value.dtype)
        self._values[node.var] = vector
        self._lets.add(node.var)
        try:
            return type(node)(vector, value, self.visit(node.body))
        finally:
            self._lets.discard(node.var)
            del self._values[node.var]

    visit_Let = visit_LetStmt = _binding

    def visit_Call(self, node: Call) -> PrimExpr:
        """A function of each lane. Conditions that differ between iterations have no vector form."""
        if node.op.name == "tir.if_then_else":
            condition = self.visit(node.args[0])
            if condition.lanes > 1:
                raise _NoVectorFormError
            args = (condition, *self._same(*map(self.visit, node.args[1:])))
            return node if all(map(is_, args, node.args)) else Call(args[1].dtype, node.op, args)
        args = tuple(map(self.visit, node.args))
        if all(map(is_, args, node.args)):
            return node
        if not node.op.vectorizable:
            raise _NoVectorFormError
        args = self._same(*args)
        return Call(str(node.type.with_lanes(args[0].lanes)), node.op, args)

    def _of_buffers(self, node: AnyValue) -> AnyValue:
        """Buffers are flattened before."""
        if isinstance(node, Stmt) or mentions(node, self._values):
            raise TirError("VectorizeLoop applies to flat memory; run StorageFlatten before")
        return node

    visit_BufferLoad = visit_ProducerLoad = visit_BufferStore = visit_ProducerStore = visit_BufferRealize = visit_Prefetch = _of_buffers

    def visit_Reduce(self, node: Reduce) -> PrimExpr:
        """Reductions have no vector form."""
        raise _NoVectorFormError

    def visit_Store(self, node: Store) -> Stmt:
        """A write of as many elements as there are iterations."""
        value, index, predicate = (self.visit(part) for part in (node.value, node.index, node.predicate))
        if value is node.value and index is node.index and predicate is node.predicate:
            return node
        value, index, predicate = self._same(value, index, predicate)
        return Store(node.buffer_var, value, index, predicate)

    def _uniform(self, node: AnyValue) -> AnyValue:
        """A loop, assertion or attribute that is the same in all iterations."""
        if any(mentions(getattr(node, name), self._values) for name in node.WALKED if name != "body"):
            raise _NoVectorFormError
        return node.with_fields(body=self.visit(node.body))

    visit_For = visit_AssertStmt = visit_AttrStmt = _uniform

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        """A condition that is the same in all iterations."""
        condition = self.visit(node.condition)
        if condition.lanes > 1:
            raise _NoVectorFormError
        otherwise = None if node.else_case is None else self.visit(node.else_case)
        return IfThenElse(condition, self.visit(node.then_case), otherwise)

    def visit_While(self, node: While) -> Stmt:
        """Not supported."""
        raise TirError("A while loop inside a vectorized loop not supported")

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Memory for all iterations; the elements of an iteration are `lanes` apart."""
        if any(mentions(part, self._values) for part in (*node.extents, node.condition)):
            raise _NoVectorFormError
        lane = self._loop.loop_var - self._loop.min
        lanes = self._lanes

        def own(part: AnyValue) -> AnyValue:
            if isinstance(part, (Load, Store)) and part.buffer_var is node.buffer_var:
                if part.index.lanes > 1:
                    raise _NoVectorFormError
                return part.with_fields(index=part.index * lanes + lane)
            if part is node.buffer_var:
                raise _NoVectorFormError  # another function gets the pointer
            return None

        body = self.visit(rewrite(node.body, own))
        return node.with_fields(
            extents=(*node.extents, const(lanes, node.extents[-1].dtype)) if node.extents else (const(lanes),), body=body
        )


def _with_lanes(expr: PrimExpr, lanes: int) -> PrimExpr:
    """A value as a vector."""
    if expr.lanes == lanes:
        return expr
    if expr.lanes == 1:
        return Broadcast(expr, lanes)
    if isinstance(expr, Broadcast) and lanes % expr.lanes == 0:
        return Broadcast(expr.value, lanes)
    raise _NoVectorFormError
