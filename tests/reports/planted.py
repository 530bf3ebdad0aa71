"""Reports of planted runs: the run folders come from the analysis tests, whose truth is known."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from rooflens.analysis.frames.load import load_run
from rooflens.reports.build import build_report
from rooflens.reports.model import Bullets, Remarks, Report, Table, Text


def _load_synthetic() -> ModuleType:
    path = Path(__file__).parents[1] / "analysis" / "synthetic.py"
    spec = importlib.util.spec_from_file_location("planted_runs_for_reports", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up by module name
    spec.loader.exec_module(module)
    return module


synthetic = _load_synthetic()

SMALL = (("toy", "up", 512, 2048), ("toy", "down", 2048, 512), ("toy", "square", 1024, 1024))
"""(model, layer, N, K): three shapes of 2^20 weights each."""


def report_of(folder: Path, **options: object) -> Report:
    """Write a planted run into `folder` and build its report."""
    return build_report(load_run(synthetic.write_run(folder, **options)))


def exact(**latencies: object) -> dict[str, object]:
    """Options for a run without noise: provider -> seconds as a function of the cell."""
    return {
        "providers": tuple(latencies),
        "latency": lambda cell: latencies[cell.provider](cell),  # type: ignore[operator]
        "round_noise": 0,
        "sample_noise": 0,
    }


def tables(report: Report) -> dict[str, Table]:
    """Every table of a report by its id."""
    return {block.id: block for part in report.walk() for block in part.blocks if isinstance(block, Table)}


def texts(table: Table) -> list[list[str]]:
    """Shown texts of a table, header first."""
    return [[column.header for column in table.columns], *([cell.text for cell in row] for row in table.rows)]


def all_text(report: Report) -> str:
    """Every sentence of a report outside tables and figures."""
    blocks = [block for section in report.walk() for block in section.blocks]
    return " ".join(
        [block.text for block in blocks if isinstance(block, Text)]
        + [item for block in blocks if isinstance(block, Bullets | Remarks) for item in block.items]
    )
