"""`relay.transform`: the passes over programs, under Relay's names.

Passes registered under `relay._transform.` without a function here are also found by name.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, overload
from typing import Any as AnyValue

from passat.ir.analysis import free_vars
from passat.ir.attrs import Attrs
from passat.ir.cps import to_cps, un_cps
from passat.ir.defunctionalization import defunctionalized
from passat.ir.expr import Call, Expr, Function, GlobalVar, Tuple, TupleGetItem
from passat.ir.gradients.first_order import first_order_gradient
from passat.ir.gradients.higher_order import higher_order_gradient
from passat.ir.gradients.registry import GradientError
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op, get_op
from passat.ir.similar_names import did_you_mean
from passat.ir.traverse import children, post_order, rewrite
from passat.ir.types import TensorType, TupleType, Type
from passat.passmgr import (
    AnnotateSpans,
    EtaExpand,
    FirstOrderGradient,
    FunctionPass,
    InferType,
    Inline,
    LambdaLift,
    LazyGradientInit,
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    Sequential,
    ToBasicBlockNormalForm,
    ToCPS,
    ToGraphNormalForm,
    UnCPS,
    function_pass,
    get_pass,
    list_passes,
    module_pass,
)
from passat.passmgr.registry import PassEntry
from passat.relay.build_module import build_config
from passat.relay.names import bound

if TYPE_CHECKING:  # they are found by name, since importing Relay loads no rules
    from passat.rules.passes.compiler_regions import MergeCompilerRegions
    from passat.rules.passes.fuse_ops import DefuseOps, FuseOps
    from passat.rules.passes.partial_evaluate import PartialEvaluate
    from passat.rules.passes.partition_graph import PartitionGraph
    from passat.rules.passes.simplify import DeadCodeElimination


@overload
def recast(
    expr: IRModule, dtype: str, out_dtype: str, ops: Sequence[str] | None = None, skip_layers: Sequence[int] | None = None
) -> IRModule: ...
@overload
def recast(expr: Expr, dtype: str, out_dtype: str, ops: Sequence[str] | None = None, skip_layers: Sequence[int] | None = None) -> Expr: ...
def recast(
    expr: Expr | IRModule, dtype: str, out_dtype: str, ops: Sequence[str] | None = None, skip_layers: Sequence[int] | None = None
) -> Expr | IRModule:
    """Casts the operands of calls of `ops` (by default `nn.conv2d`) to `dtype`, and their results to the types that they had.

    `out_dtype` is the element type of the results in between, for operators with that attribute. `skip_layers` are calls that stay: the
    layer of a call is the largest number of such calls on a path that ends at it, from 0; negative numbers count from the last layer. Of a
    module, recasts `main`. Raises InferError if an operator does not take the element type.
    """
    if isinstance(expr, IRModule):
        made = expr.shallow_copy()
        made["main"] = expr["main"].with_body(recast(expr["main"].body, dtype, out_dtype, ops, skip_layers))
        return made
    wanted = {get_op(name) for name in (("nn.conv2d",) if ops is None else ops)}
    layers = _layers(infer_type(expr), wanted)
    count = max(layers.values(), default=-1) + 1
    skipped = {layer + count if layer < 0 else layer for layer in skip_layers or ()}

    def recast_call(old: Expr, node: Expr) -> Expr:
        if old not in layers or layers[old] in skipped or not isinstance(node, Call):
            return node
        args = [_cast(arg, before.checked_type, dtype) for arg, before in zip(node.args, children(old)[1:], strict=True)]
        made = Call(node.op, args, _with_result(node, dtype, out_dtype), node._type_args, node.span)
        return _cast(made, old.checked_type)

    return infer_type(rewrite(expr, recast_call))


def _layers(expr: Expr, wanted: Collection[Op]) -> dict[Expr, int]:
    """The layer of each call of the wanted operators."""
    before: dict[Expr, int] = {}
    found: dict[Expr, int] = {}
    for node in post_order(expr):
        before[node] = max((before[part] for part in children(node)), default=0)
        if isinstance(node, Call) and node.op in wanted:
            found[node] = before[node]
            before[node] += 1
    return found


def _with_result(call: Call, dtype: str, out_dtype: str) -> Attrs:
    """The attributes of a call on operands of `dtype`, with the element type of its result if the operator has that attribute."""
    if not isinstance(call.op, Op) or "out_dtype" not in call.op.defaults:
        return call.attrs
    return Attrs(call.attrs, out_dtype="" if dtype == out_dtype and call.op.defaults["out_dtype"] == "" else out_dtype)


def _cast(value: Expr, type_: Type, dtype: str | None = None) -> Expr:
    """A tensor, or a tuple of tensors, of a type cast to an element type; without one, to those of the type."""
    if isinstance(type_, TensorType):
        return get_op("cast")(value, dtype=dtype or type_.dtype)
    if not isinstance(type_, TupleType):
        return value
    fields = value.fields if isinstance(value, Tuple) else [TupleGetItem(value, i) for i in range(len(type_.fields))]
    return Tuple(_cast(part, field, dtype) for part, field in zip(fields, type_.fields, strict=True))


__all__ = [
    "AlterOpLayout",
    "AnnotateSpans",
    "AnnotateTarget",
    "BackwardFoldScaleAxis",
    "CombineParallelBatchMatmul",
    "CombineParallelConv2D",
    "CombineParallelDense",
    "ConvertLayout",
    "DeadCodeElimination",
    "Defunctionalization",
    "DefuseOps",
    "DynamicToStatic",
    "EliminateCommonSubexpr",
    "EtaExpand",
    "FakeQuantizationToInteger",
    "FirstOrderGradient",
    "FoldConstant",
    "FoldConstantExpr",
    "FoldScaleAxis",
    "ForwardFoldScaleAxis",
    "FunctionPass",
    "FuseOps",
    "InferType",
    "InferTypeLocal",
    "Inline",
    "LambdaLift",
    "LazyGradientInit",
    "Legalize",
    "MergeCompilerRegions",
    "MergeComposite",
    "ModulePass",
    "PartialEvaluate",
    "PartitionGraph",
    "Pass",
    "PassContext",
    "PassInfo",
    "RemoveUnusedFunctions",
    "Sequential",
    "SimplifyExpr",
    "SimplifyInference",
    "SplitArgs",
    "ToANormalForm",
    "ToBasicBlockNormalForm",
    "ToCPS",
    "ToGraphNormalForm",
    "UnCPS",
    "build_config",
    "function_pass",
    "gradient",
    "module_pass",
    "recast",
    "to_cps",
    "un_cps",
]

_PREFIX: Final = "relay._transform."


def _make(name: str, **options: AnyValue) -> Pass:
    return get_pass(_PREFIX + name, **options)


def FoldConstant(fold_qnn: bool = False) -> Pass:
    """Folds constants, and replaces an `If` with a constant condition by its branch; folds quantized operators (`qnn.*`) only with
    `fold_qnn`."""
    return _make("FoldConstant", fold_qnn=fold_qnn, branches=True)


def FoldConstantExpr(expr: Expr, mod: IRModule, fold_qnn: bool = False) -> Expr:
    """Folds constants in one expression; returns the same object if there is nothing to fold."""
    fold = _make("FoldConstant", fold_qnn=fold_qnn, branches=True)
    assert isinstance(fold, FunctionPass)
    function = expr if isinstance(expr, Function) else Function(free_vars(expr), expr)
    made = fold.transform_function(function, mod, PassContext.current())
    return made if isinstance(expr, Function) else made.body


def ToANormalForm() -> Pass:
    """Makes sequences of lets, each with one operation on variables. Constants are bound, too."""
    return _make("ToANormalForm", bind_constants=True)


def SimplifyExpr() -> Pass:
    """Simplifies arithmetic, and chains of reshapes, transposes and casts."""
    return _make("SimplifyExpr", relay=True)


def SimplifyInference() -> Pass:
    """Removes operators that only training needs, and decomposes normalizations."""
    return _make("SimplifyInference", unpack=True)


def Legalize(*sets: AnyValue, legalize_map_attr_name: str = "FTVMLegalize") -> Pass:
    """Decomposes operators by rules: rule sets, or names of sets of the library. Without rules, replaces operators by the results of
    functions registered for them under `legalize_map_attr_name`, which may also be given by position, as in Relay."""
    first = sets[0] if len(sets) == 1 else None
    if isinstance(first, str) and first.startswith("FTVM"):
        return _make("Legalize", attribute=first)
    return _make("Legalize", sets=sets, attribute=legalize_map_attr_name)


def DynamicToStatic() -> Pass:
    """Replaces dynamic operators of known sizes by static ones."""
    return _make("DynamicToStatic")


def EliminateCommonSubexpr(fskip: Callable[[AnyValue], bool] | None = None) -> Pass:
    """Common subexpression elimination, except for expressions for which `fskip` is true."""
    return _make("EliminateCommonSubexpr", fskip=fskip)


def ForwardFoldScaleAxis() -> Pass:
    """Scales move into the weights of the products behind them, past rectifiers and sums, if all uses of the scaled tensor end in such
    products."""
    return _make("ForwardFoldScaleAxis", always=True)


def BackwardFoldScaleAxis() -> Pass:
    """Scales move into the weights of the products before them, past rectifiers, biases and sums, if nothing else uses a tensor on the
    way."""
    return _make("BackwardFoldScaleAxis", always=True)


def FoldScaleAxis() -> Pass:
    """Scales move into the weights of products: BackwardFoldScaleAxis, ForwardFoldScaleAxis and FoldConstant."""
    return _make("FoldScaleAxis", always=True)


def CombineParallelConv2D(min_num_branches: int = 3) -> Pass:
    """Combines convolutions of one tensor into one, with concatenated weights, if there are at least `min_num_branches`."""
    return _make("CombineParallelConv2D", min_num_branches=min_num_branches, always=True)


def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> Pass:
    """Combines products of one matrix with several weights into one; with `to_batch`, into a batched product of weights of one shape."""
    return _make("CombineParallelDense", min_num_branches=min_num_branches, to_batch=to_batch, always=True)


def CombineParallelBatchMatmul(min_num_branches: int = 3) -> Pass:
    """Combines products of one batch of matrices with several batches into one."""
    return _make("CombineParallelBatchMatmul", min_num_branches=min_num_branches, always=True)


def SplitArgs(max_function_args: int) -> Pass:
    """Splits concatenations of more operands than a function of the target may have."""
    return _make("SplitArgs", max_function_args=max_function_args)


def MergeComposite(pattern_table: AnyValue = ()) -> Pass:
    """Moves matches of the patterns of a table into functions with the attribute `Composite`. Patterns are those of
    `relay.dataflow_pattern`, with a check function of the expression, or those of rules (`passat.rules.pattern`), with guards."""
    return _make("MergeComposite", pattern_table=pattern_table)


def AnnotateTarget(targets: str | Sequence[str], include_non_call_ops: bool = True) -> Pass:
    """Marks the beginnings and ends of regions for external compilers, given by one name or several in order of priority. A compiler takes
    operators whose function registered as `target.NAME` returns true, and functions that MergeComposite created from patterns `NAME.`..."""
    names = (targets,) if isinstance(targets, str) else targets
    return _make("AnnotateTarget", targets=names, include_non_call_ops=include_non_call_ops)


def ConvertLayout(desired_layouts: Mapping[str, Sequence[str]]) -> Pass:
    """Converts convolutions and poolings to the requested layouts, by operator name: that of the data, and that of the weight or "default".
    Inserts few transposes."""
    return _make("ConvertLayout", desired_layouts=desired_layouts)


def AlterOpLayout() -> Pass:
    """Converts operators to the layouts that the target prefers (`passat.rules.passes.layouts.register_alter_op_layout`), if any."""
    return _make("AlterOpLayout")


def FakeQuantizationToInteger(hard_fail: bool = False, use_qat: bool = False, optional_qnn_ops: Sequence[str] | None = None) -> Pass:
    """Converts regions between `qnn.dequantize` and `qnn.quantize` to integers. With `hard_fail`, a region that cannot be converted is an
    error. With `use_qat`, single operators after `qnn.dequantize` are also converted. `optional_qnn_ops` names operators that are
    approximated."""
    options = {"hard_fail": hard_fail, "use_qat": use_qat, "optional_qnn_ops": () if optional_qnn_ops is None else optional_qnn_ops}
    return _make("FakeQuantizationToInteger", **options)


def RemoveUnusedFunctions(entry_functions: list[str] | tuple[str, ...] | None = None) -> Pass:
    """Removes the functions that no entry function (by default `main`) reaches."""
    return _make("RemoveUnusedFunctions", entry_functions=("main",) if entry_functions is None else entry_functions)


def InferTypeLocal(expr: Expr) -> Type:
    """Infers the type of an expression; its parts keep their known types. Raises InferError."""
    return infer_type(expr).checked_type


def Defunctionalization(func: Function, mod: IRModule) -> Function:
    """The first-order form of a function: functions that are values become values of data types, which are added to `mod` with functions
    that apply them. Not a pass, as in Relay. Raises DefunctionalizationError."""
    return defunctionalized(func, mod)


def gradient(expr: Expr, mod: IRModule | None = None, mode: str = "higher_order") -> Function:
    """A function with the same parameters that returns a pair: the result, and a tuple of the gradients of its parameters. `expr` is a
    function, or the GlobalVar of one in `mod`. The gradient is that of the sum of all elements of the result. The mode "higher_order" takes
    any program, and differentiates the first tensor of a tuple. It adds differentiated forms of the called global functions to `mod`. The
    mode "first_order" only takes dataflow, and creates no closures or references. Raises GradientError.
    """
    if mode == "higher_order":
        return higher_order_gradient(expr, mod)
    if mode != "first_order":
        raise GradientError(f"mode={mode!r} is not a mode of differentiation; it must be 'higher_order' or 'first_order'")
    function = mod[expr] if mod is not None and isinstance(expr, GlobalVar) else expr
    if not isinstance(function, Function):
        raise GradientError(f"gradient needs a function, not a {type(expr).__name__}")
    return first_order_gradient(function)


def _registered() -> dict[str, PassEntry]:
    return {entry.name: entry for entry in list_passes() if entry.key.startswith(_PREFIX)}


@functools.cache
def _creating(entry: PassEntry) -> Callable[..., Pass]:
    """What creates a pass: its class, a user's function, or a function with the name of the pass that checks its options."""
    factory = entry.factory
    if inspect.isclass(factory) or not entry.is_own:
        return factory
    signature = inspect.signature(factory)

    @functools.wraps(factory)
    def create(*args: object, **options: object) -> Pass:
        return entry.make(bound(f"transform.{entry.name}", signature, args, options).arguments)

    create.__name__ = create.__qualname__ = entry.name
    create.__module__ = __name__
    return create


def __dir__() -> list[str]:
    return sorted({*__all__, *_registered(), *(name for name in globals() if name.startswith("__"))})


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name as a pass

    def __getattr__(name: str) -> Callable[..., Pass]:
        names = {} if name.startswith("_") else _registered()
        if name not in names:
            where = "; `passat passes` lists all passes, docs/tvm-differences.md those of TVM that do not exist"
            hint = did_you_mean(name, sorted({*names, *__all__})) or where
            raise AttributeError(f"relay.transform has no pass {name!r}{hint}", name=name)
        return _creating(names[name])
