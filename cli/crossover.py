"""`rooflens crossover`: at which M a challenger beats an incumbent, per shape and over shapes."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..api.run_folders import missing_units
from ..shapes.errors import UsageError
from .shared.output import plain, print_json
from .shared.runs import find_run
from .shared.tables import note

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.frames.load import RunData


@click.command()
@click.argument("run", type=find_run)
@click.option("--challenger", metavar="A", help="Provider that may win; default: the run's challenger.")
@click.option("--incumbent", metavar="B", help="Provider to beat; default: the run's baseline.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; an unbounded M is null.")
def crossover(run: Path, challenger: str | None, incumbent: str | None, as_json: bool) -> None:
    """Report at which M a challenger beats an incumbent.

    RUN is the folder of a run, its name under ./runs, or `latest`; of a refined one the pair that was refined is the
    default. Per shape: at which measured M the challenger is verified faster, between which of them that changes, and
    an estimate of where. Over shapes: the median, to which shapes that do not cross within the sweep count too, and the
    one threshold that loses least when it is used to dispatch.

    \b
    Examples:
      rooflens crossover latest
      rooflens crossover runs/h200 --challenger simt_4bit --incumbent blas --json
    """
    from ..analysis.crossover.across_shapes import median_crossovers
    from ..analysis.crossover.per_shape import crossovers
    from ..analysis.crossover.refine import refined_pair
    from ..analysis.frames.load import load_run
    from ..analysis.run.summarize import round_medians, summarize

    data = load_run(run)
    summary, rounds = summarize(data), round_medians(data)
    if challenger:
        data.refuse_reference(challenger, "--challenger")
    refined = refined_pair(data.manifest.refinements) if not (challenger or incumbent) else None
    pair = refined or (challenger or _leading(data, summary, rounds), incumbent or _measured_baseline(data))
    shapes = crossovers(summary, rounds, *pair)
    medians = median_crossovers(shapes)
    if as_json:
        records = [{**plain(one), "text": one.text, "interval_text": one.interval_text} for one in medians]
        names = {"run": data.id, "challenger": pair[0], "incumbent": pair[1]}
        print_json(names | {"medians": records, "shapes": shapes.to_dict("records")})
    else:
        from ..analysis.run.pipeline import analyze
        from ..analysis.run.question import compare_with
        from ..reports.build import report_of
        from ..reports.presets import Preset
        from ..reports.sections.speedups.crossover import BETWEEN
        from ..reports.sections.speedups.crossover import crossover as chapter
        from ..reports.view import View
        from .shared.tables import print_chapters

        view = View(analyze(compare_with(data, pair[1], pair[:1])))
        print_chapters(report_of(view, Preset("terminal", "", (chapter,))))
        note(BETWEEN)
        if data.missing_units and "unmeasured" in set(shapes["status"]):
            note(missing_units(data.missing_units, data.folder))


def _leading(run: "RunData", summary: "pd.DataFrame", rounds: "pd.DataFrame") -> str:
    """Return the challenger with a passed cell that wins most; raise UsageError when there is none."""
    from ..analysis.frames.speedup import speedups
    from ..analysis.run.question import ranked

    passed = set(run.cells.loc[run.cells["verdict"] == "passed", "provider"])
    for name in ranked(run, speedups(summary, rounds, run.baseline)):
        if name in passed:
            return name
    if others := sorted(name for name in passed - {run.baseline} if not run.is_reference(name)):
        raise UsageError(f"{run.id}: no challenger of its suite ran; name one with --challenger: {', '.join(others)}")
    ran = f"only the baseline {run.baseline} has" if run.baseline in passed else "no provider has"
    raise UsageError(f"{run.id}: nothing to compare: {ran} a time; the column reason of cells.csv says why")


def _measured_baseline(run: "RunData") -> str:
    """Return the baseline of the suite; raise UsageError where the run has no cell of it."""
    known = list(dict.fromkeys(run.cells["provider"]))
    if run.baseline not in known:
        others = ", ".join(known)
        raise UsageError(f"{run.id}: its baseline {run.baseline} was not measured; name one with --incumbent: {others}")
    return run.baseline
