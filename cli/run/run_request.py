"""What one call of `rooflens run`, `tune` or a fleet measures: from its options to cells and a folder."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...shapes import tuned
from ...shapes.errors import UsageError
from ...shapes.run_folder.manifest import MANIFEST, TUNED_COPY, Manifest, read_manifest
from ...shapes.scan import Scan
from ...shapes.suite import Suite
from ...shapes.tuned import TunedTable
from ..shared import values
from ..shared.runs import is_tuned, new_folder, refuse_foreign_owner
from .refine import Refinement, stored_cells
from .scan import scan_of, variants
from .selection import (
    Options,
    completed,
    describe,
    manifest,
    own_providers,
    plan_of,
    refuse_other_options,
    stop_signals,
    suite_of,
)

if TYPE_CHECKING:
    from ...harness.plan.plan import Cell
    from ...harness.storage.store import RunStore
    from ...harness.sweep.time_budget import TimeBudget
    from ...harness.worker.messages import Setup

OF_THIS_CALL = (
    *("output", "resume", "dry_run", "report", "strict", "max_time", "within", "calibrate", "arm", "only"),
    *("jobs", "address", "wait", "on", "retry"),
)
"""Options that do not change what is measured; of these, a run only remembers `calibrate`."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What one call measures, where it is stored, and until when (a monotonic time).

    `options` are stored, so that --resume can repeat them. `arm` is the file with the `Origin` of a comparison's arm.
    `varied` are the cells of a scan, each with the one that it varies. `retry` has the verdicts to measure again.
    """

    folder: Path
    suite: Suite
    cells: "tuple[Cell, ...]"
    options: Options
    resume: bool
    deadline: float | None
    arm: Path | None = None
    table: TunedTable | None = None
    refinement: Refinement | None = None
    scan: Scan | None = None
    varied: "Mapping[Cell, Cell]" = field(default_factory=dict)
    budget: "TimeBudget | None" = None
    retry: tuple[str, ...] = ()

    def setup(self, tuned_copy: Path | None = None, device: str | None = None) -> "Setup":
        """Return the setup of worker processes; `device` None is that of the options."""
        from ...harness.plan.plan import contests
        from ...harness.worker.code_origin import Origin
        from ...harness.worker.messages import Setup

        return Setup(
            device=device or self.options["device"],
            llc_bytes=llc_bytes(self.options),
            threads=self.options["threads"],
            protocol=self.suite.protocol,
            providers=tuple(dict.fromkeys(cell.provider for cell in self.cells)),
            files=tuple(Path(file).resolve() for file in self.options["files"]),
            tuned=tuned_copy,
            contests=contests(self.cells),
            origin=Origin.read(self.arm) if self.arm else None,
        )

    @contextmanager
    def opened(self) -> "Iterator[tuple[RunStore, Manifest, Callable[[], bool]]]":
        """Yield the store, run.json, and a function that says whether the user asked to stop."""
        from ...harness.storage.store import RunStore

        with ExitStack() as held:
            store = held.enter_context(RunStore.reopen(self.folder) if self.resume else RunStore.create(self.folder))
            content = store.read_manifest() if self.resume else manifest(self.folder, self.suite)
            describe(content, self.suite, self.cells, self.options)
            yield store, content, held.enter_context(stop_signals())


def llc_bytes(options: Options) -> int | None:
    """Return the value of --llc in bytes."""
    return values.size_bytes(options["llc"], "--llc") if options["llc"] else None


def read_request(options: Mapping[str, Any]) -> RunRequest:
    """Read the options of a command. Raises UsageError for invalid options, and combinations of them."""
    began = time.monotonic()
    own = {name: value for name, value in options.items() if name not in OF_THIS_CALL}
    calibrate: bool | None = options["calibrate"]
    resume: bool = options["resume"]
    if resume and options["suite"] is None:
        retried = {"timeout": options["timeout"]} if options.get("retry") and options["timeout"] else {}
        refuse_other_options((*OF_THIS_CALL, *retried), "measured")
        own = dict.fromkeys(own) | _stored_options(options["output"]) | retried
        calibrate = own.get("calibrate", True) if calibrate is None else calibrate
    elif options["suite"] is None:
        raise UsageError("name a suite (rooflens list suites), or give -o RUN --resume to resume a run")
    own = completed(own) | {"calibrate": calibrate is not False}
    arm: Path | None = options.get("arm")
    if arm and not own["providers"]:
        own["providers"] = own_providers(own)
    suite = suite_of(own)
    scan, refinement = scan_of(own, suite), Refinement.of(own, suite)
    cells = plan_of(suite, own)
    varied = variants(cells, scan) if scan else {}
    cells = tuple(varied) or cells
    if only := options.get("only"):
        from ...harness.compare.replay import keep_only

        cells = keep_only(cells, only)
    _refuse_timer(suite, own["device"])
    folder: Path = options["output"] or new_folder(suite.name)
    table = _tuned_table(own, folder, resume)
    if resume and is_tuned(folder):
        raise _is_a_table(folder)
    if scan and table:
        suite = suite.override(protocol={"tuning": "pinned"})
    if resume:
        cells += stored_cells(folder, cells)
    deadline = _deadline(options, began)
    budget = None
    if options.get("within"):
        from ...harness.plan.plan import spread
        from ...harness.sweep.time_budget import LEAST_ROUNDS, MOST_ROUNDS, TimeBudget

        assert deadline is not None
        budget = TimeBudget(deadline, own["rounds"] or MOST_ROUNDS)
        suite = suite.override(protocol={"rounds": min(LEAST_ROUNDS, budget.most_rounds)})
        cells = spread(cells)
    return RunRequest(
        folder=folder,
        suite=suite,
        cells=cells,
        options=own,
        resume=resume,
        deadline=deadline,
        arm=arm,
        table=table,
        refinement=refinement,
        scan=scan,
        varied=varied,
        budget=budget,
        retry=options.get("retry", ()),
    )


def _deadline(options: Mapping[str, Any], began: float) -> float | None:
    """Return the end of --max-time or --within. Raises UsageError for invalid combinations."""
    within, most = options.get("within"), options["max_time"]
    if within and most:
        raise UsageError("--within ends the sweep by itself: omit --max-time")
    if within and (options.get("jobs") or options.get("address")):
        raise UsageError("--within is for one device: omit --jobs and --address, or use --max-time instead")
    if not (within or most):
        return None
    return began + (values.seconds(within, "--within") if within else values.seconds(most, "--max-time"))


def _stored_options(folder: Path | None) -> Options:
    """Return the options with which the run in `folder` was started."""
    if folder is None:
        raise UsageError("--resume needs -o RUN, the folder of the run to resume")
    refuse_foreign_owner(folder)
    from ...harness.storage.store import refuse_merged

    path = folder / MANIFEST
    try:
        stored = read_manifest(path)
    except FileNotFoundError:
        raise UsageError(f"no run to resume: {path} does not exist; name the folder of the run with -o") from None
    refuse_merged(folder, stored)
    if stored.tune is not None:
        raise _is_a_table(folder)
    options: Options = stored.request or {}
    if missing := [name for name in ("suite", "axes", "files", "providers") if options.get(name) is None]:
        raise UsageError(f"cannot resume {folder}: {path} does not say how it was started (request.{missing[0]})")
    return options


def _is_a_table(folder: Path) -> UsageError:
    return UsageError(f"{folder} is a tuned table: resume it with rooflens tune -o {folder} --resume")


def _tuned_table(options: Options, folder: Path, resume: bool) -> TunedTable | None:
    """Load the table of --tuned; a resumed run uses the copy that it was started with, and no other.

    A scan creates a table of its own when it starts, see `cli.run.scan`.
    """
    own = folder / TUNED_COPY
    if options["scan"]:
        return tuned.load(own) if resume and own.is_file() else None
    if not options["tuned"]:
        return None
    given = Path(options["tuned"]).resolve()
    if not (resume and own.is_file()):
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
    """Report at once what the worker would report after its start, if the device is known from the options."""
    timer = suite.protocol.timer
    if device == "cpu" and timer not in ("auto", "host"):
        raise UsageError(f"timer {timer}: it times GPUs, not --device cpu; omit --timer, or use --timer host")
