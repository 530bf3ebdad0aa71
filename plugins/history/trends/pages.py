"""From a history to its pages: an index of all, and a page per family."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .... import __version__
from ....reports import formatting as fmt
from ....reports.model import Report, Section, explained
from ..history import History
from ..run_story import RunMark
from .changes import changes
from .index import headline, index, remarks
from .index import runs as runs_of
from .panels import panels
from .subject import Decide, Trend, trends_of

INDEX = "index.html"


def build_trends(history: History, decide: Decide, links: Mapping[str, str], raw: bool) -> dict[str, Report]:
    """Lay out the pages of a history by the names of their files: a page per family, and last the index of all.

    decide  writes the command that decides the changes between two runs
    links   folder of a run -> path of its own report, relative to where the pages will be
    raw     times are as measured, not over the canary of their run
    """
    trends = trends_of(history, decide, links)
    pages: dict[str, list[Trend]] = {}
    for trend in trends:
        pages.setdefault(trend.page, []).append(trend)
    times = ("times", "as measured" if raw else "over the canary of their run")
    built = {name: _trend_page(found, times) for name, found in pages.items()}
    sections = (index(trends), *remarks(history.notes))
    return built | {INDEX: _of_runs("Trends", (times,), sections, history.runs)}


def _trend_page(trends: Sequence[Trend], times: tuple[str, str]) -> Report:
    """Lay out the page of a family: a headline, changes, cells and runs of each device."""
    marks = [trends[0].history.runs[number] for number in sorted({one for trend in trends for one in trend.runs})]
    facts = (
        ("devices" if len(trends) > 1 else "device", ", ".join(trend.device for trend in trends)),
        ("suites", ", ".join(dict.fromkeys(run.suite for run in marks))),
        times,
    )
    chapters = []
    for trend in trends:
        where = f" on {trend.device}" if len(trends) > 1 else ""
        parts = ((headline, "Headline"), (changes, "Changes"), (panels, "Cells"), (runs_of, "Runs"))
        chapters += [explained(chapter(trend, f"{title}{where}")) for chapter, title in parts]
    report = _of_runs(f"{trends[0].family}: trend", facts, tuple(chapters), marks)
    return replace(report, parent=("All trends", INDEX))


def _of_runs(
    title: str, facts: Sequence[tuple[str, str]], sections: tuple[Section, ...], runs: Sequence[RunMark]
) -> Report:
    period = (("runs", str(len(runs))), ("from", runs[0].created_at), ("to", runs[-1].created_at))
    return Report(
        title=title,
        facts=tuple((name, value) for name, value in (*period, *facts) if value),
        sections=sections,
        generator=f"rooflens {__version__}",
        source=fmt.plural(len(runs), "run"),
        elsewhere="rooflens history --json prints everything.",
    )
