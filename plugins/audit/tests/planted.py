"""Random tables of which it is known what is wrong with them: a model of times, printed with rounding, and one fault.

Every scenario makes a table that holds, and with `fault=True` the same kind of table with one thing wrong.
"""

import numpy as np
from rooflens.shapes.problem import Op

from .worlds import LAUNCH_S, Planted, Sweep, World, joined, places, printed, render


def comparison(rng, fault):
    """Two sides, speedup and TFLOPS; the fault is one number that follows from nothing."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(4, 14)), digits=int(rng.integers(3, 6)))
    speedups = [base / head for base, head in zip(sweep.base, sweep.head, strict=True)]
    rates = [
        [sweep.rate(shape, time) for shape, time in zip(sweep.shapes, times, strict=True)]
        for times in (sweep.base, sweep.head)
    ]
    rows = []
    if fault:
        row = int(rng.integers(sweep.count))
        factor = float(rng.choice([0.9, 1.1, 0.7, 1.4]))
        if rng.random() < 0.5:
            speedups[row] *= factor
        else:
            rates[1][row] *= factor
        rows = [sweep.label(row)]
    text = render(
        rng,
        [*sweep.header(), "Speedup", sweep.named(0, "TFLOPS"), sweep.named(1, "TFLOPS")],
        joined(
            sweep.sized(),
            sweep.texts(sweep.base),
            sweep.texts(sweep.head),
            [f"{one:.2f}x" for one in speedups],
            *([printed(one, 1) for one in side] for side in rates),
        ),
    )
    return Planted(text, world.setting(), rows)


def above_peak(rng, fault):
    """A time in which the device cannot do the FLOPs."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(4, 12)), digits=5)
    rows = []
    if fault:
        row = int(rng.integers(sweep.count))
        M, N, K = sweep.shapes[row]
        sweep.head[row] = 2 * M * N * K / (world.peak * rng.uniform(1.02, 2.5))
        rows = [sweep.label(row)]
    if rng.random() < 0.5:
        rates = [sweep.rate(shape, time) for shape, time in zip(sweep.shapes, sweep.head, strict=True)]
        text = render(rng, ["M", "N", "K", "TFLOPS"], joined(sweep.sized(), [printed(one, 1) for one in rates]))
    else:
        text = render(rng, sweep.header(), joined(sweep.sized(), sweep.texts(sweep.base), sweep.texts(sweep.head)))
    return Planted(text, world.setting(), rows)


def above_bandwidth(rng, fault):
    """A GEMV that reads its weights faster than the memory gives them."""
    world = World(rng)
    wide = [[int(1024 * rng.integers(8, 32)) for _ in "NK"] for _ in range(7)]
    shapes = sorted({(int(rng.choice([1, 2, 4, 8])), N, K) for N, K in wide})
    sweep = Sweep(world, len(shapes), shapes=shapes)
    bits = int(rng.choice([8, 16]))
    least = [N * K * bits / 8 / world.bandwidth for _, N, K in sweep.shapes]
    sweep.head = [LAUNCH_S + time / rng.uniform(0.3, 0.85) for time in least]
    sweep.base = [time * rng.uniform(1.0, 2.0) for time in sweep.head]
    rows = []
    if fault:
        row = int(rng.integers(sweep.count))
        sweep.head[row] = least[row] / rng.uniform(1.05, 4)
        rows = [sweep.label(row)]
    sweep.decimals = places([*sweep.head, *sweep.base], sweep.unit, 5)
    text = render(rng, sweep.header(), joined(sweep.sized(), sweep.texts(sweep.base), sweep.texts(sweep.head)))
    return Planted(text, world.setting(weight_bits=bits, activation_bits=bits), rows)


def launch_floor(rng, fault):
    """TFLOPS of small batched GEMMs: flat times with the fault, else times that grow with the work."""
    world = World(rng)
    Ms = [int(one) for one in rng.choice([1, 8, 16, 32, 64, 128], size=4, replace=False)]
    shapes = [(B, M, 512, 256) for B in (8, 16, 32, 64) for M in sorted(Ms)]
    floor = rng.uniform(8e-6, 4e-5)
    decimals = int(rng.integers(3, 5))
    rows = []
    for B, M, N, K in shapes:
        work = 2 * B * M * N * K
        grown = work / (0.02 * world.peak) + 2.0 * B * N * K / (0.05 * world.bandwidth)
        time = floor * rng.uniform(0.97, 1.03) if fault else (1e-4 + 40 * grown) * rng.uniform(0.98, 1.02)
        rows.append([str(B), str(M), str(N), str(K), time, work / time / 1e12])
    header = ["B", "M", "N", "K", "TFLOPS"]
    cells = [[*row[:4], printed(row[5], decimals + 2)] for row in rows]
    if rng.random() < 0.5:
        header.insert(4, "time (us)")
        cells = [[*row[:4], printed(row[4] * 1e6, 2), printed(row[5], decimals + 2)] for row in rows]
    return Planted(render(rng, header, cells), world.setting())


def percent_of_peak(rng, fault):
    """A column with a share of a peak; the fault is a peak of some other part."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(3, 10)))
    wrong = world.peak * float(rng.choice([0.4, 0.5, 0.75, 1.3, 2.0]))
    peak = wrong if fault else world.peak
    rates = [sweep.rate(shape, time) for shape, time in zip(sweep.shapes, sweep.head, strict=True)]
    shares = [100 * rate * 1e12 / peak for rate in rates]
    text = render(
        rng,
        ["M", "N", "K", "TFLOPS", "% of peak"],
        joined(sweep.sized(), [printed(one, 1) for one in rates], [f"{one:.1f}%" for one in shares]),
    )
    return Planted(text, world.setting())


def ratio_label(rng, fault):
    """A quotient of two times in the direction that its header says, or in the other one."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(3, 12)), gain=(1.3, 3.0))
    old, new = sweep.sides
    written = rng.random() < 0.6 and " " not in new
    header = f"{new}/{old}" if written else "Speedup"
    time_ratio = [head / base for base, head in zip(sweep.base, sweep.head, strict=True)]
    upward = written == fault
    values = [1 / one if upward else one for one in time_ratio]
    text = render(
        rng,
        [*sweep.header(), header],
        joined(sweep.sized(), sweep.texts(sweep.base), sweep.texts(sweep.head), [f"{one:.2f}x" for one in values]),
    )
    return Planted(text, world.setting())


def contradictory_changes(rng, fault):
    """Time reduction and gain of one change; the fault computes the first from times of two digits."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(3, 12)), gain=(1.03, 1.3))
    coarse = places([*sweep.head, *sweep.base], sweep.unit, 2)
    gains = [100 * (base / head - 1) for base, head in zip(sweep.base, sweep.head, strict=True)]
    reductions = [100 * (1 - head / base) for base, head in zip(sweep.base, sweep.head, strict=True)]
    if fault:
        rounded = [[round(time / sweep.unit, coarse) for time in times] for times in (sweep.base, sweep.head)]
        reductions = [100 * (1 - head / base) for base, head in zip(*rounded, strict=True)]
    implied = [100 * (1 / (1 - one / 100) - 1) for one in reductions]
    rows = [sweep.label(row) for row in range(sweep.count) if abs(implied[row] - gains[row]) > 0.03]
    if fault and not rows:  # rounding did no harm
        return contradictory_changes(rng, fault)
    text = render(
        rng,
        ["M", "N", "K", "Time reduction", "TFLOPS gain"],
        joined(sweep.sized(), [f"{one:+.2f}%" for one in reductions], [f"{one:+.2f}%" for one in gains]),
    )
    return Planted(text, world.setting(), rows[:1] if fault else [])


def counts(rng, fault):
    """A cell that counts, or a last row that averages, the changes of a table."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(6, 20)), gain=(0.9, 1.25))
    gains = [100 * (base / head - 1) for base, head in zip(sweep.base, sweep.head, strict=True)]
    cells = joined(sweep.sized(), [f"{one:+.2f}%" for one in gains])
    header = ["M", "N", "K", "Gain"]
    if rng.random() < 0.5:
        name, value = [("mean", np.mean), ("median", np.median), ("max", np.max)][rng.integers(3)]
        last = float(value(gains)) + (float(rng.choice([-1, 1])) * rng.uniform(0.1, 5) if fault else 0.0)
        cells.append([name, "", "", f"{last:+.2f}%"])
        style = rng.choice(["markdown", "csv"])
        if style == "csv":
            return Planted("\n".join(",".join(row) for row in [header, *cells]) + "\n", world.setting())
        lines = [header, ["---"] * 4, *cells]
        return Planted("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n", world.setting())
    threshold = int(rng.choice([1, 2, 5, 10]))
    count = sum(round(one, 2) >= threshold for one in gains)
    if fault:
        count = int(rng.choice([one for one in range(len(gains) + 1) if one != count]))
    lines = [header, ["---"] * 4, *cells]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    said = f"| what | where |\n|---|---|\n| {count}/{len(gains)} shapes are >= +{threshold}% | here |\n"
    text = f"Results:\n\n{table}\n\n{said}"
    return Planted(text, world.setting())


def below_resolution(rng, fault):
    """Times of few digits: the fault computes changes from them, else they come from the unrounded ones."""
    world = World(rng)
    count = int(rng.integers(5, 14))
    sweep = Sweep(world, count, digits=2, gain=(1.05, 1.4))
    step = 10.0**-sweep.decimals * sweep.unit
    row = int(np.argmin(sweep.head))
    sweep.head[row] = round(sweep.head[row] / step) * step
    sweep.base[row] = sweep.head[row] + step * int(rng.integers(1, 3))
    changes = []
    for base, head in zip(sweep.base, sweep.head, strict=True):
        if fault:
            base, head = (round(time / step) * step for time in (base, head))
        elif abs(round(base / step) - base / step) < 1e-6:  # what was measured is not on the grid of what is printed
            base, head = (time + step * rng.uniform(-0.45, 0.45) for time in (base, head))
        changes.append(100 * (1 - head / base))
    text = render(
        rng,
        [*sweep.header(), "Time reduction"],
        joined(sweep.sized(), sweep.texts(sweep.base), sweep.texts(sweep.head), [f"{one:+.2f}%" for one in changes]),
    )
    return Planted(text, world.setting(), [sweep.label(row)] if fault else [])


def m_convention(rng, fault):
    """Grouped GEMMs with doubled experts; the fault takes M as the total and counts FLOPs for every expert."""
    world = World(rng)
    rows = []
    for _ in range(int(rng.integers(2, 5))):
        M, N, K = (int(1024 * rng.integers(2, 9)) for _ in range(3))
        share = rng.uniform(0.05, 0.09) if fault else rng.uniform(0.3, 0.8)
        for experts in (4, 8):
            total = M if fault else M * experts
            time = world.time(total, N, K, share * rng.uniform(0.98, 1.02), experts)
            flops = 2 * experts * M * N * K
            rows.append([str(experts), str(M), str(N), str(K), printed(time * 1e3, 4), printed(flops / time / 1e12, 1)])
    rows = list({tuple(row[:4]): row for row in rows}.values())
    text = render(rng, ["E", "M", "N", "K", "time (ms)", "TFLOPS"], rows)
    return Planted(text, world.setting(Op.GROUPED_GEMM))


def part_above_whole(rng, fault):
    """Two tables of one text: a kernel and the forward pass around it."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(3, 9)))
    whole = [time * rng.uniform(1.03, 1.6) for time in sweep.head]
    rows = []
    if fault:
        row = int(rng.integers(sweep.count))
        whole[row] = sweep.head[row] * rng.uniform(0.6, 0.98)
        rows = [sweep.label(row)]
    header = ["M", "N", "K", "New (ms)"]
    decimals = places([*whole, *sweep.head], 1e-3, 4)
    tables = [joined(sweep.sized(), [printed(time * 1e3, decimals) for time in times]) for times in (sweep.head, whole)]
    titles = ("GEMM kernel only", "Forward, end to end")
    parts = [f"## {title}\n\n{render(rng, header, cells)}" for title, cells in zip(titles, tables, strict=True)]
    return Planted("\n".join(parts), world.setting(), rows)


def implausibly_slow(rng, fault):
    """Times in us under a header that says ms, with the fault; else kernels at a twentieth of the roof or better."""
    world = World(rng)
    shapes = world.sizes(int(rng.integers(1, 8)), least_s=5e-5)
    times = [world.time(*shape, share=rng.uniform(0.06, 0.7)) * (1e3 if fault else 1) for shape in shapes]
    decimals = places(times, 1e-3, 4)
    rows = [[*map(str, shape), printed(time * 1e3, decimals)] for shape, time in zip(shapes, times, strict=True)]
    return Planted(render(rng, ["M", "N", "K", "time (ms)"], rows), world.setting())


def equal_times(rng, fault):
    """A column in which one time was copied to several sizes."""
    world = World(rng)
    shapes = sorted({(2048 * m, 4096, 4096) for m in range(1, 12)})
    times = [world.time(*shape, share=rng.uniform(0.3, 0.6)) for shape in shapes]
    if fault:
        for row in rng.choice(range(1, len(times) - 1), size=3, replace=False):
            times[int(row)] = times[-1]
        times[0] = times[-1]
    decimals = places(times, 1e-3, 5)
    rows = [[*map(str, shape), printed(time * 1e3, decimals)] for shape, time in zip(shapes, times, strict=True)]
    return Planted(render(rng, ["M", "N", "K", "time (ms)"], rows), world.setting())


def repeated_rows(rng, fault):
    """A sweep in which one case appears twice, with the same times or with others."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(4, 12)), digits=5)
    rows = joined(sweep.sized(), sweep.texts(sweep.base), sweep.texts(sweep.head))
    header, named = sweep.header(), []
    if rng.random() < 0.5:  # the same sizes with two types are two cases
        header.insert(3, "dtype")
        others = joined(
            sweep.sized(), *(sweep.texts([1.01 * one for one in side]) for side in (sweep.base, sweep.head))
        )
        rows = [
            [*row[:3], dtype, *row[3:]]
            for pair in zip(rows, others, strict=True)
            for row, dtype in zip(pair, ("bf16", "fp16"), strict=True)
        ]
    if fault:
        at = int(rng.integers(len(rows)))
        others = [f"{float(one) * 1.1:.4f}" for one in rows[at][-2:]]
        again = rows[at] if rng.random() < 0.5 else [*rows[at][:-2], *others]
        rows.insert(int(rng.integers(at + 1, len(rows) + 1)), again)
        M, N, K = rows[at][:3]
        named = [f"M={M} N={N} K={K}"]
    return Planted(render(rng, header, rows), world.setting(), named)


def copied_numbers(rng, fault):
    """A sweep in which one row has the times of another, or one side those of the other."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(4, 12)), digits=5)
    base, head = sweep.texts(sweep.base), sweep.texts(sweep.head)
    named = []
    if fault and rng.random() < 0.5:
        head = base
    elif fault:
        first, second = sorted(rng.choice(sweep.count, size=2, replace=False))
        base[second], head[second] = base[first], head[first]
        named = [sweep.label(int(second))]
    return Planted(render(rng, sweep.header(), joined(sweep.sized(), base, head)), world.setting(), named)


def proportion(rng, fault):
    """Latency and tokens per second of servers under one load; one of the two is printed wrong."""
    world = World(rng)
    times = rng.uniform(0.01, 0.4, int(rng.integers(4, 12)))
    rates = 2048 / times
    rows = []
    if fault:
        row = int(rng.integers(len(times)))
        rates[row] *= float(rng.choice([0.8, 1.3, 1.6, 10.0]))
        rows = [f"server {chr(97 + row)}"]
    cells = joined(
        [f"server {chr(97 + at)}" for at in range(len(times))],
        [f"{1e3 * time:.2f}" for time in times],
        [f"{rate:.1f}" for rate in rates],
    )
    lines = [["server", "latency (ms)", "tok/s"], ["---"] * 3, *cells]
    return Planted("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n", world.setting(), rows)


def winner(rng, fault):
    """Two sides and the name of the faster one; the fault is another name in one row."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(4, 12)), digits=5)
    sweep.sides = ("cuBLAS", "ours")
    names = [sweep.sides[int(base > head)] for base, head in zip(sweep.base, sweep.head, strict=True)]
    rows = []
    if fault:
        row = int(np.argmax([abs(base / head - 1) for base, head in zip(sweep.base, sweep.head, strict=True)]))
        names[row] = sweep.sides[int(names[row] == "cuBLAS")]
        rows = [sweep.label(row)]
    cells = joined(sweep.sized(), sweep.texts(sweep.base), sweep.texts(sweep.head), names)
    return Planted(render(rng, [*sweep.header(), "best"], cells), world.setting(), rows)


def order(rng, fault):
    """Quantiles of latencies; the fault is two of a row that changed places."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(3, 12)), digits=5)
    quantiles = [sorted(time * rng.uniform(1, 1.5, 4)) for time in sweep.head]
    rows = []
    if fault:
        row, at = int(rng.integers(sweep.count)), int(rng.integers(3))
        quantiles[row][at : at + 2] = 1.01 * quantiles[row][at + 1], quantiles[row][at]
        rows = [sweep.label(row)]
    unit = sweep.unit_name
    header = ["M", "N", "K", *(f"{name} ({unit})" for name in ("min", "p50", "p90", "max"))]
    cells = joined(sweep.sized(), *(sweep.texts([one[at] for one in quantiles]) for at in range(4)))
    return Planted(render(rng, header, cells), world.setting(), rows)


def odd_unit(rng, fault):
    """A sweep with the unit in each cell, of which one has another."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(5, 12)), digits=4)
    times = sorted(rng.uniform(20.0, 90.0, sweep.count))
    texts = [f"{time:.1f} us" for time in times]
    rows = []
    if fault:
        row = int(rng.integers(1, sweep.count - 1))
        texts[row] = texts[row].replace("us", "ms")
        rows = [f"case {row}"]
    names = [f"case {at}" for at in range(sweep.count)]
    lines = [["case", "latency"], ["---"] * 2, *joined(names, texts)]
    return Planted("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n", world.setting(), rows)


def pattern(rng, fault):
    """A product of two columns that one row does not have, or one time in another unit."""
    return (proportion if rng.random() < 0.5 else odd_unit)(rng, fault)


SCENARIOS = {
    "above-peak": above_peak,
    "above-bandwidth": above_bandwidth,
    "m-convention": m_convention,
    "part-above-whole": part_above_whole,
    "percent-of-peak": percent_of_peak,
    "does-not-follow": comparison,
    "ratio-label": ratio_label,
    "contradictory-changes": contradictory_changes,
    "counts": counts,
    "below-resolution": below_resolution,
    "launch-floor": launch_floor,
    "implausibly-slow": implausibly_slow,
    "equal-times": equal_times,
    "repeated-rows": repeated_rows,
    "copied-numbers": copied_numbers,
    "pattern": pattern,
    "winner": winner,
    "order": order,
}
"""Rule: the scenario whose fault it is."""
