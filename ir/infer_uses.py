"""Types of variables that follow from their uses, and result types of recursive functions. Forward inference leaves them unknown."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from passat.ir.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.infer_error import InferError
from passat.ir.op import Op
from passat.ir.traverse import children, evaluation_parts, post_order
from passat.ir.type_functor import TypeMutator
from passat.ir.type_solver import TypeSolver, holes, instantiated
from passat.ir.types import FuncType, IncompleteType, RefType, TupleType, Type, TypeVar


class UseTypes:
    """The types that a function's variables must have, because of how they are used.

    Uses as callee, as argument of a function, as operand of a reference, in a pattern, as the branch of an `If` and as a result count.
    Calls of operators do not: an operator may accept many types. `own` is the name by which the function calls itself.
    """

    def __init__(self, function: Function, own: str | None = None) -> None:
        self._function = function
        self._own = own
        self._solver = TypeSolver()
        self._types: dict[Expr, Type] = {}
        self._result: Type = IncompleteType() if function.ret_type is None else function.ret_type
        self._before: list[tuple[Expr, Type | None]] = []
        try:
            for node in post_order(function, parts_of=evaluation_parts):
                self._types[node] = self._type_of(node)
            self._equal(self._types[function.body], self._result)
        except RecursionError:  # types are nested too deeply to be inferred
            self._types.clear()

    @property
    def _own_type(self) -> Type:
        """The type of the function in its recursive calls."""
        params = [param for param in self._function.type_params if isinstance(param, TypeVar)]
        return FuncType([self._of_var(param) for param in self._function.params], self._result, params)

    def assign(self) -> bool:
        """Assigns types to variables and to the function's name, and clears the unknown types that may depend on them.

        Returns whether any type became known.
        """
        found: dict[Expr, Type] = {}
        for node, type_ in self._types.items():
            if (isinstance(node, Var) or self._is_own(node)) and _is_unknown(node):
                resolved = self._solver.resolve(type_)
                if not holes(resolved):
                    found[node] = resolved
        if found:
            again: set[Expr] = set()
            for node in self._types:  # parts come first
                if node in found or _is_unknown(node) or not again.isdisjoint(children(node)):
                    again.add(node)
            self._before = [(node, node._checked_type) for node in again]
            for node in again:
                if node in found or not isinstance(node, (Var, GlobalVar, Op)):
                    node._checked_type = found.get(node)
                    if hasattr(node, "_known_value"):
                        del node._known_value
        return bool(found)

    def agrees(self) -> bool:
        """Whether the function has the result type that its recursive calls were given. A branch may have a different size."""
        result = self._solver.resolve(self._result)
        return self._own is None or bool(holes(result)) or self._function.func_type.ret_type == result

    def undo(self) -> None:
        """Restores the types from before `assign`."""
        for node, type_ in self._before:
            node._checked_type = type_

    def _is_own(self, node: Expr) -> bool:
        return isinstance(node, GlobalVar) and node.name_hint == self._own

    def _equal(self, a: Type, b: Type) -> None:
        """Unifies two types, one with holes. Ignores contradictions, which inference reports."""
        if holes(self._solver.resolve(a)) or holes(self._solver.resolve(b)):
            with suppress(InferError):
                self._solver.unify(a, b)

    def _of_var(self, var: Var) -> Type:
        if var not in self._types:
            self._types[var] = IncompleteType() if var._checked_type is None else _fresh(var._checked_type)
        return self._types[var]

    def _type_of(self, node: Expr) -> Type:
        """The type of a node, with holes for unknown types. The parts already have types."""
        if isinstance(node, Var):
            return self._of_var(node)
        if self._is_own(node):
            return self._own_type
        known = IncompleteType() if node._checked_type is None else _fresh(node._checked_type)
        found = self._structure(node)
        if found is not None:
            self._equal(known, found)
        return known

    def _structure(self, node: Expr) -> Type | None:
        """The type of a node from the types of its parts. May also fill holes in these."""
        of = self._types
        if isinstance(node, Call):
            return None if isinstance(node.op, Op) else self._call(of[node.op], [of[arg] for arg in node.args])
        if isinstance(node, Tuple):
            return TupleType(of[field] for field in node.fields)
        if isinstance(node, TupleGetItem):
            type_ = self._solver.resolve(of[node.tuple_value])
            return type_.fields[node.index] if isinstance(type_, TupleType) and node.index < len(type_.fields) else None
        if isinstance(node, Function):
            result = of[node.body] if node.ret_type is None else node.ret_type
            self._equal(of[node.body], result)
            params = [param for param in node.type_params if isinstance(param, TypeVar)]
            return FuncType([self._of_var(param) for param in node.params], result, params)
        if isinstance(node, Let):
            self._equal(self._of_var(node.var), of[node.value])
            return of[node.body]
        if isinstance(node, If):
            self._equal(of[node.true_branch], of[node.false_branch])
            return of[node.true_branch]
        if isinstance(node, Match):
            return self._match(of[node.data], node.clauses)
        if isinstance(node, RefCreate):
            return RefType(of[node.value])
        if isinstance(node, RefRead):
            value = IncompleteType()
            self._equal(of[node.ref], RefType(value))
            return value
        if isinstance(node, RefWrite):
            self._equal(of[node.ref], RefType(of[node.value]))
        return None

    def _call(self, callee: Type, args: Iterable[Type]) -> Type:
        callee = self._solver.resolve(callee)
        if isinstance(callee, FuncType) and callee.type_params:
            callee = instantiated(callee)
        result = IncompleteType()
        args = list(args)
        if isinstance(callee, FuncType) and len(callee.arg_types) == len(args):
            for wanted, given in zip(callee.arg_types, args, strict=True):
                self._equal(wanted, given)
            return callee.ret_type
        self._equal(callee, FuncType(args, result))
        return result

    def _match(self, data: Type, clauses: Iterable[Clause]) -> Type:
        result: Type = IncompleteType()
        for clause in clauses:
            self._pattern(clause.lhs, data)
            self._equal(result, self._types[clause.rhs])
        return result

    def _pattern(self, pattern: Pattern, data: Type) -> None:
        stack = [(pattern, data)]
        while stack:
            part, of = stack.pop()
            if isinstance(part, PatternVar):
                self._equal(self._of_var(part.var), of)
            elif isinstance(part, PatternTuple):
                fields = [IncompleteType() for _ in part.patterns]
                self._equal(of, TupleType(fields))
                stack += [(inner, self._solver.resolve(field)) for inner, field in zip(part.patterns, fields, strict=True)]
            elif isinstance(part, PatternConstructor) and len(part.patterns) == len(part.constructor.inputs):
                made = instantiated(_constructed(part.constructor))
                self._equal(of, made.ret_type)
                stack += zip(part.patterns, made.arg_types, strict=True)


def _constructed(constructor: Constructor) -> FuncType:
    return FuncType(constructor.inputs, constructor.made, constructor.type_vars)


def _is_unknown(node: Expr) -> bool:
    return node._checked_type is None or bool(holes(node._checked_type))


def _fresh(type_: Type) -> Type:
    """Replaces each unknown type by a separate hole, because inference uses one object for all of them."""
    found: Type = _FRESH.visit(type_) if holes(type_) else type_
    return found


class _Fresh(TypeMutator):
    def visit_incomplete_type(self, typ: IncompleteType) -> Type:
        """Returns a new unknown type."""
        return IncompleteType()


_FRESH: Final = _Fresh()
