"""Visitors and mutators of expressions with Relay's interface: one method per kind of node, `visit` to recurse, and `memo_map` for results.

`visit` does not recurse along dataflow, so chains of any length take no stack. Before the method of a node is entered, the operands of the
node have been visited:

* the arguments and the callee of a call, the fields of a tuple, the tuple of a projection, the operands of reference operations;
* the condition of an if, and the data of a match;
* the value, the variable and the body of a let, in this order.

In a method, `self.visit(part)` of these parts is therefore a lookup. Bodies of functions, branches and match arms are *not* visited
beforehand: the methods visit them, so the stack grows with the nesting of functions, ifs and matches.

Override `visit` to see every node before its method does; the operands have been visited by then. Override `enter_let` to act between the
value and the body of a let.
"""

from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any as AnyValue
from typing import Final, Generic, TypeVar

from passat.ir.collector import collector_paused
from passat.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.op import Op
from passat.ir.traverse import evaluation_parts, pattern_vars, with_children, with_pattern_vars
from passat.ir.types import Type

T = TypeVar("T")


class ExprFunctor(Generic[T]):
    """Base class of visitors. Each method raises NotImplementedError unless a subclass overrides it."""

    def __init__(self) -> None:
        self.memo_map: dict[Expr, T] = {}

    def visit(self, expr: Expr) -> T:
        """Returns the result for an expression, computed once per node."""
        memo = self.memo_map
        if expr in memo:
            return memo[expr]
        for part in _before(expr):
            if part not in memo:
                self._visit_before(expr)
                break
        memo[expr] = result = self._dispatch(expr)
        return result

    def _visit_before(self, root: Expr) -> None:
        """Visits the operands of a node before its method, in the order of evaluation."""
        memo = self.memo_map
        visit = self._dispatch if type(self).visit is ExprFunctor.visit else self.visit
        parts = self._operands(root)  # the remaining parts of the last pending node
        pending: list[Expr] = []
        outer: list[Iterator[Expr]] = []
        with collector_paused():  # one iterator for each level of depth
            while True:
                for node in parts:
                    if node in memo:
                        continue
                    pending.append(node)
                    outer.append(parts)
                    parts = self._operands(node)
                    break
                else:
                    if not pending:
                        return
                    node = pending.pop()
                    parts = outer.pop()
                    if node not in memo:
                        memo[node] = visit(node)  # an overriding `visit` may not have stored the result

    def _operands(self, node: Expr) -> Iterator[Expr]:
        """The operands of a node, in order. Calls `enter_let` before the body of a let."""
        return self._parts_of_let(node) if type(node) is Let else iter(_before(node))

    def _parts_of_let(self, let: Let) -> Iterator[Expr]:
        yield let.value
        yield let.var
        self.enter_let(let)
        yield let.body

    def enter_let(self, let: Let) -> None:
        """Called after the value and the variable of a let have been visited, and before its body."""

    def _dispatch(self, expr: Expr) -> T:
        kind = type(expr)
        method = _METHODS.get(kind) or next((_METHODS[base] for base in kind.__mro__ if base in _METHODS), None)
        if method is None:
            raise TypeError(f"{kind.__name__} is not a kind of expression that can be visited")
        result: T = getattr(self, method)(expr)
        return result

    def visit_type(self, type_: Type, /) -> Type:
        """Visits a type in an expression: an annotation, a declared result, or a type argument."""
        return type_

    def visit_function(self, function: Function, /) -> T:
        """A function."""
        raise NotImplementedError

    def visit_let(self, let: Let, /) -> T:
        """A let."""
        raise NotImplementedError

    def visit_call(self, call: Call, /) -> T:
        """A call."""
        raise NotImplementedError

    def visit_var(self, var: Var, /) -> T:
        """A local variable, both at its binding and at its uses."""
        raise NotImplementedError

    def visit_global_var(self, var: GlobalVar, /) -> T:
        """The name of a function in the module."""
        raise NotImplementedError

    def visit_if(self, choice: If, /) -> T:
        """An if."""
        raise NotImplementedError

    def visit_tuple(self, tuple_: Tuple, /) -> T:
        """A tuple."""
        raise NotImplementedError

    def visit_tuple_getitem(self, item: TupleGetItem, /) -> T:
        """A field of a tuple."""
        raise NotImplementedError

    def visit_constant(self, constant: Constant, /) -> T:
        """A constant."""
        raise NotImplementedError

    def visit_op(self, op: Op, /) -> T:
        """An operator."""
        raise NotImplementedError

    def visit_ref_create(self, ref: RefCreate, /) -> T:
        """The creation of a reference."""
        raise NotImplementedError

    def visit_ref_read(self, read: RefRead, /) -> T:
        """A read of a reference."""
        raise NotImplementedError

    def visit_ref_write(self, write: RefWrite, /) -> T:
        """A write to a reference."""
        raise NotImplementedError

    def visit_constructor(self, constructor: Constructor, /) -> T:
        """A constructor."""
        raise NotImplementedError

    def visit_match(self, match: Match, /) -> T:
        """A match."""
        raise NotImplementedError


class ExprVisitor(ExprFunctor[None]):
    """Visits every node once. Subclasses override the methods they need and call `super()` to visit the parts."""

    def _visit_all(self, parts: Sequence[Expr]) -> None:
        for part in parts:
            self.visit(part)

    def visit_function(self, function: Function, /) -> None:
        """Visits parameters and body."""
        self._visit_all((*function.params, function.body))

    def visit_let(self, let: Let, /) -> None:
        """Visits value, variable and body."""
        self._visit_all((let.value, let.var, let.body))

    def visit_call(self, call: Call, /) -> None:
        """Visits arguments and callee."""
        self._visit_all((*call.args, call.op))

    def visit_var(self, var: Var, /) -> None:
        """Has no parts."""

    def visit_global_var(self, var: GlobalVar, /) -> None:
        """Has no parts."""

    def visit_if(self, choice: If, /) -> None:
        """Visits condition and branches."""
        self._visit_all((choice.cond, choice.true_branch, choice.false_branch))

    def visit_tuple(self, tuple_: Tuple, /) -> None:
        """Visits the fields."""
        self._visit_all(tuple_.fields)

    def visit_tuple_getitem(self, item: TupleGetItem, /) -> None:
        """Visits the tuple."""
        self.visit(item.tuple_value)

    def visit_constant(self, constant: Constant, /) -> None:
        """Has no parts."""

    def visit_op(self, op: Op, /) -> None:
        """Has no parts."""

    def visit_ref_create(self, ref: RefCreate, /) -> None:
        """Visits the value."""
        self.visit(ref.value)

    def visit_ref_read(self, read: RefRead, /) -> None:
        """Visits the reference."""
        self.visit(read.ref)

    def visit_ref_write(self, write: RefWrite, /) -> None:
        """Visits reference and value."""
        self._visit_all((write.ref, write.value))

    def visit_constructor(self, constructor: Constructor, /) -> None:
        """Has no parts."""

    def visit_match(self, match: Match, /) -> None:
        """Visits the data, then the variables and the body of each arm."""
        self.visit(match.data)
        for clause in match.clauses:
            self._visit_all((*pattern_vars(clause.lhs), clause.rhs))


class ExprMutator(ExprFunctor[Expr]):
    """Rebuilds an expression from its visited parts. Returns the same object if no part changed."""

    def visit_function(self, function: Function, /) -> Expr:
        """Rebuilds a function from its visited parameters, body and declared result."""
        params = [self._variable(param) for param in function.params]
        body = self.visit(function.body)
        result = function.ret_type and self.visit_type(function.ret_type)
        if result is function.ret_type:
            return with_children(function, (*params, body))
        return Function(params, body, result, function.type_params, function.attrs, function.span)

    def visit_let(self, let: Let, /) -> Expr:
        """Rebuilds a let from its visited parts."""
        return with_children(let, (self._variable(let.var), self.visit(let.value), self.visit(let.body)))

    def visit_call(self, call: Call, /) -> Expr:
        """Rebuilds a call from its visited callee, arguments and type arguments."""
        args = [self.visit(arg) for arg in call.args]
        callee = self.visit(call.op)
        types = call._type_args and [self.visit_type(type_) for type_ in call._type_args]
        if callee is call.op and all(map(is_, args, call.args)) and all(map(is_, types, call._type_args)):
            return call
        return Call(callee, args, call.attrs, types, call.span)

    def visit_var(self, var: Var, /) -> Expr:
        """Returns the variable, or a new one if `visit_type` changes its annotation."""
        annotation = var.type_annotation and self.visit_type(var.type_annotation)
        return var if annotation is var.type_annotation else Var(var.name_hint, annotation, var.span)

    def visit_global_var(self, var: GlobalVar, /) -> Expr:
        """Returns the variable."""
        return var

    def visit_if(self, choice: If, /) -> Expr:
        """Rebuilds an if from its visited parts."""
        return self._rebuild(choice)

    def visit_tuple(self, tuple_: Tuple, /) -> Expr:
        """Rebuilds a tuple from its visited fields."""
        return self._rebuild(tuple_)

    def visit_tuple_getitem(self, item: TupleGetItem, /) -> Expr:
        """Rebuilds a projection from its visited tuple."""
        return self._rebuild(item)

    def visit_constant(self, constant: Constant, /) -> Expr:
        """Returns the constant."""
        return constant

    def visit_op(self, op: Op, /) -> Expr:
        """Returns the operator."""
        return op

    def visit_ref_create(self, ref: RefCreate, /) -> Expr:
        """Rebuilds the creation of a reference from its visited value."""
        return self._rebuild(ref)

    def visit_ref_read(self, read: RefRead, /) -> Expr:
        """Rebuilds a read from its visited reference."""
        return self._rebuild(read)

    def visit_ref_write(self, write: RefWrite, /) -> Expr:
        """Rebuilds a write from its visited reference and value."""
        return self._rebuild(write)

    def visit_constructor(self, constructor: Constructor, /) -> Expr:
        """Returns the constructor."""
        return constructor

    def visit_match(self, match: Match, /) -> Expr:
        """Rebuilds a match from its visited data and arms. The variables of an arm are visited before its body."""
        data = self.visit(match.data)
        clauses = [self._clause(clause) for clause in match.clauses]
        if data is match.data and all(new is old for new, old in zip(clauses, match.clauses, strict=True)):
            return match
        return Match(data, clauses, match.complete, match.span)

    def _rebuild(self, node: Expr) -> Expr:
        return with_children(node, [self.visit(part) for part in evaluation_parts(node)])

    def _clause(self, clause: Clause) -> Clause:
        pattern = with_pattern_vars(clause.lhs, self._variable)
        body = self.visit(clause.rhs)
        return clause if pattern is clause.lhs and body is clause.rhs else Clause(pattern, body)

    def _variable(self, var: Var) -> Var:
        new = self.visit(var)
        if not isinstance(new, Var):
            raise TypeError(f"%{var.name_hint} is bound here, so visiting it must return a variable, not {type(new).__name__}")
        return new


_METHODS: Final[dict[type[AnyValue], str]] = {
    Function: "visit_function",
    Let: "visit_let",
    Call: "visit_call",
    Var: "visit_var",
    GlobalVar: "visit_global_var",
    If: "visit_if",
    Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_getitem",
    Constant: "visit_constant",
    Op: "visit_op",
    RefCreate: "visit_ref_create",
    RefRead: "visit_ref_read",
    RefWrite: "visit_ref_write",
    Constructor: "visit_constructor",
    Match: "visit_match",
}


def _before(expr: Expr) -> Sequence[Expr]:
    """The operands that must be visited before the method of a node is entered."""
    if type(expr) is Call:
        return (*expr.args, expr.op)
    if type(expr) is Function:
        return ()
    if type(expr) is If:
        return (expr.cond,)
    return (expr.data,) if type(expr) is Match else evaluation_parts(expr)
