"""SIGTERM ends a command in order: it reports what was not done."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

# Many short waits: a signal that arrives just before a wait begins, which no handler sees until it ends, delays only one of them.
COMMAND = """
import time
from passat.cli.app import app, main
from passat.cli.app import errors

@app.command()
def work(as_json: bool = False) -> None:
    with errors(as_json, "nothing was written"):
        print("at work", flush=True)
        for _ in range(600):
            time.sleep(0.1)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("options", [[], ["--as-json"]])
def test_a_command_is_terminated(tmp_path: Path, options: list[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(COMMAND)
    with subprocess.Popen([sys.executable, script, "work", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "at work\n"
        command.send_signal(signal.SIGTERM)
        out, errors = command.communicate(timeout=60)
    assert errors == "error: terminated; nothing was written\n"
    assert out == ('{"error": "terminated; nothing was written"}\n' if options else "")
    assert command.returncode == 143
