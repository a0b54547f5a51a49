"""Evaluates a function with unknown arguments: an interpreter whose result is a residual program.

After "Partial Evaluation and Automatic Program Generation", Jones, Gomard and Sestoft, 1993, and Relay's PartialEvaluate. The generators
below are run by one loop (`PartialEvaluator._run`), so programs of any depth need no stack.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from passat.ir.collector import collector_paused
from passat.ir.equality import structural_equal
from passat.ir.evaluate import Value as Data
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
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from passat.ir.inline import instantiated
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.partial_evaluation.residual import Binding, Block, Residual
from passat.ir.partial_evaluation.sources import Sources
from passat.ir.partial_evaluation.values import Cell, Closure, Fields, Fold, Fuel, Known, Store, burned, data_of, fuel_of, matched
from passat.ir.sealed import is_sealed
from passat.ir.tensor import Tensor
from passat.ir.traverse import children, pattern_vars, with_children, with_pattern_vars
from passat.ir.type_solver import holes
from passat.ir.types import FuncType, IncompleteType, Type, TypeVar, substitute

MOST_INLINED: Final = 100_000
"""Maximum number of operations that inlining adds to a module. A function gets at most half of the remaining number."""
_MOST: Final = 10 * MOST_INLINED
"""Number of operations of inlined and of nested functions in a module beyond which functions stay unchanged."""
_Task: TypeAlias = "Generator[_Task, Known, Known]"


class _TooLargeError(Exception):
    """The results would have more than `_MOST` operations."""


@dataclass(frozen=True, eq=False, slots=True)
class _Scope:
    """One evaluation of a function: its variables, its type parameters, and the fuel of the functions that are being evaluated."""

    values: dict[Var, Known]
    types: Mapping[TypeVar, Type]
    fuel: Mapping[Function, Fuel]


class PartialEvaluator:
    """Evaluates functions of a module, which may call each other."""

    def __init__(self, module: IRModule, fold: Fold) -> None:
        self._fold = fold
        self._sources = Sources(module)
        self._left = MOST_INLINED
        self._spent = 0
        self._functions = {var.name_hint: function for var, function in module.functions.items()}

    def evaluate(self, function: Function) -> Function:
        """The residual function in A-normal form. Returns the function itself if nothing is known, or if the result would be too large.

        Raises InferError for an ill-typed function.
        """
        source = self._sources.read(function)
        self._residual = Residual(self._enter)
        self._store = Store()
        self._time = 0
        self._allowed = self._left // 2
        params = [self._known(param) for param in source.params]
        scope = _Scope(dict(zip(source.params, params, strict=True)), {}, {source: fuel_of(params)})
        root = self._residual.block(None)
        try:
            with collector_paused():
                root.result = self._run(self._block(source.body, scope, root)).atom
                made = source.with_body(self._residual.body(root))
        except _TooLargeError:
            return function
        finally:
            self._left -= self._left // 2 - self._allowed
        return source if structural_equal(made, source) else made

    def _enter(self, binding: Binding) -> Function:
        """Evaluates the body of a function that the result needs."""
        closure = binding.closure
        assert closure is not None  # only those of functions are entered
        function = closure.function
        types = {var: type_ for var, type_ in closure.types.items() if var not in function.type_params}
        params = [self._renamed(param, types) for param in function.params]
        args = [self._known(param) for param in params]
        values = dict(closure.captured)
        if closure.own is not None:
            values[closure.own] = self._known(binding.var, closure)
        values.update(zip(function.params, args, strict=True))
        block = self._residual.block(binding)
        binding.inner = (block,)
        self._store = Store()
        self._spend(function)
        scope = _Scope(values, types, {**binding.fuel, function: fuel_of(args)})
        block.result = self._run(self._block(function.body, scope, block)).atom
        ret_type = None if function.ret_type is None else _plain(function.ret_type, types)
        return Function(params, function.body, ret_type, function.type_params, function.attrs, function.span)

    def _run(self, task: _Task) -> Known:
        """Runs a generator, and the generators that it yields, and sends their results back to it."""
        tasks, value = [task], None
        while True:
            try:
                tasks.append(next(tasks[-1]) if value is None else tasks[-1].send(value))
                value = None
            except StopIteration as done:
                value = done.value
                tasks.pop()
                if not tasks:
                    assert isinstance(value, Known)
                    return value

    def _spend(self, function: Function) -> None:
        self._spent += self._sources.sizes[function]
        if self._spent > _MOST:
            raise _TooLargeError

    def _known(self, atom: Expr, parts: "Fields | Cell | Closure | None" = None) -> Known:
        self._time += 1
        return Known(atom, parts, self._time)

    # Blocks and branches

    def _block(self, expr: Expr, scope: _Scope, block: Block) -> _Task:
        while isinstance(expr, Let):
            scope.values[expr.var] = yield from self._value(expr, scope, block)
            expr = expr.body
        return self._atom(expr, scope)

    def _value(self, let: Let, scope: _Scope, block: Block) -> _Task:
        """The value of a let, which is one operation on atoms."""
        node = let.value
        if isinstance(node, Call) and not isinstance(node.op, (Op, Constructor)):
            return (yield from self._call(let, node, scope, block))
        if isinstance(node, If):
            cond = self._atom(node.cond, scope)
            if isinstance(cond.atom, Constant):
                return (yield self._block(node.true_branch if cond.atom.data.numpy().all() else node.false_branch, scope, block))
            return (yield from self._branches(Binding(_new(let.var), block, node, (cond.atom,)), scope))
        if isinstance(node, Match):
            return (yield from self._match(let, node, scope, block))
        return self._operation(let, scope, block)

    def _match(self, let: Let, node: Match, scope: _Scope, block: Block) -> _Task:
        data = self._atom(node.data, scope)
        for clause in node.clauses:
            found = matched(clause.lhs, data)
            if found.does:
                scope.values.update(found.bound)
                return (yield self._block(clause.rhs, scope, block))
            if found.does is None:
                break
        patterns = []
        for clause in node.clauses:
            renamed = {var: self._renamed(var, scope.types) for var in pattern_vars(clause.lhs)}
            scope.values.update((var, self._known(new)) for var, new in renamed.items())
            patterns.append(with_pattern_vars(clause.lhs, renamed.__getitem__))
        return (yield from self._branches(Binding(_new(let.var), block, node, (data.atom,), patterns=tuple(patterns)), scope))

    def _branches(self, binding: Binding, scope: _Scope) -> _Task:
        """Evaluates all branches; one of them is taken at run time. Keeps the store if none of them changes it."""
        before, untouched, inner = self._store, True, []
        for branch in children(binding.node)[1:]:
            self._store = store = Store(before)
            block = self._residual.block(binding)
            block.result = (yield self._block(branch, scope, block)).atom
            untouched = untouched and self._store is store and store.is_untouched
            inner.append(block)
        binding.inner = tuple(inner)
        self._store = before if untouched else Store()
        return self._known(self._residual.add(binding).var)

    # Calls of functions

    def _call(self, let: Let, call: Call, scope: _Scope, block: Block) -> _Task:
        callee, args = self._atom(call.op, scope), [self._atom(arg, scope) for arg in call.args]
        closure = callee.parts
        if isinstance(closure, Closure):
            function = closure.function
            left = burned(scope.fuel.get(function), args)
            size = self._sources.sizes[function]
            if left is not None and len(args) == len(function.params) and size <= self._allowed:
                self._allowed -= size
                self._spend(function)
                values = dict(closure.captured)
                if closure.own is not None:
                    values[closure.own] = callee
                values.update(zip(function.params, args, strict=True))
                inner = _Scope(values, {**closure.types, **self._instance(function, call, scope)}, {**scope.fuel, function: left})
                return (yield self._block(function.body, inner, block))
        return self._add(let, call, (callee, *args), scope, block)

    @staticmethod
    def _instance(function: Function, call: Call, scope: _Scope) -> dict[TypeVar, Type]:
        """The type parameters of a function in a call; unknown types if they do not follow from those of the arguments."""
        params = [param for param in function.type_params if isinstance(param, TypeVar)]
        given = call.type_args
        known = len(given) == len(params)
        return {param: substitute(given[i], scope.types) if known else IncompleteType(param.kind) for i, param in enumerate(params)}

    # Operations

    def _operation(self, let: Let, scope: _Scope, block: Block) -> Known:
        node = let.value
        if isinstance(node, Function):
            return self._function(let, node, scope, block)
        operands = [self._atom(part, scope) for part in children(node)]
        if isinstance(node, Tuple):
            return self._add(let, node, operands, scope, block, Fields(tuple(operands)))
        if isinstance(node, TupleGetItem):
            parts = operands[0].parts
            return parts.fields[node.index] if isinstance(parts, Fields) else self._add(let, node, operands, scope, block)
        if isinstance(node, RefRead):
            content = self._store.read(operands[0].parts) if isinstance(operands[0].parts, Cell) else None
            return content or self._add(let, node, operands, scope, block)
        if isinstance(node, (RefCreate, RefWrite)):
            return self._reference(let, node, operands, scope, block)
        if isinstance(node, Call):
            if isinstance(node.op, Constructor):
                return self._add(let, node, operands, scope, block, Fields(tuple(operands[1:]), node.op))
            return self._operator(let, node, operands, scope, block)
        return self._atom(node, scope)

    def _operator(self, let: Let, call: Call, operands: Sequence[Known], scope: _Scope, block: Block) -> Known:
        assert isinstance(call.op, Op)
        found = [data_of(operand) for operand in operands[1:]]
        known = [data for data in found if data is not None]
        if known and len(known) == len(found) and not call.op.stateful:
            result = self._fold(call, known)
            if result is not None:
                return self._constant(let.var, result, block)
        return self._add(let, call, operands, scope, block)

    def _constant(self, var: Var, data: Data, block: Block) -> Known:
        if isinstance(data, Tensor):
            return self._known(Constant(data))
        fields = tuple(self._constant(var, field, block) for field in data)  # as deep as the type of an operator's result
        atoms = tuple(field.atom for field in fields)
        return self._known(self._residual.add(Binding(_new(var), block, Tuple(atoms), atoms)).var, Fields(fields))

    def _reference(self, let: Let, node: Expr, operands: Sequence[Known], scope: _Scope, block: Block) -> Known:
        atoms = tuple(operand.atom for operand in operands)
        binding = Binding(_new(let.var), block, with_children(node, atoms), atoms, is_cell=isinstance(node, RefCreate))
        ref = operands[0].parts
        if isinstance(node, RefCreate):
            self._residual.add(binding)
            made = Cell()
            self._store.write(made, operands[0])
            return self._known(binding.var, made)
        if isinstance(ref, Cell):
            self._store.write(ref, operands[1])
        else:
            self._store = Store()
        self._residual.write(binding, operands[0].atom)
        return self._known(binding.var, Fields(()))

    def _function(self, let: Let, node: Function, scope: _Scope, block: Block) -> Known:
        captured = {var: scope.values[var] for var in self._sources.captured[node] if var in scope.values and var is not let.var}
        var = self._renamed(let.var, scope.types)
        if is_sealed(node):
            atoms = {variable: value.atom for variable, value in captured.items()}
            made = instantiated(node, atoms) if atoms else node
            return self._known(self._residual.add(Binding(var, block, made, tuple(atoms.values()))).var)
        own = let.var if let.var in self._sources.captured[node] else None
        closure = Closure(node, captured, own, scope.types)
        self._residual.add(Binding(var, block, node, closure=closure, fuel=scope.fuel))
        return self._known(var, closure)

    def _add(self, let: Let, node: Expr, operands: Sequence[Known], scope: _Scope, block: Block, parts: Fields | None = None) -> Known:
        """Emits an operation on atoms into the residual program."""
        atoms = tuple(operand.atom for operand in operands)
        made = with_children(node, atoms)
        effect = isinstance(node, Call) and self._sources.has_effects(node)
        if isinstance(made, Call) and made._type_args and scope.types:
            type_args = [substitute(type_, scope.types) for type_ in made._type_args]
            made = Call(made.op, made.args, made.attrs, () if any(map(holes, type_args)) else type_args, made.span)
        if effect and isinstance(node, Call) and (not isinstance(node.op, Op) or any(map(_may_be_function, node.args))):
            self._store = Store()
        return self._known(self._residual.add(Binding(_new(let.var), block, made, atoms), effect=effect).var, parts)

    def _atom(self, expr: Expr, scope: _Scope) -> Known:
        if isinstance(expr, Var) and expr in scope.values:
            return scope.values[expr]
        if isinstance(expr, GlobalVar):
            function = self._functions.get(expr.name_hint)
            if isinstance(function, Function) and _may_enter(function):
                return self._known(expr, Closure(self._sources.read(function), {}, None, {}))
        return self._known(expr)

    def _renamed(self, var: Var, types: Mapping[TypeVar, Type]) -> Var:
        """A new variable of the same name and type."""
        made = Var(var.name_hint, None if var.type_annotation is None else _plain(var.type_annotation, types), var.span)
        if made._checked_type is None and var._checked_type is not None:
            made._checked_type = _plain(var._checked_type, types)
        return made


def _new(var: Var) -> Var:
    return Var(var.name_hint, None, var.span)


def _plain(type_: Type, types: Mapping[TypeVar, Type]) -> Type | None:
    """A type with the type parameters replaced; None if one of them is unknown."""
    found = substitute(type_, types) if types else type_
    return None if holes(found) else found


def _may_be_function(arg: Expr) -> bool:
    return arg._checked_type is None or isinstance(arg._checked_type, FuncType)


def _may_enter(function: Function) -> bool:
    """Whether calls of a function of the module may be replaced by its body."""
    attrs = function.attrs
    return not is_sealed(function) and not attrs.get("SkipOptimization") and not attrs.get("Extern")
