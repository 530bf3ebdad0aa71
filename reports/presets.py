"""Which chapters make which report: one preset per kind of question, of one run or two versions.

To add a chapter, write a function that takes the subject (View or Result) and returns a Section, or None if it has
nothing to say, in a module of `sections/`, and name it here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ..analysis.comparison.result import Result
from ..shapes.errors import UsageError, unknown_name
from ..shapes.plugins import Hook, joining
from ..shapes.verdict import Verdict
from .model import Section, explained
from .sections import side_by_side
from .sections.comparison import cases, cost, movers, open_points, origin, suite
from .sections.comparison.dumbbell import dumbbell
from .sections.comparison.models import models
from .sections.comparison.spread import spread
from .sections.comparison.tried import tried
from .sections.conditions.configurations import configurations
from .sections.conditions.context import environment, limits, protocol, reproduce
from .sections.conditions.devices import devices
from .sections.conditions.drift import drift
from .sections.limits.ceilings import ceilings
from .sections.limits.gap import gap
from .sections.limits.roofline import roofline
from .sections.limits.serving import serving
from .sections.side_by_side import SideBySide
from .sections.speedups.cells import throughput
from .sections.speedups.crossover import crossover
from .sections.speedups.curves import curves
from .sections.speedups.flat import flat
from .sections.speedups.maxima import maxima
from .sections.speedups.sides import ratios_over, sides
from .sections.speedups.speedup import speedup, speedup_of_challengers
from .sections.speedups.three_way import three_way
from .sections.speedups.winners import winners
from .sections.summary.cards import best_constant, highest_rates, means_over_sides
from .sections.summary.correctness import correctness
from .sections.summary.headline import Card, headline, limit, means
from .sections.summary.headline import crossover as median
from .sections.summary.known_limitations import known_limitations
from .sections.summary.legend import legend
from .sections.summary.open_items import open_items
from .sections.summary.takeaways import takeaways
from .view import View

Subject = TypeVar("Subject", View, Result, SideBySide)


@dataclass(frozen=True, slots=True)
class Preset(Generic[Subject]):
    """A kind of report: its `chapters` in reading order, those behind them that open on demand (`folded`).

    `lacks` says what it needs and a subject has not, or "". A hook among the chapters stands for those of the plugins.
    """

    name: str
    what: str
    chapters: tuple[Callable[[Subject], Section | None] | Hook, ...]
    folded: tuple[Callable[[Subject], Section | None] | Hook, ...] = ()
    lacks: Callable[[Subject], str] = lambda _: ""

    def sections(self, subject: Subject) -> tuple[Section, ...]:
        """Build the chapters that have something to say. Raises UsageError when the preset has nothing to show."""
        if missing := self.lacks(subject):
            raise UsageError(f"the preset {self.name} {missing}")
        found = tuple(
            explained(replace(section, folded=is_folded))
            for parts, is_folded in ((self.chapters, False), (self.folded, True))
            for part in parts
            for chapter in (joining(part) if isinstance(part, Hook) else [part])
            if (section := chapter(subject)) is not None
        )
        if not found:
            raise UsageError(f"the preset {self.name} finds nothing to show here: use the preset full")
        return found


def _lacks_comparison(view: View) -> str:
    """Ratios need a baseline and another provider with a time for one cell."""
    if view.ratios["ratio"].notna().any():
        return ""
    why = view.uncompared or f"no provider has a time beside one of {view.baseline}"
    return f"needs two providers with a time for the same cell: {why}"


def _lacks_sweep(view: View) -> str:
    """A crossover needs a challenger beside the baseline, and two M."""
    if missing := _lacks_comparison(view):
        return missing
    if view.uncompared:
        possible = ", ".join(name for name in view.others if not view.run.is_reference(name))
        way_out = f"; name one with --challenger ({possible})" if possible else ""
        return f"needs a challenger beside {view.baseline}: {view.uncompared}{way_out}"
    return "needs two or more M at a shape: sweep M with rooflens run -a M=1,2,4..256" if len(view.Ms) < 2 else ""


def _lacks_third(view: View) -> str:
    """A kernel beside the one that it replaces, and a reference: the baseline need not be one of them."""
    timed = view.cells.loc[view.cells["verdict"] == Verdict.PASSED, "provider"].nunique()
    if timed < 3:
        missing = f"needs three providers with a time (old, new, reference), the run has {timed}"
        return _lacks_comparison(view) or missing
    named = sides(view)
    beside = [name for name in (named.old, named.reference) if name] if named else []
    for name in beside:
        ratios = ratios_over(view, name)
        if named and ratios.loc[ratios["provider"] == named.new, "ratio"].notna().any():
            return ""
    return _lacks_comparison(view) or "needs three providers with a time for the same cell (old, new, reference)"


def _lacks_time(view: View) -> str:
    return (
        "" if view.cells["time_s"].notna().any() else "needs a cell with a time: the preset full says why there is none"
    )


def _joined(
    section_id: str, title: str, *parts: Callable[[Subject], Section | None]
) -> Callable[[Subject], Section | None]:
    """Make one chapter of several that belong together; None where none of them has anything to say."""

    def build(subject: Subject) -> Section | None:
        found = tuple(section for part in parts if (section := part(subject)) is not None)
        return Section(section_id, title, sections=found) if found else None

    return build


def _headline(*cards: Card) -> Callable[[View], Section]:
    """Head a report with the numbers of its question."""
    return lambda view: headline(view, *cards)


_HOW = (_joined("measured", "How it was measured", environment, devices, drift, protocol, limits), reproduce)

_CONTEXT = (serving, correctness, configurations, *_HOW)
"""What the reports of one question end with."""

OF_A_RUN: dict[str, Preset[View]] = {
    preset.name: preset
    for preset in (
        Preset(
            "full",
            "everything that is known of a run",
            (headline, speedup, crossover, curves, roofline, correctness, known_limitations, open_items),
            (
                *(gap, Hook.CHAPTER, winners, throughput, ceilings, serving),
                *(configurations, *_HOW),
            ),
        ),
        Preset(
            "crossover",
            "up to which M a kernel wins: headline maxima, crossovers, curves",
            (
                *(_headline(median, best_constant, means, limit), maxima, crossover, curves),
                *(known_limitations, open_items),
            ),
            (Hook.CHAPTER, *_CONTEXT),
            _lacks_sweep,
        ),
        Preset(
            "decode-grid",
            "one grid of speedups, shape x M, and the fastest of each cell",
            (_headline(means, limit), speedup_of_challengers, winners, known_limitations, open_items),
            (curves, *_CONTEXT),
            _lacks_comparison,
        ),
        Preset(
            "three-way",
            "a kernel beside the one that it replaces and a reference",
            (_headline(means_over_sides), takeaways, three_way, open_items),
            _CONTEXT,
            _lacks_third,
        ),
        Preset(
            "flat",
            "time, rate and bandwidth of every shape of one sweep",
            (_headline(highest_rates), flat, legend, open_items),
            _CONTEXT,
            _lacks_time,
        ),
    )
}
"""Presets of one run, the default first."""

OF_TWO_VERSIONS: dict[str, Preset[Result]] = {
    "branch": Preset(
        "branch",
        "what changed between two versions",
        (
            *(suite.headline, origin.identity, suite.suite, dumbbell, movers.movers, movers.losses, cases.outcomes),
            *(open_points.limitations, open_points.open_items),
        ),
        (
            _joined("compared-details", "Cases and models", spread, models, cases.cases),
            _joined("compared-ran", "What ran", cases.choices, cost.cost, cost.evidence, tried),
            *(open_points.tally, origin.doubts, origin.digest),
            _joined("compared-source", "How to reproduce", origin.reproduce, origin.provenance),
        ),
    )
}
"""Presets of a comparison, the default first."""

OF_SEVERAL_RUNS = Preset(
    "side-by-side",
    "several runs, such as those of other devices, a column each",
    (side_by_side.overview, side_by_side.best, side_by_side.cells),
)

PRESETS: dict[str, Preset[Any]] = {**OF_A_RUN, **OF_TWO_VERSIONS, OF_SEVERAL_RUNS.name: OF_SEVERAL_RUNS}


def of_a_run(name: str) -> Preset[View]:
    """Return a preset of one run. Raises UsageError for an unknown one, and for one that needs two versions."""
    way_out = "name the BASE too (rooflens report RUN BASE), or the folder of rooflens compare --git"
    return _chosen(name, OF_A_RUN, OF_TWO_VERSIONS, f"compares two versions: {way_out}")


def of_two_versions(name: str) -> Preset[Result]:
    """Return a preset of a comparison. Raises UsageError for an unknown one, and for one of a single run."""
    other = f"is of one run: leave BASE out, or use the preset {', '.join(OF_TWO_VERSIONS)}"
    return _chosen(name, OF_TWO_VERSIONS, OF_A_RUN, other)


def _chosen(
    name: str, presets: Mapping[str, Preset[Subject]], others: Mapping[str, Preset[Any]], other: str
) -> Preset[Subject]:
    if name in others:
        raise UsageError(f"the preset {name} {other}")
    if name not in presets:
        raise unknown_name("preset", name, list(PRESETS))
    return presets[name]
