"""Going on behind an error, so that reading a text tells all that is wrong with it and not only the first.

What follows an error counts only where the structure of the text is beyond doubt. So a statement is skipped up to its semicolon where all
brackets of the definition match, and else the whole definition is; names that a skipped statement mentions count as known.
"""

from typing import Final

from passat.ir.text.lexer import MAX_ERRORS, ParseError, Tokens

_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}


class Recovery:
    """The errors found so far in a text, and where reading may go on.

    `definition` is the number of the first token of the definition that is being read.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.errors: list[ParseError] = []
        self.definition = 0
        self._tokens = tokens
        self._matched: tuple[int, dict[int, int]] | None = None

    @property
    def is_full(self) -> bool:
        """Whether so many errors were found that reading stops."""
        return len(self.errors) >= MAX_ERRORS

    def note(self, error: ParseError) -> None:
        """Adds an error to the list, once."""
        if not error.is_counted:
            error.is_counted = True
            self.errors.append(error)

    def next_definition(self, start: int) -> int:
        """The number of the first token, from `start` on, that begins a definition; of the end of the text where there is none."""
        kinds, texts = self._tokens.kinds, self._tokens.texts
        last = len(self._tokens.starts) - 1
        for at in range(start, last):
            if kinds[at] == "name":
                text, behind = texts[at], kinds[at + 1]
                if (text == "def" and behind == "global") or (text == "type" and behind in ("name", "string")):
                    return at - 1 if at > start and text == "type" and texts[at - 1] == "extern" else at
        return last

    def behind_statement(self, start: int, opening: int | None) -> int | None:
        """The number of the token that ends the statement which begins at token `start`, is wrong, and has been read up to the next token:
        its semicolon, or what closes the block. None where that cannot be told.

        `opening` is the token that opens the block, None for the whole text.
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
            if closed is None:  # a bracket of another definition, where an expression was wanted
                return None
            at = closed + 1
        return at

    def _brackets(self) -> dict[int, int] | None:
        """Which token closes which in the definition; None where brackets in it do not match."""
        if self._matched is None or self._matched[0] != self.definition:
            self._matched = (self.definition, self._match())
        return self._matched[1] or None

    def _match(self) -> dict[int, int]:
        kinds = self._tokens.kinds
        found = {-1: -1}  # so that it is not empty where there are no brackets
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
