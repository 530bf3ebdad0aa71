"""Does a fresh process measure the same? python benchmarks/timer_repeatability.py [--processes 10] [--device auto].

Every process measures each kernel once with each tool, in turn. A row shows, per tool, the mean over the processes of
the time that it reports, and the coefficient of variation between processes: what two people would disagree by. The
tools report what they report by default: rooflens the median, do_bench the mean, blocked_autorange the median.
"""

import argparse
import json
import subprocess
import sys
from statistics import mean, median, stdev

import torch
from rooflens.harness.machine.device import find_device
from rooflens.harness.telemetry.source import telemetry
from rooflens.harness.timing.accelerator import TorchAccelerator, accelerator
from rooflens.harness.timing.cache import Flush, Rotation, flushed, rotated, warm
from rooflens.harness.timing.cache_sizes import copies_needed
from rooflens.harness.timing.canary import Canary
from rooflens.harness.timing.measure import measure
from rooflens.harness.timing.stop import StopRule
from rooflens.harness.timing.timer import Subject
from rooflens.harness.timing.timers import make_timer
from rooflens.kernels import registry
from rooflens.kernels.fourbit.inputs import FourBitInputs
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.provider import Provider
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

GPU_CASES = (
    ("simt_4bit", 1, 512, 1024),
    ("simt_4bit", 1, 1024, 4096),
    ("simt_4bit", 1, 4096, 4096),
    ("blas", 1, 1024, 2048),
    ("blas", 16, 4096, 4096),
    ("mma_4bit", 64, 4096, 14336),
    ("simt_4bit", 1, 28672, 8192),
    ("blas", 256, 8192, 8192),
)
CPU_CASES = (("simd_4bit_cpu", 1, 256, 512), ("simd_4bit_cpu", 1, 4096, 4096), ("blas", 4, 1024, 4096))


def rotation_of(kernel: Provider, inputs: FourBitInputs, device: Device) -> Subject:
    """The same launch on as many copies of the operands as make it cold."""
    size = inputs.scheme.weight_bytes(inputs.problem) + inputs.scheme.scale_bytes(inputs.problem)
    copies = [inputs.copy() for _ in range(copies_needed(size, device))]
    return rotated(Rotation([kernel.prepare(copy).run for copy in copies], size, device))


def once(name: str) -> dict[str, dict[str, float]]:
    """Times in seconds of each kernel by each tool, in this process."""
    device = find_device(name)
    machine = accelerator(device)
    source = telemetry(device)
    flush = Flush(device) if device.is_gpu else None
    Canary(device, machine).read()  # as a sweep begins, and it brings the device to its working clock
    found: dict[str, dict[str, float]] = {}

    def ours(timer_name: str, subject: Subject) -> float:
        rounds = []
        for _ in range(Protocol().rounds):
            timer = make_timer(timer_name, machine, subject, device)
            rule = StopRule.of(Protocol(), timer.resolution_s)
            rounds.append(median(measure(subject, timer, rule, machine, source).times_s))
        return median(rounds)

    for provider, m, n, k in GPU_CASES if device.is_gpu else CPU_CASES:
        problem, scheme = Problem(M=m, N=n, K=k), parse_scheme("nf4-g64", DType.BF16)
        kernel = registry.load([provider])[provider]
        if not kernel.supports(problem, scheme, device).ok:
            continue
        inputs = make_inputs(problem, scheme, device, seed=0)
        launch = kernel.prepare(inputs).run
        times = found[f"{provider} M={m} {n}x{k}"] = {}
        if isinstance(machine, TorchAccelerator) and flush is not None:
            from triton.testing import do_bench, do_bench_cudagraph

            times["event cold"] = ours("event", flushed(launch, flush))
            times["profiler cold"] = ours("profiler", flushed(launch, flush))
            rotation = rotation_of(kernel, inputs, device)
            times["event rotated"] = ours("event", rotation)
            times["graph rotated"] = ours("graph", rotation)
            times["do_bench"] = do_bench(launch) * 1e-3
            times["graph warm"] = ours("graph", warm(launch))
            times["do_bench_cudagraph"] = do_bench_cudagraph(launch) * 1e-3
        else:
            from torch.utils.benchmark import Timer

            times["host warm"] = ours("host", warm(launch))
            timer = Timer("launch()", globals={"launch": launch}, num_threads=torch.get_num_threads())
            times["blocked_autorange"] = timer.blocked_autorange().median
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--once", action="store_true", help="measure in this process and print JSON")
    arguments = parser.parse_args()
    if arguments.once:
        print(json.dumps(once(arguments.device)))
        return
    runs = []
    for _ in range(arguments.processes):
        command = [sys.executable, __file__, "--once", "--device", arguments.device]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    print(f"{arguments.processes} fresh processes; mean in us, coefficient of variation between processes")
    for kernel in runs[0]:
        cells = []
        for tool in runs[0][kernel]:
            times = [run[kernel][tool] for run in runs]
            cells.append(f"{tool:20} {mean(times) * 1e6:8.2f} {stdev(times) / mean(times):6.2%}")
        print(kernel, *cells, sep="\n    ", flush=True)


if __name__ == "__main__":
    main()
