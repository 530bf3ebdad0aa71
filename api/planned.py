"""What a `Request` comes to before anything is measured: cells, a folder with its run.json, a deadline."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..shapes import tuned
from ..shapes.errors import RooflensError, UsageError
from ..shapes.request import Request
from ..shapes.run_folder.manifest import (
    MANIFEST,
    TUNED_COPY,
    VERSION,
    Manifest,
    StoredProtocol,
    StoredRepository,
    read_manifest,
)
from ..shapes.scan import Scan
from ..shapes.suite import Suite
from ..shapes.tuned import TunedTable
from .refine import Refinement, stored_cells
from .run_folders import TUNED, how_to_resume, is_tuned, manifest_to_resume, new_folder
from .selection import on_a_suite, own_providers, skipped, suite_of, unheard

if TYPE_CHECKING:
    from ..harness.plan.plan import Cell
    from ..harness.storage.store import RunStore
    from ..harness.sweep.in_child import Declared
    from ..harness.sweep.time_budget import TimeBudget
    from ..harness.worker.code_origin import Origin
    from ..harness.worker.messages import Interpreter, Setup


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """What one call measures, where it is stored, and until when (a monotonic time).

    `own` are the providers of the user's files, `varied` the cells of a scan, each with the one that it varies. `notes`
    say what is left out. An arm of a comparison has an `origin`, what it may import, and an `interpreter`.
    """

    request: Request
    folder: Path
    suite: Suite
    cells: "tuple[Cell, ...]"
    own: "Mapping[str, Declared]"
    deadline: float | None = None
    table: TunedTable | None = None
    refinement: Refinement | None = None
    scan: Scan | None = None
    varied: "Mapping[Cell, Cell]" = field(default_factory=dict)
    budget: "TimeBudget | None" = None
    notes: tuple[str, ...] = ()
    origin: "Origin | None" = None
    interpreter: "Interpreter | None" = None

    def setup(self) -> "Setup":
        """Return the setup of worker processes."""
        from ..harness.plan.plan import contests
        from ..harness.worker.messages import Setup

        request = self.request
        return Setup(
            device=request.device or "auto",
            protocol=self.suite.protocol,
            providers=tuple(dict.fromkeys(cell.provider for cell in self.cells)),
            files=tuple(file.resolve() for file in request.files),
            tuned=self.table,
            contests=contests(self.cells),
            origin=self.origin,
            interpreter=self.interpreter,
        )

    @contextmanager
    def opened(self, command: Sequence[str] = ()) -> "Iterator[tuple[RunStore, Manifest]]":
        """Yield the store and run.json. `command` is the command line; without one, that which measures the same."""
        from ..harness.storage.store import RunStore

        resume = bool(self.request.resume)
        if resume and (self.folder / MANIFEST).is_file():
            self.refuse_another(read_manifest(self.folder / MANIFEST))
        with RunStore.reopen(self.folder) if resume else RunStore.create(self.folder) as store:
            content = store.read_manifest() if resume else manifest(self.folder, self.suite, self.request, command)
            self.describe(content)
            _describe_scan(content, self.scan, self.varied, resume)
            yield store, content

    def describe(self, content: Manifest) -> None:
        """Describe the run in run.json. On resume, the plan is that of the latest call; earlier shapes stay.

        A version of a comparison is of the repository that its interpreter runs in.
        """
        suite, request = self.suite, self.request
        shapes = list(dict.fromkeys(cell.shape for cell in self.cells))
        found = _repository(request, self.interpreter.folder if self.interpreter else Path())
        if content.device is None:  # nothing is measured yet
            content.repository = found
        elif content.repository and found and (found.commit, found.dirty) != (content.repository.commit, False):
            content.repository.dirty = True
        content.request, content.description = request.stored(), suite.description
        content.baseline, content.challengers = suite.baseline, list(suite.challengers)
        content.shapes += [shape for shape in shapes if shape not in content.shapes]
        content.rounds = suite.protocol.rounds
        if request.searches:
            content.tune, content.request, content.planned_units = content.request, None, 0
        content.protocol = StoredProtocol(**asdict(suite.protocol), caches=[cache.value for cache in suite.caches])

    def refuse_another(self, content: Manifest) -> None:
        """Raise UsageError when the run of this run.json cannot be resumed as planned.

        It may be of another suite, seed, tuned table or version of rooflens, or of several devices in place of one.
        """
        folder = self.folder
        if content.tuned and content.tuned != table_hash(folder):
            raise UsageError(
                f"cannot resume: {folder / TUNED_COPY} is not the table that the run began with; restore it"
            )
        if not content.is_current:
            raise UsageError(f"cannot resume: {folder} was begun by an earlier version of rooflens; start a new run")
        protocol = self.suite.protocol
        for what, was, found in (("suite", content.suite, self.suite.name), ("seed", content.seed, protocol.seed)):
            if was != found:
                raise UsageError(f"cannot resume: {what} was {was} and is {found} now; choose another -o")
        if bool(content.fleet) != self.request.on_devices and content.device:
            who = "several devices" if content.fleet else "one device"
            raise UsageError(f"{folder} was measured by {who}: {how_to_resume(folder)}")


def planned(
    request: Request,
    own: "Mapping[str, Declared] | None" = None,
    doing: Callable[[str], object] = unheard,
    searches: int | None = None,
) -> PlannedRun:
    """Plan what is requested, with so many `searches` per cell in place of times unless the request has a number.

    `own` has what the files of the request declare, where that is known. Raises UsageError for values that no run can
    have, and combinations of them.
    """
    began = time.monotonic()
    request = as_started(request)
    request = replace(request, calibrate=request.calibrate is not False, searches=request.searches or searches)
    if request.searches:
        if request.resume:
            _stored_search(request.to)
        request = request.with_settings(tuning="cold")
    own = own_providers(request, doing) if own is None else own
    request = on_a_suite(request, own)
    suite = suite_of(request, own)
    scan, refinement = _scan_of(request, suite), Refinement.of(request, suite)
    cells = plan_of(suite, request)
    varied: Mapping[Cell, Cell] = {}
    if scan:
        from ..harness.plan.extra_cells import scanned

        varied = scanned(cells, scan)
        cells = tuple(varied) or cells
    _refuse_timer(suite, request.device)
    folder = request.to or new_folder(suite.name, *([TUNED] if request.searches else []))
    table = _tuned_table(request, folder)
    if request.resume and is_tuned(folder) and not request.searches:
        raise _is_a_table(folder)
    notes = skipped(suite)
    if scan and table:
        suite = suite.override(protocol={"tuning": "pinned"})
    if request.resume:
        cells += stored_cells(folder, cells)
    deadline, budget = request.deadline(began), None
    if request.within:
        from ..harness.plan.plan import spread
        from ..harness.sweep.time_budget import LEAST_ROUNDS, MOST_ROUNDS, TimeBudget

        budget = TimeBudget(request.rounds or MOST_ROUNDS)
        suite = suite.override(protocol={"rounds": min(LEAST_ROUNDS, budget.most_rounds)})
        cells = spread(cells)
    return PlannedRun(request, folder, suite, cells, own, deadline, table, refinement, scan, varied, budget, notes)


def as_started(request: Request, is_search: bool = False) -> Request:
    """Return the request, or without a suite the one that its folder was started with."""
    if request.suite is not None:
        return request
    if not request.resume:
        way = "or show a table" if is_search else "a run"
        raise UsageError(f"name a suite (rooflens list suites), or give -o RUN --resume to resume {way}")
    request.refuse_changes("searched" if is_search else "measured")
    stored = _stored_search if is_search else _stored_request
    return request.repeating(stored(request.to), f"{request.to}/{MANIFEST}")


def plan_of(suite: Suite, request: Request) -> "tuple[Cell, ...]":
    """List the cells of the suite that --filter keeps."""
    from ..harness.plan.plan import plan

    return plan(suite, request.filter_expression or "")


def manifest(folder: Path, suite: Suite, request: Request, command: Sequence[str] = ()) -> Manifest:
    """Return run.json as it begins; the worker completes it with device, environment and providers."""
    from ..harness.telemetry.clock import CLOCK

    return Manifest(
        version=VERSION,
        id=folder.name,
        folder=str(folder),
        command=["rooflens", *(command or ("run", *request.words()))],
        suite=suite.name,
        seed=suite.protocol.seed,
        created_at=CLOCK.now("seconds"),
    )


def _describe_scan(content: Manifest, scan: Scan | None, varied: "Mapping[Cell, Cell]", resume: bool) -> None:
    """Describe the scan in run.json. Raises UsageError when the resumed run is of another scan, or of none."""
    before, now = content.scan.text if content.scan else None, scan.text if scan else None
    if resume and before != now:
        raise UsageError(
            f"cannot resume: --scan was {before or 'not given'} and is {now or 'not given'} now; choose another -o"
        )
    if scan:
        from ..harness.plan.extra_cells import described

        content.scan = described(scan, varied)


def table_hash(folder: Path) -> str:
    """Hash of the tuned table that a run has kept; "" without one."""
    path = folder / TUNED_COPY
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


def _scan_of(request: Request, suite: Suite) -> Scan | None:
    """Read the request; None without --scan. Raises UsageError for options that exclude one."""
    if request.scan is None:
        return None
    if request.tuned or suite.protocol.tuning != "default":
        raise UsageError("--scan pins the default configuration of each shape: omit --tuned and tuning")
    if request.refine:
        raise UsageError("--scan varies N or K, and --refine adds M: measure one of the two at a time")
    return Scan.parse(request.scan)


def _repository(request: Request, beside: Path) -> StoredRepository | None:
    """Describe the repository of the kernels; None where there is none, it is rooflens itself, or git does not work."""
    from ..harness.compare.worktrees import Repository

    files = [file.resolve() for file in request.files]
    try:
        repository = Repository.at(files[0].parent if files else beside.resolve())
        return repository.state(files) if files or not repository.is_rooflens else None
    except (RooflensError, OSError):
        return None


def _stored_request(folder: Path | None) -> dict[str, Any]:
    """Return the request with which the run in `folder` was started."""
    stored = manifest_to_resume(folder, "run")
    assert folder is not None
    from ..harness.storage.store import refuse_merged

    refuse_merged(folder, stored)
    if stored.tune is not None:
        raise _is_a_table(folder)
    request: dict[str, Any] = stored.request or {}
    if missing := [name for name in ("suite", "axes", "files", "providers") if request.get(name) is None]:
        raise UsageError(f"cannot resume {folder}: {MANIFEST} does not say how it was started (request.{missing[0]})")
    return request


def _stored_search(folder: Path | None) -> dict[str, Any]:
    """Return the request with which the search in `folder` was started."""
    request: dict[str, Any] | None = manifest_to_resume(folder, "table").tune
    if request is None:
        raise UsageError(f"cannot resume {folder}: it is not a folder of rooflens tune; choose another -o")
    return request


def _is_a_table(folder: Path) -> UsageError:
    return UsageError(f"{folder} is a tuned table: resume it with rooflens tune -o {folder} --resume")


def _tuned_table(request: Request, folder: Path) -> TunedTable | None:
    """Load the table of --tuned; a resumed run uses the copy that it was started with, and no other.

    A scan creates a table of its own when it starts, see `pin_defaults`.
    """
    own = folder / TUNED_COPY
    has_own = request.resume and own.is_file()
    if request.scan:
        return tuned.load(own) if has_own else None
    if not request.tuned:
        return None
    given = request.tuned.resolve()
    if not has_own:
        return tuned.load(given)
    table = tuned.load(own)
    try:
        is_same = tuned.load(given).choices == table.choices
    except UsageError:  # a table that is gone cannot be confused with any
        is_same = True
    if not is_same:
        raise UsageError(
            f"cannot resume: {given} is not the tuned table that {folder} was started with, copied as {own}; "
            f"pass --tuned {own}, or start a new run"
        )
    return table


def _refuse_timer(suite: Suite, device: str | None) -> None:
    """Report at once what the worker would report after its start, if the device is known from the request."""
    timer = suite.protocol.timer
    if device == "cpu" and timer not in ("auto", "host"):
        raise UsageError(f"timer {timer}: it times GPUs, not --device cpu; omit it, or use --set timer=host")
