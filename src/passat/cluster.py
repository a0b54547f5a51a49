"""A dask cluster as an executor of jobs."""

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any as AnyValue
from typing import Final

from passat.ir.passat_error import PassatError

SECONDS: Final = 10.0
"""Timeout for the answer of a scheduler."""


class ClusterError(PassatError, RuntimeError):
    """A cluster that cannot be used: dask is not installed, or no scheduler answers at the address."""

    exit_code = 1


@contextlib.contextmanager
def connected(address: str) -> Iterator[AnyValue]:
    """The executor of the dask cluster whose scheduler has an address such as `tcp://10.0.0.1:8786`, or `tls://10.0.0.1:8786` with the
    certificates of dask's configuration (`distributed.comm.tls`). Raises ClusterError."""
    with client_of(address) as client:
        yield client.get_executor(pure=False)


def client_of(address: str, security: AnyValue = None) -> AnyValue:
    """A dask client, with the certificates of a `distributed.Security` or of dask's configuration. Raises ClusterError."""
    distributed = dask_distributed("a cluster")
    try:
        return distributed.Client(address, timeout=SECONDS, security=security, set_as_default=False)
    except (OSError, RuntimeError, TypeError, ValueError) as error:  # no connection, missing certificates, no address
        raise ClusterError(
            f"no dask scheduler can be reached at {address}: {' '.join(str(error).split()) or type(error).__name__}"
        ) from error


def dask_distributed(what: str) -> AnyValue:
    """The package, which `what` needs. Raises ClusterError."""
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ClusterError(f"{what} needs dask.distributed, which is not installed: pip install 'passat[cluster]' installs it") from None
