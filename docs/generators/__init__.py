"""Reference pages that are generated from the program while the site is built.

A line `<!-- generated: MODULE.FUNCTION ARGUMENT ... -->` in a page is replaced by the Markdown that the function returns.
"""

import importlib
import re
from collections.abc import Callable
from typing import Final

_MARK: Final = re.compile(r"^<!-- generated: (\w+)\.(\w+)(.*) -->$", re.MULTILINE)


def expand(text: str) -> str:
    """Returns a page with its generated parts in place."""
    return _MARK.sub(lambda found: _generate(found[1], found[2], *found[3].split()), text)


def _generate(module: str, name: str, *arguments: str) -> str:
    function: Callable[..., str] = getattr(importlib.import_module(f"generators.{module}"), name)
    return function(*arguments)
