"""Simplification passes under Relay's names: constant folding, identities, normalizations, CSE and dead code elimination."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, overload

from passat.ir.effects import effectful_nodes, pure_functions
from passat.ir.expr import Call, Constant, Expr, Function, If, Let, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import children, post_order, rewrite, with_children
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass
from passat.rules.library.arithmetic import Arithmetic, Constants
from passat.rules.library.batch_norm import ScaleAxis
from passat.rules.library.data_movement import Concatenations, Copies
from passat.rules.library.dynamic_shapes import CreationOps
from passat.rules.library.folding import ConstantFolding, QuantizedFolding, TupleProjection
from passat.rules.library.folding import DynamicToStatic as DynamicToStaticRules
from passat.rules.library.lowering import Decompositions
from passat.rules.library.masks import Masks
from passat.rules.library.products import Products
from passat.rules.library.raising import Powers
from passat.rules.library.relay_forms import RelayForms
from passat.rules.library.views import DynamicViews, Transposes, Views
from passat.rules.passes.target import LoweringPass
from passat.rules.rule import LOWERING
from passat.rules.rule_pass import RulePass

Skip = Callable[[Expr], bool]
"""Decides whether an expression, with its operands already shared, is excluded from sharing."""


def share(function: Function, skip: Skip) -> Function:
    """The function after CSE: shares calls of one operator with equal attributes and operands (or equal scalar constants), and equal
    projections. Keeps stateful calls, calls without operands, calls of non-operators, and expressions for which `skip` is true. Returns the
    same object if nothing is shared."""
    first: dict[object, Expr] = {}

    def shared(old: Expr, new: Expr) -> Expr:
        found = new.assume_type(old._checked_type)
        key = _key(found)
        return found if key is None or skip(found) else first.setdefault(key, found)

    return rewrite(function, shared, into=lambda part: not is_sealed(part))


def _key(node: Expr) -> object | None:
    """The key of equal expressions; None for expressions that are not shared. Shared operands are compared by identity."""
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
    """Common subexpression elimination, except for expressions for which `fskip` is true, or calls of the operators that it names."""

    def __init__(self, fskip: Skip | Collection[str]) -> None:
        self.fskip = fskip
        self.info = PassInfo(3, "EliminateCommonSubexpr", ["InferType"], provides=("types",), preserves=("types",))

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Shares expressions within one function."""
        return infer_type(share(func, self.fskip if callable(self.fskip) else self._is_named))

    def _is_named(self, node: Expr) -> bool:
        assert not callable(self.fskip)
        return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in self.fskip


_PREFIX: Final = "relay._transform."
FOLDING: Final = (ConstantFolding, DynamicToStaticRules)
SIMPLIFY: Final = (Arithmetic, Transposes, Views, Copies, Constants)
BIASES: Final = Products.only("bias", "unflatten_biased", "flatten_biased", "unflatten")
"""The rules of `Products` that do not change weights, which level 2 does."""
_POSITIONS: Final = Concatenations.only("take_run", "take_of_transpose", "take_of_vectors")
"""Rules that turn takes of positions into slices, which SlicesToSplit may join."""
SIMPLIFY_EXPR: Final = (*SIMPLIFY, BIASES, CreationOps, Powers, DynamicViews, Masks.only("unread", "softplus_threshold"), _POSITIONS)
_SWITCHED: Final = Constants.only("switch_add_multiply").of_kind(LOWERING)
RELAY_EXPR: Final = (*FOLDING, *SIMPLIFY, CreationOps, Powers, DynamicViews, RelayForms, _SWITCHED)
NORMALIZATIONS: Final = ("layer_norm", "instance_norm", "group_norm", "batch_norm", "l2_normalize")
"""The rules of `Decompositions` about normalizations."""


class FoldBranches(RulePass):
    """A rule pass that also replaces each `If` whose condition is a constant, or becomes one, by the branch that is taken. A walk, since
    control flow is outside of the e-graph."""

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Takes branches and runs the rules until no condition is a constant."""
        made = super().transform_function(take_branches(func), mod, ctx)
        while (taken := take_branches(made)) is not made:
            made = super().transform_function(taken, mod, ctx)
        return made


def take_branches(function: Function) -> Function:
    """The function with each `If` on a constant condition replaced by the branch that is taken; itself if there are none. The result is
    typed."""

    def taken(old: Expr, new: Expr) -> Expr:
        if not isinstance(new, If) or not isinstance(new.cond, Constant):
            return new
        return new.true_branch if bool(new.cond.data.numpy()) else new.false_branch

    made = rewrite(function, taken)
    return function if made is function else infer_type(made)


@register_pass(_PREFIX + "FoldConstant")
def fold_constant(fold_qnn: bool = False, branches: bool = False) -> RulePass:
    """Folds calls on constants, and values that follow from shapes. Keeps stateful calls, calls without operands, quantized operators
    (unless `fold_qnn` is set), and results that would enlarge the file too much (`rules.max_growth`). Splats remain splats. With
    `branches`, replaces each `If` on a constant condition by its branch, and does not share the e-graph with other passes."""
    sets = (ConstantFolding, QuantizedFolding) if fold_qnn else (ConstantFolding,)
    made = FoldBranches if branches else RulePass
    return made(sets, name="FoldConstant", opt_level=2, joint=not branches, after=["SimplifyInference"])


@register_pass(_PREFIX + "SimplifyTupleGet")
def simplify_tuple_get() -> RulePass:
    """Replaces projections of tuples by their fields."""
    return RulePass((TupleProjection,), name="SimplifyTupleGet", opt_level=1)


@register_pass(_PREFIX + "SimplifyInference")
def simplify_inference(unpack: bool = False) -> RulePass:
    """Removes operators that only training needs: dropout. With `unpack`, decomposes normalizations regardless of cost, as in TVM; without
    it they remain single operators, which are fast on ONNX Runtime."""
    if unpack:
        sets = (Decompositions.only("dropout", *NORMALIZATIONS),)
        return LoweringPass(sets, name="SimplifyInference", opt_level=0)
    return RulePass((Decompositions.only("dropout"),), name="SimplifyInference", opt_level=0, after=["ReadOpaque"])


@register_pass(_PREFIX + "DynamicToStatic")
def dynamic_to_static() -> RulePass:
    """Folds constants and shape arithmetic, and turns known shape operands into attributes."""
    return RulePass((ConstantFolding, DynamicToStaticRules), name="DynamicToStatic", opt_level=2, after=["FoldConstant"])


_OTHERWISE: Final = ("Arithmetic.divide_one", "Arithmetic.nan_guard", "CreationOps.collapse_sum_to", "CreationOps.collapse_nothing")
"""Rules whose results Relay writes in another form."""


@register_pass(_PREFIX + "SimplifyExpr")
def simplify_expr(relay: bool = False) -> RulePass:
    """Simplifies arithmetic, chains of reshapes, transposes, casts, clips and slices, redundant copies, uniform tensors, and powers that
    are products or roots. With `relay`, writes the forms that TVM v0.18 writes, such as x * 2 for x + x, and does not share the e-graph
    with other passes."""
    if relay:
        return RulePass(RELAY_EXPR, name="SimplifyExpr", opt_level=0, joint=False, without=_OTHERWISE, after=["FoldBatchNorm"])
    return RulePass((*FOLDING, *SIMPLIFY_EXPR), name="SimplifyExpr", opt_level=0, after=["FoldBatchNorm"])


@register_pass(_PREFIX + "FoldBatchNorm")
def fold_batch_norm() -> RulePass:
    """Folds batch normalizations, scales and shifts into the preceding convolution or product."""
    between = (*SIMPLIFY, DynamicViews)  # a copy, or a sum with 0, may be between them
    sets = (ConstantFolding, ScaleAxis, Products, *between)
    return RulePass(sets, name="FoldBatchNorm", opt_level=2, after=["DynamicToStatic"])


@overload
def eliminate_common_subexpr(fskip: None = None) -> RulePass: ...
@overload
def eliminate_common_subexpr(fskip: Skip | tuple[str, ...] | None) -> RulePass | EliminateCommonSubexpr: ...
@register_pass(_PREFIX + "EliminateCommonSubexpr")
def eliminate_common_subexpr(fskip: Skip | tuple[str, ...] | None = None) -> RulePass | EliminateCommonSubexpr:
    """Common subexpression elimination. Hash-consing merges equal expressions when the program is loaded into the e-graph, and congruence
    when operands become equal, so the pass needs no rules. (Stateful calls are never merged.) `fskip`, a function of an expression or names
    of operators, excludes expressions."""
    if fskip:
        return EliminateCommonSubexpr(fskip)
    return RulePass((), name="EliminateCommonSubexpr", opt_level=3, merge=True, after=["SlicesToSplit"])


@register_pass(_PREFIX + "DeadCodeElimination")
@dataclass(frozen=True)
class DeadCodeElimination(FunctionPass):
    """Drops unused let bindings whose values have no effects; with `inline_once`, inlines such values that are used once. With
    `ignore_impurity`, treats all values as free of effects. A walk, not rules: e-graphs hold no lets, and without lets extraction leaves
    out what nothing reads."""

    inline_once: bool = False
    ignore_impurity: bool = False
    info = PassInfo(1, "DeadCodeElimination", provides=("types",), preserves=("types",), after=["AvoidSkipLayerNorm"])

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Drops the dead lets of one function."""
        pure = pure_functions(mod, func)
        made = drop_dead_lets(func, pure=pure, ignore_impurity=self.ignore_impurity)
        return inline_single_uses(made, pure=pure, ignore_impurity=self.ignore_impurity) if self.inline_once else made


def drop_dead_lets(function: Function, *, pure: Collection[str] = (), ignore_impurity: bool = False) -> Function:
    """The function without unused lets, except those whose value has effects (references, stateful calls, calls of unknown functions,
    including global functions that are not `pure`).

    Like Relay's DeadCodeElimination v0.18. With `ignore_impurity`, also drops values with effects, as v0.8 does, which changes program
    behavior.
    """
    order = post_order(function)
    if not any(isinstance(node, Let) for node in order):
        return function
    effectful = set() if ignore_impurity else effectful_nodes(function, pure)
    dropped: dict[Var, Expr | None] = {let.var: None for let in _dead(function, effectful)}
    return _without(function, order, dropped) if dropped else function


def inline_single_uses(function: Function, *, pure: Collection[str] = (), ignore_impurity: bool = False) -> Function:
    """The function with lets inlined whose values have no effects and a single use, in the same function literal. If the use were in
    another literal, each call of it would compute the value."""
    order = post_order(function)
    if not any(isinstance(node, Let) for node in order):
        return function
    effectful = set() if ignore_impurity else effectful_nodes(function, pure)
    bound, uses = _uses(order)
    once: dict[Var, Expr | None] = {var: let.value for var, let in bound.items() if uses.get(var) == [True] and let.value not in effectful}
    return _without(function, order, once) if once else function


def _without(function: Function, order: Sequence[Expr], values: dict[Var, Expr | None]) -> Function:
    """The function without the lets of some variables; `values` has the replacements of the variables."""
    made: dict[int, Expr] = {}
    for node in order:
        if isinstance(node, Let) and node.var in values:
            made[id(node)] = made[id(_behind(node.body, values))]
        else:
            made[id(node)] = with_children(node, [made[id(_behind(part, values))] for part in children(node)])
    result = made[id(function)]
    assert isinstance(result, Function)
    return result


def _behind(part: Expr, values: dict[Var, Expr | None]) -> Expr:
    """The replacement of a part: the value of a variable, followed through variables that have values themselves."""
    while isinstance(part, Var):
        value = values.get(part)
        if value is None:
            break
        part = value
    return part


def _uses(order: Sequence[Expr]) -> tuple[dict[Var, Let], dict[Var, list[bool]]]:
    """The lets by their variables, and for each use of a variable, whether it is in the function literal of its let."""
    bound = {node.var: node for node in order if isinstance(node, Let)}
    homes: dict[Var, set[Expr]] = {}
    used: dict[Var, list[Expr]] = {}
    for function in (node for node in order if isinstance(node, Function)):
        for node in post_order(function.body, into=lambda part: not isinstance(part, Function)):
            if isinstance(node, Function):
                continue
            if isinstance(node, Let):
                homes.setdefault(node.var, set()).add(function)
            for part in (node.value, node.body) if isinstance(node, Let) else children(node):
                if isinstance(part, Var):
                    used.setdefault(part, []).append(function)
        if isinstance(function.body, Var):
            used.setdefault(function.body, []).append(function)
    return bound, {var: [homes[var] == {place} for place in places] for var, places in used.items() if var in homes}


def _dead(function: Function, effectful: Collection[Expr]) -> list[Let]:
    """The dead lets. Starts from the result, and visits the value of a let once its variable is needed."""
    waiting: dict[Var, Let] = {}
    needed: set[Expr] = set()
    stack: list[Expr] = [function.body]
    while stack:
        node = stack.pop()
        if node in needed:
            continue
        needed.add(node)
        if isinstance(node, Let):
            stack.append(node.body)
            if node.var in needed or node.value in effectful:
                stack.append(node.value)
            else:
                waiting[node.var] = node
        elif isinstance(node, Var):
            let = waiting.pop(node, None)
            if let is not None:
                stack.append(let.value)
        else:
            stack.extend(_read(node))
    return list(waiting.values())


def _read(node: Expr) -> tuple[Expr, ...]:
    """The operands of a node, excluding the variables that it binds."""
    if isinstance(node, Function):
        return (node.body,)
    return tuple(children(node))
