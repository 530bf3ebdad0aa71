"""A fleet without devices: stations answer in a time of its own, some are lost, and parcels are as those of a GPU."""

import heapq
import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace

from rooflens.harness.plan.plan import static_columns
from rooflens.harness.storage.tables import fields
from rooflens.plugins.fleet.engine.cluster import Answered, Event, Failed, Heartbeat, Lost
from rooflens.plugins.fleet.engine.device_worker import SweepWorkerSpec
from rooflens.plugins.fleet.engine.jobs import SweepJob
from rooflens.plugins.fleet.engine.protocol import Assignment, ResultArchive, Slot, WorkerSpec
from rooflens.plugins.fleet.engine.result_archive import pack
from rooflens.shapes import suite
from rooflens.shapes.files.csv_file import csv_text
from rooflens.shapes.files.record import to_json
from rooflens.shapes.problem import Problem
from rooflens.shapes.run_folder.columns import CANARY, CEILINGS, CELLS, SAMPLES, TELEMETRY
from rooflens.shapes.run_folder.manifest import Manifest, StoredProtocol
from rooflens.shapes.scheme import DType
from rooflens.shapes.shapeset import Shape
from rooflens.shapes.suite import Cache, Suite

MS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
PROVIDERS = ("simt_4bit", "mma_4bit", "dequant_blas", "blas")
DTYPES = (DType.BF16, DType.FP16)
ROUNDS = 2
SAMPLES_EACH = 10
PER_HOST = 8
ARCH = "sm90"

UNIT_S, OPENING_S = 1.0, 20.0
"""Simulated seconds that a unit and the opening of a station take."""

DIES, HANGS, DISK_FULL, NODE_GONE = 1 / 500, 1 / 2500, 1 / 5000, 1 / 5000
"""What may become of a station with a job: the share of jobs."""

_NOW = "2026-01-01T00:00:00.000+00:00"


def planted_suite(cells: int) -> Suite:
    """A suite of about so many cells: planted shapes x 12 M x 2 dtypes x 4 providers, all cold."""
    count = max(1, round(cells / (len(MS) * len(DTYPES) * len(PROVIDERS))))
    shapes = tuple(
        Shape(f"model{number // 4}", f"layer{number % 4}", 512 * (1 + number % 64), 512 * (1 + number // 64))
        for number in range(count)
    )
    known = suite.load("llm4bit")
    return replace(
        known, shapes=shapes, schemes=("nf4-g64",), dtypes=DTYPES, caches=(Cache.COLD,), providers=PROVIDERS,
        baseline="dequant_blas", challengers=("simt_4bit",), axes={"M": MS},
        protocol=replace(known.protocol, rounds=ROUNDS),
    )  # fmt: skip


def manifest_of(planted: Suite) -> Manifest:
    """run.json of a sweep before its devices are known."""
    return Manifest(
        id="planted",
        folder="planted",
        created_at=_NOW,
        command=["rooflens", "fleet", "run"],
        suite=planted.name,
        seed=planted.protocol.seed,
        rounds=ROUNDS,
        shapes=list(planted.shapes),
        description=planted.description,
        baseline=planted.baseline,
        challengers=list(planted.challengers),
        protocol=StoredProtocol(**asdict(planted.protocol), caches=["cold"]),
    )


class SimulatedCluster:
    """Implements what a fleet calls of a `RayCluster`; `clock` is its own, and nobody waits.

    `fabricating` times a block that makes a parcel, which is the devices' work. `fates` counts what became of stations.
    """

    def __init__(self, devices: int, fabricating: Callable[[], AbstractContextManager[None]], seed: int = 1) -> None:
        self._fabricating = fabricating
        self._random = random.Random(seed)
        self._places = [
            Slot(f"node{at // PER_HOST}", f"host{at // PER_HOST}", ARCH, at % PER_HOST, PER_HOST)
            for at in range(devices)
        ]
        self._speeds = {slot: self._random.lognormvariate(0.0, 0.2) for slot in self._places}
        self._manifests: dict[str, dict[str, object]] = {}
        self._names: dict[Slot, str] = {}
        self._briefs: dict[Slot, SweepWorkerSpec] = {}
        self._signs: dict[Slot, Heartbeat] = {}
        self._due: list[tuple[float, int, Slot, str, Event | SweepJob | str]] = []
        self._count = 0
        self._now = 0.0
        self.fates = {"died": 0, "hung": 0, "disk full": 0, "nodes gone": 0}

    def clock(self) -> float:
        """Simulated seconds."""
        return self._now

    def slots(self) -> Sequence[Slot]:
        """See `Cluster`."""
        return self._places

    def start(self, slot: Slot, spec: WorkerSpec, name: str) -> None:
        """See `Cluster`."""
        assert isinstance(spec, SweepWorkerSpec)
        assert slot not in self._names, "two stations in one place"
        self._names[slot], self._briefs[slot] = name, spec
        self._answer(slot, OPENING_S, "open")

    def assign(self, slot: Slot, assignment: Assignment) -> None:
        """See `Cluster`."""
        assert isinstance(assignment.job, SweepJob)
        seconds = assignment.job.units * UNIT_S * self._speeds[slot] * self._random.uniform(0.8, 1.2)
        fate = self._random.random()
        if fate < DIES:
            self.fates["died"] += 1
            self._answer(slot, seconds / 2, Lost(slot, "its process died"))
        elif fate < DIES + HANGS:
            self.fates["hung"] += 1
        elif fate < DIES + HANGS + DISK_FULL:
            self.fates["disk full"] += 1
            self._answer(slot, seconds / 2, Failed(slot, "cannot write to /tmp/x: No space left on device"))
        elif fate < DIES + HANGS + DISK_FULL + NODE_GONE:
            self.fates["nodes gone"] += 1
            self._places = [place for place in self._places if place.node != slot.node]
            for place in [place for place in self._names if place.node == slot.node]:
                self._answer(place, seconds / 2, Lost(place, "its node does not answer"))
        else:
            self._answer(slot, seconds, assignment.job)

    def close(self, slot: Slot) -> None:
        """See `Cluster`."""
        self._answer(slot, OPENING_S, "close")

    def kill(self, slot: Slot) -> None:
        """See `Cluster`."""
        self._names.pop(slot)
        self._signs.pop(slot, None)

    def ask_to_stop(self) -> None:
        """See `Cluster`; nobody asks."""
        raise AssertionError("nothing stops this fleet")

    def wait(self, seconds: float) -> Sequence[Event]:
        """See `Cluster`: the next answer, as if the loop were always quicker than the devices."""
        until = self._now + seconds
        while self._due and self._due[0][0] <= until:
            at, _, slot, name, what = heapq.heappop(self._due)
            if self._names.get(slot) != name:  # a station that was dismissed answers nobody
                continue
            self._now = max(self._now, at)
            if isinstance(what, Lost | Failed | Answered):
                return [what]
            with self._fabricating():
                archive = self._record(slot, what) if isinstance(what, str) else self._measured(slot, what)
            return [Answered(slot, archive)]
        self._now = until
        return []

    def heartbeats(self) -> Mapping[Slot, Heartbeat]:
        """See `Cluster`."""
        return self._signs

    def _answer(self, slot: Slot, seconds: float, what: Event | SweepJob | str) -> None:
        self._count += 1
        self._signs[slot] = Heartbeat("time the round", 0, self._count)
        heapq.heappush(self._due, (self._now + seconds, self._count, slot, self._names[slot], what))

    def _record(self, slot: Slot, kind: str) -> ResultArchive:
        """What opens or closes a station: ceilings and the canary."""
        ceilings = [
            {
                "ceiling": "bandwidth", "level": level, "pattern": pattern, "dtype": "", "unit": "byte/s",
                "value": self._random.gauss(4e12, 4e10), "kind": "measured", "source": "sweeps of 2 GiB",
            }
            for level in ("dram", "l2") for pattern in ("copy", "read", "write")
        ]  # fmt: skip
        tables = {"ceilings": csv_text(CEILINGS.names, [fields(CEILINGS, row) for row in ceilings])}
        return self._packed(slot, f"{self._names[slot]}-{kind}", [], tables | {"canary": self._canary()})

    def _measured(self, slot: Slot, job: SweepJob) -> ResultArchive:
        """All units of a job, with every column that a GPU's run fills."""
        cells, timings, telemetry = [], [], []
        for place, cell in enumerate(job.task.cells):
            cell_id = f"{job.key[-12:]}{place:04x}"
            row = fields(CELLS, {**static_columns(cell), **_measured_columns(cell.problem), "cell_id": cell_id})
            center = 1e-5 * self._speeds[slot] * (1 + place)
            for number in range(job.rounds):
                row = list(row)
                row[_ROUND], row[_ORDER] = str(number), str((place + number) % len(job.task.cells))
                cells.append(row)
                for index in range(SAMPLES_EACH):
                    timings.append(f"{cell_id},{number},{index},{self._random.gauss(center, center / 100)!r},,,\n")
                telemetry.append(f"{cell_id},{number},0,0,1.98e9,2.619e9,55.0,412.5,,0,\n")
        tables = {
            "cells": csv_text(CELLS.names, cells),
            "samples": csv_text(SAMPLES.names, []) + "".join(timings),
            "ceilings": csv_text(CEILINGS.names, []),
            "telemetry": csv_text(TELEMETRY.names, []) + "".join(telemetry),
        }
        if self._random.random() < job.units * UNIT_S / 60:  # about every minute
            tables["canary"] = self._canary()
        return self._packed(slot, job.key, [to_json(job.task.cells[0].shape)], tables)

    def _canary(self) -> str:
        row = {
            "at": _NOW, "process": 0,
            "gemm_s": self._random.gauss(1e-3, 1e-5), "copy_s": self._random.gauss(2e-3, 1e-5),
        }  # fmt: skip
        return csv_text(CANARY.names, [fields(CANARY, row)])

    def _packed(self, slot: Slot, key: str, shapes: list[object], tables: Mapping[str, str]) -> ResultArchive:
        name = self._names[slot]
        if name not in self._manifests:
            self._manifests[name] = {**self._briefs[slot].manifest.to_json(), **_description(slot)}
        station = {"name": name, "host": slot.host, "slot": slot.index, "elapsed_s": 8.0, "remarks": []}
        manifest = {**self._manifests[name], "shapes": shapes, "planned_units": 0, "station": station}
        files = {"run.json": json.dumps(manifest, indent=1), **{f"{table}.csv": text for table, text in tables.items()}}
        return ResultArchive(key, pack({name: text.encode() for name, text in files.items()} | {"worker.log": b""}))


_ROUND, _ORDER = (CELLS.names.index(name) for name in ("round", "order"))


def _measured_columns(problem: Problem) -> dict[str, object]:
    """Columns of a row beside those that follow from its cell."""
    return {
        "round": 0, "order": 0, "process": 0, "verdict": "passed", "role": "candidate", "timer": "event",
        "cold_by": "flush", "copies": 1, "launches_per_sample": 1, "blocked": True, "cache_level": "dram",
        "samples": SAMPLES_EACH, "discarded": 0, "stop_reason": "converged", "elapsed_s": 0.010612292000018897,
        "prepare_s": 0.00019743400002880662, "snr_db": 52.66741722832108, "relative_error": 0.002326104056086719,
        "cosine": 0.999997303360082, "max_abs_error": 0.46243144028386496,
        "config": {"BK": 512, "BM": 16, "BN": 64, "num_stages": 3, "num_warps": 4, "split_k": 4},
        "tuning": "default", "kernels": ["gemm_4bit_kernel", "sum_of_parts_kernel"], "artifact": "4b2f7c90a1d3e856",
        "source": "e2889ee7ade9ca27", "math_dtype": "bf16", "moved_bytes": 2 * problem.N * problem.K, "tile_M": 16,
        "tile_N": 64, "workgroups": 264, "resident": 2, "issued_flops": 2 * 16 * problem.N * problem.K, "seed": 0,
        "decode_per_weight": 6.5, "decoded_weights": problem.N * problem.K, "decode_integer_per_weight": 3.4,
        "operands": "4541022d25807864", "started_at": _NOW,
    }  # fmt: skip


def _description(slot: Slot) -> dict[str, object]:
    """What a shard's run.json says of its device, its software and the providers."""
    return {
        "device": {
            "kind": "cuda", "index": slot.index, "name": "Simulated", "vendor": "NVIDIA", "arch": ARCH,
            "compute_units": 132, "llc_bytes": 50 << 20, "l2_bytes": 50 << 20, "memory_bytes": 140 << 30,
            "uuid": f"GPU-{slot.host}-{slot.index}",
        },
        "device_spec": None,
        "environment": {
            "os": "Linux 6.8", "python": "3.12.3", "rooflens": "0.1.0", "torch": "2.11.0", "triton": "3.6.0",
            "numpy": "2.4.6", "driver": "580.159", "host": slot.host, "telemetry": "nvml",
        },
        "providers": {
            name: {"role": "candidate", "source": "e2889ee7ade9ca27", "file": "rooflens/kernels/fourbit/simt.py"}
            for name in PROVIDERS
        },
        "timer": "event", "cold_by": "flush", "tuning": "default", "telemetry": "nvml", "threads": 16, "processes": 1,
    }  # fmt: skip
