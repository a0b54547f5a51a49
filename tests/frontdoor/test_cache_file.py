"""Cache files: what is kept, how large they become, what becomes of files that are wrong, and several processes at once."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from passat.cache_file import CacheFile

NAME = "texts.sqlite"
PUT, GET = "INSERT OR REPLACE INTO texts VALUES (?, ?)", "SELECT text FROM texts WHERE key = ?"


def cache(folder: Path, *, version: int = 1, limit: int = 1 << 28) -> CacheFile:
    return CacheFile(NAME, "texts (key TEXT PRIMARY KEY, text TEXT)", version=version, folder=folder, limit=limit)


def filled(folder: Path) -> CacheFile:
    """A cache of a hundred texts in several pages."""
    texts = cache(folder)
    for number in range(100):
        texts.write(PUT, str(number), "x" * 500)
    return texts


def test_reading_makes_nothing(tmp_path: Path) -> None:
    texts = cache(tmp_path / "folder")
    assert texts.read(GET, "a") == []
    assert list(tmp_path.iterdir()) == []
    texts.write(PUT, "a", "text")
    assert texts.read(GET, "a") == [("text",)]
    assert os.listdir(tmp_path / "folder") == [NAME]


@pytest.mark.parametrize("writes", [False, True])
def test_damage_that_is_found_late_is_mended_all_the_same(tmp_path: Path, writes: bool) -> None:
    texts = filled(tmp_path)
    with open(texts.path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)  # the roots of the table and of its index
    if writes:
        texts.write(PUT, "a", "text")
    assert texts.read(GET, "a") == ([("text",)] if writes else [])
    assert texts.notices == [f"the cache {texts.path} was rebuilt: it was cut short or damaged"]


def test_a_text_that_is_none_is_damage(tmp_path: Path) -> None:
    texts = filled(tmp_path)
    texts.write("INSERT INTO texts VALUES ('a', CAST(x'ff' AS TEXT))")
    assert texts.read(GET, "a") == []
    assert texts.notices == [f"the cache {texts.path} was rebuilt: it was cut short or damaged"]


def test_a_key_that_has_no_text_is_not_kept(tmp_path: Path) -> None:
    texts = filled(tmp_path)
    texts.write(PUT, "\ud800", "text")
    assert texts.read(GET, "\ud800") == []
    assert texts.notices == []


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 60_000), data=st.binary(min_size=1, max_size=100))
@example(place=4058, data=b"\x80")  # in the name of the table, which an error message then quotes
def test_whatever_is_written_over_the_file_the_cache_goes_on(tmp_path: Path, place: int, data: bytes) -> None:
    (tmp_path / NAME).unlink(missing_ok=True)
    texts = filled(tmp_path)
    with open(texts.path, "r+b") as file:
        file.seek(place)
        file.write(data)
    for number in range(100):
        texts.read(GET, str(number))
        texts.write(PUT, str(number), "new")
    assert texts.read(GET, "99") in ([("new",)], [("x" * 500,)], [])  # the last two where it is the index that lies
    assert len(texts.notices) < 2


def test_a_read_only_file_is_read(tmp_path: Path) -> None:
    texts = filled(tmp_path)
    with closing(sqlite3.connect(texts.path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")  # whoever may not write is refused in the same way
        assert texts.read(GET, "1") == [("x" * 500,)]
    texts.path.chmod(0o400)
    assert texts.read(GET, "1") == [("x" * 500,)]
    assert texts.notices == []


def test_the_names_of_folders_may_hold_anything(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"a?b#c%20 \xff&mode=memory")
    cache(folder).write(PUT, "a", "text")
    assert cache(folder).read(GET, "a") == [("text",)]
    assert os.listdir(folder) == [NAME]


def test_the_older_half_goes_where_the_file_becomes_too_large(tmp_path: Path) -> None:
    limit = 1 << 18
    texts = cache(tmp_path, limit=limit)
    for number in range(1000):
        texts.write(PUT, str(number), "x" * 2000)
        assert texts.read(GET, str(number))
    assert texts.path.stat().st_size < limit + 20_000
    kept = [int(key) for (key,) in texts.read("SELECT key FROM texts")]
    assert 50 < len(kept) < 200
    assert sorted(kept) == list(range(1000 - len(kept), 1000))


def test_a_limit_below_one_row(tmp_path: Path) -> None:
    texts = cache(tmp_path, limit=0)
    for key in "abc":
        texts.write(PUT, key, "text")
    assert texts.read("SELECT key FROM texts") == [("c",)]


USER = """
import sys
from pathlib import Path
from passat.cache_file import CacheFile
cache = CacheFile("texts.sqlite", "texts (key TEXT PRIMARY KEY, text TEXT)", version=1, folder=Path(sys.argv[1]))
print(flush=True)
sys.stdin.readline()
for number in range(60):
    cache.read("SELECT text FROM texts")
    cache.write("INSERT INTO texts VALUES (?, ?)", f"{sys.argv[2]} {number}", "text")
print(len(cache.notices), flush=True)
"""


@pytest.mark.parametrize("before", ["nothing", "no SQLite file", "another version", "damaged"])
def test_processes_that_open_at_once_lose_nothing(tmp_path: Path, before: str) -> None:
    """One of them makes a file anew that is wrong, and all write to the same."""
    path = tmp_path / NAME
    if before == "no SQLite file":
        path.write_bytes(b"nonsense" * 1000)
    elif before == "another version":
        cache(tmp_path, version=2).write(PUT, "a", "text")
    elif before == "damaged":
        filled(tmp_path)
        os.truncate(path, 20_000)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", USER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in "abcd"
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()  # it has imported everything
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    notices = 0
    for process in processes:
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        notices += int(out)
    assert notices == (before != "nothing")
    assert sorted(key for (key,) in cache(tmp_path).read("SELECT key FROM texts")) == sorted(f"{n} {i}" for n in "abcd" for i in range(60))
    assert os.listdir(tmp_path) == [NAME]
