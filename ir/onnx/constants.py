"""The constants of an exported model: initializers of the main graph, and ConstantOfShape nodes for splats."""

from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Final

import numpy as np
from onnx import AttributeProto, NodeProto, SparseTensorProto, TensorProto

from passat.ir.expr import Constant
from passat.ir.module import IRModule
from passat.ir.naming import Names
from passat.ir.onnx.external import External
from passat.ir.onnx.tensors import dense_proto, is_written_as_splat, tensor_proto
from passat.ir.tensor import Tensor, look
from passat.ir.traverse import post_order

SHARED_BYTES: Final = 1024
"""Maximum size in bytes of constants from writers, and minimum size of those of the program, that are deduplicated. Small ones of the
program keep their names."""

Place = Callable[[Mapping[str, Tensor]], Mapping[str, TensorProto]]
"""Stores constants, or some of them, in an external file and returns the protos that refer to it."""


class ConstantPool:
    """Names and collects constants. The protos are created at the end, when all constants are known."""

    def __init__(self, names: Names, version: int) -> None:
        self.names = names
        self.version = version
        self.read: set[str] = set()
        """The names that nodes and outputs read. Constants that no node reads are not written."""
        self.sparse: list[SparseTensorProto] = []
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, Tensor] = {}
        self._tensors: dict[str, Tensor] = {}
        self._by_tensor: dict[int, str] = {}
        self._by_content: dict[tuple[object, ...], str] = {}
        self._by_look: dict[tuple[object, ...], list[str]] = {}

    def add(self, constant: Constant, wanted: str = "") -> str:
        """Returns the name of a constant of the program: the wanted name, or else that of an equal large constant, or its name in the
        source."""
        tensor = constant.data
        name = self._by_tensor.get(id(tensor))
        if name is None:
            name = wanted or self._name_of_equal(tensor)
            if not name:
                span = constant.span
                name = self.names.take(span.outputs[0] if span is not None and span.outputs else "constant")
                if tensor.nbytes > SHARED_BYTES:
                    self._by_look.setdefault(_look(tensor), []).append(name)
            self._by_tensor[id(tensor)] = name
            self._tensors.setdefault(name, tensor)
        return name

    def _name_of_equal(self, tensor: Tensor) -> str:
        if tensor.nbytes <= SHARED_BYTES:
            return ""
        return next((name for name in self._by_look.get(_look(tensor), ()) if self._tensors[name] == tensor), "")

    def add_again(self, constant: Constant, wanted: str) -> None:
        """Gives a constant of the program an additional name."""
        self._tensors[wanted] = constant.data

    def value(self, tensor: Tensor) -> str:
        """Returns the name of a constant that a writer creates."""
        key = tensor.key() if tensor.is_splat or tensor.nbytes <= SHARED_BYTES else ("object", id(tensor))
        name = self._by_content.get(key)
        if name is None:
            name = self._by_content[key] = self.names.take("constant")
            self._tensors[name] = tensor
        return name

    def finish(self, place: Place, outputs: Container[str] = ()) -> dict[str, Callable[[TensorProto], object]]:
        """Returns a function for each initializer that writes it into an empty proto, and fills `nodes`, `sparse` and `initializers`.
        `place` stores initializers externally. Of the outputs none is sparse: ONNX Runtime would return sparse tensors.

        Initializers are most of the model, so writing each into its place in the model saves memory and a copy.
        """
        dense = self.initializers
        for name, tensor in self._tensors.copy().items():
            if name not in self.read:
                continue
            if is_written_as_splat(tensor, self.version):
                shape = self.value(Tensor.dense(np.array(tensor.shape, np.int64)))
                dense[shape] = self._tensors[shape]
                value = dense_proto(Tensor.splat(tensor.uniform(), (1,), tensor.dtype), "")
                node = NodeProto(op_type="ConstantOfShape", input=[shape], output=[name])
                node.attribute.add(name="value", type=AttributeProto.TENSOR, t=value)
                self.nodes.append(node)
            elif isinstance(tensor.source, SparseTensorProto) and name not in outputs:
                proto = SparseTensorProto()
                proto.CopyFrom(tensor.source)
                proto.values.name = name
                self.sparse.append(proto)
            else:
                dense[name] = tensor
        elsewhere = place(dense)
        return {name: partial(_write, name, tensor, elsewhere.get(name)) for name, tensor in dense.items()}


def has_equal_constants(module: IRModule) -> bool:
    """True if a module has large constants that are equal, so that a model that is written has fewer."""
    found: dict[tuple[object, ...], list[Tensor]] = {}
    for function in module.functions.values():
        for node in post_order(function):
            if isinstance(node, Constant) and node.data.nbytes > SHARED_BYTES:
                alike = found.setdefault(_look(node.data), [])
                if not any(tensor is node.data for tensor in alike):
                    if node.data in alike:
                        return True
                    alike.append(node.data)
    return False


def _look(tensor: Tensor) -> tuple[object, ...]:
    return (tensor.dtype, tensor.shape, tensor.sample() if tensor.loader is None else look(tensor))


def _write(name: str, tensor: Tensor, elsewhere: TensorProto | None, proto: TensorProto) -> None:
    if elsewhere is not None:
        proto.CopyFrom(elsewhere)
    elif isinstance(tensor.source, External):
        proto.CopyFrom(tensor.source.proto)
        proto.name = name
    else:
        tensor_proto(tensor, name, proto)
