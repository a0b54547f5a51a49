"""The options `--jobs` and `--cluster`: where a command runs its jobs."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from passat.jobs import Executor


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Where jobs run."""

    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Number of processes, each of which takes a model or rule at a time")
    ] = 1
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="ADDRESS",
            help="Scheduler of a dask cluster that runs the jobs, such as tcp://HOST:8786, or tls://HOST:8786 with the certificates of "
            "dask's configuration (distributed.comm.tls); workers see files under the same paths",
            show_default=False,
        ),
    ] = None

    @property
    def apart(self) -> bool:
        """True if the jobs run in other processes."""
        return self.jobs > 1 or self.cluster is not None

    @contextlib.contextmanager
    def executor(self) -> "Iterator[Executor | None]":
        """The executor of the cluster; None without one. Raises ClusterError."""
        if self.cluster is None:
            yield None
            return
        from passat.cluster import connected

        with connected(self.cluster) as executor:
            yield executor
