"""Random tables of which it is known what is wrong with them: a model of times, printed with rounding, and one fault.

Every scenario makes a table that holds, and with `fault=True` the same kind of table with one thing wrong.
"""

from .worlds import (
    LAUNCH_S,
    Planted,
    Sweep,
    World,
    joined,
    markdown,
    places,
    printed,
    render,
)


def comparison(rng, fault):
    """Two sides, speedup and TFLOPS; the fault is one number that follows from nothing."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(4, 14)), digits=int(rng.integers(3, 6)))
    speedups = [base / head for base, head in zip(sweep.base, sweep.head, strict=True)]
    rates = [sweep.rates(times) for times in (sweep.base, sweep.head)]
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
            *sweep.columns(),
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
        rates = [printed(one, 1) for one in sweep.rates(sweep.head)]
        text = render(rng, ["M", "N", "K", "TFLOPS"], joined(sweep.sized(), rates))
    else:
        text = render(rng, sweep.header(), joined(*sweep.columns()))
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
    text = render(rng, sweep.header(), joined(*sweep.columns()))
    return Planted(text, world.setting(weight_bits=bits, activation_bits=bits), rows)


def percent_of_peak(rng, fault):
    """A column with a share of a peak; the fault is a peak of some other part."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(3, 10)))
    wrong = world.peak * float(rng.choice([0.4, 0.5, 0.75, 1.3, 2.0]))
    peak = wrong if fault else world.peak
    rates = sweep.rates(sweep.head)
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
        joined(*sweep.columns(), [f"{one:.2f}x" for one in values]),
    )
    return Planted(text, world.setting())


def repeated_rows(rng, fault):
    """A sweep in which one case appears twice, with the same times or with others."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(4, 12)), digits=5)
    rows = joined(*sweep.columns())
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
    return Planted(markdown(["server", "latency (ms)", "tok/s"], cells), world.setting(), rows)


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
    return Planted(markdown(["case", "latency"], joined(names, texts)), world.setting(), rows)


def pattern(rng, fault):
    """A product of two columns that one row does not have, or one time in another unit."""
    return (proportion if rng.random() < 0.5 else odd_unit)(rng, fault)


def zeros(rng, fault):
    """Times and TFLOPS; the fault is a 0, or inf, in place of the time, or of the TFLOPS."""
    world = World(rng)
    sweep = Sweep(world, int(rng.integers(4, 12)), digits=5)
    rates = [printed(one, 1) for one in sweep.rates(sweep.head)]
    times, rows = sweep.texts(sweep.head), []
    if fault:
        row = int(rng.integers(sweep.count))
        of, text = [(times, "0.0"), (times, "-1"), (times, "inf"), (rates, "0.0")][int(rng.integers(4))]
        of[row], rows = text, [sweep.label(row)]
    header = [*sweep.header()[:3], sweep.header()[4], "TFLOPS"]
    return Planted(render(rng, header, joined(sweep.sized(), times, rates)), world.setting(), rows)


SCENARIOS = {
    "zeros": zeros,
    "above-peak": above_peak,
    "above-bandwidth": above_bandwidth,
    "percent-of-peak": percent_of_peak,
    "does-not-follow": comparison,
    "ratio-label": ratio_label,
    "repeated-rows": repeated_rows,
    "copied-numbers": copied_numbers,
    "pattern": pattern,
}
"""Rule: the scenario whose fault it is."""
