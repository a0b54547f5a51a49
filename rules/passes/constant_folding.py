"""Constant folding as TVM's versions do it: one walk over the program, without an e-graph, so that nothing else about it changes."""

from collections.abc import Collection
from typing import Final

from passat.ir.evaluate import Value
from passat.ir.expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.known import known_value
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.sealed import is_sealed
from passat.ir.tensor import Tensor
from passat.ir.traverse import children, post_order, with_children
from passat.ir.types import TensorType
from passat.passmgr import FunctionPass, PassContext, PassInfo
from passat.rules.engine.fold import Folder, written_opset
from passat.rules.rule import EXACT

SKIPPED_IN_07: Final = frozenset({"zeros_like", "ones_like", "full_like", "full"})
"""What v0.7 does not evaluate."""
_OF_SHAPES: Final = frozenset({"shape_of", "ndarray_size"})
"""What v0.7 and later read from the type of an operand that is no constant."""
VERSIONS: Final = ("v0.5", "v0.7", "v0.8", "v0.18")


def fold_expr(expr: Expr, folder: Folder, *, skip: Collection[str] = (), shapes: bool = True, branches: bool = True) -> Expr:
    """The expression with what follows from constants computed; itself where that is nothing. Its types must have been inferred.

    Calls on constants are evaluated, unless they are stateful, have no operands, or are of operators to `skip`; the field of a tuple that
    was just made is that field; variables that are bound to a constant are it. With `shapes` operators that read shapes take them from
    types, with `branches` an `if` on a constant is the branch that it takes. Sealed functions (`passat.ir.sealed`) are not entered.
    """
    order = post_order(expr, into=lambda node: not is_sealed(node))
    binding: dict[int, list[Let]] = {}
    for node in order:
        if isinstance(node, Let):
            binding.setdefault(id(node.value), []).append(node)
    constants: dict[Var, Constant] = {}
    made: dict[int, Expr] = {}
    for node in order:
        if isinstance(node, Var):
            found: Expr = constants.get(node, node)
        elif is_sealed(node):
            found = node
        elif isinstance(node, Let) and node.var in constants:
            found = made[id(node.body)]
        else:
            parts = [made[id(part)] if not isinstance(part, Var) else constants.get(part, part) for part in children(node)]
            found = _folded(node, parts, folder, skip, shapes, branches)
        made[id(node)] = found
        if isinstance(found, Constant):
            for let in binding.get(id(node), ()):
                constants[let.var] = found
    return made[id(expr)]


def _folded(node: Expr, parts: list[Expr], folder: Folder, skip: Collection[str], shapes: bool, branches: bool) -> Expr:
    """What takes the place of a node whose parts are done."""
    if isinstance(node, If) and branches and isinstance(parts[0], Constant):
        return parts[1] if bool(parts[0].data.uniform()) else parts[2]
    if isinstance(node, TupleGetItem) and isinstance(parts[0], Tuple):
        return parts[0].fields[node.index]
    if isinstance(node, Call) and isinstance(node.op, Op) and node.op.name not in skip:
        value = _value(node, node.op, parts[1:], folder, shapes)
        if value is not None:
            return _expression(value)
    return with_children(node, parts)


def _value(call: Call, op: Op, args: list[Expr], folder: Folder, shapes: bool) -> Value | None:
    if shapes and op.name in _OF_SHAPES:
        found = folder.from_known(known_value(call), call.checked_type) if isinstance(call.checked_type, TensorType) else None
        if found is not None:
            return found
    values = [_constant(arg) for arg in args]
    known = [value for value in values if value is not None]
    return folder.fold(op, known, call.attrs, call.checked_type) if len(known) == len(values) else None


def _constant(expr: Expr) -> Value | None:
    """The value of a constant, or of a tuple of constants."""
    if isinstance(expr, Constant):
        return expr.data
    if isinstance(expr, Tuple):
        fields = [field.data for field in expr.fields if isinstance(field, Constant)]
        return tuple(fields) if len(fields) == len(expr.fields) else None
    return None


def _expression(value: Value) -> Expr:
    return Constant(value) if isinstance(value, Tensor) else Tuple(tuple(map(_expression, value)))


def fold_constant_expr(expr: Expr, mod: IRModule | None = None, fold_qnn: bool = False) -> Expr:
    """Relay's `FoldConstantExpr` (v0.8): what follows from constants in one expression; the same object where nothing does.

    `mod` has the functions that the expression may call, which stay calls. There are no quantised operators: `fold_qnn` must be False
    (ValueError).
    """
    if fold_qnn:
        raise ValueError("FoldConstantExpr: there are no quantised operators to fold: fold_qnn=True is not supported")
    typed = infer_type(expr)
    folded = fold_expr(typed, _folder(PassContext.current(), mod))
    return typed if folded is typed else infer_type(folded)


def _folder(ctx: PassContext, mod: IRModule | None) -> Folder:
    return Folder(ctx.get_config("rules.max_growth"), exact=ctx.get_config("rules.math") == EXACT, opset=written_opset(mod))


class FoldConstantOf(FunctionPass):
    """FoldConstant as a version of TVM does it (`fold_expr`).

    v0.5 evaluates whatever it can; v0.7 leaves zeros_like, ones_like, full_like and full, and reads shapes from types; v0.8 and v0.18 leave
    none of these, and take the branch of an `if` on a constant.
    """

    def __init__(self, version: str) -> None:
        if version not in VERSIONS:
            raise ValueError(f"FoldConstant: there is no version {version!r}; there are {', '.join(VERSIONS)}")
        self.version = version
        self.info = PassInfo(2, "FoldConstant", ["InferType"], provides=("types",), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Folds one function."""
        folder = _folder(ctx, mod)
        infer_type(func)
        skip = SKIPPED_IN_07 if self.version == "v0.7" else ()
        made = fold_expr(func, folder, skip=skip, shapes=self.version != "v0.5", branches=self.version in ("v0.8", "v0.18"))
        if made is not func:
            infer_type(made)
        assert isinstance(made, Function)
        return made
