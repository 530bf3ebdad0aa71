"""How often verdicts are wrong, and how often a real change is found: ours beside the rules of other tools.

    python benchmarks/planted_suites.py [--suites 200]

Suites of 84 cases and 8 rounds of 20 samples with a planted truth: raw timings of two versions, as a device with its
usual faults would give them; all rules see the same timings. `tests/analysis/comparison/test_planted_suites.py` holds
smaller ones to their targets.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from options import options
from rooflens.analysis.comparison.decide import MARGIN, Decisions, Word, decide
from scipy.stats import mannwhitneyu

Array = np.ndarray


@dataclass(frozen=True)
class Noise:
    """How timings scatter, as standard deviations of ln time.

    process   from process to process: addresses, clocks; what rounds in fresh processes average out
    sample    within a process; rho  its autocorrelation (AR(1))
    spread    of ln(process) between cells: some kernels are worse than others
    modes     share of processes that run `mode_shift` slower: two places in the memory, say
    drift     change of ln time over all rounds, in a straight line
    steps     resolution of the timer, as a share of the time
    """

    process: float = 0.006
    sample: float = 0.0125
    rho: float = 0.0
    spread: float = 0.0
    modes: float = 0.0
    mode_shift: float = 0.02
    drift: float = 0.0
    steps: float = 0.0


@dataclass(frozen=True)
class Planted:
    """ln time [2 versions, cells, rounds, samples], and the true effect [cells]."""

    logs: Array
    truth: Array = field(repr=False)

    @property
    def differences(self) -> Array:
        """[cells, rounds] of ln median of head - ln median of base."""
        medians = np.median(self.logs, axis=3)
        return np.asarray(medians[1] - medians[0])


def planted(
    generator: np.random.Generator,
    noise: Noise,
    cells: int = 84,
    rounds: int = 8,
    samples: int = 20,
    changed: int = 0,
    size: float = 0.03,
) -> Planted:
    """Draw a suite in which `changed` of the cells became slower by `size` (a share of their time)."""
    truth = np.zeros(cells)
    truth[generator.choice(cells, changed, replace=False)] = np.log1p(size)
    scale = noise.process * np.exp(generator.normal(0, noise.spread, cells))
    process = generator.normal(0, 1, (2, cells, rounds)) * scale[None, :, None]
    process += noise.mode_shift * (generator.random((2, cells, rounds)) < noise.modes)
    # base, head, head, base, ...: the second of a round is later by half a round
    later = np.where(np.arange(rounds) % 2 == 0, 1, 0)
    at = np.arange(rounds)[None, :] + 0.5 * np.stack([1 - later, later])
    process += (noise.drift * at / rounds)[:, None, :]
    logs = _autocorrelated(generator, (2, cells, rounds, samples), noise.rho) * noise.sample
    logs += process[..., None]
    logs[1] += truth[:, None, None]
    if noise.steps:
        logs = np.log(np.maximum(np.round(np.exp(logs) / noise.steps), 1) * noise.steps)
    return Planted(logs, truth)


def _autocorrelated(generator: np.random.Generator, shape: tuple[int, ...], rho: float) -> Array:
    white = generator.normal(0, 1, shape)
    if not rho:
        return white
    found = np.empty(shape)
    found[..., 0] = white[..., 0]
    for i in range(1, shape[-1]):
        found[..., i] = rho * found[..., i - 1] + np.sqrt(1 - rho**2) * white[..., i]
    return found


def benchstat(suite: Planted) -> Array:
    """golang.org/x/perf/cmd/benchstat: Mann-Whitney U on all samples, alpha 0.05."""
    return _pooled(suite, lambda base, head: mannwhitneyu(base, head).pvalue < 0.05)


def asv(suite: Planted) -> Array:
    """asv 0.6 `compare`: Mann-Whitney U with p < 0.002, and a change by a factor of 1.1 or more."""

    def differs(base: Array, head: Array) -> bool:
        factor = np.exp(abs(np.median(head) - np.median(base)))
        return bool(factor > 1.1 and mannwhitneyu(base, head).pvalue < 0.002)

    return _pooled(suite, differs)


def pytest_benchmark(suite: Planted) -> Array:
    """pytest-benchmark with `--benchmark-compare-fail=mean:5%`, in both directions."""
    return _pooled(suite, lambda base, head: abs(np.exp(head).mean() / np.exp(base).mean() - 1) > 0.05)


def nvbench(suite: Planted) -> Array:
    """nvbench_compare.py: a change of the mean beyond the smaller of the two relative standard deviations."""

    def differs(base: Array, head: Array) -> bool:
        times = [np.exp(base), np.exp(head)]
        noise = min(float(each.std(ddof=1) / each.mean()) for each in times)
        return bool(abs(times[1].mean() / times[0].mean() - 1) > noise)

    return _pooled(suite, differs)


def _pooled(suite: Planted, differs: Callable[[Array, Array], bool]) -> Array:
    base, head = suite.logs.reshape(2, len(suite.truth), -1)
    return np.array([differs(*pair) for pair in zip(base, head, strict=True)])


rules_of_others = {"benchstat": benchstat, "asv": asv, "pytest-benchmark": pytest_benchmark, "nvbench": nvbench}


KINDS = {
    "independent, sd(d) = 1 %": Noise(),
    "cells differ": Noise(spread=0.4),
    "autocorrelated, rho 0.8": Noise(rho=0.8),
    "two modes": Noise(process=0.004, modes=0.3, mode_shift=0.01),
    "drifting by 5 %": Noise(drift=0.05),
    "timer steps of 1 %": Noise(steps=0.01),
}


def ours(suite: Planted) -> Decisions:
    differences = suite.differences
    cells, rounds = differences.shape
    return decide(
        differences.mean(axis=1), differences.var(axis=1, ddof=1), np.full(cells, rounds - 1.0),
        np.full(cells, float(rounds)), np.full(cells, MARGIN),
    )  # fmt: skip


def called(suite: Planted) -> Array:
    return np.isin(ours(suite).words, [Word.FASTER.value, Word.SLOWER.value])


def main() -> None:
    count = options(__doc__, suites=200).suites
    rules = {"rooflens": called} | rules_of_others
    for kind, noise in KINDS.items():
        print(f"\n{kind}: {count} suites each", flush=True)
        print(f"  {'rule':18} {'A/A: suites with':>18} {'cells':>7}   found of 2 %, 3 %, 5 %   false among called")
        generator = np.random.default_rng(5)
        quiet = [planted(generator, noise) for _ in range(count)]
        changed = {
            size: [planted(generator, noise, changed=8, size=size) for _ in range(count // 4)]
            for size in (0.02, 0.03, 0.05)
        }
        for name, rule in rules.items():
            began = time.perf_counter()
            wrong = np.array([rule(suite).mean() for suite in quiet])
            found, false, total = [], 0, 0
            for suites in changed.values():
                words = [(rule(suite), suite.truth > 0) for suite in suites]
                found.append(sum((call & real).sum() for call, real in words) / (8 * len(suites)))
                false += sum((call & ~real).sum() for call, real in words)
                total += sum(call.sum() for call, _ in words)
            print(
                f"  {name:18} {(wrong > 0).mean():18.1%} {wrong.mean():7.1%}   "
                f"{' '.join(f'{share:6.1%}' for share in found)}   {false / max(total, 1):12.1%}"
                f"   ({time.perf_counter() - began:.1f} s)",
                flush=True,
            )
        inside = np.mean([((d := ours(suite)).low <= 0) & (d.high >= 0) for suite in quiet])
        print(f"  coverage of the 95 % intervals of rooflens: {inside:.1%}")


if __name__ == "__main__":
    main()
