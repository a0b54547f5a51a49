"""The reference executor, with Relay's name and methods: evaluates expressions on the CPU by the operators' kernels.

`passat.runtime.graph.executors` creates it, and those that build programs first.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any as AnyValue

from passat.ir.analysis import free_vars
from passat.ir.counting import counted
from passat.ir.evaluate import as_constant
from passat.ir.expr import Constructor, Expr, Function, GlobalVar, Let, Var
from passat.ir.infer import infer_module, infer_type
from passat.ir.module import IRModule
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.runtime.devices import Device, Target
from passat.runtime.interpreter import Closure, ComputePrimitive, ExecutorError, Interpreter, Value
from passat.runtime.values import ConstructorValue, NDArray, RefValue, TupleValue, to_data


class Executor:
    """Evaluates expressions. Created by `create_executor`."""

    def __init__(self, mod: IRModule | None, device: Device, target: str | Target, primitive: "ComputePrimitive | None" = None) -> None:
        if mod is not None and not isinstance(mod, IRModule):
            raise TypeError(f"the executor takes an IRModule, not a {type(mod).__name__}; see IRModule.from_expr")
        self.mod = IRModule() if mod is None else mod
        self.device = device
        self.target = target
        self._primitive = primitive

    def __repr__(self) -> str:
        return f"Executor({self.target!s} on {self.device})"

    def evaluate(self, expr: Expr | None = None, binds: Mapping[Var, AnyValue] | None = None) -> AnyValue:
        """Evaluates an expression. For a function, or for the module's `main` by default, returns a Python callable.

        `binds` gives values to free variables: expressions, arrays, numbers. A callable takes its arguments in order or, for a function, by
        name: arrays, numbers, constants, and tuples of them, of the types of the parameters. Results are NDArray, TupleValue,
        ConstructorValue, RefValue, and callables for functions.

        Raises ExecutorError for free variables and failures at run time, passat.ir.infer.InferError for ill-typed programs, and KeyError
        for functions that the module lacks. The callable raises TypeError for wrong arguments.

        >>> from passat.ir.expr import const
        >>> from passat.runtime.devices import cpu
        >>> Executor(None, cpu(), "llvm").evaluate(const(2.0) * const(3.0)).numpy()
        array(6., dtype=float32)
        """
        infer_module(self.mod)
        for var, value in reversed(list((binds or {}).items())):
            if expr is None:
                raise ExecutorError("binds requires an expression")
            expr = Let(var, _as_expr(value, var), expr)
        if expr is None:
            return self._callable(self.mod["main"])
        free = free_vars(expr)
        if free:
            names = ", ".join(f"%{var.name_hint}" for var in free)
            raise ExecutorError(f"the expression has free variables: {names}; pass values with binds={{variable: value}}")
        infer_type(expr)
        if isinstance(expr, (Function, GlobalVar)):
            return self._callable(expr)
        return self.prepare(Function([], expr))(())

    def prepare(self, function: Function) -> Callable[[Sequence[Value]], AnyValue]:
        """What computes a function of the module, or another closed one, on values of the types of its parameters."""
        return partial(self._apply, Closure(function, None))

    def _callable(self, expr: Function | GlobalVar) -> Callable[..., AnyValue]:
        function = self.mod[expr] if isinstance(expr, GlobalVar) else expr
        compute = self.prepare(function)

        def run(*args: AnyValue, **kwargs: AnyValue) -> AnyValue:
            if kwargs and isinstance(expr, GlobalVar):
                raise TypeError(f"can only supply keyword parameters for a relay.Function, found {expr!r}")
            return compute(_values(function, args, kwargs))

        return run

    def _apply(self, closure: Closure, values: Sequence[Value]) -> AnyValue:
        return self._shown(Interpreter(self.mod, primitive=self._primitive).call(closure, values))

    def _shown(self, value: Value) -> AnyValue:
        """Converts a value to its user-facing form. Shared parts are converted once."""
        done: dict[int, AnyValue] = {}
        refs: list[tuple[RefValue, RefValue]] = []
        stack: list[tuple[Value, bool]] = [(value, False)]
        while stack:  # iterative, since long lists are deeply nested
            part, entered = stack.pop()
            if id(part) in done:
                continue
            if isinstance(part, RefValue):  # converted before its content, which may contain the reference itself
                done[id(part)] = shown = RefValue(None)
                refs.append((part, shown))
                stack.append((part.value, False))
                continue
            fields = part if isinstance(part, tuple) else part.fields if isinstance(part, ConstructorValue) else ()
            if fields and not entered:
                stack.append((part, True))
                stack += [(field, False) for field in fields]
            else:
                done[id(part)] = self._whole(part, [done[id(field)] for field in fields])
        for ref, shown in refs:
            shown.value = done[id(ref.value)]
        return done[id(value)]

    def _whole(self, value: Value, fields: Sequence[AnyValue]) -> AnyValue:
        """Converts a value to its user-facing form, given its converted fields."""
        if isinstance(value, Tensor):
            return NDArray(value)
        if isinstance(value, tuple):
            return TupleValue(*fields)
        if isinstance(value, ConstructorValue):
            return ConstructorValue(value.tag, fields, value.constructor)
        if isinstance(value, Constructor):
            return value
        assert isinstance(value, Closure)

        def run(*args: AnyValue, **kwargs: AnyValue) -> AnyValue:
            return self._apply(value, _values(value.function, args, kwargs))

        return run


def _values(function: Function, args: Sequence[AnyValue], kwargs: Mapping[str, AnyValue]) -> list[Value]:
    """The arguments of a call in the order of the parameters, as values of their types. Raises TypeError that names the parameter."""
    ordered = _in_order(function, args, kwargs)
    what = [f"the argument %{param.name_hint}" for param in function.params]
    return [_given(arg, param._checked_type, name) for param, arg, name in zip(function.params, ordered, what, strict=True)]


def _in_order(function: Function, args: Sequence[AnyValue], kwargs: Mapping[str, AnyValue]) -> list[AnyValue]:
    """Returns the arguments in the order of the parameters. Raises TypeError, with TVM's messages where TVM has them."""
    names = [param.name_hint for param in function.params]
    ordered = list(args)
    for position, name in enumerate(names):
        if position < len(args):
            if name in kwargs:
                raise TypeError(
                    f"duplicate argument supplied in both positional args (at position: {position}), "
                    f"and keyword argument (with name: {name})"
                )
        elif name in kwargs:
            ordered.append(kwargs[name])
    unknown = [name for name in kwargs if name not in names]
    if unknown:
        raise TypeError(f"the function has no parameter %{unknown[0]}; it has: {', '.join(f'%{name}' for name in names) or 'none'}")
    if len(ordered) > len(names):
        raise TypeError(f"too many arguments, expected {len(names)}, provided {len(ordered)}")
    if len(ordered) < len(names):
        missing = ", ".join(f"%{name}" for name in names[len(args) :] if name not in kwargs)
        raise TypeError(f"insufficient arguments, expected {len(names)}, provided {len(ordered)}; missing: {missing}")
    return ordered


def _given(value: AnyValue, type_: Type | None, what: str) -> Value:
    """Converts an argument for the interpreter; a reference is shared with the caller. Raises TypeError that names `what`."""
    if isinstance(value, RefValue):
        value.value = _given(value.value, None, f"the content of {what}")
        return value
    if not isinstance(value, ConstructorValue):
        fields = type_.fields if isinstance(type_, TupleType) else ()
        if not isinstance(value, (tuple, list, TupleValue)) or all(isinstance(field, (TensorType, TupleType)) for field in fields):
            return to_data(value, type_, what)
        if len(fields) != len(value):
            raise TypeError(f"{what} is a tuple of {len(fields)}, but got {counted(len(value), 'value')}")
        return tuple(_given(field, wanted, f"field {i} of {what}") for i, (field, wanted) in enumerate(zip(value, fields, strict=True)))
    done: dict[int, Value] = {}
    stack: list[tuple[AnyValue, bool]] = [(value, False)]
    while stack:  # iterative, since long lists are deeply nested
        part, entered = stack.pop()
        if not isinstance(part, ConstructorValue):
            done[id(part)] = _given(part, None, f"a field of {what}")
        elif entered:
            done[id(part)] = ConstructorValue(part.tag, [done[id(field)] for field in part.fields], part.constructor)
        elif id(part) not in done:
            stack.append((part, True))
            stack += [(field, False) for field in part.fields]
    return done[id(value)]


def _as_expr(value: AnyValue, var: Var) -> Expr:
    return value if isinstance(value, Expr) else as_constant(to_data(value, var._checked_type, f"the value of %{var.name_hint}"))
