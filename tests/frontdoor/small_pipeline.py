"""A pipeline that stays what it is, for tests whose scenario must not depend on what the default one has learned since."""

from typing import Final

from passat.passmgr import PassContext
from passat.pipelines import build_pipeline

SMALL: Final = "SimplifyInference,DynamicToStatic,FoldBatchNorm,SimplifyExpr,EliminateCommonSubexpr,DeadCodeElimination"


def passes_that_run(opt_level: int = 3) -> int:
    """How many passes of the default pipeline run at a level, with those that others require; pipelines are none themselves."""
    plan = build_pipeline().plan(PassContext(opt_level))
    return sum(step.runs and step.pass_.members is None for step in plan.walk())
