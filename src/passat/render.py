"""Output for people, with rich: reports as tables, in color on a terminal, as HTML in a notebook, else plain; and the progress line."""

import contextlib
import io
import threading
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from passat.ir import markup
from passat.ir.counting import counted, seconds
from passat.report import KERNELS, NOT_COUNTED, OTHER_REASONS, PROVENANCE, Report, RuleReport
from passat.verify import VerifyReport

RULES_SHOWN: Final = 20
"""Maximum number of fired rules shown; the rest is summarized in one line."""

REMARKS_SHOWN: Final = 20
"""Maximum number of remarks of user passes shown; the rest is counted."""

REASONS_SHOWN: Final = 3
"""Maximum number of reasons shown per rule that did not fire; `report.remarks` has more."""


def rendered(what: RenderableType, width: int = 100) -> str:
    """The plain text that rich would print."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False).print(what)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def render_report(report: Report, *, statistics: bool = True) -> RenderableType:
    """A report for a rich console: changes, passes, rules and verification, and the statistics of rules if they were recorded and
    requested."""
    parts: list[RenderableType] = [_headline(report), Text(), _operators(report)]
    if report.passes:
        parts += [Text(), _passes(report)]
    if report.timings:
        parts += [Text(), _timings(report)]
    parts += [Text(), _statistics(report) if report.recorded and statistics else _rules(report)]
    parts += _idle(report)
    parts += [Text(f"! {said}", style="yellow") for said in (*report.warnings, *report.limits)]
    parts += _own_remarks(report)
    parts += [Text(f"cost: {note}") for note in report.cost_notes]
    parts += [Text(remark) for remark in report.remarks if remark.startswith((PROVENANCE, KERNELS))]
    parts += [Text(), _verification(report)]
    if report.output:
        parts.append(Text(f"written to {report.output}"))
    return Group(*parts)


def report_line(report: Report) -> Text:
    """A report in one line, for one of several models, and a line for each warning."""
    text = _headline(report, ", ")
    if report.interrupted:
        text.append(", interrupted", style="yellow")
    found = report.verification
    if found is not None:
        text.append(", verified" if found.equal else ", not compared", style="green" if found.equal else "yellow")
    elif not report.kept:
        text.append(", not verified", style="yellow")
    if report.output:
        text.append(f", written to {report.output}")
    for said in (*report.warnings, *report.limits):
        text.append(f"\n  ! {said}", style="yellow")
    return text


def _headline(report: Report, separator: str = "\n") -> Text:
    before, after = report.node_count_before, report.node_count_after
    nodes = "1 node" if before == 1 else f"{before} nodes"
    text = Text.assemble((report.source, "bold"), f": {nodes} became ", (str(after), "bold green"), _percent(before, after))
    before_cost, after_cost = (cost_text(report, cost) for cost in (report.cost_before, report.cost_after))
    text.append(f", estimated {before_cost} became {after_cost}{_percent(report.cost_before, report.cost_after)}")
    text.append(f", in {seconds(sum(report.seconds.values()))}")
    if report.kept:
        text.append(f"{separator}the input is returned: {report.kept}", style="yellow")
    return text


def _operators(report: Report) -> RenderableType:
    table = changed_operators(report.nodes_before, report.nodes_after, "others, unchanged")
    return table if table.row_count > 1 else Text("no operator occurs more or less often than before")


def changed_operators(nodes_before: Mapping[str, int], nodes_after: Mapping[str, int], others: str) -> Table:
    """The counts of operators before and after, where they differ; the last row, called `others`, counts the remaining nodes, if there are
    any."""
    table = plain_table("operator", "before", "after", "")
    same = 0
    for name in sorted({*nodes_before, *nodes_after}):
        before, after = nodes_before.get(name, 0), nodes_after.get(name, 0)
        if before == after:
            same += before
            continue
        note = "holds data, not counted" if name in NOT_COUNTED else ""
        table.add_row(Text(name), str(before), str(after), f"{after - before:+d}  {note}".rstrip(), style="dim" if note else None)
    if same or not table.rows:
        table.add_row(others, str(same), str(same), "", style="dim")
    return table


def _passes(report: Report) -> Table:
    table = plain_table("pass", "time", "")
    for run in report.passes:
        shown = ", ".join(f"{_amount(amount)} {name}" for name, amount in run.counters.items() if run.own or name == "merged")
        table.add_row("  " * run.depth + run.name, "" if run.stage else seconds(run.seconds), shown)
    for part, taken in report.seconds.items():
        if part != "passes":
            table.add_row(f"({part})", seconds(taken), "", style="dim")
    return table


def _timings(report: Report) -> Table:
    table = plain_table("program", "nodes", "time", "", "")
    for timing in report.timings:
        first = timing is report.timings[0]
        shown = timing.failed or ("" if first else f"faster than the input in {timing.faster:.0%} of {timing.rounds} rounds")
        name = timing.name if first else f"by {timing.name}"
        time = "" if timing.failed else seconds(timing.seconds)
        table.add_row(name, str(timing.nodes), time, "<-" if timing.chosen else "", shown, style="green" if timing.chosen else None)
    return table


def cost_text(report: Report, cost: float) -> str:
    """A cost in the units of the report's model.

    >>> cost_text(Report(), 0.00123), cost_text(Report(cost_model="nodes", cost_in_seconds=False), 12.0)
    ('1.23 ms', '12 nodes')
    """
    if report.cost_in_seconds:
        return seconds(cost)
    unit = ("node" if cost == 1 else "nodes") if report.cost_model == "nodes" else report.cost_model
    return f"{cost:.6g} {unit}"


def _idle(report: Report) -> list[RenderableType]:
    """Why the user's rules did not fire."""
    lines: list[RenderableType] = []
    for rule in report.rules:
        if rule.own and not rule.fired:
            why = rule.why_not_run or "nothing matched its left side"
            if rule.matched:
                why = f"{rule.matched} {'match' if rule.matched == 1 else 'matches'}, {rule.rejected} rejected{_reasons(rule)}"
            lines.append(Text(f"! {rule.name} did not fire: {why}", style="yellow"))
    return lines


def _own_remarks(report: Report) -> list[RenderableType]:
    """Remarks of the user's passes."""
    names = {run.name for run in report.passes if run.own}
    found = [remark for remark in report.remarks if remark.partition(": ")[0] in names]
    more = [f"... and {len(found) - REMARKS_SHOWN} more remarks, which --json shows"] if len(found) > REMARKS_SHOWN else []
    return [Text(remark) for remark in (*found[:REMARKS_SHOWN], *more)]


def _amount(amount: float) -> str:
    return str(int(amount)) if amount == int(amount) else f"{amount:.6g}"


def _reasons(rule: RuleReport) -> str:
    """The first reasons for rejecting a rule's matches."""
    found = [reason for reason in rule.reasons if reason != OTHER_REASONS]
    more = "; ..." if len(found) > REASONS_SHOWN else ""
    return f": {'; '.join(found[:REASONS_SHOWN])}{more}" if found else ""


_CHANGED: Final = "; passes without rules changed the model, or nodes went because they are unused or equal to others"


def _rules(report: Report) -> RenderableType:
    fired = [rule for rule in report.rules if rule.fired]
    if not fired:
        return Text(f"no rule fired{_CHANGED if not report.kept else ''}")
    table = plain_table("rule", "fired", "matched", "rejected")
    for rule in fired[:RULES_SHOWN]:
        table.add_row(rule.name, str(rule.fired), str(rule.matched), str(rule.rejected))
    rest = fired[RULES_SHOWN:]
    if rest:
        table.add_row(f"{counted(len(rest), 'more rule')}", str(sum(rule.fired for rule in rest)), "", "", style="dim")
    return table


def _statistics(report: Report) -> RenderableType:
    """All rules with matches, with their time, their share of the result, and rejection reasons."""
    matched = [rule for rule in report.rules if rule.matched or rule.fired]
    if not matched:
        return Text(f"no rule matched anything{_CHANGED if not report.kept else ''}")
    table = plain_table("rule", "fired", "matched", "rejected", "time", "made", "")
    for rule in matched:
        part = f"{rule.share:.0%} of the result" if rule.made else "fired, not extracted" if rule.fired and rule.taken is False else ""
        table.add_row(rule.name, *map(str, (rule.fired, rule.matched, rule.rejected)), seconds(rule.seconds), str(rule.made), part)
    why = plain_table("rule", "rejected", "because")
    for rule in matched:
        for at, (reason, count) in enumerate(sorted(rule.reasons.items(), key=lambda item: -item[1])):
            why.add_row("" if at else rule.name, str(count), reason)
    return Group(table, Text(), why) if why.row_count else table


def _verification(report: Report) -> Text:
    if report.verification is not None:
        return verification_text(report.verification)
    if report.kept:
        return Text("verification: nothing to compare, the result is the input")
    return Text("verification: switched off", style="yellow")


def verification_text(report: VerifyReport) -> Text:
    """The result of verification in one sentence, with a line for each output that needed special treatment."""
    if report.equal is None:
        return Text(f"verification: nothing was compared: {report.skipped}", style="yellow")
    if not report.equal:
        return Text(f"verification: {report.mismatch}", style="bold red")
    text = Text.assemble(("verified", "green"), f" on ONNX Runtime: {values_text(report)}, in {seconds(report.seconds)}")
    if report.parts:
        text.append(f"\n  compared in parts: {report.parts}", style="yellow")
    for output in report.outputs:
        if output.note:
            text.append(f"\n  output {output.name}: {output.note}", style="yellow")
    return text


def values_text(report: VerifyReport) -> str:
    """How close the values of equal models are, and on which inputs."""
    sizes = "; ".join(trial.shown_sizes for trial in report.trials if trial.sizes and not trial.source)
    drawn = sum(not trial.source for trial in report.trials)
    random = [counted(drawn, "random input") + (f" ({sizes})" if sizes else "")] if drawn else []
    runs = " and ".join([*(trial.source for trial in report.trials if trial.source), *random])
    exact = report.relative == 0
    found = "the same values" if exact else f"the same values up to rounding (largest relative difference {report.relative:.1e})"
    return f"{found}, on {runs}"


def plain_table(*headings: str) -> Table:
    """A table without lines; numeric columns are right-aligned and never truncated."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    numbers = [heading in ("before", "after", "time", "fired", "matched", "rejected", "made", "level", "nodes") for heading in headings]
    for i, (heading, numeric) in enumerate(zip(headings, numbers, strict=True)):
        names = i == 0 and not all(numbers[1:])  # text columns shrink first
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=numeric or names, overflow="fold")
    return table


def _percent(before: float, after: float) -> str:
    if not before or before == after:
        return ""
    percent = 100 * (after - before) / before
    if abs(percent) < 0.01:  # one digit of it would be an exponent: -1e-05 %
        return " (less than 0.01 %)"
    return f" ({percent:+.0f} %)" if abs(percent) >= 0.5 else f" ({percent:+.1g} %)"


_PLURALS: Final = {"pass": "passes"}
_OPEN: Final = ("operators", "programs")
"""The titles of tables that are shown unfolded."""


def html(shown: RenderableType) -> str:
    """Converts rich output to HTML: a line for each text, tables under the heading of their first column."""
    parts = []
    for part in _flat(shown):
        if isinstance(part, Table):
            headings = [_plain(column.header) for column in part.columns]
            rows = zip(*([_plain(cell) for cell in column.cells] for column in part.columns), strict=True)
            found = markup.table(headings, rows, [column.justify == "right" for column in part.columns])
            title = _PLURALS.get(headings[0], f"{headings[0]}s")
            parts.append(markup.folded(f"{title} ({part.row_count})", found, opened=title in _OPEN) if headings[0] else found)
        elif isinstance(part, Text):
            parts.append(f"<div>{markup.text(part.plain)}</div>" if part.plain else "")
        else:
            parts.append(markup.block(str(part)))
    return "".join(parts)


def _flat(shown: RenderableType) -> list[RenderableType]:
    if not isinstance(shown, Group):
        return [shown]
    return [part for each in shown.renderables for part in _flat(each)]


def _plain(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


DELAY: Final = 1.0
"""Seconds before the line appears."""
INTERVAL: Final = 60.0
"""Seconds between printed lines without a terminal."""


class ProgressLine:
    """A context manager that is called with each step. Shows nothing if the console is not a terminal; with `lines` it prints the current
    step once per `interval` seconds."""

    def __init__(
        self, console: Console, *, enabled: bool = True, delay: float = DELAY, lines: bool = False, interval: float = INTERVAL
    ) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description} ...", markup=False), TimeElapsedColumn())
        self._status = Progress(*columns, console=console, transient=True)
        self._stage = self._status.add_task("")
        self._console = console
        is_terminal = console.file.isatty()  # FORCE_COLOR makes no terminal
        self._enabled = enabled and is_terminal
        self._interval = interval if enabled and lines and not is_terminal else None
        self._printed = time.monotonic()
        self._lock = threading.Lock()
        self._timer = threading.Timer(delay, self._show)
        self._timer.daemon = True
        self._closed = self._shown = False

    def __call__(self, text: str) -> None:
        """Reports the current step."""
        if self._enabled:
            self._status.update(self._stage, description=text)
        elif self._interval is not None and time.monotonic() - self._printed >= self._interval:
            self._console.print(f"{text} ...", markup=False)
            self._printed = time.monotonic()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Hides the line while something is printed."""
        with self._lock:
            if self._shown:
                self._status.stop()
        try:
            yield
        finally:
            with self._lock:
                if self._shown and not self._closed:
                    self._status.start()

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
