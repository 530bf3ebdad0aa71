"""Measure a call with a fleet: `rooflens run --jobs local:N` and `rooflens fleet run`."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...shapes.errors import RooflensError, UsageError
from ...shapes.files import csv_file
from ...shapes.run_folder.manifest import MANIFEST, TUNED_COPY, Manifest, StoredFleet, glance, read_manifest
from ..shared.runs import go_on, is_sweep, read_sweep
from ..shared.terminal import style
from . import end_of_run as of_a_run

if TYPE_CHECKING:
    from ...harness.fleet.jobs import Job
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from dataclasses import replace as replace_fields
from typing import TYPE_CHECKING

from ...shapes.errors import IncompleteError, Interrupted, quote
from .fleet_folder import refuse_another, refuse_foreign, refuse_other_ways, run_folders, write_sweep
from .fleet_progress import FleetProgress
from .refine import Refiner, stored_cells
from .run_request import Call
from .selection import describe, manifest, stop_signals

if TYPE_CHECKING:
    from ...harness.fleet.arch_queue import Lane
    from ...harness.fleet.ray_cluster import RayCluster


def finish(folder: Path, *, complete: bool, report: bool, strict: bool) -> None:
    """Print what came of it; write the reports when asked to. Raises what --strict makes of it."""
    blemishes: list[RooflensError] = []
    if is_sweep(folder):
        for arch in read_sweep(folder).architectures:
            click.echo(f"\n{style(arch, bold=True)}")
            blemishes += filter(None, [of_a_run.finish(folder / arch, complete=complete, report=False)])
        if report:
            _write_reports(folder)
    else:
        blemishes += filter(None, [of_a_run.finish(folder, complete=complete, report=report)])
    if blemishes and strict:
        raise max(blemishes, key=lambda blemish: blemish.exit_code)
    for blemish in blemishes:
        if go_on(folder) not in str(blemish):
            click.echo(f"note: {blemish}; the exit code is 0, and {blemish.exit_code} with --strict", err=True)


def _write_reports(folder: Path) -> None:
    from ..report.architectures import write_reports

    try:
        for path in write_reports(folder)[:2]:
            click.echo(f"{'report' if path.suffix == '.html' else 'markdown':<14}{path}")
    except UsageError as error:
        click.echo(f"note: no report: {error}", err=True)


def known_seconds(parent: Path, suite: str, arch: str, jobs: "Sequence[Job]") -> dict[str, float]:
    """Return seconds by the key of the job, from the newest run under `parent` of the suite on this architecture.

    A cell took its rounds and its preparation. Problems that the run lacks, or has in part, are not in the result, and
    what cannot be read is left out: it is only a forecast.
    """
    from ...harness.plan.plan import MODEL_FIELDS

    newest, folder = -math.inf, parent
    for path in parent.glob(f"*/{MANIFEST}"):
        stored = glance(path.parent)
        if stored.suite == suite and stored.device and stored.device.arch == arch and stored.made_at > newest:
            newest, folder = stored.made_at, path.parent
    if newest == -math.inf:
        return {}
    took: dict[tuple[str, ...], float] = {}
    try:
        with (folder / "cells.csv").open("rb") as file:
            for _, row in csv_file.rows(file, folder / "cells.csv"):
                place = tuple(row[name] for name in MODEL_FIELDS)
                prepared = float(row["prepare_s"] or 0) if row["round"] == "0" else 0.0
                took[place] = took.get(place, 0.0) + float(row["elapsed_s"] or 0) + prepared
    except (OSError, UsageError, ValueError, KeyError):
        return {}
    return {job.key: sum(took[place] for place in job.cells) for job in jobs if _has(took, job)}


def _has(took: Mapping[tuple[str, ...], float], job: "Job") -> bool:
    return all(place in took for place in job.cells)


_OF_A_SHARD = ("version", "suite", "description", "baseline", "challengers", "seed", "rounds", "protocol", "command")
"""Keys of run.json that every shard repeats, so that each is a run of its own."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where a fleet measures.

    Either the cluster of Ray at `address`, or (with "") one of this machine alone with `slots` places: as many GPUs,
    or parts of the CPU; None is every GPU. `on` are the architectures that are asked for, with the most devices of each
    (None: all there are). `patience_s` is waited for a device when there is none.
    """

    address: str = ""
    slots: int | None = None
    on: Mapping[str, int | None] = field(default_factory=dict)
    patience_s: float = 60.0

    @property
    def for_next_time(self) -> StoredFleet:
        """What run.json keeps of it, so that `runs.go_on` names the same place."""
        return StoredFleet(address=self.address) if self.address else StoredFleet(slots=self.slots)

    @classmethod
    def of_jobs(cls, text: str) -> "Where":
        """Read --jobs. Raises UsageError for what is not local:N."""
        match = re.fullmatch(r"local(?::([1-9]\d*))?", text)
        if not match:
            raise UsageError(f"--jobs {quote(text)}: write local:N for N devices of this machine, such as local:4")
        return cls(slots=int(match[1]) if match[1] else None)


def run_call(call: Call, where: Where, *, report: bool, strict: bool, dry_run: bool) -> None:
    """Measure with a fleet and say what came of it; or with `dry_run` show what would be measured.

    Raises IncompleteError when devices were lost over problems, or are not there for them, and what --strict raises.
    """
    if call.scan:
        raise UsageError("--scan compares neighbouring sizes, which only one device can: leave --jobs out")
    refuse_foreign(call.folder, call.resume)
    if dry_run:
        from .dry_run import show_plan

        show_plan(replace(call, resume=False))
        jobs = len({(cell.shape, cell.problem, cell.scheme) for cell in call.cells})
        click.echo(f"{jobs} problems to hand out: the time above is that of one device of each architecture")
        return
    complete, left_out = _measure(call, where)

    finish(call.folder, complete=complete and not left_out, report=report, strict=strict)
    if left_out:
        raise IncompleteError(f"{'; '.join(left_out)}: {go_on(call.folder)}")


def _measure(call: Call, where: Where) -> tuple[bool, list[str]]:
    """Return whether all is complete, and what is not because devices are missing."""
    from ...harness.fleet.fleet import Fleet

    with ExitStack() as held:
        cluster, limits = held.enter_context(opened(where, call.request["device"] or "auto"))
        if call.resume:
            refuse_another(call.folder, list(limits))
        write_sweep(call.folder, call.suite.name, list(limits))
        stopped = held.enter_context(stop_signals())
        lanes, refiners = [], []
        for arch, folder in run_folders(call.folder, list(limits)).items():
            lane, refiner = _lane(call, where, arch, limits[arch], folder)
            held.callback(lane.landing.close)
            lanes.append(lane)
            refiners += [refiner] if refiner else []
        with FleetProgress(sys.stderr) as progress:
            fleet = Fleet(lanes, cluster, progress, stopped, call.deadline, where.patience_s)
            try:
                complete = fleet.run()
            except Interrupted:
                done = sum(len(lane.landing.done) for lane in lanes)
                raise Interrupted(
                    f"interrupted; {done} finished problems are in {call.folder}: {go_on(call.folder)}"
                ) from None
            except RooflensError as error:
                raise type(error)(f"{error}; {go_on(call.folder)}") from error
        return complete and all(refiner.complete for refiner in refiners), fleet.left_out()


@contextmanager
def opened(where: Where, device: str) -> "Iterator[tuple[RayCluster, dict[str, int | None]]]":
    """Start or join the cluster; yield it with the architectures to measure and the most devices of each.

    `device` is what --device asks of this machine.
    """
    from ...harness.fleet import ray_environment, resource_request
    from ...harness.fleet.inventory import Asked

    if where.address:
        address = ray_environment.for_address(where.address)
        from ...harness.fleet import ray_cluster

        with ray_cluster.joined(address) as cluster:
            yield cluster, resource_request.lanes(where.on, cluster.offered())
        return
    ray_environment.for_local_cluster()
    asked = Asked(device, where.slots or 1)
    try:
        from ...harness.fleet import ray_cluster

        offer = resource_request.restricted(asked.answer(), where.slots)
    finally:
        asked.drop()
    with ray_cluster.local(offer) as cluster:
        yield cluster, resource_request.lanes(where.on, offer)


def _lane(call: Call, where: Where, arch: str, limit: int | None, folder: Path) -> "tuple[Lane, Refiner | None]":
    """Open the run folder of an architecture, and say what is to be measured there."""
    from ...harness.fleet.arch_queue import Lane
    from ...harness.fleet.device_worker import Brief
    from ...harness.fleet.forecast import Forecast
    from ...harness.fleet.jobs import jobs_of
    from ...harness.fleet.result_store import Landing
    from ...harness.storage.tables import replace, reported
    from ...shapes.architectures import is_gpu

    stored = call.resume and (folder / MANIFEST).is_file()
    content = read_manifest(folder / MANIFEST) if stored else manifest(folder, call.suite)
    if stored:  # what refined it is its own, even where another architecture was refined otherwise
        call = replace_fields(call, cells=tuple(dict.fromkeys((*call.cells, *stored_cells(folder, call.cells)))))
        refuse_other_ways(folder, content, call.suite.protocol, call.request["threads"])
    describe(content, call.suite, call.cells, call.request)
    content.fleet = where.for_next_time
    jobs = jobs_of(call.cells, call.suite.protocol.rounds)
    landing = Landing(folder, content, jobs)
    table = call.table.path.read_text(encoding="utf-8") if call.table else None
    if table is not None and not (folder / TUNED_COPY).exists():
        with reported(folder):
            replace(folder / TUNED_COPY, table)
    refiner = Refiner(call.refinement, folder, call.cells, content) if call.refinement else None
    brief = Brief(
        call.setup(None, "cuda" if is_gpu(arch) else "cpu"),
        Manifest(**{key: getattr(content, key) for key in _OF_A_SHARD}),
        table,
        call.cells if call.request["calibrate"] else (),
    )
    forecast = Forecast(known_seconds(call.folder.parent, call.suite.name, arch, jobs))
    return Lane(arch, landing, brief, limit, refiner.more if refiner else None, forecast), refiner
