"""Higher-order reverse-mode differentiation of programs with closures, branches, references, data types and recursion.

Each tensor becomes a pair of the tensor and a reference to its gradient. Each call of an operator prepends its own step to the function in
the reference `bp`, which propagates gradients from results to operands. Running that function after the program accumulates all gradients
(Wang et al., "Demystifying Differentiable Programming: Shift/Reset the Penultimate Backpropagator", 2019; Relay's `gradient`).
"""

from collections.abc import Sequence

from passat.ir.anf import to_anf
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
from passat.ir.gradients.adjoints import field_of, filled, is_differentiable, per_tensor, tensors_of
from passat.ir.gradients.registry import GradientError, operand_gradients
from passat.ir.infer import infer_module, infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, call_op
from passat.ir.traverse import children, post_order, with_children, with_pattern_vars
from passat.ir.type_functor import TypeMutator
from passat.ir.types import FuncType, IncompleteType, RefType, TensorType, TupleType, Type

_BACKWARD = FuncType([], TupleType([]))


class _Reversed(TypeMutator):
    """The type of a value in the differentiated program: a tensor with the reference to its gradient."""

    def visit_tensor_type(self, typ: TensorType) -> Type:
        """A pair of the tensor and a reference."""
        return TupleType([typ, RefType(typ)])


def reversed_type(type_: Type) -> Type:
    """The type of a value in the differentiated program, given its type in the original."""
    found: Type = _Reversed().visit(type_)
    return found


class _Lets:
    """A sequence of lets."""

    def __init__(self) -> None:
        self._bound: list[tuple[Var, Expr]] = []

    def push(self, value: Expr, type_: Type | None = None) -> Var:
        """Binds a value to a new variable."""
        var = Var("x")
        var._checked_type = type_
        self._bound.append((var, value))
        return var

    def body(self, result: Expr) -> Expr:
        """The lets around a result."""
        for var, value in reversed(self._bound):
            result = Let(var, value, result)
        return result


def higher_order_gradient(expr: Expr, module: IRModule | None = None) -> Function:
    """Returns a function with the same parameters that returns a pair: the result, and a tuple of the gradients of the parameters.

    Differentiates the sum of all elements of the result; for a tuple, of its first tensor (a loss), as in Relay. Adds differentiated forms
    of the called global functions to the module; their names end in `_grad`. Raises GradientError.
    """
    module = IRModule() if module is None else module
    function = module[expr] if isinstance(expr, GlobalVar) else expr
    if not isinstance(function, Function):
        raise GradientError(f"gradient needs a function, not a {type(expr).__name__}")
    if function.type_params:
        raise GradientError("the gradient of a function with type parameters cannot be taken; call it with arguments of known types")
    if any(other._checked_type is None and other is not function for other in module.functions.values()):
        infer_module(module)
    return _Differentiation(module).run(_typed(function))


def _typed(function: Function) -> Function:
    """The function in A-normal form, with types."""
    return infer_type(to_anf(infer_type(function)))


class _Differentiation:
    def __init__(self, module: IRModule) -> None:
        self._module = module
        self._globals: dict[str, GlobalVar] = {}
        self._waiting: list[tuple[GlobalVar, Function]] = []

    def run(self, function: Function) -> Function:
        """Differentiates a function, and the global functions that it needs."""
        params = [Var(param.name_hint, param._checked_type) for param in function.params]
        lets = _Lets()
        backward = lets.push(RefCreate(Function([], Tuple([]), _BACKWARD.ret_type)), RefType(_BACKWARD))
        transformed = self._transform(function, backward)
        result_type = function.body.checked_type
        types = [param.checked_type for param in function.params]
        pairs = [lets.push(_paired(lets, param, type_)) for param, type_ in zip(params, types, strict=True)]
        result = lets.push(Call(lets.push(transformed), pairs))
        forward = _forward(lets, result, result_type)
        first: Expr = result
        first_type = result_type
        while not isinstance(first_type, TensorType):
            if not tensors_of(first_type):
                raise GradientError("the result is an empty tuple; only tensors can be differentiated")
            first, first_type = TupleGetItem(first, 0), tensors_of(first_type)[0]
        lets.push(RefWrite(TupleGetItem(first, 1), filled("ones", lets.push(TupleGetItem(first, 0)), first_type)))
        lets.push(Call(lets.push(RefRead(backward)), []))
        gradients = Tuple([_gradient(lets, pair, type_) for pair, type_ in zip(pairs, types, strict=True)])
        grad_types = TupleType(types)
        made = Function(params, lets.body(Tuple([forward, gradients])), TupleType([result_type, grad_types]))
        while self._waiting:
            var, known = self._waiting.pop()
            self._module[var] = self._global(known)
        return made

    def _global(self, function: Function) -> Function:
        """A global function, differentiated, with the reference to the backward function as its last parameter."""
        typed = function if function._checked_type is not None else infer_type(function)
        made = infer_type(to_anf(typed))
        backward = Var("bp", RefType(_BACKWARD))
        inner = self._transform(made, backward)
        assert isinstance(inner, Function)  # built from a function
        return Function([*inner.params, backward], inner.body, inner.ret_type, inner.type_params)

    def _named(self, var: GlobalVar) -> GlobalVar:
        """The differentiated form of a global function."""
        name = var.name_hint
        if name not in self._globals:
            function = self._module[name]
            if not isinstance(function, Function):
                raise GradientError(f"@{name} belongs to another back end and cannot be differentiated")
            made = f"{name}_grad"
            while made in self._module or any(other.name_hint == made for other in self._globals.values()):
                made += "_"
            self._globals[name] = GlobalVar(made)
            self._waiting.append((self._globals[name], function))
        return self._globals[name]

    def _transform(self, root: Expr, backward: Var) -> Expr:
        """Transforms an expression in A-normal form, parts first."""
        done: dict[Expr, Expr] = {}
        for node in post_order(root):
            done[node] = self._node(node, done, backward)
        return done[root]

    def _node(self, node: Expr, done: dict[Expr, Expr], backward: Var) -> Expr:
        if isinstance(node, (Op, Constructor)):
            return node
        if isinstance(node, Constant):
            return Tuple([node, RefCreate(filled("zeros", node, node.checked_type))])
        if isinstance(node, Var):
            return done.get(node) or _variable(node)
        if isinstance(node, GlobalVar):
            return self._closure(node, backward)
        if isinstance(node, Call):
            return self._call(node, done, backward)
        if isinstance(node, If):
            cond = TupleGetItem(done[node.cond], 0)
            return If(cond, done[node.true_branch], done[node.false_branch], node.span)
        if isinstance(node, Function):
            params = [_bound(done, param) for param in node.params]
            type_ = node._checked_type
            result = type_.ret_type if isinstance(type_, FuncType) else node.ret_type
            return Function(
                params, done[node.body], None if result is None or _unknown(result) else reversed_type(result), node.type_params
            )
        if isinstance(node, Let):
            return Let(_bound(done, node.var), done[node.value], done[node.body], node.span)
        if isinstance(node, Match):
            clauses = [Clause(with_pattern_vars(clause.lhs, lambda var: _bound(done, var)), done[clause.rhs]) for clause in node.clauses]
            return Match(done[node.data], clauses, node.complete, node.span)
        return with_children(node, [done[part] for part in children(node)])

    def _closure(self, var: GlobalVar, backward: Var) -> Expr:
        """A global function as a value: a function that calls the differentiated form."""
        type_ = self._module[var.name_hint]._checked_type
        if not isinstance(type_, FuncType):
            raise GradientError(f"@{var.name_hint} has no known type; infer the types of the module first")
        params = [Var("x", reversed_type(arg)) for arg in type_.arg_types]
        call = Call(self._named(var), [*params, backward])
        return Function(params, call, reversed_type(type_.ret_type), type_.type_params)

    def _call(self, call: Call, done: dict[Expr, Expr], backward: Var) -> Expr:
        if isinstance(call.op, GlobalVar):
            return Call(self._named(call.op), [*(done[arg] for arg in call.args), backward], None, (), call.span)
        if not isinstance(call.op, Op):
            return Call(done[call.op], [done[arg] for arg in call.args], None, map(reversed_type, call._type_args), call.span)
        lets = _Lets()
        type_ = call.checked_type
        pairs = [arg if isinstance(arg, Constant) else lets.push(done[arg]) for arg in call.args]
        args = [
            pair if isinstance(arg, Constant) else _forward(lets, pair, arg.checked_type)
            for pair, arg in zip(pairs, call.args, strict=True)
        ]
        for made, arg in zip(args, call.args, strict=True):
            made._checked_type = arg.checked_type
        again = Call(call.op, args, call.attrs, call._type_args, call.span)
        again._checked_type = type_
        result = lets.push(again, type_)
        if not is_differentiable(result, type_) or not any(is_differentiable(arg, arg.checked_type) for arg in args):
            return lets.body(_paired(lets, result, type_))
        paired = lets.push(_paired(lets, result, type_))
        earlier = lets.push(RefRead(backward))
        lets.push(RefWrite(backward, _backward(again, result, paired, pairs, earlier)))
        return lets.body(paired)


def _backward(call: Call, result: Var, paired: Expr, pairs: Sequence[Expr], earlier: Expr) -> Function:
    """The step of a call: a function that adds to the gradients of the operands, and then calls the `earlier` function."""
    lets = _Lets()
    type_ = call.checked_type
    gradient = lets.push(_gradient(lets, paired, type_), type_)
    for arg, pair, part in zip(call.args, pairs, operand_gradients(call, result, gradient), strict=True):
        if part is None or not is_differentiable(arg, arg.checked_type):
            continue
        whole = lets.push(part, arg.checked_type)

        def add(path: tuple[int, ...], value: Expr, tensor: TensorType, pair: Expr = pair) -> None:
            if not is_differentiable(value, tensor):
                return
            for index in path:
                pair = TupleGetItem(pair, index)
            reference = lets.push(TupleGetItem(pair, 1))
            lets.push(RefWrite(reference, call_op("add", RefRead(reference), value)))

        per_tensor(whole, arg.checked_type, add)
    return Function([], lets.body(Call(earlier, [])), _BACKWARD.ret_type)


def _forward(lets: _Lets, pair: Expr, type_: Type) -> Expr:
    """The value in a pair, or in nested tuples of pairs."""
    if isinstance(type_, TensorType):
        return lets.push(TupleGetItem(pair, 0), type_)
    return lets.push(Tuple([_forward(lets, field_of(pair, i), field) for i, field in enumerate(tensors_of(type_))]), type_)


def _gradient(lets: _Lets, pair: Expr, type_: Type) -> Expr:
    """The gradient in a pair, or in nested tuples of pairs."""
    if isinstance(type_, TensorType):
        return RefRead(TupleGetItem(pair, 1))
    return Tuple([_gradient(lets, field_of(pair, i), field) for i, field in enumerate(tensors_of(type_))])


def _paired(lets: _Lets, value: Expr, type_: Type) -> Expr:
    """A value with new references to gradients of zero."""
    if isinstance(type_, TensorType):
        return Tuple([value, RefCreate(filled("zeros", value, type_))])
    return Tuple([_paired(lets, lets.push(field_of(value, i), field), field) for i, field in enumerate(tensors_of(type_))])


def _unknown(type_: Type) -> bool:
    return isinstance(type_, IncompleteType)


def _variable(var: Var) -> Var:
    type_ = var.type_annotation or var._checked_type
    return Var(var.name_hint, None if type_ is None or _unknown(type_) else reversed_type(type_), var.span)


def _bound(done: dict[Expr, Expr], var: Var) -> Var:
    """The new variable for a bound variable."""
    found = done.get(var)
    if not isinstance(found, Var):
        done[var] = found = _variable(var)
    return found
