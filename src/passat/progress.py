"""A line on the terminal that says which stage runs, and for how long all have; shown once that is longer than a second."""

import threading
import time
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

DELAY: Final = 1.0
"""Seconds before the line appears."""
INTERVAL: Final = 60.0
"""Seconds between the lines that are printed where there is no terminal."""


class ProgressLine:
    """Enter it with `with`, call it with what begins now. Where the console is no terminal it shows nothing; with `lines` it prints what
    begins there, once in `interval` seconds."""

    def __init__(
        self, console: Console, *, enabled: bool = True, delay: float = DELAY, lines: bool = False, interval: float = INTERVAL
    ) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description} ...", markup=False), TimeElapsedColumn())
        self._status = Progress(*columns, console=console, transient=True)
        self._stage = self._status.add_task("")
        self._console = console
        self._enabled = enabled and console.is_terminal
        self._interval = interval if enabled and lines and not console.is_terminal else None
        self._printed = time.monotonic()
        self._lock = threading.Lock()
        self._timer = threading.Timer(delay, self._show)
        self._timer.daemon = True
        self._closed = self._shown = False

    def __call__(self, text: str) -> None:
        """Says what begins now."""
        if self._enabled:
            self._status.update(self._stage, description=text)
        elif self._interval is not None and time.monotonic() - self._printed >= self._interval:
            self._console.print(f"{text} ...", markup=False)
            self._printed = time.monotonic()

    def _show(self) -> None:
        with self._lock:
            if not self._closed:
                self._shown = True
                self._status.start()

    def __enter__(self) -> "ProgressLine":
        if self._enabled:
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._shown:
                self._status.stop()
