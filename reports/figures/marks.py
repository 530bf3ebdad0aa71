"""Style, colour and marker of series."""

from collections.abc import Iterable, Mapping, Set

from .chart import LegendEntry
from .colours import LIGHT

COLOURS = len(LIGHT.series)
"""Number of colours; style 0 is ink, for the baseline."""

GREY = COLOURS - 1
"""From this style on all series are grey: a colour belongs to one series only."""


MARKS = (
    ("M-2.6-2.6h5.2v5.2h-5.2z", False),
    ("M-2.8 0a2.8 2.8 0 1 0 5.6 0a2.8 2.8 0 1 0-5.6 0z", False),
    ("M0-3.2L3.1 2.4H-3.1z", False),
    ("M0-3.5L3.3 0 0 3.5-3.3 0z", False),
    ("M0 3.2L3.1-2.4H-3.1z", False),
    ("M-3 0H3M0-3V3", True),
    ("M-2.5-2.5L2.5 2.5M-2.5 2.5L2.5-2.5", True),
    ("M-1.3-3.2h2.6v6.4h-2.6z", False),
    ("M-1.6 0a1.6 1.6 0 1 0 3.2 0a1.6 1.6 0 1 0-3.2 0z", False),
)


def colour_index(style: int) -> int:
    """Palette index of a style."""
    return min(style, GREY)


def provider_styles(baseline: str, others: Iterable[str], timed: Set[str]) -> dict[str, int]:
    """Style of each provider: ink for the baseline, then `others` in their order; those without a time come last."""
    order = sorted(others, key=lambda name: name not in timed)
    return {baseline: 0} | {name: style for style, name in enumerate(order, start=1)}


def provider_legend(providers: Iterable[str], styles: Mapping[str, int]) -> tuple[LegendEntry, ...]:
    """One entry per provider, but a single one for all that are grey."""
    names = list(providers)
    grey = [name for name in names if styles[name] >= GREY]
    coloured = tuple(LegendEntry(name, styles[name]) for name in names if styles[name] < GREY)
    return (*coloured, LegendEntry(f"in grey: {', '.join(grey)}", GREY)) if grey else coloured
