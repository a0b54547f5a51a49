"""The process that keeps sessions for another one. It answers one request after the other, and ends with who asks."""

import contextlib
import os
import threading
from queue import SimpleQueue
from typing import Any as AnyValue
from typing import Final

from passat.sessions import wire
from passat.sessions.session import Session, SessionSettings

_FAILED: Final = 1


def serve() -> None:
    """Answers requests that come in on the input stream, on the output stream. What libraries print goes to the error stream."""
    requests: AnyValue = os.fdopen(os.dup(0), "rb", 0)
    replies: AnyValue = os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)
    waiting: SimpleQueue[tuple[wire.Head, list[wire.Array]]] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, waiting), daemon=True).start()
    keeper = _Keeper()
    try:
        wire.write(replies, keeper.begin())
        while True:
            reply = keeper.answer(*waiting.get())
            if reply is not None:
                wire.write(replies, *reply)
            del reply  # which may be large
    except OSError:  # nobody waits for the answer
        os._exit(0)


def _receive(requests: AnyValue, waiting: "SimpleQueue[tuple[wire.Head, list[wire.Array]]]") -> None:
    """Ends the process, whatever it is at, once nobody can ask any more."""
    try:
        while True:
            waiting.put(wire.read(requests))
    except EOFError:
        os._exit(0)
    except BaseException:
        os._exit(_FAILED)


class _Keeper:
    """The sessions, by their numbers."""

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}

    def begin(self) -> wire.Head:
        """Imports what is needed."""
        try:
            import onnxruntime
        except ImportError as error:
            return {"missing": str(error)}
        return {"version": onnxruntime.__version__}

    def answer(self, head: wire.Head, arrays: list[wire.Array]) -> tuple[wire.Head, list[wire.Array]] | None:
        """The answer to a request; None where none is wanted. What ONNX Runtime raises is one."""
        match head["do"]:
            case "load" | "run" as what:
                try:
                    return self._load(head, arrays) if what == "load" else self._run(head, arrays)
                except Exception as error:  # ONNX Runtime has no common base of its errors
                    return {"error": str(error)}, []
            case "drop":
                self._sessions.pop(head["session"], None)
        return None

    def _load(self, head: wire.Head, arrays: list[wire.Array]) -> tuple[wire.Head, list[wire.Array]]:
        if head["cwd"] is not None:
            with contextlib.suppress(OSError):
                os.chdir(head["cwd"])
        model = head["path"] if head["path"] is not None else arrays.pop().tobytes()
        session = self._sessions[head["session"]] = Session(model, SessionSettings(**head["settings"]))
        return {"inputs": session.inputs, "outputs": session.outputs}, []

    def _run(self, head: wire.Head, arrays: list[wire.Array]) -> tuple[wire.Head, list[wire.Array]]:
        values = self._sessions[head["session"]].run(wire.unpack(head["feed"], arrays))
        packed: list[wire.Array] = []
        return {"values": wire.pack(values, packed)}, packed
