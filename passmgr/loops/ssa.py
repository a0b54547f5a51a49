"""Gives each definition of a variable its own variable, after statements were copied.

A walk: it depends on all definitions before a place, and renames whole scopes.
"""

from collections.abc import Iterable
from typing import Any as AnyValue
from typing import Final

from passat.ir.tir.expr import Var
from passat.ir.tir.functor import Mutator, children, post_order
from passat.ir.tir.node import Node
from passat.ir.tir.stmt import Allocate, AttrStmt, For, LetStmt, Stmt
from passat.ir.tir.values import Let

DEFINED: Final = {Allocate: "buffer_var", For: "loop_var", Let: "var", LetStmt: "var"}
"""The nodes that define a variable in their body, and the field with it."""


def copied(var: Var) -> Var:
    """A new variable of the same name and type."""
    return type(var)(var.name, var.type_annotation)


def renamed_definitions(stmt: Stmt, defined: Iterable[Var] = ()) -> Stmt:
    """The statement with a new variable for each definition of a variable but the first; the same statement if there are none.

    The variables `defined` are defined outside of it, such as the parameters of a function.

    >>> from passat.ir.tir.stmt import Evaluate, SeqStmt
    >>> i = Var("i")
    >>> loop = For(i, 0, 4, "serial", Evaluate(i))
    >>> first, second = renamed_definitions(SeqStmt([loop, loop]))
    >>> first.loop_var is i, second.loop_var is i
    (True, False)
    """
    outside = set(defined)
    made: Stmt = _Renaming(outside).visit(stmt) if _redefines(stmt, outside) else stmt
    return made


def _redefines(stmt: Stmt, outside: Iterable[Var]) -> bool:
    """Whether two statements define one variable, or one statement occurs twice and defines some. Does not use the Python stack."""
    defined = set(outside)
    stack: list[Node] = [stmt]
    while stack:
        node = stack.pop()
        parts = [node] if isinstance(node, Stmt) else [part for part in post_order(node) if isinstance(part, Let)]
        for part in parts:
            if type(part) in DEFINED:
                var = getattr(part, DEFINED[type(part)])
                if var in defined:
                    return True
                defined.add(var)
        if isinstance(node, Stmt):
            stack.extend(children(node))
    return False


class _Renaming(Mutator):
    def __init__(self, defined: Iterable[Var]) -> None:
        self._defined = set(defined)
        self._names: dict[Var, Var] = {}

    def _scope(self, node: AnyValue) -> AnyValue:
        field = DEFINED[type(node)]
        var = getattr(node, field)
        if var not in self._defined:
            self._defined.add(var)
            return self.descend(node)
        changes: dict[str, AnyValue] = {field: copied(var)}
        for name in node.WALKED:
            if name != "body":
                value = getattr(node, name)
                changes[name] = tuple(map(self.visit, value)) if isinstance(value, tuple) else self.visit(value)
        outer = self._names
        self._names = {**outer, var: changes[field]}
        changes["body"] = self.visit(node.body)
        self._names = outer
        return node.with_fields(**changes)

    visit_Allocate = visit_For = visit_Let = visit_LetStmt = _scope

    def visit_Var(self, node: Var) -> Var:
        """The variable of the definition in scope."""
        return self._names.get(node, node)

    visit_SizeVar = visit_Var

    def _access(self, node: AnyValue) -> AnyValue:
        field = "node" if isinstance(node, AttrStmt) else "buffer_var"
        made, var = self.descend(node), getattr(node, field)
        return made.with_fields(**{field: self._names[var]}) if var in self._names else made

    visit_Load = visit_Store = visit_AttrStmt = _access
