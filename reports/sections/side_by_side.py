"""Several runs side by side, such as those of other devices: one column per run.

The runs were measured apart: nothing compares two columns, and each ratio is a run's own. Means and medians are over
what all runs have that measured any of it, so that a column differs by its device and not by its shapes.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pandas as pd

from ...analysis.crossover.across_shapes import MedianCrossover, median_crossovers
from ...analysis.frames.coordinates import COORDINATES, SETTING, SHAPE
from ...analysis.frames.speedup import best_speedups, geometric_means
from .. import formatting as fmt
from ..cells import mean_cell, median_text, ratio_cell, time_cell
from ..figures.chart import Data, Figure, Point, Series
from ..figures.marks import provider_legend
from ..model import Block, Cells, Column, Section, Table, TableCell, table
from ..view import Row, Slice, View, anchors, sliced, slices_of
from .speedups.curves import speedup_chart
from .speedups.maxima import coordinates
from .speedups.sizes import label_and_size

APART = (
    "Each ratio is that of one run, over its own baseline; the runs were measured apart, and no verdict compares two."
)


class SideBySide:
    """Views of several runs, each under the shortest label that tells them apart."""

    def __init__(self, views: Sequence[View]) -> None:
        self.views = tuple(views)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Architectures, names of devices, names of runs or folders: the first of these that are distinct."""
        of = (
            lambda view: view.run.device.arch,
            lambda view: view.run.device.name,
            lambda view: view.run.id,
            lambda view: str(view.run.folder),
        )
        named = (tuple(label(view) for view in self.views) for label in of)
        *_, last = found = [labels for labels in named if all(labels)]
        return next((labels for labels in found if len(set(labels)) == len(labels)), last)

    def columns(self, cells: Iterable[TableCell]) -> Cells:
        """One column per run."""
        numbered = enumerate(zip(self.labels, cells, strict=True))
        return {Column(label, key=str(number)): cell for number, (label, cell) in numbered}

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """Every (pass, dtype, scheme, cache) that a run has."""
        return slices_of(pd.concat([view.cells[[*SETTING]] for view in self.views]))

    @cached_property
    def challengers(self) -> tuple[str, ...]:
        """Challengers of any run, in the order of the runs."""
        return tuple(dict.fromkeys(name for view in self.views for name in view.challengers))

    def title(self, setting: Sequence[str]) -> str:
        """Title of the slice of a (pass, dtype, scheme, cache)."""
        return next(part.title for part in self.slices if part.setting == tuple(setting))

    @cached_property
    def ratios(self) -> list[pd.DataFrame]:
        """Per run the known ratios of challengers, at coordinates that the others have too."""
        known = [view.ratios[view.ratios["ratio"].notna()] for view in self.views]
        own = [frame[frame["provider"].isin(self.challengers)] for frame in known]
        return _shared(own, ("provider", *SETTING), ("provider", *COORDINATES))

    @cached_property
    def means(self) -> list[dict[tuple[Any, ...], Row]]:
        """Per run the geometric means of `ratios`, by challenger, pass, dtype, scheme, cache and M."""
        by = ("provider", *SETTING, "M")
        found = [geometric_means(frame).to_dict("records") for frame in self.ratios]
        return [{(*(row[name] for name in by[:-1]), int(row["M"])): row for row in rows} for rows in found]

    @cached_property
    def crossovers(self) -> list[pd.DataFrame]:
        """Per run the crossovers of shapes that the others have too."""
        found = [view.analysis.crossovers for view in self.views]
        return _shared(found, ("challenger", *SETTING), ("challenger", *SHAPE, *SETTING))


def _shared(frames: Sequence[pd.DataFrame], group: tuple[str, ...], key: tuple[str, ...]) -> list[pd.DataFrame]:
    """Keep the rows whose `key` every frame has that has any row of their `group`."""
    keys = [pd.MultiIndex.from_frame(frame[[*key]]) for frame in frames]
    groups = [pd.MultiIndex.from_frame(frame[[*group]]) for frame in frames]
    kept = []
    for frame, own_keys, own_groups in zip(frames, keys, groups, strict=True):
        shared = pd.Series(True, index=frame.index)
        for others, other_groups in zip(keys, groups, strict=True):
            shared &= own_keys.isin(others) | ~own_groups.isin(other_groups)
        kept.append(frame[shared])
    return kept


def overview(several: SideBySide) -> Section:
    """Build the table of the runs, the means at each M as a table and as figures, and the median crossovers."""
    blocks = (_runs(several), _means(several), *_figures(several), _crossovers(several))
    return Section("side-by-side", "Side by side", tuple(filter(None, blocks)))


def _runs(several: SideBySide) -> Table:
    rows = (_run(label, view) for label, view in zip(several.labels, several.views, strict=True))
    reading = (
        "The leading challenger of each run, at how many of its cells it is verified to be faster or slower than the "
        "baseline, and the median share of the limit of the device where it is faster."
    )
    return table("runs", "What was measured", rows, reading)


def _run(label: str, view: View) -> Cells:
    lead = view.headline.lead
    fraction = lead.limit[0] if lead and lead.limit else None
    return {
        "run": label,
        "device": view.device_name,
        "architecture": view.run.device.arch,
        "challenger": lead.challenger if lead else "",
        "baseline": view.baseline,
        Column("verified faster"): TableCell(fmt.count(lead.faster, lead.cells), lead.faster) if lead else "",
        Column("verified slower"): TableCell(fmt.count(lead.slower, lead.cells), lead.slower) if lead else "",
        Column("share of limit"): TableCell(fmt.share(fraction), fraction),
    }


def _means(several: SideBySide) -> Table | None:
    keys = sorted(set().union(*several.means), key=lambda key: (*map(str, key[:-1]), key[-1]))
    rows: list[Cells] = []
    for key in keys:
        provider, *setting, m = key
        found = [means.get(key) for means in several.means]
        rows.append(
            {
                "challenger": provider,
                "operands": several.title(setting),
                Column("M"): m,
                **several.columns(map(mean_cell, found)),
                Column("GEMMs"): max(int(row["gemms"]) for row in found if row is not None),
            }
        )
    reading = f"Geometric mean over the GEMMs that all of these runs have. {APART}"
    return table("means", "Speedup at each M", rows, reading, stub=3) if rows else None


def _figures(several: SideBySide) -> Iterator[Figure]:
    """Draw the means of each challenger against M, a line per run; all but the first are details."""
    groups = dict.fromkeys(key[:-1] for means in several.means for key in sorted(means, key=lambda key: key[-1]))
    named = anchors("means", tuple(" ".join(map(str, group)) for group in groups))
    for number, (group, (_, name)) in enumerate(zip(groups, named, strict=True)):
        lines = [
            {
                m: float(row["ratio"])
                for (*of, m), row in sorted(means.items(), key=lambda item: item[0][-1])
                if tuple(of) == group
            }
            for means in several.means
        ]
        if len({m for line in lines for m in line}) < 2:
            continue
        title = f"Speedup of {group[0]} against M, {several.title(group[1:])}"
        series, rows = [], []
        for style, (label, line) in enumerate(zip(several.labels, lines, strict=True), start=1):
            points = [
                Point(m, ratio, f"{label}, M={m}: {fmt.ratio(ratio)}", label if m == max(line) else "")
                for m, ratio in line.items()
            ]
            series += [Series(label, style, tuple(points))] if points else []
            rows += [(label, m, ratio) for m, ratio in line.items()]
        yield Figure(
            name,
            title,
            (speedup_chart(title, series, "speedup", title),),
            "Each line is a run, its geometric mean at each M. Above 1× the challenger is faster.",
            title,
            legend=provider_legend(
                several.labels, {label: style for style, label in enumerate(several.labels, start=1)}
            ),
            detail=number > 0,
            data=Data(("run", "M", "ratio"), tuple(rows)),
        )


def _crossovers(several: SideBySide) -> Table | None:
    found = [
        {
            (one.challenger, *one.setting): one
            for _, rows in frame.groupby("challenger", sort=False)
            for one in median_crossovers(rows)
            if one.is_informative
        }
        for frame in several.crossovers
    ]
    keys = list(dict.fromkeys(key for medians in found for key in medians))
    rows: list[Cells] = [
        {
            "challenger": key[0],
            "operands": several.title(key[1:]),
            **several.columns(_median(medians.get(key)) for medians in found),
        }
        for key in keys
    ]
    reading = (
        "Where the faster one changes: the median over the shapes that all of these runs have, with its 95% interval."
    )
    return table("crossovers", "Median crossover M", rows, reading, stub=2) if rows else None


def _median(median: MedianCrossover | None) -> TableCell:
    if median is None:
        return TableCell("")
    measured = f"(M ≤ {median.M_max:.0f})" if median.M_max is not None else ""
    text = f"{median_text(median)} {median.interval_text or measured}"
    return TableCell(text.strip(), median.median_M, note="; ".join(median.warnings))


def best(several: SideBySide) -> Section | None:
    """List the best verified ratio of each challenger in each run, with its coordinates."""
    rows: list[Cells] = [
        {
            "challenger": row["provider"],
            "run": label,
            Column("up to"): ratio_cell(row),
            Column("95% interval"): fmt.ratio_interval(row["ratio_low"], row["ratio_high"]),
            "at": coordinates(view, row),
        }
        for label, view in zip(several.labels, several.views, strict=True)
        for row in best_speedups(view.ratios[view.ratios["provider"].isin(view.challengers)]).to_dict("records")
        if row["verdict"] == "faster"
    ]
    reading = (
        "Of the cells at which a challenger is verified faster, the ratio with the highest lower end of its interval."
    )
    if not rows:
        return None
    return Section("best", "How far it wins", (table("best-table", "Best ratio in each run", rows, reading, stub=2),))


def cells(several: SideBySide) -> Section | None:
    """Tabulate times and speedups of every cell of a challenger, two columns per run."""
    return sliced("cells", "Cells", several.slices, lambda part: _cells(several, part))


def _cells(several: SideBySide, part: Slice) -> Iterator[Block]:
    for challenger, table_id in anchors(f"cells-{part.id}", several.challengers):
        times = [view.by_cell(view.cells, part, challenger) for view in several.views]
        ratios = [view.by_cell(view.ratios, part, challenger) for view in several.views]
        rows: list[Cells] = []
        for shape, m in dict.fromkeys(place for found in times for place in found):
            row: Cells = {**label_and_size(shape), Column("M"): m}
            for number, (label, time, ratio) in enumerate(zip(several.labels, times, ratios, strict=True)):
                row[Column(f"{label} time", key=str(number))] = time_cell(time.get((shape, m)))
                row[Column(f"{label} speedup", key=str(number))] = ratio_cell(ratio.get((shape, m)))
            rows.append(row)
        if rows:
            yield table(table_id, f"{challenger}, {part.title}", rows, APART, stub=3, detail=part.is_later)
