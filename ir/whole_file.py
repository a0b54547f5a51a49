"""Atomic file writes. Remnants of killed processes are removed when the same file is written again. Symbolic links are followed."""

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_NUMBERS: Final = itertools.count()
_LEFT: Final = r"(\.(\d+\.)?data)?\.\d+-\d+\.part"
"""Suffixes of unfinished files, including the external data of a model."""
BINARY: Final[int] = getattr(os, "O_BINARY", 0)
"""A flag of Windows: bytes that end lines are not changed."""


def written_file(path: str) -> str:
    """The file that is written for a path: the target of a symbolic link, otherwise the path itself."""
    return os.path.realpath(path) if os.path.islink(path) else path


class UnfinishedFile:
    """A temporary file that is moved to its final path when complete. It holds a file lock, which a kill releases."""

    def __init__(self, path: str) -> None:
        """Creates the file for reading and writing. Raises OSError."""
        path = written_file(path)
        remove_unfinished(path)
        self.path = path
        self.name = _name(path)
        self.descriptor: int | None = os.open(self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
        self._is_there = True
        _lock(self.descriptor)

    def write(self, data: bytes) -> None:
        """Writes all of the data to the disk. Raises OSError."""
        assert self.descriptor is not None
        write_all(self.descriptor, memoryview(data))
        os.fsync(self.descriptor)

    def commit(self) -> None:
        """Moves the file to its final path. Raises OSError."""
        if not _has_locks():  # Windows does not move an open file
            self._release()
        os.replace(self.name, self.path)
        self._is_there = False
        self._release()

    def close(self) -> None:
        """Removes the file unless it was moved."""
        self._release()
        if self._is_there:
            with contextlib.suppress(OSError):
                os.unlink(self.name)
            self._is_there = False

    def _release(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def write_all(descriptor: int, data: memoryview) -> None:
    """Writes all data to an open file, in as many calls as needed. Raises OSError."""
    while data:
        data = data[os.write(descriptor, data) :]


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file atomically. Raises OSError with the file name, and keeps the previous file in that case."""
    name = os.fspath(path)
    try:
        file = UnfinishedFile(name)
        try:
            file.write(data)
            file.commit()
        finally:
            file.close()
    except OSError as error:  # on a full disk Python does not name the file
        raise OSError(error.errno, error.strerror, name) from error


@contextlib.contextmanager
def unfinished_folder(path: str) -> Iterator[str]:
    """Yields a temporary folder, which the body of the `with` block moves to its final path; removed otherwise. Raises OSError."""
    remove_unfinished(path)
    name = _name(path)
    os.mkdir(name)
    descriptor = os.open(name, os.O_RDONLY) if _has_locks() else None  # Windows does not open folders
    try:
        if descriptor is not None:
            _lock(descriptor)
        yield name
    finally:
        shutil.rmtree(name, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def remove_unfinished(path: str, first: Callable[[str], object] = lambda _: None) -> None:
    """Removes remnants of a file that killed processes left: those whose lock is free. Calls a function with each before."""
    if not _has_locks():
        return
    folder, base = os.path.split(path)
    left = re.compile(re.escape(base) + _LEFT)
    with contextlib.suppress(OSError):
        for name in filter(left.fullmatch, os.listdir(folder or ".")):
            _remove_if_left(os.path.join(folder, name), first)


def _remove_if_left(name: str, first: Callable[[str], object]) -> None:
    with contextlib.suppress(OSError):  # it is gone, locked, owned by another user, or the file system has no locks
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            _lock(descriptor, must=True)
            first(name)
            if os.path.isdir(name):
                shutil.rmtree(name)
            else:
                os.unlink(name)
        finally:
            os.close(descriptor)


def _has_locks() -> bool:
    """False on Windows."""
    try:
        import fcntl  # noqa: F401  # whether it is there
    except ImportError:
        return False
    return True


def _name(path: str) -> str:
    return f"{path}.{os.getpid()}-{next(_NUMBERS)}.part"


def _lock(descriptor: int, *, must: bool = False) -> None:
    """Locks an open file until it is closed.

    With `must`, raises OSError if another process holds the lock or the file system has no locks.
    """
    if not _has_locks():
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if must:
            raise
