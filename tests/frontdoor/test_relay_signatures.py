"""Functions and classes under Relay's names take TVM's arguments in TVM's order and under TVM's names.

The table has the positional parameters of TVM v0.18.0 (python/tvm/relay, python/tvm/ir), and of v0.8.0 for functions that v0.18.0 lacks.
Further parameters may follow. Parameters that docs/tvm-differences.md lists as unsupported are omitted.
"""

import inspect
import pickle
import re
from collections.abc import Callable
from functools import reduce
from types import ModuleType
from typing import Final

import numpy as np
import pytest

import passat
from passat import relay
from passat.ir.infer import infer_type
from passat.ir.infer_error import InferError
from passat.relay import nn, nn_functions, nn_windows

TABLE: Final = """
instrument.PassPrintingInstrument: print_before_pass_names, print_after_pass_names
instrument.pass_instrument: pi_cls
relay.Call: op, args, attrs, type_args, span
relay.Clause, relay.add, relay.bitwise_and, relay.bitwise_or, relay.bitwise_xor, relay.divide, relay.equal, relay.floor_mod,
    relay.greater, relay.greater_equal, relay.left_shift, relay.less, relay.less_equal, relay.logical_and, relay.logical_or,
    relay.logical_xor, relay.maximum, relay.minimum, relay.mod, relay.multiply, relay.not_equal, relay.power, relay.right_shift,
    relay.subtract: lhs, rhs
relay.Constant: data, span
relay.Constructor: name_hint, inputs, belong_to
relay.FuncType: arg_types, ret_type, type_params, type_constraints
relay.Function: params, body, ret_type, type_params, attrs, span
relay.GlobalTypeVar, relay.TypeVar: name_hint, kind
relay.GlobalVar: name_hint, type_annot
relay.IRModule: functions, type_definitions, attrs
relay.IRModule.from_expr: expr, functions, type_defs
relay.IRModule.update_func: var, func
relay.If: cond, true_branch, false_branch, span
relay.IncompleteType: kind
relay.Let: variable, value, body, span
relay.Match: data, clauses, complete
relay.PatternConstructor: constructor, patterns
relay.PatternTuple: patterns
relay.PatternVar: var
relay.RefCreate: value, span
relay.RefRead: ref, span
relay.RefWrite: ref, value, span
relay.ScopeBuilder.if_scope: cond
relay.ScopeBuilder.let: var, value
relay.ScopeBuilder.ret: value
relay.IRModule.get_global_var, relay.SourceName: name
relay.Span: source_name, line, end_line, column, end_column
relay.TensorType, relay.ones, relay.zeros: shape, dtype
relay.Tuple: fields, span
relay.TupleGetItem: tuple_value, index, span
relay.TupleType: fields
relay.TupleWrapper: tuple_value, size
relay.TypeCall: func, args
relay.TypeData: header, type_vars, constructors
relay.Var: name_hint, type_annotation, span
relay.abs, relay.acos, relay.acosh, relay.annotation.stop_fusion, relay.asin, relay.asinh, relay.atan, relay.atanh, relay.bitwise_not,
    relay.ceil, relay.copy, relay.cos, relay.cosh, relay.erf, relay.exp, relay.floor, relay.isfinite, relay.isinf, relay.isnan,
    relay.log, relay.log2, relay.logical_not, relay.negative, relay.nn.batch_flatten, relay.nn.relu, relay.ones_like, relay.round,
    relay.rsqrt, relay.sigmoid, relay.sign, relay.sin, relay.sinh, relay.sqrt, relay.tan, relay.tanh,
    relay.trunc, relay.zeros_like: data
relay.annotation.compiler_begin, relay.annotation.compiler_end: data, compiler
relay.all, relay.any, relay.max, relay.mean, relay.min, relay.prod, relay.sum: data, axis, keepdims, exclude
relay.analysis.all_dtypes, relay.analysis.all_vars, relay.analysis.bound_vars, relay.analysis.check_constant, relay.analysis.free_vars,
    relay.analysis.well_formed: expr
relay.analysis.all_type_vars, relay.analysis.bound_type_vars, relay.analysis.free_type_vars: expr, mod
relay.analysis.detect_feature: a, b
relay.analysis.list_op_freqs: mod
relay.analysis.post_order_visit: expr, fvisit
relay.arange: start, stop, step, dtype
relay.argmax, relay.argmin: data, axis, keepdims, exclude, select_last_index
relay.assert_structural_equal, relay.structural_equal: lhs, rhs, map_free_vars
relay.astext: obj, show_meta_data, annotate
relay.bind: expr, binds
relay.broadcast_to: data, shape
relay.broadcast_to_like: data, broadcast_type
relay.build_config: opt_level, required_pass, disabled_pass
relay.build_module.bind_params_by_name: func, params
relay.cast, relay.ndarray_size, relay.shape_of: data, dtype
relay.cast_like: data, dtype_like
relay.clip: a, a_min, a_max
relay.collapse_sum_like: data, collapse_type
relay.concatenate, relay.nn.fast_softmax, relay.nn.log_softmax, relay.nn.softmax, relay.reverse, relay.squeeze, relay.stack: data, axis
relay.const: value, dtype, span
relay.create_executor: kind, mod, device, target, params
relay.cumsum: data, axis, dtype, exclusive
relay.debug: expr, debug_func
relay.einsum: data, equation
relay.expand_dims: data, axis, num_newaxis
relay.fromtext: source, source_name
relay.full: fill_value, shape, dtype
relay.full_like: data, fill_value
relay.gather: data, axis, indices
relay.gather_nd: data, indices, batch_dims, index_rank
relay.layout_transform: data, src_layout, dst_layout
relay.logsumexp: data, axis, keepdims
relay.nn.adaptive_avg_pool1d, relay.nn.adaptive_avg_pool2d, relay.nn.adaptive_avg_pool3d: data, output_size, layout
relay.nn.avg_pool1d, relay.nn.avg_pool2d, relay.nn.avg_pool3d: data, pool_size, strides, dilation, padding, layout, out_layout,
    ceil_mode, count_include_pad
relay.nn.batch_matmul: tensor_a, tensor_b, out_dtype, transpose_a, transpose_b
relay.nn.batch_norm: data, gamma, beta, moving_mean, moving_var, axis, epsilon, center, scale
relay.nn.batch_to_space_nd: data, block_shape, crops
relay.nn.bias_add: data, bias, axis
relay.nn.conv1d, relay.nn.conv2d, relay.nn.conv3d: data, weight, strides, padding, dilation, groups, channels, kernel_size, data_layout,
    kernel_layout, out_layout, out_dtype
relay.nn.conv1d_transpose, relay.nn.conv2d_transpose, relay.nn.conv3d_transpose: data, weight, strides, padding, dilation, groups,
    channels, kernel_size, data_layout, kernel_layout, out_layout, output_padding, out_dtype
relay.nn.dense: data, weight, units, out_dtype
relay.nn.depth_to_space: data, block_size, layout, mode
relay.nn.dropout, relay.nn.dropout_raw: data, rate
relay.nn.global_avg_pool1d, relay.nn.global_avg_pool2d, relay.nn.global_avg_pool3d, relay.nn.global_max_pool1d,
    relay.nn.global_max_pool2d, relay.nn.global_max_pool3d: data, layout, out_layout
relay.nn.group_norm: data, gamma, beta, num_groups, axis, epsilon, center, scale
relay.nn.instance_norm, relay.nn.layer_norm: data, gamma, beta, axis, epsilon, center, scale
relay.nn.l2_normalize: data, eps, axis
relay.nn.leaky_relu: data, alpha
relay.nn.lrn: data, size, axis, bias, alpha, beta
relay.nn.matmul: tensor_a, tensor_b, units, out_dtype, transpose_a, transpose_b
relay.nn.max_pool1d, relay.nn.max_pool2d, relay.nn.max_pool3d: data, pool_size, strides, dilation, padding, layout, out_layout,
    ceil_mode
relay.nn.pad: data, pad_width, pad_value, pad_mode
relay.nn.prelu: data, alpha, axis
relay.nn.space_to_batch_nd: data, block_shape, paddings, pad_value
relay.nn.space_to_depth: data, block_size, layout
relay.one_hot: indices, on_value, off_value, depth, axis, dtype
relay.Op.get, relay.op.get: op_name
relay.parse: source, source_name, init_module, init_meta_table
relay.parse_expr: source
relay.pretty_print: obj
relay.repeat: data, repeats, axis
relay.reshape: data, newshape, allowzero
relay.reshape_like: data, shape_like, lhs_begin, lhs_end, rhs_begin, rhs_end
relay.reverse_reshape: data, newshape
relay.scalar_type: dtype
relay.scatter_elements: data, indices, updates, axis, reduction
relay.scatter_nd: data, indices, updates, mode
relay.split: data, indices_or_sections, axis
relay.strided_slice: data, begin, end, strides, axes, slice_mode
relay.structural_hash: node, map_free_vars
relay.take: data, indices, axis, batch_dims, mode
relay.tile: data, reps
relay.topk: data, k, axis, ret_type, is_ascend, dtype
relay.transform.ConvertLayout: desired_layouts
relay.transform.DeadCodeElimination: inline_once, ignore_impurity
relay.transform.EliminateCommonSubexpr: fskip
relay.qnn.abs, relay.qnn.erf, relay.qnn.exp, relay.qnn.hardswish, relay.qnn.log, relay.qnn.rsqrt, relay.qnn.sigmoid, relay.qnn.sqrt,
    relay.qnn.tanh: x, scale, zero_point, output_scale, output_zero_point
relay.qnn.add, relay.qnn.mul, relay.qnn.subtract: lhs, rhs, lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point, output_scale,
    output_zero_point, lhs_axis, rhs_axis
relay.qnn.avg_pool2d: data, input_scale, input_zero_point, output_scale, output_zero_point, pool_size, strides, padding, dilation, ceil_mode,
    count_include_pad, layout, out_layout
relay.qnn.batch_matmul: x, y, x_zero_point, y_zero_point, x_scale, y_scale, out_dtype
relay.qnn.concatenate: data, input_scales, input_zero_points, output_scale, output_zero_point, axis
relay.qnn.conv2d: data, kernel, input_zero_point, kernel_zero_point, input_scale, kernel_scale, kernel_size, channels, strides, padding,
    dilation, groups, data_layout, kernel_layout, out_layout, out_dtype
relay.qnn.conv2d_transpose: data, weight, input_zero_point, kernel_zero_point, input_scale, kernel_scale, strides, padding, dilation,
    groups, channels, kernel_size, data_layout, kernel_layout, out_layout, output_padding, out_dtype
relay.qnn.dense: data, weight, input_zero_point, kernel_zero_point, input_scale, kernel_scale, units, out_dtype
relay.qnn.dequantize: data, input_scale, input_zero_point, axis, out_dtype
relay.qnn.leaky_relu: x, alpha, input_scale, input_zero_point, output_scale, output_zero_point
relay.qnn.quantize: data, output_scale, output_zero_point, axis, out_dtype
relay.qnn.requantize: data, input_scale, input_zero_point, output_scale, output_zero_point, axis, rounding, compute_dtype, out_dtype
relay.qnn.softmax: x, scale, zero_point, output_scale, output_zero_point, axis
relay.transform.FakeQuantizationToInteger: hard_fail, use_qat, optional_qnn_ops
relay.transform.FoldConstant: fold_qnn
relay.transform.FoldConstantExpr: expr, mod, fold_qnn
relay.transform.FuseOps: fuse_opt_level
relay.transform.SplitArgs: max_function_args
relay.transform.MergeComposite: pattern_table
relay.transform.PassInfo: opt_level, name, required, traceable
relay.transform.RemoveUnusedFunctions: entry_functions
relay.transform.Sequential: passes, opt_level, name, required, traceable
relay.transform.function_pass: pass_func, opt_level, name, required
relay.transform.module_pass: pass_func, opt_level, name, required, traceable
relay.transpose: data, axes
relay.trilu: data, k, upper
relay.var: name_hint, type_annotation, shape, dtype, span
relay.where: condition, x, y
transform.PassContext: opt_level, required_pass, disabled_pass, instruments, config
transform.PrintIR: header, show_meta_data
"""
SIGNATURES: Final = {
    name: tuple(params.split(", "))
    for names, params in (row.split(": ") for row in re.sub(r"\n    ", " ", TABLE.strip()).split("\n"))
    for name in names.split(", ")
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_stand_in_tvms_order(name: str) -> None:
    found: object = reduce(getattr, name.split("."), passat)
    assert callable(found)
    parameters = list(inspect.signature(found).parameters.values())
    if parameters and parameters[0].name == "self":
        del parameters[0]
    positional = tuple(each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD)
    assert positional[: len(SIGNATURES[name])] == SIGNATURES[name]
    keyword_only = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert not keyword_only & {*SIGNATURES[name]}


def test_positional_arguments_have_the_meaning_of_tvm() -> None:
    span = relay.Span(None, 3, 4, 14, 20)
    assert (span.source_name, span.line, span.end_line, span.column, span.end_column, span.outputs) == ("", 3, 4, 14, 20, ())
    x = relay.var("x", relay.TensorType((1, 4, 8, 8)), None, "float32", span)
    assert x.span == span
    assert relay.const(1.0, "float32", span).span == span
    pooled = nn.max_pool2d(x, 3, 2, 1, 0, "NCHW", "", True)
    assert infer_type(pooled).checked_type == relay.TensorType((1, 4, 4, 4))
    averaged = nn.avg_pool2d(x, 3, 2, 1, 1, "NCHW", "NCHW", False, True)
    assert (averaged.attrs.ceil_mode, averaged.attrs.count_include_pad) == (False, True)
    assert nn.global_avg_pool2d(x, "NCHW", "NCHW").attrs.layout == "NCHW"
    with pytest.raises(ValueError, match="out_layout='NHWC' is not supported"):
        nn.global_max_pool2d(x, "NCHW", "NHWC")
    with pytest.raises(ValueError, match="out_layout='NHWC' is not supported"):
        nn.max_pool2d(x, 3, 2, 1, 0, "NCHW", "NHWC")
    turned = nn.conv2d_transpose(x, relay.var("w", shape=(4, 3, 2, 2)), 2, 0, 1, 2, 6, (2, 2))
    assert (turned.attrs.groups, turned.attrs.channels, turned.attrs.kernel_size) == (2, 6, (2, 2))
    assert infer_type(turned).checked_type == relay.TensorType((1, 6, 16, 16))
    assert relay.argmax(x, 1, False, False, True).attrs.select_last_index is True
    with pytest.raises(ValueError, match="reshape_like: parts of shapes need known shapes, not None and"):
        relay.reshape_like(relay.var("free"), x, 1)


HAND_WRITTEN: Final = [
    *((nn, name) for name in (*nn_functions.__all__, *nn_windows.__all__)),
    *((relay.image, name) for name in relay.image.__all__),
    *((relay.qnn.op, name) for name in relay.qnn.op.qnn.__all__),
]
"""The functions of operators that are not derived from the operators, with their modules."""


@pytest.mark.parametrize(("module", "name"), HAND_WRITTEN)
def test_functions_of_operators_have_names_and_documentation_and_can_be_pickled(module: ModuleType, name: str) -> None:
    function = getattr(module, name)
    assert (function.__name__, function.__qualname__) == (name, name)
    assert function.__doc__
    assert pickle.loads(pickle.dumps(function)) is function


def test_defaults_are_those_of_tvm() -> None:
    def defaults(function: Callable[..., object]) -> dict[str, object]:
        return {each.name: each.default for each in inspect.signature(function).parameters.values() if each.default is not each.empty}

    conv = defaults(nn.conv2d)
    assert (conv["strides"], conv["padding"], conv["dilation"], conv["groups"], conv["out_dtype"]) == ((1, 1), (0, 0), (1, 1), 1, "")
    assert (conv["data_layout"], conv["kernel_layout"], conv["out_layout"]) == ("NCHW", "OIHW", "")
    assert defaults(nn.conv3d_transpose)["output_padding"] == (0, 0, 0)
    pool = defaults(nn.avg_pool1d)
    assert (pool["pool_size"], pool["padding"], pool["layout"], pool["count_include_pad"]) == ((1,), (0,), "NCW", False)
    resize = defaults(relay.image.resize2d)
    assert (resize["roi"], resize["layout"], resize["out_dtype"]) == (None, "NCHW", None)
    assert type(resize["cubic_exclude"]) is int
    assert "contrib_conv2d_nchwc" in (nn.conv2d.__doc__ or "")


def test_one_size_is_that_of_every_dimension_of_the_operator() -> None:
    functions = (relay.image.resize1d, relay.image.resize2d, relay.image.resize3d)
    for rank, function in enumerate(functions, 1):
        data = relay.var("data", shape=(1, 3, *(8,) * rank))
        assert function(data, 4).attrs.size == (4,) * rank
    wrong = relay.image.resize2d(relay.var("image", shape=(1, 3, 8, 8)), 4, layout="NCW")
    assert wrong.attrs.size == (4, 4)
    with pytest.raises(InferError, match="the layout 'NCW' is not a permutation of the letters NCHW"):
        infer_type(wrong)


def test_type_parameters_have_a_kind() -> None:
    assert relay.TypeVar("A", relay.TypeKind.Type).name_hint == "A"
    assert relay.GlobalTypeVar("List", relay.TypeKind.AdtHandle).name_hint == "List"
    assert relay.IncompleteType(relay.TypeKind.Type) == relay.IncompleteType()
    assert relay.TypeVar("n", relay.TypeKind.ShapeVar).kind is relay.TypeKind.ShapeVar
    assert relay.TypeVar("n", relay.TypeKind.ShapeVar) != relay.TypeVar("n")
    with pytest.raises(ValueError, match="7 is not a valid TypeKind"):
        relay.TypeVar("n", 7)


def test_constructors_are_made_for_the_name_of_their_type() -> None:
    list_, a, b = relay.GlobalTypeVar("List"), relay.TypeVar("A"), relay.TypeVar("A")
    cons = relay.Constructor("Cons", [a, list_(a)], list_)
    nil = relay.Constructor("Nil", [], list_)
    data = relay.TypeData(list_, [a], [cons, nil])
    assert (cons.belong_to, nil.belong_to, nil.tag - cons.tag) == (list_, list_, 1)
    one = cons(relay.const(np.ones(2, np.float32)), nil())
    head, value = relay.var("head"), relay.var("value")
    arms = [
        relay.Clause(relay.PatternConstructor(cons, [relay.PatternVar(head), relay.PatternWildcard()]), head),
        relay.Clause(relay.PatternVar(value), relay.const(np.zeros(2, np.float32))),
    ]
    module = relay.IRModule({"main": relay.Function([], relay.Tuple([one, relay.Match(one, arms)]))}, {list_: data})
    wanted = relay.TupleType([list_(relay.TensorType((2,))), relay.TensorType((2,))])
    assert infer_type(module["main"].body).checked_type == wanted
    assert infer_type(cons).checked_type == relay.FuncType([b, list_(b)], list_(b), [b])
    relay.assert_structural_equal(relay.parse(relay.astext(module)), module)
    applied = relay.Constructor("Cons", [a, list_(a)], list_(a), 0)
    assert relay.structural_equal(applied, cons)
