"""Checks that the types on a program are consistent. Does not modify the program."""

from passat.ir.analysis import Flaw
from passat.ir.expr import BaseFunc, Constant, Expr, Function, GlobalVar, Let, Match, Var
from passat.ir.infer import UNKNOWN, InferError, bind_let, bind_pattern, join_clauses, type_of
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import children, evaluation_parts, pattern_vars, post_order, with_children
from passat.ir.types import FuncType, TensorType, Type, TypeVar, compatible


def type_flaws(module: IRModule) -> list[Flaw]:
    """Returns the contradictions between the types in a module; empty if it is well typed.

    Checks each node against its parts: the operator must accept the types of the parts, and the type of the node, if it has one, must be
    compatible with the inferred one. Parts without a type count with their inferred type.

    >>> from passat.ir.expr import Function, Var
    >>> from passat.ir.types import TensorType
    >>> x = Var("x", TensorType((2,)))
    >>> body = x + x
    >>> body._checked_type = TensorType((3,))
    >>> print(*type_flaws(IRModule.from_expr(Function([x], body))))
    in @main: the type is Tensor[(3,), float32], but the parts imply Tensor[(2,), float32]
    """
    types = {var.name_hint: _declared(var, function) for var, function in module.functions.items()}
    found: list[Flaw] = []
    for var, function in module.functions.items():
        if not isinstance(function, Function):
            continue
        found += (flaw._replace(function=var.name_hint) for flaw in _Checker(types).check(function))
    return found


def _declared(var: GlobalVar, function: BaseFunc) -> Type:
    """The type of a module function, as far as it is known without inference."""
    if function._checked_type is not None:
        return function._checked_type
    if function.ret_type is None or not isinstance(function, Function):
        return UNKNOWN if var._checked_type is None else var._checked_type
    type_params = [param for param in function.type_params if isinstance(param, TypeVar)]
    return FuncType([param._checked_type or UNKNOWN for param in function.params], function.ret_type, type_params)


class _Checker:
    """Checks one function. `stand` maps nodes without a type, or with parts without one, to typed copies."""

    def __init__(self, globals_: dict[str, Type]) -> None:
        self._globals = globals_
        self._stand: dict[Expr, Expr] = {}
        self._flaws: list[Flaw] = []
        self._lets: dict[Var, Let] = {}

    def check(self, root: Expr) -> list[Flaw]:
        order = post_order(root, parts_of=evaluation_parts)
        self._lets = {node.var: node for node in order if isinstance(node, Let)}
        for node in order:
            if isinstance(node, Op):
                self._stand[node] = node
                continue
            stand = with_children(node, [self._stand[part] for part in children(node)]) if children(node) else node
            try:
                follows = self._follows(node, stand)
            except (InferError, RecursionError) as error:
                self._flaws.append(Flaw(str(error) if isinstance(error, InferError) else "types are nested too deeply here", node))
                follows = UNKNOWN
            has = node._checked_type
            if has is not None and not compatible(has, follows):
                self._flaws.append(Flaw(f"the type is {has!r}, but the parts imply {follows!r}", node))
            if stand is node and has is None:
                stand = _copy(node)
            if stand is not node:
                stand._checked_type = follows if has is None else has
            self._stand[node] = stand
        return self._flaws

    def _follows(self, node: Expr, stand: Expr) -> Type:
        """Returns the type of a node that its parts imply; `stand` is the node with typed parts. Raises InferError."""
        if isinstance(node, GlobalVar):
            return self._globals.get(node.name_hint, UNKNOWN)
        if isinstance(node, Var):
            let = self._lets.get(node)
            value = None if let is None else self._stand.get(let.value)  # not available yet inside a recursive function
            return node.type_annotation or (None if value is None else value._checked_type) or UNKNOWN
        if isinstance(node, Constant):
            return TensorType(node.data.shape, node.data.dtype)
        if isinstance(stand, Let):
            bind_let(stand)
            return stand.body.checked_type
        if isinstance(node, Match):
            assert isinstance(stand, Match)
            for clause in node.clauses:
                # Otherwise inference would write types to the variables.
                if all(var._checked_type is not None for var in pattern_vars(clause.lhs)):
                    bind_pattern(clause.lhs, stand.data.checked_type)
            return join_clauses(stand.clauses)
        return type_of(stand)


def _copy(node: Expr) -> Expr:
    """Copies a node and shares its parts, unlike `copy.copy`."""
    made = object.__new__(type(node))
    for slots in (getattr(kind, "__slots__", ()) for kind in type(node).__mro__):
        for slot in slots:
            if slot not in ("__weakref__", "_inner", "_known_value"):
                setattr(made, slot, getattr(node, slot))
    return made
