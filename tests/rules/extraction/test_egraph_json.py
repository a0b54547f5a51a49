"""E-graphs in files: what is read, and what is refused with a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from passat.rules.extraction.ladder import climb
from passat.rules.extraction.space import EGraphFileError, parse_egraph, read_egraph


def node(eclass: str, *children: str, cost: Any = 1.0) -> dict[str, Any]:
    return {"op": "f", "cost": cost, "eclass": eclass, "children": list(children)}


GOOD = {
    "nodes": {"a0": node("a", "b0", cost=2), "a1": node("a", "c0"), "b0": node("b"), "c0": node("c", "b0")},
    "root_eclasses": ["a", "a"],
}


def test_nodes_classes_and_roots() -> None:
    egraph = parse_egraph(GOOD)
    assert egraph.names == ["a0", "a1", "b0", "c0"]
    assert egraph.space.classes == [0, 0, 2, 3]
    assert egraph.space.children == [(2,), (3,), (), (2,)]
    assert egraph.space.costs == [2.0, 1.0, 1.0, 1.0]
    assert egraph.space.alternatives == {0: [0, 1]}
    assert egraph.roots == [0]
    assert climb(egraph.space, egraph.roots).cost == 3.0


def test_what_else_a_file_holds_is_ignored() -> None:
    assert parse_egraph({**GOOD, "class_data": {"a": {"type": "i32"}}}).roots == [0]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], 'no e-graph: it has to have "nodes"'),
        ({"nodes": {}}, 'a list of "root_eclasses"'),
        ({"nodes": [], "root_eclasses": []}, 'no e-graph: it has to have "nodes"'),
        ({"nodes": {"a": node("x")}, "root_eclasses": []}, "it has no roots"),
        ({"nodes": {"a": node("x")}, "root_eclasses": ["y"]}, "the root 'y' is no class of any node"),
        ({"nodes": {"a": node("x")}, "root_eclasses": [["x"]]}, r"the root \['x'\] is no class"),
        ({"nodes": {"a": node("x", "b")}, "root_eclasses": ["x"]}, "the node 'a' has the child 'b', which is no node"),
        ({"nodes": {"a": {"op": "f"}}, "root_eclasses": ["x"]}, "the node 'a' has to have an \"eclass\""),
        ({"nodes": {"a": node("x", cost=-1)}, "root_eclasses": ["x"]}, "the cost of the node 'a' is -1"),
        ({"nodes": {"a": node("x", cost=float("nan"))}, "root_eclasses": ["x"]}, "the cost of the node 'a' is nan"),
        ({"nodes": {"a": node("x", cost="1")}, "root_eclasses": ["x"]}, "the cost of the node 'a' is '1'"),
        ({"nodes": {"a": node("x", cost=True)}, "root_eclasses": ["x"]}, "the cost of the node 'a' is True"),
    ],
)
def test_what_is_no_egraph_is_refused(data: Any, sentence: str) -> None:
    with pytest.raises(EGraphFileError, match=sentence):
        parse_egraph(data)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"nodes": {"a": {"cost": 1}}, "root_eclasses": []}'])
def test_errors_name_the_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "graph.json"
    path.write_bytes(content)
    with pytest.raises(EGraphFileError, match=r"graph\.json: "):
        read_egraph(path)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GOOD))
    assert read_egraph(path).names == parse_egraph(GOOD).names
    with pytest.raises(FileNotFoundError):
        read_egraph(tmp_path / "none.json")
