"""The runs behind a trend: when, of which commit, and where their reports are."""

from ...model import Bullets, Column, Section, Table, Text, integer, text_columns, texts
from ...trend_terms import SHORTEST, key_lines
from .subject import Trend

JOINED = (
    "Times are joined to a series on one device model with one driver, one set of versions and one way of timing; "
    "where one of these changes, another series begins."
)


def runs(trend: Trend, title: str) -> Section:
    """List the runs, the newest first, and what distinguishes the series that they belong to."""
    history = trend.history
    counts = history.points.groupby("run").size()
    columns = (*text_columns("run", "measured", "commit", "branch", "working tree", "subject"), Column("cells"))
    rows = []
    for number in reversed(trend.runs):
        run = history.runs[number]
        tree = ("uncommitted changes" if run.code.dirty else "clean") if run.code.commit else ""
        rows.append(
            (
                trend.run_cell(number),
                *texts(run.created_at, run.code.commit[:SHORTEST], run.code.branch, tree, run.code.subject),
                integer(int(counts[number])),
            )
        )
    name = f"{trend.anchor}-runs"
    has_links = any(row[0].link for row in rows)
    reading = "The name of a run leads to its report." if has_links else ""
    table = Table(f"{name}-table", "Runs, newest first", columns, tuple(rows), reading=reading)
    conditions = Bullets(tuple(f"{line[0].upper()}{line[1:]}" for line in key_lines(history)))
    return Section(name, title, (table,), (Section(f"{name}-series", "Series", (Text(JOINED), conditions)),))
