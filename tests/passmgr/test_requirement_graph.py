"""The graph of requirements: of all passes and of pipelines, with cycles and unknown names, in every form."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import (
    ModulePass,
    Pass,
    PassContext,
    Sequential,
    function_pass,
    get_pass,
    kind_of,
    list_passes,
    module_pass,
    register_pass,
    requirement_graph,
)

SVG = "{http://www.w3.org/2000/svg}"
RELAY = {"passmgr.resolve": "relay"}
Sandbox = Callable[[], AbstractContextManager[None]]


def make(name: str, required: Iterable[str] = (), level: int = 0) -> ModulePass:
    def body(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod

    return module_pass(body, opt_level=level, name=name, required=list(required))


@pytest.fixture
def members(forgotten: None) -> list[Pass]:
    register_pass("Canon", make("Canon", ["InferType"], 3))
    register_pass("Loop1", make("Loop1", ["Loop2"]))
    register_pass("Loop2", make("Loop2", ["Loop1", "Nowhere"]))
    with PassContext(config=RELAY):
        inner = Sequential([make("A", ["Canon", "B"]), make("B")], name="inner", required=["Loop1"])
        return list(Sequential([inner, make("B", ["Canon"])]).members)


def test_text(members: list[Pass]) -> None:
    assert requirement_graph(members).to_text() == (
        "inner      pipeline, level 0, requires Loop1\n"
        "  A        module, level 0, requires Canon, B\n"
        "  B        module, level 0\n"
        "B          module, level 0, requires Canon\n"
        "Loop1      module, level 0, requires Loop2 (in a cycle)\n"
        "Canon      module, level 3, requires InferType\n"
        "Loop2      module, level 0, requires Loop1 (in a cycle), Nowhere\n"
        "InferType  module, level 0\n"
        "Nowhere    not registered\n"
    )
    assert requirement_graph([]).to_text() == "(no passes)\n"


def test_json(members: list[Pass]) -> None:
    data = json.loads(requirement_graph(members).to_json())
    assert data["passes"][1] == {
        "key": "inner/A",
        "name": "A",
        "kind": "module",
        "level": 0,
        "parent": "inner",
        "requires": ["Canon", "inner/B"],
    }
    assert data["cyclic"] == [["Loop1", "Loop2"], ["Loop2", "Loop1"]]


def test_dot(members: list[Pass]) -> None:
    assert requirement_graph(members).to_dot() == (
        "digraph requirements {\n"
        "  rankdir=LR;\n"
        "  node [shape=box];\n"
        "  subgraph cluster_p1 {\n"
        '    label="inner";\n'
        "    p1 [shape=point];\n"
        '    p2 [label="A", tooltip="module, level 0"];\n'
        '    p3 [label="B", tooltip="module, level 0"];\n'
        "  }\n"
        '  p4 [label="B", tooltip="module, level 0"];\n'
        '  p5 [label="Loop1", tooltip="module, level 0"];\n'
        '  p6 [label="Canon", tooltip="module, level 3"];\n'
        '  p7 [label="Loop2", tooltip="module, level 0"];\n'
        '  p8 [label="InferType", tooltip="module, level 0"];\n'
        '  p9 [label="Nowhere", tooltip="not registered", color=red, fontcolor=red];\n'
        "  p5 -> p1;\n"
        "  p6 -> p2;\n"
        "  p3 -> p2;\n"
        "  p6 -> p4;\n"
        "  p7 -> p5 [color=red];\n"
        "  p8 -> p6;\n"
        "  p5 -> p7 [color=red];\n"
        "  p9 -> p7;\n"
        "}\n"
    )


def test_mermaid(members: list[Pass]) -> None:
    assert requirement_graph(members).to_mermaid() == (
        "flowchart LR\n"
        '  subgraph p1["inner"]\n'
        '    p2["A"]\n'
        '    p3["B"]\n'
        "  end\n"
        '  p4["B"]\n'
        '  p5["Loop1"]\n'
        '  p6["Canon"]\n'
        '  p7["Loop2"]\n'
        '  p8["InferType"]\n'
        '  p9["Nowhere"]:::unknown\n'
        "  p5 --> p1\n"
        "  p6 --> p2\n"
        "  p3 --> p2\n"
        "  p6 --> p4\n"
        "  p7 --> p5\n"
        "  p8 --> p6\n"
        "  p5 --> p7\n"
        "  p9 --> p7\n"
        "  linkStyle 4,6 stroke:#c00\n"
        "  classDef unknown color:#c00,stroke:#c00\n"
    )


def rectangles(root: ET.Element) -> dict[str, tuple[float, float, float, float]]:
    found = {}
    for at, group in enumerate(root.iter(f"{SVG}g")):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        x, y, width, height = (float(rect.get(key, "")) for key in ("x", "y", "width", "height"))
        found[f"{at} {group.findtext(f'{SVG}text', '')}"] = (x, y, x + width, y + height)
    return found


def test_svg(members: list[Pass]) -> None:
    root = ET.fromstring(requirement_graph(members).to_svg())
    found = {name.split()[1]: box for name, box in rectangles(root).items() if name != "3 B"}
    assert found["InferType"][2] < found["Canon"][0]
    assert found["Canon"][2] < found["inner"][0]
    assert found["inner"][0] < found["B"][0] < found["B"][2] < found["A"][0] < found["A"][2] < found["inner"][2]
    tooltips = {path.findtext(f"{SVG}title"): path.get("class") for path in root.iter(f"{SVG}path") if path.find(f"{SVG}title") is not None}
    assert tooltips == {
        "inner requires Loop1": "arrow",
        "A requires Canon": "arrow",
        "A requires B": "arrow",
        "B requires Canon": "arrow",
        "Canon requires InferType": "arrow",
        "Loop1 requires Loop2": "wrong",
        "Loop2 requires Loop1": "wrong",
        "Loop2 requires Nowhere": "wrong",
    }


def test_all_registered_passes(forgotten: None) -> None:
    register_pass("Needs", lambda layout: make("Needs"))
    register_pass("Odd", make("Other", ["transform.Odd"]))
    graph = requirement_graph()
    assert [node.name for node in graph.children()] == [entry.name for entry in list_passes()]
    assert (graph.nodes["Needs"].kind, graph.nodes["Needs"].level) == ("needs options", None)
    assert "Needs " in graph.to_text()
    assert ("SimplifyExpr", "InferType") in graph.edges
    assert graph.cyclic == {("Odd", "Odd")}
    ET.fromstring(graph.to_svg())


def test_kinds() -> None:
    @function_pass(opt_level=0)
    def function(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func

    class Mine(Pass):
        pass

    assert [kind_of(pass_) for pass_ in (make("A"), function, Sequential([]), Mine(), get_pass("FoldConstant"))] == [
        *("module", "function", "pipeline", "pass", "function")
    ]


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.tuples(st.integers(0, n), st.integers(0, n - 1))))), st.data())
def test_any_graph_can_be_drawn(sandbox: Sandbox, drawn: tuple[int, set[tuple[int, int]]], data: st.DataObject) -> None:
    size, edges = drawn
    made: list[Pass] = [make(f"P{i}", [f"P{a}" for a, b in sorted(edges) if b == i]) for i in range(size)]  # P{size} is unknown
    with sandbox():
        for pass_ in made:
            register_pass(pass_.info.name, pass_)
        cuts = [0, *sorted(data.draw(st.lists(st.integers(0, size), max_size=3))), size]
        with PassContext(config=RELAY):
            members = [Sequential(made[a:b], name=f"G{a}") if data.draw(st.booleans()) else made[a] for a, b in pairwise(cuts) if a < b]
        graph = requirement_graph(members)
        root = ET.fromstring(graph.to_svg())
    found = list(rectangles(root).values())
    assert len(found) == len(graph.nodes)
    page = (0.0, 0.0, float(root.get("width", "")), float(root.get("height", "")))
    for at, one in enumerate(found):
        assert _inside(one, page)
        for other in found[at + 1 :]:
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            assert apart or _inside(one, other) or _inside(other, one)


def _inside(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return other[0] <= one[0] and other[1] <= one[1] and one[2] <= other[2] and one[3] <= other[3]
