"""What the commands that bisect print of what they have found."""

import json
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Protocol

from passat.cli.errors import end, explain


class Finding(Protocol):
    """What a bisection found; its text is for people."""

    def to_dict(self) -> dict[str, AnyValue]:
        """The same as plain data."""


def report_finding(
    found: Finding, save: Callable[[], tuple[dict[str, AnyValue], str]] | None, unsaved: dict[str, AnyValue], *, as_json: bool
) -> None:
    """Prints a finding, and what `save` says it has written, as data and in words; without it, and where it fails, that is `unsaved`."""
    from passat.ir.onnx import OnnxError

    if not as_json:
        print(found)
    try:
        written, words = (unsaved, "") if save is None else save()
    except (OSError, OnnxError) as error:
        if as_json:  # what was found with much work is told all the same
            sentence, code = explain(error)
            print(json.dumps({**found.to_dict(), **unsaved, "error": sentence}, indent=2))
            end(sentence, code, as_json=False)
        raise
    print(json.dumps({**found.to_dict(), **written}, indent=2) + "\n" if as_json else words, end="")


def written_lines(paths: list[str]) -> str:
    """A line for each file that was written."""
    return "".join(f"{path} was written\n" for path in paths)
