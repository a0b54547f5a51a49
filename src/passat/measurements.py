"""What was measured on a machine, kept in an SQLite file in the user's cache folder (passat.rules.cache_folder).

The file is opened for each reading and writing and
closed again, so that processes, forked ones too, can share it. What cannot be read or written is as if it were not there: a cache is never
a reason to fail.
"""

import contextlib
import math
import os
import sqlite3
import tempfile
import threading
from pathlib import Path
from typing import Final

from passat.rules.cache_folder import cache_folder

VERSION: Final = 1
"""Of the tables, and of how times are taken: a file of another version is rebuilt."""
FILE: Final = "measurements.sqlite"
_APPLICATION: Final = 0x50535354
"""Marks SQLite files as caches of Passat."""
_WAIT: Final = 5.0
"""Seconds to wait for another process that writes."""
_UNUSABLE: Final = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)
"""What SQLite says of a file that is not wrong in itself."""


class _WrongFileError(Exception):
    """The file has to be rebuilt; the text says what it is instead."""


class Measurements:
    """Seconds by key, for one machine and version of what runs the models. `notice` is a line about a file that had to be rebuilt."""

    def __init__(self, machine: str, runtime: str, folder: Path | None = None) -> None:
        self._machine = machine
        self._runtime = runtime
        self._path = (cache_folder() if folder is None else folder) / FILE
        self._lock = threading.Lock()
        self.notice = ""
        self._known = self._load()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> float | None:
        """What was measured under a key, in this process or before it."""
        return self._known.get(key)

    def put(self, key: str, seconds: float) -> None:
        """Keeps a measurement; where the file cannot be written, in this process alone."""
        with self._lock:
            self._known[key] = seconds
            with contextlib.suppress(sqlite3.Error, OSError), self._open() as database:
                database.execute("INSERT OR REPLACE INTO times VALUES (?, ?, ?, ?)", (self._machine, self._runtime, key, seconds))

    def _load(self) -> dict[str, float]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return self._read()
            except _WrongFileError as wrong:
                self._rebuild()
                self.notice = f"the cache {self._path} was rebuilt: {wrong}"
        except (sqlite3.Error, OSError):
            pass
        return {}

    def _read(self) -> dict[str, float]:
        query = "SELECT key, seconds FROM times WHERE machine = ? AND runtime = ?"
        try:
            with self._open() as database:
                self._check(database)
                rows = database.execute(query, (self._machine, self._runtime)).fetchall()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF in _UNUSABLE:
                raise
            damaged = error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_NOTADB
            raise _WrongFileError("it was cut short or damaged" if damaged else "it was no SQLite file") from error
        return {key: seconds for key, seconds in rows if isinstance(key, str) and isinstance(seconds, float) and 0 < seconds < math.inf}

    def _open(self) -> "contextlib.closing[sqlite3.Connection]":
        # Nothing is lost where the machine stops that could not be measured again, so nobody waits for the disk.
        database = sqlite3.connect(self._path, timeout=_WAIT, isolation_level=None)
        database.execute("PRAGMA synchronous = OFF")
        return contextlib.closing(database)

    @staticmethod
    def _check(database: sqlite3.Connection) -> None:
        """Makes the tables in a file that is new. Raises _WrongFileError where it holds something else."""
        if not _value(database, "SELECT count(*) FROM sqlite_master"):
            if _value(database, "PRAGMA user_version") or _value(database, "PRAGMA application_id"):
                raise _WrongFileError("it had no tables")
            _make_tables(database)
        if _value(database, "PRAGMA application_id") != _APPLICATION:
            raise _WrongFileError("it was the file of another program")
        version = _value(database, "PRAGMA user_version")
        if version != VERSION:
            raise _WrongFileError(f"it was of version {version}, and this is {VERSION}")
        if _value(database, "PRAGMA quick_check(1)") != "ok":
            raise _WrongFileError("it was cut short or damaged")

    def _rebuild(self) -> None:
        """Puts an empty file in the place of what is there. Whoever has that open goes on with it, unharmed."""
        handle, name = tempfile.mkstemp(prefix=FILE, dir=self._path.parent)
        os.close(handle)
        try:
            with contextlib.closing(sqlite3.connect(name, isolation_level=None)) as database:
                _make_tables(database)
            for left in ("-journal", "-wal", "-shm"):  # SQLite would apply it to the new file
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{self._path}{left}")
            os.replace(name, self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def _make_tables(database: sqlite3.Connection) -> None:
    database.execute("BEGIN IMMEDIATE")
    if not _value(database, "SELECT count(*) FROM sqlite_master"):  # another process may have been here in between
        columns = "machine TEXT, runtime TEXT, key TEXT, seconds REAL, PRIMARY KEY (machine, runtime, key)"
        database.execute(f"CREATE TABLE times ({columns})")
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("COMMIT")


def _value(database: sqlite3.Connection, query: str) -> object:
    return database.execute(query).fetchone()[0]
