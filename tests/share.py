"""The share of random examples, or of a long list, that a run of the tests takes: a fixed one, and with PASSAT_SOAK=1 (`make nightly`)
all."""

import os
from typing import Final

SOAK: Final = os.environ.get("PASSAT_SOAK") == "1"


def share(some: int, everything: int) -> int:
    """One number in CI, and another in nightly runs."""
    return everything if SOAK else some
