"""Reads files that users name: regular files and pipes, up to a number of bytes. A device such as /dev/zero never ends."""

import errno
import os
import stat
from typing import Final

_PIECE: Final = 1 << 20


def read_bounded(path: str | os.PathLike[str], limit: int) -> bytes:
    """The contents of a file. Raises OSError for a device or socket, and for a file of more than `limit` bytes; `strerror` says which."""
    name = os.fspath(path)
    if "\0" in name:
        raise OSError(errno.EINVAL, "no file has such a name", name)
    _check_kind(os.stat(name).st_mode, name)  # before it is opened, which some devices notice
    with open(name, "rb") as file:
        state = os.fstat(file.fileno())
        _check_kind(state.st_mode, name)
        size = state.st_size if stat.S_ISREG(state.st_mode) else 0
        pieces = [file.read(size)] if size <= limit else []
        total = size
        while total <= limit and (piece := file.read(_PIECE)):  # a pipe, or a file that grows
            pieces.append(piece)
            total += len(piece)
    if total > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes", name)
    return b"".join(pieces)


def _check_kind(mode: int, name: str) -> None:
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise OSError(errno.EINVAL, "it is a device, not a file", name)
    if stat.S_ISSOCK(mode):
        raise OSError(errno.EINVAL, "it is a socket, not a file", name)
