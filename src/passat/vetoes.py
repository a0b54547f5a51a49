"""Vetoes of instruments, remembered: where a pipeline runs again for a check, the same passes must run as the first time."""

from passat.ir.module import IRModule
from passat.passmgr import PassInfo, PassInstrument


class VetoWatch(PassInstrument):
    """Remembers which passes the instruments behind it let run, in order. `again()` lets the same ones run."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, bool]] = []

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Takes it that somebody will veto the pass."""
        self.answers.append((info.name, False))
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Nobody has. A pass that the context requires was not asked about, and its name is not that of the last answer."""
        if self.answers and self.answers[-1] == (info.name, False):
            self.answers[-1] = info.name, True

    def again(self) -> "PassInstrument":
        """An instrument that vetoes what was vetoed."""
        return _SameVetoes(tuple(self.answers))


class _SameVetoes(PassInstrument):
    def __init__(self, answers: tuple[tuple[str, bool], ...]) -> None:
        self._answers = answers
        self._next = 0

    def enter_pass_ctx(self) -> None:
        self._next = 0

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        if self._next == len(self._answers) or self._answers[self._next][0] != info.name:
            return True
        self._next += 1
        return self._answers[self._next - 1][1]
