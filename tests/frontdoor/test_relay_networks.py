"""The networks of `relay.testing`: sizes, texts, and unchanged values."""

from collections.abc import Callable

import numpy as np
import pytest

from passat import relay
from passat.ir import load_json, save_json
from passat.ir.equality import assert_structural_equal
from passat.ir.tensor import Array
from passat.ir.traverse import post_order
from passat.ir.types import FuncType, TensorType
from passat.relay import testing
from passat.relay.testing import create_workload

NETWORKS: list[tuple[Callable[[], testing.init.Workload], tuple[int, ...], int]] = [
    (lambda: testing.mlp.get_workload(1), (1, 10), 109_386),
    (lambda: testing.resnet.get_workload(num_classes=10, image_shape=(3, 64, 64)), (1, 10), 11_192_022),
    (testing.mobilenet.get_workload, (1, 1000), 4_253_864),
    (lambda: testing.dqn.get_workload(2), (2, 18), 1_693_362),
    (lambda: testing.dcgan.get_workload(1, ngf=8), (1, 3, 64, 64), 146_016),
    (lambda: testing.lstm.get_workload(4, 4), (1, 4), 640),
    (testing.inception_v3.get_workload, (1, 1000), 23_869_000),
    (testing.squeezenet.get_workload, (1, 1000), 1_248_424),
    (lambda: testing.squeezenet.get_workload(version="1.1"), (1, 1000), 1_235_496),
    (lambda: testing.densenet.get_workload(batch_size=1, image_shape=(3, 64, 64)), (1, 1000), 8_062_504),
    (testing.synthetic.get_workload, (1, 128), 110_592),
]
"""Networks, the shape of the result, and the number of parameters."""


@pytest.mark.parametrize(("network", "shape", "size"), NETWORKS)
def test_size_text_and_json(network: Callable[[], testing.init.Workload], shape: tuple[int, ...], size: int) -> None:
    mod, params = network()
    type_ = mod["main"].checked_type
    assert isinstance(type_, FuncType)
    assert type_.ret_type == TensorType(shape)
    assert sum(int(np.prod(array.shape)) for array in params.values()) == size
    assert {"data", *params} == {param.name_hint for param in mod["main"].params}
    assert relay.analysis.well_formed(mod)
    assert_structural_equal(relay.parse(mod.astext()), mod)
    assert_structural_equal(load_json(save_json(mod)), mod)


@pytest.mark.parametrize("network", [NETWORKS[0][0], NETWORKS[5][0], NETWORKS[-1][0]])
def test_passes_keep_the_result(network: Callable[[], testing.init.Workload]) -> None:
    mod, params = network()
    data = np.linspace(-1, 1, 864, dtype=np.float32)
    shape = mod["main"].params[0].type_annotation
    assert isinstance(shape, TensorType)
    data = np.resize(data, shape.concrete_shape)
    expected = relay.create_executor(mod=mod).evaluate()(data, **params).numpy()
    assert np.abs(expected).max() > 0
    passes = [relay.transform.ToANormalForm(), relay.transform.SimplifyExpr(), relay.transform.FoldConstant(), relay.transform.FuseOps()]
    for transform in passes:
        found = relay.create_executor(mod=transform(mod)).evaluate()(data, **params).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_parameters_are_filled_by_the_callers_function() -> None:
    x, y = relay.var("data", shape=(2,)), relay.var("y_weight", shape=(2, 2))

    def ones(name: str, array: Array) -> None:
        array[...] = len(name)

    assert create_workload(relay.nn.dense(relay.expand_dims(x, 0), y), ones)[1]["y_weight"].numpy().tolist() == [[8, 8], [8, 8]]
    first, second, third = (create_workload(relay.nn.dense(relay.expand_dims(x, 0), y), seed=seed)[1]["y_weight"] for seed in (0, 0, 1))
    assert first == second != third
    with pytest.raises(ValueError, match="the type of the parameter %z is _; declare its shape"):
        create_workload(x + relay.var("z"))


def test_weights_are_those_of_tvm() -> None:
    """TVM fills them from NumPy's global generator, which it seeds by 0; here it is left as it is."""
    np.random.seed(5)
    expected = np.random.random()
    np.random.seed(5)
    _, params = testing.mlp.get_workload(1, image_shape=(1, 2, 2))
    assert np.random.random() == expected
    bound = np.sqrt(3 / ((128 + 4) / 2))
    weight = np.random.RandomState(0).uniform(-bound, bound, (128, 4)).astype("float32")
    np.testing.assert_array_equal(params["fc1_weight"].numpy(), weight)
    depthwise = np.zeros((4, 1, 2, 2), "float32")
    testing.init.Xavier()("depthwise_weight", depthwise)
    assert 0.5 < np.abs(depthwise).max() < np.sqrt(3 / 4)


def test_names_that_initializers_do_not_know() -> None:
    x = relay.var("data", shape=(2, 2))
    with pytest.raises(ValueError, match="the parameter %w has no initial value: its name ends with none of weight, bias, beta"):
        create_workload(relay.nn.dense(x, relay.var("w", shape=(2, 2))))
    with pytest.raises(ValueError, match=r"the weight %weight has the shape \(2,\), but Xavier's rule needs two dimensions and more"):
        create_workload(x + relay.var("weight", shape=(2,)))
    _, params = create_workload(relay.nn.dense(x, relay.var("weight", shape=(2, 2))), testing.init.Constant())
    assert params["weight"].numpy().tolist() == [[0.25, 0.25], [0.25, 0.25]]


def test_the_stride_of_a_bottleneck_is_that_of_its_first_convolution() -> None:
    mod, _ = testing.resnet.get_workload(num_layers=50, image_shape=(3, 64, 64))
    calls = [node for node in post_order(mod["main"]) if isinstance(node, relay.Call) and node.op is relay.op.get("nn.conv2d")]
    assert [call.args[1].name_hint for call in calls if isinstance(call.args[1], relay.Var) and call.attrs.strides == (2, 2)] == [
        "conv0_weight",
        *(f"stage{stage}_unit1_{name}_weight" for stage in (2, 3, 4) for name in ("conv1", "sc")),
    ]


def test_unknown_networks() -> None:
    with pytest.raises(ValueError, match="a ResNet has one of 18, 34, 50, 101, 152 layers, not 20"):
        testing.resnet.get_workload(num_layers=20)
    with pytest.raises(ValueError, match=r"SqueezeNet has the versions 1.0 and 1.1, not '2'"):
        testing.squeezenet.get_workload(version="2")
    with pytest.raises(ValueError, match="a DenseNet has one of 121, 161, 169, 201 layers, not 5"):
        testing.densenet.get_workload(5)
    with pytest.raises(ValueError, match="layout='NHWC' is not supported"):
        testing.resnet.get_workload(layout="NHWC")
    with pytest.raises(ValueError, match="DCGAN makes images of 64 by 64 pixels"):
        testing.dcgan.get_workload(1, (3, 32, 32))
