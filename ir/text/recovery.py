"""Error recovery, so that parsing a text reports all of its errors.

Later errors are reported only if the structure of the text is unambiguous. A statement with an error is skipped up to its semicolon if
all brackets of the definition match; otherwise the whole definition is skipped. Names defined in a skipped statement count as defined.
"""

from typing import Final

from passat.ir.text.lexer import MAX_ERRORS, ParseError, Tokens

_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}


class Recovery:
    """The errors found so far, and where parsing can resume.

    `definition` is the index of the first token of the current definition.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.errors: list[ParseError] = []
        self.definition = 0
        self._tokens = tokens
        self._matched: tuple[int, dict[int, int]] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the maximum number of errors is reached."""
        return len(self.errors) >= MAX_ERRORS

    def note(self, error: ParseError) -> None:
        """Records an error, once."""
        if not error.is_counted:
            error.is_counted = True
            self.errors.append(error)

    def next_definition(self, start: int) -> int:
        """Returns the index of the first token, from `start` on, that begins a definition; the end of the text where there is none."""
        kinds, texts = self._tokens.kinds, self._tokens.texts
        last = len(self._tokens.starts) - 1
        for at in range(start, last):
            if kinds[at] == "name":
                text, behind = texts[at], kinds[at + 1]
                if (text == "def" and behind == "global") or (text == "type" and behind in ("name", "string")):
                    return at - 1 if at > start and text == "type" and texts[at - 1] == "extern" else at
        return last

    def behind_statement(self, start: int, opening: int | None) -> int | None:
        """Returns the index of the token that ends a statement with an error: its semicolon, or the token that closes the block.

        The statement begins at token `start` and has been read up to the next token. `opening` is the token that opens the block, None for
        the whole text. Returns None if the end is ambiguous.
        """
        closing = self._brackets()
        if closing is None or self.is_full:
            return None
        tokens = self._tokens
        limit = len(tokens.starts) - 1 if opening is None else closing.get(opening)
        if limit is None:
            return None
        at = start
        while at < limit:
            kind = tokens.kinds[at]
            if kind == ";" and at >= tokens.at:
                break
            closed = closing.get(at) if kind in _CLOSING else at
            if closed is None:  # the closing bracket belongs to another definition
                return None
            at = closed + 1
        return at

    def _brackets(self) -> dict[int, int] | None:
        """Maps opening brackets of the definition to closing ones; None if they do not match."""
        if self._matched is None or self._matched[0] != self.definition:
            self._matched = (self.definition, self._match())
        return self._matched[1] or None

    def _match(self) -> dict[int, int]:
        kinds = self._tokens.kinds
        found = {-1: -1}  # non-empty even without brackets
        waiting: list[int] = []
        for at in range(self.definition, self.next_definition(self.definition + 1)):
            kind = kinds[at]
            if kind in _CLOSING:
                waiting.append(at)
            elif kind in (")", "]", "}"):
                if not waiting or _CLOSING[kinds[waiting[-1]]] != kind:
                    return {}
                found[waiting.pop()] = at
        return {} if waiting else found
