"""Drawings as SVG: boxes with text, arrows, and the page around them, in the colours of the reader's system, light or dark.

The layouts (`plan_svg`, `graph_svg`) are Passat's own. Layout libraries on PyPI either need Graphviz itself or, like grandalf, know no
nested boxes, which is what a pipeline of pipelines needs.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

LINE: Final = 17
"""Height of a line of text."""

PADDING: Final = 10
"""Space between a box and its text."""

_FONT: Final = 13
_STYLE: Final = """
  text { font: 13px ui-sans-serif, system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; }
  .small { font-size: 11px; fill: #59636e; }
  .strong { font-weight: 600; }
  .box { fill: #eef4fc; stroke: #4a7ab5; }
  .required .box { fill: #eaf6ec; stroke: #4b9560; }
  .group > .box { fill: #f6f8fa; fill-opacity: .7; stroke: #8c959f; }
  .off .box { fill: none; stroke: #8c959f; stroke-dasharray: 4 3; }
  .off text { fill: #6e7781; }
  .bad .box { fill: #fdeceb; stroke: #c0392b; }
  .arrow { fill: none; stroke: #59636e; stroke-width: 1.4; }
  .needs { fill: none; stroke: #4b9560; stroke-width: 1.2; stroke-dasharray: 4 3; }
  .wrong { fill: none; stroke: #c0392b; stroke-width: 1.6; }
  .head { fill: #59636e; }
  .needs-head { fill: #4b9560; }
  .wrong-head { fill: #c0392b; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .page { fill: #0d1117; }
    .small { fill: #9198a1; }
    .box { fill: #12243a; stroke: #5b8fd0; }
    .required .box { fill: #12291a; stroke: #57ab6b; }
    .group > .box { fill: #161b22; stroke: #6e7681; }
    .off .box { stroke: #6e7681; }
    .off text { fill: #8b949e; }
    .bad .box { fill: #3a1614; stroke: #f47067; }
    .arrow { stroke: #9198a1; }
    .needs { stroke: #57ab6b; }
    .wrong { stroke: #f47067; }
    .head { fill: #9198a1; }
    .needs-head { fill: #57ab6b; }
    .wrong-head { fill: #f47067; }
  }
"""


@dataclass(frozen=True, slots=True)
class Label:
    """The text of a box: a name, lines of small print below it, what is shown when one points at it, and the class of its style."""

    name: str
    small: tuple[str, ...] = ()
    tooltip: str = ""
    style: str = ""

    @property
    def width(self) -> float:
        """The width of the box."""
        return max([text_width(self.name, bold=True), *(text_width(line, 11) for line in self.small)]) + 2 * PADDING

    @property
    def height(self) -> float:
        """The height of the box."""
        return LINE * (1 + len(self.small)) - 2 * len(self.small) + 12


def text_width(text: str, size: float = _FONT, *, bold: bool = False) -> float:
    """How wide a text is, estimated on the generous side: fonts differ, and nobody has measured those of the reader."""
    wide = sum(_EM.get(char, 0.6) if ord(char) < 128 else 1.05 if unicodedata.east_asian_width(char) in "WF" else 0.66 for char in text)
    return wide * size * (1.16 if bold else 1.02)


_EM: Final = {
    **dict.fromkeys("ijl.,:;'|!", 0.32),
    **dict.fromkeys('ftrI()[]{}/\\- "`', 0.42),
    **dict.fromkeys("mwMWQGOD%@", 0.88),
    **dict.fromkeys("ABCEFHKLNPRSTUVXYZ&<>=+~_", 0.7),
}


class Drawing:
    """Elements of a drawing, in the order in which they are painted."""

    def __init__(self) -> None:
        self._elements: list[str] = []

    def box(self, label: Label, x: float, y: float, width: float, height: float) -> None:
        """A box with its text at the top."""
        self._open(label)
        lines = [f'<text class="strong" x="{_number(x + PADDING)}" y="{_number(y + 18)}">{_text(label.name)}</text>']
        for at, line in enumerate(label.small):
            lines.append(
                f'<text class="small" x="{_number(x + PADDING)}" y="{_number(y + 18 + (at + 1) * (LINE - 2))}">{_text(line)}</text>'
            )
        corners = f'rx="5" x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
        self._elements += [f'<rect class="box" {corners}/>', *lines, "</g>"]

    def path(self, points: Sequence[tuple[float, float]], style: str = "arrow", tooltip: str = "", *, head: bool = True) -> None:
        """An arrow along straight lines, or a line without a head."""
        self._arrow("M" + " L".join(f"{_number(x)},{_number(y)}" for x, y in points), style, tooltip, head=head)

    def curve(self, points: Sequence[tuple[float, float]], style: str = "arrow", tooltip: str = "") -> None:
        """An arrow from left to right through points, level in each."""
        (x0, y0), *rest = points
        drawn = f"M{_number(x0)},{_number(y0)}"
        for x, y in rest:
            middle = _number((x0 + x) / 2)
            drawn += f" C{middle},{_number(y0)} {middle},{_number(y)} {_number(x)},{_number(y)}"
            x0, y0 = x, y
        self._arrow(drawn, style, tooltip)

    def text(self, text: str, x: float, y: float, style: str = "small") -> None:
        """A line of text."""
        self._elements.append(f'<text class="{style}" x="{_number(x)}" y="{_number(y)}">{_text(text)}</text>')

    def svg(self, width: float, height: float, title: str) -> str:
        """The whole picture, which needs nothing but itself."""
        size = f'width="{_number(width)}" height="{_number(height)}" viewBox="0 0 {_number(width)} {_number(height)}"'
        heads = "".join(
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" '
            f'orient="auto"><path class="{name}" d="M0,0.5 L8,4 L0,7.5 Z"/></marker>'
            for name in ("head", "needs-head", "wrong-head")
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
                f"<title>{_text(title)}</title>",
                f"<style>{_STYLE}</style>",
                f"<defs>{heads}</defs>",
                '<rect class="page" width="100%" height="100%"/>',
                *self._elements,
                "</svg>\n",
            ]
        )

    def _open(self, label: Label) -> None:
        self._elements.append(f'<g class="{label.style}">' if label.style else "<g>")
        if label.tooltip:
            self._elements.append(f"<title>{_text(label.tooltip)}</title>")

    def _arrow(self, drawn: str, style: str, tooltip: str, *, head: bool = True) -> None:
        path = f'<path class="{style}" d="{drawn}"'
        if head:
            path += f' marker-end="url(#{"head" if style == "arrow" else f"{style}-head"})"'
        self._elements.append(f"{path}><title>{_text(tooltip)}</title></path>" if tooltip else f"{path}/>")


def shortened(text: str, length: int = 64) -> str:
    """A text that is not too long for a box.

    >>> shortened("Saturate{rounds=8,mode=fast}", 16)
    'Saturate{round...'
    """
    return text if len(text) <= length else text[: length - 2].rstrip() + "..."


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    """A text as XML: escaped, and without the characters that XML does not know."""
    known = "".join(char if char.isprintable() or char == " " else "\N{REPLACEMENT CHARACTER}" for char in text)
    return escape(known)
