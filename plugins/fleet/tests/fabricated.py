"""Parcels as stations send them, without a device."""

import dataclasses
import json

from rooflens.harness.plan.plan import plan, static_columns
from rooflens.harness.storage.tables import fields
from rooflens.harness.worker.messages import Setup
from rooflens.plugins.fleet.engine.device_worker import SweepWorkerSpec
from rooflens.plugins.fleet.engine.jobs import jobs_of
from rooflens.plugins.fleet.engine.protocol import ResultArchive, Slot
from rooflens.plugins.fleet.engine.result_archive import pack
from rooflens.shapes import suite
from rooflens.shapes.files.csv_file import csv_text
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.run_folder.columns import CANARY, CEILINGS, CELLS, SAMPLES
from rooflens.shapes.run_folder.manifest import Manifest

from tests.analysis.synthetic import H200, ceiling_rows

PROVIDERS = ("blas", "dequant_blas")
PROTOCOL = Protocol(rounds=2, timeout_s=20.0, build_timeout_s=30.0)
SAMPLES_EACH = 3


def quick_jobs(shapes=2, sizes=(1, 8), rounds=PROTOCOL.rounds):
    """Jobs of a small plan: `shapes` x `sizes`, two providers each."""
    quick = suite.load("llm4bit-quick").override(axes={"M": sizes}, providers=PROVIDERS)
    return jobs_of(plan(dataclasses.replace(quick, shapes=quick.shapes[:shapes])), rounds)


def spec(cells=()):
    return SweepWorkerSpec(Setup("cuda", PROTOCOL, PROVIDERS, ()), run_manifest(), tuple(cells))


def run_json(**changes):
    """What run.json of a sweep says before anything is measured."""
    return {
        "id": "fleet",
        "suite": "llm4bit-quick",
        "seed": 0,
        "rounds": PROTOCOL.rounds,
        "baseline": "blas",
        "created_at": "2026-01-01T00:00:00+00:00",
        "challengers": ["dequant_blas"],
        "shapes": [],
        "protocol": dataclasses.asdict(PROTOCOL),
        "command": ["rooflens"],
        **changes,
    }


def run_manifest(**changes):
    return Manifest.read(run_json(**changes), "run.json")


def slot(index=0, host="one", arch="sm90", count=8):
    return Slot(f"node-{host}", host, arch, index, count)


def manifest(place, name, uuid=None, elapsed_s=1.0, remarks=(), **changes):
    """What a shard's run.json says."""
    arch = {"arch": place.arch}
    return {
        **run_json(),
        "planned_units": 0,
        "device": {**H200.device, **arch, "uuid": f"{place.host}-{place.index}" if uuid is None else uuid},
        "device_spec": None,
        "environment": {"host": place.host, "torch": "2.13.0"},
        "providers": {one: {"role": "candidate", "source": "abc", "file": f"/{place.host}/x.py"} for one in PROVIDERS},
        "timer": "event",
        "cold_by": "flush",
        "tuning": "default",
        "telemetry": "nvml",
        "threads": 4,
        "station": {
            "name": name,
            "host": place.host,
            "slot": place.index,
            "elapsed_s": elapsed_s,
            "remarks": list(remarks),
        },
        **changes,
    }


def units(cell, cell_id, number, verdict="passed", reason="", source="abc", samples=SAMPLES_EACH, process=0):
    """The row of a round in cells.csv, and its samples."""
    count = samples if verdict == "passed" else None
    row = {
        **static_columns(cell),
        "cell_id": cell_id, "round": number, "order": 0, "process": process, "verdict": verdict, "reason": reason,
        "role": "candidate", "source": source, "seed": 0, "samples": count, "discarded": 0 if count else None,
        "elapsed_s": 0.1, "timer": "event" if count else None, "started_at": "2026-01-01T00:00:01+00:00",
    }  # fmt: skip
    times = ({"cell_id": cell_id, "round": number, "index": at, "time_s": 1e-5 + at * 1e-8} for at in range(count or 0))
    return row, [*times]


def tables(found):
    """Tables of what `units` returned."""
    return {CELLS: [row for row, _ in found], SAMPLES: [sample for _, samples in found for sample in samples]}


def archive(job, place, name="a", process=0, keep=lambda cell, number: True, verdict_of=None, **said):
    """A parcel of a job: its units as far as `keep`, passed unless `verdict_of(cell)` says (verdict, reason)."""
    found = []
    for index, cell in enumerate(job.task.cells):
        verdict, reason = (verdict_of and verdict_of(cell)) or ("passed", "")
        for number in range(job.rounds if verdict == "passed" else 1):
            if keep(cell, number):
                found.append(units(cell, f"{job.key[-10:]}{index:06}", number, verdict, reason, process=process))
    return ResultArchive(job.key, packed(manifest(place, name, **said), tables(found)))


def record(kind, place, name="a", gemm_s=1e-3, at="2026-01-01T00:00:00+00:00", process=0, **said):
    """The parcel that opens or closes a station: a canary reading and a ceiling."""
    read, value = ceiling_rows(H200)[1], 1e12 + place.index
    canary = {"at": at, "process": process, "gemm_s": gemm_s, "copy_s": 2e-3}
    return ResultArchive(
        f"{name}-{kind}", packed(manifest(place, name, **said), {CANARY: [canary], CEILINGS: [read | {"value": value}]})
    )


def packed(manifest, tables):
    files = {"run.json": json.dumps(manifest).encode()}
    for table in (CELLS, SAMPLES, CEILINGS, CANARY):
        if table in tables or table is not CANARY:
            rows = (fields(table, row) for row in tables.get(table, []))
            files[table.file] = csv_text(table.names, rows).encode()
    return pack(files)
