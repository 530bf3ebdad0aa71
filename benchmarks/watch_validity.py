"""What changing the operands before every sample does to a time: python benchmarks/watch_validity.py [--help].

Every row is a kernel in one cache state. It is timed as `rooflens run` does it, with activations that change before
each sample and outputs that are kept of some, and without; both take turns. Printed are the median time of either, the
median over the turns of their ratio, and the difference in microseconds.
"""

from statistics import median

from options import options
from rooflens.harness.machine.device import find_device
from rooflens.harness.plan.plan import Cell
from rooflens.harness.timing.measure import measure
from rooflens.harness.timing.stop import StopRule
from rooflens.harness.timing.timers import make_timer
from rooflens.harness.worker.bench import Bench
from rooflens.harness.worker.messages import ChosenConfig
from rooflens.harness.worker.operands import Operands
from rooflens.harness.worker.prepared import Prepared, prepare
from rooflens.harness.worker.watch import Watch
from rooflens.kernels import registry
from rooflens.kernels.inputs import make_inputs
from rooflens.shapes.problem import Problem
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.shapeset import Shape
from rooflens.shapes.suite import Cache

GPU_CASES = (
    ("gemv_4bit_opt", 1, 1024, 2048),
    ("gemv_4bit_opt", 1, 4096, 4096),
    ("simt_4bit", 4, 4096, 4096),
    ("mma_4bit", 64, 4096, 4096),
    ("blas", 1, 2048, 4096),
    ("blas", 16, 4096, 4096),
    ("blas", 4096, 4096, 4096),
)
CPU_CASES = (
    ("simd_4bit_cpu", 1, 256, 512),
    ("simd_4bit_cpu", 1, 4096, 4096),
    ("simd_4bit_cpu", 16, 4096, 4096),
    ("blas", 1, 1024, 4096),
    ("blas", 64, 1024, 4096),
)


def times(bench: Bench, ready: Prepared, operands: Operands, cell: Cell, turns: int) -> tuple[list[float], list[float]]:
    """Medians of alternating measurements with and without the watch, in seconds."""
    found: tuple[list[float], list[float]] = ([], [])
    for turn in range(2 * turns):
        subject = bench.subject(ready, cell)
        if turn % 2 == 0:
            subject = Watch(operands, ready.launches, subject, bench.machine, 0.2).subject
        timer = make_timer(bench.timer, bench.machine, subject, bench.device)
        rule = StopRule.of(Protocol(budget_s=0.2, min_samples=50, target_ci=0.002), timer.resolution_s)
        taken = measure(subject, timer, rule, bench.machine, bench.telemetry)
        counting = [time for time, reason in zip(taken.times_s, taken.discarded, strict=True) if not reason]
        found[turn % 2].append(median(counting))
    return found


def main() -> None:
    chosen = options(__doc__, device="auto", turns=15)
    device, scheme = find_device(chosen.device), parse_scheme("nf4-g64", DType.BF16)
    bench = Bench(device, Protocol())
    print(f"{device.name}, timer {bench.timer}: us watched, us without, ratio, difference in us")
    for name, m, n, k in GPU_CASES if device.is_gpu else CPU_CASES:
        provider, problem = registry.load([name])[name], Problem(m, n, k)
        operands = Operands(make_inputs(problem, scheme, device, seed=1))
        operands.draw(1)
        for cache in (Cache.COLD, Cache.WARM):
            cell = Cell("watch", Shape("toy", "w", n, k), problem, scheme, name, cache)
            ready = prepare(provider, operands.copies(bench.copies(cell)), ChosenConfig(None, "default"), bench.machine)
            watched, without = times(bench, ready, operands, cell, chosen.turns)
            ratio = median(one / other for one, other in zip(watched, without, strict=True))
            one, other = (1e6 * median(some) for some in (watched, without))
            place = f"{name} M={m} N={n} K={k} {cache.value}"
            print(f"{place:40} {one:9.2f} {other:9.2f}  {ratio:.4f}  {one - other:+.2f}", flush=True)


if __name__ == "__main__":
    main()
