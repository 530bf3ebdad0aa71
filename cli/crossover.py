"""`rooflens crossover`: at which M a challenger beats an incumbent, per shape and over shapes."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..shapes.errors import UsageError
from .shared.output import plain, print_json
from .shared.runs import find_run, missing_units
from .shared.tables import note, show

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.crossover.across_shapes import MedianCrossover, Threshold
    from ..analysis.frames.load import RunData
    from ..reports.model import Section


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
        from ..reports.sections.speedups.crossover import BETWEEN

        show(*(_section(one, shapes) for one in medians))
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


def _section(median: "MedianCrossover", shapes: "pd.DataFrame") -> "Section":
    """List the shapes of one (pass, dtype, scheme, cache), then what holds over all of them."""
    from ..analysis.frames.coordinates import SETTING, shape_label
    from ..reports import formatting
    from ..reports.cells import wins_text
    from ..reports.listing import listing
    from ..reports.model import Section, Text

    own = shapes.loc[(shapes[[*SETTING]] == list(median.setting)).all(axis=1)].to_dict("records")
    rows = [
        (
            shape_label(row),
            row["status"],
            wins_text(row),
            formatting.m_interval(row["low_M"], row["high_M"]),
            formatting.crossover(row["crossover_M"]),
            ", ".join(map(str, row["undecided"])),
            "; ".join(row["warnings"]),
        )
        for row in own
    ]
    title = f"{median.challenger} against {median.incumbent}: {', '.join(median.setting_words)}"
    names = ("shape", "status", f"{median.challenger} wins at", "changes within", "estimate", "undecided at", "remark")
    lines = _over_shapes(median)
    if refined := [row["refined"] for row in own if row["refined"]]:
        at = formatting.plural(len(refined), "shape")
        lines.insert(0, f"refined: {sum(refined)} of these M were added by --refine, at {at}")
    return Section(
        "crossover", title, (listing(names, rows, title, long=names[-1:], heading=names[:1]), *map(Text, lines))
    )


def _over_shapes(median: "MedianCrossover") -> list[str]:
    from ..reports.formatting import m_interval, plural

    if median.side and median.between:
        found = f"~{median.text}, within {m_interval(*median.between)}"
        interval = f", 95% interval {median.interval_text}" if median.interval_text else ""
        if median.text.startswith(("<", ">")):
            found = f" {median.text}"
        over = plural(len(median.places), "shape")
        lines = [f"median crossover over {over}: M{found}{interval}; {median.challenger} is faster {median.side} it"]
    else:
        counts = ", ".join(f"{count} {status}" for status, count in median.statuses.items())
        lines = [f"median crossover: none ({counts})" if median.is_informative else f"median crossover: {median.text}"]
    if median.threshold:
        lines.append(f"best single rule: {_rule(median, median.threshold)}")
    return [*lines, *(f"note: {warning}" for warning in median.warnings)]


def _rule(median: "MedianCrossover", best: "Threshold") -> str:
    """Say the threshold and what it costs: a loss of ln time, shown as the extra time that it is."""
    from ..reports.formatting import share
    from ..reports.sections.speedups.crossover import use_of

    rule = f"{median.challenger} at {use_of(best)}"
    worst = f", at worst {share(math.expm1(best.worst_regret))} ({best.worst_shape} M={best.worst_M})"
    return f"{rule}, which costs {share(math.expm1(best.mean_regret))} on average{worst if best.worst_shape else ''}"
