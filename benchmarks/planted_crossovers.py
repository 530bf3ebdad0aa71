"""Crossovers whose truth is known: how often brackets and intervals contain it, and how far estimates are off.

    python benchmarks/planted_crossovers.py [--suites 300]

prints the tables of docs/crossover.md. Shapes cross at octaves drawn from a normal population of which a given share
lies beyond the last M (censored); ln of the time ratio follows one of `CURVES` over log2 M, with noise per round.
`tests/analysis/crossover/test_planted_crossovers.py` compares the tables with the page, and holds the shares to bounds.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from options import options
from rooflens.analysis.crossover.across_shapes import median_crossover
from rooflens.analysis.crossover.curve import Crossing, CrossoverStatus, Region, bracket, locate
from rooflens.analysis.crossover.refine import MOST, RATIO, next_sizes
from rooflens.shapes.median import interval
from scipy.stats import norm, t

LAST_OCTAVE = 11
MS = tuple(2**octave for octave in range(LAST_OCTAVE + 1))
COARSE = MS[::2]
SPREAD = 3.0
"""Standard deviation of the crossovers of a population, in octaves."""

CURVES: dict[str, Callable[[float, float], float]] = {
    "line": lambda x, slope: slope * x,
    "kink, steeper above": lambda x, slope: slope * x * (4 if x > 0 else 1),
    "kink, steeper below": lambda x, slope: slope * x * (4 if x < 0 else 1),
    "step": lambda x, slope: slope * x / 4 + math.copysign(slope / 2, x),
    "flat tails": lambda x, slope: slope * math.tanh(x),
    "tiles of 64": lambda x, slope: slope * x,
    "noise with tails": lambda x, slope: slope * x,
}
"""y at x octaves above the crossover; the rows of tiles are rounded up, and `noise with tails` is Student's t, 3 df."""


@dataclass(frozen=True)
class Noise:
    """Rounds, standard deviation of ln ratio from round to round, and the slopes (nats per octave) of shapes."""

    rounds: int = 5
    ratio: float = 0.014
    slopes: tuple[float, float] = (0.1, 0.5)


def population(censored: float) -> float:
    """Median octave of a population of which the share `censored` crosses beyond the last M."""
    return float(LAST_OCTAVE - SPREAD * norm.ppf(1 - censored))


class Shape:
    """One shape: measuring an M gives y and its 95 % interval, drawn once."""

    def __init__(
        self, generator: np.random.Generator, octave: float, noise: Noise, tile: int = 0, curve: str = "line"
    ) -> None:
        self.octave, self._noise, self._generator = octave, noise, generator
        self.tile, self._curve = 64 if curve == "tiles of 64" else tile, curve
        self._slope = generator.uniform(*noise.slopes)
        self.points: dict[int, tuple[float, float]] = {}

    def measure(self, *sizes: int) -> None:
        """Draw the rounds of each size."""
        draw = self._generator
        for size in sizes:
            # Time follows whole tiles, so that the winner changes at the end of one.
            rows = math.ceil(size / self.tile) * self.tile if self.tile else size
            y = CURVES[self._curve](math.log2(rows) - self.octave, self._slope)
            tails = self._curve == "noise with tails"
            noise = draw.standard_t(3, self._noise.rounds) if tails else draw.normal(size=self._noise.rounds)
            drawn = y + self._noise.ratio * noise
            self.points[size] = float(drawn.mean()), float(drawn.std(ddof=1) / math.sqrt(self._noise.rounds))

    def crossing(self) -> Crossing:
        """Locate the crossover in what is measured."""
        sizes = sorted(self.points)
        y, se = (np.array([self.points[size][part] for size in sizes]) for part in (0, 1))
        half = se * t.ppf(0.975, self._noise.rounds - 1)
        return locate(sizes, y, y - half, y + half)

    def refine(self, ratio: float = RATIO, most: int = MOST) -> list[int]:
        """Measure further M as `rooflens run --refine crossover` does; return them."""
        added: list[int] = []
        tiles = [self.tile] if self.tile else []

        def free(size: int) -> bool:
            return size not in added

        while len(added) < most:
            found = self.crossing()
            if found.crossover_M is None:
                break
            wanted = next_sizes(int(found.low_M), int(found.high_M), self.points, free, tiles, ratio)
            if not wanted:
                break
            wanted = wanted[: most - len(added)]
            added += wanted
            self.measure(*wanted)
        return added

    def is_held_by(self, regions: Sequence[Region]) -> bool:
        """True where the bracket contains the crossover, as does one that is open; what is undecided claims nothing."""
        ends = bracket(regions, CrossoverStatus.BELOW)
        return not regions or (ends is not None and ends[0] <= self.true_M <= ends[1])

    @property
    def true_M(self) -> float:
        """Last M at which the challenger wins, as a real number; of tiled shapes, the end of a tile."""
        exact = 2.0**self.octave
        return math.floor(exact / self.tile) * self.tile if self.tile else exact


def suite(
    generator: np.random.Generator,
    noise: Noise,
    middle: float,
    spread: float = SPREAD,
    sizes: Sequence[int] = MS,
    curves: Sequence[str] = ("line",),
) -> list[Shape]:
    """Draw and sweep the 40 shapes of one suite around the octave `middle`; they take turns at the curves."""
    octaves = generator.normal(middle, spread, 40)
    found = [Shape(generator, one, noise, curve=curves[i % len(curves)]) for i, one in enumerate(octaves)]
    for shape in found:
        shape.measure(*sizes)
    return found


def frame(shapes: Sequence[Shape], crossings: Sequence[Crossing]) -> pd.DataFrame:
    """Rows as `crossovers.crossovers` makes them, as far as the median reads them."""
    fixed = {
        "challenger": "a", "incumbent": "b", "model": "m", "op": "gemm", "pass": "fwd", "B": 1, "E": 1, "top_k": 1,
        "N": 64, "K": 96, "dtype": "bf16", "scheme": "nf4-g64", "cache": "cold", "M_min": 1.0,
        "M_max": float(MS[-1]), "missing": 0, "refined": 0, "warnings": (),
    }  # fmt: skip
    rows = [
        fixed
        | {
            "layer": str(number),
            "Ms": tuple(shape.points),
            "log_ratios": tuple(y for y, _ in shape.points.values()),
            "status": one.status.value,
            "crossover_M": math.nan if one.crossover_M is None else one.crossover_M,
            "low_M": one.low_M,
            "high_M": one.high_M,
            "regions": one.regions,
            "undecided": one.undecided,
        }
        for number, (shape, one) in enumerate(zip(shapes, crossings, strict=True))
    ]
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Outcome:
    """What came of one suite.

    error     octaves between the found and the true median of these shapes, what lies beyond the last M counted as
              beyond it in both; NaN where the true one lies beyond
    covered   the interval of the median contains the median of the population
    estimated whether that of the estimates, without their brackets, does
    held      share of the shapes whose own bracket contains their crossover
    several   share of the shapes with more than one verified change, of which none is true
    dropped   octaves by which the median of the shapes that cross within the sweep is off
    """

    error: float
    covered: bool
    estimated: bool
    held: float
    several: float
    dropped: float


def outcome(shapes: list[Shape], middle: float) -> Outcome:
    """Compare what is found with what was planted, around the octave `middle`."""
    crossings = [shape.crossing() for shape in shapes]
    found = median_crossover(frame(shapes, crossings))
    octaves = np.array([shape.octave for shape in shapes])
    true = float(np.median(np.where(octaves > LAST_OCTAVE, np.inf, octaves)))
    low, high, point, bounds = found.low_M, found.high_M, found.median_M, interval(found.places)
    assert low is not None
    assert high is not None
    assert point is not None
    assert bounds is not None
    kept = [math.log2(one.crossover_M) for one in crossings if one.crossover_M]
    return Outcome(
        error=math.log2(point) - true if math.isfinite(true) and point else math.nan,
        covered=low <= 2**middle <= high,
        estimated=bounds[0] <= 2**middle <= bounds[1],
        held=float(np.mean([at.is_held_by(one.regions) for one, at in zip(crossings, shapes, strict=True)])),
        several=float(np.mean([len(one.regions) > 2 for one in crossings])),
        dropped=abs(float(np.median(kept)) - float(np.median(octaves))),
    )


def curve_rows(shapes: int) -> Iterator[str]:
    """Per curve and sweep, for shapes that cross between M=64 and 1024: brackets that hold, and errors of estimates."""
    for name in CURVES:
        generator = np.random.default_rng(3)
        cells = []
        for sizes in (MS, COARSE):
            held, errors = [], []
            for octave in generator.uniform(6.1, 9.9, shapes):
                shape = Shape(generator, octave, Noise(), curve=name)
                shape.measure(*sizes)
                found = shape.crossing()
                held.append(shape.is_held_by(found.regions))
                if found.crossover_M:
                    errors.append(math.log2(found.crossover_M / shape.true_M))
            near, rms = np.mean(np.abs(errors) < 0.1), np.sqrt(np.mean(np.square(errors)))
            cells += [f"{np.mean(held):.1%}", f"{near:.0%}", f"{rms:.2f}"]
        yield _row(name, *cells)


def median_rows(suites: int) -> Iterator[str]:
    """Suites of 40 shapes by rounds and share beyond the last M."""
    for rounds, censored in ((3, 0.4), (5, 0.4), (8, 0.4), (5, 0.1), (5, 0.45)):
        generator = np.random.default_rng(rounds)
        middle = population(censored)
        found = [outcome(suite(generator, Noise(rounds), middle), middle) for _ in range(suites)]
        errors = np.array([one.error for one in found])
        errors = errors[~np.isnan(errors)]
        rms = np.sqrt(np.mean(errors[np.isfinite(errors)] ** 2))
        dropped, covered = (np.mean([getattr(one, name) for one in found]) for name in ("dropped", "covered"))
        near = np.mean(np.abs(errors) < 0.1)
        yield _row(rounds, f"{censored:.0%}", f"{near:.1%}", f"{rms:.3f}", f"{dropped:.2f}", f"{covered:.1%}")


def spread_rows(suites: int) -> Iterator[str]:
    """Suites of shapes with all curves, by the spread of their crossovers and the M of the sweep."""
    for spread, sizes in ((3.0, MS), (1.0, MS), (1.0, COARSE), (0.3, COARSE)):
        generator = np.random.default_rng(5)
        drawn = (suite(generator, Noise(), 7.3, spread, sizes, [*CURVES]) for _ in range(suites))
        found = [outcome(shapes, 7.3) for shapes in drawn]
        covered, estimated = (np.mean([getattr(one, name) for one in found]) for name in ("covered", "estimated"))
        yield _row(spread, sizes[1], f"{covered:.1%}", f"{estimated:.1%}")


def refined_rows(shapes: int) -> Iterator[str]:
    """Refined shapes that cross between M=64 and 1024; with tiles, at the end of one."""
    for rounds, tile in ((3, 0), (5, 0), (8, 0), (5, 16), (3, 64), (8, 64)):
        generator = np.random.default_rng(rounds)
        before, after, added, held, exact = [], [], [], [], []
        for octave in generator.uniform(6, 10, shapes):
            shape = Shape(generator, octave, Noise(rounds), tile)
            shape.measure(*MS)
            first = shape.crossing()
            if first.crossover_M is None:
                continue
            added.append(len(shape.refine()))
            last = shape.crossing()
            before.append(first.high_M / first.low_M)
            after.append(last.high_M / last.low_M)
            held.append(shape.is_held_by(last.regions))
            exact.append(last.low_M == shape.true_M and last.high_M == shape.true_M + 1)
        ends = f"{np.median(before):.2f}, {np.median(after):.2f}"
        at_tile = f"{np.mean(exact):.0%}" if tile else ""
        yield _row(rounds, tile or "none", f"{np.mean(added):.1f}", ends, f"{np.mean(held):.1%}", at_tile)


def _row(*cells: object) -> str:
    return " ".join(f"| {cell}".rstrip().replace("%", " %") for cell in cells) + " |"


def main() -> None:
    suites = options(__doc__, suites=300).suites
    for rows, count in (
        (curve_rows, 2 * suites),
        (spread_rows, suites),
        (median_rows, suites),
        (refined_rows, 2 * suites),
    ):
        print(f"{rows.__doc__}\n")
        print("\n".join(rows(count)), "\n")


if __name__ == "__main__":
    main()
