"""`libinfo`, and the functions of `tvm.testing` that pass values through."""

import numpy as np
import pytest

import passat
from passat import relay, support, testing
from passat.target import Target, create


def test_devices_that_do_not_exist() -> None:
    for name in ("cuda", "gpu", "cl", "vpi", "ext_dev", "metal", "rocm", "vulkan"):
        assert not passat.device(name, 1).exist
    assert passat.device("gpu", 7) == passat.nd.cuda(7) == passat.nd.context("cuda", 7)
    assert passat.device(Target("llvm")) == passat.cpu()
    with pytest.raises(ValueError, match=r"unknown kind of device 'cudda'; known: .*; did you mean cuda"):
        passat.device("cudda")
    with pytest.raises(ValueError, match="unsupported device cuda"):
        passat.nd.array([1], passat.device("cuda"))


def test_values_as_functions_get_them() -> None:
    assert testing.echo(np.int64((1 << 63) - 1)) == (1 << 63) - 1
    assert testing.device_test(passat.nd.opencl(10), 4, 10) == passat.nd.opencl(10)
    with pytest.raises(ValueError, match=r"opencl\(10\) has the kind 4 and the number 9"):
        testing.device_test(passat.nd.opencl(10), 4, 9)
    assert relay.backend.interpreter.Value.from_scalar(True).numpy().tolist() is True


def test_what_is_there() -> None:
    found = support.libinfo()
    assert found["USE_CUDA"] == "OFF"
    assert found["PASSAT_VERSION"] == passat.__version__
    module = support.FrontendTestModule()
    module["twice"] = lambda value: 2 * value
    assert module["twice"](4) == 8
    assert create("llvm -mcpu=native") == Target("llvm -mcpu=native")
