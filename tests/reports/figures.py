"""Views of planted runs, for tests of single figures."""

from pathlib import Path

from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.reports.figures.chart import Figure
from rooflens.reports.model import Section
from rooflens.reports.view import View

from .planted import synthetic


def view_of(folder: Path, **options: object) -> View:
    """Write a planted run into `folder` and look at it."""
    run = load_run(synthetic.write_run(folder, **options))
    return View(analyze(run))


def figures_of(section: Section | None) -> dict[str, Figure]:
    """Figures of a chapter by id, in order."""
    assert section is not None
    return {block.id: block for part in section.walk() for block in part.blocks if isinstance(block, Figure)}


def records(figure: Figure) -> list[dict[str, object]]:
    """Rows of the data of a figure."""
    assert figure.data is not None
    return [dict(zip(figure.data.columns, row, strict=True)) for row in figure.data.rows]
