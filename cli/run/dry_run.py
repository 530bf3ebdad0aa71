"""`rooflens run --dry-run`: the cells of a run, their bytes, and how long it will take."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...api.planned import PlannedRun, refuse_another
from ...api.refine import Refinement
from ...harness.sweep.time_budget import TimeBudget
from ...shapes.device import Device
from ...shapes.errors import RooflensError, UsageError
from ...shapes.run_folder.columns import CELLS
from ...shapes.run_folder.manifest import MANIFEST, read_manifest
from ...shapes.suite import Suite
from ...shapes.tuned import TunedTable
from ...shapes.verdict import Verdict
from ..shared.tables import print_table

if TYPE_CHECKING:
    from ...harness.plan.cost import SweepCost
    from ...harness.plan.plan import Cell


def show_plan(plan: PlannedRun) -> None:
    """Print the cells as a table, the tuned table, what a resumed run holds of them, and how long the sweep takes.

    What a refinement adds is not known before the sweep: its limits are printed.

    Raises UsageError when the run that is resumed is of another suite or seed, or cannot be read.
    """
    suite, cells, table, refinement = plan.suite, plan.cells, plan.table, plan.refinement
    resumed = plan.folder if plan.request.resume else None
    protocol = suite.protocol
    units = len(cells) * protocol.rounds
    stored = _stored_units(resumed, suite, cells, table) if resumed else 0  # before anything is printed
    _show_cells(cells)
    if table:
        kinds = sorted({f"{key.arch} with {key.compute_units} compute units" for key in table.choices})
        click.echo(f"{table.path}: {len(table.choices)} configurations, for {', '.join(kinds)}")
    if resumed:
        click.echo(f"{stored} of {units} units are stored in {resumed} already")
    if refinement:
        _show_refinement(refinement, cells, protocol.rounds)
    click.echo(
        f"{len(cells)} cells x {protocol.rounds} rounds = {units} units of {protocol.budget_s:g} s at most "
        "(more for the slowest launches)"
    )
    for line in _forecast(plan, (units - stored) / units):
        click.echo(line)


def _forecast(plan: PlannedRun, share: float) -> Iterator[str]:
    """Estimate how long the sweep takes, of which `share` is left, and its precision."""
    from ...harness.machine.device import find_device
    from ...harness.plan.cost import cost
    from ...harness.plan.plan import tasks

    request = plan.request
    try:
        device = find_device(request.device or "auto", request.llc)
    except RooflensError as error:
        yield f"no estimate of the time: {error}"
        return
    unable = {cell.provider for cell in plan.cells if cell.provider not in plan.own and _unable(cell.provider, device)}
    calibrations = 0 if not request.calibrate else 1 if plan.budget else 2
    found = cost(tasks(plan.cells), plan.suite.protocol, device, lambda name: name not in unable, calibrations)
    if unable:
        known = {cell.provider for cell in plan.cells}
        yield f"of {len(known)} providers, {len(unable)} do not run on {device.name}"
    least, most = (found.start_s + share * (seconds - found.start_s) for seconds in found.range_s)
    text = _clock(least) if most < 1.2 * least else f"{_clock(least)} to {_clock(most)}"
    parts = {
        "start": found.start_s,
        "ceilings": share * found.ceilings_s,
        "preparation": share * found.prepare_s,
        "flushes for cold samples": share * found.flush_s,
    }
    yield f"about {text}: {', '.join(f'{name} {_clock(part)}' for name, part in parts.items() if part >= 0.5)}"
    if plan.budget:
        yield from _within(plan, plan.budget, found, share, unable)


def _within(
    plan: PlannedRun, budget: TimeBudget, found: "SweepCost", share: float, unable: Collection[str]
) -> Iterator[str]:
    """Say what a time budget suffices for, when `share` of the rounds is left, without providers `unable`."""
    rounds = plan.suite.protocol.rounds
    left = plan.request.within or 0.0
    fixed = found.start_s + found.ceilings_s
    each = (found.prepare_s + found.least_s) / rounds
    reached = rounds * (1 - share) + max(0.0, left - fixed) / each if each else budget.most_rounds
    fit = min(budget.most_rounds, int(reached))
    if fit < rounds:
        last = f"round {fit + 1} of about {reached - fit:.0%} of the cells, one size of each shape first"
        yield f"{_clock(left)} are enough for {'one round of every cell and ' * fit}{last}"
        return
    yield (
        f"within {_clock(left)}, about {fit} round{'s' * (fit > 1)} fit: "
        + (
            f"where rounds scatter by 1 %, a ratio is known to +-{_half_width(plan, fit, unable):.1%}"
            if fit > 1
            else "a single one has no interval"
        )
    )


def _half_width(plan: PlannedRun, rounds: int, unable: Collection[str]) -> float:
    """Half-width of the interval of a ratio, of the provider with the fewest cells to borrow variance from."""
    from ...analysis.statistics.intervals import expected_half_width

    cells = Counter(cell.provider for cell in plan.cells if cell.provider not in unable)
    ratios = [count for name, count in cells.items() if name != plan.suite.baseline]
    return expected_half_width(rounds, min(ratios, default=0), scatter=0.01)


def _unable(name: str, device: Device) -> bool:
    """Tell whether a shipped provider does not run on this device; others are only known at run time."""
    from ...kernels.registry import BUILTIN

    return not device.is_gpu and name in BUILTIN and bool(BUILTIN[name].on_cpu(device))


def _show_refinement(what: Refinement, cells: "tuple[Cell, ...]", rounds: int) -> None:
    """Print the limits of a refinement: which M it adds depends on the results of the sweep."""
    places = {
        (cell.shape, cell.problem.pass_, cell.scheme, cell.cache) for cell in cells if cell.provider == what.incumbent
    }
    units = len(places) * what.most * 2 * rounds
    each = f"each of {len(places)} shapes and settings" if len(places) > 1 else "the only shape"
    click.echo(
        f"refined afterwards, {what.words}: up to {what.most} further M for {each}, "
        f"depending on the results: up to {units} units beyond the count below"
    )


def _show_cells(cells: "tuple[Cell, ...]") -> None:
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        problem, scheme = cell.problem, cell.scheme
        key = (cell.shape.label, problem.N, problem.K, problem.pass_.value, scheme.name, scheme.dtype.value)
        groups.setdefault(key, []).append(cell)
    rows = []
    for place, members in groups.items():
        sizes = sorted({cell.problem.M for cell in members})
        rows.append(
            [
                *place,
                " ".join(map(str, sizes)),
                str(len({cell.provider for cell in members})),
                " ".join(dict.fromkeys(cell.cache.value for cell in members)),
                str(len(members)),
                f"{max(cell.scheme.compulsory_bytes(cell.problem) for cell in members) / 1e6:.1f}",
            ]
        )
    names = ("shape", "N", "K", "pass", "scheme", "dtype", "M", "providers", "cache", "cells", "compulsory MB")
    print_table(
        names, rows, once=("pass", "scheme", "dtype", "M", "providers", "cache"), heading=("shape", "N", "K", "scheme")
    )


def _stored_units(folder: Path, suite: Suite, cells: "tuple[Cell, ...]", table: TunedTable | None) -> int:
    """Units of the plan that a resumed run would not measure: stored ones, and those that a failure rules out."""
    from ...analysis.frames.tables import parse_table
    from ...harness.plan.plan import cell_id
    from ...harness.storage.store import refuse_merged

    path = folder / CELLS.file
    try:
        manifest = read_manifest(folder / MANIFEST, ("device", "providers", "timer"))
        rows = parse_table(path.read_bytes(), CELLS, str(path))
    except FileNotFoundError as error:
        raise UsageError(f"no run to resume: {error.filename} does not exist; omit --resume to start one") from None
    sources = {name: info.source for name, info in manifest.providers.items()}
    device = manifest.of_device.looked_up()
    protocol = replace(suite.protocol, timer=manifest.timer, cold_by=manifest.cold_by or suite.protocol.cold_by)
    refuse_merged(folder, manifest)
    refuse_another(manifest, suite)
    rounds: dict[str, set[int]] = {}
    failed = set(rows.loc[rows["verdict"] != Verdict.PASSED, "cell_id"])
    for name, number in zip(rows["cell_id"], rows["round"], strict=True):
        rounds.setdefault(str(name), set()).add(int(number))
    planned = range(suite.protocol.rounds)
    stored = 0
    for cell in cells:
        pinned = table.lookup(device, cell.problem, cell.scheme, cell.provider, cell.cache) if table else None
        name = cell_id(cell, sources.get(cell.provider, ""), device, protocol, pinned)
        stored += len(planned) if name in failed else len(rounds.get(name, set()).intersection(planned))
    return stored


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"
