"""From a loaded run to a Report: analyse it once, then one function per chapter.

To add a chapter, write a function View -> Section and put it into `CHAPTERS`.
"""

from collections.abc import Callable

from .. import __version__
from ..analysis.load import RunData
from ..analysis.pipeline import analyze
from ..shapes.verdict import Verdict
from . import formatting as fmt
from .model import Report, Section
from .sections.accuracy import correctness, failures
from .sections.ceilings import ceilings
from .sections.cells import throughput
from .sections.context import environment, limits, protocol, reproduce
from .sections.crossover import crossover
from .sections.curves import curves
from .sections.headline import headline
from .sections.roofline import roofline
from .sections.speedup import speedup
from .view import View

CHAPTERS: tuple[Callable[[View], Section], ...] = (
    headline,
    speedup,
    crossover,
    curves,
    roofline,
    throughput,
    correctness,
    failures,
    ceilings,
    environment,
    reproduce,
    protocol,
    limits,
)
"""The chapters in reading order."""


def build_report(run: RunData) -> Report:
    """Analyse `run` and lay out its report. Nothing is written; the same run gives the same report."""
    view = View(run, analyze(run))
    return Report(
        title=f"{run.manifest['suite']} on {view.device_name}",
        facts=_facts(view),
        sections=tuple(chapter(view) for chapter in CHAPTERS),
        generator=f"rooflens {__version__}",
        source=view.run_path,
    )


def _facts(view: View) -> tuple[tuple[str, str], ...]:
    """Identity of the run: what a reader checks first."""
    device = view.run.device
    passed = int((view.cells["verdict"] == Verdict.PASSED).sum())
    facts = [
        ("run", view.run_id),
        ("measured", str(view.manifest.get("created_at", ""))),
        ("device", " ".join(filter(None, (view.device_name, f"({device['arch']})" if device.get("arch") else "")))),
        ("operands", _operands(view)),
        ("cache", ", ".join(view.caches)),
        ("baseline", view.baseline),
        ("challenger" if len(view.challengers) == 1 else "challengers", ", ".join(view.challengers)),
        ("cells with a time", fmt.count(passed, len(view.cells))),
        ("rounds", str(view.rounds)),
    ]
    return tuple((name, value) for name, value in facts if value)


def _operands(view: View) -> str:
    """Say what is multiplied, or what is quantized to what: a quantization has no weights."""
    schemes, dtypes = ", ".join(view.schemes), ", ".join(view.dtypes)
    return f"{dtypes} to {schemes}" if view.only_quantizes else f"{schemes}; activations {dtypes}"
