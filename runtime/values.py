"""User-facing values of programs: arrays and tuples of arrays, and the conversion of Python values."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any as AnyValue
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from passat.ir.counting import counted
from passat.ir.dim_text import given_shape
from passat.ir.dtypes import FLOATS, INTEGERS, to_numpy
from passat.ir.expr import Constant, Constructor, const
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, TupleType, Type, compatible
from passat.runtime.devices import Device, check_device, cpu

Data: TypeAlias = "Tensor | tuple[Data, ...]"
"""Internal values: tensors and tuples of values."""


class NDArray:
    """An input or result array of a program, with TVM's accessors: `numpy()`, `asnumpy()`, `shape`, `dtype`, `device`.

    Arrays are equal if their element types, shapes and elements are (TVM's TensorValue), also to constants of the IR.
    NumPy functions accept them.

    >>> NDArray(np.array([1, 2], np.int8))
    NDArray(int8[2], [1 2])
    """

    __slots__ = ("_tensor",)
    __hash__ = None  # type: ignore[assignment]  # not hashable: compared by content, which may be large

    def __init__(self, data: "npt.ArrayLike | Tensor | NDArray", dtype: str | None = None) -> None:
        if isinstance(data, NDArray):
            data = data.tensor
        self._tensor: Tensor = data if isinstance(data, Tensor) and dtype in (None, data.dtype) else Tensor.dense(_copy(data, dtype))

    @property
    def tensor(self) -> Tensor:
        """The array as a constant tensor of the IR."""
        return self._tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self._tensor.shape

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        return self._tensor.dtype

    @property
    def device(self) -> Device:
        """The device of the array, which is the CPU."""
        return cpu()

    @property
    def ctx(self) -> Device:
        """Alias of `device`, under its former name."""
        return self.device

    @property
    def data(self) -> "NDArray":
        """The array itself, for compatibility with older versions of Relay's TensorValue."""
        return self

    def numpy(self) -> Array:
        """Returns a copy of the elements as a NumPy array."""
        return np.array(self._tensor.numpy())

    def asnumpy(self) -> Array:
        """Alias of `numpy()`, under its former name."""
        return self.numpy()

    def copyfrom(self, source: "npt.ArrayLike | NDArray") -> "NDArray":
        """Replaces the elements by those of an array of the same shape, converted to the element type. Returns the array itself.

        Raises ValueError for another shape.
        """
        given = source.tensor.numpy() if isinstance(source, NDArray) else np.asarray(source)
        if given.shape != self.shape:
            raise ValueError(f"an array of shape {self.shape} cannot take elements of shape {given.shape}")
        keeps = isinstance(source, NDArray) and source.dtype == self.dtype  # tensors are immutable, and can be shared
        self._tensor = source.tensor if keeps and isinstance(source, NDArray) else Tensor.dense(_copy(given, self.dtype))
        return self

    def copyto(self, target: "NDArray | Device") -> "NDArray":
        """Copies the elements to another array, or to a new one on a device. Returns that array."""
        if not isinstance(target, (NDArray, Device)):
            raise TypeError(f"an array is copied to an NDArray or a device, not to a {type(target).__name__}")
        return target.copyfrom(self) if isinstance(target, NDArray) else target.place(NDArray(self._tensor))

    def same_as(self, other: object) -> bool:
        """Whether `other` is the same object."""
        return self is other

    def to_dlpack(self) -> AnyValue:
        """A copy of the elements as a DLPack capsule."""
        return self.__dlpack__()

    def __dlpack__(self, **options: AnyValue) -> AnyValue:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device.device_type, self.device.device_id)

    def __setitem__(self, index: AnyValue, value: "npt.ArrayLike | NDArray") -> None:
        changed = self.numpy()
        changed[index] = value
        self._tensor = Tensor.dense(changed)

    def __getitem__(self, index: AnyValue) -> "NDArray":
        return NDArray(self._tensor.numpy()[index])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self._tensor.numpy(), dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        return self._tensor == (other._tensor if isinstance(other, NDArray) else other)

    def __repr__(self) -> str:
        return f"NDArray({self.dtype}{list(self.shape)}, {np.array2string(self._tensor.numpy(), threshold=20)})"


class ADT:
    """A value of several fields, which can be indexed and iterated over: a tuple, or a value of an algebraic data type."""

    __slots__ = ("fields",)

    fields: tuple[AnyValue, ...]

    def __getitem__(self, index: int) -> AnyValue:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[AnyValue]:
        return iter(self.fields)

    __hash__ = None  # type: ignore[assignment]  # not hashable: compared by content, which may be large

    def __eq__(self, other: object) -> bool:
        pairs: list[tuple[AnyValue, AnyValue]] = [(self, other)]
        while pairs:  # iterative, since a list is nested as deeply as it is long
            a, b = pairs.pop()
            if not isinstance(a, ADT):
                if a != b:
                    return False
            elif not isinstance(b, ADT) or (a._kind(), len(a)) != (b._kind(), len(b)):
                return False
            elif a is not b:
                pairs.extend(zip(a.fields, b.fields, strict=True))
        return True

    def _kind(self) -> int | None:
        """The tag of a constructor; None for a tuple."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return _text(self)


class TupleValue(ADT):
    """A tuple of values, which can be indexed and iterated over, and is printed as `(a, b)`.

    >>> print(TupleValue(NDArray(np.float32(1)), NDArray(np.float32(2)))[1].numpy())
    2.0
    """

    __slots__ = ()

    def __init__(self, *fields: AnyValue) -> None:
        self.fields = fields

    def _kind(self) -> None:
        return None


class ConstructorValue(ADT):
    """A value of an algebraic data type: its constructor and fields. Equal to values with the same tag and fields."""

    __slots__ = ("constructor", "tag")

    def __init__(self, tag: int, fields: Iterable[AnyValue], constructor: Constructor | None = None) -> None:
        self.tag = tag
        self.fields = tuple(fields)
        self.constructor = constructor

    def _kind(self) -> int:
        return self.tag


class RefValue:
    """A mutable reference; `value` is its content."""

    __slots__ = ("value",)

    def __init__(self, value: AnyValue) -> None:
        self.value = value

    def __repr__(self) -> str:
        return _text(self)


def _text(value: AnyValue) -> str:
    """A value as text, with "..." for nested values of data types and for a repeated reference.

    Iterative, since values may be nested deep.
    """
    out: list[str] = []
    work: list[tuple[AnyValue, bool]] = [(value, False)]
    refs: set[int] = set()
    while work:
        part, is_text = work.pop()
        if is_text:
            out.append(part)
        elif isinstance(part, RefValue) and id(part) in refs:
            out.append("...")
        elif isinstance(part, RefValue):
            refs.add(id(part))
            out.append("RefValue(")
            work += [(")", True), (part.value, False)]
        elif isinstance(part, TupleValue):
            out.append("(")
            work.append((",)" if len(part) == 1 else ")", True))
            work += _separated(part.fields)
        elif isinstance(part, ConstructorValue):
            name = f"constructor {part.tag}" if part.constructor is None else part.constructor.name_hint
            out.append(f"{name}(")
            work.append((")", True))
            nested = (isinstance(field, ConstructorValue) and len(field) > 0 for field in part.fields)
            work += _separated([_ELLIPSIS if deep else field for field, deep in zip(part.fields, nested, strict=True)])
        else:
            out.append("..." if part is _ELLIPSIS else repr(part))
    return "".join(out)


_ELLIPSIS: Final = object()


def _separated(fields: Iterable[AnyValue]) -> list[tuple[AnyValue, bool]]:
    """The fields with commas between them, the last one first."""
    parts: list[tuple[AnyValue, bool]] = []
    for field in fields:
        parts += [(", ", True), (field, False)]
    return parts[:0:-1]


def array(arr: "npt.ArrayLike | Tensor | NDArray", device: Device | None = None, ctx: Device | None = None) -> NDArray:
    """Creates an array from any array-like object, keeping its element type (TVM's `nd.array`). `ctx` is a former name of `device`.

    Raises ValueError for devices other than the CPU.
    """
    return check_device(device or ctx).place(NDArray(arr))


def empty(shape: "int | Iterable[int]", dtype: str = "float32", device: Device | None = None, ctx: Device | None = None) -> NDArray:
    """Creates an array of zeros, for results. `ctx` is a former name of `device`. Raises ValueError for devices other than the CPU.

    >>> empty((2,), "int8")
    NDArray(int8[2], [0 0])
    """
    wanted = TensorType(given_shape((shape,) if isinstance(shape, int) else shape), dtype)
    return check_device(device or ctx).place(NDArray(Tensor.splat(0, wanted.concrete_shape, dtype)))


def from_dlpack(source: AnyValue) -> NDArray:
    """Creates an array from an object with DLPack's protocol, or from a capsule of an array on the CPU. The elements are copied.

    Raises TypeError for other objects.

    >>> from_dlpack(np.ones(2, np.float32)), from_dlpack(array([1, 2]).to_dlpack())
    (NDArray(float32[2], [1. 1.]), NDArray(int64[2], [1 2]))
    """
    given = _Capsule(source) if type(source).__name__ == "PyCapsule" else source
    if not hasattr(given, "__dlpack__"):
        raise TypeError(f"a {type(source).__name__} has no DLPack protocol; make an array of it with nd.array")
    return NDArray(np.from_dlpack(given))


class _Capsule:
    """A DLPack capsule, as NumPy takes it."""

    def __init__(self, capsule: AnyValue) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: AnyValue) -> AnyValue:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (cpu().device_type, 0)


_SCALARS: Final = (bool, int, float, complex, str)


def to_data(value: object, type_: Type | None, what: str) -> Data:
    """Converts a Python value: arrays, numbers, constants, and tuples and lists of these.

    Python numbers, and lists for tensors, get the element type of `type_`, or the default of `relay.const` if it is unknown. Arrays are
    copied. They must have the type, or int64 (NumPy's default) with elements that fit the type. Raises a TypeError that names `what` if the
    value does not fit.
    """
    stack: list[AnyValue] = []
    if isinstance(value, (tuple, list, TupleValue)) and not isinstance(type_, TensorType):
        fields = type_.fields if isinstance(type_, TupleType) else (None,) * len(value)
        if len(fields) != len(value):
            raise TypeError(f"{what} is a tuple of {len(fields)}, but got {counted(len(value), 'value')}")
        stack.extend(to_data(field, wanted, f"field {i} of {what}") for i, (field, wanted) in enumerate(zip(value, fields, strict=True)))
        return tuple(stack)
    tensor = _tensor(value, type_, what)
    found = TensorType(tensor.shape, tensor.dtype)
    if type_ is not None and not compatible(type_, found):
        raise TypeError(f"{what} has type {type_!r}, but got a value of type {found!r}")
    return tensor


def _narrowed(value: Array, type_: Type | None) -> Array:
    """Converts integers of NumPy's default type to the narrower expected type, if all of them fit."""
    if not isinstance(type_, TensorType) or value.dtype != np.int64 or type_.dtype not in INTEGERS:
        return value
    found = value.astype(to_numpy(type_.dtype))
    return found if np.array_equal(found, value) else value


def _tensor(value: object, type_: Type | None, what: str) -> Tensor:
    if isinstance(value, Constant):
        return value.data
    if isinstance(value, NDArray):
        return value.tensor
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return Tensor.dense(_narrowed(np.array(value), type_))
    if not isinstance(value, (*_SCALARS, list, tuple)):
        raise TypeError(f"{what} cannot be a {type(value).__name__}; use arrays, numbers, constants or tuples of them")
    if not isinstance(type_, TensorType):
        return const(value).data if isinstance(value, (bool, int, float)) else Tensor.dense(np.asarray(value))
    given = np.asarray(value)
    wanted = to_numpy(type_.dtype)
    if given.dtype.kind == "f" and type_.dtype not in FLOATS and wanted.kind != "c":
        raise TypeError(f"{what} has element type {type_.dtype}, but got {value!r}")
    try:
        return Tensor.dense(np.asarray(value, wanted))
    except (OverflowError, ValueError) as error:
        raise TypeError(f"{what} has element type {type_.dtype}, but got {value!r}") from error


def _copy(data: AnyValue, dtype: str | None) -> Array:
    found = np.array(data.numpy() if isinstance(data, Tensor) else data, None if dtype is None else to_numpy(dtype))
    if found.dtype == np.object_:  # texts, or what NumPy cannot convert
        other = next((element for element in found.flat if not isinstance(element, (str, bytes))), "")
        if not isinstance(other, (str, bytes)):
            raise TypeError(f"an array has numbers or texts, not a {type(other).__name__}")
    return found


def type_of_data(data: Data) -> Type:
    """The type of a value, with its actual sizes."""
    if isinstance(data, tuple):
        return TupleType(type_of_data(field) for field in data)
    return TensorType(data.shape, data.dtype)


def named(values: Mapping[str, object]) -> dict[str, Constant]:
    """Converts Python values by name to constants; lists are arrays. Raises TypeError for values that are not tensors."""
    found = {}
    for name, value in values.items():
        data = to_data(np.asarray(value) if isinstance(value, list) else value, None, f"the parameter {name}")
        if isinstance(data, tuple):
            raise TypeError(f"the parameter {name} is a tuple; only tensors can be bound by name")
        found[name] = Constant(data)
    return found
