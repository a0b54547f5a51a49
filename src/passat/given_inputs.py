"""Inputs that users give: arrays by name, checked against the inputs of a model, and files of them."""

import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final
from typing import Any as AnyValue

import numpy as np

from passat.feeds import ELEMENT_TYPES, FeedError, InputSpec
from passat.ir.counting import counted
from passat.ir.dim_text import declared_dim, is_name
from passat.ir.long_words import text_of
from passat.ir.passat_error import PassatError
from passat.ir.shape import SymDim, evaluate_dim, names_in
from passat.ir.tensor import Array

MOST_BYTES: Final = 1 << 32
"""Maximum size in bytes of the arrays of a file."""


class InputsError(PassatError, ValueError):
    """Inputs that do not fit the model, or an unusable file. The message names the file and the input."""

    exit_code = 1


class FailingInputsError(InputsError):
    """Inputs that fit the model, but on which it fails."""


@dataclass(frozen=True, eq=False)
class GivenInputs:
    """Arrays by input name; `name` identifies them in messages."""

    name: str
    arrays: Mapping[str, Array]

    def sizes(self, specs: Sequence[InputSpec]) -> dict[str, int]:
        """The sizes of symbolic dimensions. Raises InputsError if names, element types or shapes do not fit the inputs."""
        wanted = [spec.name for spec in specs]
        for strange, said in (
            ([name for name in self.arrays if name not in wanted], "which the model does not take"),
            ([name for name in wanted if name not in self.arrays], "which are missing"),
        ):
            if strange:
                raise InputsError(f"{self.name}: {_listed(strange)}, {said}; the model takes {_listed(wanted)}")
        sizes: dict[str, int] = {}
        for spec in specs:
            self._check_type(spec)
            self._check_shape(spec, sizes)
        for spec in specs:  # sizes like n + 1, once n is known
            self._check_sums(spec, sizes)
        return sizes

    def feed(self, specs: Sequence[InputSpec]) -> dict[str, AnyValue]:
        """The arrays as a session takes them."""
        return {spec.name: self._array(spec) for spec in specs if spec.name in self.arrays}

    def _array(self, spec: InputSpec) -> Array:
        """The array of an input: strings as objects, bfloat16 from its bytes in the file."""
        array, wanted = np.asarray(self.arrays[spec.name]), ELEMENT_TYPES[spec.element_type]
        if spec.element_type == "string" and array.dtype.kind == "U":
            return array.astype(object)
        if array.dtype.kind == "V" and array.dtype != wanted and spec.element_type == "bfloat16" and array.dtype.itemsize == 2:
            return array.view(wanted)
        return array

    def _check_type(self, spec: InputSpec) -> None:
        if spec.is_sequence or "optional(" in spec.type:
            raise InputsError(
                f"{self.name}: the input {spec.name!r} is not a tensor ({spec.type}) and cannot be stored in a file of arrays"
            )
        try:
            array, wanted = self._array(spec), ELEMENT_TYPES[spec.element_type]
        except FeedError:
            raise InputsError(f"{self.name}: the input {spec.name!r} has type {spec.type}, which NumPy does not support") from None
        if array.dtype != wanted:
            raise InputsError(f"{self.name}: the input {spec.name!r} has element type {array.dtype}, the model takes {wanted}")

    def _check_shape(self, spec: InputSpec, sizes: dict[str, int]) -> None:
        shape = self._array(spec).shape
        if spec.of_any_rank:
            return
        if len(shape) != len(spec.shape):
            raise InputsError(f"{self.name}: the input {spec.name!r} has shape {list(shape)}, the model takes {_shape(spec)}")
        for dim, size in zip(spec.shape, shape, strict=True):
            name = dim if isinstance(dim, str) and dim and is_name(dim) else None
            if name is not None and sizes.setdefault(name, size) != size:
                raise InputsError(f"{self.name}: the size {name} is {sizes[name]} in one input, and {size} in {spec.name!r}")
            if isinstance(dim, int) and dim != size:
                raise InputsError(f"{self.name}: the input {spec.name!r} has shape {list(shape)}, the model takes {_shape(spec)}")

    def _check_sums(self, spec: InputSpec, sizes: Mapping[str, int]) -> None:
        for dim, size in zip(spec.shape, self._array(spec).shape, strict=False):
            value = declared_dim(dim) if isinstance(dim, str) and dim else None
            if isinstance(value, SymDim) and sizes.keys() >= set(names_in(value)) and evaluate_dim(value, sizes) != size:
                raise InputsError(f"{self.name}: the input {spec.name!r} has size {size} where {dim} is {evaluate_dim(value, sizes)}")


def write_inputs(given: GivenInputs, path: str | os.PathLike[str]) -> None:
    """Writes arrays to a file that `read_inputs` reads; strings as Unicode, since objects would be pickled. Raises OSError."""
    arrays = {name: np.asarray(array) for name, array in given.arrays.items()}
    write_arrays({name: array.astype(str) if array.dtype == object else array for name, array in arrays.items()}, path, allow_pickle=False)


def write_arrays(arrays: Mapping[str, Array], file: str | os.PathLike[str] | IO[bytes], *, allow_pickle: bool) -> None:
    """Writes arrays in the format of `numpy.savez`, which takes no array called `file` or `allow_pickle`. Raises OSError."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=allow_pickle)


def read_inputs(path: str | os.PathLike[str]) -> GivenInputs:
    """The arrays of a file written by `numpy.savez`. Executes nothing. Raises InputsError."""
    name = os.fsdecode(path)
    if os.path.exists(name) and not os.path.isfile(name):
        raise InputsError(f"{name} is not a regular file")
    try:
        with zipfile.ZipFile(name) as archive:
            total = sum(entry.file_size for entry in archive.infolist())
        if total > MOST_BYTES:
            raise InputsError(f"{name} has {counted(total, 'byte')}, more than the limit of {MOST_BYTES}")
        with np.load(name, allow_pickle=False) as loaded:
            arrays = {each: loaded[each] for each in loaded.files}
        if strange := [each for each, array in arrays.items() if not isinstance(array, np.ndarray)]:
            raise InputsError(f"{name}: {_listed(strange)} is not an array written by numpy.savez")
        return GivenInputs(f"the inputs in {name}", arrays)
    except OSError as error:
        raise InputsError(f"{name} cannot be read: {error.strerror or error}") from error
    except InputsError:
        raise
    except Exception as error:  # damaged archives and headers raise many kinds of errors in zipfile, zlib, numpy and tokenize
        raise InputsError(f"{name} is not a file written by numpy.savez: {text_of(error)[:200]}") from None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "no inputs"


def _shape(spec: InputSpec) -> str:
    return f"[{', '.join('?' if dim is None else str(dim) for dim in spec.shape)}]"
