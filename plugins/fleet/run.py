"""Measure with a fleet: `rooflens run --jobs local:N` and `rooflens fleet run`."""

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...cli.run.end_of_run import conclude
from ...cli.run.refine import Refiner, stored_cells
from ...cli.run.run_request import RunRequest, read_request
from ...cli.run.selection import describe, manifest, stop_signals
from ...cli.shared.runs import how_to_resume
from ...shapes.errors import IncompleteError, Interrupted, RooflensError, UsageError, quote
from ...shapes.files import csv_file
from ...shapes.run_folder.manifest import MANIFEST, TUNED_COPY, Manifest, StoredFleet, glance, read_manifest
from .folder import refuse_another, refuse_foreign, refuse_other_ways, run_folders, stored_run, write_sweep
from .progress import FleetProgress

if TYPE_CHECKING:
    from .engine.arch_queue import ArchQueue
    from .engine.compare_store import CompareStore
    from .engine.jobs import SweepJob
    from .engine.ray_cluster import RayCluster
    from .engine.result_store import ResultStore

_OF_A_SHARD = ("version", "suite", "description", "baseline", "challengers", "seed", "rounds", "protocol", "command")
"""Keys of run.json that every shard repeats, so that each is a run of its own."""


@dataclass(frozen=True, slots=True)
class FleetTarget:
    """Where a fleet measures.

    Either the cluster of Ray at `address`, or (with "") one of this machine alone with `slots` slots: as many GPUs, or
    parts of the CPU; None is every GPU. `on` has the requested architectures and the most devices of each (None: all).
    `patience_s` is the time to wait for a device when there is none.
    """

    address: str = ""
    slots: int | None = None
    on: Mapping[str, int | None] = field(default_factory=dict)
    patience_s: float = 60.0

    @classmethod
    def of_jobs(cls, text: str) -> "FleetTarget":
        """Read --jobs. Raises UsageError unless it is local:N."""
        match = re.fullmatch(r"local(?::([1-9]\d*))?", text)
        if not match:
            raise UsageError(f"--jobs {quote(text)}: write local:N for N devices of this machine, such as local:4")
        return cls(slots=int(match[1]) if match[1] else None)

    @property
    def stored(self) -> StoredFleet:
        """What run.json keeps of it, so that `runs.how_to_resume` names the same target."""
        return StoredFleet(address=self.address) if self.address else StoredFleet(slots=self.slots)

    @contextmanager
    def opened(self, device: str) -> "Iterator[tuple[RayCluster, dict[str, int | None]]]":
        """Start or join the cluster; yield it with the architectures to measure and the most devices of each.

        `device` is the value of --device for this machine.
        """
        from .engine import ray_environment, resource_request
        from .engine.inventory import InventoryProcess

        if self.address:
            address = ray_environment.for_address(self.address)
            from .engine import ray_cluster

            with ray_cluster.joined(address) as cluster:
                yield cluster, resource_request.limits(self.on, cluster.offered())
            return
        ray_environment.for_local_cluster()
        inventory = InventoryProcess(device, self.slots or 1)
        try:
            from .engine import ray_cluster

            offer = resource_request.restricted(inventory.answer(), self.slots)
        finally:
            inventory.kill()
        with ray_cluster.local(offer) as cluster:
            yield cluster, resource_request.limits(self.on, offer)


def run_on_jobs(options: Mapping[str, Any]) -> None:
    """Measure as `rooflens run --jobs` asks; `options` are those of the command."""
    target = FleetTarget.of_jobs(options["jobs"])
    request = read_request(options, stored_run(options["output"]))
    run_on_fleet(request, target, **{name: options[name] for name in ("report", "strict", "dry_run")})


def run_on_fleet(request: RunRequest, target: FleetTarget, *, report: bool, strict: bool, dry_run: bool) -> None:
    """Measure with a fleet and report the results; or with `dry_run` show what would be measured.

    Raises IncompleteError when devices are missing or were lost over problems, and what --strict raises.
    """
    if request.scan:
        raise UsageError("--scan compares neighbouring sizes, which only one device can: omit --jobs")
    refuse_foreign(request.folder, request.resume)
    if dry_run:
        from ...cli.run.dry_run import show_plan

        show_plan(replace(request, resume=False))
        jobs = len({(cell.shape, cell.problem, cell.scheme) for cell in request.cells})
        click.echo(f"{jobs} problems to distribute: the time above is that of one device of each architecture")
        return
    complete, unmeasured = _measure(request, target)
    conclude(request.folder, complete=complete and not unmeasured, report=report, strict=strict)
    if unmeasured:
        raise IncompleteError(f"{'; '.join(unmeasured)}: {how_to_resume(request.folder)}")


def _measure(request: RunRequest, target: FleetTarget) -> tuple[bool, list[str]]:
    """Return whether all is complete, and what is not because devices are missing."""
    from .engine.fleet import Fleet

    folder = request.folder
    with ExitStack() as held:
        cluster, limits = held.enter_context(target.opened(request.options["device"] or "auto"))
        if request.resume:
            refuse_another(folder, list(limits))
        write_sweep(folder, request.suite.name, list(limits))
        stopped = held.enter_context(stop_signals())
        queues, refiners = [], []
        for arch, run_folder in run_folders(folder, list(limits)).items():
            queue, refiner = _queue(request, target, arch, limits[arch], run_folder)
            held.callback(queue.store.close)
            queues.append(queue)
            refiners += [refiner] if refiner else []
        with FleetProgress(sys.stderr) as progress:
            fleet = Fleet(queues, cluster, progress, stopped, request.deadline, target.patience_s)
            try:
                complete = fleet.run()
            except Interrupted:
                done = sum(len(queue.store.done) for queue in queues)
                raise Interrupted(
                    f"interrupted; {done} finished problems are in {folder}: {how_to_resume(folder)}"
                ) from None
            except RooflensError as error:
                raise type(error)(f"{error}; {how_to_resume(folder)}") from error
        return complete and all(refiner.complete for refiner in refiners), fleet.unmeasured()


def _queue(
    request: RunRequest, target: FleetTarget, arch: str, limit: int | None, folder: Path
) -> "tuple[ArchQueue, Refiner | None]":
    """Open the run folder of an architecture, and plan what is to be measured there."""
    from ...harness.storage.tables import replace as write_file
    from ...harness.storage.tables import reported
    from ...shapes.architectures import is_gpu
    from .engine.arch_queue import ArchQueue
    from .engine.device_worker import SweepWorkerSpec
    from .engine.forecast import Forecast
    from .engine.jobs import jobs_of
    from .engine.result_store import ResultStore

    rounds, is_stored = request.suite.protocol.rounds, request.resume and (folder / MANIFEST).is_file()
    content = read_manifest(folder / MANIFEST) if is_stored else manifest(folder, request.suite)
    if is_stored:  # each architecture has its own refinement
        request = replace(request, cells=tuple(dict.fromkeys((*request.cells, *stored_cells(folder, request.cells)))))
        refuse_other_ways(folder, content, request.suite.protocol, request.options["threads"])
    describe(content, request.suite, request.cells, request.options)
    content.fleet = target.stored
    jobs = jobs_of(request.cells, rounds)
    store = ResultStore(folder, content, jobs)
    reopen_failed(store, request.retry)
    table = request.table.path.read_text(encoding="utf-8") if request.table else None
    if table is not None and not (folder / TUNED_COPY).exists():
        with reported(folder):
            write_file(folder / TUNED_COPY, table)
    refiner = Refiner(request.refinement, folder, request.cells, content) if request.refinement else None
    spec = SweepWorkerSpec(
        setup=request.setup(device="cuda" if is_gpu(arch) else "cpu"),
        manifest=Manifest(**{key: getattr(content, key) for key in _OF_A_SHARD}),
        tuned=table,
        cells=request.cells if request.options["calibrate"] else (),
        retry=request.retry,
    )
    more = (lambda: jobs_of(refiner.more(), rounds)) if refiner else None
    forecast = Forecast(known_seconds(request.folder.parent, request.suite.name, arch, jobs))
    return ArchQueue(arch, store, spec, limit, more, forecast), refiner


def reopen_failed(store: "ResultStore | CompareStore", verdicts: Sequence[str]) -> None:
    """Reopen the jobs with units of these verdicts, and report the number of units."""
    failed = store.failed(verdicts)
    store.retry(failed)
    if count := sum(map(len, failed.values())):
        click.echo(f"measure again what failed: {count} unit{'s' * (count > 1)}; events.log has the reasons", err=True)


def known_seconds(parent: Path, suite: str, arch: str, jobs: "Sequence[SweepJob]") -> dict[str, float]:
    """Return seconds by the key of the job, from the newest run under `parent` of the suite on this architecture.

    The time of a cell includes its preparation. Problems that the run lacks or has only in part are not in the result,
    nor is anything unreadable: it is only a forecast.
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
    return {job.key: sum(took[place] for place in job.cells) for job in jobs if job.cells.keys() <= took.keys()}
