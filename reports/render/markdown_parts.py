"""What of a report does not fit into one body of markdown: further bodies, each within the limit, nothing lost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeAlias, TypeVar

from ..model import Block, Bullets, CodeBlock, HowToRead, KeyNumbers, Remarks, Report, Section, Table, Text
from .markdown_blocks import escape, footnotes, written

Place = tuple[str, int]
"""A block: the id of its section and its position there."""

Items = TypeVar("Items", tuple[Any, ...], list[str])

HEAD = 400
"""Characters kept for the title of a part, the way back and the end."""


@dataclass(frozen=True, slots=True)
class MarkdownPart:
    """A block, or a part of one, that fits: its text and the footnotes in it."""

    place: Place
    heading: str
    text: str
    notes: dict[int, str]


Body: TypeAlias = list[MarkdownPart]
"""Pieces of one further body."""


def packed(report: Report, places: set[Place], limit: int) -> list[Body]:
    """Put the blocks at `places` into as few bodies as reading order allows, each of at most `limit` characters."""
    room = max(limit - HEAD, limit // 2)
    bodies: list[Body] = []
    size = 0
    for piece in _pieces(report, places, room):
        if not bodies or size + _added(bodies[-1], piece) > room:
            bodies.append([])
            size = 0
        size += _added(bodies[-1], piece)
        bodies[-1].append(piece)
    return bodies


def lines(body: Body) -> Iterator[str]:
    """Yield the lines of a body: a heading per section, its blocks, its footnotes."""
    for heading, pieces in groupby(body, key=lambda piece: piece.heading):
        yield from (heading, "")
        alike = list(pieces)
        yield from (piece.text for piece in alike)
        if notes := _notes(body, heading):
            yield from (*footnotes(notes), "")


def _notes(body: Body, heading: str) -> dict[int, str]:
    """Footnotes of all pieces under a heading, by number."""
    return dict(sorted(note for piece in body if piece.heading == heading for note in piece.notes.items()))


def _added(body: Body, piece: MarkdownPart) -> int:
    """Characters that a piece adds to a body, its newlines included."""
    is_new = not body or body[-1].heading != piece.heading
    known = _notes(body, piece.heading)
    own = {number: text for number, text in piece.notes.items() if number not in known}
    notes = sum(len(line) + 1 for line in footnotes(own))
    return len(piece.text) + 1 + notes + (len(piece.heading) + 3 if is_new else 0)


def _pieces(report: Report, places: set[Place], room: int) -> Iterator[MarkdownPart]:
    for heading, section in _headed(report.sections, ()):
        for index, block in enumerate(section.blocks):
            if (section.id, index) in places:
                yield from _fitting(report, (section.id, index), heading, block, room)


def _headed(sections: Sequence[Section], above: tuple[str, ...]) -> Iterator[tuple[str, Section]]:
    for section in sections:
        path = (*above, escape(section.title))
        yield f"## {' / '.join(path)}", section
        yield from _headed(section.sections, path)


def _fitting(report: Report, place: Place, heading: str, block: Block, room: int) -> Iterator[MarkdownPart]:
    """Yield the block whole, or halved until its parts fit; what cannot be halved is cut."""
    notes = report.notes_of(Section("", "", (block,)))
    piece = MarkdownPart(place, heading, written(block, report.notes.__getitem__), notes)
    if _added([], piece) <= room:
        yield piece
        return
    halves = _halved(block)
    if halves is None:
        cut = max(0, room - len(heading) - sum(len(line) + 1 for line in footnotes(notes)) - 10)
        yield replace(piece, text=f"{piece.text[:cut]}…\n")
        return
    for half in halves:
        yield from _fitting(report, place, heading, half, room)


def _halved(block: Block) -> tuple[Block, Block] | None:
    """Two blocks with half of the rows, items, lines or words each; None for one that has a single one."""
    match block:
        case Table() if len(block.rows) > 1:
            again = f"{block.title.removesuffix(_CONTINUED)}{_CONTINUED}"
            first, second = _halves(block.rows)
            return replace(block, rows=first, footer=0), replace(block, title=again, reading="", rows=second)
        case Bullets() if len(block.items) > 1:
            items, checked = _halves(block.items), _halves(block.checked)
            return Bullets(items[0], checked[0]), Bullets(items[1], checked[1])
        case Remarks() | HowToRead() if len(block.items) > 1:
            above, below = _halves(block.items)
            return replace(block, items=above), replace(block, items=below)
        case KeyNumbers() if len(block.items) > 1:
            best, others = _halves(block.items)
            return KeyNumbers(best), KeyNumbers(others)
        case CodeBlock() if "\n" in block.text:
            before, after = map("\n".join, _halves(block.text.split("\n")))
            return replace(block, text=before), replace(block, text=after)
        case Text() if len(words := block.text.split()) > 1:
            before, after = map(" ".join, _halves(words))
            return Text(before), Text(after, block.note)
        case _:
            return None


def _halves(items: Items) -> tuple[Items, Items]:
    middle = len(items) // 2
    return items[:middle], items[middle:]


_CONTINUED = " (continued)"
