"""Renders a Report as plain text for a terminal, a log or a commit message: underlined headings, aligned tables.

Details and figures are left out, and the text says so; of a figure its finding stays.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len

from ..figures.chart import Figure
from ..formatting import some
from ..model import (
    Block,
    Bullets,
    CodeBlock,
    Column,
    HowToRead,
    KeyNumbers,
    Remarks,
    Report,
    Scale,
    Section,
    Table,
    TableCell,
    Text,
    Tone,
)
from . import layout
from .visible import visible

DIGEST_WIDTH = 72
"""Columns of a commit message."""

LONG = 24
"""Characters of a column to the left that make it a text to wrap."""

RULES = "=-~"
"""What underlines the title, chapters and their parts."""

_SAME = "\N{ZERO WIDTH SPACE}"
"""Tells columns of the same name apart while they are laid out."""

Paint = Callable[[str, str], str]
"""Styles a text by the name of a style: heading, best, failed, faster, slower, quiet."""

_STYLES = {"heading": "1", "best": "1", "failed": "33", "faster": "34", "slower": "31", "quiet": "2"}
"""Codes of a terminal: bold, bold, yellow, blue, red, faint."""


def files(report: Report, path: Path, ascii_only: bool) -> dict[Path, bytes]:
    """Render for `path`."""
    return {path: render(report).encode("utf-8")}


def printed(report: Report, width: int, colour: bool, ascii_only: bool) -> str:
    """Render for a terminal of `width` columns."""
    return render(report, width, colour)


def render(report: Report, width: int = layout.WIDTH, colour: bool = False) -> str:
    """Return the report in lines of `width` columns; `colour`: with the codes of a terminal."""
    return "\n".join(_report(report, width, _coloured if colour else _uncoloured)) + "\n"


def render_digest(report: Report, width: int = DIGEST_WIDTH) -> str:
    """Return the short form: the lines that the report has for it, else its title, headline and identity.

    Its numbers are those of the report, because its blocks are.
    """
    blocks = [block for part in report.walk() for block in part.blocks]
    if own := [block.text for block in blocks if isinstance(block, CodeBlock) and block.digest]:
        return "\n\n".join(own) + "\n"
    lines = [*_wrapped(report.title, width), ""]
    for block in [block for block in blocks if isinstance(block, KeyNumbers)][:1]:
        lines += [*_block(block, width, _uncoloured, lambda _: ""), ""]
    identity = "; ".join(f"{name} {value}" for name, value in report.facts)
    source = f" from {report.source}" if report.source else ""
    lines += [*_wrapped(identity, width), *_wrapped(f"{report.generator}{source}", width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _coloured(text: str, style: str) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if text else text


def _uncoloured(text: str, style: str) -> str:
    return text


def _report(report: Report, width: int, paint: Paint) -> Iterator[str]:
    yield from _heading(report.title, width, 0, paint)
    yield from _pairs([(name, value) for name, value in report.facts], width)
    for section in report.sections:
        yield ""
        yield from _section(report, section, width, 1, paint)
    source = f" from {_flat(report.source)}" if report.source else ""
    yield ""
    yield from _wrapped(f"{report.generator}{source}. Every number can be recomputed from that run's CSV files.", width)


def _heading(title: str, width: int, level: int, paint: Paint) -> Iterator[str]:
    lines = _wrapped(title, width)
    yield from (paint(line, "heading") for line in lines)
    yield RULES[min(level, len(RULES) - 1)] * min(width, max(map(cell_len, lines), default=0))


def _section(report: Report, section: Section, width: int, level: int, paint: Paint) -> Iterator[str]:
    yield from _heading(section.title, width, level, paint)
    kept = [block for block in section.blocks if not _is_left_out(block)]
    left = [_flat(block.title) for block in section.blocks if isinstance(block, Table) and block.detail]
    for block in kept:
        yield from _block(block, width, paint, lambda text: f"[{report.notes[text]}]" if text else "")
        yield ""
    for number, text in report.notes_of(Section(section.id, section.title, tuple(kept))).items():
        yield from _hanging(f"[{number}] ", text, width)
    if left:
        lines = _wrapped(f"Details in the page and the markdown: {some(left, 3, '; ')}.", width)
        yield from (paint(line, "quiet") for line in lines)
    for child in section.sections:
        if any(not _is_left_out(block) for part in child.walk() for block in part.blocks):
            yield ""
            yield from _section(report, child, width, level + 1, paint)


def _is_left_out(block: Block) -> bool:
    return isinstance(block, Table | Figure) and block.detail


def _block(block: Block, width: int, paint: Paint, mark: Callable[[str], str]) -> Iterator[str]:
    match block:
        case Text():
            yield from _wrapped(f"{block.text} {mark(block.note)}", width)
        case Bullets():
            boxes = [f"[{'x' if done else ' '}] " for done in block.checked] or [""] * len(block.items)
            for box, sentence in zip(boxes, block.items, strict=True):
                yield from _hanging(f"- {box}", sentence, width)
        case Remarks():
            yield from (line for item in block.items for line in _hanging("- ", item, width))
        case HowToRead():
            yield "How to read this:"
            yield from (line for item in block.items for line in _hanging("- ", item, width))
        case CodeBlock():
            yield from (f"    {visible(line)}" for line in block.text.split("\n"))
        case KeyNumbers():
            for item in block.items:
                label, number, own = _flat(item.label), _flat(item.text), mark(item.note)
                if cell_len(f"{label}: {number}{own}") <= width:
                    yield f"{label}: {paint(number, 'best')}{own}"
                else:
                    yield from _hanging("", f"{label}:", width)
                    yield from (paint(line, "best") for line in _hanging("  ", f"{number}{own}", width))
                yield from _hanging("    ", item.detail, width)
        case Figure():
            yield from _hanging("Figure: ", f"{block.title}. {block.alt}", width)
        case Table():
            yield from _table(block, width, paint, mark)


def _table(table: Table, width: int, paint: Paint, mark: Callable[[str], str]) -> Iterator[str]:
    yield from (paint(line, "heading") for line in _wrapped(table.title, width))
    if table.reading:
        yield from _wrapped(table.reading, width)
    names = _distinct(_name(column, mark) for column in table.columns)
    marks = [[mark(row[index].note) for row in table.rows] for index, _ in enumerate(table.columns)]
    columns = [
        [_shown(column, row[index], own[number], max(map(len, own)), paint) for number, row in enumerate(table.rows)]
        for index, (column, own) in enumerate(zip(table.columns, marks, strict=True))
    ]
    right = tuple(not column.is_text for column in table.columns)
    rows = [list(row) for row in zip(*columns, strict=True)] if table.rows else []
    whole = layout.TextTable(names, rows, right)
    header, lines = layout.lay_out(whole, width, _long(whole))
    yield from (paint(line.replace(_SAME, ""), "heading") for line in header)
    yield from (line.replace(_SAME, "") for line in lines)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Tell columns of the same name apart by something that nobody sees."""
    found: list[str] = []
    for name in names:
        found.append(name + _SAME * sum(one.rstrip(_SAME) == name for one in found))
    return tuple(found)


def _name(column: Column, mark: Callable[[str], str]) -> str:
    unit = f" ({column.unit})" if column.unit else ""
    return _flat(f"{column.header}{unit}{mark(column.note)}")


def _shown(column: Column, cell: TableCell, mark: str, room: int, paint: Paint) -> str:
    """Text of a cell with its mark; numbers keep their places below each other whether or not they have one."""
    text = _flat(cell.text)
    if style := _style(column, cell):
        text = paint(text, style)
    return f"{text}{mark}" if column.is_text else f"{text}{mark:<{room}}"


def _style(column: Column, cell: TableCell) -> str:
    if cell.tone is Tone.FAILED:
        return "failed"
    if cell.tone is Tone.UNDECIDED:
        return "quiet"
    if column.scale is Scale.DIVERGING and cell.level:
        return "faster" if cell.level > 0 else "slower"
    return "best" if cell.tone is Tone.BEST else ""


def _long(table: layout.TextTable) -> list[str]:
    """Columns of text to wrap, the longest first; the first column names its row and stays on its line."""
    lengths = {
        name: max(map(layout.shown_len, cells), default=0)
        for index, (name, cells) in enumerate(zip(table.names, table.columns(), strict=True))
        if index and table.right is not None and not table.right[index]
    }
    return sorted((name for name, length in lengths.items() if length > LONG), key=lambda name: -lengths[name])


def _pairs(pairs: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    room = max((cell_len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        yield from _hanging(f"{name:<{room}}  ", value, width)


def _hanging(mark: str, text: str, width: int) -> Iterator[str]:
    """Wrap a text behind a mark, the further lines below its beginning."""
    lines = _wrapped(text, width - len(mark)) or [""]
    yield f"{mark}{lines[0]}".rstrip()
    yield from (f"{' ' * len(mark)}{line}" for line in lines[1:])


def _wrapped(text: str, width: int) -> list[str]:
    return layout.wrap(_flat(text), width)


def _flat(text: str) -> str:
    """One line in which nothing steers a terminal."""
    return visible(" ".join(text.split()))
