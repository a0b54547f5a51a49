"""Sessions with a server on a worker of a dask cluster: an actor, to which only bytes are sent."""

import contextlib
import time
import uuid
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

from passat import cluster
from passat.runtime.remote import RemoteError, Server, Session

_LOOK: Final = 1.0
"""Seconds between two looks at whether the worker of a pending request still exists."""


class WorkerServer(Server):
    """A server in a dask worker. Its folder is in the worker's, which dask removes even if the worker was killed."""

    def __init__(self) -> None:
        super().__init__(cluster.dask_distributed("a session").get_worker().local_directory)


class ActorChannel:
    """A server on a worker with the resource `key`, or on any worker without one. Requests fail if its worker or the scheduler is lost.

    `timeout` is that of a request in seconds; zero is none. Raises ClusterError if no worker starts the server in time.
    """

    def __init__(self, client: AnyValue, key: str = "", timeout: float = 0) -> None:
        self._client = client
        self._timeout = timeout
        name, resources = f"passat-session-{uuid.uuid4().hex}", {key: 1} if key else None
        self._future = client.submit(WorkerServer, actor=True, key=name, resources=resources)
        try:
            self._future.result(timeout=cluster.SECONDS)
            (self._worker,) = client.who_has(self._future)[name]
            with client.as_current():  # the result is an Actor too, but of the default client, which may be another
                self._actor = cluster.dask_distributed("a session").Actor(WorkerServer, self._worker, name)
        except TimeoutError:
            self._future.release()
            which = f"no worker with the resource {key!r}" if key else "no worker"
            raise cluster.ClusterError(f"{which} of the dask cluster has started a session within {cluster.SECONDS:g} s") from None
        except Exception as error:  # any error of starting a server on the worker, such as a missing package
            self._future.release()
            raise cluster.ClusterError(f"a worker of the dask cluster cannot start a session: {_text(error)}") from error
        self._lost: str | None = None

    def send(self, request: bytes) -> bytes:
        """The server's answer to a request. Raises RemoteError if there is none: the worker is lost, or the time is over."""
        if self._lost is not None:
            raise RemoteError(self._lost)
        begin = time.monotonic()
        try:
            pending = self._actor.answer(request)
            while True:
                try:
                    return bytes(pending.result(timeout=_LOOK))
                except TimeoutError:
                    if pending.done():  # the error of a connection, not of waiting
                        raise
                    if self._client.status != "running" or self._worker not in self._client.nthreads():
                        break
                    if 0 < self._timeout < time.monotonic() - begin:
                        raise self._ended(f"the worker {self._worker} has not answered within {self._timeout:g} s") from None
            reason = ""
        except RemoteError:
            raise
        except Exception as error:  # dask has many for a lost connection
            reason = f": {_text(error)}"
        raise self._ended(f"the worker {self._worker} of the session is lost, with its arrays and files{reason}")

    def _ended(self, message: str) -> RemoteError:
        """The error of a session that has ended. Dask must not start its server again elsewhere."""
        self._lost = f"{message}; open another session"
        self.close()
        return RemoteError(self._lost)

    def close(self) -> None:
        """Ends the server. It is asked to, since dask may keep it for a while after its release."""
        actor, self._actor = self._actor, None
        if actor is not None and self._lost is None:
            with contextlib.suppress(Exception):  # dask has many for a lost connection
                actor.close().result(timeout=_LOOK)
        self._future.release()


def open_session(client: AnyValue, key: str = "", timeout: float = 0, end: Callable[[], object] = bool) -> Session:
    """A session with a new server on a worker of the cluster of a dask client; `end` is called after it. Raises ClusterError."""
    channel = ActorChannel(client, key, timeout)

    def close() -> None:
        channel.close()
        end()

    return Session(channel.send, close)


def _text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
