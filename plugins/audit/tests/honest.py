"""Random texts with several tables that all hold, with the habits that mislead a hasty reader.

Two passes and their sum, gains of gmeans per model, a summary of all cases, counts in a cell, failed cells, a third
column with its own ratio, grids over M, bandwidths, thousands with commas, and ratios computed from what is printed.
"""

from statistics import fmean, median

import numpy as np

from .worlds import Planted, World, joined, places, printed, render

FLOPS = {"fwd": 2, "bwd": 4}


def training(rng) -> Planted:
    """Changes of two passes and the step, with gmeans per model, a summary and counts."""
    world = World(rng)
    models = [f"Model-{letter}" for letter in "ABC"[: int(rng.integers(2, 4))]]
    rows = []
    for number, (M, N, K) in enumerate(world.sizes(int(rng.integers(8, 24)))):
        base = {p: world.time(M, N, K) * FLOPS[p] / 2 for p in FLOPS}
        head = {p: base[p] / rng.uniform(0.95, 1.3) for p in FLOPS}
        for side in (base, head):
            side["step"] = sum(side.values())
        rows.append((number + 1, models[number % len(models)], (M, N, K), base, head))

    def gain(row, name):
        return 100 * (row[3][name] / row[4][name] - 1)

    def rate(row, side):
        return 6 * np.prod([float(size) for size in row[2]]) / row[side]["step"] / 1e12

    shown = sorted(rows, key=lambda row: -gain(row, "step"))[: int(rng.integers(4, 9))]
    movers = render(
        rng,
        ["TestID", "Case", "M", "N", "K", "main comb", "this PR comb", "Δ comb", "Δ fwd", "Δ bwd"],
        [
            [str(row[0]), row[1], *map(str, row[2]), f"{rate(row, 3):.1f}", f"{rate(row, 4):.1f}"]
            + [f"{gain(row, name):+.2f}%" for name in ("step", "fwd", "bwd")]
            for row in shown
        ],
    )
    per_model = []
    for model in models:
        means = [np.exp(fmean(np.log([rate(row, side) for row in rows if row[1] == model]))) for side in (3, 4)]
        count = sum(row[1] == model for row in rows)
        per_model.append(
            [model, str(count), *(f"{one:.1f}" for one in means), f"{100 * (means[1] / means[0] - 1):+.2f}%"]
        )
    summary = []
    for name, word in (("fwd", "Forward"), ("bwd", "Backward"), ("step", "Step")):
        gains = [gain(row, name) for row in rows]
        statistics = (fmean(gains), median(gains), min(gains), max(gains))
        summary.append([f"{word} TFLOPS gain", *(f"{one:+.2f}%" for one in statistics)])
        losses = [100 * (1 - row[4][name] / row[3][name]) for row in rows]
        statistics = (fmean(losses), median(losses), min(losses), max(losses))
        summary.append([f"{word} time reduction", *(f"{one:+.2f}%" for one in statistics)])
    threshold = int(rng.choice([1, 2, 5]))
    count = sum(round(gain(row, "bwd"), 2) >= threshold for row in rows)
    said = f"| what | where |\n|---|---|\n| {count}/{len(rows)} shapes are >= +{threshold}% on bwd | here |\n"
    parts = [
        "# Best movers\n",
        _fenced(movers),
        "## Per model\n",
        render(rng, ["Model", "n", "main cmb gmean", "this PR cmb gmean", "delta"], per_model),
        f"## Changes over the same {len(rows)} shapes\n",
        render(rng, ["Metric", "Mean", "Median", "Min", "Max"], summary),
        said,
    ]
    return Planted("\n".join(parts), world.setting())


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
    return Planted(f"# Results\n\n{_fenced(table)}\n" if "," not in header else table, world.setting())


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


def _fenced(table: str) -> str:
    return f"{table}\n"


HONEST = {"training": training, "three ways": three_ways, "grid": grid, "grouped": grouped}
