"""What a call of `rooflens run`, on one device or a fleet, is to measure: from its options to cells and a folder."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...shapes import tuned
from ...shapes.errors import UsageError
from ...shapes.run_folder.manifest import MANIFEST, TUNED_COPY, read_manifest
from ...shapes.scan import Scan
from ...shapes.suite import Suite
from ...shapes.tuned import TunedTable
from ..shared import values
from ..shared.runs import is_tuned, new_folder, refuse_foreign_owner
from .refine import Refinement, stored_cells
from .scan import scan_of, variants
from .selection import completed, own_providers, plan_of, refuse_other_options, suite_of

if TYPE_CHECKING:
    from ...harness.plan.plan import Cell
    from ...harness.sweep.time_budget import TimeBudget
    from ...harness.worker.messages import Setup

OF_THIS_CALL = (
    *("output", "resume", "dry_run", "report", "strict", "max_time", "within", "calibrate", "arm", "only"),
    *("jobs", "address", "wait", "on", "retry"),
)
"""Options that say how this call goes, not what is measured; of these, a run only remembers `calibrate`."""


@dataclass(frozen=True, slots=True)
class Call:
    """What one call is to measure, where to, and until when (a monotonic time); `retry` names what failed before.

    `budget` is that of --within. `varied` are the cells of a scan, each with the one that it varies.
    """

    folder: Path
    suite: Suite
    cells: "tuple[Cell, ...]"
    request: dict[str, Any]
    table: TunedTable | None
    resume: bool
    deadline: float | None
    arm: Path | None
    refinement: Refinement | None
    scan: Scan | None
    varied: "Mapping[Cell, Cell]" = field(default_factory=dict)
    budget: "TimeBudget | None" = None
    retry: tuple[str, ...] = ()

    def setup(self, tuned_copy: Path | None, device: str | None = None) -> "Setup":
        """What workers are told; `device` None is that of the request."""
        from ...harness.plan.plan import contests
        from ...harness.worker.code_origin import Origin
        from ...harness.worker.messages import Setup

        return Setup(
            device=device or self.request["device"],
            llc_bytes=values.size_bytes(self.request["llc"], "--llc") if self.request["llc"] else None,
            threads=self.request["threads"],
            protocol=self.suite.protocol,
            providers=tuple(dict.fromkeys(cell.provider for cell in self.cells)),
            files=tuple(Path(file).resolve() for file in self.request["files"]),
            tuned=tuned_copy,
            contests=contests(self.cells),
            origin=Origin.read(self.arm) if self.arm else None,
        )


def call_of(options: Mapping[str, Any], stored: Path | None = None) -> Call:
    """Read the options of a command. `stored` is the run folder to resume, where it is not that of -o itself.

    Raises UsageError for what does not exist, or does not go together.
    """
    began = time.monotonic()
    request = {name: value for name, value in options.items() if name not in OF_THIS_CALL}
    calibrate: bool | None = options["calibrate"]
    if options["resume"] and options["suite"] is None:
        retried = {"timeout": options["timeout"]} if options.get("retry") and options["timeout"] else {}
        refuse_other_options((*OF_THIS_CALL, *retried), "measured")
        request = dict.fromkeys(request) | _stored_request(stored or options["output"]) | retried
        calibrate = request.get("calibrate", True) if calibrate is None else calibrate
    elif options["suite"] is None:
        raise UsageError("name a suite (rooflens list suites), or give -o RUN --resume to resume a run")
    request = completed(request) | {"calibrate": calibrate is not False}
    arm: Path | None = options.get("arm")
    if arm and not request["providers"]:
        request["providers"] = own_providers(request)
    suite = suite_of(request)
    scan, refinement = scan_of(request, suite), Refinement.of(request, suite)
    cells = plan_of(suite, request)
    varied = variants(cells, scan) if scan else {}
    cells = tuple(varied) or cells
    if only := options.get("only"):
        from ...harness.compare.replay import keep_only

        cells = keep_only(cells, only)
    _refuse_timer(suite, request["device"])
    folder: Path = options["output"] or new_folder(suite.name)
    table = _tuned_table(request, stored or folder, options["resume"])
    if options["resume"] and is_tuned(folder):
        raise UsageError(f"{folder} is a tuned table: resume it with rooflens tune -o {folder} --resume")
    if scan and table:
        suite = suite.override(protocol={"tuning": "pinned"})
    if options["resume"]:
        cells += stored_cells(stored or folder, cells)
    deadline = _deadline(options, began)
    budget = None
    if options.get("within"):
        from ...harness.plan.plan import spread
        from ...harness.sweep.time_budget import LEAST_ROUNDS, MOST_ROUNDS, TimeBudget

        assert deadline is not None
        budget = TimeBudget(deadline, request["rounds"] or MOST_ROUNDS)
        suite = suite.override(protocol={"rounds": min(LEAST_ROUNDS, budget.most_rounds)})
        cells = spread(cells)
    resume, retry = options["resume"], options.get("retry", ())
    return Call(folder, suite, cells, request, table, resume, deadline, arm, refinement, scan, varied, budget, retry)


def _deadline(options: Mapping[str, Any], began: float) -> float | None:
    """Return when --max-time or --within is over. Raises UsageError for what does not go together."""
    within, most = options.get("within"), options["max_time"]
    if within and most:
        raise UsageError("--within ends the sweep by itself: leave out --max-time")
    if within and options.get("jobs"):
        raise UsageError("--within is for one device: leave out --jobs, or limit the time of a fleet with --max-time")
    if not (within or most):
        return None
    return began + (values.seconds(within, "--within") if within else values.seconds(most, "--max-time"))


def _stored_request(folder: Path | None) -> dict[str, Any]:
    if folder is None:
        raise UsageError("--resume needs -o RUN, the folder of the run to resume")
    refuse_foreign_owner(folder)
    from ...harness.storage.store import refuse_merged

    path = folder / MANIFEST
    try:
        stored = read_manifest(path)
        refuse_merged(folder, stored)
        if stored.tune is not None:
            raise UsageError(f"{folder} is a tuned table: resume it with rooflens tune -o {folder} --resume")
    except FileNotFoundError:
        raise UsageError(f"no run to resume: {path} does not exist; name the folder of the run with -o") from None
    request = stored.request or {}
    if missing := [name for name in ("suite", "axes", "files", "providers") if request.get(name) is None]:
        raise UsageError(f"cannot resume {folder}: {path} does not say how it was started (request.{missing[0]})")
    return request


def _tuned_table(request: dict[str, Any], folder: Path, resume: bool) -> TunedTable | None:
    """Load the table of --tuned; a run that goes on uses the copy that it was started with, and no other.

    A scan makes a table of its own when it starts, see `cli.run.scan`.
    """
    own = folder / TUNED_COPY
    if request["scan"]:
        return tuned.load(own) if resume and own.is_file() else None
    if not request["tuned"]:
        return None
    given = Path(request["tuned"]).resolve()
    if not (resume and own.is_file()):
        return tuned.load(given)
    table = tuned.load(own)
    if _is_another(given, table):
        raise UsageError(
            f"cannot resume: {given} is not the tuned table that {folder} was started with, copied as {own}; "
            f"pass --tuned {own}, or start a new run"
        )
    return table


def _is_another(path: Path, table: TunedTable) -> bool:
    """Tell whether `path` holds other choices; a table that is gone cannot be confused with any."""
    try:
        return tuned.load(path).choices != table.choices
    except UsageError:
        return False


def _refuse_timer(suite: Suite, device: str | None) -> None:
    """Say at once what the worker would say after its start, where the device is known without asking for it."""
    timer = suite.protocol.timer
    if device == "cpu" and timer not in ("auto", "host"):
        raise UsageError(f"timer {timer}: it times GPUs, not --device cpu; leave --timer out, or use --timer host")
