"""A dask cluster as an executor of jobs, and sessions with a server on one of its workers: an actor, to which only bytes are sent.

A resource of a worker is a lease: a worker with `small=1` has one session with the key `small` at a time. Dask's resources limit running
tasks, and an actor runs only while it starts. So each worker has a queue of its servers with a key, and the first ones are granted. Dask
releases the actors of a client that has ended, and the next ones move up.
"""

import contextlib
import importlib
import itertools
import logging
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any as AnyValue
from typing import Final

from passat.ir.long_words import text_of
from passat.ir.passat_error import PassatError
from passat.runtime.remote import RemoteError, Server, Session

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


def dask_distributed(what: str) -> AnyValue:
    """The package, which `what` needs. Raises ClusterError."""
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise ClusterError(f"{what} needs dask.distributed, which is not installed: pip install 'passat[cluster]' installs it") from None


WAIT: Final = 30.0
"""The default for how long a request waits for a worker, in seconds."""
_LOOK: Final = 1.0
"""Seconds between two looks at whether the worker of a pending request still exists."""
_TURN: Final = 0.1
"""Seconds between two looks at whether a worker is free; a tenth of it while a server starts."""
_NAME: Final = "passat-session"
_QUEUE: Final[list["weakref.ref[WorkerServer]"]] = []
"""The servers of this process that have a key, in order of arrival."""
_LOCK: Final = threading.RLock()


class WorkerServer(Server):
    """A server in a dask worker. Its folder is in the worker's, which dask removes even if the worker was killed."""

    def __init__(self, key: str = "") -> None:
        self._key = key
        self._dask_worker = dask_distributed("a session").get_worker()
        self._name = self._dask_worker.get_current_task()
        self._answering = False
        super().__init__(self._dask_worker.local_directory)
        if key:
            with _LOCK:
                _QUEUE.append(weakref.ref(self))

    @property
    def granted(self) -> bool:
        """True if a session may use the server: fewer than the worker has of the resource came before it."""
        if not self._key:
            return True
        with _LOCK:
            servers = [server for server in (each() for each in _QUEUE) if server is not None and server._used]
        alike = [server for server in servers if (server._key, server._dask_worker) == (self._key, self._dask_worker)]
        return self in alike[: int(self._dask_worker.state.total_resources.get(self._key, 0))]

    @property
    def _used(self) -> bool:
        """False once dask has released the server, and no request is running. It may be garbage that has not been collected."""
        return self._answering or self._name in self._dask_worker.state.actors

    def answer(self, request: bytes) -> bytes:
        """Carries out a request, as Server does."""
        self._answering = True
        try:
            return super().answer(request)
        finally:
            self._answering = False

    def close(self) -> None:
        """Ends the server, so that the next one in the queue moves up."""
        super().close()
        with _LOCK:
            _QUEUE[:] = [each for each in _QUEUE if each() is not None and each() is not self]

    async def leave(self) -> None:
        """Ends a server that was not granted. A coroutine does not wait for requests of other sessions, which a method would."""
        self.close()


class _Candidate:
    """A server that starts on a worker, or on any worker, and may have to wait there."""

    def __init__(self, client: AnyValue, name: str, key: str, worker: str | None) -> None:
        self._client = client
        self._name = name
        self._granted = False
        self.worker = worker
        self.actor: AnyValue = None
        self.future: AnyValue = client.submit(WorkerServer, key, actor=True, key=name, workers=worker and [worker])

    def granted(self) -> bool:
        """True once the server has started, and its worker is free. Raises ClusterError if it cannot start."""
        if self.future.status == "error":
            raise ClusterError(f"a worker of the dask cluster cannot start a session: {text_of(self.future.exception())}")
        if self.future.status != "finished":
            return False
        try:
            if self.actor is None:
                ((self.worker, *_),) = [workers for workers in self._client.who_has(self.future).values() if workers]
                with self._client.as_current():  # an Actor looks for the current client, which may be another
                    self.actor = dask_distributed("a session").Actor(WorkerServer, self.worker, self._name)
            self._granted = bool(self.actor.granted)
        except (OSError, RuntimeError, KeyError, ValueError):  # its worker has just been lost
            self._granted = False
        return self._granted

    def end(self, *, ask: bool = True) -> None:
        """Ends the server. It is asked to, since dask may keep it for a while, unless it does not answer."""
        actor, self.actor = self.actor, None
        if actor is not None and ask:
            with contextlib.suppress(Exception):  # dask has many for a lost connection
                (actor.close() if self._granted else actor.leave()).result(timeout=_LOOK)
        with contextlib.suppress(Exception):  # the scheduler may be lost
            self.future.cancel()  # an Actor has references to its future that only the garbage collector finds


class ActorChannel:
    """A server on a worker with the resource `key`, which the session has to itself, or on any worker without one. Requests fail if its
    worker or the scheduler is lost.

    `timeout` is that of a request in seconds, zero is none; `wait` limits the wait for a worker. Raises ClusterError if there is none.
    """

    def __init__(self, client: AnyValue, key: str = "", timeout: float = 0, wait: float = WAIT) -> None:
        self._client = client
        self._timeout = timeout
        self._server = _granted(client, key, wait)
        self._lost: str | None = None

    def send(self, request: bytes) -> bytes:
        """The server's answer to a request. Raises RemoteError if there is none: the worker is lost, or the time is over."""
        if self._lost is not None:
            raise RemoteError(self._lost)
        begin, worker = time.monotonic(), self._server.worker
        try:
            pending = self._server.actor.answer(request)
            while True:
                try:
                    return bytes(pending.result(timeout=_LOOK))
                except TimeoutError:
                    if pending.done():  # the error of a connection, not of waiting
                        raise
                    if self._client.status != "running" or worker not in self._client.nthreads():
                        break
                    if 0 < self._timeout < time.monotonic() - begin:
                        raise self._ended(f"the worker {worker} has not answered within {self._timeout:g} s") from None
            reason = ""
        except RemoteError:
            raise
        except Exception as error:  # dask has many for a lost connection
            reason = f": {text_of(error)}"
        raise self._ended(f"the worker {worker} of the session is lost, with its arrays and files{reason}")

    def _ended(self, message: str) -> RemoteError:
        """The error of a session that has ended. Dask must not start its server again elsewhere."""
        self._lost = f"{message}; open another session"
        self.close()
        return RemoteError(self._lost)

    def close(self) -> None:
        """Ends the server."""
        self._server.end(ask=self._lost is None)


def _granted(client: AnyValue, key: str, wait: float) -> _Candidate:
    """A server that may be used at once. Waits on all workers with the resource if none of them is free. Raises ClusterError."""
    name, numbers, end = f"{_NAME}-{key}-{uuid.uuid4().hex}", itertools.count(), time.monotonic() + wait
    candidates: dict[str, _Candidate] = {}
    started = -_LOOK

    def start(worker: str | None) -> None:
        candidates[worker or ""] = _Candidate(client, f"{name}-{next(numbers)}", key, worker)

    if not key:
        start(None)
    chosen: _Candidate | None = None
    try:
        while True:
            if key and (not _starting(candidates) or time.monotonic() - started > _LOOK):
                started = time.monotonic()
                sizes = resources(client).get(key, {})
                for lost in candidates.keys() - sizes.keys():
                    candidates.pop(lost).end(ask=False)
                used = sessions(client, key)
                new = [worker for worker in sizes if worker not in candidates]
                free = [worker for worker in new if len(used.get(worker, ())) < sizes[worker]]
                for worker in free[:1] or new:
                    start(worker)
            for candidate in candidates.values():
                if candidate.granted():
                    chosen = candidate
                    return candidate
            if time.monotonic() > end:
                raise ClusterError(_no_worker(client, key, wait))
            time.sleep(_TURN / 10 if _starting(candidates) else _TURN)
    finally:
        for candidate in candidates.values():
            if candidate is not chosen:
                candidate.end()


def _starting(candidates: Mapping[str, _Candidate]) -> bool:
    return any(candidate.future.status == "pending" for candidate in candidates.values())


def _no_worker(client: AnyValue, key: str, wait: float) -> str:
    sizes = resources(client)
    if not client.nthreads():
        return f"the dask cluster has no worker, and none has joined within {wait:g} s"
    if not key:
        return f"no worker of the dask cluster has started a session within {wait:g} s"
    if key not in sizes:
        known = f"workers have {', '.join(sorted(sizes))}" if sizes else "dask worker --resources KEY=1 gives it to one"
        return f"no worker of the dask cluster has the resource {key!r}, and none has joined within {wait:g} s; {known}"
    return (
        f"each worker of the dask cluster with the resource {key!r} has other sessions, and none has become free within {wait:g} s; "
        "end a session, or wait longer (wait=)"
    )


def resources(client: AnyValue) -> dict[str, dict[str, int]]:
    """For each resource of which a worker has one or more, the workers with their numbers."""
    found: dict[str, dict[str, int]] = {}
    for address, worker in client.scheduler_info(n_workers=-1)["workers"].items():
        for resource, quantity in worker["resources"].items():
            if quantity >= 1:
                found.setdefault(resource, {})[address] = int(quantity)
    return found


def sessions(client: AnyValue, key: str) -> Mapping[str, list[str]]:
    """For each worker, the requests with a key that it serves, or that wait there."""
    found: dict[str, list[str]] = {}
    for worker, names in client.has_what().items():
        for name in names:
            start, _, rest = str(name).rpartition("-")[0].rpartition("-")
            if start == f"{_NAME}-{key}":
                found.setdefault(worker, []).append(rest)
    return found


def open_session(client: AnyValue, key: str = "", timeout: float = 0, end: Callable[[], object] = bool, wait: float = WAIT) -> Session:
    """A session with a new server on a worker of the cluster of a dask client; `end` is called after it. Raises ClusterError."""
    channel = ActorChannel(client, key, timeout, wait)

    def close() -> None:
        channel.close()
        end()

    return Session(channel.send, close)
