"""What was measured on a machine, kept across runs as lines of JSON in the user's cache folder.

A cache is never a reason to fail. A file that cannot be read or written is as if it were not there, and a line that is damaged is passed
over. Lines are appended whole, so that processes can share the file.
"""

import json
import math
import os
from pathlib import Path
from typing import Final

from passat.ir.bounded_read import read_bounded

FILE: Final = "measurements-2.jsonl"
"""The number is that of how times are taken and written down: files of other numbers are not read."""
LIMIT: Final = 1 << 26
"""Bytes from which on a file is begun anew."""


def cache_folder() -> Path:
    """The folder of caches, as the environment names it: `PASSAT_CACHE`, or `passat` in `XDG_CACHE_HOME`, or `~/.cache/passat`."""
    own = os.environ.get("PASSAT_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # Of a relative path the XDG specification says that it is to be ignored.
    return (Path(shared) if os.path.isabs(shared) else Path(os.path.expanduser("~"), ".cache")) / "passat"


class Measurements:
    """Seconds by key, for one machine and version of what runs the models.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Measurements("a machine", "a runtime", Path(folder)).put("add", 0.5)
    ...     Measurements("a machine", "a runtime", Path(folder)).get("add")
    0.5
    """

    def __init__(self, machine: str, runtime: str, folder: Path | None = None) -> None:
        self.path = (cache_folder() if folder is None else folder) / FILE
        self._scope = [machine, runtime]
        self._known: dict[str, float] = {}
        try:
            lines = read_bounded(self.path, LIMIT).splitlines() if self.path.is_file() else []
        except (OSError, ValueError):
            return
        for line in lines:
            try:
                *scope, key, seconds = json.loads(line)
            except (ValueError, TypeError, RecursionError):
                continue
            if scope == self._scope and isinstance(key, str) and isinstance(seconds, float) and 0 < seconds < math.inf:
                self._known[key] = seconds

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> float | None:
        """What was measured under a key, in this process or before it."""
        return self._known.get(key)

    def put(self, key: str, seconds: float) -> None:
        """Keeps a measurement; where the file cannot be written, in this process alone."""
        self._known[key] = seconds
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.is_file() or not self.path.exists():
                full = self.path.exists() and self.path.stat().st_size >= LIMIT
                with open(self.path, "wb" if full else "ab", buffering=0) as file:
                    # The first line feed ends a line that a process could not finish.
                    file.write(f"\n{json.dumps([*self._scope, key, float(seconds)])}\n".encode())
        except (OSError, ValueError):
            pass
