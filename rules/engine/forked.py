"""Processes that were forked from one in which egglog was at work: there it would wait forever for threads that only the parent has."""

import os
import sys
from typing import Final

from passat.passmgr.workers.parcels import CannotTravelError

_forked: Final = [False]


def _in_child() -> None:
    _forked[0] = _forked[0] or "egglog.bindings" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def check_not_forked() -> None:
    """Raises CannotTravelError in a process in which rules cannot run."""
    if _forked[0]:
        raise CannotTravelError(
            "rules cannot run in a process that was forked from one in which they have run; let the executor start its processes by "
            'spawn: ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))'
        )
