"""Walks over the loop IR: visitors, mutators and substitution.

Expressions and statements are visited; the variables that they bind, and the buffers that they name, are not.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any as AnyValue
from typing import TypeVar, overload

from passat.ir.tir.expr import BinaryOp, PrimExpr, Var, convert
from passat.ir.tir.node import Node
from passat.ir.tir.ranges import IterVar, Range
from passat.ir.tir.stmt import AttrStmt, Stmt, Store
from passat.ir.tir.values import Load
from passat.ir.walks import parts_first

N = TypeVar("N", bound=Node)


def children(node: Node) -> list[Node]:
    """The expressions and statements directly below a node, in order."""
    found: list[Node] = []
    for name in node.WALKED:
        value = getattr(node, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, (PrimExpr, Stmt)):
                found.append(part)
            elif isinstance(part, (Range, IterVar)):
                found += children(part)
    return found


def map_children(node: N, function: Callable[[AnyValue], AnyValue]) -> N:
    """The node with a function applied to the expressions and statements directly below it; itself if none changes."""
    changes: dict[str, AnyValue] = {}
    for name in node.WALKED:
        value = getattr(node, name)
        if isinstance(value, tuple):
            parts = tuple([_mapped(part, function) for part in value])
            if any(new is not old for new, old in zip(parts, value, strict=True)):
                changes[name] = parts
        else:
            changed = _mapped(value, function)
            if changed is not value:
                changes[name] = changed
    return node.with_fields(**changes) if changes else node


def _mapped(value: AnyValue, function: Callable[[AnyValue], AnyValue]) -> AnyValue:
    if isinstance(value, (PrimExpr, Stmt)):
        return function(value)
    return map_children(value, function) if isinstance(value, (Range, IterVar)) else value


def post_order(node: Node) -> list[Node]:
    """The expressions and statements of a node, each once, after those below it."""
    return list(parts_first([node], children, id))


def post_order_visit(node: Node, function: Callable[[AnyValue], None]) -> None:
    """Calls a function with each expression and statement of a node, after those below it."""
    for part in post_order(node):
        function(part)


def rewrite(
    node: AnyValue,
    after: Callable[[AnyValue], AnyValue] | None = None,
    before: Callable[[AnyValue], AnyValue] | None = None,
) -> AnyValue:
    """Replaces nodes from the bottom up: `after` gets each node with its parts replaced, and returns its replacement or None.

    If `before` returns a replacement for a node, that is used, and the parts of the node are not visited. A shared node is replaced once.
    """
    done: dict[int, AnyValue] = {}

    def remaining(part: Node) -> Sequence[Node]:
        """The parts of a node that is not replaced as a whole."""
        replacement = before(part) if before is not None else None
        if replacement is not None:
            done[id(part)] = replacement
        return children(part) if replacement is None else ()

    for part in parts_first([node], remaining, id):
        if id(part) not in done:
            changed = map_children(part, lambda child: done[id(child)])
            replacement = after(changed) if after is not None else None
            done[id(part)] = changed if replacement is None else replacement
    return done[id(node)]


@overload
def substitute(node: Stmt, values: Mapping[Var, AnyValue] | Callable[[Var], AnyValue]) -> Stmt: ...
@overload
def substitute(node: PrimExpr, values: Mapping[Var, AnyValue] | Callable[[Var], AnyValue]) -> PrimExpr: ...
def substitute(node: AnyValue, values: Mapping[Var, AnyValue] | Callable[[Var], AnyValue]) -> AnyValue:
    """Replaces variables by their values, also where memory is read and written if the value is a variable."""
    get = values if callable(values) else values.get

    def replaced(part: AnyValue) -> AnyValue:
        if isinstance(part, Var):
            value = get(part)
            return None if value is None else convert(value)
        name = "buffer_var" if isinstance(part, (Load, Store)) else "node" if isinstance(part, AttrStmt) else None
        if name is not None and isinstance(getattr(part, name), Var):
            value = get(getattr(part, name))
            return None if value is None else part.with_fields(**{name: convert(value)})
        return None

    return rewrite(node, replaced)


def ir_transform(
    stmt: Stmt,
    preorder: Callable[[AnyValue], AnyValue] | None,
    postorder: Callable[[AnyValue], AnyValue] | None,
    only_enable: Container[str] | None = None,
) -> AnyValue:
    """Replaces nodes as `rewrite` does; with `only_enable`, those of some classes, such as `tir.For`."""

    def limited(function: Callable[[AnyValue], AnyValue] | None) -> Callable[[AnyValue], AnyValue] | None:
        if function is None or only_enable is None:
            return function
        return lambda node: function(node) if f"tir.{type(node).__name__}" in only_enable else None

    return rewrite(stmt, limited(postorder), limited(preorder))


class Mutator:
    """Rewrites a program. Methods `visit_CLASS` return the replacements of nodes of a class; others are rebuilt from their parts."""

    def visit(self, node: AnyValue) -> AnyValue:
        """The replacement of a node."""
        method = getattr(self, f"visit_{type(node).__name__}", None)
        return self.descend(node) if method is None else method(node)

    def descend(self, node: AnyValue) -> AnyValue:
        """The node with its parts replaced. Long sums and the like do not use the Python stack."""
        if not isinstance(node, BinaryOp):
            return map_children(node, self.visit)
        spine = [node]
        while isinstance(node.a, BinaryOp) and not hasattr(self, f"visit_{type(node.a).__name__}"):
            node = node.a
            spine.append(node)
        result = self.visit(node.a)
        for each in reversed(spine):
            right = self.visit(each.b)
            result = each if result is each.a and right is each.b else type(each)(result, right)
        return result


class Visitor:
    """Visits a program. Methods `visit_CLASS` are called with nodes of a class; below others, their parts are visited."""

    def visit(self, node: AnyValue) -> None:
        """Visits a node."""
        method = getattr(self, f"visit_{type(node).__name__}", None)
        if method is None:
            self.descend(node)
        else:
            method(node)

    def descend(self, node: AnyValue) -> None:
        """Visits the parts of a node."""
        right: list[AnyValue] = []
        while isinstance(node, BinaryOp):
            right.append(node.b)
            node = node.a
            if hasattr(self, f"visit_{type(node).__name__}"):
                self.visit(node)
                break
        else:
            for child in children(node):
                self.visit(child)
        for part in reversed(right):
            self.visit(part)
