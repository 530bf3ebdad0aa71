"""What `rooflens tune` prints of a table: gains, drift, and what limits both; and its export to aiter."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...reports import formatting
from ...reports.formatting import plural
from ...shapes.aiter import fastest, tuned_csv
from ...shapes.errors import UsageError
from ...shapes.run_folder.columns import TUNING
from ...shapes.tuned import load
from ..shared.tables import print_table

if TYPE_CHECKING:
    import pandas as pd

MOST_FAILURES = 12
"""Notes on failed candidates; the table has the rest."""

MOST_CAUSES = 3
"""Kinds of disturbances that are printed."""


def write(table: Path, frame: "pd.DataFrame", file: Path) -> None:
    """Write the file; `frame` is the content of `table`."""
    if not frame["winner"].any():
        click.echo(f"nothing written to {file}: no cell has a winner", err=True)
        return
    from ...analysis.tuning.searches import CELL

    choices = load(table).choices
    rows = fastest(choices)
    try:
        file.write_text(tuned_csv(choices), encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"--export {file}: {error.strerror or error}; choose another file") from None
    cells = frame[[name for name in CELL if name != "source"]].drop_duplicates()
    chosen = Counter(key.provider for key in choices)
    without = Counter(cells["provider"].tolist()) - chosen
    slower = chosen - Counter(key.provider for key in rows)
    parts = [
        f"{counts.total()} {why} ({', '.join(f'{name} {count}' for name, count in counts.items())})"
        for counts, why in ((slower, "slower than another provider's"), (without, "without a winner"))
        if counts
    ]
    left = slower.total() + without.total()
    excluded = f"; {plural(left, 'cell')} excluded: {', '.join(parts)}" if left else ""
    click.echo(f"{plural(len(rows), 'row')} written to {file}{excluded}", err=True)


def show_gains(frame: "pd.DataFrame") -> None:
    """Print one line per provider."""
    from ...analysis.tuning.searches import gain

    gains = gain(frame)
    names = ("provider", "cells", "searches", "candidates", "seconds", "changed", "near ties", "gain", "gain checked")
    rows = [
        (
            *(row[name] for name in ("provider", "cells", "searches", "tried")),
            f"{row['seconds']:.1f}",
            *(row[name] for name in ("changed", "near_ties")),
            *(formatting.ratio(row[name]) for name in ("gain", "gain_checked")),
        )
        for row in gains.to_dict("records")
    ]
    print_table(names, rows, once=("cells", "searches"), heading=("provider",))
    click.echo(
        "gain: default over winner, geometric mean over cells; checked: timed in another search than the one that chose"
    )
    for row in gains.to_dict("records"):
        if row["failed"]:
            click.echo(f"note: {row['provider']}: {plural(row['failed'], 'cell')} without any winner", err=True)
        if row["excluded"]:
            cells = plural(row["excluded"], "cell")
            click.echo(f"note: {row['provider']}: {cells} without a time of the default not in the gain", err=True)


def show_hits(frame: "pd.DataFrame") -> None:
    """Print what the searches of each provider chose of every option that they varied."""
    from ...analysis.tuning.searches import hits

    found = hits(frame).astype({"hits": str})
    found["chosen"] = found["value"].replace("", "none") + " (" + found["hits"] + ")"
    options = found.groupby(["provider", "option", "searches"], sort=False)["chosen"].agg(", ".join).reset_index()
    if len(options):
        rows = options[["provider", "option", "chosen", "searches"]].itertuples(index=False, name=None)
        print_table(("provider", "option", "chosen (searches)", "of"), list(rows), heading=("provider",))


def show_drift(frame: "pd.DataFrame") -> None:
    """Print how much searches of one cell disagree, and what that costs."""
    from ...analysis.tuning.searches import drift, summarize_drift, why_no_drift

    drifted = summarize_drift(drift(frame))
    if not drifted.cells:
        click.echo(f"drift: {why_no_drift(frame)}")
        return
    harmless = f", {drifted.harmless} of them between near ties" if drifted.flipped else ""
    click.echo(
        f"drift: {drifted.flipped} of {plural(drifted.cells, 'cell')} ({formatting.share(drifted.flip_share)}) choose "
        f"another configuration when searched again{harmless}"
    )
    if not drifted.flipped:
        return
    if drifted.median_cost is None or drifted.worst_cost is None:
        click.echo("       what such a flip costs is unknown: no search has a time of the other's winner")
        return
    median, worst = (formatting.share(math.expm1(cost)) for cost in (drifted.median_cost, drifted.worst_cost))
    opposed = f"in {drifted.opposed} of {plural(drifted.flipped, 'flip')} each search finds its own winner faster"
    click.echo(
        f"       such a flip costs {median} of the time at the median, {worst} at worst"
        + (f"; {opposed}" if drifted.opposed else "")
    )


def show_failures(frame: "pd.DataFrame") -> None:
    """Print each configuration that failed, once."""
    from ...analysis.tuning.searches import failures

    rows = failures(frame).to_dict("records")
    for row in rows[:MOST_FAILURES]:
        name = " ".join((row["provider"], *(f"{key}={value}" for key, value in _config(row["config"]).items())))
        count = f"{row['failed']} of {plural(row['searches'], 'search', 'searches')}"
        others = f"; and {plural(row['others'], 'other reason')}" if row["others"] else ""
        reason = f" ({row['reason']}{others})" if row["reason"] else ""
        click.echo(f"note: {name}: {_words(row['verdict'])} in {count}{reason}", err=True)
    if len(rows) > MOST_FAILURES:
        more = plural(len(rows) - MOST_FAILURES, "more failed configuration")
        click.echo(f"note: {more}: see verdict and reason in {TUNING.file}", err=True)


def show_disturbed(frame: "pd.DataFrame") -> None:
    """Print how many searches are unreliable because they were disturbed."""
    from ...analysis.tuning.searches import disturbed

    found = disturbed(frame)
    if not found.searches:
        return
    causes = found.worst.split("; ")
    worst = "; ".join(causes[:MOST_CAUSES]) + (" and more" if len(causes) > MOST_CAUSES else "")
    searches = plural(found.of, "search was", "searches were")
    click.echo(f"note: {found.searches} of {searches} disturbed, at worst: {worst}; tune again", err=True)


def _config(text: str) -> "dict[str, object]":
    return dict(json.loads(text or "{}"))


def _words(verdict: str) -> str:
    return verdict.replace("_", " ")
