"""From a loaded run to a Report: analyse it once, then the chapters of a preset (see `presets`)."""

from dataclasses import replace

from .. import __version__
from ..analysis.frames.load import RunData
from ..analysis.run.pipeline import analyze
from ..shapes.errors import UsageError, unknown_name
from . import formatting as fmt
from .model import Report
from .presets import of_a_run
from .view import View

DEFAULT = "full"


def build_report(run: RunData, preset: str = DEFAULT, challengers: tuple[str, ...] = ()) -> Report:
    """Analyse `run` and lay out its report. Nothing is written; the same run gives the same report.

    `challengers` stand in for those that the run names. Raises UsageError for an unknown preset or provider, and for a
    preset that needs what the run has not.
    """
    of_a_run(preset)  # an unknown preset is told before the analysis
    options = ["--preset", preset] * (preset != DEFAULT)
    for name in challengers:
        options += ["--challenger", name]
    run = _challenged(run, challengers)
    return report_of(View(run, analyze(run), tuple(options)), preset)


def report_of(view: View, preset: str = DEFAULT) -> Report:
    """Lay out the report of a run that is analysed already."""
    return Report(
        title=f"{view.manifest.suite} on {view.device_name}",
        facts=_facts(view),
        sections=of_a_run(preset).sections(view),
        generator=f"rooflens {__version__}",
        source=view.run_path,
    )


def _challenged(run: RunData, challengers: tuple[str, ...]) -> RunData:
    """Put other challengers into the run's manifest."""
    known = list(dict.fromkeys(run.cells["provider"]))
    for name in challengers:
        if name not in known:
            raise unknown_name("provider", name, known)
        if name == run.baseline:
            raise UsageError(f"--challenger {name}: it is the baseline of {run.id}")
        run.refuse_reference(name, "--challenger")
    return replace(run, manifest=replace(run.manifest, challengers=list(challengers))) if challengers else run


def _facts(view: View) -> tuple[tuple[str, str], ...]:
    """Identity of the run: what a reader checks first."""
    device = view.run.device
    facts = [
        ("run", view.run_id),
        ("measured", view.manifest.created_at),
        ("device", " ".join(filter(None, (view.device_name, f"({device.arch})" if device.arch else "")))),
        ("measured on", fmt.plural(len(view.manifest.devices), "device") if view.run.several_devices else ""),
        ("operands", _operands(view)),
        ("cache", ", ".join(view.caches)),
        ("baseline", view.baseline),
        ("challenger" if len(view.challengers) == 1 else "challengers", ", ".join(view.challengers)),
        ("cells with a time", view.cells_with_a_time),
        ("rounds", str(view.rounds)),
    ]
    return tuple((name, value) for name, value in facts if value)


def _operands(view: View) -> str:
    """Say what is multiplied, or what is quantized to what: a quantization has no weights."""
    schemes, dtypes = ", ".join(view.schemes), ", ".join(view.dtypes)
    return f"{dtypes} to {schemes}" if view.only_quantizes else f"{schemes}; activations {dtypes}"
