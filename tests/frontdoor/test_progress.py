"""The line that says what goes on: late, on terminals only, and gone at the end."""

import io
import time

from rich.console import Console

from passat.render import ProgressLine


def terminal(force: bool) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=force, width=60), out


def test_long_work_is_shown_on_a_terminal() -> None:
    console, out = terminal(True)
    with ProgressLine(console, delay=0.0) as progress:
        progress("running FoldConstant")
        deadline = time.monotonic() + 10
        while "FoldConstant" not in out.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "running FoldConstant ..." in out.getvalue()


def test_short_work_is_not() -> None:
    console, out = terminal(True)
    with ProgressLine(console, delay=60.0) as progress:
        progress("running FoldConstant")
    assert "FoldConstant" not in out.getvalue()


def test_nothing_is_shown_where_there_is_no_terminal() -> None:
    console, out = terminal(False)
    with ProgressLine(console, delay=0.0) as progress:
        progress("running FoldConstant")
    assert out.getvalue() == ""


def test_work_that_lasts_long_is_told_in_lines_where_there_is_no_terminal() -> None:
    for interval, said in ((0.0, "checking [a] ...\nchecking b ...\n"), (60.0, "")):
        console, out = terminal(False)
        with ProgressLine(console, lines=True, interval=interval) as progress:
            progress("checking [a]")
            progress("checking b")
        assert out.getvalue() == said
