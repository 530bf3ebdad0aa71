"""pytest plugin: the fixture `rooflens` measures a call, and compares it with a baseline that was stored before.

    def test_gemm(rooflens):
        assert rooflens(gemm).not_slower_than("main")

`pytest --rooflens-save main` stores the baseline. What cannot be decided is skipped, with the reason. Everything but
pytest is imported when something is measured: the plugin is loaded in every session of its environment.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .baselines import BaselineVerdict, StoredTiming
    from .times import Timing

MARKER = "rooflens"

SAVE, FOLDER = "--rooflens-save", "rooflens_baselines"

DEFAULT_FOLDER = "rooflens-baselines"

BETWEEN_PROCESSES = 0.15
"""Margin between sessions: cold products of torch scatter by as much over fresh processes (docs/measured-facts.md)."""

PROPERTY = "rooflens"
"""Name of the report property that holds what was measured, a line each."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that stores baselines, and the setting of their folder."""
    group = parser.getgroup("rooflens")
    group.addoption(SAVE, metavar="NAME", help="store what the fixture rooflens measures as the baseline NAME")
    parser.addini(FOLDER, f"folder of stored baselines, relative to the root; default: {DEFAULT_FOLDER}", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    line = f"{MARKER}(**options): options of rooflens.bench for the fixture; every test that uses it has the marker"
    config.addinivalue_line("markers", line)


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that measure, so that `-m "not rooflens"` leaves them out."""
    for item in items:
        if "rooflens" in getattr(item, "fixturenames", ()) and not item.get_closest_marker(MARKER):
            item.add_marker(MARKER)


@pytest.fixture
def rooflens(request: pytest.FixtureRequest) -> "Measure":
    """Measure calls: `rooflens(fn)` has a `timing`, and `not_slower_than(name)`."""
    marker = request.node.get_closest_marker(MARKER)
    return Measure(request.node, dict(marker.kwargs) if marker else {})


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was measured and decided, by test: pytest itself leaves out the reasons of skips."""
    reports = [one for found in terminalreporter.stats.values() for one in found if getattr(one, "when", "") == "call"]
    told = {one.nodeid: [value for name, value in one.user_properties if name == PROPERTY] for one in reports}
    if any(told.values()):
        terminalreporter.section("rooflens")
    for node, lines in told.items():
        for line in [node, *(f"  {line}" for line in lines)] if lines else []:
            terminalreporter.write_line(line)


@dataclass(slots=True, repr=False)
class Measure:
    """The fixture of one test: measures calls with the options of its marker, and stores what it measured."""

    node: pytest.Item
    options: dict[str, Any]
    measured: "dict[str, StoredTiming]" = field(default_factory=dict)

    def __repr__(self) -> str:  # a failed assertion shows it
        return "rooflens"

    def __call__(self, fn: Callable[..., object], *, name: str | None = None, **options: Any) -> "Measured":
        """Time `fn` by `rooflens.bench` with its options. `name` tells several calls of one test apart."""
        __tracebackhide__ = True  # what is skipped or fails is at the line of the test
        if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
            pytest.skip("other tests run beside this one, and disturb what it measures: run it with -n 0")
        from .baselines import StoredTiming
        from .bench import bench, name_of

        chosen, options = name or name_of(fn), self.options | options
        if chosen in self.measured:
            pytest.fail(f"this test has measured {chosen} before: give name=... to tell both apart", pytrace=False)
        with _told_in_one_line():
            timing = bench(fn, name=chosen, **options)
            self.measured[chosen] = StoredTiming.of(timing)
            device = options.get("device", "auto")
            if self.saved:
                self._store(timing, device)
        self.tell(str(timing), *(f"note: {chosen}: {text}" for text in timing.warnings))
        return Measured(timing, self, device)

    @property
    def saved(self) -> str:
        """Name of the baseline that this session stores, "" if none."""
        return str(self.node.config.getoption(SAVE) or "")

    def tell(self, *lines: str) -> None:
        """Add lines to the summary of the session."""
        self.node.user_properties.extend((PROPERTY, line) for line in lines)

    def path(self, name: str) -> Path:
        """File of this test in a baseline."""
        from .baselines import path_of

        folder = self.node.config.rootpath / (self.node.config.getini(FOLDER) or DEFAULT_FOLDER)
        return path_of(folder, name, self.node.nodeid)

    def _store(self, timing: "Timing", device: str) -> None:
        from ..shapes.errors import RooflensError
        from .baselines import Baseline, describe, software
        from .sampling import canary, open_bench

        if timing.impossible:
            raise RooflensError(f"{timing.name} is not stored: {timing.warnings[-1]}")
        found = describe(open_bench(device).device)
        stored = Baseline(self.node.nodeid, found, software(), canary(device), self.measured)
        stored.write(self.path(self.saved))


@dataclass(frozen=True, slots=True, repr=False)
class Measured:
    """One measured call: its timing, and comparisons with baselines."""

    timing: "Timing"
    _measure: Measure
    _device: str

    def __repr__(self) -> str:  # a failed assertion shows it
        return f"rooflens({self.timing.name})"

    def not_slower_than(self, name: str, margin: float = BETWEEN_PROCESSES) -> "BaselineVerdict | bool":
        """Compare with the baseline `name`: false where the call is verified to be slower by over `margin` (0.05: 5 %).

        The test is skipped where there is no baseline, or where nothing is decided; it fails where the baseline is of
        another device, or was taken in another way.
        """
        __tracebackhide__ = True
        from .baselines import Baseline, judge
        from .sampling import canary, open_bench

        if self._measure.saved == name:
            return True
        stored = None
        with suppress(FileNotFoundError), _told_in_one_line():
            stored = Baseline.read(self._measure.path(name))
        if stored is None or self.timing.name not in stored.timings:
            reason = f"make it with pytest {SAVE} {name} '{self._measure.node.nodeid}'"
            reason = f"{self.timing.name} is not in the baseline {name}: {reason}"
            self._measure.tell(reason)
            pytest.skip(reason)
        with _told_in_one_line():
            verdict = judge(stored, name, self.timing, open_bench(self._device).device, canary(self._device), margin)
        self._measure.tell(str(verdict))
        if verdict.undecided:
            pytest.skip(f"inconclusive in {self._measure.node.name}: {verdict}")
        return verdict


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    """Let a test fail by the message of our errors alone."""
    from ..shapes.errors import RooflensError

    try:
        yield
    except RooflensError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
