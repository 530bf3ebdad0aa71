"""Does a fresh process measure the same? python benchmarks/timer_repeatability.py [--processes 10] [--device auto].

Every process measures each kernel once with each tool, in turn. A row shows, per tool, the mean over the processes of
the time that it reports, and the coefficient of variation between processes: what two people would disagree by. The
tools report what they report by default: rooflens the median, do_bench the mean, blocked_autorange the median.
"""

import json
import subprocess
import sys
from statistics import mean, median, stdev

import torch
from options import options
from rooflens.harness.timing.cache import Rotation, flushed, rotated, warm
from rooflens.harness.timing.cache_sizes import copies_needed
from rooflens.harness.timing.canary import Canary
from rooflens.harness.timing.timer import Subject
from rooflens.shapes.device import Device
from rooflens.shapes.protocol import Protocol
from timing import Kernel, Machine, kernels

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


def rotation_of(kernel: Kernel, device: Device) -> Subject:
    """The same launch on as many copies of the operands as make it cold."""
    scheme, problem = kernel.inputs.scheme, kernel.inputs.problem
    size = scheme.weight_bytes(problem) + scheme.scale_bytes(problem)
    copies = [kernel.inputs.copy() for _ in range(copies_needed(size, device))]
    return rotated(Rotation([kernel.provider.prepare(copy).run for copy in copies], size, device))


def once(name: str) -> dict[str, dict[str, float]]:
    """Times in seconds of each kernel by each tool, in this process."""
    machine = Machine(name)
    device = machine.device
    Canary(device, machine.host).read()  # as a sweep begins, and it brings the device to its working clock
    found: dict[str, dict[str, float]] = {}

    def ours(timer: str, subject: Subject) -> float:
        return median(machine.median_s(timer, subject) for _ in range(Protocol().rounds))

    for kernel in kernels(GPU_CASES if device.is_gpu else CPU_CASES, device):
        launch = kernel.launch
        times = found[kernel.label] = {}
        if device.is_gpu:
            from triton.testing import do_bench, do_bench_cudagraph

            times["event cold"] = ours("event", flushed(launch, machine.flush))
            times["profiler cold"] = ours("profiler", flushed(launch, machine.flush))
            rotation = rotation_of(kernel, device)
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
    arguments = options(__doc__, device="auto", processes=10, once=False)
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
