"""From a comparison of two versions to a Report."""

from .. import __version__
from ..analysis.comparison.effects import Order, Status
from ..analysis.comparison.result import Result
from .model import Report
from .presets import of_two_versions

DEFAULT = "branch"

_ORDERS = {
    Order.INTERLEAVED: "in turn, every round of every version in a fresh process",
    Order.SEQUENTIAL: "one after the other",
    Order.IMPORTED: "unknown: one value per case, from tables",
}


def build_comparison(result: Result, preset: str = DEFAULT) -> Report:
    """Lay out what was found. Nothing is written; the same result gives the same report.

    Raises UsageError for an unknown preset, and for one of a single run.
    """
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
        title=f"{result.head.label} against {result.base.label}",
        facts=tuple((name, value) for name, value in facts if value),
        sections=of_two_versions(preset).sections(result),
        generator=f"rooflens {__version__}",
        source=result.head.source,
    )
