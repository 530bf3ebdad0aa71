"""From what was measured to a Report: of a run or two versions (`presets`)."""

from collections.abc import Sequence
from pathlib import Path

from ..analysis.comparison.effects import Order, Status
from ..analysis.comparison.result import Result
from ..analysis.frames.load import RunData
from ..analysis.run.pipeline import analyze
from ..analysis.run.question import compare_with, with_times
from ..analysis.run.serving import load_serving
from . import formatting as fmt
from .model import Report
from .presets import OF_A_RUN, OF_SEVERAL_RUNS, OF_TWO_VERSIONS, Preset, of_a_run, of_two_versions
from .sections.comparison.open_points import arithmetic_means
from .sections.side_by_side import SideBySide
from .view import View

DEFAULT, COMPARED = next(iter(OF_A_RUN)), next(iter(OF_TWO_VERSIONS))
"""Names of the default presets of a run and of a comparison."""

_ORDERS = {
    Order.INTERLEAVED: "in turn, every round of every version in a fresh process",
    Order.SEQUENTIAL: "one after the other",
    Order.IMPORTED: "unknown: one value per case, from tables",
}


def build_report(
    run: RunData,
    preset: str = DEFAULT,
    challengers: tuple[str, ...] = (),
    baseline: str = "",
    serving: Sequence[Path] = (),
) -> Report:
    """Analyse `run` and lay out its report. Nothing is written; the same run gives the same report.

    `challengers` and `baseline` stand in for those of the run; `serving` are files for `load_serving`. Raises
    UsageError for an unknown preset or provider, and for a preset that needs what the run has not.
    """
    of_a_run(preset)  # an unknown preset is reported before the analysis
    options = ["--preset", preset] * (preset != DEFAULT) + ["--baseline", baseline] * bool(baseline)
    for name in challengers:
        options += ["--challenger", name]
    for path in serving:
        options += ["--serving", str(path)]
    analysis = analyze(with_times(compare_with(run, baseline, challengers)))
    return report_of(View(analysis, tuple(options), load_serving(serving, analysis)), preset)


def report_of(view: View, preset: str | Preset[View] = DEFAULT) -> Report:
    """Lay out the report of a run that is analysed already; a preset by its name, or one of other chapters."""
    chapters = of_a_run(preset) if isinstance(preset, str) else preset
    return Report(
        title=f"{view.manifest.suite} on {view.device_name}",
        facts=_facts(view),
        sections=chapters.sections(view),
        source=view.run_path,
        coverage=view.coverage,
    )


def _facts(view: View) -> tuple[tuple[str, str], ...]:
    device = view.run.device
    facts = [
        ("run", view.run.id),
        ("measured", view.manifest.created_at),
        ("device", " ".join(filter(None, (view.device_name, f"({device.arch})" if device.arch else "")))),
        ("measured on", fmt.plural(len(view.manifest.devices), "device") if view.run.several_devices else ""),
        ("operands", _operands(view)),
        ("cache", ", ".join(view.caches)),
        ("baseline", view.baseline),
        ("challenger" if len(view.challengers) == 1 else "challengers", ", ".join(view.challengers)),
        ("cells", fmt.coverage(view.coverage)),
        ("rounds", str(view.rounds)),
    ]
    return tuple((name, value) for name, value in facts if value)


def _operands(view: View) -> str:
    """Say what is multiplied, or what is quantized to what: a quantization has no weights."""
    schemes, dtypes = ", ".join(view.schemes), ", ".join(view.dtypes)
    return f"{dtypes} to {schemes}" if view.only_quantizes else f"{schemes}; activations {dtypes}"


def build_comparison(result: Result, preset: str | Preset[Result] = COMPARED, arithmetic: bool = False) -> Report:
    """Lay out a comparison, `arithmetic` with the means that some documents print; a preset as in `report_of`.

    Raises UsageError for an unknown preset, and for one of a single run.
    """
    chapters = of_two_versions(preset) if isinstance(preset, str) else preset
    first, *rest = chapters.sections(result)
    extra = [section] if arithmetic and (section := arithmetic_means(result)) else []
    counted = [f"{result.count(word)} {word}" for word in result.words if result.count(word)]
    others = [f"{result.count_of(status)} {status}" for status in Status if status is not Status.COMPARED]
    facts = (
        ("base", result.base.label),
        ("head", result.head.label),
        ("measured", _ORDERS[result.order]),
        ("verdicts", ", ".join(counted) or "none"),
        ("not compared", ", ".join(text for text in others if not text.startswith("0 "))),
    )
    return Report(
        title=f"{result.base.label} → {result.head.label}",
        facts=tuple((name, value) for name, value in facts if value),
        sections=(first, *extra, *rest),
        source=result.head.source,
    )


def build_side_by_side(runs: Sequence[RunData], challengers: tuple[str, ...] = (), baseline: str = "") -> Report:
    """Analyse runs, such as those of several devices, and lay out what they say side by side.

    `challengers` and `baseline` stand in for those of every run that has them.
    """
    views = [View(analyze(with_times(compare_with(run, baseline, challengers)))) for run in runs]
    several = SideBySide(views)
    return Report(
        title=" | ".join(several.labels),
        facts=(("runs", ", ".join(view.run.id for view in views)),),
        sections=OF_SEVERAL_RUNS.sections(several),
        source=views[0].run_path,
    )
