"""`tune`: what `rooflens tune` searches, from Python; and how a planned search runs, which both share."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..shapes.errors import IncompleteError, UsageError
from ..shapes.request import Request
from ..shapes.run_folder.columns import TUNING
from ..shapes.run_folder.manifest import MANIFEST, Manifest, read_manifest
from .measuring import Listener, Tell, request_of
from .planned import PlannedRun, completed, plan_of
from .run_folders import how_to_resume, manifest_to_resume, new_folder, resumable
from .selection import skipped, suite_of, unheard

if TYPE_CHECKING:
    import pandas as pd

    from ..harness.storage.store import RunStore
    from ..harness.sweep.observer import SweepObserver

TUNED = Path("tuned")
"""Default folder of tuned tables: they are no runs that `latest` could mean."""

SEARCHES = 2
"""Searches per cell, unless requested otherwise."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """A tuned table in its folder, which `measure(tuned=folder)` pins. `complete`: everything was searched."""

    folder: Path
    complete: bool

    @property
    def table(self) -> "pd.DataFrame":
        """Every candidate of every search, with its time; `winner` marks the choice."""
        return read_table(self.folder / TUNING.file)


def tune(
    what: str | Path | None = None, *, providers: Iterable[str | Path] = (), tell: Tell = unheard, **how: Any
) -> Tuned:
    """Search the configurations of the suite `what` as `rooflens tune` does; arguments as of `measure`."""
    request, complete_in = search_request(request_of("tune", what, providers, how))
    if complete_in:
        return Tuned(complete_in, True)
    plan = planned_search(request, tell)
    for note in plan.notes:
        tell(f"note: {note}")
    with plan.opened(("tune", *request.words())) as (store, content):
        complete = searched(plan, store, content, Listener(tell))
    if not (plan.folder / TUNING.file).is_file():
        raise IncompleteError(how_to_resume(plan.folder))
    return Tuned(plan.folder, complete)


def search_request(request: Request) -> tuple[Request, Path | None]:
    """Return what is to be searched: the request, or without a suite the one that its folder was started with.

    Also returns this folder where its table is complete already.
    """
    if request.suite is not None:
        return request, None
    if not request.resume:
        raise UsageError("name a suite (rooflens list suites), or give -o RUN --resume to resume or show a table")
    request.refuse_changes("searched")
    request = request.repeating(_stored_request(request.to), f"{request.to}/{MANIFEST}")
    return request, request.to if request.to and _is_complete(request.to) else None


def planned_search(request: Request, doing: Callable[[str], object] = unheard) -> PlannedRun:
    """Plan the searches that are requested."""
    began = time.monotonic()
    request, own = completed(replace(request, tuning="cold", searches=request.searches or SEARCHES), None, doing)
    suite = suite_of(request, own)
    folder = request.to or new_folder(suite.name, TUNED)
    if request.resume:
        _stored_request(folder)
    return PlannedRun(
        request=request,
        folder=folder,
        suite=suite,
        cells=plan_of(suite, request),
        own=own,
        deadline=began + request.max_time if request.max_time else None,
        notes=skipped(suite),
    )


def searched(
    plan: PlannedRun,
    store: "RunStore",
    content: Manifest,
    observer: "SweepObserver",
    should_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Run planned searches in their opened folder; True when they are complete."""
    from ..harness.sweep.tuning_sweep import TuningSweep

    content.tune, content.request, content.planned_units = content.request, None, 0
    sweep = TuningSweep(
        store,
        plan.cells,
        plan.setup(),
        observer,
        searches=plan.request.searches or SEARCHES,
        should_stop=should_stop,
        deadline=plan.deadline,
    )
    with resumable(plan.folder, lambda: "finished searches"):
        return sweep.run(content)


def _stored_request(folder: Path | None) -> dict[str, Any]:
    request: dict[str, Any] | None = manifest_to_resume(folder, "table").tune
    if request is None:
        raise UsageError(f"cannot resume {folder}: it is not a folder of rooflens tune; choose another -o")
    return request


def _is_complete(folder: Path) -> bool:
    """Tell whether the table holds everything that its last call asked for, unchanged since."""
    from ..analysis.tuning.searches import whole_searches

    stored = read_manifest(folder / MANIFEST).complete_searches
    path = folder / TUNING.file
    return stored is not None and path.is_file() and whole_searches(read_table(path)) == stored


def read_table(path: Path) -> "pd.DataFrame":
    """Read a tuning.csv."""
    from ..analysis.frames.tables import parse_table

    return parse_table(path.read_bytes(), TUNING, str(path))
