"""The logger `passat`: each step of the work with its time, and warnings about models."""

import logging
from collections.abc import Callable
from typing import Final

LOG: Final = logging.getLogger("passat")
"""Silent until a program configures `logging`."""
LOG.addHandler(logging.NullHandler())


def telling(progress: Callable[[str], None] | None) -> Callable[[str], None]:
    """Logs each step that begins, and passes it to `progress` if given."""

    def tell(text: str) -> None:
        LOG.info(text)
        if progress is not None:
            progress(text)

    return tell
