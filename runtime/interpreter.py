"""The reference interpreter: dataflow by the operators' kernels, lets, ifs, calls of functions and closures, data types and references.

One stack of tasks, so neither long chains nor deep recursion take Python's stack. A node is computed once for each call of the function it
stands in, and in branches only where they are taken; its value is forgotten after its last use, the value of a variable when the call
ends. Calls in tail position take no memory, so loops written as functions run as long as they like; other calls may nest `CALL_DEPTH`
deep.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

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
from passat.runtime.values import ConstructorValue, Data, RefValue, type_of_data

CALL_DEPTH: Final = 100_000
"""How deep calls may nest that are not in tail position."""


class ExecutorError(PassatError, ValueError):
    """A program that cannot be run, or a run that failed. The message says where, and what was computed there."""


class Closure:
    """A function with the variables around it."""

    __slots__ = ("frame", "function")

    def __init__(self, function: Function, frame: "_Frame | None") -> None:
        self.function = function
        self.frame = frame


Value: TypeAlias = "Tensor | Closure | Constructor | ConstructorValue | RefValue | tuple[Value, ...]"
"""What a node is computed to be. The fields of constructors and what references hold are such values, too; a Constructor is a function."""


class _Frame:
    """One call of a function: its variables, what was computed in it so far, and where its result goes."""

    __slots__ = ("computed", "depth", "left", "outer", "target", "uses", "variables")

    def __init__(self, outer: "_Frame | None", target: "tuple[_Frame, Expr] | None", depth: int, uses: "dict[Expr, int]") -> None:
        self.variables: dict[Expr, Value] = {}
        self.computed: dict[Expr, Value] = {}
        self.uses = uses
        self.left: dict[Expr, int] = {}  # how often the values of `computed` are still to be used
        self.outer = outer
        self.target = target
        self.depth = depth

    def variable(self, var: Expr) -> "Value | None":
        """The value of a variable, here or in the frames around."""
        frame: _Frame | None = self
        while frame is not None:
            if var in frame.variables:
                return frame.variables[var]
            frame = frame.outer
        return None

    def keep(self, node: Expr, value: "Value") -> None:
        """Keeps what was computed of a node until it has been used as often as it is going to be."""
        self.computed[node] = value
        uses = self.uses.get(node)
        if uses is not None:
            self.left[node] = uses

    def release(self, parts: Sequence[Expr]) -> None:
        """Forgets those of the parts that have been used for the last time."""
        for part in parts:
            left = self.left.get(part)
            if left == 1:
                del self.left[part], self.computed[part]
            elif left is not None:
                self.left[part] = left - 1

    def result(self, node: Expr) -> "Value | None":
        """What was computed of a node, here or in the frames around."""
        frame: _Frame | None = self
        while frame is not None:
            if node in frame.computed:
                return frame.computed[node]
            frame = frame.outer
        return None


# What is to be done with a node of a frame. Those of the second row are in tail position: their value is the frame's.
_NEED, _APPLY, _BODY, _BRANCH, _COPY = range(5)
_RESULT, _RESULT_CALL, _RESULT_BODY, _RESULT_BRANCH, _DELIVER = range(5, 10)
_Task: TypeAlias = tuple[_Frame, Expr, int]
_ATOMS: Final = (Var, Constant, GlobalVar, Op, Function, Constructor)


class Interpreter:
    """Evaluates expressions against the functions of a module."""

    def __init__(self, module: IRModule) -> None:
        self._module = module
        self._uses: dict[Expr, dict[Expr, int]] = {}

    def call(self, closure: Closure, args: Sequence[Value]) -> Value:
        """The value of a function applied to arguments. Raises ExecutorError."""
        frame = self._frame(closure, None, 0)
        frame.variables.update(zip(closure.function.params, args, strict=True))
        return self._run(frame, closure.function.body)

    def _frame(self, closure: Closure, target: tuple[_Frame, Expr] | None, depth: int) -> _Frame:
        body = closure.function.body
        uses = self._uses.get(body)
        if uses is None:
            uses = self._uses[body] = _count_uses(body)
        return _Frame(closure.frame, target, depth, uses)

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
        """Pushes what computes a node that is not in tail position."""
        if isinstance(node, Let):
            stack += [(frame, node, _BODY), (frame, node.value, _NEED)]
        elif isinstance(node, (If, Match)):
            stack += [(frame, node, _BRANCH), (frame, children(node)[0], _NEED)]
        else:
            stack.append((frame, node, _APPLY))
            stack.extend((frame, part, _NEED) for part in reversed(_operands(node)))

    def _need_result(self, stack: list[_Task], frame: _Frame, node: Expr) -> None:
        """Pushes what computes a node whose value is the frame's."""
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
        """The value of a node that has been computed, or needs no computing."""
        if isinstance(node, Constant):
            return node.data
        if isinstance(node, Function):
            return Closure(node, frame)
        if isinstance(node, GlobalVar):
            return Closure(self._function(node), None)
        if isinstance(node, Constructor):
            return node
        if isinstance(node, Op):
            raise ExecutorError(f"{_where(node)}{node!r} stands for a value here; write a function that calls it")
        found = frame.variable(node) if isinstance(node, Var) else frame.result(node)
        if found is None:
            assert isinstance(node, Var)  # all else has been computed
            raise ExecutorError(f"{_where(node)}the variable %{node.name_hint} has no value here")
        return found

    def _function(self, var: GlobalVar) -> Function:
        try:
            function = self._module[var]
        except KeyError as error:
            raise ExecutorError(f"{_where(var)}{error.args[0]}") from error
        if not isinstance(function, Function):
            raise ExecutorError(f"{_where(var)}@{var.name_hint} belongs to another back end; it cannot be run here")
        return function

    def _branch(self, frame: _Frame, node: Expr) -> Expr:
        """The branch that is taken; of a match, with the variables of its pattern bound."""
        if isinstance(node, Match):
            data = self._value(frame, node.data)
            for clause in node.clauses:
                bound = _bind(clause.lhs, data)
                if bound is not None:
                    frame.variables.update(bound)
                    return clause.rhs
            raise ExecutorError(f"{_where(node)}no arm of the match takes {_shown(data)}")
        assert isinstance(node, If)
        cond = self._value(frame, node.cond)
        if not isinstance(cond, Tensor) or cond.dtype != "bool" or cond.size != 1:
            raise ExecutorError(f"{_where(node)}the condition of an if must be a scalar bool, it is {_shown(cond)}")
        return node.true_branch if cond.numpy().reshape(()) else node.false_branch

    def _apply(self, stack: list[_Task], frame: _Frame, node: Expr) -> None:
        """Computes a node whose operands have values; of a call of a function, begins to."""
        if isinstance(node, Tuple):
            frame.keep(node, tuple(self._value(frame, field) for field in node.fields))
            frame.release(node.fields)
        elif isinstance(node, TupleGetItem):
            whole = self._value(frame, node.tuple_value)
            if not isinstance(whole, tuple) or not 0 <= node.index < len(whole):
                raise ExecutorError(f"{_where(node)}field {node.index} is taken of {_shown(whole)}")
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
            raise ExecutorError(f"{_where(node)}{_shown(found)} is no reference")
        return found

    def _enter(self, stack: list[_Task], frame: _Frame, call: Call, *, tail: bool) -> None:
        """Begins to compute a call of a function, in tail position in place of the frame; a constructor makes its value."""
        callee = self._value(frame, call.op)
        if isinstance(callee, Constructor):
            if len(callee.inputs) != len(call.args):
                raise ExecutorError(f"{_where(call)}{callee.name_hint} of {len(callee.inputs)} fields is given {len(call.args)}")
            frame.keep(call, ConstructorValue(callee.tag, [self._value(frame, arg) for arg in call.args], callee))
            frame.release(_operands(call))
            stack += [(frame, call, _DELIVER)] if tail else []
            return
        if not isinstance(callee, Closure):
            raise ExecutorError(f"{_where(call)}{_shown(callee)} is called")
        if not tail and frame.depth >= CALL_DEPTH:
            raise ExecutorError(f"{_where(call)}calls nest more than {CALL_DEPTH} deep; is there an end to the recursion?")
        params = callee.function.params
        if len(params) != len(call.args):
            raise ExecutorError(f"{_where(call)}a function of {len(params)} parameters is called with {len(call.args)} arguments")
        inner = self._frame(callee, frame.target, frame.depth) if tail else self._frame(callee, (frame, call), frame.depth + 1)
        inner.variables.update(zip(params, (self._value(frame, arg) for arg in call.args), strict=True))
        frame.release(_operands(call))
        stack.append((inner, callee.function.body, _RESULT))

    def _operate(self, frame: _Frame, call: Call, op: Op) -> Value:
        args = [_data(self._value(frame, arg), call) for arg in call.args]
        try:
            type_ = call._checked_type
            if type_ is None or not _is_static(type_):
                values = [_known(arg) if i in op.known_operands else None for i, arg in enumerate(args)]
                type_ = op.infer([type_of_data(arg) for arg in args], call.attrs, values)
            return evaluate_call(op, args, call.attrs, type_)
        except (OpTypeError, EvaluateError) as error:
            raise ExecutorError(f"{_where(call)}{error}") from error


def _count_uses(body: Expr) -> dict[Expr, int]:
    """How often the values of the nodes of a body are used, as far as that is certain: not of those that functions inside use too."""
    uses: dict[Expr, int] = {}
    order = post_order(body, into=lambda node: not isinstance(node, Function))
    for node in order:
        if not isinstance(node, Function):
            for part in children(node):
                if not isinstance(part, _ATOMS):
                    uses[part] = uses.get(part, 0) + 1
    for function in [node for node in order if isinstance(node, Function)]:
        for node in post_order(function.body):
            uses.pop(node, None)
    return uses


def _operands(node: Expr) -> tuple[Expr, ...]:
    """The parts that must have values before a node can be computed."""
    if isinstance(node, Call):
        return (*node.args, node.op)
    if isinstance(node, Tuple):
        return node.fields
    return () if isinstance(node, (Let, If, Match)) else tuple(children(node))


def _bind(pattern: Pattern, value: Value) -> dict[Expr, Value] | None:
    """The variables of a pattern, if it matches a value."""
    bound: dict[Expr, Value] = {}
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
            if not isinstance(given, tuple):
                return None
            work += zip(wanted.patterns, given, strict=True)
    return bound


def _data(value: Value, call: Call) -> Data:
    if isinstance(value, tuple):
        return tuple(_data(field, call) for field in value)
    if not isinstance(value, Tensor):
        raise ExecutorError(f"{_where(call)}{call.op!r} takes tensors, it is given {_shown(value)}")
    return value


def _known(data: Data) -> KnownValue | None:
    """A value as shape arithmetic wants it: small tensors of integers as objects."""
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
    """Where a node comes from, for messages."""
    if node.span is None or not node.span.source_name:
        return ""
    return f"{node.span.source_name}{f':{node.span.line}:{node.span.column}' if node.span.line else ''}: "
