"""`rooflens history`: the trend of each cell over many runs, and which changes of level are worth a comparison."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...api.run_folders import comparison
from ...cli.shared.options import FILE, parameters
from ...cli.shared.output import plain, print_json
from ...cli.shared.runs import HTML, find_run
from ...cli.shared.tables import show
from ...shapes.errors import UsageError, quote
from ...shapes.request import Request
from ...shapes.run_folder.manifest import ComparisonState

if TYPE_CHECKING:
    from .history import History


@click.command(params=parameters("history"))
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--raw", is_flag=True, help="Take times as measured, not over the canary of their run.")
@click.option("--html", type=FILE, help="Write a page with the changes, a panel per cell and the runs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, times in seconds and changes as shares.")
def history(runs: tuple[str, ...], raw: bool, html: Path | None, as_json: bool, **asked: Any) -> None:
    """Show the trend of each cell over many runs, and propose where its level changed.

    RUN is the folder of a run, its name under ./runs, or `latest`, in any order. A series is a cell of a provider on
    one device model with one driver, one set of versions and one way of timing; where one of these changes, another
    series begins. Times are divided by the canary's of their run, so that a device that became slower as a whole is no
    change. A change that is found is a proposal: it comes with the command that measures both sides and decides. It
    takes four runs or more, two on each side, and changes under 1 % (3 % below 10 µs) are not proposed.

    \b
    Examples:
      rooflens history runs/nightly-*
      rooflens history runs/* -p simt_4bit --filter "M <= 16"
      rooflens history runs/nightly-* --raw --json
      rooflens history runs/nightly-* --html trends.html
    """
    if html and html.suffix != ".html":
        raise UsageError(f"--html {quote(str(html))}: write the file of a page, such as trends.html")
    from ...analysis.frames.load import load_run
    from .chapters import changes, series
    from .deciding import comparable
    from .history import follow
    from .run_story import observe

    request = Request.for_command("history", asked)
    states: dict[str, ComparisonState] = {}
    stories = []
    for folder in _folders(runs):
        run, state = load_run(folder), _comparison(folder)
        stories.append(observe(run, state.commits.get(folder.resolve().name, "")))
        states[str(folder)] = state if state.suite else comparable(run.manifest)
    found = follow(stories, request.providers, request.filter_expression or "", raw)
    if html:
        _write_page(found, states, html, raw)
    if as_json:
        print_json(_as_json(found, states))
    else:
        show(series(found, raw), changes(found, states))


def _write_page(found: "History", states: Mapping[str, ComparisonState], path: Path, raw: bool) -> None:
    """Write the page of a history, with links to the reports of its runs, and name it on stderr."""
    from ...reports.write import write_report
    from .page import build_page

    reports = {run.folder: Path(run.folder) / HTML for run in found.runs}
    here = path.resolve().parent
    links = {run: os.path.relpath(page.resolve(), here) for run, page in reports.items() if page.is_file()}
    write_report(build_page(found, states, links, raw), {"html": path})
    click.echo(path, err=True)


def _folders(names: Sequence[str]) -> list[Path]:
    found: dict[Path, Path] = {}
    for name in names:
        folder = find_run(name)
        found.setdefault(folder.resolve(), folder)
    return list(found.values())


def _comparison(folder: Path) -> ComparisonState:
    """Read what the comparison says that a run folder is an arm of; nothing when it is none."""
    state = comparison(folder.resolve().parent)
    return state if folder.resolve().name in state.commits else ComparisonState()


def _as_json(found: "History", states: Mapping[str, ComparisonState]) -> dict[str, Any]:
    """Spell everything out: runs and series by position, as in `analysis.history`."""
    from .chapters import sources_of
    from .deciding import deciding_command

    points = {
        number: rows.to_dict("records")
        for number, rows in found.points.groupby("series")[["run", "time_s", "value_s", "source", "disturbed"]]
    }
    series = [{**row, "points": points[number]} for number, row in enumerate(found.series.to_dict("records"))]
    proposals = []
    for one in found.proposals:
        source_before, source_after = sources_of(found, one)
        proposals.append(
            {
                **plain(one),
                "source_before": source_before,
                "source_after": source_after,
                "command": deciding_command(found, one.earliest, one.latest, [one], states),
            }
        )
    runs = [
        {**plain(run), "code": run.code.to_json(), "commit": run.commit, "canary_s": run.canary_s} for run in found.runs
    ]
    return {"runs": runs, "keys": found.keys, "series": series, "proposals": proposals, "notes": found.notes}
