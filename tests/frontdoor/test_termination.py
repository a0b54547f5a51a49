"""SIGTERM ends a command in order: it says what was left undone, and nothing is left behind, worker processes neither."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[2]
COMMAND = """
import signal, sys, time
from passat.cli.app import app, main
from passat.cli.errors import errors
from passat.passmgr import PassContext
from tests.passmgr import sharing_passes as passes

@app.command()
def work(as_json: bool = False) -> None:
    with errors(as_json, "nothing was written"):
        with PassContext(config={"passmgr.workers": 2, "passmgr.workers_from": 0}):
            marked = passes.mark_process(passes.chains(12))
            print(*{func.attrs["process"] for func in marked.functions.values()}, flush=True)
            if sys.argv[-1] == "--as-json":
                time.sleep(60)
            passes.sleep(passes.chains(4))

if __name__ == "__main__":
    main()
"""


def ended(process: int) -> bool:
    """Whether a process is gone; one that has ended and that nobody has asked about counts as gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("options", [[], ["--as-json"]], ids=["workers at work", "workers idle"])
def test_a_command_with_workers_is_terminated(tmp_path: Path, options: list[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(COMMAND)
    environment = {**os.environ, "PYTHONPATH": str(HOME)}
    with subprocess.Popen(
        [sys.executable, script, "work", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as command:
        assert command.stdout is not None
        workers = [int(word) for word in command.stdout.readline().split()]
        assert workers
        command.send_signal(signal.SIGTERM)
        out, errors = command.communicate(timeout=60)
    assert errors == "error: terminated; nothing was written\n", "and no warning of leaked semaphores"
    assert out == ('{"error": "terminated; nothing was written"}\n' if options else "")
    assert command.returncode == 143
    assert all(map(ended, workers))


def test_where_sigterm_is_ignored_it_stays_so() -> None:
    code = """
import signal
from passat.cli.errors import terminate_in_order
signal.signal(signal.SIGTERM, signal.SIG_IGN)
terminate_in_order()
print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
terminate_in_order()
try:
    signal.raise_signal(signal.SIGTERM)
except KeyboardInterrupt:
    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, flush=True)
signal.raise_signal(signal.SIGTERM)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("True\nTrue\n", "", -signal.SIGTERM)
