"""Style sheet and script of the page, in one string each: the policy of the page names them by their hashes."""

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files

from ..figures import colours
from .html_table import ALIGNED, BAR_STEPS


def template(name: str) -> str:
    """Return a file of `templates/`."""
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


@cache
def script() -> str:
    """Return the script without its comments and indentation."""
    lines = (line.strip() for line in template("report.js").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def policy(styles: str, scripts: str) -> str:
    """Return the content security policy: nothing is loaded, and only this style sheet and this script count.

    Attributes may say colours and lengths; what they could load is refused like everything else.
    """
    return (
        f"default-src 'none'; img-src data:; style-src-elem {_hash(styles)}; style-src-attr 'unsafe-inline'; "
        f"script-src {_hash(scripts)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def stylesheet() -> str:
    """Return the style sheet with the palettes of both themes."""
    light, dark = (declared(variables(theme)) for theme in colours.THEMES)
    rules = [
        f":root{{color-scheme:light dark;{light}}}",
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}",
        f"@media print{{:root{{color-scheme:light;{light}}}}}",
        ",".join(f".t{index} tr>:nth-child({index + 1})" for index in range(ALIGNED)) + "{text-align:left}",
    ]
    rules += [f".{name}{{background-color:var(--{name});color:var(--{name}t)}}" for name in scales(colours.LIGHT)]
    rules += [f".v{index}{{--v:{index / BAR_STEPS:g}}}" for index in range(BAR_STEPS + 1)]
    return "\n".join([*rules, *(template(name).strip() for name in ("report.css", "figure.css")), drawing_rules()])


@cache
def drawing_rules() -> str:
    """Return the rules of what charts contain, on the page and in files of their own."""
    rules = [f".s{index}{{--c:var(--s{index})}}" for index in range(len(colours.LIGHT.series))]
    rules += [f"path.l.s{index}{{marker:url(#m{index})}}" for index in range(len(colours.LIGHT.series))]
    return "\n".join([*rules, template("drawing.css").strip()])


def variables(theme: colours.Theme) -> dict[str, str]:
    """Return the colours of a theme by the names of their CSS variables."""
    mix = colours.mix
    names = {
        "surface": theme.surface,
        "ink": theme.ink,
        "raised": mix(theme.surface, theme.ink, 0.025 if theme is colours.LIGHT else 0.045),
        "line": mix(theme.surface, theme.ink, 0.12),
        "grid": mix(theme.surface, theme.ink, 0.07),
        "strong": mix(theme.surface, theme.ink, 0.42),
        "muted": mix(theme.surface, theme.ink, 0.62),
        "soft": mix(theme.surface, theme.ink, 0.76),
        "link": theme.series[1],
        "mark": mix(theme.surface, theme.series[5], 0.3),
        "bar": mix(theme.surface, theme.series[1], 0.26),
    }
    for name, background in scales(theme).items():
        names |= {name: background, f"{name}t": colours.text_on(background)}
    fills = {f"s{index}": colour for index, colour in enumerate(theme.series)}
    fills |= {f"k-{name}": colour for name, colour in theme.classes.items()}
    return names | fills | {f"{name}t": colours.text_on(colour) for name, colour in fills.items()}


def scales(theme: colours.Theme) -> dict[str, str]:
    """Return the colours of cells by their classes: those of the diverging scale, then those of the sequential one."""
    steps = range(-colours.STEPS, colours.STEPS + 1)
    diverging = {colours.step_name(index): colours.diverging(theme, index) for index in steps}
    return diverging | {f"q{index}": colours.sequential(theme, index) for index in range(colours.STEPS + 1)}


def declared(colours_by_name: Mapping[str, str]) -> str:
    """Declare CSS variables."""
    return ";".join(f"--{name}:{value}" for name, value in colours_by_name.items())
