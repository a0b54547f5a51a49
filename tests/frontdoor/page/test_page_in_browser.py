"""Pages in a real browser. Skipped where there is no Chromium (on Debian and Ubuntu: `apt-get install chromium`)."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

import passat
from tests.frontdoor.page.browser import BrowserError, Tab, browser, find_chromium
from tests.frontdoor.page.large_model import NODES_OF_A_LAYER, layered
from tests.frontdoor.page.pages import optimized, small_model
from tests.frontdoor.small_pipeline import SMALL

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; CHROMIUM may name one")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "models"

ATTACKS = [
    "</script><script>window.hacked = 1</script>",
    '<img src=x onerror="window.hacked = 1">',
    '"><svg onload=window.hacked=1>',
    "<!--<script>",
    "' onclick='window.hacked = 1",
    "javascript:window.hacked=1",
    "safe\u202egnp.exe",
    "line\u2028line\u2029line",
    "nul\0nul",
    "${window.hacked = 1}`",
    "{{7*7}}\\u003c",
    "long" * 50_000,
]


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    assert CHROMIUM is not None
    with browser(CHROMIUM) as tab:
        yield tab


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bert") / "page.html"
    passat.optimize(EXAMPLES / "bert_tiny.onnx", passes=SMALL, record=True).write_report(place)
    return place


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the default pipeline does, which has passes without rules."""
    place = tmp_path_factory.mktemp("walked") / "page.html"
    passat.optimize(EXAMPLES / "bert_tiny.onnx", record=True).write_report(place)
    return place


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("large") / "page.html"
    passat.optimize(layered(20_000 // NODES_OF_A_LAYER + 1), passes="SimplifyExpr", record=True, verify=False).write_report(place)
    return place


@pytest.fixture(autouse=True)
def in_peace(tab: Tab) -> Iterator[None]:
    """Nothing is logged, raised, forbidden or asked of a network."""
    tab.complaints.clear()
    tab.requests.clear()
    yield
    assert tab.complaints == []
    assert all(url.startswith(("file:", "data:")) for url in tab.requests)


def pixels(side: str) -> str:
    """A script for the pixels of a drawing, taken from a copy."""
    copy = "Object.assign(document.createElement('canvas'), { width: c.width, height: c.height })"
    read = "k.drawImage(c, 0, 0); return k.getImageData(0, 0, c.width, c.height).data.buffer"
    return f"(() => {{ const c = byId('{side}'); const k = {copy}.getContext('2d', {{ willReadFrequently: true }}); {read}; }})()"


def colors(tab: Tab, side: str) -> int:
    """How many different colors are in a drawing."""
    return int(tab.run(f"new Set(new Uint32Array({pixels(side)})).size"))


def frame(tab: Tab) -> None:
    tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_all_parts_of_a_page(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    assert tab.text("h1") == "bert_tiny.onnx"
    assert "197 \u2192 80" in tab.text("#cards")
    assert tab.text("#verdicts").startswith("verified on ONNX Runtime")
    assert tab.text("#caption-before").startswith("Before: 201 calls")
    assert colors(tab, "before") > 5
    assert colors(tab, "after") > 5
    assert "Weights.into_weight" in tab.text("#rules")
    assert "rules matched nothing" in tab.text("#rules")
    assert tab.run("document.querySelectorAll('#clusters svg g[role=button]').length") > 1
    assert tab.run("document.querySelectorAll('#rounds .chart svg polyline').length") >= 2
    assert "SimplifyExpr" in tab.text("#passes .tree")
    assert "does not run: required by" in tab.text("#passes .plan")
    assert "Unsqueeze" in tab.text("#operators")


def test_the_drawing_of_the_plan_is_a_picture(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    tab.run("document.querySelector('#passes img').closest('details').open = true")
    assert tab.run("document.querySelector('#passes img').decode().then(() => document.querySelector('#passes img').naturalWidth)") > 100


def test_a_click_shows_a_node_and_its_counterpart(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    node = tab.run("data.graphs.before.twin.findIndex((twin, i) => twin >= 0 && data.graphs.before.kind[i] === 0)")
    place = tab.run(
        f"(() => {{ const v = views.before; v.show({node}); v.selected = -1; const r = v.canvas.getBoundingClientRect();"
        f"return [r.left + r.width / 2, r.top + r.height / 2]; }})()"
    )
    tab.click(*place)
    assert tab.run("views.before.selected") == node
    assert tab.run(f"views.after.selected === data.graphs.before.twin[{node}]")
    assert tab.text("#details h3") == tab.run(f"text(data.graphs.before.label[{node}])")
    assert "Operands" in tab.text("#details")
    tab.run("document.querySelector('#details dd li button').click()")
    assert tab.run("views.before.selected") != node


def test_the_tree_of_times_of_nested_pipelines(tab: Tab, tmp_path: Path) -> None:
    text = "Sequential{name=all}(Sequential{name=outer}(Sequential{name=inner}(SimplifyExpr,FoldConstant),DeadCodeElimination))"
    passat.optimize(small_model(), passes=text, record=True).write_report(tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    names = "(within) => [...document.querySelectorAll(`#passes .tree ${within} .row bdi`)].map((each) => each.textContent)"
    every, inside = tab.run(f"({names})('')"), tab.run(f"({names})('details details .leaf')")
    assert every[:2] == ["outer", "inner"]
    assert {"SimplifyExpr", "FoldConstant"} <= set(inside)
    assert "DeadCodeElimination" not in inside
    tab.run("document.querySelector('#passes .tree details').open = false")
    assert tab.run("document.querySelector('#passes .tree details details').checkVisibility()") is False


def test_search(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    tab.run("byId('search').focus()")
    tab.call("Input.insertText", text="LayerNorm")
    assert tab.text("#matches") == tab.run("SIDES.map((side) => `${search.matches[side].length} ${side}`).join(', ')")
    assert tab.run("search.matches.before.length") > 1
    tab.press("Enter", 13, "\r")
    assert tab.text("#matches").startswith("1 of ")
    chosen = tab.run("views.before.selected")
    assert "layernorm" in tab.run(
        f"(text(data.graphs.before.name[{chosen}]) + text(data.graphs.before.outputs[{chosen}][0] ?? 1)).toLowerCase()"
    )
    tab.run("byId('search').value = 'there is no such thing'; byId('search').dispatchEvent(new Event('input'))")
    assert tab.text("#matches") == "0 before, 0 after"
    assert tab.run("byId('next').disabled")


def test_the_keyboard_moves_a_graph(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    tab.run("byId('after').focus()")
    before = tab.run("[views.after.scale, views.after.left]")
    tab.press("+", 187, "+")
    tab.press("ArrowRight", 39)
    scale, left = tab.run("[views.after.scale, views.after.left]")
    assert scale > before[0]
    assert left > before[1]
    tab.press("Enter", 13, "\r")
    assert tab.run("views.after.selected") >= 0
    tab.press("Escape", 27)
    tab.press("0", 48, "0")
    assert tab.run("views.after.selected") == -1
    assert tab.run("[views.after.scale, views.after.left]") == pytest.approx(before)


def test_the_wheel_zooms_only_a_graph_that_has_the_focus(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    x, y = tab.run("(() => { const r = byId('before').getBoundingClientRect(); return [r.left + 50, r.top + 50]; })()")
    scale = tab.run("views.before.scale")
    tab.run("document.activeElement.blur()")
    tab.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-200)
    frame(tab)
    assert tab.run("views.before.scale") == scale
    tab.run("window.scrollTo(0, 0); byId('before').focus({ preventScroll: true })")
    tab.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-200)
    frame(tab)
    assert tab.run("views.before.scale") > scale


def test_the_table_of_rules_is_sorted_by_any_column(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    rows = "[...document.querySelectorAll('#rules tbody tr:not([hidden]) td:first-child')].map((cell) => cell.textContent)"
    tab.run("document.querySelectorAll('#rules th button')[0].click()")
    names = tab.run(rows)
    assert names == sorted(names)
    tab.run("document.querySelectorAll('#rules th button')[0].click()")
    assert tab.run(rows) == names[::-1]
    assert tab.run("document.querySelectorAll('#rules th')[0].getAttribute('aria-sort')") == "descending"


def test_reasons_of_refusals_unfold(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    tab.run("document.querySelector('#rules button.more').click()")
    assert tab.run("document.querySelector('#rules tr:has(button.more)').nextSibling.hidden") is False


def test_what_a_rule_made_is_shown(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    tab.run("showRule('Weights.into_weight')")
    assert tab.text("#matches") == "4 calls made by Weights.into_weight"
    tab.run("byId('next').click()")
    assert "Made by the rule" in tab.text("#details")
    tab.run("[...document.querySelectorAll('#details button')].at(-1).click()")
    assert tab.run("document.querySelector('#clusters .chosen .made') !== null")


def test_what_a_pass_without_rules_made_is_shown(tab: Tab, walked: Path) -> None:
    tab.open(walked)
    graph = "data.graphs.after"
    node = tab.run(f"{graph}.pass.findIndex((name, i) => text(name) === 'CollapseBatchRegions' && {graph}.changed[i] === 1)")
    assert node >= 0
    tab.run(f"showDetails('after', {node})")
    assert "Made by the pass" in tab.text("#details")
    assert "CollapseBatchRegions" in tab.text("#details")


def test_another_class_is_chosen_by_click_key_or_list(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    first = tab.run("shownClass.cls")
    tab.run("document.querySelector('#clusters g[role=button]:not(.chosen)').dispatchEvent(new Event('click'))")
    second = tab.run("shownClass.cls")
    assert second != first
    tab.run("document.querySelector('#clusters g[role=button]:not(.chosen)').focus()")
    tab.press("Enter", 13, "\r")
    assert tab.run("shownClass.cls") != second
    tab.run(f"byId('class').value = '{first}'; byId('class').dispatchEvent(new Event('change'))")
    assert tab.run("shownClass.cls") == first


def test_every_class_of_every_egraph_can_be_drawn(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    drawn = "data.egraphs.reduce((sum, graph, run) => { graph.classes.forEach((_, cls) => showClass(run, cls)); return sum + graph.classes.length; }, 0)"
    assert tab.run(drawn) > 500


def test_light_and_dark(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    frame(tab)
    light = tab.run("getComputedStyle(document.body).backgroundColor")
    pixel = f"[...new Uint8Array({pixels('before')}).slice(0, 4)]"
    assert tab.run(pixel) == [255, 255, 255, 255]
    tab.dark(True)
    frame(tab)
    assert tab.run("getComputedStyle(document.body).backgroundColor") != light
    assert max(tab.run(pixel)[:3]) < 40


@pytest.mark.parametrize("width", [400, 900, 1800])
def test_nothing_is_wider_than_the_window(tab: Tab, bert: Path, width: int) -> None:
    tab.open(bert, width=width)
    assert tab.run("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_names_stay_texts(tab: Tab, tmp_path: Path, attack: str) -> None:
    model = small_model(name=attack, value=attack)
    model.graph.node[3].name = attack
    optimized(model).write_report(tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    for side in ("before", "after"):
        for node in range(tab.run(f"views.{side}.count")):
            tab.run(f"goTo('{side}', {node})")
            frame(tab)
    assert tab.run("typeof window.hacked") == "undefined"
    assert tab.run("document.scripts.length") == 2
    assert tab.run("document.querySelectorAll('main img').length") == 1
    shown = tab.run("text(data.graphs.before.name[1])")
    assert len(shown) <= 400
    if attack.isprintable() and len(attack) < 400:
        assert shown == attack
        tab.run("goTo('before', 1)")
        assert attack in tab.text("#details")


def test_the_name_of_the_file_stays_a_text(tab: Tab, tmp_path: Path) -> None:
    place = tmp_path / "<img src=x onerror=hacked=1>&amp;.onnx"
    onnx.save(small_model(), place)
    optimized(place).write_report(tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    assert tab.text("h1") == place.name
    assert tab.run("document.title") == f"{place.name} - Passat"
    assert tab.run("typeof window.hacked") == "undefined"


def test_even_a_script_that_got_in_could_not_run(tab: Tab, tmp_path: Path) -> None:
    """The policy of the page holds by itself."""
    optimized(small_model()).write_report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text("utf-8")
    (tmp_path / "page.html").write_text(
        text.replace("</main>", "<script>window.hacked = 1</script><img src='https://example.org/x.png'></main>")
    )
    with contextlib.suppress(BrowserError):  # it may complain before or after it is drawn
        tab.open(tmp_path / "page.html")
    assert tab.run("typeof window.hacked") == "undefined"
    assert len([said for said in tab.complaints if "Content Security Policy" in said]) == 2
    tab.complaints.clear()
    tab.requests.clear()


def test_twenty_thousand_nodes(tab: Tab, large: Path) -> None:
    tab.open(large)
    assert tab.run("views.before.count") >= 20_000
    assert "left out" not in tab.text("#graphs")
    assert colors(tab, "before") > 10
    for _ in range(12):
        tab.run("views.before.zoom(1.5)")
        frame(tab)
    assert tab.run("views.before.scale") >= 0.75
    tab.run("goTo('before', 10000)")
    frame(tab)
    assert colors(tab, "before") > 10
    assert "/encoder/layer." in tab.text("#details")
    tab.run("byId('search').value = 'layer.500/'; byId('search').dispatchEvent(new Event('input'))")
    assert tab.text("#matches") == f"{NODES_OF_A_LAYER} before, {NODES_OF_A_LAYER - 5} after"
    assert re.fullmatch(r"2000 of 20\d\d\d nodes, those around which rules did something.*", tab.text("#region"))
