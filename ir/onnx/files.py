"""Reads model files, and writes them atomically."""

import contextlib
import math
import mmap
import os
import re
import stat
from collections.abc import Iterable
from typing import Final

import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]  # protobuf ships no types
from onnx import ModelProto, NodeProto, TensorProto

from passat.ir.bounded_read import read_bounded
from passat.ir.dtypes import itemsize
from passat.ir.module import IRModule
from passat.ir.onnx.contrib_types import has_rule
from passat.ir.onnx.data_file import INLINE_LIMIT, LARGE, DataFile
from passat.ir.onnx.errors import CheckerError, OnnxError
from passat.ir.onnx.exporter import export_model
from passat.ir.onnx.frame import Frame, without_initializers
from passat.ir.onnx.importer import import_model
from passat.ir.onnx.scope import nodes_of, tensors_of
from passat.ir.onnx.sizes import content_bytes, model_bytes, tensor_bytes
from passat.ir.onnx.tensors import EXTERNAL, dense_proto, read_tensor
from passat.ir.onnx.undeclared import undeclared
from passat.ir.onnx_mapping import ELEMENT_TYPES
from passat.ir.whole_file import UnfinishedFile, remove_unfinished, written_file

_CHECKED_WHOLE: Final = 1 << 16
"""Maximum size in bytes of models that are checked with the contents of their tensors."""
MODEL_LIMIT: Final = (1 << 31) - 1
"""Maximum size in bytes of a model without external data; the limit of protobuf."""
_LFS_POINTER: Final = b"version https://git-lfs.github.com/"
_LOCATION: Final = b"\n\x08location"
"""The key of the name of a data file, as protobuf writes it."""
_APART: Final = "passat.onnxruntime"
"""The domain of ONNX Runtime's own operators in models that are checked."""
_COMPLAINT: Final = 400
"""Maximum length of messages of onnx.checker."""
_OF_TYPES: Final = re.compile(r"Field '\w+' of '(type|value_info)' is required|Unrecognized type value case")
"""Messages of onnx.checker for an input or output without a type, which they do not name."""


def load_module(path: str, *, lenient: bool = False) -> IRModule:
    """Imports a model file. Raises OnnxError with the file name as a prefix."""
    model = read_model(path)
    try:
        return import_model(model, folder=os.path.dirname(path) or ".", lenient=lenient)
    except OnnxError as error:
        raise OnnxError(f"{path}: {error}") from error


def read_model(path: str) -> ModelProto:
    """Reads a model file without external data. Raises OnnxError."""
    if not path:
        raise OnnxError("the path of the model is empty")
    try:
        data = read_bounded(path, MODEL_LIMIT)
    except OSError as error:
        hint = "; standard input is /dev/stdin" if path == "-" else ""
        raise OnnxError(f"{path} cannot be read: {error.strerror}{hint}") from error
    return parse_model(data, path)


def parse_model(data: bytes, path: str) -> ModelProto:
    """Parses a serialized model; `path` is its name in errors. Raises OnnxError."""
    if not data:
        raise OnnxError(f"{path} is not an ONNX model: it is empty")
    if data.startswith(_LFS_POINTER):
        raise OnnxError(f"{path} is a Git LFS pointer, not an ONNX model; fetch the model with `git lfs pull`")
    try:
        model: ModelProto = ModelProto.FromString(data)
    except DecodeError:
        raise OnnxError(f"{path} is not an ONNX model, or is truncated: it does not parse as protobuf") from None
    if not model.HasField("graph"):
        raise OnnxError(f"{path} is not an ONNX model: it has no graph")
    return model


def in_memory(source: ModelProto | bytes | str | os.PathLike[str]) -> ModelProto:
    """Loads a model, serialized or from a file, without external data. Raises OnnxError."""
    if isinstance(source, (str, os.PathLike)):
        return read_model(os.fsdecode(source))
    return ModelProto.FromString(source) if isinstance(source, bytes) else source


def check_model(model: ModelProto) -> None:
    """Runs `onnx.checker` without checking external data, and without ONNX Runtime's own operators. Raises CheckerError."""
    foreign = any(map(_is_of_runtime, nodes_of(model)))
    if foreign or model_bytes(model) > _CHECKED_WHOLE or any(map(_is_external, tensors_of(model))):
        model = _outline(model)
    if foreign:
        _set_apart(model)
    _check(model)


def _is_of_runtime(node: NodeProto) -> bool:
    """Whether a node has an operator that ONNX Runtime has added to the standard domain, such as SimplifiedLayerNormalization."""
    return not node.domain and has_rule("", node.op_type)


def _set_apart(model: ModelProto) -> None:
    """Gives these operators a domain of their own. The checker rejects operators of the standard domain that it does not know."""
    for imports in (model.opset_import, *(function.opset_import for function in model.functions)):
        imports.add(domain=_APART, version=1)
    for node in filter(_is_of_runtime, nodes_of(model)):
        node.domain = _APART


def _outline(model: ModelProto) -> ModelProto:
    """A model without the contents of its large tensors, which the checker ignores."""
    outline = without_initializers(model)
    for tensor in model.graph.initializer:
        if tensor_bytes(tensor) < LARGE or tensor.data_type == TensorProto.STRING:
            outline.graph.initializer.append(tensor)
        else:
            _empty(outline.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims))
    for tensor in tensors_of(outline):
        if _is_external(tensor):
            _empty(tensor)
    return outline


def _empty(tensor: TensorProto) -> None:
    """Keeps only one element of a tensor. The checker compares the size of the contents with the shape."""
    tensor.ClearField("data_location")
    tensor.ClearField("external_data")
    tensor.dims[:] = [1] * len(tensor.dims)
    if tensor.data_type in ELEMENT_TYPES:
        tensor.raw_data = bytes(math.ceil(itemsize(ELEMENT_TYPES[tensor.data_type])))


def _is_external(tensor: TensorProto) -> bool:
    return tensor.data_location == EXTERNAL


def _check(model: ModelProto, path: str | None = None) -> None:
    """Checks a model, or the file that contains it."""
    try:
        onnx.checker.check_model(model if path is None else path)
    except onnx.checker.ValidationError as error:
        # The node is named on later lines of the message.
        text = "; ".join(filter(None, (" ".join(part.split()) for part in str(error).split("==> Context:"))))
        try:
            said = undeclared(model) if _OF_TYPES.search(text) else ""
        except OnnxError as unreadable:
            said = str(unreadable)
        raise CheckerError(f"onnx.checker does not accept the model: {said or text[:_COMPLAINT]}") from error
    except UnicodeDecodeError as error:
        raise CheckerError("onnx.checker does not accept the model: it contains text that is not UTF-8") from error


def save_module(module: IRModule | ModelProto, path: str, *, folder: str | None = None, check: bool = True) -> list[str]:
    """Writes a module or a model to a file, and its large tensors to another if necessary.

    Replaces an existing file, or the target of a link, and keeps its mode. Removes the data files of the model that was there, and returns
    those that it leaves: the given model may read them, or see `remove_former`. Raises OnnxError, for example if the path is a device or a
    folder, or a link to another folder and the model needs external data, which readers look for beside the link.
    """
    target = written_file(path)
    mode = _mode_of(target)
    if isinstance(module, ModelProto) and mode is not None and _reads(module, folder, target):
        raise OnnxError(f"{path} cannot be written: the model reads external data from it")
    # Processes that were killed before their model had its name left a data file that has its own.
    remove_unfinished(target, lambda name: _remove_data(_former_data(name), target, name))
    data = DataFile(_free_data_path(target))
    unfinished: UnfinishedFile | None = None
    done = False
    try:
        if isinstance(module, ModelProto):
            model = module
        else:
            model = export_model(module, data.place)
            frame = module.attrs.get("onnx")
            folder = frame.folder if isinstance(frame, Frame) else None
        model = _gathered(model, data, folder)
        if data.used and not _same_folder(path, target):
            raise OnnxError(f"{path} cannot be written: it is a link to {target}, beside which its external data would be; name that file")
        if check and not data.used:
            check_model(model)
        try:
            content = model.SerializeToString(deterministic=True)
        except (EncodeError, ValueError):
            raise OnnxError(f"{path} cannot be written: the model has more than 2 GB excluding its tensors") from None
        unfinished = UnfinishedFile(target)
        unfinished.write(content)
        data.commit()
        if check and data.used:
            _check(model, unfinished.name)
        if mode is not None:
            for name in (unfinished.name, *([data.path] if data.committed else [])):
                os.chmod(name, mode)
        former = _former_data(target)
        unfinished.commit()
        done = True
        read = _data_read(module, folder, target)
        remove_former([name for name in former if read is not None and os.path.realpath(name) not in read], target)
        return list(filter(os.path.lexists, former))
    except OSError as error:
        own = (None, path) if unfinished is None else (None, path, unfinished.name)
        about = f" ({error.filename})" if error.filename not in own and not str(error.filename).endswith(".part") else ""
        around = os.path.dirname(target)
        why = f"{error.strerror}{about}" if os.path.isdir(around) else f"the folder {os.path.dirname(path) or around} does not exist"
        raise OnnxError(f"{path} cannot be written: {why}") from error
    finally:
        data.close()
        if unfinished is not None:
            unfinished.close()
        if not done and data.committed:
            with contextlib.suppress(OSError):
                os.unlink(data.path)


def _reads(model: ModelProto, folder: str | None, path: str) -> bool:
    """Whether a model has external data in a file."""
    return any(os.path.isfile(place) and os.path.samefile(place, path) for place in _data_files(model, folder))


def _data_files(model: ModelProto, folder: str | None) -> list[str]:
    """The paths of the files with the external data of a model in a folder."""
    return [os.path.join(folder or "", name) for name in sorted({_location(each) for each in tensors_of(model) if _is_external(each)})]


def external_bytes(model: ModelProto) -> int:
    """The bytes of a model's external data. Tensors with the same data count once; without an external initializer there is none."""
    if not any(map(_is_external, model.graph.initializer)):
        return 0
    found: dict[tuple[str, str], int] = {}
    for tensor in filter(_is_external, tensors_of(model)):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if tensor.data_type in ELEMENT_TYPES:
            size = content_bytes(tensor)
            place = entries.get("location", ""), entries.get("offset", "0")
            found[place] = max(size, found.get(place, 0))
    return sum(found.values())


def _data_read(module: IRModule | ModelProto, folder: str | None, path: str) -> set[str] | None:
    """The data files that a model in memory reads; None for a module from the folder of a path, which may read any of that folder."""
    if isinstance(module, ModelProto):
        return set(map(os.path.realpath, _data_files(module, folder)))
    return None if folder is not None and os.path.realpath(folder) == os.path.realpath(os.path.dirname(path)) else set()


def _same_folder(path: str, other: str) -> bool:
    return os.path.realpath(os.path.dirname(path)) == os.path.realpath(os.path.dirname(other))


def _mode_of(path: str) -> int | None:
    """The mode of the file to be replaced; None if there is none. Raises OnnxError for anything but a file."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # the file does not exist, or opening it will report the problem
        return None
    if not stat.S_ISREG(mode):
        raise OnnxError(f"{path} cannot be written: it is {'a folder' if stat.S_ISDIR(mode) else 'not a file'}")
    return stat.S_IMODE(mode)


def _gathered(model: ModelProto, data: DataFile, folder: str | None) -> ModelProto:
    """Moves external tensors from other places to the data file, and large tensors if the model would be too large."""
    inside = model_bytes(model)
    if inside <= INLINE_LIMIT and not any(_is_elsewhere(tensor, data) for tensor in tensors_of(model)):
        return model

    def moved(tensor: TensorProto) -> TensorProto | None:
        large = inside > INLINE_LIMIT and tensor.HasField("raw_data") and tensor_bytes(tensor) >= LARGE
        if not large and not _is_elsewhere(tensor, data):
            return None
        value = read_tensor(tensor, folder)
        return data.put(tensor.name, value) if value.nbytes >= LARGE else dense_proto(value, tensor.name)

    copy = without_initializers(model)
    for tensor in model.graph.initializer:  # large weights that move are not copied before
        copy.graph.initializer.append(moved(tensor) or tensor)
    for tensor in tensors_of(copy):
        if (place := moved(tensor)) is not None:
            tensor.CopyFrom(place)
    return copy


def _is_elsewhere(tensor: TensorProto, data: DataFile) -> bool:
    """Whether a tensor is in another data file. That file may have the name of the new one, in another folder."""
    return _is_external(tensor) and not (tensor.name in data.stored and _location(tensor) == data.name)


def _location(tensor: TensorProto) -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def _free_data_path(path: str) -> str:
    """`<path>.data`, or a numbered name if that exists. Existing files are never overwritten, as other models may use them."""
    candidate, number = f"{path}.data", 0
    while os.path.lexists(candidate):
        number += 1
        candidate = f"{path}.{number}.data"
    return candidate


def _former_data(path: str) -> list[str]:
    """The data files of the model in a file, if there is one."""
    if not os.path.isfile(path) or not _contains(path, _LOCATION):
        return []
    try:
        model = read_model(path)
    except OnnxError:
        return []
    return list(filter(os.path.isfile, _data_files(model, os.path.dirname(path))))


def remove_former(names: Iterable[str], path: str) -> list[str]:
    """Removes data files of a model whose file another model has replaced, if they are named as `save` names them, and nothing else in
    the folder refers to them. Returns a sentence for each that is left."""
    target = written_file(path)
    return [f"{name}, which the former {path} refers to, is left: {why}" for name, why in _remove_data(names, target, target).items()]


def _remove_data(names: Iterable[str], path: str, referring: str) -> dict[str, str]:
    """Removes data files of models that are written to a path, unless they may be needed apart from one file that refers to them. Returns
    the others, with the reasons."""
    left = {}
    own = re.compile(re.escape(os.path.realpath(path)) + r"(\.\d+)?\.data")
    for name in names:
        why = _why_needed(name, referring) if own.fullmatch(os.path.realpath(name)) else "it is not named after that model"
        if not why:
            try:
                os.unlink(name)
            except OSError as error:
                why = f"it cannot be removed: {error.strerror}"
        if why:
            left[name] = why
    return left


def _why_needed(data: str, referring: str) -> str:
    """Why a data file may be needed: a file in its folder refers to it, apart from the one that is given. Empty if there is none."""
    with os.scandir(os.path.dirname(data) or ".") as entries:
        for entry in entries:
            try:
                other = entry.is_file() and not any(os.path.samefile(entry.path, known) for known in (data, referring))
                if other and entry.stat().st_size <= MODEL_LIMIT and _refers(entry.path, os.path.basename(data)):
                    return f"{entry.name} refers to it"
            except OSError as error:
                return f"{entry.name} cannot be read: {error.strerror}"
    return ""


def _refers(path: str, name: str) -> bool:
    """Whether a file has the name of a data file as a text of protobuf, which its length precedes, or at the end of a path."""
    text = os.fsencode(name)
    length = len(text) if len(text) < 128 else len(text) >> 7
    return any(_contains(path, before + text) for before in (bytes([length]), b"/", b"\\"))


def _contains(path: str, text: bytes) -> bool:
    """Whether a file contains a text. It is not read into memory."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(text) >= 0
