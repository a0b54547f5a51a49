"""Relay's functions of operators whose parameters are Relay's too: made from the declarations of the operators.

The operands come first, then the attributes, in the order of the declaration; all by position or by name. A single operand `x` is called
`data` and two of them `lhs` and `rhs`, as in Relay.
"""

import inspect
from collections.abc import Callable, Collection

from passat.ir.expr import Call
from passat.ir.op import Op, list_ops
from passat.ir.types import TupleType
from passat.relay.building import Exprs, call, operand

_NAMES = {("x",): ("data",), ("x", "y"): ("lhs", "rhs")}


def signature_of(op: Op) -> inspect.Signature:
    """The parameters of the function of an operator; those without a default come first.

    >>> from passat.ir.op import get_op
    >>> list(signature_of(get_op("nn.leaky_relu")).parameters)
    ['data', 'alpha']
    """
    kinds = [parameter.annotation for parameter in inspect.signature(op.relation).parameters.values()]
    names = _NAMES.get(op.operand_names, op.operand_names)
    operands = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Exprs if kind is TupleType else "Expr")
        for name, kind in zip(names, kinds, strict=False)
    ]
    attrs = [parameter.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for parameter in op.attr_params.values()]
    attrs.sort(key=lambda parameter: parameter.default is not parameter.empty)
    return inspect.Signature([*operands, *attrs], return_annotation=Call)


def function_of(op: Op) -> Callable[..., Call]:
    """The function that builds calls of an operator. It raises TypeError for arguments that do not fit."""
    signature = signature_of(op)
    arity = op.arity
    kinds = [parameter.annotation for parameter in inspect.signature(op.relation).parameters.values()][:arity]

    def build(*args: object, **kwargs: object) -> Call:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"relay.{op.name}{signature_text(signature)}: {error}") from None
        given = list(bound.arguments.items())
        operands = [operand(op.name, name, value, kind) for (name, value), kind in zip(given, kinds, strict=False)]
        return call(op.name, *operands, **dict(given[arity:]))

    build.__name__ = build.__qualname__ = op.name.rpartition(".")[2]
    build.__doc__ = op.doc
    build.__module__ = "passat.relay"
    build.__signature__ = signature  # type: ignore[attr-defined]  # what inspect and help() read
    return build


def signature_text(signature: inspect.Signature) -> str:
    """The names of parameters, with their defaults.

    >>> from passat.ir.op import get_op
    >>> signature_text(signature_of(get_op("nn.softmax")))
    '(data, axis=-1)'
    """
    plain = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(inspect.Signature(plain))


def namespace(prefix: str, respelled: Collection[str]) -> dict[str, Callable[..., Call]]:
    """The functions of the operators whose names begin with `prefix` and have no further dot, but for those spelled out by hand."""
    found = {}
    for op in list_ops():
        name = op.name.removeprefix(prefix)
        if op.name.startswith(prefix) and "." not in name and name not in respelled:
            found[name] = function_of(op)
    return found
