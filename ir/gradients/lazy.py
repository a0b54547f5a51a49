"""Computes zeros and ones lazily, by representing tensors as values of the data type GradCell (`gradient.rly`).

A walk and not a rule set, since the types of all variables change, through closures, branches and references.
"""

from typing import Final

from passat.ir.anf import to_anf
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
    Tuple,
    Var,
)
from passat.ir.gradients.adjoints import field_of
from passat.ir.gradients.registry import GradientError
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import children, post_order, with_children
from passat.ir.type_functor import TypeMutator
from passat.ir.types import FuncType, GlobalTypeVar, IncompleteType, TensorType, TupleType, Type, TypeCall

_CONSTANT: Final = {"zeros": "Zero", "zeros_like": "Zero", "ones": "One", "ones_like": "One"}
_OVERLOADED: Final = {"add": "AddGradCell", "multiply": "MultiplyGradCell"}


class _Celled(TypeMutator):
    """A type whose tensors are cells."""

    def __init__(self, cell: GlobalTypeVar) -> None:
        self._cell = cell

    def visit_tensor_type(self, typ: TensorType) -> Type:
        """The cell of a tensor."""
        return TypeCall(self._cell, [typ])


def lazy_gradient_init(function: Function, module: IRModule) -> Function:
    """Returns a function of the same type that computes zeros and ones only when they are used.

    The result neither adds zeros nor multiplies by zeros and ones. `module` has the definitions of `gradient.rly`. Zeros times infinity or
    NaN are zeros, and 0 + -0.0 is -0.0. Raises GradientError for programs with global functions or data types.
    """
    cell, *constructors = module.get_type("GradCell")
    assert isinstance(cell, GlobalTypeVar)  # its first entry
    made = {part.name_hint: part for part in constructors if isinstance(part, Constructor)}
    return _Lazy(module, cell, made).run(infer_type(to_anf(infer_type(function))))


class _Lazy:
    def __init__(self, module: IRModule, cell: GlobalTypeVar, constructors: dict[str, Constructor]) -> None:
        self._module = module
        self._types = _Celled(cell)
        self._constructors = constructors

    def run(self, function: Function) -> Function:
        """Transforms a function in A-normal form. Converts its arguments to cells, and its results back to tensors."""
        done: dict[Expr, Expr] = {}
        for node in post_order(function):
            done[node] = self._node(node, done)
        params = [Var(param.name_hint, param.checked_type) for param in function.params]
        result_type = function.body.checked_type
        result = Var("result", self._type(result_type))
        call = Call(done[function], [self._celled(param, old.checked_type) for param, old in zip(params, function.params, strict=True)])
        return Function(params, Let(result, call, self._plain(result, result_type)), result_type, (), function.attrs)

    def _type(self, type_: Type) -> Type:
        found: Type = self._types.visit(type_)
        return found

    def _celled(self, value: Expr, type_: Type) -> Expr:
        """Converts tensors, including those in tuples, to cells."""
        if isinstance(type_, TensorType):
            return Call(self._constructors["Raw"], [value], None, [type_])
        if isinstance(type_, TupleType):
            return Tuple([self._celled(field_of(value, i), field) for i, field in enumerate(type_.fields)])
        raise GradientError(f"LazyGradientInit supports only tensors and tuples of tensors, not a value of type {type_}")

    def _plain(self, value: Expr, type_: Type) -> Expr:
        """Converts cells, including those in tuples, to tensors."""
        if isinstance(type_, TensorType):
            return Call(self._module.get_global_var("FromGradCell"), [value], None, [type_])
        if isinstance(type_, TupleType):
            return Tuple([self._plain(field_of(value, i), field) for i, field in enumerate(type_.fields)])
        raise GradientError(f"LazyGradientInit supports only tensors and tuples of tensors, not a value of type {type_}")

    def _node(self, node: Expr, done: dict[Expr, Expr]) -> Expr:
        if isinstance(node, Constant):
            return self._celled(node, node.checked_type)
        if isinstance(node, Var):
            type_ = node.type_annotation or node._checked_type
            return Var(node.name_hint, None if type_ is None or isinstance(type_, IncompleteType) else self._type(type_), node.span)
        if isinstance(node, (GlobalVar, Constructor, Match)):
            raise GradientError(
                f"LazyGradientInit does not support global functions and data types, but the program has a {type(node).__name__}"
            )
        if isinstance(node, Call) and isinstance(node.op, Op):
            return self._operation(node, node.op, done)
        if isinstance(node, Call):
            return Call(done[node.op], [done[arg] for arg in node.args], None, map(self._type, node._type_args), node.span)
        if isinstance(node, If):
            cond = self._plain(done[node.cond], node.cond.checked_type)
            return If(cond, done[node.true_branch], done[node.false_branch], node.span)
        if isinstance(node, Function):
            params = [param for param in (done[old] for old in node.params) if isinstance(param, Var)]
            type_ = node._checked_type
            result = type_.ret_type if isinstance(type_, FuncType) else node.ret_type
            return Function(params, done[node.body], None if result is None else self._type(result), node.type_params)
        return node if isinstance(node, Op) else with_children(node, [done[part] for part in children(node)])

    def _operation(self, call: Call, op: Op, done: dict[Expr, Expr]) -> Expr:
        """Rewrites a call of an operator: on cells if it is overloaded, otherwise on tensors."""
        type_, args = call.checked_type, [done[arg] for arg in call.args]
        if op.name in _OVERLOADED and all(arg.checked_type == type_ for arg in call.args):
            params = [Var("x", type_), Var("y", type_)]
            function = self._module.get_global_var(_OVERLOADED[op.name])
            return Call(function, [Function(params, Call(op, params, call.attrs), type_), *args], None, [type_], call.span)
        plain = [self._plain(arg, old.checked_type) for arg, old in zip(args, call.args, strict=True)]
        made = Call(op, plain, call.attrs, call._type_args, call.span)
        if op.name in _CONSTANT:
            return Call(self._constructors[_CONSTANT[op.name]], [Function([], made, type_)], None, [type_], call.span)
        if isinstance(type_, TensorType):
            return self._celled(made, type_)
        result = Var("x", type_)
        return Let(result, made, self._celled(result, type_))
