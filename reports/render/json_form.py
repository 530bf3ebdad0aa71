"""Renders a Report as JSON for programs: sections, tables with raw and shown values, figures with their data.

The form is described in docs/reports.md. Values are in base units; what is unknown or not finite is null, and its text
says what it is. Keys stand in the same order every time.
"""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..figures.chart import Data, Figure, Raw
from ..model import (
    Block,
    Bullets,
    CodeBlock,
    Column,
    HowToRead,
    KeyNumber,
    KeyNumbers,
    Remarks,
    Report,
    Section,
    Table,
    TableCell,
    Text,
)

FORM = "rooflens-report-1"
"""Name of this form, for readers that must tell it from a later one."""


def files(report: Report, path: Path, ascii_only: bool) -> dict[Path, bytes]:
    """Render for `path`."""
    return {path: render(report, ascii_only).encode("utf-8")}


def printed(report: Report, width: int, colour: bool, ascii_only: bool) -> str:
    """Render for stdout, which has neither width nor colours to a program."""
    return render(report, ascii_only)


def render(report: Report, ascii_only: bool = False) -> str:
    """Return the report as indented JSON, a row of a table per line."""
    text = _written(tree(report), "", ascii_only) + "\n"
    if not ascii_only and any(0xD800 <= ord(sign) <= 0xDFFF for sign in text):  # no bytes stand for half a pair
        return render(report, ascii_only=True)
    return text


def tree(report: Report) -> dict[str, Any]:
    """Return the report as what JSON knows: dictionaries, lists, texts, numbers, None."""
    return {
        "form": FORM,
        "title": report.title,
        "facts": dict(report.facts),
        "coverage": asdict(report.coverage) if report.coverage else None,
        "generator": report.generator,
        "source": report.source,
        "notes": {str(number): text for text, number in report.notes.items()},
        "sections": [_section(report, section) for section in report.sections],
    }


def _section(report: Report, section: Section) -> dict[str, Any]:
    return {
        "id": section.id,
        "title": section.title,
        "blocks": [_block(report, block) for block in section.blocks],
        "sections": [_section(report, child) for child in section.sections],
    }


def _block(report: Report, block: Block) -> dict[str, Any]:
    match block:
        case Text():
            return {"kind": "text", "text": block.text, **_noted(report, block.note)}
        case Remarks():
            return {"kind": "list", "items": list(block.items)}
        case HowToRead():
            return {"kind": "how to read", "items": list(block.items)}
        case Bullets():
            checked = {"checked": list(block.checked)} if block.checked else {}
            return {"kind": "list", "items": list(block.items), **checked}
        case CodeBlock():
            return {"kind": "code", "language": block.language, "text": block.text}
        case KeyNumbers():
            return {"kind": "key numbers", "items": [_key_number(report, item) for item in block.items]}
        case Figure():
            return _figure(block)
        case Table():
            return _table(report, block)


def _key_number(report: Report, item: KeyNumber) -> dict[str, Any]:
    return {
        "label": item.label,
        "text": item.text,
        "value": _number(item.value),
        "detail": item.detail,
        **_noted(report, item.note),
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "kind": "figure",
        "id": figure.id,
        "title": figure.title,
        "finding": figure.alt,
        "how to read": figure.how_to_read,
        "caption": figure.caption,
        "data": _data(figure.data) if figure.data is not None else None,
    }


def _data(data: Data) -> dict[str, Any]:
    return {"columns": list(data.columns), "rows": [[_number(value) for value in row] for row in data.rows]}


def _table(report: Report, table: Table) -> dict[str, Any]:
    return {
        "kind": "table",
        "id": table.id,
        "title": table.title,
        "reading": table.reading,
        **({"how to read": table.how_to_read} if table.how_to_read else {}),
        "detail": table.detail,
        "footer": table.footer,
        "columns": [_column(report, column) for column in table.columns],
        "rows": [[_cell(report, cell) for cell in row] for row in table.rows],
    }


def _column(report: Report, column: Column) -> dict[str, Any]:
    unit = {"unit": column.unit} if column.unit else {}
    return {"header": column.header, **unit, **_noted(report, column.note)}


def _cell(report: Report, cell: TableCell) -> dict[str, Any]:
    tone = {"tone": cell.tone.value} if cell.tone else {}
    link = {"link": cell.link} if cell.link else {}
    return {"text": cell.text, "value": _number(cell.value), **link, **tone, **_noted(report, cell.note)}


def _noted(report: Report, note: str) -> dict[str, Any]:
    return {"note": report.notes[note]} if note else {}


def _number(value: Any) -> Raw:
    """A number that JSON has; numpy's become Python's."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    number: Raw = value.item()  # of numpy
    return number


def _written(value: Any, indent: str, ascii_only: bool) -> str:
    """Write objects and lists line by line, but what holds no further list on one line."""
    if not _holds_lists(value):
        return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)
    inner = indent + " "
    if isinstance(value, dict):
        items = [
            f"{json.dumps(key, ensure_ascii=ascii_only)}: {_written(one, inner, ascii_only)}"
            for key, one in value.items()
        ]
        opening, closing = "{", "}"
    else:
        items = [_written(one, inner, ascii_only) for one in value]
        opening, closing = "[", "]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}{closing}"


def _holds_lists(value: Any) -> bool:
    """True for what is worth several lines: a list of lists or of objects, an object with such a list or an object."""
    if isinstance(value, dict):
        return any(isinstance(one, list | dict) and one for one in value.values())
    return isinstance(value, list) and any(_holds_lists(one) or isinstance(one, list) for one in value)
