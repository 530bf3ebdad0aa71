"""Measure a call with a fleet: `rooflens run --jobs local:N` and `rooflens fleet run`."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..shapes.errors import IncompleteError, Interrupted, RooflensError, UsageError, quote
from ..shapes.json_file import read_object
from .call import TUNED_COPY, Call
from .fleet_folder import refuse_another, refuse_foreign, refuse_other_ways, run_folders, write_sweep
from .fleet_history import known_seconds
from .fleet_progress import FleetProgress
from .refine import Refiner, stored_cells
from .runs import ADDRESS, OF_A_FLEET, SLOTS, go_on
from .selection import describe, manifest, stop_signals

if TYPE_CHECKING:
    from ..harness.fleet.lane import Lane
    from ..harness.fleet.ray_cluster import RayCluster

_OF_A_SHARD = ("suite", "description", "baseline", "challengers", "seed", "rounds", "protocol", "command")
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
    def for_next_time(self) -> dict[str, str | int]:
        """What run.json keeps of it, so that `runs.go_on` names the same place."""
        kept = {ADDRESS: self.address} if self.address else {SLOTS: self.slots}
        return {key: value for key, value in kept.items() if value is not None}

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
    from .fleet_finish import finish

    finish(call.folder, complete=complete and not left_out, report=report, strict=strict)
    if left_out:
        raise IncompleteError(f"{'; '.join(left_out)}: {go_on(call.folder)}")


def _measure(call: Call, where: Where) -> tuple[bool, list[str]]:
    """Return whether all is complete, and what is not because devices are missing."""
    from ..harness.fleet.fleet import Fleet

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
    from ..harness.fleet import demand, ray_environment
    from ..harness.fleet.offer import Asked

    if where.address:
        address = ray_environment.for_address(where.address)
        from ..harness.fleet import ray_cluster

        with ray_cluster.joined(address) as cluster:
            yield cluster, demand.lanes(where.on, cluster.offered())
        return
    ray_environment.for_local_cluster()
    asked = Asked(device, where.slots or 1)
    try:
        from ..harness.fleet import ray_cluster

        offer = demand.restricted(asked.answer(), where.slots)
    finally:
        asked.drop()
    with ray_cluster.local(offer) as cluster:
        yield cluster, demand.lanes(where.on, offer)


def _lane(call: Call, where: Where, arch: str, limit: int | None, folder: Path) -> "tuple[Lane, Refiner | None]":
    """Open the run folder of an architecture, and say what is to be measured there."""
    from ..harness.fleet.forecast import Forecast
    from ..harness.fleet.jobs import jobs_of
    from ..harness.fleet.landing import Landing
    from ..harness.fleet.lane import Lane
    from ..harness.fleet.station import Brief
    from ..harness.tables import replace, reported
    from ..shapes.architectures import is_gpu

    stored = call.resume and (folder / "run.json").is_file()
    content = read_object(folder / "run.json") if stored else manifest(folder, call.suite)
    if stored:  # what refined it is its own, even where another architecture was refined otherwise
        call = replace_fields(call, cells=tuple(dict.fromkeys((*call.cells, *stored_cells(folder, call.cells)))))
        refuse_other_ways(folder, content, call.suite.protocol, call.request["threads"])
    describe(content, call.suite, call.cells, call.request)
    content[OF_A_FLEET] = where.for_next_time
    jobs = jobs_of(call.cells, call.suite.protocol.rounds)
    landing = Landing(folder, content, jobs)
    table = call.table.path.read_text(encoding="utf-8") if call.table else None
    if table is not None and not (folder / TUNED_COPY).exists():
        with reported(folder):
            replace(folder / TUNED_COPY, table)
    refiner = Refiner(call.refinement, folder, call.cells, content) if call.refinement else None
    brief = Brief(
        call.setup(None, "cuda" if is_gpu(arch) else "cpu"),
        {key: value for key, value in content.items() if key in _OF_A_SHARD},
        table,
        call.cells if call.request["calibrate"] else (),
    )
    forecast = Forecast(known_seconds(call.folder.parent, call.suite.name, arch, jobs))
    return Lane(arch, landing, brief, limit, refiner.more if refiner else None, forecast), refiner
