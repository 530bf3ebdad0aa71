"""`load`: a stored run as frames, and as a reader of a notebook sees it."""

from dataclasses import asdict
from functools import cached_property
from html import escape
from pathlib import Path

import pandas as pd

from ..analysis.frames.load import RunData, load_run
from ..analysis.run.pipeline import Analysis, analyze
from ..analysis.run.question import with_times
from ..reports.build import report_of
from ..reports.exports.parquet import as_parquet
from ..reports.model import Report
from ..reports.presets import Preset
from ..reports.render.html import render
from ..reports.sections.speedups.cells import throughput
from ..reports.sections.speedups.speedup import speedup
from ..reports.view import View
from ..reports.write import write_bytes
from ..shapes.errors import UsageError, quote
from .outcome import Outcome, outcome_of

FIRST = (
    *("model", "layer", "op", "B", "E", "M", "N", "K", "pass", "dtype", "scheme", "cache", "provider", "role"),
    *("verdict", "time_s", "time_low_s", "time_high_s", "tflops", "bound_class", "fraction_of_bound"),
)
"""Columns of `Run.cells` that come first."""

FRAMES = ("cells", "samples", "ceilings", "crossovers", "speedups")

IN_A_NOTEBOOK: Preset[View] = Preset("notebook", "speedup grids, and the table of all cells", (speedup, throughput))

NOTEBOOK_HEIGHT = "36em"


class Run:
    """A stored run, read and analysed when it is looked at. Units of frames are base units, docs/columns.md.

    In a notebook it shows the grids and the table of the report, in a frame of their own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def data(self) -> RunData:
        """What is stored. Raises UsageError, one line, for what is no run."""
        return load_run(self.folder)

    @cached_property
    def _analysis(self) -> Analysis:
        return analyze(with_times(self.data))

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.data.id

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One row per cell: what was measured, `verdict`, `time_s` with its interval, `tflops`, `bound_class`, ..."""
        cells = self._analysis.cells
        rated = cells.assign(tflops=cells["flops_per_s"] * 1e-12)
        return rated[[*FIRST, *(name for name in rated.columns if name not in FIRST)]]

    @property
    def samples(self) -> pd.DataFrame:
        """Every raw timing; `discarded` has the reason of those that do not count."""
        return self.data.samples

    @property
    def ceilings(self) -> pd.DataFrame:
        """Measured, published and derived limits of the device."""
        return self._analysis.ceilings

    @property
    def crossovers(self) -> pd.DataFrame:
        """One row per shape: where the challenger beats the baseline (`regions`, `low_M`, `high_M`, `crossover_M`)."""
        return self._analysis.crossovers

    @property
    def speedups(self) -> pd.DataFrame:
        """One row per cell of every provider but the baseline: `ratio` = time of the baseline / its time, `verdict`."""
        return self._analysis.speedups

    @property
    def outcome(self) -> Outcome:
        """What became of the cells, without an analysis; its `error` is what `rooflens run --strict` ends with."""
        return outcome_of(self.folder)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Notes on the whole run."""
        return self._analysis.warnings

    def to_parquet(self, folder: Path | str) -> list[Path]:
        """Write each frame to `folder`/NAME.parquet, and return the paths. Takes the extra `parquet` (pyarrow)."""
        paths = []
        for name in FRAMES:
            paths.append(Path(folder) / f"{name}.parquet")
            write_bytes(paths[-1], as_parquet(_plain(getattr(self, name))))
        return paths

    @cached_property
    def view(self) -> View:
        """The run as reports look at it."""
        return View(self._analysis)

    def report(self) -> Report:
        """Lay out what a notebook shows: the speedup grids, and the table of all cells."""
        return report_of(self.view, IN_A_NOTEBOOK)

    def __repr__(self) -> str:
        run, cells = self.data, self.data.cells["cell_id"].nunique()
        return f"<rooflens run {run.id}: {cells} cells of {run.manifest.suite} on {run.device.name}>"

    def _repr_html_(self) -> str:
        page = escape(render(self.report()), quote=True)
        style = f"width:100%;height:{NOTEBOOK_HEIGHT};border:0;resize:vertical"
        return f'<iframe title="{escape(repr(self), quote=True)}" style="{style}" srcdoc="{page}"></iframe>'


def load(run: Path | str) -> Run:
    """Read the run in a folder, as every command does. Raises UsageError, one line, for what is none."""
    if not isinstance(run, str | Path):
        raise UsageError(f"{quote(run)} is no run: give its folder")
    found = Run(Path(run))
    found.data  # noqa: B018
    return found


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn values of our own classes, the regions of crossovers, into dictionaries, which parquet knows."""
    if "regions" not in frame:
        return frame
    return frame.assign(regions=frame["regions"].map(lambda regions: [asdict(one) for one in regions]))
