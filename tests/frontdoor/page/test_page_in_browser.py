"""Pages in a real browser. Skipped without Chromium (on Debian and Ubuntu: `apt-get install chromium`)."""

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
    result = passat.optimize(EXAMPLES / "bert_tiny.onnx", passes=SMALL, record=True)
    result.write_report(place)
    result.save(place.with_suffix(".onnx"))
    return place


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the default pipeline, which has passes without rules."""
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
    """Asserts that nothing is logged, raised, blocked or requested from a network."""
    tab.complaints.clear()
    tab.requests.clear()
    yield
    assert tab.complaints == []
    assert all(url.startswith(("file:", "data:")) for url in tab.requests)


def boxes(tab: Tab, side: str) -> list[str]:
    """The operators of the boxes of a picture."""
    return list(tab.run(f"[...document.querySelectorAll('#{side} .node .operator')].map((each) => each.textContent)"))


def search(tab: Tab, text: str) -> str:
    """Searches for a text. Returns the page's text about the matches."""
    tab.run("byId('search').value = ''; byId('search').focus()")
    tab.call("Input.insertText", text=text)
    return tab.text("#matches")


def frame(tab: Tab) -> None:
    tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_all_parts_of_a_page(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    assert tab.text("h1") == "bert_tiny.onnx"
    before, after = (passat.inspect(model).node_count for model in (EXAMPLES / "bert_tiny.onnx", bert.with_suffix(".onnx")))
    assert f"{before} \u2192 {after}" in tab.text("#cards")
    assert tab.text("#verdicts").startswith("verified on ONNX Runtime")
    assert tab.text("#count-before") == f"Before: {before} nodes"
    assert tab.text("#count-after") == f"After: {after} nodes"
    assert len(boxes(tab, "before")) > 2
    assert len(boxes(tab, "after")) > 1
    assert "Products.through_view" in tab.text("#rules")
    tab.run("document.querySelector('#rules > button').click()")
    assert "Products.into_weight" in tab.text("#rules tbody")
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


def test_the_largest_saving_is_shown_first_on_both_sides(tab: Tab, walked: Path) -> None:
    tab.open(walked, width=1280, height=900)
    savings = tab.run("data.regions.map(saving)")
    assert savings[0] == max(savings) > 0
    first, places = tab.text("#list .change"), tab.run("data.regions[0].instances.length")
    gone, new = (
        tab.run(f"[...document.querySelectorAll('#{box} .operator')].map((each) => each.textContent)")
        for box in ("before .gone", "after .new")
    )
    assert gone
    assert new
    assert f"{' + '.join(gone)} \u2192 {' + '.join(new)}" in first
    assert f"{places} places" in first
    assert tab.text("#place") == f"Place 1 of {places}"
    assert tab.text("#caption-before").startswith(f"Before: {len(gone)} removed nodes, cost ")
    assert tab.text("#caption-after").startswith(f"After: {len(new)} new node, cost ")
    seen = tab.run(
        "['before', 'after'].every((side) => { const r = byId(side).querySelector('.node:not(.around) rect').getBoundingClientRect();"
        "return r.top >= 0 && r.bottom <= innerHeight && r.height > 20; })"
    )
    assert seen, "the change is on the first screen, at a size at which it can be read"


def test_surroundings_of_a_change_are_aligned_on_both_sides(tab: Tab, walked: Path) -> None:
    tab.open(walked, width=1280, height=900)
    shared = tab.run(
        "SIDES.map((side) => Object.fromEntries(shown.layouts[side].nodes.map((node, at) => [side === 'before' ? node :"
        " data.graphs.after.twin[node], Math.round(shown.layouts[side].boxes[at].y)])))"
    )
    last = max(shared[0], key=lambda node: shared[0][node])
    assert shared[1][last] == shared[0][last]


def test_the_places_of_a_change_are_shown_in_turn(tab: Tab, walked: Path) -> None:
    tab.open(walked)
    names, places = set(), tab.run("data.regions[0].instances.length")
    assert places > 1
    for _ in range(places):
        names.add(tab.run("text(data.graphs.after.name[shown.place.after[0]])"))
        tab.run("byId('next-place').click()")
    assert len(names) == places
    assert tab.text("#place") == f"Place 1 of {places}"


def test_every_change_can_be_shown(tab: Tab, walked: Path) -> None:
    tab.open(walked)
    for number in range(tab.run("data.regions.length")):
        tab.run(f"showChange({number}, 0)")
        assert tab.run("Number.isFinite(shown.scale) && shown.scale > 0")
        assert "Estimated cost here" in tab.text("#details")
        drawn = tab.run("SIDES.every((side) => shown.place[side].every((node) => byId(side).querySelector(`[data-node='${node}']`)))")
        assert drawn


def test_a_click_shows_a_node_and_its_counterpart(tab: Tab, walked: Path) -> None:
    tab.open(walked, width=1280, height=900)
    node = tab.run("Number(document.querySelector('#before .node.around.same').dataset.node)")
    x, y = tab.run(
        f"(() => {{ const r = byId('before').querySelector(`[data-node='{node}'] rect`).getBoundingClientRect();"
        "return [r.left + r.width / 2, r.top + r.height / 2]; })()"
    )
    tab.click(x, y)
    assert tab.run("Number(document.querySelector('#before .chosen').dataset.node)") == node
    assert tab.run(f"Number(document.querySelector('#after .chosen').dataset.node) === data.graphs.before.twin[{node}]")
    assert tab.text("#details h3") == tab.run(f"text(data.graphs.before.label[{node}])")
    assert "unchanged (before)" in tab.text("#details")
    assert "Counterpart after" in tab.text("#details")
    tab.run("document.querySelector('#details dd li button').click()")
    assert tab.run("shown.chosen.node") != node


def test_the_keyboard_chooses_a_node(tab: Tab, walked: Path) -> None:
    tab.open(walked)
    tab.run("document.querySelector('#after .new').focus()")
    tab.press("Enter", 13, "\r")
    assert tab.text("#details h3") == tab.text("#after .new .operator")


def test_an_unchanged_node_is_shown_with_its_surroundings(tab: Tab, walked: Path) -> None:
    tab.open(walked)
    node = tab.run(
        "data.graphs.after.kind.findIndex((kind, i) => kind === 0 && data.graphs.after.state[i] === 0 && !shown.nodes.after.includes(i))"
    )
    tab.run(f"goTo('after', {node})")
    assert tab.run("Number(document.querySelector('#after .chosen').dataset.node)") == node
    assert len(boxes(tab, "after")) > 2


def test_more_of_a_model_is_drawn_where_it_is_asked_for(tab: Tab, walked: Path) -> None:
    tab.open(walked)
    first = len(boxes(tab, "after"))
    tab.run("byId('draw-more').click()")
    more = len(boxes(tab, "after"))
    assert more > first
    tab.run("while (!byId('draw-more').hidden) byId('draw-more').click()")
    assert len(boxes(tab, "after")) > more
    tab.run("byId('next-place').click()")
    assert len(boxes(tab, "after")) < more
    node = tab.run("data.graphs.after.state.findIndex((state, i) => data.graphs.after.kind[i] === 0 && state === 0)")
    tab.run(f"goTo('after', {node})")
    around = len(boxes(tab, "after"))
    tab.run("byId('draw-more').click()")
    assert len(boxes(tab, "after")) > around


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


def test_search_speaks_onnx(tab: Tab, walked: Path) -> None:
    tab.open(walked)
    after = tab.run("data.head.operators.find(([name]) => name === 'Gemm')[2]")
    assert after > 10
    assert search(tab, "Gemm") == f"0 before, {after} after"
    assert tab.run("document.querySelectorAll('#rows td.found').length") == after
    assert search(tab, "layer.1/intermediate/dense/MatMul") == "1 before, 1 after"
    tab.run("document.querySelector('#rows td.found button').click()")
    assert tab.text("#details h3") == "MatMul"
    assert "/module/encoder/layer.1/intermediate/dense/MatMul" in tab.text("#details")
    assert search(tab, "there is no such thing") == "0 before, 0 after"
    assert search(tab, "nn.dense") == "0 before, 0 after"


def test_the_lists_are_aligned(tab: Tab, walked: Path) -> None:
    tab.open(walked)
    assert tab.run(
        "['before', 'after'].every((side, at) => listing.rows.filter((row) => row[at] >= 0).length === data.graphs[side].kind.length)"
    )
    assert tab.run("listing.rows.filter(([a, b]) => a >= 0 && data.graphs.before.twin[a] === b).length") > 30
    folded = tab.run("document.querySelectorAll('#rows tr').length")
    tab.run("byId('all-rows').click()")
    assert tab.run("document.querySelectorAll('#rows tr').length") >= folded


def test_the_table_of_rules_is_sorted_by_any_column(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    rows = "[...document.querySelectorAll('#rules tbody tr:not([hidden]) td:first-child')].map((cell) => cell.textContent)"
    tab.run("document.querySelector('#rules > button').click()")
    tab.run("document.querySelectorAll('#rules th button')[0].click()")
    names = tab.run(rows)
    assert names == sorted(names)
    tab.run("document.querySelectorAll('#rules th button')[0].click()")
    assert tab.run(rows) == names[::-1]
    assert tab.run("document.querySelectorAll('#rules th')[0].getAttribute('aria-sort')") == "descending"


def test_reasons_of_rejections_unfold(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    tab.run("document.querySelector('#rules button.more').click()")
    assert tab.run("document.querySelector('#rules tr:has(button.more)').nextSibling.hidden") is False


def test_nodes_made_by_a_rule_are_shown(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    tab.run("showRule('Products.into_weight')")
    assert tab.text("#matches").startswith("Products.into_weight: ")
    tab.run("document.querySelector('#rows td:last-child:is(.new, .changed) button').click()")
    assert "Made by the rule" in tab.text("#details")
    tab.run("[...document.querySelectorAll('#details button')].at(-1).click()")
    assert tab.run("document.querySelector('#clusters .chosen .made') !== null")


def test_nodes_made_by_a_pass_without_rules_are_shown(tab: Tab, walked: Path) -> None:
    tab.open(walked)
    graph = "data.graphs.after"
    node = tab.run(f"{graph}.pass.findIndex((name, i) => text(name) === 'CollapseBatchDims' && {graph}.state[i] === 1)")
    assert node >= 0
    tab.run(f"showDetails('after', {node})")
    assert "Made by the pass" in tab.text("#details")
    assert "CollapseBatchDims" in tab.text("#details")


def test_another_class_is_chosen_by_click_key_or_list(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    first = tab.run("shownClass.cls")
    tab.run("document.querySelector('#clusters g[role=button]:not(.chosen)').dispatchEvent(new Event('click'))")
    second = tab.run("shownClass.cls")
    assert second != first
    tab.run("document.querySelector('#clusters g[role=button]:not(.chosen)').focus()")
    tab.press("Enter", 13, "\r")
    assert tab.run("shownClass.cls") != second
    listed = tab.run("Number([...byId('class').options].find((option) => !option.selected).value)")
    tab.run(f"byId('class').value = '{listed}'; byId('class').dispatchEvent(new Event('change'))")
    assert tab.run("shownClass.cls") == listed


def test_every_class_of_every_egraph_can_be_drawn(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    drawn = "data.egraphs.reduce((sum, graph, run) => { graph.classes.forEach((_, cls) => showClass(run, cls)); return sum + graph.classes.length; }, 0)"
    assert tab.run(drawn) > 200


def test_a_model_that_did_not_change(tab: Tab, tmp_path: Path) -> None:
    model = small_model()
    del model.graph.node[1:]
    model.graph.node[0].op_type = "Mul"
    model.graph.output[0].name = "a"
    optimized(model).write_report(tmp_path / "page.html")
    tab.open(tmp_path / "page.html", width=1280, height=900)
    assert tab.text("#verdicts") == "The result is the input: no pass changed anything."
    assert tab.text("#list") == "No node was removed, added or changed."
    assert (tab.text("#caption-before"), tab.text("#caption-after")) == ("Before: 1 of 1 node", "After: 1 of 1 node")
    assert boxes(tab, "before") == boxes(tab, "after") == ["x", "Mul", "a"]
    assert tab.run("byId('details').checkVisibility()") is False


def test_light_and_dark(tab: Tab, bert: Path) -> None:
    tab.open(bert)
    colors = "['body', '#before .node rect', '#before .node text'].map((each) => getComputedStyle(document.querySelector(each)))"
    told = f"{colors}.map((style, at) => at === 0 ? style.backgroundColor : style.fill)"
    light = tab.run(told)
    tab.dark(True)
    frame(tab)
    assert all(one != other for one, other in zip(light, tab.run(told), strict=True))


@pytest.mark.parametrize("width", [420, 900, 1280, 1800])
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
        for node in range(tab.run(f"data.graphs.{side}.kind.length")):
            tab.run(f"goTo('{side}', {node})")
            frame(tab)
    search(tab, "add")
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
    """The policy of the page suffices."""
    optimized(small_model()).write_report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text("utf-8")
    (tmp_path / "page.html").write_text(
        text.replace("</main>", "<script>window.hacked = 1</script><img src='https://example.org/x.png'></main>")
    )
    with contextlib.suppress(BrowserError):  # it may report this before or after it is drawn
        tab.open(tmp_path / "page.html")
    assert tab.run("typeof window.hacked") == "undefined"
    assert len([said for said in tab.complaints if "Content Security Policy" in said]) == 2
    tab.complaints.clear()
    tab.requests.clear()


def test_twenty_thousand_nodes(tab: Tab, large: Path) -> None:
    tab.open(large)
    assert tab.run("data.graphs.before.kind.length") >= 20_000
    assert "entries are listed" not in tab.text("#listing")
    assert len(boxes(tab, "before")) > 2
    tab.run("goTo('before', 10000)")
    frame(tab)
    assert "/encoder/layer." in tab.text("#details")
    assert search(tab, "layer.500/") == f"{NODES_OF_A_LAYER} before, {NODES_OF_A_LAYER - 5} after"
    tab.run("showChange(0, 0)")
    assert re.fullmatch(r"2000 of 20\d\d\d e-nodes, those around which rules applied.*", tab.text("#region"))
