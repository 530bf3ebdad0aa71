"""`compare`: what `rooflens compare` does, from Python; and what both conclude."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...analysis.comparison.result import Result
from ...harness.sweep.events import Observer, Remarked
from ...shapes.errors import UsageError
from ...shapes.request import Request
from ..measuring import Tell, request_of, watched
from .commits import measured_commits
from .stored import stored_results

if TYPE_CHECKING:
    from ..stored_run import Run


def compare(
    *targets: "Run | str | Path",
    providers: Iterable[str | Path] = (),
    columns: Mapping[str, str] | None = None,
    tell: Tell | None = None,
    **how: Any,
) -> Result:
    """Compare two versions of the same kernels, as `rooflens compare` does.

    A suite and `versions=[base, head]` measure two commits of the repository `repo` in turn; `how` are other fields of
    `shapes.request.Request`: `rounds=8`, `to="runs/ab"`, `null_arm=True`, `tune=True`; `to` and `resume=True` continue.
    Without versions, `targets` are stored: two runs (what `load` and `measure` return, folders, or names), the folder
    of a comparison, or two tables of other tools, whose `columns` are named by their role: {"time_ms": "Latency (ms)"}.
    A terminal or a notebook shows progress, unless `tell`, such as print, gets what is worth a line. Raises a
    RooflensError with the message of the command line, but none for a regression: see `Result.error`.
    """
    from ..stored_run import Run

    named = [one.folder if isinstance(one, Run) else one for one in targets]
    for one in named:
        if not isinstance(one, str | Path):
            raise UsageError("rooflens.compare compares versions: rooflens.bench(calls) times calls side by side")
    texts = [f"{role}={name}" for role, name in (columns or {}).items()]
    request = request_of("compare", None, providers, how)
    with watched(tell) as observer:
        return compared(request, named, texts, observer)


def compared(request: Request, targets: Sequence[str | Path], columns: Sequence[str], observer: Observer) -> Result:
    """Measure the versions of a request as `measured_commits` does, or else compare the stored `targets`."""
    if request.versions or request.resume:
        if columns:
            raise UsageError("--column is for tables, and two commits are measured: omit it")
        suite = str(targets[0]) if len(targets) == 1 else None
        return measured_commits(replace(request, suite=suite), observer)
    if words := request.words():
        raise UsageError(
            f"{words[0]} is for measuring: name two commits with --git BASE..HEAD, or resume with --resume"
        )
    return stored_results(targets, columns, lambda text: observer(Remarked(f"note: {text}")))
