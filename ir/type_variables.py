"""Type parameters of expressions and types: all, bound and free ones."""

from collections.abc import Iterator

from passat.ir.expr import Call, Constructor, Expr, Function, Match, Var
from passat.ir.traverse import pattern_vars, post_order
from passat.ir.types import FuncType, Type, TypeVar, occurring, type_parts
from passat.ir.walks import preorder


def all_type_vars(node: Expr | Type) -> list[TypeVar]:
    """Returns the type parameters in annotations, declared results, type arguments and parameter lists, without duplicates, in order.

    >>> from passat.ir.types import TupleType
    >>> a = TypeVar("a")
    >>> all_type_vars(FuncType([a], TupleType([a, TypeVar("b")]), [a]))
    [a, b]
    """
    return list(dict.fromkeys(part for type_ in _types(node) for part in _parts(type_) if isinstance(part, TypeVar)))


def bound_type_vars(node: Expr | Type) -> list[TypeVar]:
    """Returns the type parameters that functions and function types inside bind."""
    found: dict[TypeVar, None] = {}
    if isinstance(node, Expr):
        for part in post_order(node):
            if isinstance(part, Function):
                found.update((param, None) for param in part.type_params if isinstance(param, TypeVar))
    for type_ in _types(node):
        for inner in _parts(type_):
            if isinstance(inner, FuncType):
                found.update((param, None) for param in inner.type_params)
    return list(found)


def free_type_vars(node: Expr | Type) -> list[TypeVar]:
    """Returns the type parameters that occur and are not bound inside."""
    if isinstance(node, Type):
        return occurring(node)
    bound = set(bound_type_vars(node))
    return [var for var in all_type_vars(node) if var not in bound]


def _types(node: Expr | Type) -> list[Type]:
    """The types in an expression, or the type itself."""
    if isinstance(node, Type):
        return [node]
    found: list[Type | None] = []
    for part in post_order(node):
        if isinstance(part, Var):
            found.append(part.type_annotation)
        elif isinstance(part, Function):
            found += [*part.type_params, part.ret_type]
        elif isinstance(part, Call):
            found += part._type_args
        elif isinstance(part, Constructor):
            found += [*part.inputs, part.made]
        elif isinstance(part, Match):
            found += [var.type_annotation for clause in part.clauses for var in pattern_vars(clause.lhs)]
    return [type_ for type_ in found if type_ is not None]


def _parts(type_: Type) -> Iterator[Type]:
    """A type and all its nested parts, with the type parameters that it binds."""
    return preorder([type_], lambda part: (*(part.type_params if isinstance(part, FuncType) else ()), *type_parts(part)))
