"""Renders a Report as GitHub markdown for a pull request: the headline, one table, one figure, and folded chapters.

GitHub's limit is 65,536 characters, and it drops `<svg>`, `<style>` and data URIs, so figures are files beside it.
Listings of all cells are left to the page. When the rest is longer than `LIMIT`, detail blocks are left out, the last
ones first, then other blocks; each place says what, and that the page has it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from ..figures.chart import Figure
from ..formatting import some
from ..model import Block, Bullets, HowToRead, KeyNumbers, Remarks, Report, Section, Table, Text
from . import figure_file
from .markdown_blocks import FOLD_END, data_path, escape, fold_begin, footnotes, image_path, written
from .visible import visible

LIMIT = 60_000
"""Characters of a body."""

OPEN_ROWS = 50
"""Rows of a table that may stand unfolded under the headline."""

Place: TypeAlias = tuple[str, int]
"""A block: the id of its section and its position there."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text, and the figures that it shows."""

    text: str
    figures: tuple[Figure, ...]


def files(report: Report, path: Path, ascii_only: bool) -> dict[Path, bytes]:
    """Render for `path`: images and numbers of figures, and the text."""
    rendered = render(_with_figures_of(path, report), ascii_only=ascii_only)
    found: dict[Path, bytes] = {}
    for figure in rendered.figures:
        found[path.parent / image_path(figure)] = figure_file.draw(figure)
        if figure.data is not None:
            found[path.parent / data_path(figure)] = figure.data.csv().encode("utf-8", "backslashreplace")
    return found | {path: rendered.text.encode("utf-8")}


def _with_figures_of(path: Path, report: Report) -> Report:
    """Name the figures after the file, or those of two reports in one folder would be one; report.md has them as is."""

    def named(section: Section) -> Section:
        blocks = (
            replace(one, id=f"{path.stem}-{one.id}") if isinstance(one, Figure) else one for one in section.blocks
        )
        return replace(section, blocks=tuple(blocks), sections=tuple(map(named, section.sections)))

    return report if path.stem == "report" else replace(report, sections=tuple(map(named, report.sections)))


def render(report: Report, limit: int = LIMIT, ascii_only: bool = False) -> Rendered:
    """Return the report in at most `limit` characters.

    `ascii_only`: with plain separators; the texts of the report are then plain already (`plain.as_ascii`).
    """
    report, dot = in_short(without_listings(report)), "-" if ascii_only else "·"
    whole = [(section, index) for section in report.walk() for index, _ in enumerate(section.blocks)]
    detail = [at for at in whole if _is_detail(at[0].blocks[at[1]])]
    plain = [at for at in whole if at not in detail and isinstance(at[0].blocks[at[1]], Table | Figure | Bullets)]
    rest = [at for at in whole if at not in detail and at not in plain]
    movable = [*reversed(detail), *reversed(plain), *reversed(rest)]
    sizes = [len(written(section.blocks[index])) for section, index in movable]

    left: set[Place] = set()
    text = visible(_text(report, left, dot))
    while (excess := len(text) - limit) > 0 and len(left) < len(movable):
        for (section, index), size in zip(movable[len(left) :], sizes[len(left) :], strict=True):
            if excess <= 0:
                break
            left.add((section.id, index))
            excess -= size
        text = visible(_text(report, left, dot))
    text = within(text, limit, f"the rest. {_elsewhere(report)}")
    figures = tuple(
        block
        for section in report.walk()
        for index, block in enumerate(section.blocks)
        if isinstance(block, Figure) and (section.id, index) not in left
    )
    return Rendered(text, figures)


def render_section(section: Section, limit: int = LIMIT) -> str:
    """Return one section as a comment of at most `limit` characters; one that is longer says that it was cut."""
    text = visible("\n".join(_standing_alone(section, 2)).rstrip("\n") + "\n")
    return within(text, limit, "the rest; --json has all of it.")


def without_listings(report: Report) -> Report:
    """Leave the listings of cells to the page, with what defines their terms, and say so in their chapter."""
    source = f" of {report.source}" if report.source else ""
    where = Text(f"Every cell, with its interval and its rates, is in the HTML report and in the CSV files{source}.")
    return replace(report, sections=tuple(_without_listings(section, where) for section in report.sections))


def _without_listings(chapter: Section, where: Text) -> Section:
    listings = [block for part in chapter.walk() for block in part.blocks if isinstance(block, Table) and block.listing]
    if not listings:
        return chapter
    defined = tuple({table.how_to_read for table in listings})
    shortened = _without(chapter, listings)
    blocks: list[Block] = []
    for block in shortened.blocks:
        if isinstance(block, HowToRead):
            items = tuple(item for item in block.items if not item.endswith(defined))
            blocks += [HowToRead(items)] * bool(items)
        else:
            blocks.append(block)
    return replace(shortened, blocks=(*blocks, where))


def in_short(report: Report) -> Report:
    """Put the first table and the first figure under the headline, the first chapter: the other chapters are folded.

    Neither is a detail. A first table of more than `OPEN_ROWS` is folded too.
    """
    blocks = [block for section in report.walk() for block in section.blocks if not _is_detail(block)]
    tables = [block for block in blocks if isinstance(block, Table)][:1]
    figures = [block for block in blocks if isinstance(block, Figure)]
    short = [table for table in tables if len(table.rows) <= OPEN_ROWS]
    lead: list[Block] = [*short, *figures[:1]]
    if not report.sections:
        return report
    first, *others = (_without(section, lead) for section in report.sections)
    verdict = [block for block in first.blocks if isinstance(block, KeyNumbers)]
    rest = [block for block in first.blocks if not isinstance(block, KeyNumbers | HowToRead)]
    folded = [section for section in others if not _only_defines(section)]
    defining = [first, *(section for section in others if _only_defines(section))]
    defined = [block for section in defining for block in section.blocks if isinstance(block, HowToRead)]
    how = HowToRead(tuple(dict.fromkeys(item for block in defined for item in block.items)))
    ordered = (*verdict, *lead, *rest, *((how,) if defined else ()))
    return replace(report, sections=(replace(first, blocks=ordered), *folded))


def _only_defines(section: Section) -> bool:
    """True where nothing but definitions is left of a chapter, or nothing at all."""
    return not section.sections and all(isinstance(block, HowToRead) for block in section.blocks)


def _without(section: Section, lead: Sequence[Block]) -> Section:
    return replace(
        section,
        blocks=tuple(block for block in section.blocks if not any(block is one for one in lead)),
        sections=tuple(_without(part, lead) for part in section.sections),
    )


def within(text: str, limit: int, left_out: str) -> str:
    """Return a body of at most `limit` characters: of a longer one the first lines, what they fold closed."""
    if len(text) <= limit:
        return text
    end = f"\n\n*Left out for length: {left_out}*\n"
    kept = text[: max(0, limit - len(end) - 100)].rsplit("\n", 1)[0]
    return kept + f"\n\n{FOLD_END}" * (kept.count("<details>") - kept.count(FOLD_END)) + end


def _standing_alone(section: Section, level: int) -> Iterator[str]:
    if section.folded:
        yield f"{fold_begin(section.title)}\n"
    elif section.title:
        yield f"{'#' * level} {escape(section.title)}\n"
    yield from map(written, section.blocks)
    for part in section.sections:
        yield from _standing_alone(part, level + 1)
    if section.folded:
        yield f"{FOLD_END}\n"


def _is_detail(block: Block) -> bool:
    return isinstance(block, Table | Figure) and block.detail


def _text(report: Report, left: Collection[Place], dot: str) -> str:
    """Return the whole text without the blocks in `left`, which are named where they would stand."""
    facts = f" {dot} ".join(f"{escape(name)}: **{escape(value)}**" for name, value in report.facts)
    lines = [f"# {escape(report.title)}", "", facts, ""]
    for section in report.sections[:1]:
        lines += _content(report, section, left, 2)
    for section in report.sections[1:]:
        lines += (fold_begin(section.title), "", *_content(report, section, left, 2), FOLD_END, "")
    source = f" from `{report.source}`" if report.source else ""
    lines += ["---", f"{escape(report.generator)}{source}. Every number can be recomputed from that run's CSV files."]
    return "\n".join(lines) + "\n"


def _elsewhere(report: Report) -> str:
    """Say where what is left out can be found."""
    source = f" of `{report.source}`" if report.source else ""
    return f"It is in the HTML report and in the CSV files{source}."


def _content(report: Report, section: Section, left: Collection[Place], level: int) -> Iterator[str]:
    missing: list[str] = []
    kept = []
    for index, block in enumerate(section.blocks):
        if isinstance(block, Table | Figure):  # the heading above says it
            block = replace(block, title=block.title.removesuffix(f" ({section.title})"))
        if (section.id, index) in left:
            missing.append(_title(block))
        else:
            kept.append(block)
            yield written(block, report.notes.__getitem__)
    if notes := report.notes_of(Section(section.id, section.title, tuple(kept))):
        yield from (*footnotes(notes), "")
    for child in section.sections:
        if not child.sections and all((child.id, index) in left for index, _ in enumerate(child.blocks)):
            missing.append(f"{child.title} (all of it)")
        else:
            yield from (f"{'#' * (level + 1)} {escape(child.title)}", "")
            yield from _content(report, child, left, min(level + 1, 5))
    if missing:
        named = escape(some(list(dict.fromkeys(missing)), 6, "; "))
        yield from (f"*Left out for length: {named}. {_elsewhere(report)}*", "")


def _title(block: Block) -> str:
    if isinstance(block, Table | Figure):
        return block.title
    return "a list" if isinstance(block, Bullets | Remarks) else "a text"
