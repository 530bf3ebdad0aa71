"""One block of a report as GitHub markdown: tables, folded details, images as relative files, everything escaped."""

import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import quote

from ..figures.chart import Figure
from ..model import (
    OPEN_REMARKS,
    Block,
    Bullets,
    CodeBlock,
    Column,
    HowToRead,
    KeyNumbers,
    Remarks,
    Table,
    TableCell,
    Text,
    Tone,
)

Number = Callable[[str], int]
"""Footnote number of a text."""

_SPECIAL = re.compile(r"([\\`*\[\]<>|~#&$]|(?<![^\W_])_|_(?![^\W_])|@|^[-+=](?=\s|$))")


FOLD_END = "</details>"


def image_path(figure: Figure) -> str:
    """Path of a figure's image, relative to the markdown file."""
    return f"figures/{figure.id}.svg"


def data_path(figure: Figure) -> str:
    """Path of the CSV with the numbers of a figure, relative to the markdown file."""
    return f"figures/{figure.id}.csv"


def written(block: Block, number: Number = lambda _: 99) -> str:
    """Return one block, its blank line included."""
    match block:
        case Text():
            return f"{'- ' * bool(block.indent)}{escape(block.text)}{_marker(block.note, number)}\n"
        case Bullets():
            marks = [f"[{'x' if done else ' '}] " for done in block.checked] or [""] * len(block.items)
            return "\n".join(f"- {mark}{escape(item)}" for mark, item in zip(marks, block.items, strict=True)) + "\n"
        case Remarks():
            items = [f"- {escape(item)}\n" for item in block.items]
            rest = "".join(items[OPEN_REMARKS:])
            return "".join(items[:OPEN_REMARKS]) + (f"\n{details(more(block), rest)}" if rest else "")
        case HowToRead():
            return details("How to read this", "".join(f"- {escape(item)}\n" for item in block.items))
        case CodeBlock():
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", block.text)), default=0))
            return f"{fence}{block.language}\n{block.text}\n{fence}\n"
        case KeyNumbers():
            return "\n".join(_key_numbers(block, number)) + "\n"
        case Table():
            return _folded(block.title, _table(block, number), block.detail)
        case Figure():
            return _folded(block.title, _figure(block), block.detail)


def fold_begin(summary: str) -> str:
    """Begin what is folded behind a summary, to be followed by a blank line."""
    flat = " ".join(summary.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<details><summary>{flat}</summary>"


def details(summary: str, body: str) -> str:
    """Fold `body` (markdown) behind its summary."""
    return f"{fold_begin(summary)}\n\n{body}\n{FOLD_END}\n"


def more(remarks: Remarks) -> str:
    """Count the remarks that do not stand open."""
    return f"{len(remarks.items) - OPEN_REMARKS} more"


def footnotes(notes: Mapping[int, str]) -> Iterator[str]:
    """Yield the lines of notes."""
    yield from (f"<sup>{number}</sup> {escape(text)}<br>" for number, text in notes.items())


def _key_numbers(block: KeyNumbers, number: Number) -> Iterator[str]:
    for item in block.items:
        shown = f"**{escape(item.text)}**{_marker(item.note, number)}"
        yield f"- {escape(item.label)}: {shown}{f' ({escape(item.detail)})' * bool(item.detail)}"


def _figure(figure: Figure) -> str:
    caption = f"{escape(figure.caption)}\n\n" if figure.caption else ""
    data = f"[Its numbers]({quote(data_path(figure))})." if figure.data is not None else ""
    image = f"![{escape(figure.alt)}]({quote(image_path(figure))})"
    return f"{image}\n\n{caption}{data}\n"


def _folded(title: str, body: str, fold: bool) -> str:
    if fold:
        return details(title, body)
    return f"**{escape(title)}**\n\n{body}" if title else body


def _table(table: Table, number: Number) -> str:
    reading = f"{escape(table.reading)}\n\n" if table.reading else ""
    header = " | ".join(_header(column, number) for column in table.columns)
    rule = "|".join(":--" if column.is_text else "--:" for column in table.columns)
    rows = "\n".join("| " + " | ".join(_cell(cell, number) for cell in row) + " |" for row in table.rows)
    return f"{reading}| {header} |\n|{rule}|\n{rows}\n"


def _header(column: Column, number: Number) -> str:
    unit = f" ({escape(column.unit)})" if column.unit else ""
    return f"{escape(column.header)}{unit}{_marker(column.note, number)}"


def _cell(cell: TableCell, number: Number) -> str:
    text = f"[{escape(cell.text)}]({quote(cell.link)})" if cell.link else escape(cell.text)
    return (f"**{text}**" if cell.tone is Tone.BEST and text else text) + _marker(cell.note, number)


def _marker(note: str, number: Number) -> str:
    return f"<sup>{number(note)}</sup>" if note else ""


def escape(text: str) -> str:
    """Escape what markdown or GitHub would interpret, on one line: emphasis, links, HTML, table pipes, mentions."""
    flat = " ".join(text.split())
    return _SPECIAL.sub(_escaped, flat)


def _escaped(match: re.Match[str]) -> str:
    special = match.group(0)
    entities = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;", "#": "&#35;", "|": "\\|"}
    return entities.get(special, f"\\{special}")
