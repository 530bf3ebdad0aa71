"""What a planned run will take, before anything is measured."""

import math
from collections import Counter
from dataclasses import dataclass

from ..shapes.device import Device
from ..shapes.errors import UsageError
from ..shapes.run_folder.columns import CELLS
from ..shapes.run_folder.manifest import MANIFEST, read_manifest
from .planned import PlannedRun


@dataclass(frozen=True, slots=True)
class Forecast:
    """How long a sweep takes on a device, and how precise it becomes. Times are in seconds.

    providers, unable  how many are planned, and how many of these do not run on the device
    range_s            all that is left, at least and at most
    parts_s            of the least, by what is done
    fit                rounds that fit into a time budget: the last may be a part; None without a budget
    half_width         of the interval of a ratio then, of the provider with the fewest cells, at a scatter of 1 %
    """

    device: str
    providers: int
    unable: int
    range_s: tuple[float, float]
    parts_s: dict[str, float]
    fit: float | None
    half_width: float


def forecast(plan: PlannedRun, share: float) -> Forecast:
    """Estimate a sweep of which `share` is left. Raises RooflensError where the device cannot be found."""
    from ..analysis.statistics.intervals import expected_half_width
    from ..harness.machine.device import find_device
    from ..harness.plan.cost import cost
    from ..harness.plan.plan import tasks

    request, rounds = plan.request, plan.suite.protocol.rounds
    device = find_device(request.device or "auto", plan.suite.protocol.llc_bytes)
    known = {cell.provider for cell in plan.cells}
    unable = {name for name in known if name not in plan.own and _unable(name, device)}
    calibrations = 0 if not request.calibrate else 1 if plan.budget else 2
    found = cost(tasks(plan.cells), plan.suite.protocol, device, lambda name: name not in unable, calibrations)
    least, most = (found.start_s + share * (seconds - found.start_s) for seconds in found.range_s)
    fit = None
    if plan.budget:
        left = (request.within or 0.0) - found.start_s - found.ceilings_s
        each = (found.prepare_s + found.least_s) / rounds
        reached = rounds * (1 - share) + max(0.0, left) / each if each else plan.budget.most_rounds
        fit = min(float(plan.budget.most_rounds), reached)
    cells = Counter(cell.provider for cell in plan.cells if cell.provider not in unable)
    ratios = [count for name, count in cells.items() if name != plan.suite.baseline]
    return Forecast(
        device=device.name,
        providers=len(known),
        unable=len(unable),
        range_s=(least, most),
        parts_s={
            "start": found.start_s,
            "ceilings": share * found.ceilings_s,
            "preparation": share * found.prepare_s,
            "flushes for cold samples": share * found.flush_s,
        },
        fit=fit,
        half_width=expected_half_width(int(fit), min(ratios, default=0), scatter=0.01)
        if fit and fit >= 2
        else math.nan,
    )


def _unable(name: str, device: Device) -> bool:
    """Tell whether a shipped provider does not run on this device; others are only known at run time."""
    from ..kernels.registry import BUILTIN

    return not device.is_gpu and name in BUILTIN and bool(BUILTIN[name].on_cpu(device))


def stored_units(plan: PlannedRun) -> int:
    """Units of the plan that a resumed run would not measure: stored ones, and those that a failure rules out.

    Raises UsageError when that run is of another suite or seed, or cannot be read.
    """
    from ..analysis.frames.tables import parse_table
    from ..harness.storage.store import missing_rounds, refuse_merged

    folder, rounds = plan.folder, plan.suite.protocol.rounds
    path = folder / CELLS.file
    try:
        manifest = read_manifest(folder / MANIFEST, ("device", "providers", "timer"))
        plan.refuse_another(manifest)
        rows = parse_table(path.read_bytes(), CELLS, str(path))
    except FileNotFoundError as error:
        raise UsageError(f"no run to resume: {error.filename} does not exist; omit --resume to start one") from None
    refuse_merged(folder, manifest)
    verdicts = {(name, number): word for name, number, word in rows[["cell_id", "round", "verdict"]].to_numpy()}
    return len(plan.cells) * rounds - sum(map(len, missing_rounds(verdicts, plan.cells, rounds)))
