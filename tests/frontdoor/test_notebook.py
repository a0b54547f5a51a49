"""Displays in notebooks are well-formed, and names from models are always shown as text."""

import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from IPython.core.formatters import DisplayFormatter
from onnx import ModelProto, TensorProto, helper

import passat
from passat.ir.markup import MOST_LINES, block, table, text
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx
from passat.passmgr import Sequential, function_pass
from passat.rules import RuleSet, op, tensor

HOSTILE = '"><script>alert(1)</script>&amp;<b\x1b'
TAGS = {"details", "summary", "table", "tr", "th", "td", "div", "pre"}
x = tensor("x")


class Parsed(HTMLParser):
    """Tags in the order in which they open, and all text; a tag that is not closed in place is an error."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"style", "open"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_model() -> ModelProto:
    names = {name: f"{name}{HOSTILE}" for name in ("in", "mid", "out")}
    values = [helper.make_tensor_value_info(names[name], TensorProto.FLOAT, [f"n{HOSTILE}", 4]) for name in ("in", "out")]
    nodes = [
        helper.make_node("Neg", [names["in"]], [names["mid"]], name=f"one{HOSTILE}"),
        helper.make_node("Neg", [names["mid"]], [names["out"]], name=f"two{HOSTILE}"),
        helper.make_node("Odd<i>", [names["in"]], ["other"], domain=f"d{HOSTILE}"),
    ]
    graph = helper.make_graph(nodes, f"g{HOSTILE}", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(f"d{HOSTILE}", 1)], ir_version=9)


class Negations(RuleSet):
    """Two <b>negations</b> vanish."""

    doubled = (op.negative(op.negative(x)) >> x).inexact("<i>nothing</i>")


def shown(value: Any) -> Parsed:
    found = Parsed(value._repr_html_())
    assert set(found.tags) <= TAGS
    assert "\x1b" not in found.text
    return found


def test_results_and_reports(tmp_path: Path) -> None:
    (tmp_path / "<b>model.onnx").write_bytes(hostile_model().SerializeToString())
    result = passat.optimize(tmp_path / "<b>model.onnx", verify=False, rules=[Negations])
    for value in (result, result.report):
        found = shown(value)
        assert "<b>model.onnx: 3 nodes became" in found.text
        assert "Negations.doubled" in found.text
        assert found.tags.count("details") == 3


def test_summaries_and_differences() -> None:
    model = hostile_model()
    assert HOSTILE.replace("\x1b", "\N{REPLACEMENT CHARACTER}") in shown(passat.inspect(model)).text
    shown(passat.diff(model, passat.optimize(model, verify=False).model))


def test_modules() -> None:
    module = from_onnx(hostile_model())
    found = shown(module)
    assert found.text.startswith("IRModule: @main")
    assert "negative(" in found.text
    assert "no function" in shown(IRModule()).text


def test_rule_sets() -> None:
    found = shown(Negations)
    assert found.text.startswith("Two <b>negations</b> vanish.Negations: 1 rule")
    assert "negative(negative(x)) -> x" in found.text
    assert "<i>nothing</i>" in found.text


def test_plans() -> None:
    evil = function_pass(lambda func, mod, ctx: func, opt_level=0, name=f"Evil{HOSTILE}")
    drawn = Sequential([evil]).plan()._repr_svg_()
    assert "<script" not in drawn
    assert "Evil" in "".join(ET.fromstring(drawn).itertext())


def test_ipython_shows_them_and_rule_sets_although_these_are_classes() -> None:
    shown, _ = DisplayFormatter().format(Negations)
    assert shown["text/html"] == Negations._repr_html_()
    assert "image/svg+xml" in DisplayFormatter().format(Sequential([]).plan())[0]


def test_long_texts_are_cut() -> None:
    found = Parsed(block("<line>\n" * (MOST_LINES + 7))).text
    assert found.count("<line>") == MOST_LINES
    assert found.endswith("... and 7 more lines")


def test_tables_escape_every_cell() -> None:
    found = Parsed(table(("<a>",), [("<b>",)], [True]))
    assert (found.tags, found.text) == (["table", "tr", "th", "tr", "td"], "<a><b>")
    assert text("\ud800<") == "\N{REPLACEMENT CHARACTER}&lt;"
