"""Types of variables that follow from their uses, and result types of recursive functions. Forward inference leaves them unknown."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from passat.ir.call_types import unify
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
from passat.ir.op import Op, OpTypeError
from passat.ir.traverse import children, evaluation_parts, post_order
from passat.ir.type_functor import TypeMutator
from passat.ir.type_solver import TypeSolver, holes, instantiated
from passat.ir.types import FuncType, IncompleteType, RefType, TensorType, TupleType, Type, TypeVar

_BOOL: Final = TensorType((), "bool")
_INFINITE: Final = "a type would contain itself"


class UseTypes:
    """The types that variables of functions must have, because of how they are used.

    Uses as callee, as argument of a function, as operand of a reference, in a pattern, in an `If` and as result count.
    An operator determines the type of its result, but not those of its operands, because it may accept many types. `own` has the functions
    whose results follow from their bodies, by the names under which the functions call each other.
    """

    def __init__(self, functions: Sequence[Function], own: Mapping[str, Function] | None = None) -> None:
        self.contradiction: InferError | None = None
        """The first use that does not fit the other ones."""
        self._own = own or {}
        self._solver = TypeSolver()
        self._types: dict[Expr, Type] = {}
        self._results = {function: function.ret_type or IncompleteType() for function in (*functions, *self._own.values())}
        self._before: list[tuple[Expr, Type | None]] = []
        try:
            for node in post_order(*functions, parts_of=evaluation_parts):
                self._types[node] = self._type_of(node)
            for function in functions:
                self._equal(self._types[function.body], self._results[function])
            self._solve()
        except RecursionError:  # types are nested too deeply to be inferred
            self._types.clear()
            self.contradiction = None

    def assign(self) -> bool:
        """Assigns types to variables and to names of functions, and clears the unknown types that may depend on them.

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

    def other_results(self) -> list[tuple[Function, Type]]:
        """Functions that have another result type than their recursive calls were given, and the latter. A branch may differ in size."""
        results = [(function, self._solver.resolve(self._results[function])) for function in self._own.values()]
        return [(function, result) for function, result in results if not holes(result) and function.func_type.ret_type != result]

    def undo(self) -> None:
        """Restores the types from before `assign`."""
        for node, type_ in self._before:
            node._checked_type = type_

    def _is_own(self, node: Expr) -> bool:
        return isinstance(node, GlobalVar) and node.name_hint in self._own

    def _equal(self, a: Type, b: Type) -> None:
        """Unifies two types, one with holes. Ignores contradictions: inference reports them, except for branches that differ
        in sizes."""
        self._needs(a, b, None)

    def _needs(self, found: Type, needed: Type, at: Expr | None, what: str = "") -> None:
        """Unifies the type of a value with the type that a use needs. Remembers a contradiction, if `at` is given."""
        found, needed = self._solver.resolve(found), self._solver.resolve(needed)
        why = ""
        try:
            if holes(found) or holes(needed):
                self._solver.unify(found, needed)
                return
            if at is None or unify(needed, found, set(), {}):
                return
        except InferError as error:
            why = f": {error}" if _INFINITE in str(error) else ""
        if at is not None and self.contradiction is None:
            self.contradiction = InferError(f"{what} has type {found!r}, but its use here needs {needed!r}{why}").locate(at)

    def _solve(self) -> None:
        while True:
            with suppress(InferError):
                self._solver.solve()
                return

    def _of_var(self, var: Var) -> Type:
        if var not in self._types:
            self._types[var] = IncompleteType() if var._checked_type is None else _fresh(var._checked_type)
        return self._types[var]

    def _type_of(self, node: Expr) -> Type:
        """The type of a node, with holes for unknown types. The parts already have types."""
        if isinstance(node, Var):
            return self._of_var(node)
        if isinstance(node, GlobalVar) and node.name_hint in self._own:
            function = self._own[node.name_hint]
            return FuncType([self._of_var(param) for param in function.params], self._results[function], _type_params(function))
        known = IncompleteType() if node._checked_type is None else _fresh(node._checked_type)
        found = self._structure(node)
        if found is not None:
            self._equal(known, found)
        return known

    def _structure(self, node: Expr) -> Type | None:
        """The type of a node from the types of its parts. May also fill holes in these."""
        of = self._types
        if isinstance(node, Call):
            return self._result(node) if isinstance(node.op, Op) else self._call(node)
        if isinstance(node, Tuple):
            return TupleType(of[field] for field in node.fields)
        if isinstance(node, TupleGetItem):
            type_ = self._solver.resolve(of[node.tuple_value])
            return type_.fields[node.index] if isinstance(type_, TupleType) and node.index < len(type_.fields) else None
        if isinstance(node, Function):
            result = of[node.body] if node.ret_type is None else node.ret_type
            self._equal(of[node.body], result)
            return FuncType([self._of_var(param) for param in node.params], result, _type_params(node))
        if isinstance(node, Let):
            self._equal(self._of_var(node.var), of[node.value])
            return of[node.body]
        if isinstance(node, If):
            self._needs(of[node.cond], _BOOL, node, "the condition")
            self._equal(of[node.true_branch], of[node.false_branch])
            return of[node.true_branch]
        if isinstance(node, Match):
            return self._match(of[node.data], node.clauses)
        if isinstance(node, RefCreate):
            return RefType(of[node.value])
        if isinstance(node, RefRead):
            value = IncompleteType()
            self._needs(of[node.ref], RefType(value), node, "the operand of ref_read")
            return value
        if isinstance(node, RefWrite):
            self._needs(of[node.ref], RefType(of[node.value]), node, "the reference")
        return None

    def _call(self, call: Call) -> Type:
        callee = self._solver.resolve(self._types[call.op])
        args = [self._types[arg] for arg in call.args]
        if isinstance(callee, FuncType) and callee.type_params:
            callee = instantiated(callee)
        if isinstance(callee, FuncType) and len(callee.arg_types) == len(args):
            for i, (wanted, given) in enumerate(zip(callee.arg_types, args, strict=True)):
                self._needs(given, wanted, call, f"argument {i + 1}")
            return callee.ret_type
        result = IncompleteType()
        self._needs(callee, FuncType(args, result), call, "the callee")
        return result

    def _result(self, call: Call) -> Type | None:
        """The result of an operator, which is computed when the types of its operands are known. None if it depends on their values."""
        op, type_ = call.op, call._checked_type
        if not isinstance(op, Op) or op.known_operands or (type_ is not None and not holes(type_)):
            return None

        def infer(types: Sequence[Type]) -> Type | None:
            try:
                return op.infer(types, call.attrs)
            except OpTypeError:
                return None  # inference reports it

        return self._solver.delay([self._types[arg] for arg in call.args], infer)

    def _match(self, data: Type, clauses: Iterable[Clause]) -> Type:
        result: Type = IncompleteType()
        for clause in clauses:
            self._pattern(clause, data)
            self._equal(result, self._types[clause.rhs])
        return result

    def _pattern(self, clause: Clause, data: Type) -> None:
        stack = [(clause.lhs, data)]
        while stack:
            part, of = stack.pop()
            if isinstance(part, PatternVar):
                self._equal(self._of_var(part.var), of)
            elif isinstance(part, PatternTuple):
                fields = [IncompleteType() for _ in part.patterns]
                self._needs(of, TupleType(fields), clause.rhs, "the matched value")
                stack += [(inner, self._solver.resolve(field)) for inner, field in zip(part.patterns, fields, strict=True)]
            elif isinstance(part, PatternConstructor) and len(part.patterns) == len(part.constructor.inputs):
                made = instantiated(_constructed(part.constructor))
                self._needs(of, made.ret_type, clause.rhs, "the matched value")
                stack += zip(part.patterns, made.arg_types, strict=True)


def _type_params(function: Function) -> list[TypeVar]:
    return [param for param in function.type_params if isinstance(param, TypeVar)]


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
