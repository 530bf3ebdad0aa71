"""Options of a planted run that several devices measured: who had which processes, and what their canaries said."""

import random
from datetime import UTC, datetime, timedelta

from .synthetic import H200

START = datetime(2026, 1, 2, 3, tzinfo=UTC)

GPU_UUIDS = tuple(f"8f6d2c1{number:x}-0000-4000-8000-00000000000{number:x}" for number in range(16))


def gpu(number, processes, host="node0", **changes):
    """One entry of `devices`: an H200 that its process sees as the first."""
    return H200.device | {"uuid": GPU_UUIDS[number], "host": host, "processes": list(processes)} | changes


def stamp(minute):
    return (START + timedelta(minutes=minute)).isoformat(timespec="milliseconds")


def reading(minute, gemm_s=1e-3, copy_s=2e-3, process=0):
    return {"at": stamp(minute), "process": process, "gemm_s": gemm_s, "copy_s": copy_s}


def noisy(slowdowns, readings=5, noise=0.01, seed=0):
    """Rows of canary.csv: process i runs on a device that is `slowdowns`[i] times as slow as usual."""
    rng = random.Random(seed)
    return [
        reading(
            minute + process / 100,
            1e-3 * slow * rng.lognormvariate(0, noise),
            2e-3 * rng.lognormvariate(0, noise),
            process,
        )
        for process, slow in enumerate(slowdowns)
        for minute in range(readings)
    ]


def fleet(devices, canary, process_of=lambda cell, round_: 0, **more):
    """Options of `synthetic.write_run` for a small run that `devices` measured together."""
    return {
        "shapes": (("m", "l", 64, 96), ("m", "o", 96, 64)),
        "Ms": (4,),
        "providers": ("simt_4bit", "dequant_blas"),
        "machine": H200,
        "canary": canary,
        "columns": lambda cell, round_: {"process": process_of(cell, round_)},
        "manifest": {"devices": devices, **more.pop("manifest", {})},
        **more,
    }
