"""What a report says, before it is HTML or markdown: plain values, no markup, no pixels.

A number stands once in this tree, raw in base units beside the text that a reader sees, so that every renderer shows
the same one. Renderers walk `Report.sections`; they compute nothing but layout.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from numbers import Integral
from typing import Any, TypeAlias

from .. import __version__
from ..shapes.run_folder.coverage import Coverage
from .figures.chart import Figure, Raw


class Scale(StrEnum):
    """How `TableCell.level` of a column becomes colour."""

    NONE = ""
    DIVERGING = "diverging"
    """level is log2 of a ratio: 0 neutral, positive is the good direction."""
    SEQUENTIAL = "sequential"
    """level is a fraction from 0 to 1."""
    BAR = "bar"
    """level is a fraction from 0 to 1, drawn as the length of a bar behind the text."""


class Tone(StrEnum):
    """What a cell is besides its number."""

    PLAIN = ""
    UNDECIDED = "undecided"
    FAILED = "failed"
    MISSING = "missing"
    BEST = "best"


@dataclass(frozen=True, slots=True)
class TableCell:
    """One table cell: shown `text`, raw `value` in base units, colour `level` (see Scale) and a footnote text.

    `value` is None when there is none: a failed cell, an unknown.
    `link` is the path of a file that the text leads to, relative to the report.
    """

    text: str
    value: Raw = None
    level: float | None = None
    note: str = ""
    tone: Tone = Tone.PLAIN
    link: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A table column; `unit` is shown once, in the header; `note` is a footnote on the header.

    Numbers stand to the right, texts to the left (`is_text`). `key` tells columns apart that may have one header.
    """

    header: str
    unit: str = ""
    is_text: bool = False
    scale: Scale = Scale.NONE
    note: str = ""
    key: str = ""


Cells: TypeAlias = dict[Column | str, object]
"""One row of a table: its cells by their columns. A header alone is that of a column of texts.

What is no TableCell is shown as it is; a whole number is also the value behind it.
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a terminal lays out a list, by names of columns: see `listing`."""

    once: tuple[str, ...] = ()
    long: tuple[str, ...] = ()
    heading: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `reading` says which way it goes and what was counted; `how_to_read` defines its terms.

    The first `stub` columns head their row. `detail`: a renderer short of space may fold it, or drop it.
    `listing`: a row for every cell, which a section for a pull request leaves to the other formats. `key`: draw the key
    of the colour scale above it (once per group of grids is enough). The last `footer` rows sum up.
    """

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    reading: str = ""
    stub: int = 1
    detail: bool = False
    listing: bool = False
    key: bool = False
    footer: int = 0
    layout: Layout = Layout()
    how_to_read: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.id}: a row of {len(row)} cells under {len(self.columns)} columns")


def table(id: str, title: str, rows: Iterable[Cells], reading: str = "", **fields: Any) -> Table:
    """Build a table with the columns of its first row; a cell that a later row lacks is empty. `fields`: of Table."""
    listed = list(rows)
    heads = list(listed[0])
    if unknown := {head for row in listed for head in row} - {*heads}:
        raise ValueError(f"table {id}: the first row has no {unknown}")
    columns = tuple(Column(head, is_text=True) if isinstance(head, str) else head for head in heads)
    return Table(
        id,
        title,
        columns,
        tuple(tuple(_cell(row.get(head, "")) for head in heads) for row in listed),
        reading,
        **fields,
    )


def _cell(value: object) -> TableCell:
    if isinstance(value, TableCell):
        return value
    return TableCell(str(value), int(value) if isinstance(value, Integral) else None)


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph, `indent` characters to the right of others in a terminal, where its further lines hang by `hang`."""

    text: str
    note: str = ""
    indent: int = 0
    hang: int = 0


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences; with `checked`, one per item, a checklist of what is done and what is open."""

    items: tuple[str, ...]
    checked: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if self.checked and len(self.checked) != len(self.items):
            raise ValueError(f"a checklist of {len(self.items)} items with {len(self.checked)} marks")


@dataclass(frozen=True, slots=True)
class Remarks:
    """What a reader should know besides the results, the most important first; `OPEN_REMARKS` of them stand open."""

    items: tuple[str, ...]


OPEN_REMARKS = 5


@dataclass(frozen=True, slots=True)
class HowToRead:
    """Definitions, folded where a format can: those of a chapter, and of its tables and figures, each once."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Commands or lines to copy; `digest`: they are the short form of the report, for a commit message."""

    text: str
    language: str = "sh"
    digest: bool = False


@dataclass(frozen=True, slots=True)
class KeyNumber:
    """One headline: what it is, the number, where it was found."""

    label: str
    text: str
    detail: str
    value: Raw = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class KeyNumbers:
    """The headline block."""

    items: tuple[KeyNumber, ...]


Block: TypeAlias = Text | Bullets | Remarks | HowToRead | CodeBlock | Table | Figure | KeyNumbers


@dataclass(frozen=True, slots=True)
class Section:
    """A chapter: blocks, then sub-sections. `id` is its anchor; `folded` sub-sections open on demand."""

    id: str
    title: str
    blocks: tuple[Block, ...] = ()
    sections: "tuple[Section, ...]" = ()
    folded: bool = False

    def walk(self) -> "Iterator[Section]":
        """Yield this section and all below it, in reading order."""
        yield self
        for section in self.sections:
            yield from section.walk()


def explained(chapter: Section) -> Section:
    """Put the definitions of a chapter, and of all tables and figures in it, into one block at the end of its own.

    A definition of some of the tables names them; where tables of one title have several, by their sections too.
    """
    owners: dict[str, list[tuple[str, str]]] = {}
    for section in chapter.walk():
        for block in section.blocks:
            if isinstance(block, HowToRead):
                owners |= {text: [] for text in block.items}
            elif isinstance(block, Table | Figure) and (text := block.how_to_read):
                owners.setdefault(text, []).append((section.title, block.title.partition(" (")[0]))
    if not owners:
        return chapter
    kept = (block for block in chapter.blocks if not isinstance(block, HowToRead))
    titles = {text: {title for _, title in found} for text, found in owners.items()}
    several = Counter(title for found in titles.values() for title in found)

    def named(text: str) -> str:
        if len(owners) == 1 or not owners[text]:
            return text
        if any(several[title] > 1 for title in titles[text]):
            places = dict.fromkeys(f"{section}, {title}" for section, title in owners[text])
            return f"{'; '.join(places)}: {text}"
        return f"{owners[text][0][1]}: {text}" if len(titles[text]) == 1 else text

    return replace(chapter, blocks=(*kept, HowToRead(tuple(map(named, owners)))))


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report. `facts` are the identity line under the title: (what, value)."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    generator: str = f"rooflens {__version__}"
    source: str = ""
    """Where the numbers come from: the run folder's name, shown wherever something is left out."""
    elsewhere: str = "The JSON form of the report has everything."
    """Where to find what is left out of a page that would be too large."""
    coverage: Coverage | None = None
    """What became of the cells, of the report of one run."""
    notes: dict[str, int] = field(init=False)
    """Every distinct footnote text, numbered once for the whole report."""

    def __post_init__(self) -> None:
        texts = dict.fromkeys(text for section in self.sections for part in section.walk() for text in note_texts(part))
        object.__setattr__(self, "notes", {text: number for number, text in enumerate(texts, start=1)})
        seen: set[str] = set()
        for section in self.walk():
            for anchor in (section.id, *(block.id for block in section.blocks if isinstance(block, Table | Figure))):
                if anchor in seen:
                    raise ValueError(f"anchor {anchor!r} appears twice in the report")
                seen.add(anchor)

    def walk(self) -> Iterator[Section]:
        """Yield every section in reading order."""
        for section in self.sections:
            yield from section.walk()

    def notes_of(self, section: Section) -> dict[int, str]:
        """Footnotes used by the blocks of `section` itself (not its sub-sections), by number."""
        return dict(sorted((self.notes[text], text) for text in note_texts(section)))


def note_texts(section: Section) -> Iterator[str]:
    """Yield the footnote texts of a section's own blocks in order of use, with repeats."""
    for block in section.blocks:
        yield from (text for text in _block_notes(block) if text)


def _block_notes(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        yield from (column.note for column in block.columns)
        yield from (cell.note for row in block.rows for cell in row)
    elif isinstance(block, KeyNumbers):
        yield from (item.note for item in block.items)
    elif isinstance(block, Text):
        yield block.note
