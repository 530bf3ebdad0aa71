"""`rooflens run --dry-run`: the cells of a run, their bytes, and how long it will take."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ...api.forecast import forecast, stored_units
from ...api.planned import PlannedRun
from ...api.refine import Refinement
from ...shapes.errors import RooflensError
from ..shared.tables import print_table

if TYPE_CHECKING:
    from ...harness.plan.plan import Cell


def show_plan(plan: PlannedRun) -> None:
    """Print the cells as a table, the tuned table, what a resumed run holds of them, and how long the sweep takes.

    What a refinement adds is not known before the sweep: its limits are printed.

    Raises UsageError when the run that is resumed is of another suite or seed, or cannot be read.
    """
    cells, table, refinement, protocol = plan.cells, plan.table, plan.refinement, plan.suite.protocol
    units = len(cells) * protocol.rounds
    stored = stored_units(plan) if plan.request.resume else 0  # before anything is printed
    _show_cells(cells)
    if table:
        kinds = sorted({f"{key.arch} with {key.compute_units} compute units" for key in table.choices})
        click.echo(f"{table.path}: {len(table.choices)} configurations, for {', '.join(kinds)}")
    if plan.request.resume:
        click.echo(f"{stored} of {units} units are stored in {plan.folder} already")
    if refinement:
        _show_refinement(refinement, cells, protocol.rounds)
    click.echo(
        f"{len(cells)} cells x {protocol.rounds} rounds = {units} units of {protocol.budget_s:g} s at most "
        "(more for the slowest launches)"
    )
    for line in _forecast(plan, (units - stored) / units):
        click.echo(line)
    if plan.request.on_devices:
        jobs = len({(cell.shape, cell.problem, cell.scheme) for cell in cells})
        click.echo(f"{jobs} problems to distribute: the time above is that of one device")


def _forecast(plan: PlannedRun, share: float) -> Iterator[str]:
    """Say how long the sweep takes, of which `share` is left, and how precise it becomes."""
    try:
        found = forecast(plan, share)
    except RooflensError as error:
        yield f"no estimate of the time: {error}"
        return
    if found.unable:
        yield f"of {found.providers} providers, {found.unable} do not run on {found.device}"
    least, most = found.range_s
    text = _clock(least) if most < 1.2 * least else f"{_clock(least)} to {_clock(most)}"
    parts = [f"{name} {_clock(part)}" for name, part in found.parts_s.items() if part >= 0.5]
    yield f"about {text}: {', '.join(parts)}"
    if found.fit is None:
        return
    fit, within = int(found.fit), _clock(plan.request.within or 0.0)
    if fit < plan.suite.protocol.rounds:
        last = f"round {fit + 1} of about {found.fit - fit:.0%} of the cells, one size of each shape first"
        yield f"{within} are enough for {'one round of every cell and ' * fit}{last}"
    elif fit > 1:
        known = f"where rounds scatter by 1 %, a ratio is known to +-{found.half_width:.1%}"
        yield f"within {within}, about {fit} rounds fit: {known}"
    else:
        yield f"within {within}, about {fit} round fit: a single one has no interval"


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


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"
