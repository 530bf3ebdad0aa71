"""Renders a Report as one self-contained HTML file: no network, no script, light and dark by the reader's setting."""

from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from . import colours, svg
from .chart import Chart
from .model import Align, Block, Cell, Column, Note, Report, Scale, Section, Table, Tone

TONE_CLASS = {Tone.UNDECIDED: "u", Tone.FAILED: "f", Tone.MISSING: "x", Tone.BEST: "b"}

WRAP_BEYOND = 28
"""Characters of a left-aligned cell above which it may wrap."""


def render(report: Report) -> str:
    """Return the page as one string."""
    anchors = _note_anchors(report)
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            style=Markup(stylesheet()),
            marker_definitions=Markup(svg.marker_definitions()),
            anchor=lambda text: f"note-{report.notes[text].number}",
            own_anchor=lambda section, note: anchors[note] == section.id,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        attributes=attributes,
        draw=_draw,
        heat_class=heat_class,
        is_heat=_is_heat,
        key_steps=_key_steps,
        kind_of=_kind_of,
        nav_title=_nav_title,
        swatch=lambda style: Markup(svg.swatch(style)),
    )
    return environment


def _template(name: str) -> str:
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


def _note_anchors(report: Report) -> dict[Note, str]:
    """Each note is the target of its links where it stands first; further copies have no anchor."""
    first: dict[Note, str] = {}
    for section in report.walk():
        for note in report.notes_of(section):
            first.setdefault(note, section.id)
    return first


def _draw(chart: Chart, panel: bool) -> Markup:
    return Markup(svg.draw(chart, svg.PANEL if panel else svg.SINGLE))


def _kind_of(block: Block) -> str:
    return type(block).__name__


def _nav_title(section: Section) -> str:
    """Title of a section without the name of a provider, for which the list of contents is too narrow."""
    return section.title.partition(" over ")[0]


def _is_heat(table: Table) -> bool:
    return any(column.scale in (Scale.DIVERGING, Scale.SEQUENTIAL) for column in table.columns)


def heat_class(step: int) -> str:
    """CSS class of a step of the diverging scale."""
    return f"g{step}" if step > 0 else f"r{-step}" if step < 0 else "g0"


def attributes(column: Column, cell: Cell) -> Markup:
    """Return the class and style attributes of a table cell, as short as they can be."""
    classes, style = [], ""
    if column.align is Align.LEFT:
        classes.append("lt")
        if len(cell.text) > WRAP_BEYOND:
            classes.append("wr")
    if cell.level is not None:
        if column.scale is Scale.DIVERGING:
            classes.append(heat_class(colours.step(cell.level)))
        elif column.scale is Scale.SEQUENTIAL:
            classes.append(f"q{colours.level(cell.level)}")
        elif column.scale is Scale.BAR:
            classes.append("bar")
            style = f' style="--v:{max(0.0, min(1.0, cell.level)):.3f}"'
    if cell.tone:
        classes.append(TONE_CLASS[cell.tone])
    quoted = " class=" + (classes[0] if len(classes) == 1 else f'"{" ".join(classes)}"') if classes else ""
    return Markup(quoted + style)


def _key_steps() -> list[tuple[int, str]]:
    """Steps of the diverging scale for its key, with the ratio written on those that are whole octaves."""
    labels = {-12: "≤1/8×", -8: "1/4×", -4: "1/2×", 0: "1×", 4: "2×", 8: "4×", 12: "≥8×"}
    return [(index, labels.get(index, "")) for index in range(-colours.STEPS, colours.STEPS + 1, 2)]


@cache
def stylesheet() -> str:
    """Return the style sheet with the palettes of both themes."""
    light, dark = (_variables(theme) for theme in colours.THEMES)
    rules = [
        f":root{{color-scheme:light dark;{light}}}",
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}",
        f"@media print{{:root{{color-scheme:light;{light}}}}}",
    ]
    for index in range(-colours.STEPS, colours.STEPS + 1):
        name = heat_class(index)
        rules.append(f".{name}{{background-color:var(--{name});color:var(--{name}t)}}")
    for index in range(colours.STEPS + 1):
        rules.append(f".q{index}{{background-color:var(--q{index});color:var(--q{index}t)}}")
    rules += [f".s{index}{{--c:var(--s{index})}}" for index in range(len(colours.LIGHT.series))]
    rules += [f"path.l.s{index}{{marker:url(#m{index})}}" for index in range(len(colours.LIGHT.series))]
    rules += [f".k-{name}{{background:var(--k-{name})}}" for name in colours.LIGHT.classes]
    return "\n".join(rules) + "\n" + _template("report.css").strip()


def _variables(theme: colours.Theme) -> str:
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
    for index in range(-colours.STEPS, colours.STEPS + 1):
        background = colours.diverging(theme, index)
        names[heat_class(index)] = background
        names[f"{heat_class(index)}t"] = colours.text_on(background)
    for index in range(colours.STEPS + 1):
        background = colours.sequential(theme, index)
        names[f"q{index}"] = background
        names[f"q{index}t"] = colours.text_on(background)
    names |= {f"s{index}": colour for index, colour in enumerate(theme.series)}
    names |= {f"k-{name}": colour for name, colour in theme.classes.items()}
    return ";".join(f"--{name}:{value}" for name, value in names.items())
