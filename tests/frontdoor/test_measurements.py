"""The cache of measurements: what is kept, for whom, and what becomes of files that are wrong."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from passat.cache_file import cache_folder
from passat.measurements import FILE, VERSION, Measurements

MACHINE, RUNTIME = "a machine", "a runtime 1.0"


def cache(folder: Path, machine: str = MACHINE, runtime: str = RUNTIME) -> Measurements:
    return Measurements(machine, runtime, folder)


def filled(folder: Path) -> Path:
    """A cache file with two hundred measurements."""
    times = cache(folder)
    for number in range(200):
        times.put(f"operator {number} {'x' * 100}", number + 0.5)
    return folder / FILE


def test_what_is_put_in_comes_out(tmp_path: Path) -> None:
    times = cache(tmp_path / "a" / "b")
    assert times.get("add") is None
    times.put("add", 1.5)
    times.put("add", 2.5)
    assert times.get("add") == 2.5
    again = cache(tmp_path / "a" / "b")
    assert (again.get("add"), len(again), again.notices) == (2.5, 1, [])


def test_other_machines_and_versions_have_measurements_of_their_own(tmp_path: Path) -> None:
    cache(tmp_path).put("add", 1.0)
    assert cache(tmp_path, machine="another").get("add") is None
    assert cache(tmp_path, runtime="a runtime 1.1").get("add") is None
    cache(tmp_path, machine="another").put("add", 2.0)
    assert cache(tmp_path).get("add") == 1.0


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_short_is_rebuilt(tmp_path: Path, share: float) -> None:
    path = filled(tmp_path)
    os.truncate(path, int(path.stat().st_size * share))
    times = cache(tmp_path)
    assert times.notices == [f"the cache {path} was rebuilt: it was cut short or damaged"]
    assert len(times) == 0
    times.put("add", 1.0)
    again = cache(tmp_path)
    assert (again.get("add"), again.notices) == (1.0, [])
    assert os.listdir(tmp_path) == [FILE]


def test_a_file_of_no_bytes_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    times = cache(tmp_path)
    times.put("add", 1.0)
    assert (times.notices, cache(tmp_path).get("add")) == ([], 1.0)


def test_a_file_that_is_damaged_inside_is_rebuilt(tmp_path: Path) -> None:
    path = filled(tmp_path)
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xff" * 4096
    path.write_bytes(data)
    assert cache(tmp_path).notices == [f"the cache {path} was rebuilt: it was cut short or damaged"]


def test_a_file_that_is_no_database_is_rebuilt(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("This is a text, and longer than the first page of a database is.\n" * 100)
    times = cache(tmp_path)
    assert times.notices == [f"the cache {tmp_path / FILE} was rebuilt: it was no SQLite file"]
    times.put("add", 1.0)
    assert cache(tmp_path).get("add") == 1.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (f"PRAGMA user_version = {VERSION + 1}", f"it was of version {VERSION + 1}, and this is {VERSION}"),
        ("PRAGMA user_version = 0", f"it was of version 0, and this is {VERSION}"),
        ("PRAGMA application_id = 7", "it was the file of another program"),
        ("DROP TABLE times", "it had no tables"),
        ("ALTER TABLE times RENAME TO clocks", "it was cut short or damaged"),
        ("ALTER TABLE times RENAME COLUMN seconds TO hours", "it was cut short or damaged"),
    ],
)
def test_a_file_of_another_version_is_rebuilt(tmp_path: Path, change: str, said: str) -> None:
    path = filled(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.execute(change)
        database.commit()
    times = cache(tmp_path)
    assert times.notices == [f"the cache {path} was rebuilt: {said}"]
    times.put("add", 1.0)
    assert cache(tmp_path).get("add") == 1.0


def test_rows_that_are_no_times_are_passed_over(tmp_path: Path) -> None:
    path = filled(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        for key, seconds in (("a", "soon"), ("b", None), ("c", -1.0), ("d", float("inf")), ("e", b"\x00")):
            database.execute("INSERT INTO times VALUES (?, ?, ?, ?)", (MACHINE, RUNTIME, key, seconds))
        database.commit()
    times = cache(tmp_path)
    assert (times.notices, len(times)) == ([], 200)
    assert [times.get(key) for key in "abcde"] == [None] * 5


def test_a_folder_that_cannot_be_made_means_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    times = cache(tmp_path / "file" / "passat")
    times.put("add", 1.0)
    assert (times.get("add"), times.notices) == (1.0, [])


def test_a_folder_in_the_place_of_the_file_means_no_cache(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    times = cache(tmp_path)
    times.put("add", 1.0)
    assert (times.get("add"), times.notices) == (1.0, [])
    assert (tmp_path / FILE).is_dir()


def test_a_file_that_another_process_holds_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path)
    monkeypatch.setattr("passat.cache_file.WAIT", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        times = cache(tmp_path)
        times.put("add", 1.0)
        assert (times.get("add"), len(times), times.notices) == (1.0, 1, [])
        database.execute("COMMIT")
    assert len(cache(tmp_path)) == 200


def test_where_the_folder_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PASSAT_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "passat"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / ".cache" / "passat"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert cache_folder() == tmp_path / "shared" / "passat"
    monkeypatch.setenv("PASSAT_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    Measurements(MACHINE, RUNTIME).put("add", 1.0)
    assert (tmp_path / "own" / FILE).is_file()
