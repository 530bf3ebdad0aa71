"""How long the analysis of a large run takes: a million samples in 10,080 cells, from the CSV files to every result.

    python benchmarks/analysis_of_a_million.py [--cells 10080]

The run is planted: 42 shapes x 12 M x 5 providers x 2 dtypes x 2 cache states, 5 rounds of 20 samples, with the columns
that a GPU run has. Aimed for: under 10 s on two cores for everything together, the reading of the files included.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "analysis"))

from synthetic import H200, PlantedCell, write_run

T = TypeVar("T")

MS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
PROVIDERS = ("simt_4bit", "mma_4bit", "gemv_4bit", "dequant_blas", "blas")


def geometry(cell: PlantedCell, round_: int) -> dict[str, object]:
    """Tiles as a fused kernel has them; nothing of the vendor's GEMM."""
    if "blas" in cell.provider:
        return {"process": round_}
    tile_m, tile_n = min(64, max(16, cell.M)), 64
    rows, columns = -(-cell.M // tile_m), -(-cell.N // tile_n)
    return {
        "process": round_, "tile_M": tile_m, "tile_N": tile_n, "workgroups": rows * columns, "resident": 2,
        "issued_flops": 2 * rows * tile_m * columns * tile_n * cell.K,
        "decode_per_weight": 6.5, "decoded_weights": rows * cell.N * cell.K,
    }  # fmt: skip


def shapes(count: int) -> list[tuple[str, str, int, int]]:
    """Make weights of 14 models, three each."""
    sizes = [(512, 2048), (4096, 4096), (14336, 4096)]
    return [(f"model{i // 3}", f"layer{i % 3}", sizes[i % 3][0] + 64 * (i // 3), sizes[i % 3][1]) for i in range(count)]


def timed(what: str, work: Callable[[], T], seconds: dict[str, float]) -> T:
    """Run `work`, note its wall time and print it."""
    begin = time.perf_counter()
    result = work()
    seconds[what] = time.perf_counter() - begin
    print(f"{what:<34} {seconds[what]:7.2f} s", flush=True)
    return result


def main() -> None:
    """Plant the run, then time each step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=10080, help="about how many cells to plant")
    cells = parser.parse_args().cells
    with tempfile.TemporaryDirectory() as folder:
        count = max(3, round(cells / (len(MS) * len(PROVIDERS) * 4)))
        print(f"planting {count * len(MS) * len(PROVIDERS) * 4} cells", flush=True)
        run = write_run(
            Path(folder) / "run", shapes=shapes(count), Ms=MS, providers=PROVIDERS, dtypes=("bf16", "fp16"),
            caches=("cold", "warm"), rounds=5, samples=20, machine=H200, columns=geometry,
            telemetry=lambda cell, round_: [{"clock_hz": 1.7e9}], challengers=("simt_4bit", "mma_4bit", "gemv_4bit"),
        )  # fmt: skip
        seconds: dict[str, float] = {}
        analyses(run, seconds)
        print(f"{'everything':<34} {sum(seconds.values()):7.2f} s (aimed for: under 10)")


def analyses(folder: Path, seconds: dict[str, float]) -> None:
    """Time every analysis once, in the order in which they build on each other."""
    begin = time.perf_counter()
    from rooflens.analysis import camping, roofline
    from rooflens.analysis.crossover.across_shapes import median_crossovers
    from rooflens.analysis.crossover.per_shape import crossovers
    from rooflens.analysis.crossover.refine import further
    from rooflens.analysis.dispatch.study import Question, study_of
    from rooflens.analysis.frames.load import load_run
    from rooflens.analysis.frames.speedup import geometric_means, speedups
    from rooflens.analysis.roofline import gaps, pairs, regimes, roofs
    from rooflens.analysis.run.summarize import round_medians, summarize

    seconds["import"] = time.perf_counter() - begin
    run = timed("load and validate", lambda: load_run(folder), seconds)
    summary = timed("summarize", lambda: summarize(run), seconds)
    rounds = timed("round medians", lambda: round_medians(run), seconds)
    ratios = timed("speedups", lambda: speedups(summary, rounds, run.baseline), seconds)
    timed("geometric means", lambda: geometric_means(ratios), seconds)
    found = timed("crossovers", lambda: crossovers(summary, rounds, "simt_4bit", run.baseline), seconds)
    timed("median crossovers", lambda: median_crossovers(found), seconds)
    timed("further M", lambda: further(found, summary, ()), seconds)
    placed = timed("roofline", lambda: roofline.place(summary, run.ceilings, run.device), seconds)
    steps = timed("gap of each cell", lambda: gaps.gaps(placed), seconds)
    timed("gap totals", lambda: gaps.gap_totals(steps), seconds)
    timed("cold and warm pairs", lambda: pairs.pair_means(pairs.pairs(placed)), seconds)
    timed("regimes over M", lambda: regimes.regimes(placed), seconds)
    timed("roofs", lambda: roofs.roofs(placed, run.ceilings, run.device), seconds)
    timed("dispatch", lambda: study_of(run, summary, rounds, Question()), seconds)
    timed("camping", lambda: camping.find(placed, rounds, run.cells), seconds)


if __name__ == "__main__":
    main()
