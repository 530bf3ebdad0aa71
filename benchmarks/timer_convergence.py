"""How long it takes to know a median to +-1 %, beside the usual tools: python benchmarks/timer_convergence.py [--help].

Each row is one kernel. Of every tool: the wall time that it took, how many times less that is than the first tool's of
its group, the time that it reports, and half the 95 % interval of the median of its samples (order statistics) in
percent of it. do_bench runs with its defaults, and its wall time is what a user pays whatever the kernel. On a CPU,
blocked_autorange is given the shortest run, of 0.2 s and doublings of it, whose samples reach +-1 %; on a GPU it runs
with its defaults. `busy` is the share of our wall time that measured launches and their flushes take back to back (in a
graph where they were timed in one); `all` counts the warm-ups too. The rest is bookkeeping. Tools take turns, so that
drift hits all alike; the median of the turns is printed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import torch
from options import options
from rooflens.harness.timing.accelerator import Action, Host, TorchAccelerator
from rooflens.harness.timing.cache import flushed, warm
from rooflens.harness.timing.timer import Subject
from rooflens.shapes.median import interval
from timing import Machine, kernels

TARGET = 0.01
GPU_CASES = (
    ("simt_4bit", 1, 1024, 2048),
    ("simt_4bit", 1, 4096, 4096),
    ("simt_4bit", 4, 4096, 4096),
    ("blas", 1, 2048, 4096),
    ("blas", 16, 4096, 4096),
    ("mma_4bit", 64, 4096, 4096),
)
CPU_CASES = (
    ("simd_4bit_cpu", 1, 256, 512),
    ("simd_4bit_cpu", 1, 4096, 4096),
    ("simd_4bit_cpu", 64, 4096, 4096),
    ("blas", 1, 1024, 4096),
)


@dataclass(frozen=True)
class Taken:
    """What one tool took: wall seconds, the time it reports, its samples, and the device's share where it is ours."""

    wall_s: float
    time_s: float
    samples: tuple[float, ...]
    busy: float | None = None
    all: float | None = None


Tool = Callable[[], Taken]


def ours(name: str, subject: Subject, machine: Machine) -> Tool:
    def run() -> Taken:
        counted = Counted(subject.launch)
        machine.host.synchronize()
        begin = time.perf_counter()
        taken = machine.measure(name, replace(subject, launch=counted))
        wall = time.perf_counter() - begin
        launches = len(taken.times_s) * taken.launches_per_sample
        in_graph = name == "graph"
        each = pure(subject, machine.host, in_graph) / wall
        total = None if in_graph else counted.launches * each
        return Taken(wall, median(taken.times_s), taken.times_s, launches * each, total)

    return run


class Counted:
    """A launch that counts itself; those of a graph are counted when they are captured, which is of no use."""

    def __init__(self, launch: Action) -> None:
        self._launch, self.launches = launch, 0

    def __call__(self) -> None:
        """Launch and count."""
        self.launches += 1
        self._launch()


def pure(subject: Subject, machine: Host, in_graph: bool, count: int = 100) -> float:
    """Seconds of one launch with what precedes it, back to back: what cannot be saved."""

    def work() -> None:
        for _ in range(count):
            subject.before()
            subject.launch()

    machine.synchronize()
    if not isinstance(machine, TorchAccelerator):
        begin = time.perf_counter()
        work()
        return (time.perf_counter() - begin) / count
    run = machine.capture(work) if in_graph else work
    first, last = machine.event(), machine.event()
    if in_graph:
        run()
    machine.spin(count * 100e-6)
    first.record()
    run()
    last.record()
    machine.synchronize()
    return first.seconds_until(last) / count


def triton_bench(launch: Action, in_graph: bool = False) -> Tool:
    from triton.testing import do_bench, do_bench_cudagraph

    bench = do_bench_cudagraph if in_graph else do_bench

    def run() -> Taken:
        begin = time.perf_counter()
        times = bench(launch, return_mode="all")
        wall = time.perf_counter() - begin
        seconds = tuple(value * 1e-3 for value in times)
        return Taken(wall, sum(seconds) / len(seconds), seconds)

    return run


def torch_blocked_autorange(launch: Action, longest_s: float) -> Tool:
    from torch.utils.benchmark import Timer

    timer = Timer("launch()", globals={"launch": launch}, num_threads=torch.get_num_threads())

    def run() -> Taken:
        least = 0.2
        while True:
            begin = time.perf_counter()
            times = tuple(timer.blocked_autorange(min_run_time=least).times)
            wall = time.perf_counter() - begin
            if half_width(times) <= TARGET or least >= longest_s:
                return Taken(wall, median(times), times)
            least *= 2

    return run


def synchronized(launch: Action, machine: Host) -> Action:
    def run() -> None:
        launch()
        machine.synchronize()

    return run


def half_width(samples: tuple[float, ...]) -> float:
    """Half the 95 % interval of the median, relative to it; 1 where there are too few samples for one."""
    bounds = interval(samples)
    return (bounds[1] - bounds[0]) / 2 / median(samples) if bounds else 1.0


def compare(label: str, tools: dict[str, Tool], turns: int) -> None:
    taken: dict[str, list[Taken]] = {name: [] for name in tools}
    for tool in tools.values():
        tool()  # what is compiled or loaded at the first use counts for nobody
    for _ in range(turns):
        for name, tool in tools.items():
            taken[name].append(tool())
    reference = median(one.wall_s for one in next(iter(taken.values())))  # of the peer that stands first
    for number, (name, turn) in enumerate(taken.items()):
        wall = median(one.wall_s for one in turn)
        shares = ([one.busy for one in turn], [one.all for one in turn])
        busy = " ".join(f"{median(filter(None, column)):6.0%}" for column in shares if all(column))
        print(
            f"{label if not number else '':34} {name:24} {wall * 1e3:9.2f} {reference / wall:8.2f}x "
            f"{median(one.time_s for one in turn) * 1e6:10.2f} {median(half_width(one.samples) for one in turn):8.2%} "
            f"{median(len(one.samples) for one in turn):8.0f} {busy}",
            flush=True,
        )


def main() -> None:
    asked = options(__doc__, device="auto", turns=3)
    machine = Machine(asked.device)
    device = machine.device
    print(f"{device.name}; target +-{TARGET:.0%}; timer step {machine.host.resolution_s * 1e9:.0f} ns")
    print(
        f"{'kernel':34} {'tool':24} {'wall ms':>9} {'ratio':>9} {'time us':>10} {'+-':>8} {'samples':>8} "
        f"{'busy':>6} {'all':>6}"
    )
    for kernel in kernels(GPU_CASES if device.is_gpu else CPU_CASES, device):
        launch = kernel.launch
        hot = warm(launch)
        if not device.is_gpu:
            tools = {
                "blocked_autorange": torch_blocked_autorange(launch, 3.2),
                "rooflens host, warm": ours("host", hot, machine),
            }
            compare(kernel.label, tools, asked.turns)
            continue
        cold = flushed(launch, machine.flush)
        tools = {
            "do_bench": triton_bench(launch),
            "rooflens profiler, cold": ours("profiler", cold, machine),
            "rooflens event, cold": ours("event", cold, machine),
        }
        compare(kernel.label, tools, asked.turns)
        tools = {
            "do_bench_cudagraph": triton_bench(launch, in_graph=True),
            "rooflens graph, warm": ours("graph", hot, machine),
            "rooflens event, warm": ours("event", hot, machine),
            "blocked_autorange": torch_blocked_autorange(synchronized(launch, machine.host), 0.2),
        }
        compare("", tools, asked.turns)


if __name__ == "__main__":
    main()
