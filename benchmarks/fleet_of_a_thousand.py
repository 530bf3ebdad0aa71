"""What a sweep over 1,000 devices costs the machine that drives it: planned, dealt, landed and merged.

    python benchmarks/fleet_of_a_thousand.py [--cells 100000] [--devices 1000] [--folder ON_THE_DISK_TO_LAND_ON]

The devices are simulated (`simulated_fleet`): they take no time, some die, hang, fill their disk or go with their node,
and their work, the making of parcels, is timed apart and not counted. Everything else is what `rooflens run`
does, on a real disk, whose other users are seen in the time of a sync. Aimed for: under 60 s for 100,000 cells on two
cores, and a cost per cell that grows by at most 1.2 when cells grow tenfold. Three sweeps tell what follows cells from
what follows devices, each of which opens and closes once.

The result is read back: every unit once, with all its samples, each problem on one device. Then the folder is opened
anew, as --resume does, which makes the tables from the shards.
"""

import csv
import io
import json
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from options import options
from rooflens.api.progress import Progress
from rooflens.harness.plan.plan import MODEL_FIELDS, Cell, plan
from rooflens.harness.worker.messages import Setup
from rooflens.plugins.fleet.engine.device_worker import SweepWorkerSpec
from rooflens.plugins.fleet.engine.fleet import Fleet
from rooflens.plugins.fleet.engine.job_queue import JobQueue
from rooflens.plugins.fleet.engine.jobs import coordinates, jobs_of
from rooflens.plugins.fleet.engine.protocol import ResultArchive
from rooflens.plugins.fleet.engine.result_store import ResultStore, StoredShard
from simulated_fleet import ARCH, ROUNDS, SAMPLES_EACH, SimulatedCluster, manifest_of, planted_suite

LIMIT_S, MOST_GROWTH = 60.0, 1.2

PLAN, DEAL, LAND, SYNC = "plan and jobs", "deal and follow", "land and merge", "wait for the disk"
DEVICES, AGAIN = "work of the devices", "all of it read again"


class Clock:
    """Wall and processor seconds by name; what a block within a block takes is not the outer one's."""

    def __init__(self) -> None:
        self.wall: defaultdict[str, float] = defaultdict(float)
        self.processor: defaultdict[str, float] = defaultdict(float)
        self.blocks: Counter[str] = Counter()
        self._names = ["outside"]
        self._wall, self._processor = time.perf_counter(), time.process_time()

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Time a block."""
        self._turn()
        self._names.append(what)
        try:
            yield
        finally:
            self._turn()
            self.blocks[self._names.pop()] += 1

    def together(self) -> tuple[float, float]:
        """Everything that is counted."""
        steps = (PLAN, DEAL, LAND, SYNC)
        return sum(self.wall[step] for step in steps), sum(self.processor[step] for step in steps)

    def _turn(self) -> None:
        wall, processor = time.perf_counter(), time.process_time()
        self.wall[self._names[-1]] += wall - self._wall
        self.processor[self._names[-1]] += processor - self._processor
        self._wall, self._processor = wall, processor


class TimedResultStore(ResultStore):
    """The landing of a fleet, timed."""

    def __init__(self, clock: Clock, *arguments: object) -> None:
        self._clock = clock
        super().__init__(*arguments)  # type: ignore[arg-type]

    def add_result(self, archive: ResultArchive) -> StoredShard:
        """See `ResultStore`."""
        with self._clock.timed(LAND):
            return super().add_result(archive)

    def close(self) -> None:
        """See `ResultStore`."""
        with self._clock.timed(LAND):
            super().close()


@dataclass
class Sweep:
    """One simulated sweep and what it took."""

    devices: int
    cells: tuple[Cell, ...]
    jobs: int
    clock: Clock
    fates: dict[str, int]
    wrong: str

    @property
    def per_cell(self) -> dict[str, float]:
        """Seconds per cell: of everything, without the disk, and of the processor."""
        wall, processor = self.clock.together()
        return {
            "in all": wall / len(self.cells),
            "without the disk": (wall - self.clock.wall[SYNC]) / len(self.cells),
            "of the processor": processor / len(self.cells),
        }


def swept(cells_wanted: int, devices: int, folder: Path) -> Sweep:
    """Run a sweep in `folder` and check what it left there."""
    clock = Clock()
    with _syncs_timed(clock):
        with clock.timed(PLAN):
            planted = planted_suite(cells_wanted)
            cells = plan(planted)
            jobs = jobs_of(cells, ROUNDS)
            store = TimedResultStore(clock, folder, manifest_of(planted), jobs)
        setup = Setup("cuda", planted.protocol, planted.providers, ())
        cluster: Any = SimulatedCluster(devices, lambda: clock.timed(DEVICES))  # what a fleet calls of a RayCluster
        queue = JobQueue(ARCH, store, SweepWorkerSpec(setup, manifest_of(planted), cells))
        with Progress(io.StringIO()) as progress, clock.timed(DEAL):
            fleet = Fleet(queue, cluster, progress, clock=cluster.clock)
            fleet.run()
        store.close()
    wrong = fleet.unmeasured() or mistake(folder, cells)
    with clock.timed(AGAIN):
        again = ResultStore(folder, manifest_of(planted), jobs)
    again.close()
    if again.open_jobs():
        wrong = wrong or f"{len(again.open_jobs())} jobs are open when the folder is opened again"
    wrong = wrong or mistake(folder, cells)
    return Sweep(devices, cells, len(jobs), clock, cluster.fates, wrong)


@contextmanager
def _syncs_timed(clock: Clock) -> Iterator[None]:
    sync = os.fsync

    def timed_sync(handle: int) -> None:
        with clock.timed(SYNC):
            sync(handle)

    os.fsync = timed_sync  # type: ignore[assignment]
    try:
        yield
    finally:
        os.fsync = sync


def mistake(folder: Path, cells: tuple[Cell, ...]) -> str:
    """Return what is wrong with the merged run; "" when every unit is there once, with its samples and its device."""
    units: Counter[tuple[str, ...]] = Counter()
    expected: dict[tuple[str, str], int] = {}
    processes: dict[tuple[str, ...], str] = {}
    for row in _rows(folder / "cells.csv"):
        units[*(row[name] for name in MODEL_FIELDS), row["round"]] += 1
        expected[row["cell_id"], row["round"]] = SAMPLES_EACH
        # A job is measured by one worker process: it has all rows of its problem.
        problem = tuple(row[name] for name in MODEL_FIELDS if name != "provider")
        if processes.setdefault(problem, row["process"]) != row["process"]:
            return f"two devices measured {problem}"
    planned = {(*coordinates(cell), str(number)) for cell in cells for number in range(ROUNDS)}
    twice = sum(count > 1 for count in units.values())
    if twice or units.keys() != planned:
        return f"{twice} units twice, {len(planned - units.keys())} missing, {len(units.keys() - planned)} unplanned"
    samples = Counter((row["cell_id"], row["round"]) for row in _rows(folder / "samples.csv"))
    if samples != expected:
        return "samples are missing, doubled or nobody's"
    devices = json.loads((folder / "run.json").read_text())["devices"]
    known = Counter(str(number) for device in devices for number in device["processes"])
    if set(known.values()) != {1} or not set(processes.values()) <= known.keys():
        return "run.json does not say which device a worker process is of"
    return ""


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def show(sweep: Sweep) -> None:
    """Print what one sweep took, step by step; exit where its result is wrong."""
    clock = sweep.clock
    fates = ", ".join(f"{count} {fate}" for fate, count in sweep.fates.items())
    print(f"{len(sweep.cells)} cells, {sweep.jobs} jobs, {sweep.devices} devices; of the stations {fates}")
    print(f"    {'':<22} {'wall':>8} {'processor':>11}")
    notes = {
        SYNC: f"   {clock.blocks[SYNC]} times {clock.wall[SYNC] / clock.blocks[SYNC] * 1e3:.2f} ms",
        DEVICES: "   not counted",
        AGAIN: "   not counted: what --resume begins with",
    }
    for step in (PLAN, DEAL, LAND, SYNC, DEVICES, AGAIN):
        print(f"    {step:<22} {clock.wall[step]:6.2f} s {clock.processor[step]:9.2f} s{notes.get(step, '')}")
    wall, processor = clock.together()
    print(f"    {'together':<22} {wall:6.2f} s {processor:9.2f} s   {sweep.per_cell['in all'] * 1e6:.0f} us per cell")
    if sweep.wrong:
        sys.exit(f"    wrong: {sweep.wrong}")
    print(f"    each of {len(sweep.cells) * ROUNDS} units is there once, with {SAMPLES_EACH} samples", flush=True)


def main() -> None:
    """Run the sweeps and compare their costs per cell."""
    asked = options(__doc__, cells=100_000, devices=1000, folder=tempfile.gettempdir())
    sweeps = []
    for cells, devices in (
        (asked.cells // 10, asked.devices // 10),
        (asked.cells // 10, asked.devices),
        (asked.cells, asked.devices),
    ):
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            sweeps.append(swept(cells, devices, Path(folder) / "run"))
        show(sweeps[-1])
    *smaller, full = sweeps
    wall, _ = full.clock.together()
    print(f"\n{len(full.cells)} cells on {full.devices} devices: {wall:.1f} s (aimed for: under {LIMIT_S:.0f})")
    for other in smaller:
        growth = ", ".join(f"{full.per_cell[what] / cost:.2f} {what}" for what, cost in other.per_cell.items())
        print(f"cost per cell over that of {len(other.cells)} cells on {other.devices} devices: {growth}")
    print(f"(aimed for: at most {MOST_GROWTH})")


if __name__ == "__main__":
    main()
