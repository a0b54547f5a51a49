"""Plans as SVG: valid, complete, self-contained, without overlaps."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.module import IRModule
from passat.passmgr import ModulePass, Pass, PassContext, Sequential, module_pass, register_pass
from passat.passmgr.planning.render import text_width
from tests.share import share

SVG = "{http://www.w3.org/2000/svg}"


def make(name: str, required: Iterable[str] = (), preserves: str = "", level: int = 0) -> ModulePass:
    def body(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod

    return module_pass(body, opt_level=level, name=name, required=list(required), preserves=preserves or ())


def boxes(root: ET.Element) -> dict[str, tuple[float, float, float, float]]:
    """The left, top, right and bottom of each box by name; repeated names get a number."""
    found: dict[str, tuple[float, float, float, float]] = {}
    for group in root.iter(f"{SVG}g"):
        rect, name = group.find(f"{SVG}rect"), group.findtext(f"{SVG}text", "")
        assert rect is not None
        x, y, width, height = (float(rect.get(key, "")) for key in ("x", "y", "width", "height"))
        found[name if name not in found else f"{name} #{len(found)}"] = (x, y, x + width, y + height)
    return found


def inside(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return other[0] <= one[0] and other[1] <= one[1] and one[2] <= other[2] and one[3] <= other[3]


@pytest.fixture
def pipeline(forgotten: None) -> Sequential:
    register_pass("Canon", make("Canon", ["InferType"], "*", level=4))
    inner = Sequential([make("A", ["InferType", "Canon"], "*"), make("High", level=9)], name="inner <&>")
    return Sequential(
        [make("First", ["InferType"], "*"), inner, make("Off"), make('L "q"', ["InferType"]), make("Z", ["Canon"])], name="mine"
    )


def test_contents(pipeline: Sequential) -> None:
    root = ET.fromstring(pipeline.plan(PassContext(opt_level=3, disabled_pass=["Off", "Zz"])).to_svg())
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title") == "The plan of mine"
    assert {"mine", "at opt_level 3"} <= {text.text for text in root.iter(f"{SVG}text")}
    assert any("note: disabled_pass names 'Zz'" in (text.text or "") for text in root.iter(f"{SVG}text"))
    found = boxes(root)
    assert [name.split(" #")[0] for name in found] == [
        *("1  InferType", "2  First", "3  inner <&>", "3.1  Canon", "3.2  A", "High"),
        *("Off", '4  "L \\"q\\""', "5  InferType", "6  Canon", "7  Z"),
    ]
    assert found["3.2  A"][0] > found["3  inner <&>"][0]
    small = {text.text for text in root.iter(f"{SVG}text") if text.get("class") == "small"}
    assert {
        "does not run: its level 9 > 3",
        "dashed lines lead from a pass to the passes that require it or are declared to run after it",
    } <= small
    off = {group.findtext(f"{SVG}text"): group.findtext(f"{SVG}title") for group in root.iter(f"{SVG}g") if group.get("class") == "off"}
    assert off == {
        "High": "High: does not run: its level 9 > 3",
        "Off": "Off: does not run: it is disabled",
    }
    relied = {
        path.findtext(f"{SVG}title")
        for path in root.iter(f"{SVG}path")
        if path.get("class") == "needs" and path.find(f"{SVG}title") is not None
    }
    assert relied == {"A requires InferType", 'L "q" requires InferType'}


def test_it_needs_nothing_but_itself_and_follows_the_colors_of_the_system(pipeline: Sequential) -> None:
    text = pipeline.plan().to_svg()
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert "@media (prefers-color-scheme: dark)" in text
    assert not re.search(r"<(script|image|use|foreignObject|link)|@import", text)
    light, dark = text.split("@media", 1)
    classes = {name for group in re.findall(r'class="([^"]+)"', text) for name in group.split()} - {"strong"}
    assert all(f".{name}" in light for name in classes)
    assert all(f".{name}" in dark for name in classes if name not in ("group", "required", "off", "small"))


def test_nothing_to_run_and_as_in_tvm(pipeline: Sequential) -> None:
    assert "(nothing to run)" in Sequential([], name="x").plan().to_svg()
    assert "requirements resolved as in TVM" in pipeline.plan(PassContext(config={"passmgr.resolve": "relay"})).to_svg()


def test_the_same_plan_gives_the_same_picture(pipeline: Sequential) -> None:
    assert pipeline.plan().to_svg() == pipeline.plan().to_svg()


def test_the_deepest_pipeline(forgotten: None) -> None:
    pipeline = Sequential([make("A")])
    for _ in range(99):
        pipeline = Sequential([pipeline])
    assert len(boxes(ET.fromstring(pipeline.plan().to_svg()))) == 100


names = st.text(max_size=30)
passes: st.SearchStrategy[Pass] = st.recursive(
    st.builds(make, names, st.lists(st.just("InferType"), max_size=1), st.sampled_from(["", "*"]), st.integers(0, 4)),
    lambda inner: st.builds(Sequential, st.lists(inner, max_size=3), st.integers(0, 3), names),
    max_leaves=12,
)


@settings(max_examples=share(25, 150))
@given(st.lists(passes, max_size=5))
def test_boxes_of_any_plan_stand_in_the_picture_one_below_the_other(members: list[Pass]) -> None:
    plan = Sequential(members).plan(PassContext())
    root = ET.fromstring(plan.to_svg())
    found = list(boxes(root).values())
    assert len(found) == sum(step.established_by is None for step in plan.walk())
    page = (0.0, 0.0, float(root.get("width", "")), float(root.get("height", "")))
    for at, one in enumerate(found):
        assert inside(one, page)
        assert all(one[3] <= other[1] for other in found[at + 1 :])


def test_text_is_estimated_and_escaped() -> None:
    assert text_width("wide") > text_width("tidy") > text_width("til")
    assert text_width("\u4e2d\u6587") > text_width("ab")
    root = ET.fromstring(Sequential([Sequential([], name="<a & \x00\ud800>")], name="t<").plan().to_svg())
    assert [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "strong"] == ["t<", "1  <a & \ufffd\ufffd>"]
    assert root.findtext(f"{SVG}title") == "The plan of t<"
