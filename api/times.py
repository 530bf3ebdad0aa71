"""What timing calls gives: `Timing` of one, `Comparison` of several, each against a baseline.

Values, and how a reader sees them. No torch: they also leave the process that measured them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..reports import formatting as fmt
from ..reports.listing import listing
from ..reports.model import Section, Table
from ..reports.render.terminal import lines
from ..shapes.errors import CorrectnessError, RooflensError, unknown_name

WIDTH = 200
"""Columns of a printed table: a row stays on its line."""

MOST_DETECTABLE = 10.0
"""A least detectable change above this says no more than that nothing is known."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The measured time of one call. Times are in seconds; None or empty is unknown.

    median_s    geometric mean of the medians of the rounds: the time of a cell in a run
    interval_s  95 % interval of it, from the scatter between rounds of this process; None with one round
    rounds_s    the samples that count, in order, per round
    flops       what one call computes, bytes what it reads and writes, as they were given
    roof_s      what the ceilings of the device allow at best for these; None where one that it takes is unknown
    impossible  True for a time shorter than the device allows: it decides nothing
    output      "agrees" with the reference, "unchecked" and why, or "not checked" (docs/api.md); "" of the baseline
    """

    name: str
    median_s: float
    interval_s: tuple[float, float] | None
    rounds_s: tuple[tuple[float, ...], ...]
    flops: float | None
    bytes: float | None
    roof_s: float | None
    device: str
    timer: str
    cache: str
    impossible: bool = False
    warnings: tuple[str, ...] = ()
    output: str = "not checked"

    @property
    def samples_s(self) -> tuple[float, ...]:
        """All samples that count."""
        return tuple(sample for taken in self.rounds_s for sample in taken)

    @property
    def tflops(self) -> float | None:
        """Rate in TFLOPS; None without `flops`."""
        return self.flops / self.median_s * 1e-12 if self.flops else None

    @property
    def gb_per_s(self) -> float | None:
        """Bandwidth in GB/s (1e9 bytes); None without `bytes`."""
        return self.bytes / self.median_s * 1e-9 if self.bytes else None

    @property
    def roof_fraction(self) -> float | None:
        """Least time that the device allows over the measured one; None where it is unknown."""
        return self.roof_s / self.median_s if self.roof_s else None

    def row(self) -> dict[str, str]:
        """Figures as a reader sees them, by the header of their column; unknown ones are empty."""
        low, high = self.interval_s or (None, None)
        return {
            "time": fmt.time(self.median_s, low, high),
            "95% interval": fmt.time_interval(low, high),
            "rate": fmt.flops(self.flops / self.median_s if self.flops else None),
            "bandwidth": fmt.bandwidth(self.bytes / self.median_s if self.bytes else None),
            "roof": fmt.share(self.roof_fraction),
            "output": self.output.partition(":")[0],
        }

    def __str__(self) -> str:
        figures = self.row()
        roof, output = figures.pop("roof"), figures.pop("output")
        taken = f"{fmt.plural(len(self.rounds_s), 'round')}, {fmt.plural(len(self.samples_s), 'sample')}, {self.cache}"
        taken += f", output {output}"
        warned = f", {fmt.plural(len(self.warnings), 'warning')}" if self.warnings else ""
        parts = [*figures.values(), f"{roof} of the roof" if roof else "", f"({taken}{warned})"]
        return f"{self.name}: {'  '.join(filter(None, parts))}"

    def _repr_html_(self) -> str:
        return _html([{"": self.name} | self.row()], self.warnings)


@dataclass(frozen=True, slots=True)
class Change:
    """What a call is against a baseline.

    ratio       time of the baseline / time of this call: above 1 this call is faster
    interval    95 % interval of the ratio, None with fewer than two rounds
    verdict     faster, slower, same or inconclusive: a change has to exceed `margin`
    margin      change that is of no interest, as a share of the time
    detectable  least change, as a share of the time, that as many rounds find with 80 % probability; None if unknown
    """

    ratio: float
    interval: tuple[float, float] | None
    verdict: str
    margin: float
    detectable: float | None

    def row(self) -> dict[str, str]:
        """Figures as a reader sees them, by the header of their column."""
        low, high = self.interval or (None, None)
        open_ = low is None or high is None or low <= 1 <= high
        return {
            "ratio": fmt.undecided(self.ratio, low, high) if open_ else fmt.ratio(self.ratio, low, high),
            "95% of ratio": fmt.ratio_interval(low, high),
            "verdict": str(self.verdict),
            "detectable": fmt.share(self.detectable) if (self.detectable or 0) < MOST_DETECTABLE else "unknown",
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Timings of several calls by name, and the changes against the baseline's; an unchecked call has none.

    `failures` are calls without a time: CorrectnessError where the output is not the baseline's, else what it raised.
    `reasons` says the same of each in a line.
    """

    baseline: str
    timings: Mapping[str, Timing]
    changes: Mapping[str, Change]
    failures: Mapping[str, BaseException]
    reasons: Mapping[str, str]

    def __getitem__(self, name: str) -> Change:
        if name in self.failures:
            raise self.failures[name]
        if name in self.timings.keys() - self.changes.keys() - {self.baseline}:
            why = "the baseline failed" if self.baseline in self.failures else f"output {self.timings[name].output}"
            raise RooflensError(f"{name} has no verdict: {why}")
        if name not in self.changes:
            raise unknown_name("call", name, list(self.changes))
        return self.changes[name]

    def outcome(self, name: str) -> str:
        """What became of a call."""
        if name not in self.failures:
            return "passed"
        return "wrong" if isinstance(self.failures[name], CorrectnessError) else "failed"

    def rows(self) -> list[dict[str, str]]:
        """Rows as a reader sees them, by the headers of the columns; the baseline's first, failures last."""
        found: list[dict[str, str]] = []
        for name in sorted(self.timings, key=lambda one: one != self.baseline):
            judged = self.changes[name].row() if name in self.changes else {}
            judged = {"verdict": "baseline"} if name == self.baseline else judged
            found.append({"call": name} | self.timings[name].row() | judged)
        found += [{"call": name, "output": self.outcome(name)} for name in self.failures]
        headers = max(found, key=len) if found else {}
        return [dict.fromkeys(headers, "") | row for row in found]

    def values(self) -> list[dict[str, Any]]:
        """Rows as values for JSON, in base units, null where unknown: a time if and only if the outcome is passed."""
        found: list[dict[str, Any]] = []
        for name, timing in self.timings.items():
            change = asdict(self.changes[name]) if name in self.changes else None
            found.append({"outcome": "passed"} | asdict(timing) | {"change": change})
            found[-1]["rounds"] = len(found[-1].pop("rounds_s"))
        return found + [
            {"outcome": self.outcome(name), "name": name, "reason": reason} for name, reason in self.reasons.items()
        ]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know of the calls."""
        return tuple(f"{name}: {text}" for name, timing in self.timings.items() for text in timing.warnings)

    @property
    def errors(self) -> tuple[str, ...]:
        """Why calls have no time."""
        named = self.reasons.items()  # a wrong output is told with the name of its call
        return tuple(text if self.outcome(name) == "wrong" else f"{name}: {text}" for name, text in named)

    @property
    def error(self) -> RooflensError | None:
        """What a command ends with: CorrectnessError where an output was wrong, None where all calls have a time."""
        wrong = any(self.outcome(name) == "wrong" for name in self.failures)
        return (CorrectnessError if wrong else RooflensError)("; ".join(self.errors)) if self.failures else None

    def table(self) -> Table:
        """Lay out the rows; columns without any text are left out."""
        rows = self.rows()
        names = [name for name in rows[0] if any(row[name] for row in rows)]
        return listing(names, [[row[name] for name in names] for row in rows])

    def __str__(self) -> str:
        shown = lines(Section("", "", (self.table(),)), WIDTH, str)
        return "\n".join((*shown, *(f"note: {text}" for text in self.warnings), *self.errors))

    def _repr_html_(self) -> str:
        return _html(self.rows(), (*self.warnings, *self.errors))


def _html(rows: Sequence[dict[str, str]], remarks: Sequence[str]) -> str:
    """Write rows as an HTML table, and remarks under it; columns without any text are left out."""
    import pandas as pd
    from markupsafe import escape

    frame = pd.DataFrame(rows)
    table = frame.loc[:, (frame != "").any()].to_html(index=False, border=0, justify="left")
    return f"{table}{''.join(f'<p>{escape(text)}</p>' for text in remarks)}"
