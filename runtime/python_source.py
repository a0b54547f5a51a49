"""Prints programs as Python source, to read them, or to run them where Python is required.

Each node is one statement, in the order of evaluation (`passat.ir.anf`). Constants, operators and constructors are names that are bound
when the source is run. The source contains only numbers, Python keywords, and names of letters, digits and underscores, so a program cannot
inject code. It runs without builtins.
"""

import keyword
import re
from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.ir.analysis import free_vars
from passat.ir.anf import to_anf
from passat.ir.attrs import Attrs
from passat.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Pattern,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.infer import infer_module, infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.sealed import is_sealed
from passat.ir.tensor import Tensor
from passat.ir.traverse import pattern_vars
from passat.runtime.interpreter import ExecutorError, bind_pattern, compute
from passat.runtime.values import ConstructorValue, Data, NDArray, RefValue, TupleValue, to_data

DEEPEST: Final = 80
"""Maximum nesting of functions, branches and arms: Python allows 100 levels of indentation."""
_INDENT: Final = "    "
_RESERVED: Final = frozenset((*keyword.kwlist, *keyword.softkwlist))


class PythonSource(NamedTuple):
    """The source of a program, and the values of the other names in it. Its function `program` returns the result."""

    text: str
    names: dict[str, AnyValue]


def to_python(expr: Expr, mod: IRModule | None = None) -> PythonSource:
    """Writes an expression, and the functions of a module that it needs, as Python source.

    Raises ExecutorError for free variables, functions of other back ends, and programs that are nested too deeply for Python;
    passat.ir.infer.InferError for ill-typed programs, and KeyError for functions that the module does not have.

    >>> from passat.ir.expr import const
    >>> print(to_python(const(2.0) + const(3.0)).text)
    def program():
        x = add(constant, constant_1)
        return x
    <BLANKLINE>
    """
    module = IRModule() if mod is None else mod
    infer_module(module)
    free = free_vars(expr)
    if free:
        raise ExecutorError(f"the expression has free variables: {', '.join(f'%{var.name_hint}' for var in free)}")
    return _Writer(module).write(infer_type(expr))


def run_as_python(expr: Expr, mod: IRModule | None = None, target: object = None) -> AnyValue:
    """Writes an expression as Python source and runs it. Returns what `Executor.evaluate` returns; functions are Python functions.

    `target` is accepted as in TVM and ignored. Raises the same exceptions as `to_python`, and ExecutorError for failures at run time and
    recursion that is too deep for Python.
    """
    source = to_python(expr, mod)
    namespace: dict[str, AnyValue] = {"__builtins__": {}, **source.names}
    exec(compile(source.text, "<program>", "exec"), namespace)  # safe: contains only numbers, keywords and sanitized names
    try:
        return namespace["program"]()
    except RecursionError:
        raise ExecutorError("calls are nested too deeply for Python; use relay.create_executor, which supports deeper recursion") from None


class _Writer:
    """Writes statements. `names` are the values that the source refers to."""

    def __init__(self, module: IRModule) -> None:
        self._module = module
        self._names: dict[str, AnyValue] = {}
        self._taken: dict[str, int] = {"program": 1, "take": 1, "truth": 1, "tuple_of": 1, "Ref": 1}
        self._known: dict[object, str] = {}
        self._pending: list[tuple[str, Function]] = []
        self._lines: list[str] = []

    def write(self, expr: Expr) -> PythonSource:
        """The source of an expression and of the functions that it reaches."""
        self._function("program", Function([], expr), 0)
        while self._pending:
            self._lines.append("")
            self._lines.append("")
            self._function(*self._pending.pop(0), 0)
        helpers = {"take": _take, "truth": _truth, "tuple_of": TupleValue, "Ref": RefValue}
        return PythonSource("\n".join(self._lines) + "\n", {**helpers, **self._names})

    def _new(self, hint: str) -> str:
        """A unique name."""
        name = re.sub("[^0-9a-zA-Z]+", "_", hint).strip("_")
        name = name if re.match("[a-zA-Z]", name) and name not in _RESERVED else f"v_{name}".rstrip("_")
        number = self._taken.get(name, 0)
        found = name
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken[name] = number
        self._taken.setdefault(found, 0)
        return found

    def _named(self, key: object, hint: str, value: AnyValue = None) -> str:
        """The name for a key, the same on each call. Binds it to `value` if that is given."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._new(hint)
            if value is not None:
                self._names[found] = value
        return found

    def _atom(self, expr: Expr) -> str:
        if isinstance(expr, Var):
            return self._named(expr, expr.name_hint)
        if isinstance(expr, Constant):
            return self._named(expr, "constant", NDArray(expr.data))
        if isinstance(expr, Constructor):
            return self._named(expr, expr.name_hint, _constructing(expr))
        if isinstance(expr, GlobalVar):
            return self._global(expr)
        if isinstance(expr, Op):
            raise ExecutorError(f"{expr!r} cannot be used as a value; wrap it in a function that calls it")
        raise ExecutorError(f"{type(expr).__name__} expressions cannot be written as Python")

    def _global(self, var: GlobalVar) -> str:
        function = self._module[var]
        if not isinstance(function, Function):
            raise ExecutorError(f"@{var.name_hint} belongs to another back end and cannot be written as Python")
        key = ("global", var.name_hint)
        if key not in self._known:
            self._pending.append((self._named(key, var.name_hint), function))
        return self._known[key]

    def _function(self, name: str, function: Function, depth: int) -> None:
        normal = to_anf(Function(function.params, function.body) if is_sealed(function) else function)
        self._line(depth, f"def {name}({', '.join(map(self._atom, normal.params))}):")
        self._body(normal.body, "return", depth + 1)

    def _line(self, depth: int, text: str) -> None:
        if depth > DEEPEST:
            raise ExecutorError(f"the program is nested more than {DEEPEST} levels deep; use relay.create_executor to run it")
        self._lines.append(_INDENT * depth + text)

    def _body(self, body: Expr, result: str, depth: int) -> None:
        """Writes the statements of a body. `result` is `return`, or the variable that the result is assigned to."""
        while isinstance(body, Let):
            self._statement(body.var, body.value, depth)
            body = body.body
        self._line(depth, f"return {self._atom(body)}" if result == "return" else f"{result} = {self._atom(body)}")

    def _statement(self, var: Var, value: Expr, depth: int) -> None:
        name = self._atom(var)
        if isinstance(value, Function):
            self._function(name, value, depth)
        elif isinstance(value, If):
            self._line(depth, f"if truth({self._atom(value.cond)}):")
            self._body(value.true_branch, name, depth + 1)
            self._line(depth, "else:")
            self._body(value.false_branch, name, depth + 1)
        elif isinstance(value, Match):
            self._match(name, value, depth)
        elif isinstance(value, RefWrite):
            self._line(depth, f"{self._atom(value.ref)}.value = {self._atom(value.value)}")
            self._line(depth, f"{name} = tuple_of()")
        else:
            self._line(depth, f"{name} = {self._operation(value)}")

    def _match(self, name: str, match: Match, depth: int) -> None:
        data, got = self._atom(match.data), self._new("fields")
        for number, clause in enumerate(match.clauses):
            pattern = self._new("pattern")
            self._names[pattern] = clause.lhs
            self._line(depth, f"{'elif' if number else 'if'} ({got} := take({pattern}, {data})) is not None:")
            for place, var in enumerate(pattern_vars(clause.lhs)):
                self._line(depth + 1, f"{self._atom(var)} = {got}[{place}]")
            self._body(clause.rhs, name, depth + 1)
        unmatched = self._new("unmatched")
        self._names[unmatched] = _unmatched
        if match.clauses:
            self._line(depth, "else:")
        self._line(depth + bool(match.clauses), f"{name} = {unmatched}({data})")

    def _operation(self, value: Expr) -> str:
        """The right side of an assignment."""
        atoms = self._atom
        if isinstance(value, Call):
            return f"{self._callee(value)}({', '.join(map(atoms, value.args))})"
        if isinstance(value, Tuple):
            return f"tuple_of({', '.join(map(atoms, value.fields))})"
        if isinstance(value, TupleGetItem):
            return f"{atoms(value.tuple_value)}[{int(value.index)}]"
        if isinstance(value, RefCreate):
            return f"Ref({atoms(value.value)})"
        return f"{atoms(value.ref)}.value" if isinstance(value, RefRead) else atoms(value)

    def _callee(self, call: Call) -> str:
        if not isinstance(call.op, Op):
            return self._atom(call.op)
        return self._named((call.op, call.attrs), call.op.name, _operating(call.op, call.attrs))


def _operating(op: Op, attrs: Attrs) -> Callable[..., AnyValue]:
    """A Python function that calls an operator with these attributes on values."""

    def run(*args: AnyValue) -> AnyValue:
        return _shown(compute(op, [to_data(arg, None, f"operand {i + 1} of {op!r}") for i, arg in enumerate(args)], attrs))

    return run


def _shown(data: Data) -> AnyValue:
    return NDArray(data) if isinstance(data, Tensor) else TupleValue(*map(_shown, data))


def _constructing(constructor: Constructor) -> Callable[..., ConstructorValue]:
    def run(*fields: AnyValue) -> ConstructorValue:
        return ConstructorValue(constructor.tag, fields, constructor)

    return run


def _truth(value: AnyValue) -> bool:
    if not isinstance(value, NDArray) or value.dtype != "bool" or value.tensor.size != 1:
        raise ExecutorError(f"the condition of an if must be a scalar bool, not {value!r}")
    return bool(value.numpy().reshape(()))


def _take(pattern: Pattern, value: AnyValue) -> Sequence[AnyValue] | None:
    """The values of a pattern's variables, in order, if it matches a value."""
    bound = bind_pattern(pattern, value)
    return None if bound is None else [bound[var] for var in pattern_vars(pattern)]


def _unmatched(value: AnyValue) -> AnyValue:
    raise ExecutorError(f"no arm of the match accepts {value!r}")
