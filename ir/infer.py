"""Type inference. Iterative; infers each node once. Values of small integer tensors are propagated by `passat.ir.known`."""

from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

from passat.ir.call_types import UNKNOWN, type_of_call, unify
from passat.ir.called_literals import bind_params, takes_types
from passat.ir.counting import counted
from passat.ir.diagnostics import Diagnostic, announce
from passat.ir.exhaustiveness import check_matches
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
from passat.ir.infer_error import MAX_ERRORS, InferError, Untyped, assume, assume_pattern
from passat.ir.infer_uses import UseTypes
from passat.ir.known import known_value
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.recursion import recursive_groups
from passat.ir.shape import ANY, same_dim
from passat.ir.traverse import AnyExpr, children, post_order
from passat.ir.types import (
    FuncType,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    as_general,
    compatible,
    substitute,
)

__all__ = [
    "UNKNOWN",
    "InferError",
    "bind_let",
    "bind_pattern",
    "infer_module",
    "infer_type",
    "is_inferred",
    "join",
    "join_clauses",
    "known_value",
    "type_of",
    "type_of_call",
]

_Stack: TypeAlias = list[tuple[Expr, int]]
_Failure: TypeAlias = tuple[InferError, Expr, int]
"""An error, the node it occurred in, and the state of inference of that node."""


def infer_type(expr: AnyExpr) -> AnyExpr:
    """Infers `checked_type` of an expression and all its parts, and returns the expression. Nodes that have a type keep it.

    Raises InferError with all independent errors, each with its location and operator. Parts inferred before the error keep their types.
    In a function, variables without annotation get the type that follows from their uses (`passat.ir.infer_uses`), if there is one. Uses
    that contradict each other are an error. Otherwise their type is unknown, and so are values that depend on them.

    >>> from passat.ir.expr import var
    >>> x = var("x", shape=(2, "n"))
    >>> infer_type(x + x).checked_type
    Tensor[(2, n), float32]
    """
    stack: _Stack = [(expr, 0)]
    unknown: list[Var] = []
    failure = _infer_on(stack, unknown)
    if failure is not None:
        error = failure[0]
        error.settle(_all_errors([expr], failure, stack))
        raise error
    if unknown and isinstance(expr, Function):
        _infer_uses([expr], {})
    return expr


def _infer_uses(functions: Sequence[Function], own: Mapping[str, Function]) -> None:
    """Infers types from the uses of variables, and from calls of the functions in `own` by their names (`UseTypes`).

    Raises InferError, and restores the types, if uses contradict each other.
    """
    rounds: list[UseTypes] = []
    try:
        while (uses := UseTypes(functions, own)).assign():  # again, because results of operators and fields of tuples become known
            rounds.append(uses)
            stack: _Stack = [(function, 0) for function in reversed(functions)]
            failure = _infer_on(stack)
            if failure is not None:
                error = failure[0]
                error.settle(_all_errors(functions, failure, stack))
                raise error
            other = uses.other_results()
            for function, needed in other:
                given = function.func_type.ret_type
                if join(given, needed) is None:
                    raise InferError(f"the function returns {given!r}, but calls of it need {needed!r}", function.body)
            if other:
                uses.undo()
                return
        if uses.contradiction is not None:
            raise uses.contradiction
    except InferError as error:
        error.settle(error.diagnostics)
        for uses in reversed(rounds):
            uses.undo()
        raise


def _infer_on(stack: _Stack, unknown: list[Var] | None = None) -> _Failure | None:
    """Infers types until the stack is empty or an error occurs. Collects the variables of unknown type."""
    while stack:
        node, state = stack.pop()
        if node._checked_type is not None and state == 0:
            continue
        try:
            if isinstance(node, Let):
                if state == 0:
                    stack += [(node, 1), (node.value, 0)]
                elif state == 1:
                    bind_let(node)
                    stack += [(node, 2), (node.body, 0)]
                else:
                    node._checked_type = node.body.checked_type
            elif isinstance(node, Match):
                if state == 0:
                    stack += [(node, 1), (node.data, 0)]
                elif state == 1:
                    for clause in node.clauses:
                        bind_pattern(clause.lhs, node.data.checked_type)
                    stack += [(node, 2), *((clause.rhs, 0) for clause in reversed(node.clauses))]
                else:
                    node._checked_type = join_clauses(node.clauses)
            elif isinstance(node, Call) and takes_types(node.op):  # the arguments first
                if state == 0:
                    stack += [(node, 1), *((arg, 0) for arg in reversed(node.args))]
                else:
                    bind_params(node.op, [arg.checked_type for arg in node.args])
                    stack += [(node, 1), (node.op, 0)]
            elif state == 0:
                stack.append((node, 1))
                stack.extend((part, 0) for part in reversed(children(node)))
            else:
                node._checked_type = type_of(node)
                if unknown is not None and isinstance(node, Var):  # others have the type of their annotation, value or pattern
                    unknown.append(node)
        except InferError as error:
            return error.locate(node), node, state
        except RecursionError:
            return InferError("types are nested too deeply here", node), node, state
    return None


def _all_errors(roots: Sequence[Expr], failure: _Failure, stack: _Stack) -> list[Diagnostic]:
    """Collects the first error and independent later ones: a failed node is assumed to have an unknown type.

    Types assigned during this search are removed again.
    """
    untyped = Untyped(*roots)
    found: list[Diagnostic] = []
    try:
        following: _Failure | None = failure
        while following is not None and len(found) < MAX_ERRORS:
            error, node, state = following
            found += error.diagnostics
            _assume_type(node, state, stack)
            following = _infer_on(stack)
    finally:
        untyped.restore()
    return found


def _assume_type(node: Expr, state: int, stack: _Stack) -> None:
    """Continues after an error in a node, with its declared type or else an unknown type."""
    if state == 1 and isinstance(node, Let):
        assume(node.var, UNKNOWN)
        stack += [(node, 2), (node.body, 0)]
    elif state == 1 and isinstance(node, Match):
        assume_pattern(node, UNKNOWN)
        stack += [(node, 2), *((clause.rhs, 0) for clause in reversed(node.clauses))]
    else:
        node._checked_type = _declared_type(node) if isinstance(node, Function) else UNKNOWN


def _declared_type(function: Function) -> FuncType:
    result = UNKNOWN if function.ret_type is None else function.ret_type
    return FuncType([_param_type(param) for param in function.params], result, _type_params(function))


def is_inferred(module: IRModule) -> bool:
    """Whether each function has a type, and its callers know it."""
    return all(
        function._checked_type is not None and function._checked_type == var._checked_type for var, function in module.functions.items()
    )


def infer_module(module: IRModule) -> IRModule:
    """Infers the types of all functions, callees before callers, and functions that call each other together. Returns the module.

    Functions that have a type keep it, unless the type of one that they call has changed. Raises InferError with all
    independent errors in all functions, in module order, each with its location and operator.
    """
    for _ in module.functions:  # a function that is inferred again may have another type for its own callers
        known = {var: var._checked_type for var in module.functions}
        typed = [
            function for function in module.functions.values() if isinstance(function, Function) and function._checked_type is not None
        ]
        _infer_untyped(module)
        if len(known) == 1 or not _forget_outdated(typed, known):
            return module
    _infer_untyped(module)  # for functions that call each other
    return module


def _forget_outdated(functions: Sequence[Function], known: Mapping[GlobalVar, Type | None]) -> bool:
    """Removes the types in functions that call one whose type is not `known`, as it was before. Returns whether there are any."""
    if all(type_ == var._checked_type for var, type_ in known.items()):
        return False
    callees = {var.name_hint: (var, type_) for var, type_ in known.items()}

    def is_outdated(node: Expr) -> bool:
        if not isinstance(node, GlobalVar) or node.name_hint not in callees:
            return False
        var, type_ = callees[node.name_hint]
        before = type_ if node is var else node._checked_type
        return before is not None and before != var._checked_type

    found = [function for function in functions if any(map(is_outdated, post_order(function)))]
    for function in found:
        for node in post_order(function):
            is_declared = isinstance(node, Var) and (node.type_annotation is not None or node in function.params)
            if not is_declared and not isinstance(node, (Constant, Op)) and node not in known:
                node._checked_type = None
            if hasattr(node, "_known_value"):
                del node._known_value
    return bool(found)


def _infer_untyped(module: IRModule) -> None:
    """Infers the types of the functions that have none. Raises InferError."""
    by_name = {var.name_hint: var for var in module.functions}
    used = {
        var.name_hint: [node for node in post_order(function) if isinstance(node, GlobalVar)] if function._checked_type is None else []
        for var, function in module.functions.items()
    }
    for var, function in module.functions.items():
        if isinstance(function, Function) and function.ret_type is not None:
            var._checked_type = _declared_type(function)
    errors: dict[GlobalVar, InferError] = {}
    untyped: Untyped | None = None

    def fail(var: GlobalVar, error: InferError) -> None:
        nonlocal untyped
        errors[var] = error
        untyped = untyped or Untyped(*module.functions, *module.functions.values())
        function = module.functions[var]
        function._checked_type = var._checked_type = _declared_type(function) if isinstance(function, Function) else UNKNOWN

    for group in recursive_groups({name: [callee.name_hint for callee in callees] for name, callees in used.items()}):
        for name in group:
            var = by_name[name]
            for callee in used[name]:
                if callee._checked_type is None:
                    known = by_name.get(callee.name_hint)
                    callee._checked_type = known._checked_type if known is not None and known._checked_type is not None else UNKNOWN
            try:
                var._checked_type = infer_type(module.functions[var]).checked_type
            except InferError as error:
                fail(var, error)
        called = {callee.name_hint for name in group for callee in used[name]}
        functions = {name: function for name in group if isinstance(function := module.functions[by_name[name]], Function)}
        own = {name: function for name, function in functions.items() if name in called and function.ret_type is None}
        if own and errors.keys().isdisjoint(by_name[name] for name in group):
            try:
                _infer_uses([*functions.values()], own)
            except InferError as error:
                fail(by_name[group[0]], error)
            for name, function in functions.items():
                by_name[name]._checked_type = function.checked_type
    if untyped is not None:
        untyped.restore()
        _raise_all(errors, module)
    if module.type_definitions:
        _check_matches(module)


def _check_matches(module: IRModule) -> None:
    """Raises InferError for all functions with a match that lacks arms, which then have no type: the next inference rejects them again."""
    errors: dict[GlobalVar, InferError] = {}
    for var, function in module.functions.items():
        try:
            check_matches(function, module)
        except InferError as error:
            errors[var] = error
            function._checked_type = None
    if errors:
        _raise_all(errors, module)


def _raise_all(errors: Mapping[GlobalVar, InferError], module: IRModule) -> NoReturn:
    """Raises the error of the first function, with the diagnostics of all."""
    failed = [var for var in module.functions if var in errors]
    first = errors[failed[0]]
    first.settle(diagnostic.noting(f"in the function @{var.name_hint}") for var in failed for diagnostic in errors[var].diagnostics)
    announce(first, module)
    raise first


def _param_type(param: Var) -> Type:
    return param._checked_type or UNKNOWN


def _type_params(function: Function) -> list[TypeVar]:
    return [param for param in function.type_params if isinstance(param, TypeVar)]


def type_of(node: Expr) -> Type:
    """Returns the type of a node from the types of its parts. Variables and globals without annotation have an unknown type.

    Raises InferError.
    """
    if isinstance(node, Call):
        return type_of_call(node)
    if isinstance(node, Tuple):
        return TupleType(field.checked_type for field in node.fields)
    if isinstance(node, TupleGetItem):
        return _field_type(node)
    if isinstance(node, Function):
        body = node.body.checked_type
        if node.ret_type is not None and not as_general(node.ret_type, body):
            raise InferError(f"the function is declared to return {node.ret_type!r}, but its body has type {body!r}", node)
        return FuncType([_param_type(param) for param in node.params], body if node.ret_type is None else node.ret_type, _type_params(node))
    if isinstance(node, If):
        return _type_of_if(node)
    if isinstance(node, RefCreate):
        return RefType(node.value.checked_type)
    if isinstance(node, RefRead):
        ref = node.ref.checked_type
        if isinstance(ref, IncompleteType):
            return UNKNOWN
        if not isinstance(ref, RefType):
            raise InferError(f"ref_read needs a reference, but its operand has type {ref!r}", node)
        return ref.value
    if isinstance(node, RefWrite):
        ref, value = node.ref.checked_type, node.value.checked_type
        if not compatible(ref, RefType(value)):
            raise InferError(f"a value of type {value!r} cannot be written to a {ref!r}", node)
        return TupleType(())
    if isinstance(node, Constructor):
        return FuncType(node.inputs, node.made, node.type_vars)
    return UNKNOWN  # variables and globals without annotation, operators


def _field_type(node: TupleGetItem) -> Type:
    type_ = node.tuple_value.checked_type
    if isinstance(type_, IncompleteType):
        return UNKNOWN
    if not isinstance(type_, TupleType):
        raise InferError(f"field {node.index} is taken from a value of type {type_!r}, which is not a tuple", node)
    if not 0 <= node.index < len(type_.fields):
        raise InferError(f"field {node.index} is out of range for a tuple of {len(type_.fields)} fields", node)
    return type_.fields[node.index]


def _type_of_if(node: If) -> Type:
    cond = node.cond.checked_type
    if not compatible(cond, TensorType((), "bool")):
        raise InferError(f"the condition of an if must be a scalar bool, but has type {cond!r}", node)
    then, other = node.true_branch.checked_type, node.false_branch.checked_type
    joined = join(then, other)
    if joined is None:
        raise InferError(f"the branches of an if have incompatible types {then!r} and {other!r}", node)
    return joined


def join(a: Type, b: Type) -> Type | None:
    """Returns the least upper bound of two types: dimensions that differ become `Any`. None if element types or ranks differ."""
    if a == b:
        return a
    if isinstance(a, IncompleteType) or isinstance(b, IncompleteType):
        return UNKNOWN
    if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype == b.dtype and a.ndim == b.ndim:
        return a.with_shape(m if same_dim(m, n) else ANY for m, n in zip(a.shape, b.shape, strict=True))
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
        fields = [join(m, n) for m, n in zip(a.fields, b.fields, strict=True)]
        return None if any(field is None for field in fields) else TupleType(field for field in fields if field is not None)
    if isinstance(a, TypeCall) and isinstance(b, TypeCall) and a.func == b.func and len(a.args) == len(b.args):
        args = [_joined_argument(m, n) for m, n in zip(a.args, b.args, strict=True)]
        return None if None in args else TypeCall(a.func, [arg for arg in args if arg is not None])
    if isinstance(a, FuncType) and isinstance(b, FuncType):
        return a if as_general(a, b) else b if as_general(b, a) else None
    return None


def _joined_argument(a: Type, b: Type) -> Type | None:
    """The join of two type arguments. An unknown one is a type parameter that nothing determines, such as that of an empty list."""
    return b if isinstance(a, IncompleteType) else a if isinstance(b, IncompleteType) else join(a, b)


def join_clauses(clauses: tuple[Clause, ...]) -> Type:
    """Returns the type of a match from the types of its arms. Raises InferError if they are incompatible."""
    result: Type | None = None
    for clause in clauses:
        result = clause.rhs.checked_type if result is None else join(result, clause.rhs.checked_type)
        if result is None:
            raise InferError("the arms of a match have different types")
    return UNKNOWN if result is None else result


def bind_let(let: Let) -> None:
    """Assigns the type of the value to the variable of a let, if it has none. Raises InferError if the declared type is incompatible."""
    given, declared = let.value.checked_type, let.var.type_annotation
    if declared is not None and not as_general(declared, given):
        raise InferError(f"%{let.var.name_hint} is declared as {declared!r}, but its value has type {given!r}", let)
    _bind(let.var, given)


def _bind(var: Var, type_: Type) -> None:
    if var._checked_type is None or (var.type_annotation is None and isinstance(var._checked_type, IncompleteType)):
        var._checked_type = type_


def bind_pattern(pattern: Pattern, type_: Type) -> None:
    """Assigns types to the variables of a pattern that matches values of a type, if they have none. Raises InferError."""
    stack = [(pattern, type_)]
    while stack:
        node, of = stack.pop()
        if isinstance(node, PatternVar):
            _bind(node.var, of)
        elif isinstance(node, PatternTuple):
            fields = (UNKNOWN,) * len(node.patterns) if isinstance(of, IncompleteType) else of.fields if isinstance(of, TupleType) else None
            if fields is None or len(fields) != len(node.patterns):
                raise InferError(f"a pattern of {counted(len(node.patterns), 'field')} is matched against a value of type {of!r}")
            stack.extend(zip(node.patterns, fields, strict=True))
        elif isinstance(node, PatternConstructor):
            solution: dict[TypeVar, Type] = {}
            made = node.constructor
            if not unify(made.made, of, {*made.type_vars}, solution):
                raise InferError(f"the pattern {made.name_hint} is matched against a value of type {of!r}")
            if len(node.patterns) != len(made.inputs):
                raise InferError(f"the constructor {made.name_hint} has {counted(len(made.inputs), 'field')}")
            for param in made.type_vars:
                solution.setdefault(param, UNKNOWN)  # for a value of unknown type
            stack.extend((part, substitute(given, solution)) for part, given in zip(node.patterns, made.inputs, strict=True))
