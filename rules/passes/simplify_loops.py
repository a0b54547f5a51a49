"""The pass tir.Simplify: simplifies the integer expressions of a function of loops in one e-graph, and drops what they decide.

A walk, not rules: variables get their bounds from loops and attributes, and statements from the conditions around them. Values of `LetStmt`
that are constants or variables are put in place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from passat.ir import prim_func
from passat.ir.expr import Constant, Expr
from passat.ir.module import IRModule
from passat.ir.tir.expr import Call, IntImm, PrimExpr, Var
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import children, rewrite, substitute
from passat.ir.tir.node import Node
from passat.ir.tir.ranges import IterVar
from passat.ir.tir.stmt import AttrStmt, For, IfThenElse, LetStmt, Stmt, nothing
from passat.ir.walks import preorder
from passat.passmgr import PassContext, PassInfo, PrimFuncPass
from passat.rules.passes.index_analyzer import Analyzer
from passat.rules.passes.index_expressions import Reader, Span, call, is_index
from passat.rules.passes.index_saturation import NORMAL_FORMS, SHORT_FORMS, Simplified
from passat.rules.rule import Rule

_EXTENTS = ("thread_extent", "virtual_thread")


@dataclass(frozen=True)
class SimplifyLoops(PrimFuncPass):
    """Simplifies integer expressions, and drops branches that are never taken, in functions of loops."""

    info = PassInfo(0, "tir.Simplify")
    rules: ClassVar[tuple[Rule, ...]] = tuple(rule for rules in (*NORMAL_FORMS, *SHORT_FORMS) for rule in rules)

    def transform_function(self, func: prim_func.PrimFunc, mod: IRModule, ctx: PassContext) -> prim_func.PrimFunc:
        """Simplifies one function; functions of other kinds stay."""
        return func.with_body(simplify_statement(func.body)) if isinstance(func, PrimFunc) else func


def simplify_statement(stmt: Stmt) -> Stmt:
    """The statement with simpler expressions and without dead branches."""
    body = _without_lets(stmt)
    analyzer = Analyzer()
    for var, low, extent in _loops(body):
        if is_index(var.dtype):
            least, most = analyzer.const_int_bound(low), analyzer.const_int_bound(low + extent - 1)
            analyzer.bound(var, Span(least.min_value, most.max_value))
    reader = analyzer.reader()
    branches = list(_branches(body))
    asked = [expr for branch, given in branches for expr in _questions(reader, branch.condition, given)]
    found = Simplified([body], reader, asked)
    taken = {id(branch): answer for (branch, _), answer in zip(branches, _answers(found.extra), strict=True)}
    return _pruned(body, taken, found)


def _pruned(body: Stmt, taken: dict[int, bool | None], found: Simplified) -> Stmt:
    """The statement with only the branches that may be taken, and simpler expressions."""

    def prune(node: Node) -> Node | None:
        if isinstance(node, IfThenElse) and taken.get(id(node)) is not None:
            kept = node.then_case if taken[id(node)] else node.else_case
            return rewrite(nothing() if kept is None else kept, before=prune)  # type: ignore[no-any-return]  # a statement
        return None

    made: Stmt = found.place(rewrite(body, before=prune))
    return made


def _without_lets(stmt: Stmt) -> Stmt:
    """The statement with the values of variables that are constants or variables in their place."""
    values: dict[Var, PrimExpr] = {}

    def drop(node: Node) -> Node | None:
        if not isinstance(node, LetStmt) or not isinstance(node.value, (IntImm, Var)):
            return None
        values[node.var] = node.value
        return node.body

    dropped: Stmt = rewrite(stmt, after=drop)
    for var in reversed(list(values)):  # inner ones first: their values may be outer variables
        dropped = substitute(dropped, {var: values[var]})
    return dropped


def _loops(stmt: Stmt) -> Iterator[tuple[Var, PrimExpr, PrimExpr]]:
    """The variables of loops and threads, with their first value and number of values, outer ones first."""
    roots: list[Node] = [stmt]
    for node in preorder(roots, children):
        if isinstance(node, For):
            yield node.loop_var, node.min, node.extent
        elif isinstance(node, AttrStmt) and node.attr_key in _EXTENTS and isinstance(node.node, IterVar):
            yield node.node.var, IntImm(node.node.var.dtype, 0), node.value


def _branches(stmt: Stmt) -> Iterator[tuple[IfThenElse, Sequence[tuple[PrimExpr, bool]]]]:
    """The branches, each with the conditions around it and whether these hold."""
    stack: list[tuple[Node, tuple[tuple[PrimExpr, bool], ...]]] = [(stmt, ())]
    while stack:
        node, given = stack.pop()
        if isinstance(node, IfThenElse):
            yield node, given
            condition = _plain(node.condition)
            stack.append((node.then_case, (*given, (condition, True))))
            if node.else_case is not None:
                stack.append((node.else_case, (*given, (condition, False))))
        else:
            stack += [(child, given) for child in children(node) if isinstance(child, Stmt)]


def _plain(condition: PrimExpr) -> PrimExpr:
    """A condition without the annotation that it is likely."""
    likely = isinstance(condition, Call) and getattr(condition.op, "name", "") == "tir.likely"
    return condition.args[0] if likely and isinstance(condition, Call) else condition


def _questions(reader: Reader, condition: PrimExpr, given: Sequence[tuple[PrimExpr, bool]]) -> tuple[Expr, Expr]:
    """Whether a condition holds, and whether it does not, where others hold."""
    asked = reader.read(_plain(condition))
    questions = [asked, call("logical_not", asked)]
    for other, holds in given:
        known = reader.read(other)
        fails = call("logical_not", known) if holds else known
        questions = [call("logical_or", fails, question) for question in questions]
    return questions[0], questions[1]


def _answers(extra: Sequence[Expr]) -> Iterator[bool | None]:
    """Whether each condition always holds, never does, or may do either."""
    for holds, fails in zip(extra[::2], extra[1::2], strict=True):
        yield True if _is_true(holds) else False if _is_true(fails) else None


def _is_true(expr: Expr) -> bool:
    return isinstance(expr, Constant) and bool(expr.data.numpy().all())
