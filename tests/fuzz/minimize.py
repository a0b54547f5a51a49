"""Reduces models that show a defect: removes outputs, nodes, inputs and attributes while the defect stays."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from tests.fuzz.graphs import Case, counted
from tests.fuzz.judge import Finding, Settings, examine
from tests.fuzz.noise import inner_values
from tests.fuzz.values import OUTSIDE

Test = Callable[[Case], Finding | None]


class Minimizer:
    """Reduces a case within a time limit, keeping its defect."""

    def __init__(self, case: Case, finding: Finding, settings: Settings, seconds: float = 60.0) -> None:
        feed = case.feeds[finding.feed]
        self.finding = replace(finding, feed=0)
        self.settings = settings
        self.best = Case(case.name, case.model, (feed,))
        self.deadline = time.monotonic() + seconds

    def run(self) -> tuple[Case, Finding]:
        """The smallest case found."""
        changed = True
        while changed and time.monotonic() < self.deadline:
            changed = self._outputs() | self._nodes() | self._inputs() | self._attributes() | self._rest()
        return self.best, self.finding

    def _try(self, model: ModelProto, feed: dict[str, Any] | None = None) -> bool:
        """Accepts a model as the best one if it is valid and shows the same defect."""
        if time.monotonic() > self.deadline:
            return False
        try:
            _tidy(model)
            given = {value.name for value in model.graph.input}
            values = {**self.best.feeds[0], **(feed or {})}
            smaller = counted(self.best.name, model, ({name: value for name, value in values.items() if name in given},))
            found = examine(smaller, self.settings, twice=self.finding.kind == "not the same twice") if smaller is not None else None
        except Exception:  # this step went too far
            return False
        if smaller is None or found is None or not found.same_as(self.finding):
            return False
        self.best, self.finding = smaller, found
        return True

    def _copy(self) -> ModelProto:
        copy = ModelProto()
        copy.CopyFrom(self.best.model)
        return copy

    def _outputs(self) -> bool:
        """Ends the model at one value: the earliest possible one, or one of its outputs."""
        model = self.best.model
        made = [name for node in model.graph.node for name in node.output if name]
        if len(model.graph.output) == 1 and len(model.graph.node) <= 1:
            return False
        values = inner_values(model, self.best.feeds[0])
        last = {value.name: value for value in model.graph.output}
        for name in [*made, *last]:
            if [name] == list(last) or (name not in last and (name not in values or values[name][0] not in OUTSIDE)):
                continue
            smaller = self._copy()
            del smaller.graph.output[:]
            kind, array = values.get(name, (0, None))
            smaller.graph.output.append(last[name] if name in last else helper.make_tensor_value_info(name, kind, [None] * np.ndim(array)))
            if self._try(smaller):
                return True
        return False

    def _nodes(self) -> bool:
        """Removes runs of nodes; their readers read constants or inputs with the same values."""
        changed, size = False, max(len(self.best.model.graph.node) // 2, 1)
        while size:
            start = 0
            while start < len(self.best.model.graph.node):
                if self._without(range(start, min(start + size, len(self.best.model.graph.node)))):
                    changed = True
                else:
                    start += size
            size //= 2
        return changed

    def _without(self, places: Sequence[int]) -> bool:
        values = inner_values(self.best.model, self.best.feeds[0])
        for as_input in (False, True):
            model = self._copy()
            gone = {name for i in places for name in model.graph.node[i].output if name}
            for i in reversed(places):
                del model.graph.node[i]
            left = {name for name in _read(model) if name in gone}
            if not left <= set(values) or any(value.name in gone for value in model.graph.output):
                return False
            feed = {}
            for name in sorted(left):
                kind, array = values[name]
                if as_input and kind in OUTSIDE:
                    model.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
                    feed[name] = array
                else:
                    model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
            if self._try(model, feed):
                return True
            if not left:
                return False
        return False

    def _inputs(self) -> bool:
        """Turns inputs into constants, and removes optional operands."""
        changed = False
        for value in list(self.best.model.graph.input):
            array = self.best.feeds[0][value.name]
            if isinstance(array, list):
                continue
            model = self._copy()
            model.graph.input.remove(value)
            kind = value.type.tensor_type.elem_type
            tensor = numpy_helper.from_array(np.asarray(array), value.name)
            assert tensor.data_type == kind
            model.graph.initializer.append(tensor)
            changed |= self._try(model)
        for i, node in enumerate(list(self.best.model.graph.node)):
            for count in range(1, len(node.input)):
                model = self._copy()
                del model.graph.node[i].input[count:]
                if self._try(model):
                    changed = True
                    break
        return changed

    def _attributes(self) -> bool:
        changed = False
        for i in range(len(self.best.model.graph.node)):
            for name in [attribute.name for attribute in self.best.model.graph.node[i].attribute]:
                model = self._copy()
                node = model.graph.node[i]
                kept = [attribute for attribute in node.attribute if attribute.name != name]
                del node.attribute[:]
                node.attribute.extend(kept)
                changed |= self._try(model)
        return changed

    def _rest(self) -> bool:
        """Removes declared types, and gives dimensions their sizes."""
        changed = False
        for model in self._plainer():
            if model != self.best.model:
                changed |= self._try(model)
        return changed

    def _plainer(self) -> Iterator[ModelProto]:
        model = self._copy()
        del model.graph.value_info[:]
        yield model
        model = self._copy()
        for value in model.graph.input:
            array = self.best.feeds[0][value.name]
            if not isinstance(array, list):
                value.CopyFrom(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, np.shape(array)))
        yield model
        for i, tensor in enumerate(self.best.model.graph.initializer):
            try:
                array = numpy_helper.to_array(tensor)
            except ValueError:  # it holds more elements than declared, or fewer
                continue
            if array.size > 1 and array.dtype.kind in "f":
                model = self._copy()
                model.graph.initializer[i].CopyFrom(numpy_helper.from_array(np.ones_like(array), tensor.name))
                yield model


def _read(model: ModelProto) -> set[str]:
    """All names that are read in a model, in its subgraphs too."""
    found = {value.name for value in model.graph.output}
    pending: list[Any] = [model.graph]
    while pending:
        graph = pending.pop()
        node: NodeProto
        for node in graph.node:
            found |= set(node.input)
            for attribute in node.attribute:
                graphs = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
                pending += graphs
                found |= {value.name for inner in graphs for value in inner.output}
    return found


def _tidy(model: ModelProto) -> None:
    """Removes unused nodes, initializers, inputs, functions and types."""
    graph = model.graph
    while True:
        read = _read(model)
        dead = [node for node in graph.node if read.isdisjoint(node.output)]
        for node in dead:
            graph.node.remove(node)
        if not dead:
            break
    for entries in (graph.initializer, graph.input):
        for entry in [entry for entry in entries if entry.name not in read]:
            entries.remove(entry)
    called = {(node.domain, node.op_type) for node in graph.node}
    if not any(node.op_type in ("If", "Loop", "Scan", "SequenceMap") for node in graph.node):
        for function in [f for f in model.functions if (f.domain, f.name) not in called]:
            model.functions.remove(function)
    names = {name for node in graph.node for name in node.output}
    for value in [value for value in graph.value_info if value.name not in names]:
        graph.value_info.remove(value)
