"""The constants of an exported model: initializers of the main graph, and ConstantOfShape nodes for splats."""

from collections.abc import Callable, Collection, Container, Mapping
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


class _Equal:
    """Finds equal large tensors. Contents are only hashed of those that look alike."""

    def __init__(self) -> None:
        self._first: dict[tuple[object, ...], tuple[Tensor, str]] = {}
        self._by_key: dict[tuple[object, ...], str] = {}

    def name_of(self, tensor: Tensor) -> str:
        """The name of an equal tensor that was added; empty if there is none."""
        first = self._first.get(_look(tensor))
        if first is None:
            return ""
        self._by_key.setdefault(first[0].key(), first[1])
        return self._by_key.get(tensor.key(), "")

    def add(self, tensor: Tensor, name: str) -> None:
        """Adds a tensor to which none is equal."""
        if self._first.setdefault(_look(tensor), (tensor, name))[0] is not tensor:
            self._by_key[tensor.key()] = name


class ConstantPool:
    """Names and collects constants. The protos are created at the end, when all constants are known. Constants that have one of the names
    in `apart` in the source keep it, and are not shared with equal ones."""

    def __init__(self, names: Names, version: int, apart: Collection[str] = ()) -> None:
        self.names = names
        self._apart = apart
        self.version = version
        self.read: set[str] = set()
        """The names that nodes and outputs read. Constants that no node reads are not written."""
        self.sparse: list[SparseTensorProto] = []
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, Tensor] = {}
        self._tensors: dict[str, Tensor] = {}
        self._by_tensor: dict[int, tuple[str, Tensor]] = {}
        self._by_content: dict[tuple[object, ...], str] = {}
        self._equal = _Equal()

    def add(self, constant: Constant, wanted: str = "") -> str:
        """Returns the name of a constant of the program: the wanted name, or else that of an equal large constant, or its name in the
        source."""
        tensor = constant.data
        known = self._by_tensor.get(id(tensor))
        if known is not None:
            return known[0]
        source = constant.span.outputs[0] if constant.span is not None and constant.span.outputs else ""
        shared = tensor.nbytes > SHARED_BYTES and source not in self._apart
        name = wanted or (self._equal.name_of(tensor) if shared else "")
        if not name:
            name = self.names.take(source or "constant")
            if shared:
                self._equal.add(tensor, name)
        self._by_tensor[id(tensor)] = name, tensor
        self._tensors.setdefault(name, tensor)
        return name

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
    equal, seen = _Equal(), set[int]()
    for function in module.functions.values():
        for node in post_order(function):
            if isinstance(node, Constant) and node.data.nbytes > SHARED_BYTES and id(node.data) not in seen:
                if equal.name_of(node.data):
                    return True
                seen.add(id(node.data))
                equal.add(node.data, "constant")
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
