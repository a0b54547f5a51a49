"""The external data file of a saved model. Data from other files is copied by the kernel, without loading it into memory."""

import contextlib
import errno
import os
from collections.abc import Mapping
from typing import Final

from onnx import TensorProto

from passat.ir.onnx.external import External, external_proto
from passat.ir.onnx.tensors import dense_proto, raw_bytes
from passat.ir.onnx.value_types import NUMBERS
from passat.ir.tensor import Tensor
from passat.ir.whole_file import BINARY, UnfinishedFile, write_all

LARGE: Final = 1024
"""Minimum size in bytes of tensors that are stored in the data file."""
INLINE_LIMIT: Final = 1_900_000_000
"""Maximum size in bytes of tensors inside the model; protobuf is limited to 2 GB."""
_PAGE: Final = 4096
_PAGED: Final = 16 * _PAGE
_NOT_HERE: Final = frozenset({errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EBADF})


class DataFile:
    """Collects tensors in a temporary file, which is moved to its final name on commit. Created with the first tensor."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.committed = False
        self.stored: set[str] = set()
        """The names of the tensors that are stored here."""
        self._unfinished: UnfinishedFile | None = None
        self._end = 0
        self._sources: dict[str, int] = {}
        self._placed: dict[tuple[str, int, int], int] = {}

    @property
    def used(self) -> bool:
        """Whether any tensor is stored here."""
        return self._unfinished is not None

    def place(self, tensors: Mapping[str, Tensor]) -> dict[str, TensorProto]:
        """Stores large tensors if one of them is external or they are too large for a model. Returns the protos that refer to them."""
        outside = any(isinstance(tensor.source, External) for tensor in tensors.values())
        if not outside and sum(tensor.nbytes for tensor in tensors.values()) <= INLINE_LIMIT:
            return {}
        found: dict[str, TensorProto] = {}
        for name, tensor in tensors.items():
            if tensor.nbytes >= LARGE and tensor.dtype != "string":
                found[name] = self.put(name, tensor)
            elif isinstance(tensor.source, External):
                found[name] = dense_proto(tensor, name)
        return found

    def put(self, name: str, tensor: Tensor) -> TensorProto:
        """Stores one tensor. Raises OSError."""
        source = tensor.source
        self.stored.add(name)
        if isinstance(source, External):
            key = (source.path, source.offset, source.length)
            start = self._placed.get(key)
            if start is None:
                start = self._placed[key] = self._begin(source.length)
                self._copy(source)
            length = source.length
        else:
            data = source.raw_data if isinstance(source, TensorProto) and source.HasField("raw_data") else raw_bytes(tensor)
            length = len(data)
            start = self._begin(length)
            write_all(self._file, memoryview(data))
        return external_proto(name, NUMBERS[tensor.dtype], tensor.shape, self.name, start, length)

    def _begin(self, length: int) -> int:
        if self._unfinished is None:
            self._unfinished = UnfinishedFile(self.path)
        unit = _PAGE if length >= _PAGED else 64
        start = -(-self._end // unit) * unit
        self._end = start + length
        os.lseek(self._file, start, os.SEEK_SET)
        return start

    @property
    def _file(self) -> int:
        assert self._unfinished is not None
        assert self._unfinished.descriptor is not None
        return self._unfinished.descriptor

    def _copy(self, source: External) -> None:
        opened = self._sources.get(source.path)
        if opened is None:
            opened = self._sources[source.path] = os.open(source.path, os.O_RDONLY | BINARY)
        at, end = source.offset, source.offset + source.length
        while at < end:
            count = 0
            with contextlib.suppress(AttributeError):  # copy_file_range is only available on Linux
                try:
                    count = os.copy_file_range(opened, self._file, end - at, at)
                except OSError as error:
                    if error.errno not in _NOT_HERE:
                        raise
            if not count:
                os.lseek(opened, at, os.SEEK_SET)
                data = os.read(opened, min(end - at, 1 << 23))
                if not data:
                    raise OSError(errno.EIO, "the file was truncated while it was read", source.path)
                write_all(self._file, memoryview(data))
                count = len(data)
            at += count

    def commit(self) -> None:
        """Syncs the file to disk and moves it to its final name."""
        if self._unfinished is not None:
            os.ftruncate(self._file, max(self._end, 1))
            os.fsync(self._file)
            self._unfinished.commit()
            self.committed = True

    def close(self) -> None:
        """Closes the file, and removes it if it was not committed."""
        for opened in self._sources.values():
            os.close(opened)
        self._sources.clear()
        if self._unfinished is not None:
            self._unfinished.close()
            self._unfinished = None
