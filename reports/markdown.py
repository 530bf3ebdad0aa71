"""Renders a Report as GitHub markdown that fits a pull-request body: tables, folded details, images as relative files.

GitHub's limit is 65,536 characters, and it drops `<svg>`, `<style>` and data URIs, so there are none. When the whole
report is longer than `LIMIT`, detail blocks are left out, the last ones first, then whole blocks; each place says so.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .chart import Figure
from .model import Align, Block, Bullets, Cell, Code, Column, KeyNumbers, Report, Section, Table, Text, Tone

LIMIT = 60_000
"""Characters of a whole report."""

_SPECIAL = re.compile(r"([\\`*\[\]<>|~#&$]|(?<![^\W_])_|_(?![^\W_])|@|^[-+=](?=\s|$))")


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text, and the figures that it shows: the caller writes each to `image_path(figure)` beside it."""

    text: str
    figures: tuple[Figure, ...]


def image_path(figure: Figure) -> str:
    """Path of a figure's image, relative to the markdown file."""
    return f"figures/{figure.id}.png"


def render(report: Report, limit: int = LIMIT) -> Rendered:
    """Return the report in at most `limit` characters, leaving out what a reader can do without, last first."""
    whole = [(section, index) for section in report.walk() for index, _ in enumerate(section.blocks)]
    detail = [at for at in whole if _is_detail(at[0].blocks[at[1]])]
    plain = [at for at in whole if at not in detail and isinstance(at[0].blocks[at[1]], Table | Figure | Bullets)]
    droppable = [*reversed(detail), *reversed(plain)]
    sizes = [len(_block(section.blocks[index])) for section, index in droppable]

    text, dropped = _assemble(report, set()), 0
    while len(text) > limit and dropped < len(droppable):
        excess = len(text) - limit
        while dropped < len(droppable) and excess > 0:
            excess -= sizes[dropped]
            dropped += 1
        text = _assemble(report, {(section.id, index) for section, index in droppable[:dropped]})
    if len(text) > limit:
        text = text[: limit - 200].rsplit("\n", 1)[0] + f"\n\n{_left_out('the rest', report)}\n"
    gone = {(section.id, index) for section, index in droppable[:dropped]}
    figures = tuple(
        block
        for section in report.walk()
        for index, block in enumerate(section.blocks)
        if isinstance(block, Figure) and (section.id, index) not in gone
    )
    return Rendered(text, figures)


def _is_detail(block: Block) -> bool:
    return isinstance(block, Table | Figure) and block.detail


def _assemble(report: Report, dropped: set[tuple[str, int]]) -> str:
    lines = [f"# {escape(report.title)}", ""]
    lines += [" · ".join(f"{escape(name)}: **{escape(value)}**" for name, value in report.facts), ""]
    for section in report.sections:
        lines += _section(report, section, dropped, 2)
    source = f" from `{report.source}`" if report.source else ""
    lines += ["---", f"{escape(report.generator)}{source}. Every number can be recomputed from that run's CSV files."]
    return "\n".join(lines) + "\n"


def _section(report: Report, section: Section, dropped: set[tuple[str, int]], level: int) -> Iterator[str]:
    yield from (f"{'#' * level} {escape(section.title)}", "")
    missing, kept = [], []
    for index, block in enumerate(section.blocks):
        if (section.id, index) in dropped:
            missing.append(_title(block))
        else:
            kept.append(block)
            yield _block(block, lambda text: report.notes[text].number)
    notes = report.notes_of(Section(section.id, section.title, tuple(kept)))
    yield from (f"<sup>{note.number}</sup> {escape(note.text)}<br>" for note in notes)
    if notes:
        yield ""
    for child in section.sections:
        if _is_gone(child, dropped):
            missing.append(f"{child.title} (all of it)")
        else:
            yield from _section(report, child, dropped, min(level + 1, 6))
    if missing:
        yield from (_left_out(_titles(missing), report), "")


def _is_gone(section: Section, dropped: set[tuple[str, int]]) -> bool:
    """True when nothing of a sub-section is left, so that its heading is not worth its place."""
    return not section.sections and all((section.id, index) in dropped for index, _ in enumerate(section.blocks))


def _titles(titles: list[str]) -> str:
    shown = "; ".join(titles[:6])
    return shown if len(titles) <= 6 else f"{shown}; and {len(titles) - 6} more"


def _left_out(what: str, report: Report) -> str:
    where = f" of `{report.source}`" if report.source else ""
    return f"*Left out for length: {escape(what)}. It is in the HTML report and the CSV files{where}.*"


def _title(block: Block) -> str:
    return block.title if isinstance(block, Table | Figure) else "a list"


def _block(block: Block, number: Callable[[str], int] = lambda _: 99) -> str:
    """Return one block, its blank line included; `number` gives the footnote number of a text."""
    if isinstance(block, Text):
        return f"{escape(block.text)}{_marker(block.note, number)}\n"
    if isinstance(block, Bullets):
        return "\n".join(f"- {escape(item)}" for item in block.items) + "\n"
    if isinstance(block, Code):
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", block.text)), default=0))
        return f"{fence}{block.language}\n{block.text}\n{fence}\n"
    if isinstance(block, KeyNumbers):
        rows = ["| | | |", "|:--|--:|:--|"]
        for item in block.items:
            shares = ", ".join(f"{share.label} {share.text}" for share in item.shares)
            detail = f"{shares}. {item.detail}" if shares else item.detail
            rows.append(
                f"| {escape(item.label)} | **{escape(item.text)}**{_marker(item.note, number)} | {escape(detail)} |"
            )
        return "\n".join(rows) + "\n"
    if isinstance(block, Table):
        return _folded(block.title, _table(block, number), block.detail)
    image = f"![{escape(block.alt)}]({image_path(block)})"
    caption = f"{escape(block.caption)}\n\n" if block.caption else ""
    return _folded(block.title, f"{image}\n\n{caption}*How to read this.* {escape(block.how_to_read)}\n", block.detail)


def _folded(title: str, body: str, fold: bool) -> str:
    if fold:
        return f"<details><summary>{_html(title)}</summary>\n\n{body}\n</details>\n"
    return f"**{escape(title)}**\n\n{body}"


def _table(table: Table, number: Callable[[str], int]) -> str:
    reading = f"{escape(table.reading)}\n\n" if table.reading else ""
    header = " | ".join(_header(column, number) for column in table.columns)
    rule = "|".join(":--" if column.align is Align.LEFT else "--:" for column in table.columns)
    rows = "\n".join("| " + " | ".join(_cell(cell, number) for cell in row) + " |" for row in table.rows)
    return f"{reading}| {header} |\n|{rule}|\n{rows}\n"


def _header(column: Column, number: Callable[[str], int]) -> str:
    unit = f" ({escape(column.unit)})" if column.unit else ""
    return f"{escape(column.header)}{unit}{_marker(column.note, number)}"


def _cell(cell: Cell, number: Callable[[str], int]) -> str:
    text = escape(cell.text)
    return (f"**{text}**" if cell.tone is Tone.BEST and text else text) + _marker(cell.note, number)


def _marker(note: str, number: Callable[[str], int]) -> str:
    return f"<sup>{number(note)}</sup>" if note else ""


def escape(text: str) -> str:
    """Escape what markdown or GitHub would interpret, on one line: emphasis, links, HTML, table pipes, mentions."""
    flat = " ".join(text.split())
    return _SPECIAL.sub(_escaped, flat)


def _escaped(match: re.Match[str]) -> str:
    special = match.group(0)
    entities = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;", "#": "&#35;", "|": "\\|"}
    return entities.get(special, f"\\{special}")


def _html(text: str) -> str:
    """Escape for an HTML element inside markdown."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
