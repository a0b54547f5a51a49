"""A real browser for tests: Chromium without a window, controlled by its DevTools protocol through two pipes, without a library."""

import base64
import contextlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE: Final = 60.0
LAUNCH: Final = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for number, pipe in zip((3, 4), pipes):
    os.dup2(pipe, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The protocol uses the file descriptors 3 and 4, regardless of the numbers of the pipes here."""


def find_chromium() -> str | None:
    """The installed Chromium, or the one that the environment variable CHROMIUM names."""
    named = os.environ.get("CHROMIUM")
    return named if named and os.access(named, os.X_OK) else next(filter(None, map(shutil.which, NAMES)), None)


class BrowserError(RuntimeError):
    """The browser does not answer, or a script in the page raised."""


class Tab:
    """The only tab of a browser. `complaints` are errors, log messages and blocked accesses of the page; `requests` are its network
    requests."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._write, self._read = to_browser, from_browser
        self._selector = selectors.DefaultSelector()
        self._selector.register(from_browser, selectors.EVENT_READ)
        self._pending = b""
        self._number = 0
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a method of the protocol and waits for the response."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params, **({"sessionId": self._session} if self._session else {})}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                found: dict[str, Any] = answer["result"]
                return found
            self._note(answer)

    def open(self, path: Path, *, width: int = 1500, height: int = 1000, dark: bool = False) -> float:
        """Opens a page and waits until it is drawn. Returns the time in milliseconds."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.dark(dark)
        self.run("delete document.documentElement.dataset.drawn")  # the previous page, which may still exist for a moment
        self.call("Page.navigate", url=path.absolute().as_uri())
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            drawn = self.run("location.protocol === 'file:' && document.documentElement?.dataset.drawn || ''")
            if drawn:
                return float(drawn)
            if self.complaints:
                break
            time.sleep(0.02)
        raise BrowserError(f"the page was not drawn: {self.complaints}")

    def dark(self, on: bool) -> None:
        """Emulates a preference for dark or light colors."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def run(self, script: str) -> Any:
        """The value of an expression in the page; waits for promises."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(str(answer["exceptionDetails"].get("exception", {}).get("description", answer["exceptionDetails"])))
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """The text of an element of the page."""
        return str(self.run(f"document.querySelector({json.dumps(selector)}).textContent"))

    def click(self, x: float, y: float) -> None:
        """Clicks the mouse."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, code: int = 0, text: str = "") -> None:
        """Presses a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=text, windowsVirtualKeyCode=code)

    def picture(self, path: Path | None = None, *, whole: bool = False) -> bytes:
        """A screenshot as PNG, on request of the whole page."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])
        if path is not None:
            path.write_bytes(data)
        return data

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"].get("exception", {}).get("description", params)))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(params["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            if not self._selector.select(PATIENCE):
                raise BrowserError("the browser does not answer")
            more = os.read(self._read, 1 << 20)
            if not more:
                raise BrowserError("the browser has ended")
            self._pending += more
        message, _, self._pending = self._pending.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@contextlib.contextmanager
def browser(program: str) -> Iterator[Tab]:
    """Runs a browser with an empty profile. Its sandbox is off because it does not start in many containers; it opens only our own
    pages."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        to_us, from_browser = os.pipe()
        to_browser, from_us = os.pipe()
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
        ]
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(to_browser), str(from_browser), program, *options, f"--user-data-dir={profile}"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            yield Tab(from_us, to_us)
        finally:
            os.close(from_us)  # it ends when its pipes are closed
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(to_us)
