"""The operator kinds of Relay's fusion (TOpPattern of TVM v0.8), for every operator."""

from passat.ir.op import list_ops

ELEMWISE = """abs acos acosh asin asinh atan atanh bitwise_not cast cast_like ceil clip copy cos cosh erf exp fast_erf fast_exp
fast_tanh floor full full_like dyn.full isfinite isinf isnan log log2 logical_not negative nn.leaky_relu nn.relu ones ones_like round rsqrt
sigmoid sign sin sinh sqrt tan tanh trunc zeros zeros_like"""
BROADCAST = """add bitwise_and bitwise_or bitwise_xor broadcast_to broadcast_to_like divide equal expand_dims floor_divide floor_mod greater greater_equal
left_shift less less_equal logical_and logical_or logical_xor maximum minimum multiply nn.bias_add nn.prelu not_equal power repeat right_shift
subtract tile where"""
INJECTIVE = """concatenate dyn.broadcast_to dyn.reshape dyn.strided_slice dyn.tile dyn.pad einsum gather gather_nd ndarray_size nn.batch_flatten
image.resize1d image.resize2d image.resize3d nn.batch_to_space_nd nn.depth_to_space nn.pad nn.space_to_batch_nd nn.space_to_depth reshape reshape_like reverse split squeeze stack strided_slice take transpose"""
REDUCE = "all any argmax argmin collapse_sum_like max mean min prod sum"
TAIL = """dyn.one_hot nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.batch_matmul nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose
nn.conv3d nn.conv3d_transpose nn.dense nn.fast_softmax nn.global_avg_pool2d nn.global_max_pool2d nn.l2_normalize nn.log_softmax nn.matmul
nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.softmax one_hot"""
OPAQUE = """annotation.checkpoint annotation.compiler_begin annotation.compiler_end annotation.stop_fusion arange cumsum debug dyn.topk nn.dropout nn.lrn
scatter_elements scatter_nd shape_of topk"""
RELAY = {0: ELEMWISE, 1: BROADCAST, 2: INJECTIVE, 3: REDUCE, 4: TAIL, 8: OPAQUE}
"""Operators that Relay has, by their kind in Relay."""


def test_operators_of_relay() -> None:
    wanted = {name: kind for kind, names in RELAY.items() for name in names.split()}
    found = {op.name: op.pattern for op in list_ops() if op.name in wanted}
    assert found == wanted


def test_operators_that_relay_does_not_have() -> None:
    """Their kind follows from the traits: elementwise with one operand 0, with several 1; moving elements 2; stateful ones are opaque."""
    known = {name for names in RELAY.values() for name in names.split()}
    for op in list_ops():
        assert op.pattern in RELAY
        if op.name in known:
            continue
        if op.elementwise:
            assert op.pattern in (0, 1), op.name
        elif op.movement:
            assert op.pattern == 2, op.name
        if op.stateful:
            assert op.pattern == 8, op.name
