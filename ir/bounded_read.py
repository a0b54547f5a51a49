"""Reads files that users name, up to a number of bytes. A device such as /dev/zero never ends, and a named pipe may have nobody who writes.

Pipes that a shell has made (`/dev/stdin`, `<(zcat model.gz)`) are read.
"""

import errno
import os
import stat
from typing import Final

_PIECE: Final = 1 << 20


def read_bounded(path: str | os.PathLike[str], limit: int) -> bytes:
    """The contents of a file. Raises OSError for a device, a socket or a named pipe, and for a file of more than `limit` bytes; `strerror`
    says which."""
    name = os.fspath(path)
    if "\0" in name:
        raise OSError(errno.EINVAL, "no file has such a name", name)
    _check_kind(os.stat(name), name)  # before it is opened, which some devices notice
    with open(name, "rb") as file:
        state = os.fstat(file.fileno())
        _check_kind(state, name)
        size = state.st_size if stat.S_ISREG(state.st_mode) else 0
        pieces = [file.read(size)] if size <= limit else []
        total = size
        while total <= limit and (piece := file.read(_PIECE)):  # a pipe, or a file that grows
            pieces.append(piece)
            total += len(piece)
    if total > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes", name)
    return b"".join(pieces)


def _check_kind(state: os.stat_result, name: str) -> None:
    if stat.S_ISCHR(state.st_mode) or stat.S_ISBLK(state.st_mode):
        raise OSError(errno.EINVAL, "it is a device, not a file", name)
    if stat.S_ISSOCK(state.st_mode):
        raise OSError(errno.EINVAL, "it is a socket, not a file", name)
    if stat.S_ISFIFO(state.st_mode) and state.st_dev != _device_of_pipes():
        raise OSError(errno.EINVAL, "it is a named pipe, not a file; what another program writes is read from /dev/stdin", name)


def _device_of_pipes() -> int:
    """Where pipes lie that have no name in a folder."""
    ends = os.pipe()
    try:
        return os.fstat(ends[0]).st_dev
    finally:
        for end in ends:
            os.close(end)
