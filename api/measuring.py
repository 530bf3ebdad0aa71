"""`measure` and `tune`: what `rooflens run` and `rooflens tune` do, from Python; and how a planned run is measured."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from ..shapes.errors import IncompleteError, Interrupted, RooflensError, unknown_name
from ..shapes.protocol import settings_of
from ..shapes.request import FORMER, Request, options
from ..shapes.run_folder.columns import TUNING
from ..shapes.run_folder.manifest import MANIFEST, TUNED_COPY, Manifest, glance, read_manifest
from ..shapes.values import listed
from .planned import PlannedRun, as_started, planned, table_hash
from .refine import Refiner
from .run_folders import how_to_resume, resumable
from .selection import own_providers, unheard
from .stopping import stop_signals

if TYPE_CHECKING:
    import pandas as pd

    from ..harness.compare.runner import Turn
    from ..harness.storage.store import RunStore
    from ..harness.sweep.deadline import Deadline
    from ..harness.sweep.events import Event, Observer
    from ..harness.sweep.in_child import Declared
    from ..harness.worker.messages import Setup
    from .stored_run import Run


Tell = Callable[[str], object]


def measure(
    what: str | Path | None = None, *, providers: Iterable[str | Path] = (), tell: Tell | None = None, **how: Any
) -> "Run":
    """Measure the suite `what` as `rooflens run` does, and return the stored run as `load` does.

    `providers` are names of providers, and files (.py) that define further ones. `how` are other fields of
    `shapes.request.Request`, and settings, as a command line has them or as Python does: `axes={"M": [1, 16]}`,
    `within="20s"`, `timer="graph"`, `to="runs/a"`. A terminal or a notebook shows progress, unless `tell`, such as
    print, gets what is worth a line. Raises a RooflensError with the message of the command line.
    """
    plan = _planned(request_of("run", what, providers, how), tell)
    _carried_out(plan, MANIFEST, tell)
    from .stored_run import load

    return load(plan.folder)


def request_of(
    command: str, what: str | Path | None, providers: Iterable[str | Path], how: Mapping[str, Any]
) -> Request:
    """Return the request of a call from Python; `command` does the same on a command line."""
    known = [one.name for one in options().values() if command in one.commands and one.flags]
    known += settings_of(command)
    for name in how:
        if name not in known:
            raise unknown_name("argument", name, [FORMER[name]] if name in FORMER else known)
    named = listed(providers, "providers")
    files = [one for one in named if str(one).endswith(".py")]
    given = {**how, "suite": what, "files": [*files, *listed(how.get("files", ()), "files")]}
    return Request.for_command(command, given | {"providers": tuple(str(one) for one in named if one not in files)})


@contextmanager
def watched(tell: Tell | None, deadline: float | None = None) -> "Iterator[Observer]":
    """Yield an observer for `tell`; without one, a terminal or a notebook shows progress, until `deadline` if given."""
    if tell is None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        from .progress import Progress

        with Progress(sys.stderr, deadline) as progress:
            yield progress
    else:
        yield told(tell or unheard)


def _planned(request: Request, tell: Tell | None, searches: int | None = None) -> PlannedRun:
    from ..harness.sweep.events import Doing

    with watched(tell) as observer:
        return planned(request, doing=lambda what: observer(Doing(what)), searches=searches)


def told(tell: Tell) -> "Observer":
    """Return an observer that passes on the lines that are worth one."""
    from ..harness.sweep.events import Finished, Remarked

    def observe(event: "Event") -> None:
        if isinstance(event, Remarked):
            tell(event.text)
        elif isinstance(event, Finished) and event.failure:
            tell(event.failure)

    return observe


def measured(
    plan: PlannedRun,
    store: "RunStore",
    content: Manifest,
    observer: "Observer",
    should_stop: Callable[[], bool] = lambda: False,
    turn: "Turn | None" = None,
    deadline: "Deadline | None" = None,
) -> bool:
    """Measure a planned run in its opened folder, and refine it, or search; True when all is complete.

    A `turn` of a comparison has its place, and the comparison its `deadline`.

    Raises IncompleteError when devices are missing for the rest.
    """
    from ..harness.sweep.deadline import Deadline
    from ..harness.sweep.device_sweep import DeviceSweep
    from ..harness.sweep.sweep import Sweep
    from .devices import stored, target

    request, folder = plan.request, plan.folder
    refiner = Refiner(plan.refinement, folder, plan.cells, content) if plan.refinement else None
    setup, more = _pinned(plan, store, content, should_stop), refiner.more if refiner else None
    deadline = deadline or Deadline(plan.deadline or math.inf, should_stop)
    done = "finished searches" if request.searches else None
    with resumable(folder, lambda: done or f"{len(store.verdicts)} finished units"):
        if request.on_devices and not turn:
            with target(request, content.device.arch if content.device else "", deadline.should_stop) as found:
                earlier, content.fleet = content.fleet, stored(request)
                devices = DeviceSweep(
                    *(store, plan.cells, setup, observer, found, bool(request.calibrate), deadline),
                    *(more, request.retry),
                )
                try:
                    complete = devices.run(content)
                except RooflensError as error:
                    if earlier:  # what was refused, or is gone, is no way to resume
                        content.fleet = earlier
                        store.write_manifest(content)
                    if isinstance(error, Interrupted):
                        raise
                    raise error.saying(f"{error}; {how_to_resume(folder)}") from error
            if devices.unmeasured:
                raise IncompleteError(f"{devices.unmeasured}: {how_to_resume(folder)}")
        else:
            sweep = Sweep(
                *(store, plan.cells, setup, observer, bool(request.calibrate), deadline, more, plan.budget),
                *(request.retry, request.searches or 0, turn.place if turn else None),
            )
            if turn:
                sweep.start_process = turn.machine.start
            complete = sweep.run(content)
    return complete and (refiner is None or refiner.complete)


class TurnExecutor:
    """Measures turns of versions (see `harness.compare.runner.Turn`), whose files are imported once to be planned.

    The run folders of versions stay open for later turns, and for the threads of other devices.
    """

    def __init__(self) -> None:
        self._own: dict[str, Mapping[str, Declared]] = {}
        self.open_runs: dict[Path, RunStore] = {}
        self._manifests: dict[Path, Manifest] = {}
        self.alone, self._held = RLock(), ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()
        self.open_runs.clear()

    def __call__(self, turn: "Turn", observer: "Observer", deadline: "Deadline") -> bool:
        """Measure a turn. Without named providers, those of its files alone are measured."""
        from ..harness.compare.replay import keep_only
        from ..harness.sweep.events import Doing
        from ..harness.sweep.in_child import Declared

        request, named = turn.request, turn.request.providers
        with self.alone:
            if turn.version not in self._own:
                doing = lambda what: observer(Doing(what))  # noqa: E731
                self._own[turn.version] = own_providers(
                    request, doing, deadline.check, turn.interpreter, turn.machine.start
                )
            own = self._own[turn.version]
            # What is named may be of the version alone: its worker knows.
            known = {name: Declared("", "") for name in named} | dict(own) if turn.interpreter else own
            plan = planned(replace(request, providers=named or tuple(own)), known)
            cells = keep_only(plan.cells, turn.cells) if turn.cells else plan.cells
            device = turn.place.device if turn.place else request.device
            plan = replace(plan, origin=turn.origin, interpreter=turn.interpreter, cells=cells)
            plan = replace(plan, request=replace(plan.request, device=device))
            rounds = (self._manifests.get(plan.folder) or glance(plan.folder)).rounds or 0
            if plan.folder in self.open_runs:
                plan.describe(self._manifests[plan.folder])
            else:
                opened = self._held.enter_context(plan.opened())
                self.open_runs[plan.folder], self._manifests[plan.folder] = opened
            store, content = self.open_runs[plan.folder], self._manifests[plan.folder]
            # Another part, of this device or another one, may be further.
            content.rounds = content.protocol.rounds = max(rounds, content.rounds or 0)
        return measured(plan, store, content, observer, deadline.should_stop, turn, replace(deadline))


def _pinned(plan: PlannedRun, store: "RunStore", content: Manifest, should_stop: Callable[[], bool]) -> "Setup":
    """Return the setup with the tuned table of the run: that of --tuned, or the defaults of a scan that begins."""
    setup = plan.setup()
    if plan.table:
        store.keep(TUNED_COPY, plan.table.path.read_text(encoding="utf-8"))
        content.tuned = table_hash(plan.folder)
    if not plan.scan or plan.request.resume:
        return setup
    from ..harness.sweep.pinned_defaults import pin_defaults

    table = pin_defaults(store, plan.varied, setup, should_stop)
    if table is None:
        return setup
    content.protocol.tuning, content.tuned = "pinned", table_hash(plan.folder)
    return replace(setup, protocol=replace(setup.protocol, tuning="pinned"), tuned=table)


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
    what: str | Path | None = None, *, providers: Iterable[str | Path] = (), tell: Tell | None = None, **how: Any
) -> Tuned:
    """Search the configurations of the suite `what` as `rooflens tune` does; arguments as of `measure`."""
    request, complete_in = search_request(request_of("tune", what, providers, how))
    if complete_in:
        return Tuned(complete_in, True)
    plan = _planned(request, tell, SEARCHES)
    return Tuned(plan.folder, _carried_out(plan, TUNING.file, tell, ("tune", *request.words())))


def _carried_out(plan: PlannedRun, file: str, tell: Tell | None, command: Sequence[str] = ()) -> bool:
    """Do what is planned; True when it is complete. Raises IncompleteError where not even `file` was written."""
    from ..harness.sweep.events import Remarked

    complete: bool
    with ExitStack() as held:
        observer = held.enter_context(watched(tell, plan.deadline if plan.budget else None))
        for note in plan.notes:
            observer(Remarked(f"note: {note}"))
        stopped = held.enter_context(stop_signals()) if plan.request.on_devices else lambda: False
        try:
            complete = measured(plan, *held.enter_context(plan.opened(command)), observer, stopped)
        except IncompleteError as error:  # devices are missing: what they have measured is there
            complete = False
            observer(Remarked(str(error)))
    if not (plan.folder / file).is_file():
        raise IncompleteError(how_to_resume(plan.folder))
    return complete


def search_request(request: Request) -> tuple[Request, Path | None]:
    """Return what is to be searched: the request, or without a suite the one that its folder was started with.

    Also returns this folder where its table is complete already.
    """
    started = as_started(request, is_search=True)
    return started, request.to if request.suite is None and request.to and _is_complete(request.to) else None


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
