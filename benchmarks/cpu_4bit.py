"""The fused CPU kernel beside its baselines, interleaved in one run: python benchmarks/cpu_4bit.py [--help].

Every round calls each provider once on the same operands, so that whatever disturbs the machine hits all alike. A row
shows the median (and minimum) of each in ms, the speedup of the fused kernel over each (medians), and the time of
reading the packed weights once with the same threads, which no kernel can beat from the same level of memory. --cache
is warm or cold.
"""

import time
from collections.abc import Callable
from statistics import median

import torch
from options import options
from rooflens.harness.machine.device import find_device
from rooflens.kernels import registry
from rooflens.kernels.fourbit.cpu_library import stream_read
from rooflens.kernels.fourbit.inputs import FourBitInputs
from rooflens.kernels.inputs import make_inputs, make_weight
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

PROVIDERS = ("simd_4bit_cpu", "blas", "dequant_blas", "bitsandbytes_dequant")
SHAPES = "4096x4096,1024x4096,14336x4096,4096x14336"
"""N x K."""


def measure(inputs: FourBitInputs, rounds: int, cold: bool) -> dict[str, list[float]]:
    """Seconds of each provider, and of reading the packed weights ("read"), round by round."""
    device, threads = inputs.device, torch.get_num_threads()
    flush = torch.ones(2 * device.llc_bytes, dtype=torch.uint8) if cold else None
    calls: dict[str, Callable[[], object]] = {}
    for name, provider in registry.load(PROVIDERS).items():
        if provider.supports(inputs.problem, inputs.scheme, device).ok:
            calls[name] = provider.prepare(inputs)
    calls["read"] = lambda: stream_read(inputs.packed, threads)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            if flush is None:
                call()  # warm: its own data are what the caches hold
            else:
                flush.add_(1)
                flush.sum()
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return times


def row(inputs: FourBitInputs, times: dict[str, list[float]], cache: str) -> str:
    """One line of the table."""
    ours = median(times["simd_4bit_cpu"])
    cells = [f"{inputs.problem.N:6d} {inputs.problem.K:6d} {inputs.problem.M:4d} {cache}"]
    for name in (*PROVIDERS, "read"):
        if name not in times:
            cells.append(f"{'-':>15}")
            continue
        values = times[name]
        cells.append(f"{median(values) * 1e3:7.3f} ({min(values) * 1e3:7.3f})")
    for name in PROVIDERS[1:]:
        cells.append(f"{median(times[name]) / ours:6.2f}x" if name in times else f"{'-':>7}")
    cells.append(f"{inputs.problem.flops / ours / 1e12:6.3f}")
    return "  ".join(cells)


def main() -> None:
    arguments = options(
        __doc__, dtype="bf16", scheme="nf4-g64", shapes=SHAPES, rows="1,2,4,8,16,32,64,128,256", rounds=15, cache="warm"
    )
    shapes = [tuple(map(int, text.split("x"))) for text in arguments.shapes.split(",")]
    scheme, device = parse_scheme(arguments.scheme, DType.parse(arguments.dtype)), find_device("cpu")
    threads = torch.get_num_threads()
    print(f"{device.name}, {threads} threads, {scheme.name}, {scheme.dtype}, {arguments.cache}; times in ms")
    header = f"{'N':>6} {'K':>6} {'M':>4} cache"
    print(header, *(f"{name:>17}" for name in (*PROVIDERS, "read")), " vs " + ", ".join(PROVIDERS[1:]), "TFLOPS")
    for N, K in shapes:
        weight = make_weight(Problem(1, N, K), scheme, device, seed=0)
        for M in map(int, arguments.rows.split(",")):
            inputs = make_inputs(Problem(M, N, K), scheme, device, seed=0, weight=weight)
            print(
                row(inputs, measure(inputs, arguments.rounds, arguments.cache == "cold"), arguments.cache), flush=True
            )


if __name__ == "__main__":
    main()
