"""Is cold cold, whichever way? One read of 0.5 to 8 MB, flushed or rotated: python benchmarks/cold_validity.py

Each row is one size; each column a timer and a way to a cold cache, with the time of an empty kernel under the same
timer and control subtracted. On a CPU launches may share a flush, and that is a column of its own. `spread` is the
largest difference among all cold columns; it should stay within the larger of 3 % and 0.5 us. `warm` is the same read
without either, for what a cold label over warm data would show. `undersized` counts rotations with too few copies that
were refused, of those that were tried.
"""

import random
from statistics import median

import torch
from options import options
from rooflens.harness.timing.accelerator import Action
from rooflens.harness.timing.cache import Rotation, flushed, flushed_together, rotated, warm
from rooflens.harness.timing.cache_sizes import PER_FLUSH, copies_needed
from rooflens.harness.timing.timer import Subject
from rooflens.kernels.probes import cpu_probes
from rooflens.kernels.probes.probe import Pattern
from rooflens.kernels.probes.triton.floors import empty_launch
from rooflens.kernels.probes.triton.streams import BLOCK_BYTES, cache_modifier, once, sweep
from rooflens.shapes.device import Device
from rooflens.shapes.errors import UsageError
from rooflens.shapes.protocol import Protocol
from timing import Machine

SIZES_MB = (0.5, 1.0, 2.0, 4.0, 8.0)
COLUMNS = {
    "cpu": (("host", "flush"), ("host", "shared flush"), ("host", "rotation"), ("host", "warm")),
    "cuda": (
        ("event", "flush"),
        ("event", "rotation"),
        ("graph", "rotation"),
        ("profiler", "flush"),
        ("profiler", "rotation"),
        ("event", "warm"),
    ),
}


def read(device: Device, size: int) -> Action:
    """One pass over memory of its own, by two programs a multiprocessor at most."""
    data = torch.randint(0, 1 << 30, (size // 4,), dtype=torch.int32, device=device.torch_name)
    if not device.is_gpu:
        return cpu_probes.sweep(Pattern.READ, data, torch.get_num_threads()).run
    order = once(size, min(2 * device.compute_units, size // BLOCK_BYTES))
    return sweep(Pattern.READ, data, order, cache_modifier(device)).run


def main() -> None:
    options(__doc__)
    machine = Machine()
    device = machine.device
    empty = empty_launch(device).run if device.is_gpu else int
    columns = COLUMNS[device.kind]

    def timed(timer: str, subject: Subject) -> float:
        return machine.median_s(timer, subject, Protocol(min_samples=30, target_ci=0.005, budget_s=0.5))

    def subject(launches: list[Action], control: str, size: int) -> Subject:
        if control == "flush":
            return flushed(launches[0], machine.flush)
        if control == "shared flush":
            return flushed_together(launches[:PER_FLUSH], machine.flush)
        return rotated(Rotation(launches, size, device)) if control == "rotation" else warm(launches[0])

    print(f"{device.name}; last-level cache {device.llc_bytes >> 20} MiB; times in us, empty kernel subtracted")
    print(f"{'MB':>5} " + " ".join(f"{' '.join(column):>17}" for column in columns) + "   spread us     %  undersized")
    for megabytes in SIZES_MB:
        size = int(megabytes * 1e6) // BLOCK_BYTES * BLOCK_BYTES
        copies = copies_needed(size, device)
        launches = [read(device, size) for _ in range(copies)]
        times = {}
        for column in columns:
            timer, control = column
            floor = timed(timer, subject([empty] * copies, control, size))
            times[column] = timed(timer, subject(launches, control, size)) - floor
        cold = [value for column, value in times.items() if column[1] != "warm"]
        spread = max(cold) - min(cold)
        tried = random.sample(range(1, copies), min(20, copies - 1))
        refused = sum(is_refused(launches[:count], size, device) for count in tried)
        row = " ".join(f"{times[column] * 1e6:17.2f}" for column in columns)
        share = spread / median(cold)
        print(f"{megabytes:5.1f} {row} {spread * 1e6:11.2f} {share:5.1%}  {refused} of {len(tried)}", flush=True)


def is_refused(launches: list[Action], size: int, device: Device) -> bool:
    """Ask for a rotation among too few copies."""
    try:
        Rotation(launches, size, device)
    except UsageError:
        return True
    return False


if __name__ == "__main__":
    main()
