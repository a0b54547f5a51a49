"""A process that runs seeds one after another, and writes its findings. `campaign` starts and monitors it.

It prints the start and result of each seed as lines of JSON, so that a hang or a crash can be attributed.
"""

import faulthandler
import json
import math
import resource
import sys
import time
from pathlib import Path
from typing import Any

from tests.fuzz.folder import write
from tests.fuzz.judge import examine
from tests.fuzz.kinds import KINDS
from tests.fuzz.minimize import Minimizer

CPU_SECONDS = 120
"""Seconds of CPU time for one seed."""
MEMORY = 6 << 30
"""Maximum memory of the process in bytes."""


def tell(**what: Any) -> None:
    """Prints one line for the campaign."""
    print(json.dumps(what), flush=True)


def limit_cpu(seconds: int) -> None:
    """Ends the process with a signal if it uses more than some seconds of CPU time from now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime) + seconds  # limits are whole seconds since the process began
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def work(kind: str, seeds: range, folder: Path, *, minimize: float) -> None:
    """Runs some seeds. A finding that occurs twice is written once."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard), hard))
    known: set[str] = set()
    for seed in seeds:
        tell(seed=seed, phase="generate")
        limit_cpu(CPU_SECONDS)
        case, settings = KINDS[kind](seed)
        if case is None:
            tell(seed=seed, phase="done", counted=False)
            continue
        tell(seed=seed, phase="examine", settings=str(settings))
        started = time.monotonic()
        fired: set[str] = set()
        finding = examine(case, settings, twice=seed % 4 == 0, fired=fired)
        tell(seed=seed, phase="done", counted=True, seconds=time.monotonic() - started, fired=sorted(fired))
        if finding is None:
            continue
        if finding.where and finding.key(case.model, settings.rule) in known:
            tell(seed=seed, phase="found", key=finding.key(case.model, settings.rule), again=True)
            continue
        limit_cpu(CPU_SECONDS + int(4 * minimize))
        tell(seed=seed, phase="minimize", sentence=f"{finding.kind}: {finding.sentence}")
        smaller, finding = Minimizer(case, finding, settings, minimize).run() if case.feeds and case.other is None else (case, finding)
        key = finding.key(smaller.model, settings.rule)
        again = key in known or (folder / key).exists()
        known.add(key)
        if not again:
            write(folder / key, smaller, finding, settings)
        tell(seed=seed, phase="found", key=key, again=again, sentence=f"{finding.kind}: {finding.sentence}")


if __name__ == "__main__":
    faulthandler.enable()
    kind_, start, stop, folder_, seconds_ = sys.argv[1:]
    work(kind_, range(int(start), int(stop)), Path(folder_), minimize=float(seconds_))
