"""Simplification passes under Relay's names: constant folding, identities, normalizations, CSE and dead code elimination."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, overload

from passat.ir.effects import pure_functions
from passat.ir.expr import Call, Constant, Expr, Function, If, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.sealed import is_sealed
from passat.ir.traverse import rewrite
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass
from passat.rules.engine.dead_code import drop_dead_lets, inline_single_uses
from passat.rules.library.arithmetic import Arithmetic, Constants
from passat.rules.library.batch_norm import ScaleAxis
from passat.rules.library.data_movement import Copies
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
SIMPLIFY_EXPR: Final = (*SIMPLIFY, BIASES, CreationOps, Powers, DynamicViews, Masks.only("unread", "softplus_threshold"))
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


_OTHERWISE: Final = ("Arithmetic.divide_one", "CreationOps.collapse_sum_to", "CreationOps.collapse_nothing")
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
