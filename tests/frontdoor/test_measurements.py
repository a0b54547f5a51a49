"""The cache of measurements: what is kept, for whom, and what becomes of files that are wrong."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passat.measure import FILE, Measurements, cache_folder

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
    assert (again.get("add"), len(again)) == (2.5, 1)


def test_other_machines_and_versions_have_measurements_of_their_own(tmp_path: Path) -> None:
    cache(tmp_path).put("add", 1.0)
    assert cache(tmp_path, machine="another").get("add") is None
    assert cache(tmp_path, runtime="a runtime 1.1").get("add") is None
    cache(tmp_path, machine="another").put("add", 2.0)
    assert cache(tmp_path).get("add") == 1.0


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_short_keeps_its_whole_lines(tmp_path: Path, share: float) -> None:
    path = filled(tmp_path)
    os.truncate(path, int(path.stat().st_size * share))
    times = cache(tmp_path)
    assert int(200 * share) - 1 <= len(times) <= int(200 * share)
    times.put("add", 1.0)
    assert (cache(tmp_path).get("add"), len(cache(tmp_path))) == (1.0, len(times))
    assert os.listdir(tmp_path) == [FILE]


@given(place=st.integers(0, 30_000), data=st.binary(min_size=1, max_size=300))
def test_whatever_is_written_over_the_file_the_cache_goes_on(place: int, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = filled(Path(folder))
        with open(path, "r+b") as file:
            file.seek(place)
            file.write(data)
        times = cache(Path(folder))
        assert len(times) >= 190
        times.put("add", 1.0)
        assert cache(Path(folder)).get("add") == 1.0


def test_a_file_of_another_kind_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 100)
    assert len(cache(tmp_path)) == 0
    cache(tmp_path).put("add", 1.0)
    assert cache(tmp_path).get("add") == 1.0


def test_lines_that_are_no_times_are_passed_over(tmp_path: Path) -> None:
    path = filled(tmp_path)
    rows: list[object] = [
        "a",
        3,
        [],
        {},
        None,
        *([MACHINE, RUNTIME, *row] for row in (["a", "soon"], ["b", None], ["c", -1.0], ["d", True], [4, 1.0], ["e", 1.0, 2.0])),
    ]
    with open(path, "a") as file:
        file.write("".join(f"{json.dumps(row)}\n" for row in rows) + f'["{MACHINE}", "{RUNTIME}", "f", Infinity]\n' + "[" * 100_000)
    times = cache(tmp_path)
    assert len(times) == 200
    assert [times.get(key) for key in "abcdef"] == [None] * 6


def test_a_file_that_became_too_large_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = filled(tmp_path).stat().st_size
    monkeypatch.setattr("passat.measure.LIMIT", size)
    cache(tmp_path).put("add", 1.0)
    assert (len(cache(tmp_path)), cache(tmp_path).get("add")) == (1, 1.0)


def test_a_key_may_hold_anything(tmp_path: Path) -> None:
    for key in ("\ud800", "a\nb", '"'):
        cache(tmp_path).put(key, 1.0)
        assert cache(tmp_path).get(key) == 1.0


USER = """
import sys
from pathlib import Path
from passat.measure import Measurements
times = Measurements("a machine", "a runtime 1.0", Path(sys.argv[1]))
print(flush=True)
sys.stdin.readline()
for number in range(200):
    times.put(f"{sys.argv[2]} {number} {'x' * 200}", 1.0)
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", USER, str(tmp_path)]
    processes = [subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in "abc"]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()  # it has imported everything
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60) and process.returncode for process in processes] == [0, 0, 0]
    assert len(cache(tmp_path)) == 600


def test_a_folder_that_cannot_be_made_means_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    times = cache(tmp_path / "file" / "passat")
    times.put("add", 1.0)
    assert times.get("add") == 1.0


def test_a_folder_in_the_place_of_the_file_means_no_cache(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    times = cache(tmp_path)
    times.put("add", 1.0)
    assert times.get("add") == 1.0
    assert (tmp_path / FILE).is_dir()


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
