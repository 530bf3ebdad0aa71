"""How often verdicts are wrong, and how often a real change is found: ours beside the rules of other tools.

    python benchmarks/compare_planted.py [--suites 200]

Suites of 84 cases and 8 rounds of 20 samples with a planted truth (`planted_suites`); all rules see the same timings.
"""

import argparse
import time

import numpy as np
from planted_suites import Array, Noise, Planted, planted, rules_of_others
from rooflens.analysis.comparison.decide import MARGIN, Decisions, Word, decide

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=int, default=200)
    count = parser.parse_args().suites
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
