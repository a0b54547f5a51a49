"""Texts from models are shown as text, for any content."""

import html.parser
import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType
from passat.page.texts import LONGEST, Strings, attrs_text, constant_text, script_json, shown, type_text
from tests.share import share

ANY_TEXT = st.text(st.characters(), max_size=200)
"""With lone surrogates, which JSON from other programs may contain."""


@settings(max_examples=share(40, 100))
@given(
    st.recursive(ANY_TEXT | st.integers() | st.booleans(), lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner), max_leaves=20)
)
def test_json_in_a_script_comes_back_and_ends_nothing(document: object) -> None:
    text = script_json(document)
    assert json.loads(text) == document
    assert text.isascii()
    assert not set("<>&\0\u2028") & set(text)


@settings(max_examples=share(40, 100))
@given(ANY_TEXT, st.integers(20, 100))
def test_shown_texts_are_short_and_can_be_seen(text: str, limit: int) -> None:
    made = shown(text, limit)
    assert made.isprintable()
    if text.isprintable():
        assert len(made) <= limit


def test_right_to_left_overrides_are_neutralized() -> None:
    assert shown("safe\u202egnp.exe") == "safe\\u202egnp.exe"
    assert shown("\u05d0\u05d1") == "\u05d0\u05d1", "a language is not an attack"


class Scripts(html.parser.HTMLParser):
    """Counts the scripts that a page would run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)


@settings(max_examples=share(40, 100))
@given(ANY_TEXT | st.sampled_from(["</script><script>", "<!--<script>", "]]>", "--><img src=x onerror=f()>"]))
def test_no_text_becomes_an_element(text: str) -> None:
    parser = Scripts()
    parser.feed(f'<script type="application/json">{script_json([text])}</script><p>')
    assert parser.found == ["script", "p"]


def test_attributes_and_types_are_bounded() -> None:
    assert len(attrs_text(Attrs(axes=tuple(range(10_000)), name="n" * 10_000))) <= LONGEST
    assert attrs_text(Attrs(axes=(1,), weights=Tensor.splat(1, (9,), "int8"))) == "axes=(1,), weights=int8[9], all 1"
    assert len(type_text(TupleType([TensorType((2, 3), "float32")] * 1000))) <= LONGEST
    assert type_text(None) == ""


def test_constants() -> None:
    assert constant_text(Tensor.dense(np.float32(2.5))) == "float32 = 2.5"
    assert constant_text(Tensor.dense(np.zeros((3, 4), np.int8))) == "int8[3, 4]"
    assert constant_text(Tensor.splat(0, (0, 4), "int8")) == "int8[0, 4] = []"
    assert "\\u202e" in constant_text(Tensor.dense(np.array(["a\u202eb"], np.object_)))


def test_each_string_is_stored_once() -> None:
    strings = Strings()
    assert [strings.number(text) for text in ("a", "b", "a")] == [0, 1, 0]
    assert strings.texts == ["a", "b"]
