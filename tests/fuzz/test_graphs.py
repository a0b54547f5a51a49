"""The share of fuzzing that every run makes: fixed seeds. Each mapped operator is drawn in the versions that it has."""

import numpy as np
import pytest

from passat.ir.onnx_mapping import READERS
from tests.fuzz.builder import Builder
from tests.fuzz.graphs import NEWEST, OLDEST, random_case
from tests.fuzz.judge import examine
from tests.fuzz.kinds import KINDS
from tests.fuzz.operators import draw_node, form, operators

GRAPHS = 9
"""Graphs of each share."""


def test_a_seed_is_a_model() -> None:
    one, other = random_case(12), random_case(12)
    assert one is not None
    assert other is not None
    assert one.model == other.model
    assert len(one.model.graph.node) >= 3


@pytest.mark.parametrize("op", sorted(READERS))
def test_every_mapped_operator_is_drawn(op: str) -> None:
    """In each version that the operator has, unless ONNX Runtime has no kernel for that."""
    newest = {
        found.version: opset for opset in range(OLDEST, NEWEST + 1) if op in operators(opset) and (found := form(op, opset)) is not None
    }
    assert newest
    for opset in newest.values():
        graphs = [Builder(np.random.default_rng(seed), opset, most_inputs=0) for seed in range(25)]
        if not any(draw_node(graph, op) for graph in graphs):
            refusals = {graph.refusal for graph in graphs}
            assert all("NOT_IMPLEMENTED" in refusal for refusal in refusals), f"{op} in opset {opset}: {refusals}"


@pytest.mark.parametrize("share", [1, 2, 5, 6, 7, 8, 9])
def test_the_fixed_share(share: int) -> None:
    """The same graphs in every run; `make fuzz` tries others."""
    wrong = {}
    for seed in range(share * 10_000, share * 10_000 + GRAPHS):
        case, settings = KINDS["graphs"](seed)
        if case is not None and settings.math != "exact":
            wrong[f"seed {seed}, {settings}"] = examine(case, settings, twice=seed % 4 == 0)
    assert {name: finding for name, finding in wrong.items() if finding is not None} == {}
