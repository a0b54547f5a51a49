"""A dask cluster as an executor of jobs."""

import contextlib
import importlib
import logging
from collections.abc import Iterator
from typing import Any as AnyValue
from typing import Final

from passat.ir.passat_error import PassatError

SECONDS: Final = 10.0
"""Timeout for the answer of a scheduler."""
ENCRYPTED: Final = ("tls", "wss")
"""Protocols of addresses that need certificates."""


class ClusterError(PassatError, RuntimeError):
    """A cluster that cannot be used: dask is not installed, no scheduler answers at the address, or certificates are missing or wrong."""

    exit_code = 1


@contextlib.contextmanager
def connected(address: str) -> Iterator[AnyValue]:
    """The executor of the dask cluster whose scheduler has an address such as `tcp://10.0.0.1:8786`, or `tls://10.0.0.1:8786` with the
    certificates of dask's configuration (`distributed.comm.tls`). Raises ClusterError.

    Silences the log of dask's client, which writes tracebacks of errors that are reported as sentences.
    """
    dask_distributed("a cluster")  # sets the levels of its logs
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    with client_of(address) as client:
        yield client.get_executor(pure=False)


def client_of(address: str, security: AnyValue = None) -> AnyValue:
    """A dask client, with the certificates of a `distributed.Security` or of dask's configuration. Raises ClusterError."""
    distributed = dask_distributed("a cluster")
    security = distributed.Security() if security is None else security
    if not isinstance(security, distributed.Security):
        raise ClusterError(f"security must be a distributed.Security, not {security!r:.80}")
    try:
        certified = security.get_connection_args("client").get("ssl_context") is not None
    except (OSError, ValueError) as error:  # also ssl.SSLError: unreadable files, or a key that belongs to another certificate
        raise ClusterError(f"the certificates {_files(security)} cannot be used: {text_of(error)}") from error
    encrypted = address.partition("://")[0] in ENCRYPTED
    if encrypted and not certified:  # dask's error would leave a client behind that cannot be closed
        raise ClusterError(
            f"{address} needs certificates: set distributed.comm.tls in dask's configuration, such as ~/.config/dask/tls.yaml, "
            "or pass security=distributed.Security(...)"
        )
    try:
        return distributed.Client(address, timeout=SECONDS, security=security, set_as_default=False)
    except (OSError, RuntimeError, TypeError, ValueError) as error:  # no connection, rejected certificates, no address
        raise ClusterError(f"no dask scheduler can be reached at {address}: {_reason(error, encrypted=encrypted)}") from error


def _files(security: AnyValue) -> str:
    files = (security.tls_ca_file, security.tls_client_cert, security.tls_client_key)
    return ", ".join(str(file) for file in files if file and "\n" not in str(file))  # dask takes contents of files, too


def _reason(error: BaseException, *, encrypted: bool) -> str:
    """Why a connection failed. TLS 1.3 does not tell a client that its certificate was rejected: the connection ends."""
    text = text_of(error)
    if not isinstance(error, (OSError, ValueError) if encrypted else OSError) or "timed out" in text.lower():
        return text
    if encrypted and any(each in text for each in ("TLS certificate does not match", "CERTIFICATE_VERIFY_FAILED")):
        return "its certificate was not issued by the authority of tls_ca_file"
    if encrypted:
        return f"it ended the connection, as a scheduler does that rejects this certificate, or has none of its own ({text})"
    return f"it ended the connection, as a scheduler with certificates does; its address begins with tls:// ({text})"


def text_of(error: BaseException) -> str:
    """What an error says, in one line; the name of its class if it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


def dask_distributed(what: str) -> AnyValue:
    """The package, which `what` needs. Raises ClusterError."""
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ClusterError(f"{what} needs dask.distributed, which is not installed: pip install 'passat[cluster]' installs it") from None
