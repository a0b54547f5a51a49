"""Reference interpreter: kernels of operators, lets, ifs, calls of functions and closures, algebraic data types and references.

Uses an explicit stack of tasks, so long chains and deep recursion do not exhaust Python's stack. A node is computed once per call of its
function, and in a branch only if the branch is taken. Values are freed after their last use, variables at the end of the call. Tail calls
take no memory, so loops written as recursion can run indefinitely. Other calls can be nested `CALL_DEPTH` deep.
"""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final, TypeAlias

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.counting import counted
from passat.ir.evaluate import EvaluateError, evaluate_call
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
from passat.ir.module import IRModule
from passat.ir.op import FOLLOWED, KNOWN_LIMIT, KnownValue, Op, OpTypeError
from passat.ir.passat_error import PassatError
from passat.ir.tensor import Tensor
from passat.ir.traverse import children, post_order
from passat.ir.types import TensorType, TupleType, Type
from passat.runtime.values import ConstructorValue, Data, RefValue, TupleValue, type_of_data

CALL_DEPTH: Final = 100_000
"""Maximum nesting depth of non-tail calls."""


class ExecutorError(PassatError, ValueError, RuntimeError):
    """A program cannot be run, or failed at run time. The message names the location and the operation. (Also a RuntimeError, like
    TVMError.)"""


class Closure:
    """A function with its captured variables."""

    __slots__ = ("frame", "function")

    def __init__(self, function: Function, frame: "_Frame | None") -> None:
        self.function = function
        self.frame = frame


Value: TypeAlias = "Tensor | Closure | Constructor | ConstructorValue | RefValue | tuple[Value, ...]"
"""The value of a node. Fields of constructors and contents of references are values too; a Constructor is a function."""


class _Frame:
    """One call of a function: its variables, its computed values, and the target of its result."""

    __slots__ = ("computed", "depth", "left", "outer", "shared", "target", "uses", "variables")

    def __init__(
        self, outer: "_Frame | None", target: "tuple[_Frame, Expr] | None", depth: int, uses: dict[Expr, int], shared: set[Expr]
    ) -> None:
        self.variables: dict[Expr, Value] = {}
        self.computed: dict[Expr, Value] = {}
        self.uses = uses
        self.shared = shared
        self.left: dict[Expr, int] = {}  # remaining uses of the values in `computed`
        self.outer = outer
        self.target = target
        self.depth = depth

    def variable(self, var: Expr) -> "Value | None":
        """The value of a variable, in this frame or an outer one. Keeps it here, so that inner frames find it soon."""
        frame: _Frame | None = self
        while frame is not None:
            if var in frame.variables:
                found = self.variables[var] = frame.variables[var]
                return found
            frame = frame.outer
        return None

    def keep(self, node: Expr, value: "Value") -> None:
        """Stores the value of a node until its last use."""
        self.computed[node] = value
        uses = self.uses.get(node)
        if uses is not None:
            self.left[node] = uses

    def release(self, parts: Sequence[Expr]) -> None:
        """Frees the values that have had their last use."""
        for part in parts:
            left = self.left.get(part)
            if left == 1:
                del self.left[part], self.computed[part]
            elif left is not None:
                self.left[part] = left - 1

    def result(self, node: Expr) -> "Value | None":
        """The value of a computed node, in this frame or, if several functions contain the node, an outer one."""
        if node in self.computed or node not in self.shared:
            return self.computed.get(node)
        frame = self.outer
        while frame is not None:
            if node in frame.computed:
                found = self.computed[node] = frame.computed[node]
                return found
            frame = frame.outer
        return None


# Tasks for a node of a frame. Those of the second row are in tail position: their value is the result of the frame.
_NEED, _APPLY, _BODY, _BRANCH, _COPY = range(5)
_RESULT, _RESULT_CALL, _RESULT_BODY, _RESULT_BRANCH, _DELIVER = range(5, 10)
_Task: TypeAlias = tuple[_Frame, Expr, int]
_ATOMS: Final = (Var, Constant, GlobalVar, Op, Function, Constructor)


class Interpreter:
    """Evaluates expressions with the functions of a module.

    `operate` may compute calls of operators instead of their kernels; None selects the kernel. It may apply closures by `call`.
    `primitive` computes calls of primitive functions.
    """

    def __init__(self, module: IRModule, operate: "Operate | None" = None, primitive: "ComputePrimitive | None" = None) -> None:
        self._module = module
        self._foreign = operate
        self._primitive = primitive
        self._uses: dict[Expr, dict[Expr, int]] = {}
        """Of each body of a function, the uses of its values."""
        self._shared: set[Expr] = set()
        """Nodes in the bodies of several functions that are nested."""

    def call(self, closure: Closure, args: Sequence[Value]) -> Value:
        """Applies a function to arguments. Raises ExecutorError."""
        frame = self._frame(closure, None, 0)
        frame.variables.update(zip(closure.function.params, args, strict=True))
        return self._run(frame, closure.function.body)

    def _frame(self, closure: Closure, target: tuple[_Frame, Expr] | None, depth: int) -> _Frame:
        body = closure.function.body
        if body not in self._uses:
            uses, shared = _count_uses(closure.function)
            self._uses.update(uses)
            self._shared |= shared
        return _Frame(closure.frame, target, depth, self._uses[body], self._shared)

    def _run(self, frame: _Frame, body: Expr) -> Value:
        stack: list[_Task] = [(frame, body, _RESULT)]
        while True:
            frame, node, step = stack.pop()
            if step == _NEED:
                if not isinstance(node, _ATOMS) and frame.result(node) is None:
                    self._need(stack, frame, node)
            elif step == _APPLY:
                self._apply(stack, frame, node)
            elif step == _RESULT:
                self._need_result(stack, frame, node)
            elif step == _RESULT_CALL:
                assert isinstance(node, Call)
                self._enter(stack, frame, node, tail=True)
            elif step in (_BODY, _RESULT_BODY):
                assert isinstance(node, Let)
                frame.variables[node.var] = self._value(frame, node.value)
                frame.release((node.value,))
                stack += [(frame, node.body, _RESULT)] if step == _RESULT_BODY else [(frame, node, _COPY), (frame, node.body, _NEED)]
            elif step in (_BRANCH, _RESULT_BRANCH):
                assert isinstance(node, (If, Match))
                branch = self._branch(frame, node)
                stack += [(frame, branch, _RESULT)] if step == _RESULT_BRANCH else [(frame, node, _COPY), (frame, branch, _NEED)]
            elif step == _COPY:
                inner = node.body if isinstance(node, Let) else self._branch(frame, node)
                frame.keep(node, self._value(frame, inner))
                frame.release((inner,) if isinstance(node, Let) else (inner, *children(node)[:1]))
            else:
                value = self._value(frame, node)
                if frame.target is None:
                    return value
                caller, call = frame.target
                caller.keep(call, value)

    def _need(self, stack: list[_Task], frame: _Frame, node: Expr) -> None:
        """Pushes the tasks that compute a node in non-tail position."""
        if isinstance(node, Let):
            stack += [(frame, node, _BODY), (frame, node.value, _NEED)]
        elif isinstance(node, (If, Match)):
            stack += [(frame, node, _BRANCH), (frame, children(node)[0], _NEED)]
        else:
            stack.append((frame, node, _APPLY))
            stack.extend((frame, part, _NEED) for part in reversed(_operands(node)))

    def _need_result(self, stack: list[_Task], frame: _Frame, node: Expr) -> None:
        """Pushes the tasks that compute a node in tail position."""
        if frame.result(node) is not None:
            stack.append((frame, node, _DELIVER))
        elif isinstance(node, Let):
            stack += [(frame, node, _RESULT_BODY), (frame, node.value, _NEED)]
        elif isinstance(node, (If, Match)):
            stack += [(frame, node, _RESULT_BRANCH), (frame, children(node)[0], _NEED)]
        elif isinstance(node, Call) and not isinstance(node.op, Op):
            stack.append((frame, node, _RESULT_CALL))
            stack.extend((frame, part, _NEED) for part in reversed(_operands(node)))
        else:
            stack += [(frame, node, _DELIVER), (frame, node, _NEED)]

    def _value(self, frame: _Frame, node: Expr) -> Value:
        """The value of a node that has been computed, or that needs no computation."""
        if isinstance(node, Constant):
            return node.data
        if isinstance(node, Function):
            return Closure(node, frame)
        if isinstance(node, GlobalVar):
            return Closure(self._function(node), None)
        if isinstance(node, Constructor):
            return node
        if isinstance(node, Op):
            raise ExecutorError(f"{_where(node)}{node!r} cannot be used as a value; wrap it in a function that calls it")
        found = frame.variable(node) if isinstance(node, Var) else frame.result(node)
        if found is None:
            assert isinstance(node, Var)  # all other nodes have been computed
            raise ExecutorError(f"{_where(node)}the variable %{node.name_hint} has no value here")
        return found

    def _function(self, var: GlobalVar) -> Function:
        try:
            function = self._module[var]
        except KeyError as error:
            raise ExecutorError(f"{_where(var)}{error.args[0]}") from error
        if not isinstance(function, Function):
            raise ExecutorError(f"{_where(var)}@{var.name_hint} belongs to another back end and cannot be run here")
        return function

    def _branch(self, frame: _Frame, node: Expr) -> Expr:
        """The branch that is taken. For a match, binds the variables of its pattern."""
        if isinstance(node, Match):
            data = self._value(frame, node.data)
            for clause in node.clauses:
                bound = bind_pattern(clause.lhs, data)
                if bound is not None:
                    frame.variables.update(bound)
                    return clause.rhs
            raise ExecutorError(f"{_where(node)}no arm of the match accepts {_shown(data)}")
        assert isinstance(node, If)
        cond = self._value(frame, node.cond)
        if not isinstance(cond, Tensor) or cond.dtype != "bool" or cond.size != 1:
            raise ExecutorError(f"{_where(node)}the condition of an if must be a scalar bool, not {_shown(cond)}")
        return node.true_branch if cond.numpy().reshape(()) else node.false_branch

    def _apply(self, stack: list[_Task], frame: _Frame, node: Expr) -> None:
        """Computes a node whose operands have values; starts a call for a function."""
        if isinstance(node, Tuple):
            frame.keep(node, tuple(self._value(frame, field) for field in node.fields))
            frame.release(node.fields)
        elif isinstance(node, TupleGetItem):
            whole = self._value(frame, node.tuple_value)
            if not isinstance(whole, tuple) or not 0 <= node.index < len(whole):
                raise ExecutorError(f"{_where(node)}field {node.index} is taken from {_shown(whole)}, which has no such field")
            frame.keep(node, whole[node.index])
            frame.release((node.tuple_value,))
        elif isinstance(node, Call) and isinstance(node.op, Op):
            frame.keep(node, self._operate(frame, node, node.op))
            frame.release(node.args)
        elif isinstance(node, Call):
            self._enter(stack, frame, node, tail=False)
        elif isinstance(node, RefCreate):
            frame.keep(node, RefValue(self._value(frame, node.value)))
            frame.release((node.value,))
        elif isinstance(node, RefRead):
            frame.keep(node, self._reference(frame, node, node.ref).value)
            frame.release((node.ref,))
        elif isinstance(node, RefWrite):
            self._reference(frame, node, node.ref).value = self._value(frame, node.value)
            frame.keep(node, ())
            frame.release((node.ref, node.value))
        else:
            raise ExecutorError(f"{_where(node)}the executor does not run {type(node).__name__} expressions")

    def _reference(self, frame: _Frame, node: Expr, ref: Expr) -> RefValue:
        found = self._value(frame, ref)
        if not isinstance(found, RefValue):
            raise ExecutorError(f"{_where(node)}{_shown(found)} is not a reference")
        return found

    def _enter(self, stack: list[_Task], frame: _Frame, call: Call, *, tail: bool) -> None:
        """Starts a call of a function; in tail position, the call replaces the frame. A constructor builds its value."""
        callee = self._value(frame, call.op)
        if isinstance(callee, Constructor):
            if len(callee.inputs) != len(call.args):
                raise ExecutorError(
                    f"{_where(call)}{callee.name_hint} has {counted(len(callee.inputs), 'field')}, but got {len(call.args)}"
                )
            frame.keep(call, ConstructorValue(callee.tag, [self._value(frame, arg) for arg in call.args], callee))
            frame.release(_operands(call))
            stack += [(frame, call, _DELIVER)] if tail else []
            return
        if not isinstance(callee, Closure):
            raise ExecutorError(f"{_where(call)}{_shown(callee)} cannot be called")
        if self._primitive is not None and callee.function.attrs.get("Primitive"):
            frame.keep(call, self._primitive(callee.function, [_data(self._value(frame, arg), call) for arg in call.args]))
            frame.release(_operands(call))
            stack += [(frame, call, _DELIVER)] if tail else []
            return
        if not tail and frame.depth >= CALL_DEPTH:
            raise ExecutorError(f"{_where(call)}calls are nested more than {CALL_DEPTH} deep; check that the recursion ends")
        params = callee.function.params
        if len(params) != len(call.args):
            raise ExecutorError(
                f"{_where(call)}a function with {counted(len(params), 'parameter')} is called with {counted(len(call.args), 'argument')}"
            )
        inner = self._frame(callee, frame.target, frame.depth) if tail else self._frame(callee, (frame, call), frame.depth + 1)
        inner.variables.update(zip(params, (self._value(frame, arg) for arg in call.args), strict=True))
        frame.release(_operands(call))
        stack.append((inner, callee.function.body, _RESULT))

    def _operate(self, frame: _Frame, call: Call, op: Op) -> Value:
        values = [self._value(frame, arg) for arg in call.args]
        if self._foreign is not None:
            found = self._foreign(self, call, values)
            if found is not None:
                return found
        return compute(op, [_data(value, call) for value in values], call.attrs, call._checked_type, _where(call))


ComputePrimitive: TypeAlias = "Callable[[Function, Sequence[Data]], Data]"
"""Computes calls of primitive functions."""
Operate: TypeAlias = "Callable[[Interpreter, Call, Sequence[Value]], Value | None]"
"""Computes calls of operators instead of their kernels, or returns None."""


def compute(op: Op, args: Sequence[Data], attrs: Attrs, type_: Type | None = None, where: str = "") -> Data:
    """The result of an operator for operands; `type_` is its type if known, `where` a prefix for messages.

    Raises ExecutorError.
    """
    try:
        if type_ is None or not _is_static(type_):
            values = [_known(arg) if i in op.known_operands else None for i, arg in enumerate(args)]
            type_ = op.infer([type_of_data(arg) for arg in args], attrs, values)
        return evaluate_call(op, args, attrs, type_)
    except (OpTypeError, EvaluateError) as error:
        raise ExecutorError(f"{where}{error}") from error


def _count_uses(root: Function) -> tuple[dict[Expr, dict[Expr, int]], set[Expr]]:
    """Counts the uses of each value in the bodies of a function and of those nested in it, and finds the nodes in several of these bodies.

    Uses of the latter are not counted: they may be needed as long as the frame exists.
    """
    found: dict[Expr, dict[Expr, int]] = {}
    homes: dict[Expr, Expr] = {}
    shared: set[Expr] = set()
    waiting = [root]
    while waiting:
        body = waiting.pop().body
        if body in found:
            continue
        uses = found[body] = {}
        for node in post_order(body, into=lambda node: not isinstance(node, Function)):
            if isinstance(node, Function):
                waiting.append(node)
            elif not isinstance(node, _ATOMS):
                if homes.setdefault(node, body) is not body:
                    shared.add(node)
                for part in children(node):
                    if not isinstance(part, _ATOMS):
                        uses[part] = uses.get(part, 0) + 1
    for uses in found.values():
        for node in [node for node in uses if node in shared]:
            del uses[node]
    return found, shared


def _operands(node: Expr) -> tuple[Expr, ...]:
    """The parts whose values are needed to compute a node."""
    if isinstance(node, Call):
        return (*node.args, node.op)
    if isinstance(node, Tuple):
        return node.fields
    return () if isinstance(node, (Let, If, Match)) else tuple(children(node))


def bind_pattern(pattern: Pattern, value: AnyValue) -> dict[Expr, AnyValue] | None:
    """The variables of a pattern, if it matches a value, in the interpreter's form or the user-facing one."""
    bound: dict[Expr, AnyValue] = {}
    work = [(pattern, value)]
    while work:
        wanted, given = work.pop()
        if isinstance(wanted, PatternVar):
            bound[wanted.var] = given
        elif isinstance(wanted, PatternConstructor):
            if not isinstance(given, ConstructorValue) or given.tag != wanted.constructor.tag:
                return None
            work += zip(wanted.patterns, given.fields, strict=True)
        elif isinstance(wanted, PatternTuple):
            if not isinstance(given, (tuple, TupleValue)):
                return None
            work += zip(wanted.patterns, given, strict=True)
    return bound


def _data(value: Value, call: Call) -> Data:
    if isinstance(value, tuple):
        return tuple(_data(field, call) for field in value)
    if not isinstance(value, Tensor):
        raise ExecutorError(f"{_where(call)}{call.op!r} takes tensors, but got {_shown(value)}")
    return value


def _known(data: Data) -> KnownValue | None:
    """Converts a value for shape arithmetic: small integer tensors become object arrays."""
    if isinstance(data, tuple) or data.dtype not in FOLLOWED or data.size > KNOWN_LIMIT:
        return None
    return data.numpy().astype(np.object_)


def _is_static(type_: Type) -> bool:
    if isinstance(type_, TupleType):
        return all(map(_is_static, type_.fields))
    return isinstance(type_, TensorType) and type_.is_static


def _shown(value: Value) -> str:
    if isinstance(value, (Closure, Constructor)):
        return "a function"
    if isinstance(value, RefValue):
        return "a reference"
    if isinstance(value, ConstructorValue):
        return f"{'a value' if value.constructor is None else value.constructor.name_hint} of {len(value.fields)} fields"
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a value of type {type_of_data(value)!r}"


def _where(node: Expr) -> str:
    """The location of a node as a prefix for messages."""
    if node.span is None or not node.span.source_name:
        return ""
    return f"{node.span.source_name}{f':{node.span.line}:{node.span.column}' if node.span.line else ''}: "
