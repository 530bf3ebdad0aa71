"""`measure`: what `rooflens run` measures, from Python; and how a planned run is measured, which both share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..shapes.errors import IncompleteError, unknown_name
from ..shapes.request import Request, options
from ..shapes.run_folder.manifest import MANIFEST, TUNED_COPY, Manifest
from ..shapes.values import listed
from ..shapes.verdict import Verdict
from .planned import PlannedRun, planned
from .refine import Refiner
from .run_folders import how_to_resume, resumable
from .scan import pin_defaults
from .selection import unheard

if TYPE_CHECKING:
    from ..harness.plan.plan import Cell
    from ..harness.storage.store import RunStore
    from ..harness.sweep.observer import SweepObserver
    from ..harness.worker.messages import Setup
    from .stored_run import Run

Tell = Callable[[str], object]


def measure(
    what: str | Path | None = None, *, providers: Iterable[str | Path] = (), tell: Tell = unheard, **how: Any
) -> "Run":
    """Measure the suite `what` as `rooflens run` does, and return the stored run as `load` does.

    `providers` are names of providers, and files (.py) that define further ones. `how` are other fields of
    `shapes.request.Request`, as a command line has them or as Python does: `axes={"M": [1, 16]}`, `within="20s"`,
    `to="runs/a"`, `resume=True`. `tell` gets the lines that a terminal shows, such as print. Raises a RooflensError
    with the message of the command line.
    """
    plan = planned(request_of("run", what, providers, how), doing=tell)
    for note in plan.notes:
        tell(f"note: {note}")
    with plan.opened() as (store, content):
        measured(plan, store, content, Listener(tell))
    if not (plan.folder / MANIFEST).is_file():
        raise IncompleteError(how_to_resume(plan.folder))
    from .stored_run import load

    return load(plan.folder)


def request_of(
    command: str, what: str | Path | None, providers: Iterable[str | Path], how: Mapping[str, Any]
) -> Request:
    """Return the request of a call from Python, of one device; `command` does the same on a command line."""
    known = [one.name for one in options().values() if command in one.commands and one.flags and not one.hidden]
    known = [name for name in known if name not in ("jobs", "address", "on", "wait")]  # of the command line
    for name in how:
        if name not in known:
            raise unknown_name("argument", name, known)
    named = listed(providers, "providers")
    files = [one for one in named if str(one).endswith(".py")]
    given: dict[str, Any] = {**how, "suite": what, "files": [*files, *listed(how.get("files", ()), "files")]}
    return Request(**given, providers=tuple(str(one) for one in named if one not in files))


class Listener:
    """Observer of a sweep: passes on the lines that are worth one."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def remark(self, text: str) -> None:
        """Tell an event."""
        self._tell(text)

    def started(self, total_units: int, finished_units: int) -> None:
        """Tell nothing."""

    def doing(self, what: str) -> None:
        """Tell nothing."""

    def finished(self, cell: "Cell", verdict: Verdict, reason: str, units: int) -> None:
        """Tell what has no time, and why."""
        if verdict is not Verdict.PASSED:
            self.remark(f"{cell.provider} {verdict} ({cell.shape.label}, {cell.problem}, {cell.cache}): {reason}")

    def grown(self, total_units: int) -> None:
        """Tell nothing."""


def measured(
    plan: PlannedRun,
    store: "RunStore",
    content: Manifest,
    observer: "SweepObserver",
    should_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Measure a planned run in its opened folder, and refine it; True when both are complete."""
    from ..harness.sweep.sweep import Sweep

    request, folder = plan.request, plan.folder
    refiner = Refiner(plan.refinement, folder, plan.cells, content) if plan.refinement else None
    sweep = Sweep(
        store,
        plan.cells,
        _pinned(plan, store, content, should_stop),
        observer,
        calibrate=bool(request.calibrate),
        should_stop=should_stop,
        deadline=plan.deadline,
        more=refiner.more if refiner else None,
        budget=plan.budget,
        retry=request.retry,
        half_width=_half_width,
    )
    with resumable(folder, lambda: f"{len(store.verdicts)} finished units"):
        complete = sweep.run(content)
    return complete and (refiner is None or refiner.complete)


def _pinned(plan: PlannedRun, store: "RunStore", content: Manifest, should_stop: Callable[[], bool]) -> "Setup":
    """Return the setup with the tuned table of the run: that of --tuned, or the defaults of a scan that begins."""
    setup = plan.setup(store.keep(TUNED_COPY, plan.table.path) if plan.table else None)
    if not plan.scan or plan.request.resume:
        return setup
    path = pin_defaults(store, TUNED_COPY, plan.varied, setup, should_stop)
    if path is None:
        return setup
    content.protocol.tuning = "pinned"
    return replace(setup, protocol=replace(setup.protocol, tuning="pinned"), tuned=path)


def _half_width(times_s: Mapping[str, Sequence[float]], rounds: int) -> float | None:
    from ..analysis.statistics.intervals import half_width_after

    return half_width_after(times_s, rounds)
