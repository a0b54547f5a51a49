"""Continuation-passing style: functions get a continuation as their last parameter, and call it with their result instead of returning it.

Based on "Representing Control: a Study of the CPS Transformation", Danvy and Filinski, 1992. Converts A-normal form, in which each call is
the value of a let: the rest of the scope is the continuation of the call.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from passat.ir.anf import to_anf
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
    Var,
)
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.passat_error import PassatError
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, pattern_vars, with_children, with_pattern_vars
from passat.ir.type_functor import TypeMutator
from passat.ir.type_variables import all_type_vars
from passat.ir.types import FuncType, IncompleteType, Type, TypeVar, occurring, substitute

Renamed: TypeAlias = dict[str, GlobalVar]
"""The names of converted global functions, by the names of the originals."""


class CpsError(PassatError, ValueError, RuntimeError):
    """A program cannot be converted to continuation-passing style, or is not in it."""


def to_cps(function: Function, mod: IRModule | None = None, renamed: Renamed | None = None) -> Function:
    """Converts a function to continuation-passing style.

    The last parameter of the result is its continuation, and the last type parameter the type of the answer. Adds converted forms of the
    global functions that are called to `mod`, named with the suffix `_cps`. Raises CpsError for operators and constructors as values, and
    for branches and loops of ONNX.
    """
    renamed = {} if renamed is None else renamed
    pending: list[GlobalVar] = []
    converted = _Converter(function, mod, renamed, pending).run()
    while pending:
        var = pending.pop()
        assert mod is not None  # the function was found in it
        mod.update_func(renamed[var.name_hint], _Converter(mod[var], mod, renamed, pending).run())
    return converted


def un_cps(function: Function) -> Function:
    """Converts a function in continuation-passing style to one that returns the result: its continuation returns the argument.

    Raises CpsError for functions that are not in this style, and if the result contains functions.
    """
    infer_type(function)
    last = function.params[-1].checked_type if function.params else None
    answer = function.type_params[-1] if function.type_params else None
    if not isinstance(last, FuncType) or len(last.arg_types) != 1 or not isinstance(answer, TypeVar):
        raise CpsError("the function is not in continuation-passing style: its last parameter must be a continuation; use to_cps")
    if answer in occurring(last.arg_types[0]):
        raise CpsError(
            f"the result of type {last.arg_types[0]!r} has functions in continuation-passing style, so they would return no result"
        )
    answers = {answer: last.arg_types[0]}  # parameters in continuation-passing style return the answer, too
    params = [Var(param.name_hint, substitute(param.checked_type, answers)) for param in function.params[:-1]]
    value = Var("x", last.arg_types[0])
    body = Call(function, [*params, Function([value], value, last.arg_types[0])])
    return Function(params, body, last.arg_types[0], function.type_params[:-1], function.attrs, function.span)


def cps_type(type_: Type, answer: TypeVar) -> Type:
    """The type of a value in continuation-passing style: functions take a continuation, and return the answer."""
    found: Type = _CpsTypes(answer).visit(type_)
    return found


class _CpsTypes(TypeMutator):
    def __init__(self, answer: TypeVar) -> None:
        self._answer = answer

    def visit_func_type(self, typ: FuncType) -> Type:
        """The type of a function that takes a continuation."""
        then = FuncType([self.visit(typ.ret_type)], self._answer)
        return FuncType([*map(self.visit, typ.arg_types), then], self._answer, typ.type_params)


@dataclass
class _Body:
    """A scope to convert: its lets, its result, and its continuation. Inner scopes are in the order of the lets."""

    lets: list[Let]
    result: Expr
    then: Var
    inner: dict[Expr, list["_Body"]]
    names: dict[Expr, Var]
    """Continuations of inner scopes, by the function or branching expression."""
    made: Expr | None = None


class _Converter:
    """Converts one function. Iterative: scopes are listed from the outside to the inside, and built in reverse order."""

    def __init__(self, function: Function, module: IRModule | None, renamed: Renamed, pending: list[GlobalVar]) -> None:
        self._function = infer_type(to_anf(infer_type(function)))
        self._module = module
        self._renamed = renamed
        self._pending = pending
        self._answer = _answer(function)
        self._vars: dict[Var, Var] = {}
        self._direct: set[Expr] = set()
        """Variables of sealed functions, whose calls are not converted."""

    def run(self) -> Function:
        """Builds the converted function."""
        root = self._scope(self._function.body, self._enter(self._function))
        order = [root]
        for body in order:  # the loop appends to it
            self._find_inner(body)
            order += (inner for found in body.inner.values() for inner in found)
        for body in reversed(order):
            body.made = self._build(body)
        return self._made(self._function, root, (self._answer,))

    def _enter(self, function: Function) -> Var:
        """Renames the parameters of a function, and returns its continuation."""
        for param in function.params:
            self._rename(param)
        type_ = function.checked_type
        result = type_.ret_type if isinstance(type_, FuncType) else IncompleteType()
        return Var("k", FuncType([cps_type(result, self._answer)], self._answer))

    def _rename(self, var: Var) -> Var:
        if var not in self._vars:
            type_ = var._checked_type
            self._vars[var] = Var(var.name_hint, None if type_ is None else cps_type(type_, self._answer), var.span)
        return self._vars[var]

    @staticmethod
    def _scope(expr: Expr, then: Var) -> _Body:
        lets = []
        while isinstance(expr, Let):
            lets.append(expr)
            expr = expr.body
        return _Body(lets, expr, then, {}, {})

    def _find_inner(self, body: _Body) -> None:
        for let in body.lets:
            value = let.value
            if is_sealed(value):
                self._direct.add(let.var)
                self._vars[let.var] = let.var
                continue
            var = self._rename(let.var)
            if isinstance(value, Function):
                body.names[value] = self._enter(value)
                body.inner[value] = [self._scope(value.body, body.names[value])]
            elif isinstance(value, (If, Match)):
                then = body.names[value] = Var("k", FuncType([var.type_annotation or IncompleteType()], self._answer))
                branches = children(value)[1:]
                if isinstance(value, Match):
                    for bound in (bound for clause in value.clauses for bound in pattern_vars(clause.lhs)):
                        self._rename(bound)
                body.inner[value] = [self._scope(branch, then) for branch in branches]

    def _build(self, body: _Body) -> Expr:
        rest: Expr = Call(body.then, [self._atom(body.result)])
        for let in reversed(body.lets):
            var, value = self._vars[let.var], let.value
            inner = body.inner.get(value, ())
            if isinstance(value, Function):
                rest = Let(var, self._made(value, inner[0]) if inner else value, rest, let.span)
            elif isinstance(value, (If, Match)):
                branches = [_made(branch) for branch in inner]
                choice = with_children(value, [self._atom(children(value)[0]), *branches])
                if isinstance(choice, Match):
                    clauses = (Clause(with_pattern_vars(clause.lhs, self._vars.__getitem__), clause.rhs) for clause in choice.clauses)
                    choice = Match(choice.data, clauses, choice.complete, choice.span)
                rest = Let(body.names[value], Function([var], rest, self._answer), choice)
            elif isinstance(value, Call) and not self._returns(value.op):
                then = Function([var], rest, self._answer)
                rest = Call(self._atom(value.op), [*map(self._atom, value.args), then], value.attrs, (), value.span)
            elif isinstance(value, Call):
                if "bodies" in value.attrs:
                    raise CpsError(f"{value.op!r} calls functions that return their results, which has no continuation-passing style")
                args = [self._atom(arg) for arg in value.args]
                callee = self._vars.get(value.op, value.op) if isinstance(value.op, Var) else value.op
                rest = Let(var, with_children(value, [callee, *args]), rest, let.span)
            else:
                made = with_children(value, [self._atom(part) for part in children(value)]) if children(value) else self._atom(value)
                rest = Let(var, made, rest, let.span)
        return rest

    def _made(self, function: Function, body: _Body, type_params: Iterable[TypeVar] = ()) -> Function:
        params = [self._vars[param] for param in function.params]
        return Function(
            [*params, body.then], _made(body), self._answer, [*function.type_params, *type_params], function.attrs, function.span
        )

    def _returns(self, callee: Expr) -> bool:
        """Whether a callee is not converted and returns its result."""
        return (
            isinstance(callee, (Op, Constructor)) or callee in self._direct or (isinstance(callee, GlobalVar) and self._is_foreign(callee))
        )

    def _is_foreign(self, var: GlobalVar) -> bool:
        return (
            self._module is not None
            and var in self._module
            and not isinstance(self._module.functions[self._module.get_global_var(var.name_hint)], Function)
        )

    def _atom(self, expr: Expr) -> Expr:
        if isinstance(expr, Var):
            if expr in self._direct:
                raise CpsError(
                    f"%{expr.name_hint} is a function that passes do not enter, and can only be called in continuation-passing style"
                )
            return self._vars.get(expr, expr)
        if isinstance(expr, GlobalVar):
            return self._global(expr)
        if isinstance(expr, (Op, Constructor)):
            name = expr.name if isinstance(expr, Op) else expr.name_hint
            raise CpsError(f"{name} is used as a value; make it a function, as by EtaExpand, which can take a continuation")
        return expr

    def _global(self, var: GlobalVar) -> GlobalVar:
        name = var.name_hint
        if name not in self._renamed:
            if self._module is None or var not in self._module:
                raise CpsError(f"the program calls @{name}, which the module does not have; pass the module to to_cps")
            function = self._module[name]
            self._renamed[name] = GlobalVar(f"{name}_cps")
            self._pending.append(var)
            answer = _answer(function)
            type_ = cps_type(infer_type(function).checked_type, answer)
            if isinstance(type_, FuncType):
                self._renamed[name]._checked_type = FuncType(type_.arg_types, type_.ret_type, [*type_.type_params, answer])
        return self._renamed[name]


def _made(body: _Body) -> Expr:
    assert body.made is not None  # inner scopes are built first
    return body.made


def _answer(function: Function) -> TypeVar:
    """A type parameter that the function does not use."""
    used = {var.name for var in all_type_vars(function)}
    name = "answer"
    while name in used:
        name += "_"
    return TypeVar(name)
