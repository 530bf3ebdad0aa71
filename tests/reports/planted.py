"""Views and reports of planted runs, whose truth is known from the analysis tests, and what stands in them."""

from collections.abc import Sequence
from pathlib import Path

from rooflens.analysis.comparison.effects import Order
from rooflens.analysis.comparison.result import Side, compare_runs
from rooflens.analysis.frames.load import RunData, load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.reports.build import build_comparison, build_report, build_side_by_side
from rooflens.reports.figures.chart import Figure
from rooflens.reports.model import Bullets, Remarks, Report, Section, Table, Text
from rooflens.reports.presets import OF_A_RUN, OF_TWO_VERSIONS
from rooflens.reports.view import View

from ..analysis import synthetic

SMALL = (("toy", "up", 512, 2048), ("toy", "down", 2048, 512), ("toy", "square", 1024, 1024))
"""(model, layer, N, K): three shapes of 2^20 weights each."""


def report_of(folder: Path, **options: object) -> Report:
    """Write a planted run into `folder` and build its report."""
    return build_report(load_run(synthetic.write_run(folder, **options)))


def report_by(preset: str, run: RunData, versions: Sequence[RunData], several: Sequence[RunData]) -> Report:
    """Build the report of any preset, from the runs that presets of its kind are of."""
    if preset in OF_A_RUN:
        return build_report(run, preset)
    if preset in OF_TWO_VERSIONS:
        sides = [(Side(one.id, f"runs/{one.id}"), one) for one in versions]
        return build_comparison(compare_runs(*sides, Order.SEQUENTIAL), preset)
    return build_side_by_side(several)


def view_of(folder: Path, **options: object) -> View:
    """Write a planted run into `folder` and look at it."""
    return View(analyze(load_run(synthetic.write_run(folder, **options))))


def chapters_of(view: View, *chapters) -> Report:
    """Build a report of some chapters, which checks that anchors are distinct."""
    sections = tuple(section for chapter in chapters if (section := chapter(view)) is not None)
    return Report("planted", (), sections, generator="rooflens test", source=view.run_path)


def exact(**latencies: object) -> dict[str, object]:
    """Options for a run without noise: provider -> seconds, or seconds as a function of the cell."""

    def latency(cell):
        found = latencies[cell.provider]
        return found(cell) if callable(found) else found

    return {"providers": tuple(latencies), "latency": latency, "round_noise": 0, "sample_noise": 0}


PLAIN = exact(simt_4bit=1e-3, dequant_blas=2e-3, blas=0.5e-3)


def tables(report: Report) -> dict[str, Table]:
    """Every table of a report by its id."""
    return {block.id: block for part in report.walk() for block in part.blocks if isinstance(block, Table)}


def texts(table: Table) -> list[list[str]]:
    """Shown texts of a table, header first."""
    return [[column.header for column in table.columns], *([cell.text for cell in row] for row in table.rows)]


def words(report: Report) -> list[str]:
    """Every sentence of a report outside tables and figures."""
    blocks = [block for section in report.walk() for block in section.blocks]
    said = [block.text for block in blocks if isinstance(block, Text)]
    return said + [item for block in blocks if isinstance(block, Bullets | Remarks) for item in block.items]


def all_text(report: Report) -> str:
    """The sentences as one text."""
    return " ".join(words(report))


def figures_of(section: Section | None) -> dict[str, Figure]:
    """Figures of a chapter by id, in order."""
    assert section is not None
    return {block.id: block for part in section.walk() for block in part.blocks if isinstance(block, Figure)}


def records(figure: Figure) -> list[dict[str, object]]:
    """Rows of the data of a figure."""
    assert figure.data is not None
    return [dict(zip(figure.data.columns, row, strict=True)) for row in figure.data.rows]
