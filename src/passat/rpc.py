"""`tvm.rpc`: sessions with a server in this process, or on a worker of a dask cluster.

All who reach a dask scheduler can run code on its workers: connections without TLS are made within this computer only.
"""

import ipaddress
import logging
import socket
from typing import Any as AnyValue
from typing import Final
from urllib.parse import urlsplit

from passat.cluster import ENCRYPTED, WAIT, ClusterError, client_of, dask_distributed, open_session, resources, sessions
from passat.runtime.remote import LocalSession, RemoteError, Session

__all__ = ["LocalSession", "RPCError", "RPCSession", "Server", "TrackerSession", "connect", "connect_tracker"]

RPCSession = Session
RPCError = RemoteError
_SECONDS: Final = 30.0


def connect(
    url: str, port: int | None = None, key: str = "", session_timeout: float = 0, security: AnyValue = None, wait: float = WAIT
) -> Session:
    """A session on a worker of the dask cluster whose scheduler is at a host and port, or at an address such as `tls://10.0.0.1:8786`.

    With a `key`, it has a worker with this resource to itself; otherwise it shares one. `wait` is how long it waits for a worker and
    `session_timeout` the limit of a request, in seconds; `security` is a `distributed.Security` with certificates, by default those of
    dask's configuration. Raises ClusterError.
    """
    client = client_of(address_of(url, port, security), security)
    try:
        return open_session(client, key, session_timeout, client.close, wait)
    except ClusterError:
        client.close()
        raise


class TrackerSession:
    """A cluster of workers with resources, which sessions request by name."""

    def __init__(self, client: AnyValue) -> None:
        self._client = client

    def request(self, key: str, *, session_timeout: float = 0, wait: float = WAIT) -> Session:
        """A session that has a worker with the resource `key` to itself until it ends; a worker with `key=2` serves two. Waits up to `wait`
        seconds for one, behind earlier requests. Raises ClusterError."""
        return open_session(self._client, key, session_timeout, wait=wait)

    def summary(self) -> dict[str, AnyValue]:
        """`server_info` has an entry `server:KEY` with its host and port for each resource of each worker. `queue_info` has for each
        resource how many sessions could start (`free`) and how many requests wait (`pending`)."""
        sizes = resources(self._client)
        servers = [(key, urlsplit(address)) for key, workers in sizes.items() for address in workers]
        queues = {}
        for key, workers in sizes.items():
            taken = sessions(self._client, key)
            busy = sum(min(size, len(taken.get(worker, ()))) for worker, size in workers.items())
            requests = {request for worker in workers for request in taken.get(worker, ())}
            queues[key] = {"free": sum(workers.values()) - busy, "pending": max(len(requests) - busy, 0)}
        return {
            "server_info": [{"key": f"server:{key}", "addr": (parts.hostname, parts.port)} for key, parts in servers],
            "queue_info": queues,
        }

    def close(self) -> None:
        """Ends the connection, and the sessions with it."""
        self._client.close()

    def __enter__(self) -> "TrackerSession":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def connect_tracker(url: str, port: int | None = None, security: AnyValue = None) -> TrackerSession:
    """The cluster of a scheduler, as `connect` finds it. Raises ClusterError."""
    return TrackerSession(client_of(address_of(url, port, security), security))


class Server:
    """A dask scheduler and a worker in a process of its own, with the resource `key`, on this computer.

    The scheduler takes the first free port from `port` to before `port_end`. The worker imports the module `preload`, for global functions;
    dask imports a file FILE.py twice. Hosts other than those of this computer need `security`, a `distributed.Security` with certificates.
    Raises ClusterError.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9091,
        port_end: int = 9199,
        key: str = "",
        preload: str | None = None,
        security: AnyValue = None,
    ) -> None:
        distributed = dask_distributed("a server")
        self.host, self.key = host, key
        self.port = _free_port(host, port, port_end)
        wanted = address_of(host, self.port, security)
        options: dict[str, AnyValue] = {"resources": {key: 1}} if key else {}
        if preload is not None:
            options["preload"] = [preload]
        try:
            self._cluster = distributed.LocalCluster(
                n_workers=1,
                threads_per_worker=1,
                host=host,
                protocol=f"{urlsplit(wanted).scheme}://",
                scheduler_port=self.port,
                dashboard_address=f"{host}:0",
                worker_dashboard_address=f"{host}:0",
                security=security,
                silence_logs=logging.CRITICAL,
                **options,
            )
        except Exception as error:  # any error of certificates or of importing `preload` in the worker
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            raise ClusterError(f"the server cannot start: {type(cause).__name__}: {' '.join(str(cause).split())}") from error
        self.address: str = self._cluster.scheduler_address

    def terminate(self) -> None:
        """Ends the scheduler and the worker."""
        self._cluster.close(timeout=_SECONDS)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *raised: object) -> None:
        self.terminate()


def address_of(url: str, port: int | None, security: AnyValue) -> str:
    """The address of a scheduler. Raises ClusterError for one on another computer without TLS."""
    scheme = "tcp" if security is None else "tls"
    address = url if port is None else f"{url}:{port}"
    address = address if "://" in address else f"{scheme}://{address}"
    parts = urlsplit(address)
    if parts.scheme not in ENCRYPTED and not _is_loopback(parts.hostname or ""):
        raise ClusterError(
            f"{address} is not encrypted, and all who reach a dask scheduler can run code on its workers: "
            "start it with certificates, and use an address tls://HOST:PORT, with security=distributed.Security(...)"
        )
    return address


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _free_port(host: str, port: int, port_end: int) -> int:
    """The first port that nothing listens on. Raises ClusterError if there is none."""
    for each in range(port, max(port_end, port + 1)):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, each))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ClusterError(f"no port of {host} from {port} to before {port_end} is free")
