"""ONNX Runtime sessions in a child process, which serves one session after the other and is restarted after a crash."""

import atexit
import contextlib
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import count
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.session import Array, Head, SessionSettings, WireError, pack, read, unpack, write

_COMMAND: Final = "from passat.session import serve; serve()"
_NUMBERS: Final = count()
LONGEST_SECONDS: Final = 600.0
"""Maximum time to load a model, and to run it once, so that a loop without an end has one."""


class RejectedError(RuntimeError):
    """An error that ONNX Runtime reports in the child process."""


class EndedError(RuntimeError):
    """ONNX Runtime ended the child process. The message says how."""


class LateError(EndedError):
    """A request took too long, so that the child process was ended."""


class NoProcessError(RuntimeError):
    """No child process is available: Python cannot be started, or Passat cannot be imported there."""


class ApartSession:
    """A session in the child process, recreated in a new process after a crash. `model` returns the model's bytes or path.

    Raises RejectedError if the model does not load, EndedError, NoProcessError, and ImportError if ONNX Runtime is not installed.
    """

    def __init__(self, model: Callable[[], bytes | str], settings: SessionSettings) -> None:
        self._model = model
        self._settings = settings
        self._load()

    def _load(self) -> None:
        self._number = next(_NUMBERS)
        self._keeper = _state.running()
        model = self._model()
        cwd = None
        with contextlib.suppress(OSError):  # a deleted folder
            cwd = os.getcwd()
        place = {"path": model if isinstance(model, str) else None, "cwd": cwd}
        arrays: list[Array] = [] if isinstance(model, str) else [np.frombuffer(model, np.uint8)]
        request = {"do": "load", "session": self._number, **place, "settings": self._settings._asdict()}
        reply, _ = self._keeper.ask(request, arrays)
        weakref.finalize(self, self._keeper.drop, self._number).atexit = False
        self.inputs = tuple((name, kind, tuple(shape)) for name, kind, shape in reply["inputs"])
        self.outputs = tuple((name, kind) for name, kind in reply["outputs"])

    def run(self, feed: Mapping[str, AnyValue]) -> list[AnyValue]:
        """The values of all outputs, in order. Raises RejectedError, EndedError, LateError."""
        if not self._keeper.is_there():
            self._load()
        arrays: list[Array] = []
        reply, values = self._keeper.ask({"do": "run", "session": self._number, "feed": pack(dict(feed), arrays)}, arrays)
        found: list[AnyValue] = unpack(reply["values"], values)
        return found


class _Keeper:
    """The parent's handle of the child process. Raises NoProcessError if it cannot be started."""

    def __init__(self) -> None:
        if not sys.executable or getattr(sys, "frozen", False):  # a frozen executable is another program
            raise NoProcessError("there is no Python executable")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=error_stream(),
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # the child computes nothing with NumPy
                process_group=0,  # Ctrl-C is for the parent process
            )
        except OSError as error:
            raise NoProcessError(str(error)) from error
        self._requests: AnyValue = self._process.stdin
        self._replies: AnyValue = self._process.stdout
        self._lock = threading.Lock()
        self._dropped: list[int] = []
        self._greeted = False

    def is_there(self) -> bool:
        """True if the process is running."""
        return self is _state.keeper and self._process.poll() is None

    def ask(self, request: Mapping[str, AnyValue], arrays: list[Array]) -> tuple[Head, list[Array]]:
        """The response to a request. Raises EndedError, LateError, and RejectedError."""
        with self._lock:
            limit, started = LONGEST_SECONDS, time.monotonic()
            timer = threading.Timer(limit, self._process.kill)
            timer.daemon = True  # or Python would wait for it at the end
            try:
                timer.start()
                self._greet()
                for number in self._take_dropped():
                    write(self._requests, {"do": "drop", "session": number})
                write(self._requests, request, arrays)
                reply, found = read(self._replies)
            except (EOFError, BrokenPipeError, ConnectionError):
                code = self._end()
                if time.monotonic() - started >= limit:
                    raise LateError(f"ONNX Runtime takes more than {limit:g} seconds to {request['do']} a model") from None
                raise EndedError(f"ONNX Runtime ended its process with {show_code(code)}") from None
            except BaseException:  # a message may be incomplete
                self._end(kill=True)
                raise
            finally:
                timer.cancel()
        if "error" in reply:
            raise RejectedError(reply["error"])
        return reply, found

    def _greet(self) -> None:
        """Waits until the process is ready."""
        if self._greeted:
            return
        try:
            greeting, _ = read(self._replies)
        except (EOFError, WireError) as error:
            _state.is_possible = self._end(kill=True) < 0 and isinstance(error, EOFError)  # it was killed from outside
            raise NoProcessError("the child process for ONNX Runtime does not start") from error
        if "missing" in greeting:
            raise ImportError(greeting["missing"])
        self._greeted = True

    def drop(self, number: int) -> None:
        """Releases a session: immediately or, if another request is in progress, before the next one."""
        self._dropped.append(number)
        if self.is_there() and self._lock.acquire(blocking=False):
            try:
                for each in self._take_dropped():
                    write(self._requests, {"do": "drop", "session": each})
            except OSError:  # the process has ended, with its sessions
                pass
            finally:
                self._lock.release()

    def _take_dropped(self) -> list[int]:
        taken, self._dropped = self._dropped, []
        return taken

    def _end(self, *, kill: bool = False) -> int:
        """Ends the process if it is running; returns its exit code."""
        if kill:
            self._process.kill()
        code = self._process.wait()
        self._requests.close()
        self._replies.close()
        return code

    def stop(self, *, own: bool = True) -> None:
        """Kills the process; in a forked process, which does not `own` it, drops the handle only."""
        if not own:
            self._process.returncode = 0
        self._end(kill=own)


class _State:
    """The child process, and whether one can be started."""

    def __init__(self) -> None:
        self.keeper: _Keeper | None = None
        self.is_possible = True
        self.lock = threading.RLock()

    def running(self) -> _Keeper:
        """The process, started on demand. Raises NoProcessError."""
        with self.lock:
            if not self.is_possible:
                raise NoProcessError("the child process for ONNX Runtime does not start")
            if self.keeper is None or not self.keeper.is_there():
                self.stop()
                self.keeper = _Keeper()
            return self.keeper

    def stop(self) -> None:
        """Ends the process."""
        keeper, self.keeper = self.keeper, None
        if keeper is not None:
            keeper.stop()

    def forget(self) -> None:
        """Drops the handle in a forked process, which does not own the child."""
        keeper = self.keeper
        self.__init__()  # type: ignore[misc]  # a thread that the fork does not have may hold the lock
        if keeper is not None:
            keeper.stop(own=False)


_state: Final = _State()


def is_installed() -> bool:
    """True if ONNX Runtime is installed; does not import it."""
    try:
        return find_spec("onnxruntime") is not None
    except ValueError:  # a loaded module of that name has no spec
        return True


def start() -> None:
    """Starts the process unless it is running, so that it imports ONNX Runtime in parallel. Raises nothing."""
    if is_installed():
        with contextlib.suppress(NoProcessError):
            _state.running()


atexit.register(_state.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_state.forget)


def error_stream() -> int:
    """The error stream of this process, for the output of the child."""
    try:
        return sys.__stderr__.fileno() if sys.__stderr__ is not None else subprocess.DEVNULL
    except (OSError, ValueError):
        return subprocess.DEVNULL


def show_code(code: int) -> str:
    """The exit status of a process as text.

    >>> show_code(-11), show_code(3)
    ('signal 11', 'exit code 3')
    """
    return f"signal {-code}" if code < 0 else f"exit code {code}"
