"""What does a timer add to a kernel's own time? python benchmarks/timer_bias.py [--turns 3] (needs a GPU).

Each row is a launch with cold caches (flushed before each sample) or warm ones. The columns are medians in us: by the
profiler timer, which is the device's own record; beyond it, what the event timer and (warm) the graph timer report for
the same launch; the same for an empty kernel, which is what netting by an empty launch would subtract; and what would
then be left, in percent of the record. `wall` is the time of the timers in ms for 100 samples each. Timers take turns.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

import torch
from options import options
from rooflens.harness.timing.accelerator import Action
from rooflens.harness.timing.cache import flushed, warm
from rooflens.harness.timing.timer import Subject
from rooflens.harness.timing.timers import make_timer
from rooflens.kernels.probes.triton.floors import empty_launch
from rooflens.shapes.device import Device
from timing import Machine, kernels

SAMPLES = 100
TIMERS = ("profiler", "event", "graph")
CASES = (
    ("simt_4bit", 1, 512, 1024),
    ("simt_4bit", 1, 1024, 2048),
    ("simt_4bit", 1, 2048, 4096),
    ("simt_4bit", 1, 4096, 4096),
    ("mma_4bit", 16, 1024, 2048),
    ("blas", 1, 1024, 1024),
    ("blas", 16, 2048, 2048),
    ("blas", 16, 4096, 4096),
    ("dequant_blas", 16, 1024, 2048),
    ("stock_triton", 16, 1024, 2048),
)


def launches(device: Device) -> Iterator[tuple[str, Action]]:
    """The empty kernel, and kernels of 2 to 20 us."""
    yield "empty", empty_launch(device).run
    out = torch.empty(1 << 20, device=device.torch_name)
    source = torch.randn_like(out)
    yield "copy of 4 MiB", lambda: out.copy_(source)
    yield from ((kernel.label, kernel.launch) for kernel in kernels(CASES, device))


def main() -> None:
    turns = options(__doc__, turns=3).turns
    machine = Machine()
    device = machine.device
    subjects: list[tuple[str, str, Subject]] = []
    for label, launch in launches(device):
        subjects += [(label, "cold", flushed(launch, machine.flush)), (label, "warm", warm(launch))]
    times: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    walls: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for _ in range(turns):
        for label, cache, subject in subjects:
            for name in TIMERS[: 3 if cache == "warm" else 2]:
                begin = time.perf_counter()
                timer = make_timer(name, machine.host, subject, device)
                taken: list[float] = []
                while len(taken) < SAMPLES:
                    taken += timer.batch(SAMPLES - len(taken)).times_s
                walls[label, cache, name].append(time.perf_counter() - begin)
                times[label, cache, name].append(median(taken))
    print(f"{device.name}, torch {torch.__version__}; us; step of the events {machine.host.resolution_s * 1e9:.0f} ns")
    print(f"{'launch':32} {'':5} {'record':>8} {'event +':>8} {'empty +':>8} {'left':>7} {'graph +':>8}  wall ms")
    for label, cache, _ in subjects:
        us = {name: median(times[label, cache, name]) * 1e6 for name in TIMERS if (label, cache, name) in times}
        empty = [median(times["empty", cache, name]) * 1e6 for name in ("event", "profiler")]
        added, netted = us["event"] - us["profiler"], empty[0] - empty[1]
        graph = f"{us['graph'] - us['profiler']:8.2f}" if "graph" in us else " " * 8
        wall = " ".join(f"{median(walls[label, cache, name]) * 1e3:.1f}" for name in us)
        left = (added - netted) / us["profiler"]
        print(f"{label:32} {cache:5} {us['profiler']:8.2f} {added:8.2f} {netted:8.2f} {left:7.1%} {graph}  {wall}")


if __name__ == "__main__":
    main()
