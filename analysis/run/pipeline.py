"""All steps of the analysis of one run: what the command line prints and what a report shows are these objects."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from ...shapes.run_folder.coverage import Coverage
from ...shapes.run_folder.disturbance import CANARY_SLOWED, Cause, by_others, disturbances, worst
from ...shapes.verdict import Verdict
from ..crossover.across_shapes import MedianCrossover, median_crossovers
from ..crossover.per_shape import CROSSOVER_COLUMNS, crossovers
from ..crossover.refine import swept
from ..frames.deciding import deciding
from ..frames.load import RunData
from ..frames.notes import RunWarning, Topic, remedy
from ..frames.speedup import ALIKE, geometric_means, speedups
from ..frames.telemetry import Conditions, conditions
from ..roofline import place, raise_ceilings, roofline_warnings
from ..roofline.gaps import gaps
from ..stability.canary import Drift, drifts_by_device, worst_drifts
from ..stability.device_spread import device_warnings, spreads
from ..stability.devices import MeasuredDevice, measured_devices
from .question import ranked
from .remedy import remedy as way_on
from .summarize import round_medians, summarize


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """Results of one run.

    challengers `question.ranked`: those of the run, the one that wins most first
    coverage    what became of its cells
    ceilings    `raising.raise_ceilings`: the rows of ceilings.csv, and what cells reach beyond measured ones
    cells       `roofline.place`: one row per cell, its summary and its place on the roofline
    added       summaries of the cells that a refinement added at single shapes: in no other table but `crossovers`
    rounds      `summarize.round_medians`
    speedups    `speedup.speedups` over the baseline of the run
    means       `speedup.geometric_means` of them
    crossovers  `per_shape.crossovers` of each challenger that has a cell against the baseline
    medians     their medians: one per challenger and (pass, dtype, scheme, cache)
    gaps        `gaps.gaps` of the cells: what lies between the ideal and the measured time of each cell
    conditions  `telemetry.conditions` of the run, None where no telemetry is stored
    canary      `canary.worst_drifts` of the run, empty where no canary is stored
    devices     `devices.measured_devices` of a run of several, empty where there is one
    warnings    what concerns the run as a whole
    """

    run: RunData
    challengers: tuple[str, ...]
    coverage: Coverage
    ceilings: pd.DataFrame
    cells: pd.DataFrame
    added: pd.DataFrame
    rounds: pd.DataFrame
    speedups: pd.DataFrame
    means: pd.DataFrame
    crossovers: pd.DataFrame
    medians: tuple[MedianCrossover, ...]
    gaps: pd.DataFrame
    conditions: Conditions | None
    canary: tuple[Drift, ...]
    devices: tuple[MeasuredDevice, ...]
    warnings: tuple[str, ...]


def analyze(run: RunData) -> Analysis:
    """Run every step on a loaded run."""
    every, rounds = summarize(run), round_medians(run)
    summary = swept(every)
    by_device = drifts_by_device(run.canary, run.device_of)
    canary = worst_drifts(by_device.values())
    devices = measured_devices(run, by_device)
    ratios = speedups(summary, rounds, run.baseline)
    challengers, covered = ranked(run, ratios), run.coverage
    found = _crossovers(run, every, rounds, challengers)
    cells, ceilings = placed(run, summary)
    return Analysis(
        run=run,
        challengers=challengers,
        coverage=covered,
        ceilings=ceilings,
        cells=cells,
        added=every.loc[every["refined"]],
        rounds=rounds,
        speedups=ratios,
        means=geometric_means(ratios),
        crossovers=found,
        medians=tuple(one for _, rows in found.groupby("challenger", sort=False) for one in median_crossovers(rows)),
        gaps=gaps(cells),
        conditions=conditions(run.telemetry),
        canary=canary,
        devices=devices,
        warnings=(
            *run.replaced,
            *_uncovered(run, every, covered),
            *device_warnings(run, spreads(run, devices)),
            *_mixtures(summary),
            *_disturbances(summary),
            *roofline_warnings(cells, ceilings, run.device, canary),
        ),
    )


def placed(run: RunData, summary: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return `roofline.place` of the swept cells of a run, from its `summarize`, and `raise_ceilings` of them.

    M that a refinement added at single shapes would weigh in every share and mean over shapes.
    """
    cells = swept(summary)
    ceilings = raise_ceilings(cells, run.ceilings, run.device)
    return place(cells, ceilings, run.device), ceilings


def _crossovers(run: RunData, summary: pd.DataFrame, rounds: pd.DataFrame, challengers: Sequence[str]) -> pd.DataFrame:
    """Find those of every challenger that has a time; where none has, of the first that has a cell."""
    timed, present = set(deciding(summary)["provider"]), set(summary["provider"])
    names = [name for name in challengers if name in timed] or [name for name in challengers if name in present][:1]
    if run.baseline not in present:
        names = []
    found = [crossovers(summary, rounds, name, run.baseline) for name in names]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=list(CROSSOVER_COLUMNS))


def _uncovered(run: RunData, summary: pd.DataFrame, covered: Coverage) -> list[str]:
    """Say what of the plan is missing, and what failed."""
    warnings: list[str] = []
    if covered.rounds_to_do:
        missing = f"{covered.rounds_to_do} of {covered.rounds} rounds are missing"
        way_out = f": {way_on(rounds_to_do=covered.rounds_to_do, run=run.path)}" if run.manifest.is_current else ""
        warnings.append(RunWarning(f"{missing}{way_out}", Topic.UNFINISHED))
    failed = summary.loc[~summary["verdict"].isin([Verdict.PASSED, Verdict.UNSUPPORTED])]
    counts = failed.groupby(["provider", "verdict"], sort=False).size().reset_index(name="cells")
    for provider, verdict, count in counts.itertuples(index=False, name=None):
        warnings.append(RunWarning(f"{provider}: {count} cells ended as {verdict}; their rows say why", Topic.FAILED))
    if run.baseline not in set(summary["provider"]):
        warnings.append(f"the baseline {run.baseline} has no cell here: no speedups, no crossovers")
    if not set(run.challengers) & set(summary["provider"]):
        warnings.append(f"no challenger ({', '.join(run.challengers) or 'none named'}) has a cell here: no crossovers")
    return warnings


def _mixtures(summary: pd.DataFrame) -> list[str]:
    """Say that cells of one cache state were timed in different ways, so that some ratios are refused."""
    passed = summary.loc[summary["verdict"] == Verdict.PASSED]
    warnings = []
    for name in ALIKE:
        for cache, cells in passed.groupby("cache", sort=False):
            counts = cells[name].value_counts()
            if len(counts) > 1:
                ways = ", ".join(f"{way or 'unknown'} {count}" for way, count in counts.items())
                warnings.append(f"{cache} cells differ in {name} ({ways}): no ratio across them; use one {name}")
    return warnings


def _disturbances(summary: pd.DataFrame) -> Iterator[str]:
    """Say what a slower device means for times and for ratios, and what disturbed the cells where that is all of them.

    A slower device slows down all providers of a round that have the same limit alike. Other processes do not.
    """
    passed = summary.loc[summary["verdict"] == Verdict.PASSED]
    every = worst(passed["disturbed"])
    found = disturbances(every)
    if by := [max(one.values) for one in found if one.cause is Cause.CANARY]:
        slower = passed.loc[passed["disturbed"].str.contains(CANARY_SLOWED)]
        ratios = "ratios are paired within rounds, and hold where both sides are bound by compute or both by memory"
        if by_others(every):
            ratios = "ratios are paired within rounds, but other processes slow down some providers more than others"
        elif slower["rounds"].min() < 2:
            ratios = "a ratio of one round may have drifted too: measure two or more"
        cells = f"around {len(slower)} of {len(passed)} cells"
        yield f"the canary slowed down by up to {max(by):.0f}% {cells}: absolute times drifted by as much; {ratios}"
    others = ", ".join(str(one) for one in found if one.cause is not Cause.CANARY)
    if others and (passed["disturbed"] != "").all():
        yield f"every cell was disturbed while measured, at worst: {others}{remedy(every)}"
