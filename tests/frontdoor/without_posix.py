"""A program that optimizes models and writes them, and their external data, over themselves, without what Windows does not have or do.

`os` and `signal` lose functions, folders cannot be opened, and an open file can be neither moved, replaced nor removed.
"""

import os
import shutil
import signal
import sys
from typing import Any as AnyValue

GONE = ("pread", "copy_file_range", "memfd_create", "fork", "register_at_fork", "sched_getaffinity", "O_NOFOLLOW", "O_NONBLOCK")
OPEN, REPLACE, UNLINK = os.open, os.replace, os.unlink


def check_closed(path: AnyValue) -> None:
    """Raises PermissionError if this process has opened a file."""
    for number in os.listdir("/proc/self/fd"):
        if os.path.exists(f"/proc/self/fd/{number}") and os.path.samefile(f"/proc/self/fd/{number}", path):
            raise PermissionError(13, "it is open", path)


def open_file(path: AnyValue, *arguments: AnyValue, **named: AnyValue) -> int:
    if os.path.isdir(path):
        raise PermissionError(13, "it is a folder", path)
    return OPEN(path, *arguments, **named)


def replace(src: AnyValue, dst: AnyValue, **named: AnyValue) -> None:
    for path in filter(os.path.exists, (src, dst)):
        check_closed(path)
    REPLACE(src, dst, **named)


def unlink(path: AnyValue, **named: AnyValue) -> None:
    check_closed(path)
    UNLINK(path, **named)


def enter() -> None:
    """Takes from this process what Windows does not have or do."""
    for module in ("fcntl", "resource", "pwd", "grp"):
        sys.modules[module] = None  # type: ignore[assignment]  # imports of it fail
    for name in GONE:
        delattr(os, name)
    delattr(signal, "pthread_sigmask")
    shutil._use_fd_functions = False  # type: ignore[attr-defined]  # the standard library opens folders to remove them
    os.open, os.replace, os.unlink = open_file, replace, unlink


def main(models: list[str]) -> None:
    """Optimizes the models, and makes a folder as reproducers do."""
    import passat
    from passat.ir.whole_file import unfinished_folder

    for model in models:
        result = passat.optimize(model)
        assert "verified on ONNX Runtime" in str(result.report)
        result.save(model)
    with unfinished_folder("folder") as unfinished:
        os.rename(unfinished, "folder")


if __name__ == "__main__":
    enter()
    main(sys.argv[1:])
