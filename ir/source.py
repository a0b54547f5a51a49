"""Source texts of programs. A span refers to its text by a name that carries the text."""

import re
from bisect import bisect_right


class SourceName(str):
    """The name of a text, which carries the text so that errors can quote lines of it.

    The text lives as long as a span refers to it, so no registry is needed. Lines end at line feeds only.

    >>> name = SourceName("file.relay", "def @main() {\\n  1\\n}")
    >>> name, name.line(2), name.place(16)
    ('file.relay', '  1', (2, 3))
    """

    __slots__ = ("_starts", "text")
    text: str
    _starts: list[int]

    def __new__(cls, name: str, text: str = "") -> "SourceName":
        """Creates a name for a text."""
        made = super().__new__(cls, name)
        made.text = text
        return made

    def __reduce__(self) -> tuple[type["SourceName"], tuple[str, str]]:
        return SourceName, (str(self), self.text)

    def starts(self) -> list[int]:
        """The offset of the start of each line."""
        try:
            return self._starts
        except AttributeError:
            self._starts = [0, *(found.end() for found in re.finditer("\n", self.text))]
            return self._starts

    def place(self, offset: int) -> tuple[int, int]:
        """Returns the line and column of an offset, both from 1."""
        starts = self.starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Returns a line, counted from 1, without its line feed; empty if there is no such line."""
        starts = self.starts()
        if not 1 <= number <= len(starts):
            return ""
        return self.text[starts[number - 1] : starts[number] - 1 if number < len(starts) else None]
