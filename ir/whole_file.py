"""Files that appear whole or not at all. What a killed process left of one goes when the same file is written again."""

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_NUMBERS: Final = itertools.count()
_LEFT: Final = r"(\.(\d+\.)?data)?\.\d+-\d+\.part"
"""How the names of unfinished files go on, those of the data beside a model among them."""


class UnfinishedFile:
    """A file that is written beside its place, and moved there when it is whole. It is locked while it is written, which a kill undoes."""

    def __init__(self, path: str) -> None:
        """Makes it, for reading and writing. Raises OSError."""
        remove_unfinished(path)
        self.path = path
        self.name = _name(path)
        self.descriptor: int | None = os.open(self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        _lock(self.descriptor)

    def write(self, data: bytes) -> None:
        """Writes all of the data to the disk. Raises OSError."""
        assert self.descriptor is not None
        write_all(self.descriptor, memoryview(data))
        os.fsync(self.descriptor)

    def commit(self) -> None:
        """Moves it to its place. Raises OSError."""
        os.replace(self.name, self.path)
        self._release()

    def close(self) -> None:
        """Removes it, unless it was moved."""
        if self.descriptor is not None:
            with contextlib.suppress(OSError):
                os.unlink(self.name)
            self._release()

    def _release(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def write_all(descriptor: int, data: memoryview) -> None:
    """Writes data to an open file, however many calls that takes. Raises OSError."""
    while data:
        data = data[os.write(descriptor, data) :]


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file beside its place and moves it there. Raises OSError that names the file, and leaves what was there then."""
    name = os.fspath(path)
    try:
        file = UnfinishedFile(name)
        try:
            file.write(data)
            file.commit()
        finally:
            file.close()
    except OSError as error:  # of a full disk Python does not say which file it was
        raise OSError(error.errno, error.strerror, name) from error


@contextlib.contextmanager
def unfinished_folder(path: str) -> Iterator[str]:
    """A folder to write into, which the body moves to its place. It is gone where the body does not. Raises OSError."""
    remove_unfinished(path)
    name = _name(path)
    os.mkdir(name)
    descriptor = os.open(name, os.O_RDONLY)
    try:
        _lock(descriptor)
        yield name
    finally:
        shutil.rmtree(name, ignore_errors=True)
        os.close(descriptor)


def remove_unfinished(path: str) -> None:
    """Removes what killed processes have left of a file: nobody holds its lock."""
    if os.name != "posix":  # there are no such locks
        return
    folder, base = os.path.split(path)
    left = re.compile(re.escape(base) + _LEFT)
    with contextlib.suppress(OSError):
        for name in filter(left.fullmatch, os.listdir(folder or ".")):
            _remove_if_left(os.path.join(folder, name))


def _remove_if_left(name: str) -> None:
    with contextlib.suppress(OSError):  # it is gone, locked, of somebody else, or no locks are kept here
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            _lock(descriptor, must=True)
            if os.path.isdir(name):
                shutil.rmtree(name)
            else:
                os.unlink(name)
        finally:
            os.close(descriptor)


def _name(path: str) -> str:
    return f"{path}.{os.getpid()}-{next(_NUMBERS)}.part"


def _lock(descriptor: int, *, must: bool = False) -> None:
    """Locks an open file until it is closed. Raises OSError where it `must`, and somebody else has locked it or no locks are kept."""
    if os.name != "posix":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if must:
            raise
