"""What Passat found out, for later runs, in SQLite files in the user's cache folder.

A cache is never a reason to fail. A file that cannot be read or written is as if it were not there; one that is damaged, or of another
version, is removed, and the next writing makes it anew. It is opened for each reading and writing and closed again, so that processes,
forked ones too, can share it.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any as AnyValue
from typing import Final

WAIT: Final = 5.0
"""Seconds to wait for another process that writes."""
_APPLICATION: Final = 0x50535354
"""Marks SQLite files as caches of Passat."""
_STATE: Final = ("SELECT count(*) FROM sqlite_master", "PRAGMA application_id", "PRAGMA user_version")
_SIZE: Final = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
_WRONG: Final = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""What SQLite says of files that are wrong in themselves; the first, that the table or a column of it is missing."""


def cache_folder() -> Path:
    """The folder of the caches, as the environment names it: `PASSAT_CACHE`, or `passat` in `XDG_CACHE_HOME`, or `~/.cache/passat`."""
    own = os.environ.get("PASSAT_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # Of a relative path the XDG specification says that it is to be ignored.
    return (Path(shared) if os.path.isabs(shared) else Path(os.path.expanduser("~"), ".cache")) / "passat"


class _WrongFileError(Exception):
    """The file has to be made anew; the text says what it is instead."""


class CacheFile:
    """A file of one table. `notices` has a line for each time that it was wrong in itself, and therefore removed.

    `table` is the name and the columns of the table, as they stand behind `CREATE TABLE`; it keeps its rowid, by which rows are in the
    order of their writing. `version` is that of the table and of what its rows mean. Where the rows take more than `limit` bytes, the
    older half of them goes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = CacheFile("squares.sqlite", "squares (root INTEGER PRIMARY KEY, square INTEGER)", version=1, folder=Path(folder))
    ...     cache.write("INSERT OR REPLACE INTO squares VALUES (?, ?)", 7, 49)
    ...     cache.read("SELECT square FROM squares WHERE root = ?", 7)
    [(49,)]
    """

    def __init__(self, name: str, table: str, *, version: int, folder: Path | None = None, limit: int = 1 << 28) -> None:
        self.path = (cache_folder() if folder is None else folder) / name
        self.notices: list[str] = []
        self._table = table
        self._version = version
        self._limit = limit

    def read(self, query: str, *values: object) -> list[tuple[AnyValue, ...]]:
        """The rows that a query finds; none where there is no cache."""
        return self._use(query, values, writes=False)

    def write(self, statement: str, *values: object) -> None:
        """Executes a statement that writes; where the file cannot be written, nothing happens."""
        self._use(statement, values, writes=True)

    def _use(self, statement: str, values: tuple[object, ...], *, writes: bool) -> list[tuple[AnyValue, ...]]:
        try:
            try:
                return self._attempt(statement, values, writes=writes)
            except _WrongFileError:
                with _alone_in(self.path.parent):
                    return self._attempt_anew(statement, values, writes=writes)
        except (sqlite3.Error, OSError, UnicodeEncodeError, _WrongFileError):
            return []

    def _attempt_anew(self, statement: str, values: tuple[object, ...], *, writes: bool) -> list[tuple[AnyValue, ...]]:
        try:
            return self._attempt(statement, values, writes=writes)  # of several processes that found it wrong, one removes it
        except _WrongFileError as wrong:
            for left in ("-journal", "-wal", "-shm"):  # SQLite would apply it to the new file
                Path(f"{self.path}{left}").unlink(missing_ok=True)
            self.path.unlink()  # whoever has it open goes on, and SQLite does not let it write any more
            self.notices.append(f"the cache {self.path} was rebuilt: {wrong}")
            return self._attempt(statement, values, writes=writes)

    def _attempt(self, statement: str, values: tuple[object, ...], *, writes: bool) -> list[tuple[AnyValue, ...]]:
        if writes:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        place = f"{self.path.absolute().as_uri()}?mode={'rwc' if writes else 'rw'}"
        try:
            with contextlib.closing(sqlite3.connect(place, uri=True, timeout=WAIT, isolation_level=None)) as database:
                database.execute("PRAGMA synchronous = OFF")  # nothing is lost that could not be found out again
                database.execute("BEGIN IMMEDIATE" if writes else "BEGIN")  # what is checked stays so
                if self._is_new(database):
                    if not writes:
                        return []
                    database.execute(f"CREATE TABLE {self._table}")
                    database.execute(f"PRAGMA application_id = {_APPLICATION}")
                    database.execute(f"PRAGMA user_version = {self._version}")
                elif writes and database.execute(_SIZE).fetchone()[0] > self._limit:
                    name = self._table.split()[0]
                    database.execute(f"DELETE FROM {name} WHERE rowid <= (SELECT (min(rowid) + max(rowid)) / 2 FROM {name})")
                rows = database.execute(statement, values).fetchall()
                database.commit()
                return rows
        except (sqlite3.Error, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF  # without one where a text is no UTF-8
            if code not in _WRONG:
                raise  # locked, read-only, full, not to be opened
            raise _WrongFileError("it was no SQLite file" if code == sqlite3.SQLITE_NOTADB else "it was cut short or damaged") from error

    def _is_new(self, database: sqlite3.Connection) -> bool:
        """Whether nothing is in the file yet. Raises _WrongFileError where it holds something else than it should."""
        tables, application, version = (database.execute(query).fetchone()[0] for query in _STATE)
        if tables == application == version == 0:
            return True
        if not tables:
            raise _WrongFileError("it had no tables")
        if application != _APPLICATION:
            raise _WrongFileError("it was the file of another program")
        if version != self._version:
            raise _WrongFileError(f"it was of version {version}, and this is {self._version}")
        return False


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Waits until no other thread or process is in here for the same folder."""
    try:
        import fcntl
    except ImportError:  # on Windows, where a file that others have open cannot be removed anyway
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # closing is not enough where a process was forked in between
    finally:
        os.close(handle)
