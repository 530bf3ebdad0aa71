"""Chapters of a planted run, and what they say."""

from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.reports.model import Bullets, Remarks, Report, Text
from rooflens.reports.sections.summary.open_items import open_items
from rooflens.reports.view import View

from .planted import exact, synthetic


def view_of(folder, **options):
    run = load_run(synthetic.write_run(folder, **{"samples": 4} | options))
    return View(analyze(run))


def report(view, *chapters):
    """A report of some chapters: building it checks that anchors are distinct."""
    sections = tuple(section for chapter in chapters if (section := chapter(view)) is not None)
    return Report("planted", (), sections, generator="rooflens test", source=view.run_path)


def words(found):
    blocks = [block for section in found.walk() for block in section.blocks]
    said = [block.text for block in blocks if isinstance(block, Text)]
    return said + [item for block in blocks if isinstance(block, Bullets | Remarks) for item in block.items]


def checklist(view):
    (block,) = open_items(view).blocks
    return dict(zip(block.items, block.checked, strict=True))


def plain(simt=1e-3, dequant=2e-3, blas=0.5e-3, **more):
    return {**exact(simt_4bit=lambda _: simt, dequant_blas=lambda _: dequant, blas=lambda _: blas), **more}
