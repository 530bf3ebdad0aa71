"""`rooflens camping`: sizes at which memory stalls, the periods that they follow, and which padding leaves them."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...cli.shared.options import command_with, parameters
from ...cli.shared.output import print_json
from ...cli.shared.runs import find_run
from ...cli.shared.tables import show
from ...shapes.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from ...analysis.frames.load import RunData
    from .find import Camping


FORMER = {"--scan-csv": "--json has the points under sizes, and the figures of rooflens report have them as CSV"}


@click.command(cls=command_with(FORMER), params=parameters("camping"))
@click.argument("runs", type=find_run, nargs=-1, required=True, metavar="RUN [SAME]...")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: seconds, ratios, and ln time for what is detectable."
)
def camping(runs: tuple[Path, ...], providers: tuple[str, ...], as_json: bool) -> None:
    """Find sizes at which memory stalls, and which padding leaves them.

    RUN is the folder of a run, its name under ./runs, or `latest`. A size is suspected if it takes over 1.10 times as
    long as the sizes on both sides of it, far beyond their spread, and waves, tiles and configurations do not explain
    it. It is verified once three worker processes show it: measure the same cells in two more runs, and name them after
    RUN. Periods need a scan: 16 sizes of N, or of K, or more.

    \b
    Examples:
      rooflens run llm4bit --filter "layer == 'down'" --scan N=2048..8192:64
      rooflens camping latest
      rooflens camping runs/one runs/two runs/three
      rooflens camping runs/one -p simt_4bit --json
    """
    from ...analysis.frames.load import load_run
    from ...analysis.run.pipeline import placed as placed_cells
    from ...analysis.run.scan_check import held
    from ...analysis.run.summarize import round_medians, summarize
    from . import output
    from .find import find

    data, *same = map(load_run, runs)
    for other in same:
        if not _ran(other) & _ran(data):
            raise UsageError(
                f"{other.id} has no cell of {data.id}: a further run has to measure the same cells on the same device, "
                "with the same options"
            )
    placed, _ = placed_cells(data, summarize(data))
    chosen = data.selected(providers)
    again = [(_deciding_rounds(other), other.cells) for other in same]
    found = _of(find(placed, round_medians(data), data.cells, again), chosen)
    if as_json:
        print_json({"run": data.id} | output.everything(found))
    else:
        shown = data.cells.loc[data.cells["provider"].isin(chosen)]
        show(output.section(found, tuple(held(shown, data.manifest.scan))))


def _ran(run: "RunData") -> set[tuple[str, ...]]:
    """Cells, with what ran for them, and on which device."""
    cells, device = run.cells, run.manifest.of_device.uuid
    ran = cells["identity"].where(cells["identity"] != "", cells["source"])
    columns = cells["cell_id"], ran, cells["tuning"]
    return {(*map(str, one), device) for one in zip(*columns, strict=True)}


def _deciding_rounds(run: "RunData") -> "pd.DataFrame":
    """Round medians of the cells whose time may decide something."""
    from ...analysis.frames.deciding import deciding
    from ...analysis.run.summarize import round_medians, summarize

    rounds = round_medians(run)
    return rounds.loc[rounds["cell_id"].isin(deciding(summarize(run))["cell_id"])]


def _of(found: "Camping", providers: tuple[str, ...]) -> "Camping":
    """Keep what concerns these providers; what was found of them does not depend on it."""
    from .find import Camping

    tables = (found.suspects, found.periods, found.scans, found.sizes, found.coverage)
    return Camping(*(table.loc[table["provider"].isin(providers)].reset_index(drop=True) for table in tables))
