"""Files that appear whole or not at all."""

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file beside its place and moves it there. Raises OSError that names the file, and leaves what was there then."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):  # of a full disk Python does not say which file it was
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
