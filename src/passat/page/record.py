"""What an optimisation keeps for its page beside the report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from passat.ir.module import IRModule
from passat.rules.engine.journal import Run
from passat.rules.provenance.trail import Passed

if TYPE_CHECKING:
    from passat.passmgr import Plan


class Record(NamedTuple):
    """The program before and after, the plan of the pipeline, all saturations in order, and how many of these belong to the first run of
    the pipeline: others made candidates, where the time was to decide. `passed` are the passes of the first run."""

    before: IRModule
    after: IRModule
    plan: "Plan"
    runs: Sequence[Run]
    first: int
    passed: Sequence[Passed] = ()
