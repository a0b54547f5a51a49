"""What was measured on a machine, kept across runs (passat.cache_file)."""

import math
from pathlib import Path
from typing import Final

from passat.cache_file import CacheFile

VERSION: Final = 1
"""Of the table, and of how times are taken: a file of another version is rebuilt."""
FILE: Final = "measurements.sqlite"
_TABLE: Final = "times (machine TEXT, runtime TEXT, key TEXT, seconds REAL, PRIMARY KEY (machine, runtime, key))"


class Measurements:
    """Seconds by key, for one machine and version of what runs the models. `notices` has lines about a file that had to be rebuilt."""

    def __init__(self, machine: str, runtime: str, folder: Path | None = None) -> None:
        self._scope = (machine, runtime)
        self._file = CacheFile(FILE, _TABLE, version=VERSION, folder=folder)
        self.notices = self._file.notices
        rows = self._file.read("SELECT key, seconds FROM times WHERE machine = ? AND runtime = ?", *self._scope)
        self._known = {
            key: seconds for key, seconds in rows if isinstance(key, str) and isinstance(seconds, float) and 0 < seconds < math.inf
        }

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> float | None:
        """What was measured under a key, in this process or before it."""
        return self._known.get(key)

    def put(self, key: str, seconds: float) -> None:
        """Keeps a measurement; where the file cannot be written, in this process alone."""
        self._known[key] = seconds
        self._file.write("INSERT OR REPLACE INTO times VALUES (?, ?, ?, ?)", *self._scope, key, seconds)
