"""How long a large run takes to analyse and to lay out, from the CSV files to every result and to the page.

    python benchmarks/large_runs.py [--shapes 42] [--rounds 3] [--analysis_only]

The runs are planted, with the columns that a GPU run has. A million samples: 42 shapes x 12 M x 2 dtypes x 5 providers
x 2 cache states, 10,080 cells, 5 rounds of 20 samples; aimed for: under 10 s on two cores for all analyses together,
the reading of the files included. Reports on the 40 shapes of llm4bit: 10,400 cells (13 M x 5 providers x 2 dtypes x 2
cache states), and the suite with its 14,400 cells (12 M, 3 dtypes); aimed for: analysis, layout and page together under
5 s on two cores for 10,000 cells, and a page below 1 MB. Beside the wall time stands the processor's, which other work
on the machine hardly changes.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "analysis"))

from options import options
from rooflens.analysis import roofline
from rooflens.analysis.crossover.across_shapes import median_crossovers
from rooflens.analysis.crossover.per_shape import crossovers
from rooflens.analysis.crossover.refine import further
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.frames.speedup import geometric_means, speedups
from rooflens.analysis.roofline import gaps, pairs, roofs
from rooflens.analysis.run.summarize import round_medians, summarize
from rooflens.plugins.camping.find import find
from rooflens.plugins.dispatch.study import study
from rooflens.reports.build import build_report
from rooflens.reports.render import html, markdown
from rooflens.reports.render.html_budget import LIMIT
from rooflens.shapes.shapeset import load
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


class Stopwatch:
    """Wall and processor seconds of steps, printed as they end."""

    def __init__(self) -> None:
        self.wall_s = self.processor_s = 0.0

    def __call__(self, what: str, work: Callable[[], T]) -> T:
        """Run `work` and print what it took."""
        wall, processor = time.perf_counter(), time.process_time()
        result = work()
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        self.show(what, wall, processor)
        self.wall_s, self.processor_s = self.wall_s + wall, self.processor_s + processor
        return result

    def show(self, what: str, wall_s: float, processor_s: float) -> None:
        """Print one line."""
        print(f"    {what:<34} {wall_s:6.2f} s, {processor_s:6.2f} s of a processor", flush=True)

    def show_sum(self, aim_s: float) -> None:
        """Print all steps together."""
        self.show(f"together (aimed for: under {aim_s:g})", self.wall_s, self.processor_s)


def plant(folder: Path, **axes: Any) -> Path:
    """Write a run with all providers, cold and warm."""
    print(f"{' x '.join(str(len(axes[name])) for name in ('shapes', 'Ms', 'dtypes'))} x {len(PROVIDERS)} x 2 cells")
    return write_run(folder, providers=PROVIDERS, caches=("cold", "warm"), machine=H200, columns=geometry, **axes)


def analyses(folder: Path) -> None:
    """Time every analysis once, in the order in which they build on each other."""
    timed = Stopwatch()
    run = timed("load and validate", lambda: load_run(folder))
    summary = timed("summarize", lambda: summarize(run))
    rounds = timed("round medians", lambda: round_medians(run))
    ratios = timed("speedups", lambda: speedups(summary, rounds, run.baseline))
    timed("geometric means", lambda: geometric_means(ratios))
    found = timed("crossovers", lambda: crossovers(summary, rounds, "simt_4bit", run.baseline))
    timed("median crossovers", lambda: median_crossovers(found))
    timed("further M", lambda: further(found, summary, ()))
    placed = timed("roofline", lambda: roofline.place(summary, run.ceilings, run.device))
    steps = timed("gap of each cell", lambda: gaps.gaps(placed))
    timed("gap totals", lambda: gaps.gap_totals(steps))
    timed("cold and warm pairs", lambda: pairs.pair_means(pairs.pairs(placed)))
    timed("roofs", lambda: roofs.roofs(placed, run.ceilings, run.device))
    timed("dispatch, with a summary", lambda: study(run))
    timed("camping", lambda: find(placed, rounds, run.cells))
    timed.show_sum(10)


def report(folder: Path) -> None:
    """Time the report of a run, from the files to the pages."""
    timed = Stopwatch()
    run = timed("load", lambda: load_run(folder))
    timed = Stopwatch()
    found = timed("analyse and lay out", lambda: build_report(run))
    page = timed("page", lambda: html.render(found))
    timed.show_sum(5)
    text = timed("markdown, without its images", lambda: markdown.render(found).text)
    print(f"    {'size of the page':<34} {len(page.encode()) / 1e6:6.3f} MB (aimed for: under {LIMIT / 1e6:.0f})")
    print(f"    {'size of the markdown':<34} {len(text.encode()) / 1e3:6.1f} kB", flush=True)


def main() -> None:
    """Plant the runs, and time each step."""
    asked = options(__doc__, shapes=42, rounds=3, analysis_only=False)
    sizes = [(512, 2048), (4096, 4096), (14336, 4096)]
    models = [(f"model{i // 3}", f"layer{i % 3}", sizes[i % 3][0] + 64 * (i // 3), sizes[i % 3][1]) for i in range(42)]
    llm4bit = [(shape.model, shape.layer, shape.N, shape.K) for shape in load("llm4bit_40")]
    million = {
        "shapes": models[: asked.shapes], "Ms": MS, "dtypes": ("bf16", "fp16"), "rounds": 5, "samples": 20,
        "challengers": ("simt_4bit", "mma_4bit", "gemv_4bit"), "telemetry": lambda cell, round_: [{"clock_hz": 1.7e9}],
    }  # fmt: skip
    reported = {"shapes": llm4bit[: asked.shapes], "rounds": asked.rounds, "samples": 5, "challengers": PROVIDERS[:2]}
    runs = [(analyses, million)]
    if not asked.analysis_only:
        runs.append((report, reported | {"Ms": (*MS, 4096), "dtypes": ("bf16", "fp16")}))
        runs.append((report, reported | {"Ms": MS, "dtypes": ("bf16", "fp16", "fp32")}))
    for work, axes in runs:
        with tempfile.TemporaryDirectory() as folder:
            work(plant(Path(folder) / "run", **axes))


if __name__ == "__main__":
    main()
