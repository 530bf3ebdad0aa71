"""What the way over Ray costs: `rooflens run SUITE --jobs local:1` beside `rooflens run SUITE`, with cells of a second.

    python benchmarks/fleet_overhead.py [--pairs 3] [--problems 12 (a multiple of 3: that of the shapes)]

Both measure the same cells on this CPU, in alternating order: two providers, whose launches wait 10 ms so that what
else runs on the machine counts little, in one round that always spends its budget of 1 s. The whole command is timed,
and apart from its start and end (a sweep of hours starts Ray once) the time from each job to the next: two cells, and
what is beside them. Aimed for: at most 5 % over. What is beside them is divided by what the shards say: within the
station, which keeps each problem in a folder of its own, and between parcels, while they travel, are landed and others
are dealt. Other work on the machine moves the medians by several per cent, and the quickest jobs hardly.
"""

import csv
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

from options import options

MOST_OVER = 0.05

SUITE = """
name = "seconds"
shapes = "shapes.csv"
schemes = ["nf4-g64"]
dtypes = ["fp32"]
caches = ["warm"]
providers = ["waits", "waits_too"]
baseline = "waits"
challengers = ["waits_too"]
[axes]
M = [{sizes}]
[protocol]
rounds = 1
budget_s = 1.0
target_ci = 1e-6
min_samples = 1000
"""

SHAPES = "model,layer,N,K\nplanted,q,64,128\nplanted,v,96,128\nplanted,o,128,64\n"
PROVIDERS = """
import time

from rooflens.kernels.provider import Launch, Provider


class Waits(Provider):
    name = "waits"

    def prepare(self, inputs, config=None):
        weight, out = inputs.dequantized().t().contiguous(), inputs.empty_output()

        def run():
            time.sleep(0.01)
            out.copy_(inputs.x @ weight)

        return Launch(run, out)


class WaitsToo(Waits):
    name = "waits_too"


PROVIDERS = [Waits(), WaitsToo()]
"""


@dataclass(frozen=True)
class Command:
    """One run of a command, in seconds: all of it, its cells in order, and by job what is asked for."""

    whole_s: float
    span_s: float
    """From the first cell to the end of the last one."""
    periods_s: tuple[float, ...]
    """From the first cell of each job to that of the next."""
    cells_s: tuple[float, ...]
    """The cells of each job, together."""
    stations_s: Mapping[str, float]
    """What the station spent on each job; {} without a fleet."""

    @property
    def outside_s(self) -> float:
        """Start and end."""
        return self.whole_s - self.span_s

    @property
    def period_s(self) -> float:
        """A job, the median."""
        return median(self.periods_s)

    @property
    def two_cells_s(self) -> float:
        """The cells of a job, the median."""
        return median(self.cells_s)

    @property
    def beside_s(self) -> float:
        """What a job takes beside its cells, the median."""
        return median(period - cells for period, cells in zip(self.periods_s, self.cells_s, strict=False))

    @property
    def in_station_s(self) -> float:
        """What of that the station takes, the median."""
        return median(spent - cells for spent, cells in zip(self.stations_s.values(), self.cells_s, strict=True))


def run(place: Path, name: str, *options: str) -> Command:
    """Measure the suite into `place / name`."""
    command = [sys.executable, "-m", "rooflens.cli", "run", "suite.toml", "-o", name, "--device", "cpu"]
    command += ["--no-calibrate", "--no-report", "--strict", "--providers", "providers.py", *options]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    whole = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    with (place / name / "cells.csv").open(encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["started_at"])
    starts: dict[str, float] = {}
    cells: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        job = f"M{row['M']}-N{row['N']}-K{row['K']}"
        starts.setdefault(job, _seconds(row))
        cells[job] += float(row["elapsed_s"])
    stations = _stations(place / name)
    span = _seconds(rows[-1]) + float(rows[-1]["elapsed_s"]) - _seconds(rows[0])
    in_order = {job: stations[job] for job in starts} if stations else {}
    return Command(
        whole,
        span,
        tuple(after - before for before, after in pairwise(starts.values())),
        tuple(cells.values()),
        in_order,
    )


def _seconds(row: Mapping[str, str]) -> float:
    return datetime.fromisoformat(row["started_at"]).timestamp()


def _stations(folder: Path) -> dict[str, float]:
    """Return by job the seconds that its shard says the station took."""
    found = {}
    for path in (folder / "shards").glob("M*.zip"):
        with zipfile.ZipFile(path) as archive:
            found["-".join(path.name.split("-")[:3])] = json.loads(archive.read("run.json"))["station"]["elapsed_s"]
    return found


def main() -> None:
    """Run the pairs and print what is over."""
    asked = options(__doc__, pairs=3, problems=12)
    alone: list[Command] = []
    fleet: list[Command] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sizes = ", ".join(str(size) for size in range(1, asked.problems // 3 + 1))
        (place / "suite.toml").write_text(SUITE.format(sizes=sizes))
        (place / "shapes.csv").write_text(SHAPES)
        (place / "providers.py").write_text(PROVIDERS)
        for number in range(asked.pairs):
            arms: list[tuple[list[Command], tuple[str, ...]]] = [(alone, ()), (fleet, ("--jobs", "local:1"))]
            for runs, more in arms[:: -1 if number % 2 else 1]:
                runs.append(run(place, f"{number}{'-fleet' if more else ''}", *more))
            one, other = alone[-1], fleet[-1]
            print(
                f"pair {number}: the command {one.whole_s:.2f} s, with --jobs local:1 {other.whole_s:.2f} s "
                f"({other.whole_s / one.whole_s - 1:+.1%}); a job {one.period_s:.3f} and {other.period_s:.3f} s "
                f"({other.period_s / one.period_s - 1:+.1%})",
                flush=True,
            )
    show(alone, fleet)


def show(alone: Sequence[Command], fleet: Sequence[Command]) -> None:
    """Print the medians over the pairs, and where the time goes."""
    jobs = len(fleet[0].cells_s)
    assert all(len(one.cells_s) == jobs for one in (*alone, *fleet)), "a job is missing"

    def over(name: str) -> float:
        pairs = zip(alone, fleet, strict=True)
        return float(median(getattr(other, name) / getattr(one, name) for one, other in pairs)) - 1

    def typical(name: str) -> list[float]:
        return [median(getattr(command, name) for command in commands) for commands in (alone, fleet)]

    cell = median(seconds for one in (*alone, *fleet) for seconds in one.cells_s) / 2
    print(f"\n{jobs} jobs of two cells of {cell:.3f} s, median of {len(fleet)} pairs; the second figure is with --jobs")
    print(f"  a job takes longer by           {over('period_s'):+.2%} (aimed for: at most {MOST_OVER:.0%})")
    quick = [quantiles((period for one in runs for period in one.periods_s), n=10)[0] for runs in (alone, fleet)]
    print(f"  the quickest tenth of the jobs  {quick[1] / quick[0] - 1:+.2%}: what nothing else disturbed")
    print(f"  the whole command               {over('whole_s'):+.2%}")
    print("  start and end                   {:.2f} and {:.2f} s".format(*typical("outside_s")))
    print("  the two cells of a job          {:.3f} and {:.3f} s".format(*typical("two_cells_s")))
    beside, with_fleet = typical("beside_s")
    print(f"  beside its cells a job takes    {beside * 1e3:.0f} and {with_fleet * 1e3:.0f} ms, of which")
    inside = median(one.in_station_s for one in fleet)
    print(f"      in the station              {inside * 1e3:.0f} ms")
    print(f"      between parcels             {(with_fleet - inside) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
