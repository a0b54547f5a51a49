"""The types of calls: results, and the types for the type parameters of the callee."""

from typing import Final

from passat.ir.counting import counted
from passat.ir.expr import Call
from passat.ir.infer_error import InferError
from passat.ir.known import known_value
from passat.ir.op import Op, OpTypeError
from passat.ir.types import (
    FuncType,
    IncompleteType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    alike,
    compatible,
    refine,
    substitute,
)

UNKNOWN: Final = IncompleteType()


def type_of_call(call: Call) -> Type:
    """Returns the type of a call from the types of its callee and arguments. Raises InferError."""
    callee = call.op
    types = [arg.checked_type for arg in call.args]
    if isinstance(callee, Op):
        try:
            values = None
            if callee.known_operands:
                values = [known_value(arg) if i in callee.known_operands else None for i, arg in enumerate(call.args)]
            return callee.infer(types, call.attrs, values)
        except OpTypeError as error:
            raise InferError(str(error), call) from error
    type_ = callee.checked_type
    if isinstance(type_, IncompleteType):
        return UNKNOWN
    if not isinstance(type_, FuncType):
        raise InferError(f"a value of type {type_!r} cannot be called", call)
    if len(type_.arg_types) != len(types):
        raise InferError(
            f"a function with {counted(len(type_.arg_types), 'parameter')} is called with {counted(len(types), 'argument')}", call
        )
    if len(call._type_args) > len(type_.type_params):
        raise InferError(
            f"a function with {counted(len(type_.type_params), 'type parameter')} is given {counted(len(call._type_args), 'type')}", call
        )
    variables = set(type_.type_params)
    solution: dict[TypeVar, Type] = dict(zip(type_.type_params, call._type_args, strict=False))
    for i, (wanted, given) in enumerate(zip(type_.arg_types, types, strict=True)):
        if not unify(wanted, given, variables, solution):
            raise InferError(f"argument {i + 1} has type {given!r}, but the function expects {substitute(wanted, solution)!r}", call)
    for param in type_.type_params:
        solution.setdefault(param, UNKNOWN)  # the element type of an empty list is unconstrained
    return substitute(type_.ret_type, solution)


def type_args_of(call: Call) -> tuple[Type, ...]:
    """The type arguments of a call (`Call.type_args`): those given, or those that follow from the types of the arguments and of the result.

    A type parameter that nothing determines is unknown.

    >>> from passat.ir.text import parse
    >>> module = parse("def @id[A](%x: A) -> A { %x } def @main(%x: float32) { @id((%x, %x)) }")
    >>> module["main"].body.type_args
    ((float32, float32),)
    """
    types = [arg._checked_type for arg in call.args]
    known = [type_ for type_ in types if type_ is not None]
    type_ = call.op._checked_type
    if call._checked_type is None or len(known) < len(types):
        return call._type_args
    if isinstance(call.op, Op):
        return tuple(known)
    if call._type_args or not isinstance(type_, FuncType) or not type_.type_params or len(known) != len(type_.arg_types):
        return call._type_args
    variables = set(type_.type_params)
    solution: dict[TypeVar, Type] = {}
    for wanted, given in zip((*type_.arg_types, type_.ret_type), (*known, call._checked_type), strict=True):
        unify(wanted, given, variables, solution)
    return tuple(solution.get(param, UNKNOWN) for param in type_.type_params)


def unify(wanted: Type, given: Type, variables: set[TypeVar], solution: dict[TypeVar, Type]) -> bool:
    """Whether a type can be passed for another one with type variables. Adds the types of the variables to the solution."""
    stack = [(wanted, given)]
    while stack:
        a, b = stack.pop()
        if isinstance(a, TypeVar) and a in variables:
            known = solution.get(a, b)
            if not compatible(known, b):
                return False
            solution[a] = refine(known, b)
        elif isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
            stack.extend(zip(a.fields, b.fields, strict=True))
        elif isinstance(a, TypeCall) and isinstance(b, TypeCall) and a.func == b.func and len(a.args) == len(b.args):
            stack.extend(zip(a.args, b.args, strict=True))
        elif isinstance(a, FuncType) and isinstance(b, FuncType) and b.type_params and not a.type_params:
            # A polymorphic function is passed for a monomorphic parameter: its type parameters are unconstrained here.
            stack.append((a, substitute(FuncType(b.arg_types, b.ret_type), dict.fromkeys(b.type_params, UNKNOWN))))
        elif (
            isinstance(a, FuncType)
            and isinstance(b, FuncType)
            and len(a.arg_types) == len(b.arg_types)
            and len(a.type_params) == len(b.type_params)
        ):
            a, b = alike(a, b)  # rename the type parameters of both alike
            stack.extend(zip((*a.arg_types, a.ret_type), (*b.arg_types, b.ret_type), strict=True))
        elif not compatible(a, b):
            return False
    return True
