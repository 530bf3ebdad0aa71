"""`rooflens roofline`: what bounds each cell, how far it is from its bound, and what the gap is made of."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..shapes.run_folder.columns import CELLS
from .shared.options import parameters
from .shared.output import print_json, record
from .shared.runs import find_run
from .shared.tables import show

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.frames.load import RunData


@click.command(params=parameters("roofline"))
@click.argument("run", type=find_run)
@click.option("--gaps", is_flag=True, help="What lies between the ideal and the measured time, in steps.")
@click.option("--pairs", is_flag=True, help="The same cells cold and warm, each against its own level's roof.")
@click.option("--ceilings", is_flag=True, help="The limits in use, each with its kind and source.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON: seconds, rates per second, shares.")
def roofline(run: Path, providers: tuple[str, ...], gaps: bool, pairs: bool, ceilings: bool, as_json: bool) -> None:
    """Report what bounds each cell, and how far it is from the roof.

    RUN is the folder of a run, its name under ./runs, or `latest`. "of bound" is the least time that the operands and
    FLOPs of the problem allow on this device, over the measured time: the same yardstick for every provider. "bounded
    by" is what limits the provider's own algorithm: the bytes that it moves, the tiles that it multiplies, what it
    decodes. --gaps, --pairs and --ceilings show their tables in place of the cells; docs/roofline.md says
    how each figure is defined. M that --refine added at single shapes are excluded, as in a report;
    the cells of --json have them, marked "refined".

    \b
    Examples:
      rooflens roofline latest
      rooflens roofline runs/h200 -p simt_4bit -p blas --json
      rooflens roofline latest --gaps --ceilings
    """
    from ..analysis.frames.load import load_run
    from ..analysis.roofline import place, roofline_warnings
    from ..analysis.run.pipeline import placed as placed_cells
    from ..analysis.run.summarize import summarize
    from ..reports.model import Remarks
    from . import roofline_output as output

    data = load_run(run)
    summary = summarize(data)
    placed, limits = placed_cells(data, summary)
    chosen = data.selected(providers)
    shown = placed.loc[placed["provider"].isin(chosen)]
    warnings = roofline_warnings(shown, limits, data.device)
    if as_json:
        every = place(summary.loc[summary["provider"].isin(chosen)], limits, data.device)
        cells = [record(CELLS, row) for row in every.to_dict("records")]
        print_json(_everything(shown, limits, data) | {"cells": cells, "warnings": warnings})
        return
    views = (
        (gaps, output.gaps_of),
        (pairs, output.pairs_of),
        (ceilings, partial(output.roofs_of, limits=limits, device=data.device)),
    )
    asked = [view for wanted, view in views if wanted] or [output.bounds_of]
    show(*(view(shown) for view in asked), Remarks(tuple(warnings)))


def _everything(placed: "pd.DataFrame", limits: "pd.DataFrame", data: "RunData") -> dict[str, object]:
    from ..analysis.roofline import bound_shares
    from ..analysis.roofline.gaps import gap_totals, gaps
    from ..analysis.roofline.pairs import pair_means, pairs
    from ..analysis.roofline.roofs import roofs

    steps, both = gaps(placed), pairs(placed)
    frames = {
        "ceilings": limits,
        "roofs": roofs(placed, limits, data.device),
        "shares": bound_shares(placed, ["provider"]),
        "gaps": steps,
        "gap_totals": gap_totals(steps),
        "pairs": both,
        "pair_means": pair_means(both),
    }
    return {"run": data.id, **{name: frame.to_dict("records") for name, frame in frames.items()}}
