"""Fuzzing for a given time: processes that run seeds, under limits of time and memory, and a table of runs and findings.

    python -m tests.fuzz.campaign --seconds 3600 --processes 2 --out build/fuzz

A process that crashes, or is silent for too long, is a finding of its current seed, and another process replaces it.
"""

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.fuzz.kinds import KINDS

BATCH: Final = 200
"""The number of seeds after which a process is replaced, so that memory leaks do not accumulate."""
SILENCE: Final = 900
"""The number of silent seconds after which a process counts as hanging: on a busy machine it may wait for others."""


@dataclass
class Tally:
    """Runs and findings."""

    tried: Counter[str] = field(default_factory=Counter)
    counted: Counter[str] = field(default_factory=Counter)
    found: dict[str, str] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    """The number of models on which each rule fired."""
    ended: int = 0
    """The number of processes that ONNX Runtime crashed while a model was made, or run unchanged."""

    def __str__(self) -> str:
        lines = [f"{kind}: {self.counted[kind]} tried of {self.tried[kind]} drawn" for kind in self.tried]
        lines += [f"  {count:4} {key}: {self.found.get(key, '')[:200]}" for key, count in self.times.most_common()]
        return "\n".join(
            [*lines, f"{len(self.times)} different findings; ONNX Runtime ended {self.ended} processes on models as they were made"]
        )


class Worker:
    """A process and the thread that reads its output."""

    def __init__(self, kind: str, start: int, stop: int, folder: Path, minimize: float) -> None:
        self.kind = kind
        self.stop = stop
        self.last: dict[str, Any] = {"seed": start, "phase": "start"}
        self.heard = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self.errors = (folder / f"{kind}-{start}.log").open("w+")
        command = [sys.executable, "-m", "tests.fuzz.worker", kind, str(start), str(stop), str(folder), str(minimize)]
        environment = {**os.environ, "PYTHONHASHSEED": str(start % 1000)}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment)
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def serve(self, tally: Tally) -> bool:
        """Receives messages of the process; False after its end."""
        while True:
            try:
                line = self.lines.get_nowait()
            except queue.Empty:
                if time.monotonic() - self.heard > SILENCE:
                    self.process.kill()
                    self.heard = time.monotonic()
                    self.last["hangs"] = True
                return True
            if line is None:
                self._ended(tally)
                return False
            self.heard = time.monotonic()
            if line.startswith("{"):  # ONNX Runtime may also write there
                self._told(json.loads(line), tally)

    def _told(self, what: dict[str, Any], tally: Tally) -> None:
        self.last = what
        match what["phase"]:
            case "done":
                tally.tried[self.kind] += 1
                tally.counted[self.kind] += bool(what["counted"])
                tally.fired.update(what.get("fired", ()))
            case "found":
                tally.times[what["key"]] += 1
                if "sentence" in what and what["key"] not in tally.found:
                    tally.found[what["key"]] = f"seed {what['seed']}: {what['sentence']}"
                    print(f"found {what['key']}: {tally.found[what['key']]}", flush=True)

    def _ended(self, tally: Tally) -> None:
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read()[-2000:]
        self.errors.close()
        if not code and not said:
            Path(self.errors.name).unlink()
        if not code:
            return
        if self.last["phase"] == "generate" and code < 0:
            tally.ended += 1  # by ONNX Runtime, on the original
            return
        name = "hang" if code == -signal.SIGXCPU or "hangs" in self.last else signal.Signals(-code).name if code < 0 else f"exit {code}"
        key = f"{name}.{self.kind}.{self.last['phase']}.{self.last['seed']}"
        tally.times[key] += 1
        tally.found[key] = f"{self.last} {' '.join(said.split())[-300:]}"
        print(f"found {key}: {tally.found[key]}", flush=True)


def campaign(kinds: list[str], seconds: float, processes: int, first: int, folder: Path, minimize: float) -> Tally:
    """Runs processes for some time, each on the next seeds of the next kind."""
    tally = Tally()
    running: list[Worker] = []
    deadline = time.monotonic() + seconds
    following = dict.fromkeys(kinds, first)
    left: list[tuple[str, int, int]] = []
    turn = 0
    while running or time.monotonic() < deadline:
        while len(running) < processes and time.monotonic() < deadline:
            if not left:
                kind = kinds[turn % len(kinds)]
                turn += 1
                left.append((kind, following[kind], following[kind] + BATCH))
                following[kind] += BATCH
            kind, start, stop = left.pop()
            running.append(Worker(kind, start, stop, folder, minimize))
        still = []
        for worker in running:
            if time.monotonic() >= deadline:
                worker.process.terminate()
                worker.process.wait()
            elif worker.serve(tally):
                still.append(worker)
            elif worker.process.returncode and worker.last["seed"] + 1 < worker.stop:
                left.append((worker.kind, worker.last["seed"] + 1, worker.stop))
        running = still
        time.sleep(0.2)
    return tally


def main() -> int:
    """Reads the command line; returns 1 if there are findings."""
    parser = argparse.ArgumentParser(description="Try random models for some time.")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=int(time.time()), help="the first seed; by default another one each time")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--minimize", type=float, default=60, help="seconds to make one finding smaller")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    given = parser.parse_args()
    tally = campaign(given.kinds, given.seconds, given.processes, given.first, given.out, given.minimize)
    print(tally)
    return int(bool(tally.times))


if __name__ == "__main__":
    sys.exit(main())
