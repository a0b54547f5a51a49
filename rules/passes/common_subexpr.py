"""Common subexpressions, as Relay's EliminateCommonSubexpr(fskip) finds them: one walk, in which some calls may be left out."""

from collections.abc import Callable, Collection

from passat.ir.expr import Call, Constant, Expr, Function, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, post_order, with_children
from passat.passmgr import FunctionPass, PassContext, PassInfo

Skip = Callable[[Expr], bool]
"""Says of an expression (its parts have been shared already) whether it stays by itself."""


def share(function: Function, skip: Skip) -> Function:
    """The function in which equal expressions are one: calls of one operator with equal attributes on the same operands (or equal scalar
    constants), and equal fields of one tuple. Calls that are stateful, have no operands, or are of no operator stay by themselves, and so
    does what `skip` is true of. The same object where nothing is equal."""
    first: dict[object, Expr] = {}
    made: dict[int, Expr] = {}
    for node in post_order(function, into=lambda part: not is_sealed(part)):
        if is_sealed(node):
            made[id(node)] = node
            continue
        found = with_children(node, [made[id(part)] for part in children(node)]).assume_type(node._checked_type)
        key = _key(found)
        made[id(node)] = found if key is None or skip(found) else first.setdefault(key, found)
    result = made[id(function)]
    assert isinstance(result, Function)
    return result


def _key(node: Expr) -> object | None:
    """What equal expressions have in common; None for what stays by itself. Parts that are shared are told apart as objects."""
    if isinstance(node, TupleGetItem):
        return ("field", id(node.tuple_value), node.index)
    if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.stateful or not node.args:
        return None
    return (node.op, node.attrs, *map(_operand, node.args))


def _operand(arg: Expr) -> object:
    if isinstance(arg, Constant) and not arg.data.shape:
        return (arg.data.dtype, arg.data.numpy().tobytes())
    return id(arg)


class EliminateCommonSubexpr(FunctionPass):
    """Equal expressions become one, but those that `fskip` is true of, or that call one of the operators it names."""

    def __init__(self, fskip: Skip | Collection[str]) -> None:
        self.fskip = fskip
        self.info = PassInfo(3, "EliminateCommonSubexpr", ["InferType"], provides=("types",), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Shares within one function."""
        infer_type(func)
        made = share(func, self.fskip if callable(self.fskip) else self._is_named)
        infer_type(made)
        return made

    def _is_named(self, node: Expr) -> bool:
        assert not callable(self.fskip)
        return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in self.fskip
