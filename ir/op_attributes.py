"""Attributes that users register for operators and that passes read, such as FTVMLegalize."""

from enum import IntEnum
from typing import Any as AnyValue
from typing import Final

_BY_LEVEL: Final = {
    1: """acos acosh add asin asinh atan atanh concatenate cos cosh divide erf exp expand_dims fast_erf fast_exp fast_tanh
    floor_mod log log2 multiply nn.batch_norm nn.bias_add nn.dense nn.dropout nn.fast_softmax nn.group_norm nn.instance_norm
    nn.layer_norm nn.log_softmax nn.matmul nn.relu nn.softmax rsqrt sigmoid sin sinh sqrt subtract tan tanh""",
    2: """dyn.pad nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.batch_flatten nn.conv1d nn.conv1d_transpose nn.conv2d
    nn.conv2d_transpose nn.conv3d nn.conv3d_transpose nn.global_avg_pool2d nn.global_max_pool2d nn.l2_normalize nn.lrn
    nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.pad""",
    3: """abs arange cast cast_like ceil clip copy cumsum dyn.full dyn.reshape dyn.tile floor full full_like gather gather_nd
    isfinite isinf isnan negative nn.leaky_relu nn.prelu ones repeat reshape reshape_like reverse round scatter_elements
    scatter_nd sign split squeeze stack take tile transpose trilu trunc zeros""",
    4: """all any argmax argmin bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_to collapse_sum_to dyn.broadcast_to
    dyn.strided_slice equal greater greater_equal left_shift less less_equal logical_and logical_not logical_or logical_xor
    max maximum mean min minimum not_equal ones_like power prod right_shift strided_slice sum where zeros_like""",
    5: "layout_transform nn.batch_to_space_nd nn.depth_to_space nn.space_to_batch_nd nn.space_to_depth",
    6: "dyn.topk topk",
    11: "einsum",
}
_LEVELS: Final = {name: level for level, names in _BY_LEVEL.items() for name in names.split()}
"""Relay's level of support by operator, as in TVM v0.18."""


class OpPattern(IntEnum):
    """Operator kinds, from those that fuse with most others to those that fuse with none (Relay's OpPattern)."""

    ELEMWISE = 0
    """Each element of the result depends on the elements at its position."""
    BROADCAST = 1
    """Elementwise, with operands repeated along axes."""
    INJECTIVE = 2
    """Each element of the result depends on known elements of the operands."""
    COMM_REDUCE = 3
    """Combines elements along axes, in any order."""
    OUT_ELEMWISE_FUSABLE = 4
    """Accepts elementwise operators on its output: products and convolutions."""
    TUPLE = 7
    """A tuple of results."""
    OPAQUE = 8
    """Fuses with nothing."""


class Registered:
    """An operator's attributes by name. Those of a higher level replace those of a lower one."""

    __slots__ = ()

    name: str
    pattern: int
    stateful: bool
    non_computational: bool
    registered: dict[str, tuple[int, AnyValue]]
    """Values by name, with the levels that they were registered with."""

    @property
    def support_level(self) -> int:
        """Relay's level of support, by which TVM groups its operators: 1 for basic ones, 11 for quantized ones, 10 by default."""
        return _LEVELS.get(self.name, 11 if self.name.startswith("qnn.") else 10)

    def get_attr(self, attr_name: str) -> AnyValue:
        """The attribute, None if there is none. `TOpPattern`, `TOpIsStateful` and `TNonComputational` are part of the
        declaration, unless others are registered."""
        found = self.registered.get(attr_name)
        if found is not None:
            return found[1]
        declared = {"TOpPattern": self.pattern, "TOpIsStateful": self.stateful, "TNonComputational": self.non_computational or None}
        return declared.get(attr_name)

    def has_attr(self, attr_name: str) -> bool:
        """Whether the attribute exists."""
        return self.get_attr(attr_name) is not None

    def set_attr(self, attr_name: str, value: AnyValue, plevel: int = 10) -> None:
        """Registers an attribute, unless it exists with a higher level. Raises ValueError if it exists with the same level."""
        level = self.registered.get(attr_name, (-1, None))[0]
        if level == plevel:
            raise ValueError(f"{self.name} already has the attribute {attr_name} with level {plevel}; reset it, or register a higher level")
        if plevel > level:
            self.registered[attr_name] = (plevel, value)

    def reset_attr(self, attr_name: str) -> None:
        """Removes an attribute if it was registered."""
        self.registered.pop(attr_name, None)
