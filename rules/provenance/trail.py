"""Which passes ran, and the module before and after each of them."""

from typing import NamedTuple

from passat.ir.module import IRModule
from passat.passmgr import PassInfo, PassInstrument
from passat.rules.engine.journal import Journal


class Passed(NamedTuple):
    """A pass that ran by itself, not as a pipeline of others; how many runs the journal had before and after it."""

    name: str
    before: IRModule
    after: IRModule
    first: int
    end: int


class Trail(PassInstrument):
    """Writes down the passes that run, in order; `journal` is told what their saturations do."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.passed: list[Passed] = []
        self._open: list[tuple[IRModule, int, int]] = []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Notes where a pass begins."""
        self._open.append((mod, len(self.passed), len(self.journal.runs)))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Notes what a pass has made, unless passes inside it have been noted."""
        before, count, first = self._open.pop()
        if len(self.passed) == count:
            self.passed.append(Passed(info.name, before, mod, first, len(self.journal.runs)))

    def since(self, run: int) -> list[Passed]:
        """The passes that have been noted, with runs counted from that one."""
        return [each._replace(first=each.first - run, end=each.end - run) for each in self.passed]
