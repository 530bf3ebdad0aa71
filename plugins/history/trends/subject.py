"""A family of kernels on one device, over many runs."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ....analysis.frames.coordinates import SETTING, shape_label
from ....reports.model import TableCell
from ....shapes.scheme import DType
from ....shapes.schemes import parse_scheme
from ..history import Gap, History, gaps, level, part_of
from ..run_story import CELL

Decide = Callable[[History, Gap], str]
"""Writes the command that decides the changes between two runs."""


@dataclass(frozen=True, eq=False)
class Trend:
    """What the chapters about a family on a device share.

    history  its series alone; runs and keys as in the history of all
    anchor   what the anchors of its chapters begin with
    links    folder of a run -> path of its report, relative to the pages
    """

    family: str
    device: str
    anchor: str
    history: History
    decide: Decide
    links: Mapping[str, str]

    @property
    def page(self) -> str:
        """Name of the page that it is on."""
        return f"{self.family}.html"

    @cached_property
    def runs(self) -> list[int]:
        """Positions of its runs, oldest first."""
        return sorted(self.history.points["run"].unique().tolist())

    @cached_property
    def cells(self) -> int:
        """Number of its cells, each with a series per set of conditions."""
        return len(self.history.series.drop_duplicates([*CELL]))

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """Where levels change, newest first."""
        return gaps(self.history)[::-1]

    @property
    def changes(self) -> tuple[int, int]:
        """Number of changes to slower, and to faster."""
        slower = sum(one.change > 0 for one in self.history.proposals)
        return slower, len(self.history.proposals) - slower

    @cached_property
    def level(self) -> list[dict[Hashable, Any]]:
        """Rows of `analysis.history.history.level`."""
        return level(self.history).to_dict("records")

    @cached_property
    def varied(self) -> list[str]:
        """Parts of the setting in which its cells differ."""
        return [name for name in SETTING if self.history.series[name].nunique() > 1]

    def cell_label(self, row: Mapping[Any, Any]) -> str:
        """Name a cell: "mine, M = 16, llama2-7b q (4096x4096), cold"."""
        return ", ".join((row["provider"], f"M = {row['M']}", shape_label(row), *(row[name] for name in self.varied)))

    def run_cell(self, number: int) -> TableCell:
        """Name a run, and lead to its report if there is one."""
        run = self.history.runs[number]
        return TableCell(run.id, run.id, link=self.links.get(run.folder, ""))


def trends_of(history: History, decide: Decide, links: Mapping[str, str]) -> list[Trend]:
    """Divide a history into families and devices, in the order of their names.

    Raises UsageError for a scheme that no family knows.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for number, row in enumerate(history.series.to_dict("records")):
        family = parse_scheme(row["scheme"], DType.parse(row["dtype"])).family
        groups.setdefault((family, history.keys[row["key"]]["device"]), []).append(number)
    return [
        Trend(*name, f"trend-{number}", part_of(history, groups[name]), decide, links)
        for number, name in enumerate(sorted(groups), start=1)
    ]
