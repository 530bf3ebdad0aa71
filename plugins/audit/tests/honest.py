"""Random texts with several tables that all hold, with the habits that mislead a hasty reader.

A third column with its own ratio, failed cells, grids over M, bandwidths, thousands with commas, and ratios computed
from what is printed.
"""

import numpy as np

from .worlds import Planted, World, joined, places, printed, render


def three_ways(rng) -> Planted:
    """A baseline of another type with its own ratio, TFLOPS and bandwidth, failed cells and thousands with commas."""
    world = World(rng)
    shapes = world.sizes(int(rng.integers(3, 12)))
    old, new, blas = ([world.time(*shape) for shape in shapes] for _ in range(3))
    slow = world.device.peak_flops["bf16"]
    blas = [
        max(time, 2.0 * np.prod([float(size) for size in shape]) / slow * 1.05)
        for time, shape in zip(blas, shapes, strict=True)
    ]
    decimals = places([*old, *new, *blas], 1e-6, 4)
    texts = [[f"{time * 1e6:,.{decimals}f}" for time in side] for side in (old, new, blas)]
    from_printed = rng.random() < 0.5
    if from_printed:
        old, new, blas = ([float(text.replace(",", "")) * 1e-6 for text in side] for side in texts)
    failed = int(rng.integers(len(shapes))) if rng.random() < 0.3 else None
    cells = joined(
        [[str(size) for size in shape] for shape in shapes],
        *texts,
        [f"{one / two:.2f}x" for one, two in zip(old, new, strict=True)],
        [f"{one / two:.2f}x" for one, two in zip(new, blas, strict=True)],
        [printed(2 * M * N * K / time / 1e12, 1) for (M, N, K), time in zip(shapes, new, strict=True)],
        [printed((N * K + M * K + 2 * M * N) / time / 1e9, 1) for (M, N, K), time in zip(shapes, new, strict=True)],
    )
    if failed is not None and len(cells) > 2:
        cells[failed][5] = "OOM"
        cells[failed][7] = "-"
    header = ["M", "N", "K", "Old (us)", "New (us)", "BF16 (us)", "Speedup", "New/BF16", "New TFLOPS", "New GB/s"]
    table = render(rng, header, cells)
    return Planted(f"# Results\n\n{table}\n" if "," not in header else table, world.setting())


def grid(rng) -> Planted:
    """Speedups over M at fixed weights, with a starred tie, and the absolute times of some cells."""
    world = World(rng)
    Ms = (1, 2, 4, 8, 16, 32, 64)
    rows, cells = [], []
    for name in ("qkv", "o_proj", "gate_up", "down")[: int(rng.integers(2, 5))]:
        N, K = (int(512 * rng.integers(4, 32)) for _ in range(2))
        ratios = []
        for M in Ms:
            new = world.time(M, N, K, rng.uniform(0.1, 0.6))
            old = new * rng.uniform(1.0, 3.5)
            ratios.append(f"{old / new:.2f}×" if old / new > 1.05 else "~1.0×*")
            if rng.random() < 0.3:
                cells.append([name, str(K), str(N), str(M), f"{new * 1e6:.2f}", f"{old * 1e6:.2f}"])
        rows.append([name, str(K), str(N), *ratios])
    parts = ["## Speedup\n", render(rng, ["proj", "K", "N", *(f"M={M}" for M in Ms)], rows)]
    if len(cells) > 2:
        parts += ["## Times\n", render(rng, ["proj", "K", "N", "M", "hip_us", "triton_us"], cells)]
    return Planted("\n".join(parts), world.setting())


def grouped(rng) -> Planted:
    """Grouped GEMMs whose M is the total, said by the header, with the kernel and the call around it."""
    world = World(rng)
    rows = []
    for M, N, K in world.sizes(int(rng.integers(3, 10))):
        for experts in (8, 16)[: int(rng.integers(1, 3))]:
            kernel = world.time(M, N, K, experts=experts)
            call = kernel + rng.uniform(5e-6, 5e-5)
            rate = 2.0 * M * N * K / kernel / 1e12
            rows.append(
                [str(experts), str(M), str(N), str(K), f"{kernel * 1e6:.1f}", f"{call * 1e6:.1f}", f"{rate:.2f}"]
            )
    header = ["E", "tokens", "N", "K", "kernel_us", "total_us", "kernel TFLOPS"]
    return Planted(render(rng, header, rows), world.setting())


HONEST = {"three ways": three_ways, "grid": grid, "grouped": grouped}
