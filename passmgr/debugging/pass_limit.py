"""`PassLimit`: the first passes run, those after them do not. With it a wrong pass is looked for by hand, as with LLVM's
`-opt-bisect-limit`; `bisect_passes` does the looking."""

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, SupportsIndex

from passat.passmgr.debugging.executions import Execution, ExecutionTracker, is_analysis
from passat.passmgr.pass_info import PassInfo, PipelineInfo

if TYPE_CHECKING:
    from passat.ir.module import IRModule


class PassLimit(ExecutionTracker):
    """Lets the first `limit` executions run and vetoes those after them; a negative limit vetoes none.

    Pipelines are not counted. Passes that only establish facts, such as InferType, are counted and never vetoed, unless
    `veto_all`; nor are those that the context's `required_pass` names, as instruments are not asked about them. `tell` is called with a
    line for each execution, in LLVM's words.

    >>> from passat.ir.module import IRModule
    >>> from passat.passmgr import PassContext, Sequential, module_pass
    >>> passes = [module_pass(lambda mod, ctx: mod, opt_level=0, name=name) for name in "AB"]
    >>> with PassContext(instruments=[PassLimit(1, tell=print)]):
    ...     mod = Sequential(passes)(IRModule())
    BISECT: running pass (1) A
    BISECT: NOT running pass (2) B
    """

    def __init__(self, limit: SupportsIndex, *, veto_all: bool = False, tell: Callable[[str], None] | None = None) -> None:
        super().__init__()
        self.limit = operator.index(limit)
        self.veto_all = veto_all
        self.vetoed: list[str] = []
        """The names of the passes that were vetoed."""
        self._tell = tell

    def enter_pass_ctx(self) -> None:
        """Starts anew."""
        super().enter_pass_ctx()
        self.vetoed = []

    def should_run(self, mod: "IRModule", info: PassInfo) -> bool:
        """Whether the limit is not reached yet."""
        if self.running or isinstance(info, PipelineInfo) or self.limit < 0 or len(self.executions) < self.limit:
            return True
        if not self.veto_all and is_analysis(info):
            return True
        self.vetoed.append(info.name)
        if self._tell:
            self._tell(f"BISECT: NOT running pass ({len(self.executions) + len(self.vetoed)}) {info.name}")
        return False

    def execution_begins(self, mod: "IRModule", execution: Execution) -> None:
        """Tells it."""
        if self._tell:
            self._tell(f"BISECT: running pass ({execution.number}) {execution.place}")
