"""`tvm.testing`: small helpers that scripts and tests share."""

import numpy as np
import numpy.typing as npt

from passat.runtime import Device, NDArray, cpu

__all__ = ["assert_allclose", "enabled_targets"]


def assert_allclose(actual: npt.ArrayLike | NDArray, desired: npt.ArrayLike | NDArray, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raises AssertionError where shapes differ or elements are further apart than `atol + rtol * |desired|`."""
    found, wanted = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_equal(found.shape, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, verbose=True)


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that programs can run on here, each with its device.

    >>> enabled_targets()
    [('llvm', Device(device_type='cpu', device_id=0))]
    """
    return [("llvm", cpu())]
