"""`tvm.testing`: small helpers that scripts and tests share."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any as AnyValue
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt

from passat.runtime import Device, NDArray, Target, cpu

__all__ = ["assert_allclose", "device_enabled", "enabled_targets", "main", "parametrize_targets", "requires_llvm", "uses_gpu"]

F = TypeVar("F", bound=Callable[..., AnyValue])


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


def device_enabled(target: str) -> bool:
    """Whether programs can run on a target here."""
    return any(name == str(target) for name, _ in enabled_targets())


def uses_gpu(function: F) -> F:
    """A test that may use a GPU, where there is one: the test itself."""
    return function


@overload
def requires_llvm(function: F, /) -> F: ...
@overload
def requires_llvm() -> Callable[[F], F]: ...
def requires_llvm(*tests: AnyValue) -> AnyValue:
    """A test that compiles for the CPU: the test itself, or, without one, what marks it."""
    return tests[0] if tests else uses_gpu


@overload
def parametrize_targets(function: F, /) -> F: ...
@overload
def parametrize_targets(*targets: str | Target) -> Callable[[F], F]: ...
def parametrize_targets(*targets: AnyValue) -> AnyValue:
    """Runs a test for each target that is enabled, of those that are named: its parameters `target` and `dev` say which. Needs pytest."""
    import pytest

    if len(targets) == 1 and callable(targets[0]):
        return parametrize_targets()(targets[0])
    given = [(str(target), device) for target, device in enabled_targets() if not targets or target in map(str, targets)]
    return pytest.mark.parametrize(("target", "dev"), given)


def main() -> None:
    """Runs the tests of the file that calls this as a program, and ends it. Needs pytest."""
    import pytest

    path = Path(sys._getframe(1).f_globals["__file__"])
    sys.exit(pytest.main([str(path), *sys.argv[1:]]))
