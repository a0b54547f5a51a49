"""Reads files that users name, up to a size limit, and decodes JSON.

Rejects devices such as /dev/zero, which never end, and named pipes, which may have no writer. Pipes that a shell creates (`/dev/stdin`,
`<(zcat model.gz)`) are accepted.
"""

import errno
import json
import os
import stat
from typing import Any, Final

from passat.ir.counting import counted

_PIECE: Final = 1 << 20


def read_bounded(path: str | os.PathLike[str], limit: int) -> bytes:
    """Returns the contents of a file.

    Raises OSError for a device, a socket or a named pipe, and for a file of more than `limit` bytes. `strerror` gives the reason.
    """
    name = os.fspath(path)
    if "\0" in name:
        raise OSError(errno.EINVAL, "the name is not a valid file name", name)
    _check_kind(os.stat(name), name)  # before opening, since opening has side effects on some devices
    with open(name, "rb") as file:
        state = os.fstat(file.fileno())
        _check_kind(state, name)
        size = state.st_size if stat.S_ISREG(state.st_mode) else 0
        pieces = [file.read(size)] if size <= limit else []
        total = size
        while total <= limit and (piece := file.read(_PIECE)):  # the size of a pipe is unknown, and a file may grow
            pieces.append(piece)
            total += len(piece)
    if total > limit:
        raise OSError(errno.EFBIG, f"it is larger than {counted(limit, 'byte')}", name)
    return b"".join(pieces)


def decode_json(content: bytes | str) -> Any:
    """Decodes JSON, given as text or in UTF-8. Raises ValueError with the reason."""
    try:
        return json.loads(content if isinstance(content, str) else content.decode("utf-8"))
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError:
        raise ValueError("it is not text in UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:  # of Python's int, which reads no more than `sys.get_int_max_str_digits()`
        raise ValueError("it has an integer of too many digits") from None


def _check_kind(state: os.stat_result, name: str) -> None:
    if stat.S_ISCHR(state.st_mode) or stat.S_ISBLK(state.st_mode):
        raise OSError(errno.EINVAL, "it is a device, not a file", name)
    if stat.S_ISSOCK(state.st_mode):
        raise OSError(errno.EINVAL, "it is a socket, not a file", name)
    if stat.S_ISFIFO(state.st_mode) and state.st_dev != _device_of_pipes():
        raise OSError(errno.EINVAL, "it is a named pipe, not a file; pipe the data to /dev/stdin instead", name)


def _device_of_pipes() -> int:
    """The device number of anonymous pipes."""
    ends = os.pipe()
    try:
        return os.fstat(ends[0]).st_dev
    finally:
        for end in ends:
            os.close(end)
