"""How much of what is drawn at random, or of a long list, a run of the tests takes: a fixed share, and with PASSAT_SOAK=1 (`make nightly`) all."""

import os
from typing import Final

SOAK: Final = os.environ.get("PASSAT_SOAK") == "1"


def share(some: int, everything: int) -> int:
    """One number in CI, and another in nightly runs."""
    return everything if SOAK else some
