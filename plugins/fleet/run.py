"""Measure with a fleet: `rooflens run --jobs` and `--address`."""

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
from ...cli.shared import values
from ...cli.shared.runs import how_to_resume
from ...shapes.architectures import parse_devices
from ...shapes.errors import IncompleteError, Interrupted, RooflensError, UsageError, quote
from ...shapes.run_folder.manifest import MANIFEST, TUNED_COPY, Manifest, StoredFleet, read_manifest
from .folder import (
    refuse_another,
    refuse_foreign,
    refuse_other_ways,
    run_folders,
    stored_architectures,
    stored_run,
    write_sweep,
)
from .progress import FleetProgress

if TYPE_CHECKING:
    from .engine.arch_queue import ArchQueue
    from .engine.compare_store import CompareStore
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
    def of(cls, options: Mapping[str, Any]) -> "FleetTarget":
        """Read --jobs, --address, --on and --wait."""
        jobs, address = options["jobs"], options["address"]
        if jobs and address:
            raise UsageError("--jobs measures on this machine, --address on a cluster of Ray: omit one of them")
        match = re.fullmatch(r"local(?::([1-9]\d*))?", jobs or "local")
        if not match:
            raise UsageError(f"--jobs {quote(jobs)}: write local for all devices of this machine, local:4 for four")
        slots = int(match[1]) if match[1] else None
        return cls(
            address or "", slots, parse_devices(options["on"], "--on"), values.seconds(options["wait"], "--wait")
        )

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
        from .engine.inventory import offer_in_child

        if self.address:
            address = ray_environment.for_address(self.address)
            from .engine import ray_cluster

            with ray_cluster.joined(address) as cluster:
                yield cluster, resource_request.limits(self.on, cluster.offered())
            return
        ray_environment.for_local_cluster()
        offer = resource_request.restricted(offer_in_child(device, self.slots or 1), self.slots)
        from .engine import ray_cluster

        with ray_cluster.local(offer) as cluster:
            yield cluster, resource_request.limits(self.on, offer)


def run_on_devices(options: Mapping[str, Any]) -> None:
    """Measure as `rooflens run` with these options asks; or with --dry-run show what would be measured.

    Raises IncompleteError when devices are missing or were lost over problems, and what --strict raises.
    """
    target = FleetTarget.of(options)
    request = read_request(options, stored_run(options["output"]))
    if request.scan:
        raise UsageError("--scan compares neighbouring sizes, which only one device can: omit --jobs and --address")
    if target.address and options["device"] != "auto":
        raise UsageError("--device is of this machine: with --address, choose an architecture with --on")
    stored = dict.fromkeys(stored_architectures(request.folder)) if request.resume else {}
    target = replace(target, on=target.on or stored or request.suite.devices)
    refuse_foreign(request.folder, request.resume)
    if options["dry_run"]:
        from ...cli.run.dry_run import show_plan

        show_plan(replace(request, resume=False))
        jobs = len({(cell.shape, cell.problem, cell.scheme) for cell in request.cells})
        click.echo(f"{jobs} problems to distribute: the time above is that of one device of each architecture")
        return
    complete, unmeasured = _measure(request, target)
    done = complete and not unmeasured
    conclude(request.folder, complete=done, report=options["report"], strict=options["strict"])
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
    return ArchQueue(arch, store, spec, limit, more), refiner


def reopen_failed(store: "ResultStore | CompareStore", verdicts: Sequence[str]) -> None:
    """Reopen the jobs with units of these verdicts, and report the number of units."""
    if count := store.retry(verdicts):
        click.echo(f"measure again what failed: {count} unit{'s' * (count > 1)}; events.log has the reasons", err=True)
