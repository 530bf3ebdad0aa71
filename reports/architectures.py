"""From the runs of several architectures to one report that shows them side by side."""

from collections.abc import Callable, Mapping, Sequence

from .. import __version__
from ..shapes.errors import UsageError
from .model import Report, Section
from .sections.architectures.conditions import absences, conditions, limits
from .sections.architectures.crossovers import crossovers
from .sections.architectures.curves import curves
from .sections.architectures.grid import roofline, speedup, times
from .sections.architectures.headline import digest, headline
from .sections.architectures.subject import Architectures, Sweep
from .sections.architectures.winners import disagreements
from .view import View

__all__ = ["NAME", "Sweep", "build_architectures"]

NAME = "architectures"
"""Name of this kind of report, beside those of `presets`."""

CHAPTERS: tuple[Callable[[Architectures], Section | None], ...] = (
    headline,
    curves,
    speedup,
    disagreements,
    crossovers,
    roofline,
    times,
    absences,
    conditions,
    digest,
    limits,
)
"""Chapters in reading order; one that has nothing to say returns None."""


def build_architectures(
    sweep: Sweep,
    views: Sequence[tuple[str, View]],
    *,
    missing: Mapping[str, str] | None = None,
    links: Mapping[str, str] | None = None,
) -> Report:
    """Lay out the runs of `views`, (architecture, view of its run) each. Nothing is written.

    missing  architecture of the sweep -> why it has no view: a clause without its full stop
    links    architecture -> path of its own report, relative to where this one will be

    Raises UsageError when there is no view, or when the baselines of the runs differ.
    """
    if not views:
        raise UsageError(f"{sweep.path}: no architecture of this sweep has a finished cell yet")
    subject = Architectures(sweep, dict(views), missing or {}, links or {})
    sections = tuple(section for chapter in CHAPTERS if (section := chapter(subject)) is not None)
    return Report(
        title=f"{sweep.suite} on {_listed([*subject.names, *subject.missing])}",
        facts=_facts(subject),
        sections=sections,
        generator=f"rooflens {__version__}",
        source=sweep.path,
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _facts(subject: Architectures) -> tuple[tuple[str, str], ...]:
    """Identity of the sweep: what a reader checks first."""
    passed = [f"{name} {view.cells_with_a_time}" for name, view in subject.views.items()]
    facts = (
        ("sweep", subject.sweep.id),
        ("measured", subject.sweep.created_at),
        *((name, view.device_name) for name, view in subject.views.items()),
        ("operands", ", ".join(dict.fromkeys(f"{part.dtype} · {part.scheme}" for part in subject.slices))),
        ("cache", ", ".join(dict.fromkeys(part.cache for part in subject.slices))),
        ("baseline", subject.baseline),
        ("challengers", ", ".join(subject.challengers)),
        ("cells with a time", ", ".join(passed)),
    )
    return tuple((name, value) for name, value in facts if value)
