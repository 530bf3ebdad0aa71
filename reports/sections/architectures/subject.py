"""Runs of one suite on several architectures as the chapters look at them: one view each, and what they share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from ....analysis.frames.coordinates import SETTING
from ....analysis.run.architectures import (
    ABSENT,
    common_means,
    common_shares,
    crossovers_side_by_side,
    side,
    side_by_side,
)
from ... import formatting as fmt
from ...figures.marks import provider_styles
from ...model import TableCell, Tone
from ...view import Row, ShapeKey, Slice, View, shape_of, slices_of


@dataclass(frozen=True, slots=True)
class SweepInfo:
    """What the runs are parts of: name, suite, when it was started, and where it is stored."""

    id: str
    suite: str
    created_at: str
    path: str


@dataclass(frozen=True, eq=False)
class Architectures:
    """The views by architecture, in the order of the sweep.

    missing  architecture -> why nothing of it is shown
    links    architecture -> path of its own report, relative to this one
    """

    sweep: SweepInfo
    views: Mapping[str, View]
    missing: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Architectures with a view."""
        return tuple(self.views)

    @cached_property
    def baseline(self) -> str:
        """Provider that all ratios refer to, each on its own architecture."""
        return next(iter(self.views.values())).baseline

    @cached_property
    def cells(self) -> pd.DataFrame:
        """`architectures.side_by_side` of all runs."""
        return side_by_side({name: view.analysis for name, view in self.views.items()})

    @cached_property
    def crossovers(self) -> pd.DataFrame:
        """`architectures.crossovers_side_by_side` of every challenger."""
        return crossovers_side_by_side({name: view.crossovers for name, view in self.views.items()})

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """Slices that any architecture has."""
        return slices_of(self.cells)

    @cached_property
    def providers(self) -> tuple[str, ...]:
        """Providers that any architecture has: the baseline, challengers, then the rest."""
        every = [name for view in self.views.values() for name in view.providers]
        rest = sorted(dict.fromkeys(every), key=lambda name: name not in self.challengers)
        return tuple(sorted(rest, key=lambda name: name != self.baseline))

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Providers that are compared with the baseline, challengers first."""
        return tuple(name for name in self.providers if name != self.baseline)

    @cached_property
    def challengers(self) -> tuple[str, ...]:
        """Challengers of any architecture."""
        return tuple(dict.fromkeys(name for view in self.views.values() for name in view.challengers))

    def is_reference(self, provider: str) -> bool:
        """True for a provider that nothing is dispatched to."""
        return any(view.run.is_reference(provider) for view in self.views.values())

    @cached_property
    def styles(self) -> dict[str, int]:
        """Palette style of each provider, the same in every panel."""
        timed = {
            name for view in self.views.values() for name in view.cells.loc[view.cells["time_s"].notna(), "provider"]
        }
        return provider_styles(self.baseline, self.others, timed)

    @cached_property
    def shapes(self) -> tuple[ShapeKey, ...]:
        """Shapes that any architecture has, in the order of the suite."""
        return tuple(dict.fromkeys(shape for view in self.views.values() for shape in view.shapes))

    def rows(self, name: str, part: Slice, provider: str) -> Mapping[tuple[ShapeKey, int], Row]:
        """Rows of one architecture and provider in a slice by (shape, M); with those that it lacks and another has."""
        return self._rows.get((name, *part.setting, provider), {})

    @cached_property
    def _rows(self) -> dict[tuple[str, ...], dict[tuple[ShapeKey, int], Row]]:
        found: dict[tuple[str, ...], dict[tuple[ShapeKey, int], Row]] = {}
        for name in self.names:
            for row in side(self.cells, name).to_dict("records"):
                place = (name, *(str(row[key]) for key in SETTING), str(row["provider"]))
                found.setdefault(place, {})[shape_of(row), int(row["M"])] = row
        return found

    @cached_property
    def _means(self) -> dict[tuple[str, ...], dict[int, Row]]:
        return _by_group(common_means(self.cells, self.names))

    @cached_property
    def _shares(self) -> dict[tuple[str, ...], dict[int, Row]]:
        return _by_group(common_shares(self.cells, self.names))

    def means(self, name: str, part: Slice, provider: str) -> Mapping[int, Row]:
        """`architectures.common_means` of one architecture, by M."""
        return self._means.get((name, *part.setting, provider), {})

    def shares(self, name: str, part: Slice, provider: str) -> Mapping[int, Row]:
        """`architectures.common_shares` of one architecture, by M."""
        return self._shares.get((name, *part.setting, provider), {})

    def sizes(self, part: Slice, provider: str) -> list[int]:
        """Every M at which any architecture has a cell of a provider in a slice, ascending."""
        return sorted({m for name in self.names for _, m in self.rows(name, part, provider)})


def gain(row: Row) -> Row:
    """The speedup of a row, by the names that a row of `Analysis.speedups` has."""
    return {**row, "verdict": row["speedup"], "reason": row["why"], "note": row["remark"]}


def lacking(row: Row) -> TableCell | None:
    """Show that an architecture has no such cell, or one without a time, with the reason; None where it has a time."""
    if fmt.known(row["time_s"]):
        return None
    reason = str(row["reason"]) or "no reason was stored"
    word = str(row["verdict"]) or ABSENT
    return TableCell(word, note=reason if reason.startswith(word) else f"{word}: {reason}", tone=Tone.FAILED)


def nowhere(rows: Iterable[Row]) -> TableCell | None:
    """Show why an architecture has no time of any of `rows`, by the first that says why; None where it has one."""
    cells = [lacking(row) for row in rows]
    told = [cell for cell in cells if cell is not None]
    return told[0] if told and len(told) == len(cells) else None


def _by_group(frame: pd.DataFrame) -> dict[tuple[str, ...], dict[int, Row]]:
    """Rows by (architecture, pass, dtype, scheme, cache, provider), and in each by M."""
    found: dict[tuple[str, ...], dict[int, Row]] = {}
    for row in frame.to_dict("records"):
        place = (str(row["architecture"]), *(str(row[key]) for key in SETTING), str(row["provider"]))
        found.setdefault(place, {})[int(row["M"])] = row
    return found
