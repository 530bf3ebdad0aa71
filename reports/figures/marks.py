"""What tells series apart besides colour: marker and dash, the same in SVG and PNG."""

from dataclasses import dataclass

from .colours import LIGHT

COLOURS = len(LIGHT.series)
"""Number of colours; style 0 is ink, for the baseline."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Marker as an SVG path in a box from -3 to 3, the matplotlib code of the same shape, and whether it is hollow."""

    path: str
    matplotlib: str
    hollow: bool = False


MARKS = (
    Mark("M-2.6-2.6h5.2v5.2h-5.2z", "s"),
    Mark("M-2.8 0a2.8 2.8 0 1 0 5.6 0a2.8 2.8 0 1 0-5.6 0z", "o"),
    Mark("M0-3.2L3.1 2.4H-3.1z", "^"),
    Mark("M0-3.5L3.3 0 0 3.5-3.3 0z", "D"),
    Mark("M0 3.2L3.1-2.4H-3.1z", "v"),
    Mark("M-3 0H3M0-3V3", "P", hollow=True),
    Mark("M-2.5-2.5L2.5 2.5M-2.5 2.5L2.5-2.5", "X", hollow=True),
    Mark("M-1.3-3.2h2.6v6.4h-2.6z", "d"),
)


def colour_index(style: int) -> int:
    """Palette index of a style: 0 is kept for the baseline, the others repeat after the palette's end."""
    return 0 if style == 0 else 1 + (style - 1) % (COLOURS - 1)


def mark(style: int) -> Mark:
    """Marker of a style."""
    return MARKS[colour_index(style)]


def dashed(style: int) -> bool:
    """True from the second use of a colour on."""
    return style >= COLOURS
