"""What a sweep says while it goes on: failures once, and a bar whose clock does not stop."""

import io
import re
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console
from rooflens.api import progress as module
from rooflens.api.measuring import watched
from rooflens.api.progress import Progress
from rooflens.harness.sweep.events import Doing, Finished, Grown, Remarked, Started
from rooflens.shapes.verdict import Verdict


def cell(provider="p", M=1):
    return SimpleNamespace(provider=provider, shape=SimpleNamespace(label="s"), problem=f"M={M}", cache="warm")


def told(*failures):
    """Return the lines of a run in which these (provider, M, verdict, reason) came in."""
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress(Started(len(failures), 0))
        for provider, M, verdict, reason in failures:
            progress(Finished(1, cell(provider, M), verdict, reason))
    return stream.getvalue().splitlines()


def test_providers_with_one_reason_share_a_line_before_whatever_comes_next():
    declined = [(name, 1, Verdict.UNSUPPORTED, "needs a GPU") for name in ("p", "q", "r")]
    lines = told(*declined, ("s", 1, Verdict.UNSUPPORTED, "needs ROCm"), ("t", 1, Verdict.RUNTIME_ERROR, "boom"))
    assert lines == [
        "p, q, r unsupported: needs a GPU",
        "s unsupported: needs ROCm",
        "t runtime_error (s, M=1, warm): boom",
    ]


def test_a_failure_is_told_once_for_each_size_and_what_is_declined_once_for_all():
    declined = [("p", M, Verdict.UNSUPPORTED, f"nobody takes M={M} N=64") for M in (1, 2, 4)]
    failed = [("p", M, Verdict.RUNTIME_ERROR, f"no tile for M={M}") for M in (1, 2, 2)]
    assert told(*declined, *failed) == [
        "p unsupported: nobody takes M=1 N=64",
        "p runtime_error (s, M=1, warm): no tile for M=1",
        "p runtime_error (s, M=2, warm): no tile for M=2",
    ]


@pytest.mark.parametrize(
    ("deadline", "planned", "left"), [(None, "2 of 8", ["90 s", "510 s"]), (160.0, "2 of 8", ["30 s", "0 s"])]
)
def test_the_time_left_is_that_of_the_units_or_of_the_budget(monkeypatch, deadline, planned, left):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    with Progress(stream, **({"deadline": deadline} if deadline else {})) as progress:
        progress(Started(2, 0))
        progress(Finished(2, cell()))
        progress(Grown(8))  # cells are added
        for now[0] in (130.0, 270.0):
            progress(Doing("measure"))
    assert stream.getvalue().splitlines() == [f"{planned} units, about {seconds} left: measure" for seconds in left]


@pytest.fixture
def terminal(monkeypatch):
    """Return a progress on a terminal of 80 columns that draws nothing by itself, and its clock."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock.now)
    stream = io.StringIO()
    progress = Progress(stream)
    progress._bar.get_time = lambda: clock.now
    progress._bar.live.auto_refresh = False
    console = Console(file=stream, force_terminal=True, width=80, color_system=None)

    def line():
        with console.capture() as captured:
            console.print(progress._bar.make_tasks_table(progress._bar.tasks))
        return " ".join(re.sub("[━╸╺]", "", captured.get()).split())

    return progress, clock, line


def test_the_bar_counts_nothing_before_the_units_are_known(terminal):
    progress, clock, line = terminal
    progress(Doing("start the worker"))
    clock.now += 3
    assert line() == "0:00:03 start the worker"


def test_the_clock_goes_on_while_ceilings_are_measured_after_the_last_unit(terminal):
    progress, clock, line = terminal
    progress(Started(2, 0))
    for _ in range(2):
        clock.now += 5
        progress(Finished(1, cell()))
    progress(Doing("ceiling 3 of 14: llc read bandwidth"))
    clock.now += 55
    assert line() == "2/2 0:01:05 ceiling 3 of 14: llc read bandwidth"
    clock.now += 3600
    assert line().startswith("2/2 1:01:05 ")


def test_python_shows_a_bar_on_a_terminal_and_lines_to_who_wants_them(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    events = (Started(2, 0), Finished(1, cell()), Remarked("worth a line"), Doing("measure"))
    lines: list[str] = []
    for is_terminal, tell in ((True, None), (False, None), (True, lines.append)):
        stream = io.StringIO()
        stream.isatty = lambda is_terminal=is_terminal: is_terminal
        monkeypatch.setattr(sys, "stderr", stream)
        with watched(tell) as observer:
            for event in events:
                observer(event)
        shown = stream.getvalue()
        assert ("1/2" in shown, "worth a line" in shown) == (is_terminal and tell is None,) * 2
    assert lines == ["worth a line"]
