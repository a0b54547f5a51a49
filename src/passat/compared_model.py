"""Models that are compared: as given or in memory, and on ONNX Runtime."""

import contextlib
import functools
import os
import shutil
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from typing import Any as AnyValue

from passat.runner import ModelSource, Runner, uninterrupted

if TYPE_CHECKING:
    from onnx import ModelProto


class ComparedModel:
    """A model as given, and in memory. Of the model in memory, large weights are in a temporary file, which its variants share."""

    def __init__(self, source: ModelSource, folder: str | None, proto: "ModelProto | None" = None) -> None:
        self.source = source
        self._read = proto
        """The model of a file, if it has been read."""
        self.folder = folder
        """The folder of the external data."""
        self._is_lean = False

    @functools.cached_property
    def proto(self) -> "ModelProto":
        """The model in memory, without its external data."""
        from passat.ir.onnx.files import in_memory  # needs onnx
        from passat.ir.onnx.lean import lean_model

        if isinstance(self.source, (str, os.PathLike)):
            self.folder = os.path.dirname(os.fspath(self.source)) or "."
        model = in_memory(self.source) if self._read is None else self._read
        with contextlib.suppress(OSError):  # without space for a file, the weights stay in memory
            if (lean := lean_model(model)) is not None:
                model, self.folder = lean
                weakref.finalize(self, uninterrupted, shutil.rmtree, self.folder, True)  # ignoring errors
                self._is_lean = True
        return model

    @functools.cached_property
    def has_loop(self) -> bool:
        """True if a Loop is in the model, its subgraphs or functions."""
        from passat.ir.onnx.scope import nodes_of  # needs onnx

        return any(node.op_type == "Loop" for node in nodes_of(self.proto))

    @property
    def runnable(self) -> ModelSource:
        """The model to load: as given if that is a file, otherwise in memory."""
        is_stored = isinstance(self.source, (bytes, str, os.PathLike))
        return self.source if is_stored and not self._is_lean else self.proto


class ComparedSession:
    """A model on ONNX Runtime. A model with random operators gets a new session for each run, since their state persists between runs."""

    def __init__(self, make: Callable[[], Runner], *, anew: bool) -> None:
        self._make = make
        self._anew = anew
        self.runner = make()

    def run(self, feed: Mapping[str, AnyValue]) -> list[AnyValue]:
        """The values of all outputs."""
        return (self._make() if self._anew else self.runner).run(feed)
