"""AlterOpLayout: layouts that the target prefers, and SimplifyExprPostAlterOp."""

import pickle
from collections.abc import Iterator, Sequence

import pytest

from passat import relay
from passat.ir.attrs import Attrs
from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.types import Type
from passat.passmgr import PassContext, Sequential, get_entry
from passat.rules.cost import Roofline
from passat.rules.library import ChannelsLast
from passat.rules.passes.layouts import alter_op_layout, forget_alter_op_layout, register_alter_op_layout, simplify_expr_post_alter_op
from passat.rules.pattern import RuleError
from tests.rules.building import func, numbers, ops, var
from tests.rules.passes.golden import becomes, stays
from tests.rules.running import assert_equal_in_value, operators

IMAGE, WEIGHT = "%x: (1, 4, 6, 6)", "%w: (4, 4, 3, 3)"
NETWORK = func(
    ops.nn.max_pool2d(
        ops.nn.relu(ops.nn.conv2d(var("x", (1, 4, 6, 6)), numbers((4, 4, 3, 3)), padding=(1, 1))), pool_size=(2, 2), strides=(2, 2)
    )
)


@pytest.fixture
def preferred() -> Iterator[None]:
    """A target that prefers channels last for convolutions."""
    register_alter_op_layout("nn.conv2d", ["NHWC", "default"])
    yield
    forget_alter_op_layout("nn.conv2d")


def altered(function: Function, **config: object) -> tuple[Function, list[str]]:
    """A function after the pass, and the remarks of the pass."""
    with PassContext(opt_level=3, config={key.replace("__", "."): value for key, value in config.items()}) as context:
        after = Sequential([alter_op_layout()])(IRModule.from_expr(function))["main"]
    assert isinstance(after, Function)
    return after, list(context.statistics.remarks.get("AlterOpLayout", {}))


def test_without_preferences_of_the_target_nothing_changes() -> None:
    after, said = altered(NETWORK)
    assert after is NETWORK
    assert said == ["neither the pass nor the target requests layouts: nothing was changed"]


@pytest.mark.usefixtures("preferred")
def test_layouts_that_the_target_prefers() -> None:
    becomes(
        Sequential([alter_op_layout()]),
        f"{IMAGE}, {WEIGHT}",
        "nn.relu(nn.conv2d(%x, %w))",
        """
  %0 = transpose(%x, axes=[0, 2, 3, 1]);
  %1 = transpose(%w, axes=[2, 3, 1, 0]);
  %2 = nn.conv2d(%0, %1, data_layout="NHWC", kernel_layout="HWIO");
  transpose(nn.relu(%2), axes=[0, 3, 1, 2])
""",
    )
    after, _ = altered(NETWORK)
    assert operators(after) == ["transpose", "nn.conv2d", "nn.relu", "nn.max_pool2d", "transpose"]
    assert_equal_in_value(NETWORK, after, exact=False)


class LastIsFaster(Roofline):
    """A machine on which convolutions with channels last take no time."""

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """The seconds of one call."""
        return 1e-9 if attrs.get("data_layout") == "NHWC" else super().call(op, types, result, attrs) + 1e-5 * (op.name == "nn.conv2d")


def test_alternatives_of_a_rule_set_are_chosen_by_cost() -> None:
    register_alter_op_layout("nn.conv2d", ChannelsLast)
    try:
        same, _ = altered(NETWORK)
        assert same is NETWORK  # on the machine of the default model both layouts cost the same, and transposes cost extra
        after, _ = altered(NETWORK, rules__cost=LastIsFaster())
        assert operators(after) == ["transpose", "nn.conv2d", "nn.relu", "nn.max_pool2d", "transpose"]
        assert_equal_in_value(NETWORK, after, exact=False)
    finally:
        forget_alter_op_layout("nn.conv2d")


@pytest.mark.usefixtures("preferred")
def test_invalid_registrations() -> None:
    with pytest.raises(ValueError, match=r"nn\.conv2d is already registered"):
        register_alter_op_layout("nn.conv2d", ["NCHW"])
    with pytest.raises(RuleError, match=r"nn\.dense has no layouts"):
        register_alter_op_layout("nn.dense", ["NC"])
    with pytest.raises(KeyError):
        register_alter_op_layout("nn.conv", ["NC"])
    with pytest.raises(KeyError):
        forget_alter_op_layout("nn.conv1d")


@pytest.mark.usefixtures("preferred")
def test_the_pass() -> None:
    made = get_entry("AlterOpLayout").make({})
    assert (made.info.name, made.info.opt_level) == ("AlterOpLayout", 3)
    assert made.info.required == ("InferType",)
    assert relay.transform.AlterOpLayout().info.name == "AlterOpLayout"
    other = pickle.loads(pickle.dumps(made))
    with PassContext(opt_level=3):
        assert operators(other(IRModule.from_expr(NETWORK))["main"]).count("transpose") == 2


def test_views_left_by_altered_layouts() -> None:
    simplify = simplify_expr_post_alter_op()
    assert (simplify.info.name, simplify.info.opt_level) == ("SimplifyExprPostAlterOp", 0)
    becomes(
        simplify,
        IMAGE,
        "transpose(transpose(nn.relu(add(%x, 0f)), axes=[0, 2, 3, 1]), axes=[0, 3, 1, 2])",
        "nn.relu(%x)",
    )
    stays(simplify, f"{IMAGE}, {WEIGHT}", "nn.relu(nn.conv2d(%x, %w))")
