"""Crossovers whose truth is known: how far the median over shapes is off, and how often intervals hold the truth.

    python benchmarks/planted_crossovers.py [--suites 500]

Shapes cross at octaves drawn from a normal population of which a given share lies beyond the last M (censored); ln of
the time ratio is a line in log2 M, or a step where tiles end, with noise per round. `tests/analysis/
test_planted_crossovers.py` holds smaller numbers of suites to their targets.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from options import options
from rooflens.analysis.crossover.across_shapes import median_crossover
from rooflens.analysis.crossover.curve import Crossing, locate
from rooflens.analysis.crossover.refine import MOST, RATIO, next_sizes
from scipy.stats import norm, t

LAST_OCTAVE = 11
MS = tuple(2**octave for octave in range(LAST_OCTAVE + 1))
SPREAD = 3.0
"""Standard deviation of the crossovers of a population, in octaves."""


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

    def __init__(self, generator: np.random.Generator, octave: float, noise: Noise, tile: int = 0) -> None:
        self.octave, self._noise, self._generator, self.tile = octave, noise, generator, tile
        self._slope = generator.uniform(*noise.slopes)
        self.points: dict[int, tuple[float, float]] = {}

    def measure(self, *sizes: int) -> None:
        """Draw the rounds of each size."""
        for size in sizes:
            # Time follows whole tiles, so that the winner changes at the end of one.
            rows = math.ceil(size / self.tile) * self.tile if self.tile else size
            y = self._slope * (math.log2(rows) - self.octave)
            drawn = y + self._generator.normal(0, self._noise.ratio, self._noise.rounds)
            self.points[size] = float(drawn.mean()), float(drawn.std(ddof=1) / math.sqrt(self._noise.rounds))

    def crossing(self) -> Crossing:
        """Locate the crossover in what is measured."""
        sizes = sorted(self.points)
        y, se = (np.array([self.points[size][part] for size in sizes]) for part in (0, 1))
        half = se * t.ppf(0.975, self._noise.rounds - 1)
        return locate(sizes, y, y - half, y + half, se)

    def refine(self, ratio: float = RATIO, most: int = MOST) -> list[int]:
        """Measure further M as `rooflens run --refine crossover` does; return them."""
        added: list[int] = []
        tiles = [self.tile] if self.tile else []

        def free(size: int) -> bool:
            return size not in added

        while len(added) < most:
            found = self.crossing()
            if not found.changes:
                break
            wanted = next_sizes(int(found.low_M), int(found.high_M), self.points, free, tiles, ratio)
            if not wanted:
                break
            wanted = wanted[: most - len(added)]
            added += wanted
            self.measure(*wanted)
        return added

    @property
    def true_M(self) -> float:
        """Last M at which the challenger wins, as a real number; of tiled shapes, the end of a tile."""
        exact = 2.0**self.octave
        return math.floor(exact / self.tile) * self.tile if self.tile else exact


def suite(generator: np.random.Generator, noise: Noise, shapes: int = 40, censored: float = 0.4) -> list[Shape]:
    """Draw and sweep the shapes of one suite."""
    found = [Shape(generator, octave, noise) for octave in generator.normal(population(censored), SPREAD, shapes)]
    for shape in found:
        shape.measure(*MS)
    return found


def frame(crossings: list[Crossing]) -> pd.DataFrame:
    """Rows as `crossovers.crossovers` makes them, as far as the median reads them."""
    fixed = {
        "challenger": "a", "incumbent": "b", "model": "m", "op": "gemm", "pass": "fwd", "B": 1, "E": 1, "top_k": 1,
        "N": 64, "K": 96, "dtype": "bf16", "scheme": "nf4-g64", "cache": "cold", "M_min": 1.0,
        "M_max": float(MS[-1]), "Ms": (), "log_ratios": (), "missing": 0, "refined": 0, "warnings": (),
    }  # fmt: skip
    rows = [
        fixed
        | {
            "layer": str(number),
            "status": one.status.value,
            "crossover_M": math.nan if one.crossover_M is None else one.crossover_M,
            "low_M": one.low_M,
            "high_M": one.high_M,
            "challenger_wins": one.challenger_wins,
            "verified": one.verified,
            "changes": one.changes,
        }
        for number, one in enumerate(crossings)
    ]
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Outcome:
    """What came of one suite.

    error   octaves between the found and the true median of these shapes, what lies beyond the last M counted as
            beyond it in both; NaN where the true one lies beyond
    covered the interval of the median holds the median of the population
    held    share of the shapes whose own interval holds their crossover
    several share of the shapes with more than one verified change, of which none is true
    dropped octaves by which the median of the shapes that cross within the sweep is off
    """

    error: float
    covered: bool
    held: float
    several: float
    dropped: float


def outcome(shapes: list[Shape], censored: float) -> Outcome:
    crossings = [shape.crossing() for shape in shapes]
    found = median_crossover(frame(crossings))
    octaves = np.array([shape.octave for shape in shapes])
    true = float(np.median(np.where(octaves > LAST_OCTAVE, np.inf, octaves)))
    low, high, point = found.low_M, found.high_M, found.median_M
    assert None not in (low, high, point)
    kept = [math.log2(one.crossover_M) for one in crossings if one.crossover_M]
    return Outcome(
        error=math.log2(point) - true if math.isfinite(true) and point else math.nan,
        covered=low <= 2 ** population(censored) <= high,
        held=float(np.mean([one.low_M <= at.true_M <= one.high_M for one, at in zip(crossings, shapes, strict=True)])),
        several=float(np.mean([len(one.changes) > 1 for one in crossings])),
        dropped=abs(float(np.median(kept)) - float(np.median(octaves))),
    )


def main() -> None:
    count = options(__doc__, suites=500).suites
    print(f"{count} suites of 40 shapes, 12 M\n")
    print("rounds censored  |error| < 0.1 oct  rms error  dropping them  median covered  shape held  false changes")
    for rounds in (3, 5, 8):
        for censored in (0.1, 0.4, 0.45):
            generator = np.random.default_rng(rounds)
            found = [outcome(suite(generator, Noise(rounds), censored=censored), censored) for _ in range(count)]
            errors = np.array([one.error for one in found])
            errors = errors[~np.isnan(errors)]
            finite = errors[np.isfinite(errors)]
            print(
                f"{rounds:6} {censored:8.0%}  {np.mean(np.abs(errors) < 0.1):17.1%} "
                f"{np.sqrt(np.mean(finite**2)):10.3f} "
                f"{np.mean([one.dropped for one in found]):14.2f}  {np.mean([one.covered for one in found]):14.1%}  "
                f"{np.mean([one.held for one in found]):10.2%}  {np.mean([one.several for one in found]):13.2%}"
            )
    print("\nrefined: rounds, tile -> further M, bracket before and after (last over first M), truth held, at the tile")
    for rounds in (3, 5, 8):
        for tile in (0, 16, 64):
            print(_refined(np.random.default_rng(rounds), Noise(rounds), tile, 2 * count))


def _refined(generator: np.random.Generator, noise: Noise, tile: int, count: int) -> str:
    """Refine shapes that cross between M=64 and 1024; with tiles, at the end of one."""
    before, after, added, held, exact = [], [], [], [], []
    for octave in generator.uniform(6, 10, count):
        shape = Shape(generator, octave, noise, tile)
        shape.measure(*MS)
        first = shape.crossing()
        if not first.changes:
            continue
        added.append(len(shape.refine()))
        last = shape.crossing()
        before.append(first.high_M / first.low_M)
        after.append(last.high_M / last.low_M)
        held.append(last.low_M <= shape.true_M <= last.high_M)
        exact.append(last.low_M == shape.true_M and last.high_M == shape.true_M + 1)
    ends = f"{np.median(before):5.2f} -> {np.median(after):5.3f}"
    return f"{noise.rounds:3} {tile:4} -> {np.mean(added):4.1f}  {ends}  {np.mean(held):6.1%}  " + (
        f"{np.mean(exact):6.1%}" if tile else ""
    )


if __name__ == "__main__":
    main()
