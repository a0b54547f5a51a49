"""Files that users name are read up to a size limit; devices and folders are rejected."""

import contextlib
import os
import re
import socket
import threading
from pathlib import Path

import pytest

from passat.ir.bounded_read import decode_json, read_bounded


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_bounded(file, 5) == b"12345"
    with pytest.raises(OSError, match="it is larger than 4 bytes"):
        read_bounded(os.fspath(file), 4)
    file.write_bytes(b"")
    assert read_bounded(file, 0) == b""


def test_a_file_of_no_size_that_has_content_is_read() -> None:
    assert b"VmRSS" in read_bounded("/proc/self/status", 1 << 20)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with open(file, "wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(OSError, match="it is larger than 1048576 bytes"):
        read_bounded(file, 1 << 20)


@pytest.mark.parametrize(("size", "fits"), [(3 << 20, True), ((3 << 20) + 1, False)])
def test_a_pipe_is_read_up_to_the_limit(size: int, fits: bool) -> None:
    reader, end = os.pipe()

    def write() -> None:
        with open(end, "wb") as file, contextlib.suppress(BrokenPipeError):
            file.write(b"x" * size)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        if fits:
            assert read_bounded(f"/dev/fd/{reader}", 3 << 20) == b"x" * size
        else:
            with pytest.raises(OSError, match="it is larger than 3145728 bytes"):
                read_bounded(f"/dev/fd/{reader}", 3 << 20)
    finally:
        os.close(reader)
        writer.join()


@pytest.mark.parametrize("place", ["pipe", "link"])
def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path, place: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"it is a named pipe, not a file; pipe the data to /dev/stdin"):
        read_bounded(tmp_path / place, 10)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[1", "Expecting ',' delimiter: line 1 column 3 (char 2)"),
        (b"\xff", "it is not text in UTF-8"),
        (b"[" * 100_000, "it is nested too deeply"),
        ("[" + "1" * 5000 + "]", "it has an integer of too many digits"),
    ],
    ids=["syntax", "encoding", "depth", "digits"],
)
def test_what_is_not_json(content: bytes | str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        decode_json(content)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_devices_are_not_read(device: str) -> None:
    with pytest.raises(OSError, match="it is a device, not a file"):
        read_bounded(device, 10)


def test_sockets_folders_and_names_that_cannot_be_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")  # an address has about a hundred characters
        with pytest.raises(OSError, match="it is a socket, not a file"):
            read_bounded(tmp_path / "s", 10)
    with pytest.raises(IsADirectoryError):
        read_bounded(tmp_path, 10)
    with pytest.raises(OSError, match="the name is not a valid file name"):
        read_bounded("a\0b", 10)
