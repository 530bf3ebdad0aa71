"""What the way over Ray costs: `rooflens run SUITE --jobs local:1` beside `rooflens run SUITE`, cells of one second each.

    python benchmarks/fleet_overhead.py [--pairs 3] [--problems 12]

Both measure the same cells on this CPU (two providers, one round, samples until a budget of 1 s is spent), in
alternating order. The whole command is timed, and without its start and its end the way from the first cell to the last:
a sweep of hours starts Ray once. Aimed for: at most 5 % over. What is left is divided by what the shards say: within
the station, which keeps each problem in a folder of its own, and between parcels, while they travel and are landed.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

MOST_OVER = 0.05

SUITE = """
name = "seconds"
shapes = "shapes.csv"
schemes = ["nf4-g64"]
dtypes = ["fp32"]
caches = ["warm"]
providers = ["dequant_blas", "blas"]
baseline = "blas"
challengers = ["dequant_blas"]
[axes]
M = [{sizes}]
[protocol]
rounds = 1
budget_s = 1.0
target_ci = 1e-6
min_samples = 1000000
"""

SHAPES = "model,layer,N,K\nplanted,q,512,1024\nplanted,v,768,1024\nplanted,o,1024,512\n"
PROVIDERS = 2


@dataclass(frozen=True)
class Command:
    """One run of a command, in seconds: all of it, its cells, and from the first cell to the last."""

    whole_s: float
    cells_s: tuple[float, ...]
    span_s: float
    stations_s: tuple[float, ...]
    """What the station spent on each job; () without a fleet."""

    @property
    def outside_s(self) -> float:
        """Start and end: what is not from the first cell to the last."""
        return self.whole_s - self.span_s


def run(place: Path, name: str, *options: str) -> Command:
    """Measure the suite into `place / name`."""
    command = [sys.executable, "-m", "rooflens.cli", "run", "suite.toml", "-o", name, "--device", "cpu"]
    command += ["--no-calibrate", "--no-report", "--strict", *options]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})
    whole = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    with (place / name / "cells.csv").open(encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["started_at"])
    first, last = (datetime.fromisoformat(rows[at]["started_at"]) for at in (0, -1))
    cells = tuple(float(row["elapsed_s"]) for row in rows)
    return Command(whole, cells, (last - first).total_seconds() + cells[-1], tuple(_stations(place / name)))


def _stations(folder: Path) -> Sequence[float]:
    """Return the seconds that the shards of problems say their station took."""
    found = []
    for path in sorted((folder / "shards").glob("M*.zip")):
        with zipfile.ZipFile(path) as archive:
            found.append(json.loads(archive.read("run.json"))["station"]["elapsed_s"])
    return found


def main() -> None:
    """Run the pairs and print what is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--problems", type=int, default=12, help="a multiple of 3: that of the shapes")
    options = parser.parse_args()
    alone, fleet = [], []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sizes = ", ".join(str(size) for size in range(1, options.problems // 3 + 1))
        (place / "suite.toml").write_text(SUITE.format(sizes=sizes))
        (place / "shapes.csv").write_text(SHAPES)
        run(place, "first")  # compiles what is compiled once
        for number in range(options.pairs):
            arms = [(alone, ()), (fleet, ("--jobs", "local:1"))]
            for at, (runs, more) in enumerate(arms[:: -1 if number % 2 else 1]):
                runs.append(run(place, f"{number}-{at}", *more))
            one, other = alone[-1], fleet[-1]
            print(
                f"pair {number}: rooflens run {one.whole_s:.2f} s, with --jobs local:1 {other.whole_s:.2f} s "
                f"({other.whole_s / one.whole_s - 1:+.1%}); from the first cell to the last {one.span_s:.2f} and "
                f"{other.span_s:.2f} s ({other.span_s / one.span_s - 1:+.1%})",
                flush=True,
            )
    show(alone, fleet)


def show(alone: Sequence[Command], fleet: Sequence[Command]) -> None:
    """Print the medians over the pairs, and where the time goes."""
    cells, jobs = len(fleet[0].cells_s), len(fleet[0].stations_s)
    assert all(len(one.cells_s) == cells for one in (*alone, *fleet)), "a cell is missing"

    def over(name: str) -> float:
        return median(getattr(other, name) / getattr(one, name) - 1 for one, other in zip(alone, fleet, strict=True))

    def typical(values: Sequence[float]) -> float:
        return median(values) * 1e3

    print(
        f"\n{cells} cells in {jobs} jobs, median of {len(fleet)} pairs; a cell takes {median(fleet[0].cells_s):.3f} s"
    )
    print(f"  over, from the first cell to the last   {over('span_s'):+.2%} (aimed for: at most {MOST_OVER:.0%})")
    print(f"  over, the whole command                 {over('whole_s'):+.2%}")
    starts = [[one.outside_s for one in runs] for runs in (alone, fleet)]
    print(f"  start and end                           {median(starts[0]):.2f} s, with --jobs {median(starts[1]):.2f} s")
    around = [typical([(one.span_s - sum(one.cells_s)) / jobs for one in runs]) for runs in (alone, fleet)]
    print(f"  beside its cells a job takes            {around[0]:.0f} ms, with --jobs {around[1]:.0f} ms, of which")
    inside = typical([(sum(one.stations_s) - sum(one.cells_s)) / jobs for one in fleet])
    print(f"      in the station                      {inside:.0f} ms")
    print(f"      between parcels                     {around[1] - inside:.0f} ms")


if __name__ == "__main__":
    main()
