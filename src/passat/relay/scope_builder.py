"""`relay.ScopeBuilder`: programs with lets and ifs, statement by statement."""

from collections.abc import Iterator
from contextlib import contextmanager

from passat.ir.expr import Expr, If, Let, Var
from passat.ir.expr import var as new_var
from passat.ir.infer import infer_type
from passat.ir.types import Type

NewVar = Var | str | tuple[str, Type | str]


class _Scope:
    """The lets of a scope, in order, and its result."""

    def __init__(self) -> None:
        self.bindings: list[tuple[Var, Expr]] = []
        self.result: Expr | None = None
        self.condition: tuple[Expr, Expr] | None = None  # the condition and the first branch of an if before its else


class ScopeBuilder:
    """Builds an expression statement by statement. `let` binds a variable; `if_scope` and `else_scope` are the branches of an if, which is
    the result of the surrounding scope; `ret` sets the result; `get` returns the expression.

    >>> builder = ScopeBuilder()
    >>> x = new_var("x", "bool")
    >>> y = builder.let("y", x)
    >>> with builder.if_scope(y):
    ...     builder.ret(y)
    >>> with builder.else_scope():
    ...     builder.ret(x)
    >>> builder.get()
    free_var %x: bool;
    let %y = %x;
    if (%y) {
      %y
    } else {
      %x
    }
    """

    def __init__(self) -> None:
        self._scopes = [_Scope()]

    def let(self, var: NewVar, value: Expr) -> Var:
        """Binds a variable, given as such, by name, or by name and type, and returns it. Raises ValueError for other tuples."""
        if isinstance(var, tuple):
            if len(var) != 2:
                raise ValueError("Expect var to be Tuple[str, type]")
            var = new_var(*var)
        elif isinstance(var, str):
            var = new_var(var)
        self._open().bindings.append((var, value))
        return var

    @contextmanager
    def if_scope(self, cond: Expr) -> Iterator[None]:
        """The branch that runs if `cond` is true; `else_scope` must follow."""
        scope = self._open()
        self._scopes.append(_Scope())
        yield
        scope.condition = (cond, self._close())

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The branch that runs otherwise. Raises RuntimeError without a preceding `if_scope`."""
        scope = self._scopes[-1]
        if scope.condition is None:
            raise RuntimeError("else_scope must follow by if_scope")
        self._scopes.append(_Scope())
        yield
        scope.result = If(*scope.condition, self._close())
        scope.condition = None

    def type_of(self, expr: Expr) -> Type:
        """The type of an expression: the annotation of a variable, otherwise the inferred type."""
        if isinstance(expr, Var) and expr.type_annotation is not None:
            return expr.type_annotation
        return infer_type(expr).checked_type

    def ret(self, value: Expr) -> None:
        """Sets the result of the scope. Raises RuntimeError if it has one."""
        self._open().result = value

    def get(self) -> Expr:
        """The expression. Raises RuntimeError inside of branches, and without a result."""
        if len(self._scopes) > 1:
            raise RuntimeError("can only call get at the outmost scope")
        return _expression(self._scopes[-1])

    def _open(self) -> _Scope:
        scope = self._scopes[-1]
        if scope.condition is not None:
            raise RuntimeError("else_scope must follow by if_scope: this scope is an if without an else")
        if scope.result is not None:
            raise RuntimeError("ret value is already set in this scope.")
        return scope

    def _close(self) -> Expr:
        return _expression(self._scopes.pop())


def _expression(scope: _Scope) -> Expr:
    if scope.condition is not None:
        raise RuntimeError("an if_scope needs an else_scope")
    if scope.result is None:
        raise RuntimeError("no return value set in scope")
    result = scope.result
    for variable, value in reversed(scope.bindings):
        result = Let(variable, value, result)
    return result
