"""`tvm.testing`: helpers for scripts and tests."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any as AnyValue
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt

from passat.runtime import Device, NDArray, PackedFunc, Target, cpu

__all__ = [
    "assert_allclose",
    "ctx_list",
    "device_enabled",
    "device_test",
    "echo",
    "enabled_targets",
    "main",
    "parameter",
    "parameters",
    "parametrize_rows",
    "parametrize_targets",
    "requires_llvm",
    "uses_gpu",
]

F = TypeVar("F", bound=Callable[..., AnyValue])


def assert_allclose(actual: npt.ArrayLike | NDArray, desired: npt.ArrayLike | NDArray, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raises AssertionError if shapes differ or elements differ by more than `atol + rtol * |desired|`."""
    found, wanted = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_equal(found.shape, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, verbose=True)


def enabled_targets() -> list[tuple[str, Device]]:
    """The available targets, each with its device.

    >>> enabled_targets()
    [('llvm', Device('cpu', 0))]
    """
    return [("llvm", cpu())]


def ctx_list() -> list[tuple[str, Device]]:
    """The former name of `enabled_targets`."""
    return enabled_targets()


def device_enabled(target: str) -> bool:
    """Whether programs can run on a target here."""
    return any(name == str(target) for name, _ in enabled_targets())


def _same_device(dev: Device, device_type: int, device_id: int) -> Device:
    if (dev.device_type, dev.device_id) != (device_type, device_id):
        raise ValueError(f"{dev} has the kind {device_type} and the number {device_id} for functions")
    return dev


echo = PackedFunc(lambda value: value, "testing.echo")
"""The value as functions get it.

>>> echo(np.int64(3)), echo([1, "a"])
(3, (1, 'a'))
"""
device_test = PackedFunc(_same_device, "testing.device_test")
"""A device, given with its kind and number as functions get them. Raises ValueError if they differ."""


def uses_gpu(function: F) -> F:
    """Marks a test that may use a GPU: returns the test itself."""
    return function


@overload
def requires_llvm(function: F, /) -> F: ...
@overload
def requires_llvm() -> Callable[[F], F]: ...
def requires_llvm(*tests: AnyValue) -> AnyValue:
    """Marks a test that compiles for the CPU: returns the test itself or, without one, a decorator."""
    return tests[0] if tests else uses_gpu


@overload
def parametrize_targets(function: F, /) -> F: ...
@overload
def parametrize_targets(*targets: str | Target) -> Callable[[F], F]: ...
def parametrize_targets(*targets: AnyValue) -> AnyValue:
    """Runs a test for each available target among those named, as parameters `target` and `dev`. Needs pytest."""
    import pytest

    if len(targets) == 1 and callable(targets[0]):
        return parametrize_targets()(targets[0])
    given = [(str(target), device) for target, device in enabled_targets() if not targets or target in map(str, targets)]
    return pytest.mark.parametrize(("target", "dev"), given)


def parameter(*values: AnyValue, ids: Iterable[str] | None = None) -> AnyValue:
    """A fixture that a test gets by the name of the variable that holds it; the test runs once for each value. Needs pytest."""
    import pytest

    @pytest.fixture(params=values, ids=None if ids is None else list(ids))
    def fixture(*_: AnyValue, request: pytest.FixtureRequest) -> AnyValue:  # a test class may be the first argument
        return request.param

    return fixture


def parameters(*rows: Sequence[AnyValue], ids: Iterable[str] | None = None) -> list[AnyValue]:
    """A fixture for each place in the rows; a test that uses several of them runs once for each row. Needs pytest.

    The hook `parametrize_rows` gives the fixtures their values: call it in `pytest_generate_tests` of a conftest.
    """
    import pytest

    named = None if ids is None else list(ids)

    def field(place: int) -> AnyValue:
        def fixture(*_: AnyValue, request: pytest.FixtureRequest) -> AnyValue:
            return request.param

        fixture.__dict__["rows"] = (rows, place, named)
        return pytest.fixture(fixture)

    return [field(place) for place in range(len(rows[0]))]


def parametrize_rows(metafunc: AnyValue) -> None:
    """Parametrizes a test by the rows of `parameters`; `metafunc` is pytest's."""
    groups: dict[int, list[tuple[str, AnyValue]]] = {}
    for name in metafunc.fixturenames:
        for definition in metafunc._arg2fixturedefs.get(name, ())[-1:]:
            found = getattr(definition.func, "rows", None)
            if found is not None:
                groups.setdefault(id(found[0]), []).append((name, found))
    for members in groups.values():
        rows, _, ids = members[0][1]
        values = [tuple(row[found[1]] for _, found in members) for row in rows]
        metafunc.parametrize([name for name, _ in members], values, indirect=True, ids=ids)


def main() -> None:
    """Runs the tests of the calling file as a program, and exits. Needs pytest."""
    import pytest

    path = Path(sys._getframe(1).f_globals["__file__"])
    sys.exit(pytest.main([str(path), *sys.argv[1:]]))
