"""Measure with a fleet: `rooflens run --jobs` and `--address`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...api.planned import PlannedRun, describe, manifest, refuse_another, table_hash
from ...api.refine import Refiner
from ...api.run_folders import how_to_resume
from ...harness.sweep.events import Remarked
from ...shapes.architectures import parse_devices
from ...shapes.errors import Interrupted, RooflensError, UsageError
from ...shapes.request import Request
from ...shapes.run_folder.manifest import MANIFEST, TUNED_COPY, Manifest, StoredFleet, glance, read_manifest

if TYPE_CHECKING:
    from ...harness.sweep.events import Observer
    from .engine.compare_store import CompareStore
    from .engine.fleet import Cluster
    from .engine.job_queue import JobQueue
    from .engine.result_store import ResultStore

_OF_A_SHARD = ("version", "suite", "description", "baseline", "challengers", "seed", "rounds", "protocol", "command")
"""Keys of run.json that every shard repeats, so that each is a run of its own."""


PATIENCE_S = 60.0
"""Time to wait for a device, unless requested otherwise."""


@dataclass(frozen=True, slots=True)
class FleetTarget:
    """Where a fleet measures.

    Either the cluster of Ray at `address`, or (with "") `slots` slots of this machine: as many GPUs, or parts of the
    CPU; None is every GPU. `arch` is the requested architecture ("" for any), `most` the most devices of
    it (None: all). `patience_s` is the time to wait for a device when there is none.
    """

    address: str = ""
    slots: int | None = None
    arch: str = ""
    most: int | None = None
    patience_s: float = PATIENCE_S

    @classmethod
    def of(cls, request: Request) -> "FleetTarget":
        """Read --jobs, --address, --on and --wait."""
        slots = (request.jobs or "").partition(":")[2]
        patience_s = PATIENCE_S if request.wait is None else request.wait
        return cls(request.address or "", int(slots or 0) or None, *parse_devices(request.on or "", "--on"), patience_s)

    @property
    def stored(self) -> StoredFleet:
        """What run.json keeps of it, so that `runs.how_to_resume` names the same target."""
        return StoredFleet(address=self.address) if self.address else StoredFleet(slots=self.slots)

    @contextmanager
    def opened(self, device: str, folder: Path) -> "Iterator[tuple[Cluster, str]]":
        """Find the devices here, or join the cluster; yield it with the architecture to measure.

        That is the one of the run in `folder` if any. `device` is the value of --device for this machine.
        """
        from .engine.resource_request import chosen, restricted

        known = glance(folder).device
        stored = known.arch if known else ""
        with ExitStack() as held:
            cluster: Cluster
            if self.address:
                from .engine import ray_environment

                address = ray_environment.for_address(self.address)
                from .engine import ray_cluster

                cluster = held.enter_context(ray_cluster.joined(address))
            else:
                from .engine.inventory import offer_in_child
                from .engine.local_cluster import LocalCluster

                found = restricted(offer_in_child(device, self.slots or 1), self.slots)
                cluster = held.enter_context(LocalCluster(found))
            yield cluster, chosen(self.arch, self.most, cluster.offered(), stored)


Measure = Callable[["Observer", Callable[[], bool]], tuple[bool, str]]


@contextmanager
def devices(plan: PlannedRun, command: Sequence[str] = ()) -> Iterator[Measure]:
    """Open the devices that a run is to be measured on; `command` is as of `PlannedRun.opened`.

    What it yields measures it, and returns whether all is complete, and what is not because devices are missing.
    """
    target = FleetTarget.of(plan.request)
    _refuse_another(plan)
    with target.opened(plan.request.device or "auto", plan.folder) as (cluster, arch):
        yield partial(_measure, plan, target, cluster, arch, command)


def _refuse_another(plan: PlannedRun) -> None:
    """Raise UsageError when the run cannot begin in its folder, or cannot be resumed as requested."""
    folder, path = plan.folder, plan.folder / MANIFEST
    if path.exists() and not plan.request.resume:
        raise UsageError(f"{folder} holds a run already: add --resume to resume it, or choose another -o")
    if not plan.request.resume:
        return
    if not path.exists():
        raise UsageError(f"{folder}: no run to resume; omit --resume to start one")
    stored, protocol = read_manifest(path), plan.suite.protocol
    refuse_another(stored, plan.suite, folder)
    if not stored.fleet:
        raise UsageError(f"{folder} was measured by one device: resume with rooflens run -o {folder} --resume")
    for what in ("timer", "cold_by", "tuning", "threads"):
        was, found = getattr(stored, what), getattr(protocol, what)
        if was and found not in (None, "auto", was):
            raise UsageError(
                f"cannot resume {folder}: {what} was {was} and is {found} now; timings of the two do not mix: "
                "choose another -o"
            )


def _measure(
    plan: PlannedRun,
    target: FleetTarget,
    cluster: "Cluster",
    arch: str,
    command: Sequence[str],
    observer: "Observer",
    should_stop: Callable[[], bool],
) -> tuple[bool, str]:
    from .engine.fleet import Fleet

    folder = plan.folder
    earlier, resuming = glance(folder).fleet, how_to_resume(folder)
    queue, refiner, content = _queue(plan, target, arch, command, observer)
    with closing(queue.store):
        fleet = Fleet(queue, cluster, observer, should_stop, plan.deadline, target.patience_s)
        try:
            complete = fleet.run()
        except Interrupted:
            raise Interrupted(
                f"interrupted; {len(queue.store.done)} finished problems are in {folder}: {how_to_resume(folder)}"
            ) from None
        except RooflensError as error:
            if earlier:  # what was refused, or is gone, is no way to resume
                content.fleet = earlier
            raise error.saying(f"{error}; {resuming if earlier else how_to_resume(folder)}") from error
        return complete and (refiner is None or refiner.complete), fleet.unmeasured()


def _queue(
    plan: PlannedRun, target: FleetTarget, arch: str, command: Sequence[str], observer: "Observer"
) -> "tuple[JobQueue, Refiner | None, Manifest]":
    """Open the run folder, and plan what is to be measured there; the last is its run.json."""
    from ...harness.storage.tables import replace as write_file
    from ...harness.storage.tables import reported
    from ...shapes.architectures import is_gpu
    from .engine.device_worker import SweepWorkerSpec
    from .engine.job_queue import JobQueue
    from .engine.jobs import jobs_of
    from .engine.result_store import ResultStore

    folder, request, rounds = plan.folder, plan.request, plan.suite.protocol.rounds
    content = read_manifest(folder / MANIFEST) if request.resume else manifest(folder, plan.suite, request, command)
    describe(content, plan.suite, plan.cells, request)
    content.fleet = target.stored
    jobs = jobs_of(plan.cells, rounds)
    store = ResultStore(folder, content, jobs)
    reopen_failed(store, plan.request.retry, observer)
    if plan.table and not (folder / TUNED_COPY).exists():
        with reported(folder):
            write_file(folder / TUNED_COPY, plan.table.path.read_bytes())
        content.tuned = table_hash(folder)
    refiner = Refiner(plan.refinement, folder, plan.cells, content) if plan.refinement else None
    spec = SweepWorkerSpec(
        setup=plan.setup(device="cuda" if is_gpu(arch) else "cpu"),
        manifest=Manifest(**{key: getattr(content, key) for key in _OF_A_SHARD}),
        cells=plan.cells if plan.request.calibrate else (),
        retry=plan.request.retry,
    )
    more = (lambda: jobs_of(refiner.more(), rounds)) if refiner else None
    return JobQueue(arch, store, spec, target.most, more), refiner, content


def reopen_failed(store: "ResultStore | CompareStore", verdicts: Sequence[str], observer: "Observer") -> None:
    """Reopen the jobs with units of these verdicts, and report the number of units."""
    if count := store.retry(verdicts):
        units = f"{count} unit{'s' * (count > 1)}"
        observer(Remarked(f"measure again what failed: {units}; events.log has the reasons"))
