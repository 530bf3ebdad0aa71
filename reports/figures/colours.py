"""Colours of heat cells and series, in light and dark, chosen so that text on them stays readable.

The diverging scale is coolwarm's idea (blue and red ends, a neutral middle, even lightness steps: it survives the
common kinds of colour blindness) on log2 of a ratio, turned so that blue is the good direction. Steps are interpolated
in OKLab (Ottosson 2020, https://bottosson.github.io/posts/oklab/).
"""

import math
from dataclasses import dataclass

STEPS = 12
"""Steps on each side of neutral."""

OCTAVES = 3.0
"""log2 ratio at which the diverging scale is saturated: 8x."""


@dataclass(frozen=True, slots=True)
class Theme:
    """A surface and what is drawn on it: sRGB hex colours; the last of `series` is the grey of all further ones."""

    surface: str
    ink: str
    neutral: str
    good: str
    bad: str
    sequential: str
    series: tuple[str, ...]
    classes: dict[str, str]


_CLASSES = ("dram", "llc", "l2", "compute", "alu", "latency", "launch", "balanced", "unexplained", "impossible")


def _classes(colours: str) -> dict[str, str]:
    """Colours of the bound classes, in the order of `_CLASSES`."""
    return dict(zip(_CLASSES, colours.split(), strict=True))


LIGHT = Theme(
    surface="#ffffff",
    ink="#14181f",
    neutral="#f2f2f0",
    good="#1f56b0",
    bad="#b3261e",
    sequential="#1d7a5f",
    series=("#20242b", "#0066b3", "#c94f00", "#00855f", "#a83f86", "#8a6a00", "#5a45b8", "#7a3d10", "#6f757e"),
    classes=_classes("#3b7cc6 #5aa0d8 #8cc3e6 #c2571a #b8902c #b06aa8 #7d6bb3 #6f9a6b #9aa0a8 #dd5045"),
)

DARK = Theme(
    surface="#14171c",
    ink="#e8eaee",
    neutral="#262a31",
    good="#4f93ff",
    bad="#ff6650",
    sequential="#6fd6b0",
    series=("#e8eaee", "#5db0f5", "#ff9350", "#38cb9b", "#ea92cf", "#d8b846", "#a99af5", "#d09a6a", "#868d98"),
    classes=_classes("#5b98de #7fbdf0 #a9d8f7 #ef8548 #d9b654 #d795cf #a594dd #93c08e #858b95 #ff7a6b"),
)

THEMES = (LIGHT, DARK)


def step(log2_ratio: float) -> int:
    """Return the step of the diverging scale, from -STEPS (bad) through 0 to STEPS (good)."""
    scaled = max(-1.0, min(1.0, log2_ratio / OCTAVES))
    return round(scaled * STEPS)


def level(fraction: float) -> int:
    """Return the step of the sequential scale, 0 to STEPS, of a fraction from 0 to 1."""
    return round(max(0.0, min(1.0, fraction)) * STEPS)


def diverging(theme: Theme, index: int) -> str:
    """Hex colour of a step of the diverging scale."""
    return mix(theme.neutral, theme.good if index > 0 else theme.bad, abs(index) / STEPS)


def sequential(theme: Theme, index: int) -> str:
    """Hex colour of a step of the sequential scale; half way only, so that the number stays the loudest."""
    return mix(theme.neutral, theme.sequential, 0.85 * index / STEPS)


def step_name(index: int) -> str:
    """Name of a step of the diverging scale, as a fill of boxes and a CSS class."""
    return f"r{-index}" if index < 0 else f"g{index}"


def text_on(background: str) -> str:
    """Return black or white, whichever reads better on `background`: at least 4.58 : 1, the square root of 21."""
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, background))


def contrast(first: str, second: str) -> float:
    """WCAG 2 contrast ratio of two hex colours, 1 to 21."""
    a, b = sorted((_luminance(first), _luminance(second)))
    return (b + 0.05) / (a + 0.05)


def mix(start: str, end: str, amount: float) -> str:
    """Interpolate two hex colours in OKLab; `amount` 0 gives start, 1 gives end."""
    mixed = [a + (b - a) * amount for a, b in zip(_to_oklab(start), _to_oklab(end), strict=True)]
    return _from_oklab(mixed)


def _channels(colour: str) -> list[float]:
    """Linear-light sRGB channels, 0 to 1."""
    encoded = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in encoded]


def _luminance(colour: str) -> float:
    red, green, blue = _channels(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _to_oklab(colour: str) -> list[float]:
    red, green, blue = _channels(colour)
    long = math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    medium = math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return [
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    ]


def _from_oklab(lab: list[float]) -> str:
    lightness, a, b = lab
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    encoded = (12.92 * v if v <= 0.0031308 else 1.055 * max(v, 0.0) ** (1 / 2.4) - 0.055 for v in linear)
    return "#" + "".join(f"{round(255 * max(0.0, min(1.0, value))):02x}" for value in encoded)
