"""How long the report of a large run takes, and how large its page is: 10,400 cells, and the suite of 40 shapes.

    python benchmarks/report_of_10k.py [--rounds 3]

Both runs are planted on the 40 shapes of llm4bit. 10,400 cells: 13 M x 5 providers x 2 dtypes x 2 cache states. The
suite: 12 M x 5 providers x 3 dtypes x 2 cache states, 14,400 cells. Aimed for: analysis, layout and page together under
5 s on two cores for 10,000 cells, and a page below 1 MB for the suite. Beside the wall time stands the processor's,
which other work on the machine hardly changes.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "analysis"))

from analysis_of_a_million import MS, PROVIDERS, geometry
from rooflens.analysis.frames.load import load_run
from rooflens.reports.build import build_report
from rooflens.reports.render import html, markdown
from rooflens.reports.render.html_budget import LIMIT
from rooflens.shapes.shapeset import load
from synthetic import H200, write_run

T = TypeVar("T")


def main() -> None:
    """Plant both runs, then time each step from the files to the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each cell")
    rounds = parser.parse_args().rounds
    for sizes, dtypes in (((*MS, 4096), ("bf16", "fp16")), (MS, ("bf16", "fp16", "fp32"))):
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder) / "run", sizes, dtypes, rounds)


def timed(what: str, work: Callable[[], T], seconds: dict[str, tuple[float, float]]) -> T:
    """Run `work` and note its wall time and its processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    seconds[what] = (time.perf_counter() - wall, time.process_time() - processor)
    return result


def measure(folder: Path, sizes: tuple[int, ...], dtypes: tuple[str, ...], rounds: int) -> None:
    """Time the report of one planted run."""
    shapes = [(shape.model, shape.layer, shape.N, shape.K) for shape in load("llm4bit_40")]
    write_run(
        folder, shapes=shapes, Ms=sizes, providers=PROVIDERS, dtypes=dtypes, caches=("cold", "warm"),
        rounds=rounds, samples=5, machine=H200, columns=geometry, challengers=("simt_4bit", "mma_4bit"),
    )  # fmt: skip
    seconds: dict[str, tuple[float, float]] = {}
    run = timed("load", lambda: load_run(folder), seconds)
    report = timed("analyse and lay out", lambda: build_report(run), seconds)
    page = timed("page", lambda: html.render(report), seconds)
    text = timed("markdown, without its images", lambda: markdown.render(report).text, seconds)
    cells = run.cells["cell_id"].nunique()
    axes = f"{len(shapes)} shapes x {len(sizes)} M x {len(PROVIDERS)} providers"
    print(f"{cells} cells: {axes} x {', '.join(dtypes)} x cold, warm")
    built, drawn = seconds["analyse and lay out"], seconds["page"]
    seconds["together (aimed for: under 5)"] = (built[0] + drawn[0], built[1] + drawn[1])
    for what, (wall, processor) in seconds.items():
        print(f"    {what:<30} {wall:6.2f} s, {processor:5.2f} s of a processor")
    print(f"    {'size of the page':<30} {len(page.encode()) / 1e6:6.3f} MB (aimed for: under {LIMIT / 1e6:.0f})")
    print(f"    {'size of the markdown':<30} {len(text.encode()) / 1e3:6.1f} kB", flush=True)


if __name__ == "__main__":
    main()
