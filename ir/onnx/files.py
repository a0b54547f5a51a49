"""Model files: reading them, and writing them so that nothing is lost at any kill."""

import os
from collections.abc import Callable

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto

from passat.ir.module import IRModule
from passat.ir.onnx.errors import OnnxError
from passat.ir.onnx.exporter import export_model
from passat.ir.onnx.importer import import_model


def load_module(path: str) -> IRModule:
    """The module of a model file. Raises OnnxError that begins with the file's name."""
    model = read_model(path)
    try:
        return import_model(model, folder=os.path.dirname(path) or ".")
    except OnnxError as error:
        raise OnnxError(f"{path}: {error}") from error


def read_model(path: str) -> ModelProto:
    """The model in a file, without its external data. Raises OnnxError."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise OnnxError(f"{path} cannot be read: {error.strerror}") from error
    try:
        model = ModelProto.FromString(data)
    except DecodeError:
        raise OnnxError(f"{path} is not an ONNX model, or not all of one: it does not parse as protobuf") from None
    if not model.HasField("graph"):
        raise OnnxError(f"{path} is not an ONNX model: it has no graph")
    return model


def save_module(module: IRModule | ModelProto, path: str, *, folder: str | None = None) -> None:
    model = module if isinstance(module, ModelProto) else export_model(module)
    onnx.checker.check_model(model)
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
