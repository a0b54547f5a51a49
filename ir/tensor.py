"""Constant tensors: dense, lazily loaded, or a splat (one repeated value), which takes constant memory for any shape."""

import hashlib
import math
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from passat.ir.counting import counted
from passat.ir.dtypes import from_numpy, itemsize, to_numpy

Array = npt.NDArray[AnyValue]


@runtime_checkable
class Bounded(Protocol):
    """A loader that knows a bound on the absolute values of the elements before it computes them."""

    def largest(self) -> float:
        """Returns an upper bound on the absolute values of the elements."""


class Tensor:
    """An immutable constant, created by `dense`, `splat` or `lazy`. `numpy()` returns the elements without copying.

    `source` is the object that the tensor was read from (an ONNX initializer), which lets a writer pass it on without decoding. `origin` is
    the call that computed a folded constant, if a program may compute it again (`passat.ir.folding.Origin`).

    >>> Tensor.splat(1.0, (1000, 1000), "float32").numpy().strides
    (0, 0)
    >>> Tensor.dense(np.ones((2, 2), np.int8)).uniform()
    np.int8(1)
    """

    __slots__ = (
        *("_array", "_content_key", "_key", "_largest", "_load", "_sample", "_scalar", "_uniform"),
        *("dtype", "origin", "shape", "source"),
    )

    def __init__(self, dtype: str, shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape = shape
        self.source: object = None
        self.origin: object = None
        self._array: Array | None = None
        self._scalar: Array | None = None
        self._load: Callable[[], Array] | None = None
        self._key: tuple[object, ...] | None = None
        self._content_key: tuple[object, ...] | None = None
        self._uniform: bool | None = None
        self._sample: object = None
        self._largest: float | None = None

    @classmethod
    def dense(cls, value: npt.ArrayLike, dtype: str | None = None, *, source: object = None) -> "Tensor":
        """Creates a tensor from the elements of `value`. An array is not copied and must not be modified afterward."""
        array = np.asarray(value, None if dtype is None else to_numpy(dtype))
        tensor = cls(from_numpy(array.dtype), array.shape)
        if tensor.dtype == "string" and array.dtype != np.object_:
            array = array.astype(np.object_)
        tensor._array, tensor.source = array, source
        return tensor

    @classmethod
    def splat(cls, value: npt.ArrayLike, shape: tuple[int, ...], dtype: str) -> "Tensor":
        """Creates a tensor of `shape` whose elements all equal `value`."""
        tensor = cls(dtype, shape)
        tensor._scalar = np.asarray(value, to_numpy(dtype)).reshape(())
        tensor._uniform = True
        return tensor

    @classmethod
    def lazy(
        cls,
        dtype: str,
        shape: tuple[int, ...],
        load: Callable[[], Array],
        *,
        source: object = None,
        key: tuple[object, ...] | None = None,
        sample: object = None,
    ) -> "Tensor":
        """Creates a tensor whose elements `load` reads on first access. `key` identifies the content without reading it; `sample` has a
        few elements (see `sample_of`)."""
        tensor = cls(dtype, shape)
        tensor._load, tensor.source, tensor._key, tensor._sample = load, source, key, sample
        return tensor

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes of the expanded elements."""
        return math.ceil(self.size * itemsize(self.dtype))

    @property
    def is_splat(self) -> bool:
        """Whether the tensor is stored as a single repeated value."""
        return self._scalar is not None

    @property
    def loader(self) -> Callable[[], Array] | None:
        """The function that loads a lazy tensor; None once it has been loaded."""
        return self._load

    def numpy(self) -> Array:
        """The elements as a read-only NumPy array. For a splat it is a broadcast view of one element."""
        if self._scalar is not None:
            return np.broadcast_to(self._scalar, self.shape)
        if self._array is None:
            assert self._load is not None
            array = self._load()
            if array.shape != self.shape:
                raise ValueError(
                    f"a constant declared as {self.dtype}{list(self.shape)} holds {counted(array.size, 'element')} "
                    f"of shape {list(array.shape)}"
                )
            self._array, self._load = array, None
        return self._array

    def asnumpy(self) -> Array:
        """Alias of `numpy()`, under TVM's name."""
        return self.numpy()

    def uniform(self) -> AnyValue:
        """The value that all elements share; None if they differ or the tensor is empty. Compares bits, so NaN equals itself."""
        if self._scalar is not None:
            return self._scalar[()] if self.size else None
        if self._uniform is None:
            self._uniform = self._all_equal()
        return self.numpy()[(0,) * self.ndim] if self._uniform else None

    def largest(self) -> float:
        """Returns an upper bound on the absolute values of the elements, which are floats or integers.

        This is the maximum for loaded elements, and the bound of the loader otherwise. NaN if an element may be NaN.
        """
        if self._largest is None:
            if isinstance(self._load, Bounded):
                return self._load.largest()
            elements = self.numpy() if self._scalar is None else self._scalar
            with np.errstate(all="ignore"):  # for NaN
                self._largest = max(float(elements.max()), -float(elements.min())) if self.size else 0.0
        return self._largest

    def _all_equal(self) -> bool:
        if not self.size:
            return False
        array = self.numpy()
        if not any(stride for stride, dim in zip(array.strides, array.shape, strict=True) if dim > 1):
            return True  # a view of one element, which flattening would expand
        flat = array.reshape(-1)
        if flat.dtype == np.object_:
            return all(element == flat[0] for element in flat)
        first = flat[:1].tobytes()
        probes = (len(flat) - 1, len(flat) // 2, len(flat) // 3)
        if any(flat[i : i + 1].tobytes() != first for i in probes):
            return False
        return bool(np.all(_bits(flat) == _bits(flat[:1])))

    def key(self) -> tuple[object, ...]:
        """A hashable key of the content: tensors with equal keys have equal contents.

        The converse holds too, except for lazy tensors whose given key avoids reading them.
        """
        if self._key is None:
            self._key = self.content_key()
        return self._key

    def content_key(self) -> tuple[object, ...]:
        """A hashable key that is equal if and only if the contents are equal: element type, shape, and the uniform value or a digest.

        The key does not depend on the storage: a dense tensor of a single value has the key of the splat. A lazy tensor is loaded.
        """
        if self._content_key is None:
            value = self.uniform()
            kind = "elements" if value is None else "splat"
            self._content_key = (kind, self.dtype, self.shape, self._digest() if value is None else _element_bytes(value))
        return self._content_key

    def sample(self) -> object:
        """Returns a few elements, as a cheap filter before contents are compared. A lazy tensor is read for this but not kept."""
        if self._sample is None:
            self._sample = sample_of(self.numpy() if self._load is None else self._load())
        return self._sample

    def _digest(self) -> bytes:
        if not self.size:
            return b""
        array = self.numpy()
        if self.dtype == "string":
            data: bytes | memoryview = repr(array.tolist()).encode("utf-8", "surrogatepass")
        else:
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        return bytes(data) if len(data) <= 16 else hashlib.blake2b(data, digest_size=16).digest()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Tensor):
            return NotImplemented
        if self.shape != other.shape or self.dtype != other.dtype:
            return False
        # Equal keys of lazy tensors prove equal contents; different keys prove nothing.
        if self._key is not None and self._key == other._key:
            return True
        if self._content_key is not None and other._content_key is not None:
            return self._content_key == other._content_key
        values = self.uniform(), other.uniform()
        if values != (None, None):
            return None not in values and _element_bytes(values[0]) == _element_bytes(values[1])
        one, two = self.numpy(), other.numpy()  # ten times faster than computing two digests
        return one.tolist() == two.tolist() if one.dtype == np.object_ else bool(np.array_equal(_bits(one), _bits(two)))

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape))

    def __reduce__(self) -> tuple[AnyValue, ...]:
        if self._scalar is not None:
            return (Tensor.splat, (self._scalar, self.shape, self.dtype))
        if self._load is not None and "<locals>" not in getattr(getattr(self._load, "func", self._load), "__qualname__", "<locals>"):
            return (_lazy, (self.dtype, self.shape, self._load, self.source, self._key))
        return (Tensor.dense, (self.numpy(),))

    def __repr__(self) -> str:
        if self._scalar is not None:
            content = f"splat {self._scalar[()]}"
        else:
            content = "lazy" if self._array is None else f"{self._array.reshape(())}" if self.size == 1 else "dense"
        return f"Tensor({self.dtype}{list(self.shape)}, {content})"


def _lazy(dtype: str, shape: tuple[int, ...], load: Callable[[], Array], source: object, key: tuple[object, ...] | None) -> Tensor:
    return Tensor.lazy(dtype, shape, load, source=source, key=key)


def sample_of(array: Array) -> object:
    """A few elements of an array, as bytes."""
    some = np.asarray(array.flat[:: max(1, array.size // 16)])  # reshaping a transposed array would copy all of it
    return tuple(some.tolist()) if some.dtype == np.object_ else some.tobytes()


def _element_bytes(value: AnyValue) -> bytes:
    return repr(value).encode("utf-8", "surrogatepass") if isinstance(value, (str, bytes)) else np.asarray(value).tobytes()


def _bits(array: Array) -> Array:
    if array.dtype.kind == "c":
        return np.ascontiguousarray(array).view(np.dtype(f"u{array.itemsize // 2}")).reshape(-1, 2)
    return array.view(np.dtype(f"u{array.itemsize}"))


def look(tensor: Tensor) -> object:
    """Returns a cheap fingerprint of a constant, used before contents are compared. Equal constants with the same storage have equal
    fingerprints.

    Tensors in external files, and those not computed yet, are compared by identity, since a fingerprint would read or compute them.
    """
    return tensor._key if tensor._key is not None and tensor._key[0] in ("file", "deferred") else tensor.sample()
